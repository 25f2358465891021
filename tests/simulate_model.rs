// SPDX-License-Identifier: GPL-2.0-only
//! The simulator's memory, its locality and the rules that can be left out.

use scx_ballast::machine::MachineBuilder;
use scx_ballast::policy::compile::{Limits, Thresholds};
use scx_ballast::policy::record::{Record, Replay};
use scx_ballast::policy::rule_set::RuleSet;
use scx_ballast::sim::extras::{Evidence, Extras};
use scx_ballast::sim::hardware::{Hardware, Params};
use scx_ballast::sim::outcome::Outcome;
use scx_ballast::sim::program::{Channel, Mark, Op, Plan, Whose};
use scx_ballast::sim::runs::Job;
use scx_ballast::sim::workload::Workload;
use scx_ballast::sim::world::Setup;

const MS: u64 = 1_000_000;

/// Two nodes of so many CPUs, and work to the digit.
fn two_nodes(cpus: u32) -> Hardware {
    let params = Params {
        jitter_permille: 0,
        timer_slack_ns: 0,
        run_permille: 0,
        random_phase: false,
        ..Params::default()
    };
    let machine = MachineBuilder::uniform(2, 1, cpus, 1).build();
    Hardware::new(&machine.expect("a machine"), params)
}

fn setup(hw: &Hardware, extras: Extras) -> Setup {
    Setup {
        limits: Limits::compile(RuleSet::Ballast, Thresholds::default(), &hw.nodes),
        slice_ns: 5 * MS,
        slice_min_ns: MS,
        pull_delay_ns: MS / 2,
        sync_ns: MS / 10,
        newborn_ns: 1000 * MS,
        newborn_work_ns: 5 * MS,
        balance_ns: 100 * MS,
        extras,
    }
}

fn run_with(hw: &Hardware, setup: &Setup, plan: &Plan) -> (Outcome, Vec<Record>) {
    let job = Job {
        hw,
        setup,
        plan,
        most_ns: 3600 * 1000 * MS,
    };
    job.run_recorded(1).expect("it ends")
}

fn run(hw: &Hardware, plan: &Plan, extras: Extras) -> Outcome {
    run_with(hw, &setup(hw, extras), plan).0
}

const fn touch(ms: u64) -> Op {
    Op::Touch {
        work: ms * MS,
        intensity: 1_000_000,
    }
}

const fn works(ms: u64) -> Op {
    Op::Memory {
        work: ms * MS,
        intensity: 1_000_000,
    }
}

/// The nodes as sets to be confined to.
fn with_sets(hw: &Hardware) -> Plan {
    Plan {
        sets: vec![hw.cpus_of_node(0).collect(), hw.cpus_of_node(1).collect()],
        ..Plan::default()
    }
}

/// A task that touches memory on node 0 and works on it from node 1, in steps of 100 ms.
fn far_from_memory(hw: &Hardware) -> Plan {
    let mut plan = with_sets(hw);
    plan.root = plan.program(vec![
        Op::Confine(Some(0)),
        touch(100),
        Op::Confine(Some(1)),
        Op::Mark(Mark::Begin),
        works(100),
        Op::Repeat { to: 4, times: 100 },
        Op::Mark(Mark::End),
    ]);
    plan
}

#[test]
fn pages_follow_whoever_uses_them() {
    let hw = two_nodes(4);
    let plan = far_from_memory(&hw);
    let stay = run(&hw, &plan, Extras::default());
    assert_eq!((stay.pages_moved, stay.local_permille), (0, Some(0)));
    // At distance 20 everything takes twice as long.
    assert_eq!(stay.run_ns / MS, 20_000);
    // 51203 pages, as many in five seconds: all are near after some halvings.
    let follow = run(
        &hw,
        &plan,
        Extras {
            page_rate: 10_240,
            ..Extras::default()
        },
    );
    assert!(follow.local_permille > Some(400), "{follow:?}");
    assert!((1..=51_203).contains(&follow.pages_moved), "{follow:?}");
    assert!(follow.run_ns < stay.run_ns * 9 / 10, "{follow:?}");
}

#[test]
fn locality_brings_pages_to_who_may_not_go_to_them() {
    let hw = two_nodes(4);
    let plan = far_from_memory(&hw);
    let sampled = Extras {
        locality: Some(Evidence::Sampled),
        ..Extras::default()
    };
    assert_eq!(
        run(&hw, &plan, sampled).pages_moved,
        0,
        "only if it is told to"
    );
    let extras = Extras {
        bring_rate: 65_536,
        ..sampled
    };
    let (bring, trace) = run_with(&hw, &setup(&hw, extras), &plan);
    // It settles for a second or more first, and is looked at again after an eighth.
    assert!(bring.pages_moved >= 51_203 / 4, "{bring:?}");
    let mut replay = Replay::default();
    for record in trace {
        replay.check(record).expect("what it decided");
    }
    let told = (replay.pages, replay.mismatches);
    assert_eq!(told, (bring.pages_moved, 0), "every batch is in the trace");
    assert!(bring.local_permille > Some(100), "{bring:?}");
    assert!(bring.run_ns < run(&hw, &plan, sampled).run_ns, "{bring:?}");
}

/// Two processes, each with its memory on the other one's node.
fn on_the_wrong_node(hw: &Hardware) -> Plan {
    let mut plan = with_sets(hw);
    let met = plan.barrier(2);
    let tasks = [0, 1].map(|node| {
        plan.program(vec![
            Op::Confine(Some(node)),
            touch(100),
            Op::Confine(Some(1 - node)),
            Op::Barrier(met),
            Op::Confine(None),
            Op::Mark(Mark::First),
            Op::Mark(Mark::Begin),
            works(100),
            Op::Repeat { to: 7, times: 100 },
            Op::Mark(Mark::End),
        ])
    });
    plan.root = plan.parent(tasks, MS);
    plan
}

#[test]
fn tasks_go_to_their_memory() {
    // imb_numa_nr is 2, so for a moment both may be on one node.
    let hw = two_nodes(16);
    let plan = on_the_wrong_node(&hw);
    let off = run(&hw, &plan, Extras::default());
    assert_eq!((off.local_permille, off.steps.tasks()), (Some(0), 0));
    for evidence in [Evidence::Exact, Evidence::Sampled] {
        let extras = Extras {
            locality: Some(evidence),
            ..Extras::default()
        };
        let (on, trace) = run_with(&hw, &setup(&hw, extras), &plan);
        // One tolerated move each, or a swap.
        assert_eq!(on.steps.tasks(), 2, "{evidence:?}: {on:?}");
        assert!(on.local_permille > Some(800), "{evidence:?}: {on:?}");
        assert!(on.run_ns < off.run_ns * 7 / 10, "{evidence:?}: {on:?}");
        let mut replay = Replay::default();
        for record in trace {
            replay.check(record).expect("what it decided");
        }
        assert_eq!((replay.steps, replay.mismatches), (2, 0));
    }
}

/// Threads share their process's memory, and it is where the first one touched it.
#[test]
fn threads_share_memory() {
    let hw = two_nodes(8);
    let mut plan = with_sets(&hw);
    let thread = |plan: &mut Plan, set| {
        plan.program(vec![
            Op::Confine(Some(set)),
            Op::Use(Whose::Process),
            Op::Mark(Mark::First),
            works(50),
        ])
    };
    let threads = [thread(&mut plan, 0), thread(&mut plan, 1)];
    let mut leader = vec![Op::Confine(Some(0)), Op::Use(Whose::Process), touch(10)];
    leader.extend(Op::start_threads(threads.into_iter(), MS / 10));
    leader.push(Op::WaitChildren);
    plan.root = plan.program(leader);
    let outcome = run(&hw, &plan, Extras::default());
    assert_eq!(outcome.local_permille, Some(500), "{outcome:?}");
}

/// R7: a process with much memory that it does not use any more, and little that it works on, on another node.
#[test]
fn what_is_used_is_looked_at_first() {
    let hw = two_nodes(4);
    let mut plan = with_sets(&hw);
    let task = plan.program(vec![
        Op::Confine(Some(0)),
        Op::Use(Whose::Process),
        touch(400),
        Op::Use(Whose::Task),
        Op::Confine(Some(1)),
        touch(100),
        Op::Confine(Some(0)),
        // Until what was touched is cold.
        Op::Sleep(9000 * MS),
        Op::Confine(None),
        Op::Mark(Mark::First),
        works(100),
        Op::Repeat { to: 10, times: 80 },
    ]);
    plan.root = plan.parent([task], MS);
    let with = |hot_first| {
        let extras = Extras {
            locality: Some(Evidence::Sampled),
            hot_first,
            ..Extras::default()
        };
        run(&hw, &plan, extras)
    };
    let (on, off) = (with(true), with(false));
    assert_eq!((on.first, on.last), (vec![1, 0], vec![0, 1]));
    assert_eq!((off.first, off.last), (vec![1, 0], vec![1, 0]));
    assert!(on.local_permille > Some(600) && off.local_permille == Some(0));
}

/// Tasks that may use node 0 alone for a while, and then all.
fn induced(hw: &Hardware, tasks: usize, then: Op) -> Plan {
    let mut plan = with_sets(hw);
    let child = plan.program(vec![
        Op::Confine(Some(0)),
        Op::Compute(150 * MS),
        Op::Confine(None),
        then,
    ]);
    plan.root = plan.parent(std::iter::repeat_n(child, tasks), MS / 10);
    plan
}

/// R9: without it, what waits on a full node waits for the balancer.
#[test]
fn without_r9_nobody_takes_what_waits() {
    let hw = two_nodes(2);
    let plan = induced(&hw, 4, Op::Compute(200 * MS));
    let with = |pulls| {
        let mut setup = setup(
            &hw,
            Extras {
                pulls,
                ..Extras::default()
            },
        );
        setup.balance_ns = 0;
        run_with(&hw, &setup, &plan).0
    };
    let (on, off) = (with(true), with(false));
    assert!(on.pulls_remote > 0 && off.pulls_remote == 0);
    assert!(on.node_migrations > off.node_migrations);
    // Two CPUs for all of it against four in the end.
    assert!(on.wall_ns < off.wall_ns, "{on:?} {off:?}");
}

/// R10: of tasks that hardly run none is moved to even out nodes, unless that is left out.
#[test]
fn without_r10_bystanders_are_moved() {
    let hw = two_nodes(8);
    let mut plan = with_sets(&hw);
    let hog = plan.program(vec![
        Op::Confine(Some(0)),
        Op::Compute(150 * MS),
        Op::Confine(None),
        Op::Compute(1000 * MS),
    ]);
    let daemon = plan.program(vec![
        Op::Confine(Some(0)),
        Op::Sleep(150 * MS),
        Op::Confine(None),
        Op::Compute(MS / 2),
        Op::Sleep(9 * MS),
        Op::Repeat { to: 3, times: 100 },
    ]);
    // The daemons are younger, and of equal ones the younger processes go first.
    let tasks = [hog; 4].into_iter().chain([daemon; 8]);
    plan.root = plan.parent(tasks, MS / 10);
    let bystanders = |spared| {
        let mut setup = setup(&hw, Extras::default());
        setup.limits.no_bystanders = spared;
        let (_, trace) = run_with(&hw, &setup, &plan);
        let mut replay = Replay::default();
        let mut moved = 0;
        for record in &trace {
            replay.check(record.clone()).expect("what it decided");
            let Record::Tick(tick) = record else { continue };
            let of = |slot| tick.observation.tasks.iter().find(|task| task.slot == slot);
            let busy = tick.decisions.moves.iter().filter_map(|one| of(one.slot));
            moved += busy.filter(|task| task.busy < 200).count();
        }
        assert!(replay.moves > 0);
        moved
    };
    assert_eq!(bystanders(true), 0);
    assert!(bystanders(false) > 0);
}

/// What schbench is about: workers that have CPUs wait for none, and those that have not wait.
#[test]
fn wake_ups_are_measured() {
    let hw = two_nodes(4);
    let p99 = |workers: u32| {
        let workload = format!("schbench:{workers},rounds=10");
        let plan = workload.parse::<Workload>().expect("one").plan(&hw);
        run(&hw, &plan, Extras::default()).wake_ns_p99
    };
    assert_eq!(p99(4), Some(0));
    assert!(p99(24) > Some(MS), "{:?}", p99(24));
}

/// A pair over two channels, the wakee on node 1 at first, beside hogs that keep to node 0, as the waker does.
fn pair(hw: &Hardware, sync: bool, hogs: usize, wakee_stays: bool) -> Plan {
    let mut plan = with_sets(hw);
    let channel = Channel { capacity: 1, sync };
    let (there, back) = (plan.channel(channel), plan.channel(channel));
    let confined = |rest: &[Op]| [&[Op::Confine(Some(0))], rest].concat();
    let hog = plan.program(confined(&[Op::Compute(200 * MS)]));
    let waker = plan.program(confined(&[
        Op::Compute(10 * MS),
        Op::Compute(MS / 20),
        Op::Send(there),
        Op::Receive(back),
        Op::Repeat { to: 2, times: 1000 },
        Op::Mark(Mark::First),
    ]));
    let mut wakee = vec![Op::Confine(Some(1)), Op::Confine(None)];
    wakee.truncate(if wakee_stays { 1 } else { 2 });
    let to = wakee.len();
    wakee.extend([
        Op::Receive(there),
        Op::Compute(MS / 20),
        Op::Send(back),
        Op::Repeat { to, times: 1000 },
        Op::Mark(Mark::First),
    ]);
    let wakee = plan.program(wakee);
    let children = std::iter::repeat_n(hog, hogs).chain([wakee, waker]);
    plan.root = plan.parent(children, MS / 10);
    plan
}

#[test]
fn wakees_stay_behind_wakers_that_sleep() {
    let hw = two_nodes(8);
    let run = |plan: &Plan, sync_ns| {
        let setup = Setup {
            balance_ns: 0,
            sync_ns,
            ..setup(&hw, Extras::default())
        };
        let outcome = run_with(&hw, &setup, plan).0;
        (outcome.syncs, outcome.first_spread)
    };
    // All but the last: who has nothing left to say does not wait for an answer.
    let (syncs, spread) = run(&pair(&hw, true, 0, false), MS / 10);
    assert!((1990..=2000).contains(&syncs), "{syncs}");
    assert_eq!(spread, 2, "they come together");
    let apart = (0, 0);
    assert_eq!(run(&pair(&hw, true, 0, false), 0), apart, "never with 0");
    assert_eq!(run(&pair(&hw, false, 0, false), MS / 10), apart, "a futex");
    let narrow = run(&pair(&hw, true, 0, true), MS / 10);
    assert_eq!(narrow, apart, "it may not go there");
    // Five on node 0 and none on the other are not tolerated, as long as the hogs run.
    let (crowded, _) = run(&pair(&hw, true, 4, false), MS / 10);
    assert!(crowded < 200, "{crowded}");
}

/// A waker that works on after it has said that it would sleep is believed some times only; nobody waits for longer
/// than a tick and the limit.
#[test]
fn liars_are_not_believed() {
    let hw = two_nodes(8);
    let mut plan = Plan::default();
    let pipe = plan.pipe(1000);
    let liar = plan.program(vec![
        Op::Send(pipe),
        Op::Compute(5 * MS),
        Op::Sleep(MS),
        Op::Repeat { to: 0, times: 100 },
    ]);
    let wakee = plan.program(vec![
        Op::Receive(pipe),
        Op::Compute(MS / 10),
        Op::Repeat { to: 0, times: 100 },
    ]);
    plan.root = plan.parent([wakee, liar], MS / 10);
    let outcome = run(&hw, &plan, Extras::default());
    // Its average is 50, 87 and 115 us after one, two and three lies.
    assert_eq!(outcome.syncs, 3);
    assert!(outcome.wake_ns_p99 > Some(MS / 10), "{outcome:?}");
    assert!(outcome.wake_ns_p99 < Some(1200 * MS / 1000), "{outcome:?}");
}

/// Three tasks on one CPU that look at the clock are through when it says so, one after the other, not after three times as long.
#[test]
fn who_is_busy_by_the_clock_looks_at_it() {
    let hw = two_nodes(1);
    let mut plan = with_sets(&hw);
    let busy = plan.program(vec![
        Op::Confine(Some(0)),
        Op::Mark(Mark::Begin),
        Op::Busy(100 * MS),
        Op::Mark(Mark::End),
    ]);
    plan.root = plan.parent([busy, busy, busy], MS / 10);
    let outcome = run(&hw, &plan, Extras::default());
    // Who waits then sees it when it has its next turn.
    let ms = outcome.run_ns / MS;
    assert!((100..120).contains(&ms), "{ms}");
}
