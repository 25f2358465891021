// SPDX-License-Identifier: GPL-2.0-only
//! The simulator: the same seed makes the same run, nothing is lost, and the rules promise in it what they
//! promise by themselves (R3, R1, R9). Counters, places and affinity are asserted by the simulator itself, in
//! every run; here they are given many machines to fail on.

use proptest::prelude::*;
use scx_ballast::machine::{CpuDesc, Machine, MachineBuilder};
use scx_ballast::policy::compile::{Limits, Thresholds};
use scx_ballast::policy::limits::excess;
use scx_ballast::policy::record::{Record, Replay};
use scx_ballast::policy::rule_set::RuleSet;
use scx_ballast::sim::extras::{Evidence, Extras};
use scx_ballast::sim::hardware::{Hardware, Params};
use scx_ballast::sim::outcome::Outcome;
use scx_ballast::sim::program::{Mark, Op, Plan};
use scx_ballast::sim::runs::Job;
use scx_ballast::sim::workload::Workload;
use scx_ballast::sim::world::{Setup, SimError};

const MS: u64 = 1_000_000;
const HOUR: u64 = 3600 * 1000 * MS;

/// Work is to the digit what the program says.
fn exact() -> Params {
    Params {
        jitter_permille: 0,
        timer_slack_ns: 0,
        run_permille: 0,
        random_phase: false,
        ..Params::default()
    }
}

fn uniform(nodes: u32, llcs: u32, cores: u32, threads: u32) -> Machine {
    let builder = MachineBuilder::uniform(nodes, llcs, cores, threads);
    builder.build().expect("a machine")
}

/// Nodes of these sizes, one LLC each.
fn unequal(weights: &[u32]) -> Machine {
    let mut builder = MachineBuilder::new();
    let mut id = 0;
    for (node, &weight) in (0..).zip(weights) {
        builder.node(node, None);
        for _ in 0..weight {
            builder.cpu(CpuDesc {
                id,
                node,
                llc: node,
                core: id,
                level: Some(3),
                little: false,
            });
            id += 1;
        }
    }
    builder.build().expect("a machine")
}

fn setup(hw: &Hardware, set: RuleSet) -> Setup {
    Setup {
        limits: Limits::compile(set, Thresholds::default(), &hw.nodes),
        slice_ns: 5 * MS,
        slice_min_ns: MS,
        pull_delay_ns: MS / 2,
        sync_ns: MS / 10,
        newborn_ns: 1000 * MS,
        newborn_work_ns: 5 * MS,
        balance_ns: 100 * MS,
        extras: Extras::default(),
    }
}

fn workload(text: &str, hw: &Hardware) -> Plan {
    text.parse::<Workload>().expect("a workload").plan(hw)
}

fn job<'a>(hw: &'a Hardware, setup: &'a Setup, plan: &'a Plan) -> Job<'a> {
    Job {
        hw,
        setup,
        plan,
        most_ns: HOUR,
    }
}

/// One run under our rules.
fn run(hw: &Hardware, plan: &Plan) -> Outcome {
    let setup = setup(hw, RuleSet::Ballast);
    job(hw, &setup, plan).run(1).expect("it ends")
}

fn moves(outcome: &Outcome) -> u64 {
    outcome.moves.excess + outcome.moves.utilisation
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let hw = Hardware::new(&uniform(2, 2, 4, 2), Params::default());
    let mut setup = setup(&hw, RuleSet::Ballast);
    // So that the balancer has something to do as well.
    setup.newborn_ns = 0;
    let plan = workload("mpi:12,iterations=20", &hw);
    let job = job(&hw, &setup, &plan);
    let (outcome, trace) = job.run_recorded(7).unwrap();
    let ticks = trace
        .iter()
        .filter(|record| matches!(record, Record::Tick(_)));
    assert!(ticks.count() > 0 && moves(&outcome) > 0, "{outcome:?}");
    assert_eq!(
        job.run_recorded(7).unwrap(),
        (outcome.clone(), trace.clone())
    );
    assert_ne!(job.run_recorded(8).unwrap().1, trace);
    // Side by side as one after the other, and in the order of the seeds.
    let many = job.run_many(5, 6).unwrap();
    let singly: Vec<Outcome> = (5..11).map(|seed| job.run(seed).unwrap()).collect();
    assert_eq!(many, singly);
    assert_eq!(many[2], outcome, "recording changes nothing");
}

/// What the simulator decided is what the policy decides.
#[test]
fn its_decisions_replay() {
    let hw = Hardware::new(&uniform(4, 2, 3, 2), Params::default());
    for set in RuleSet::ALL {
        let mut setup = setup(&hw, set);
        setup.newborn_ns = 0;
        let plan = workload("fork-burst:40,spin_ms=300", &hw);
        let (outcome, trace) = job(&hw, &setup, &plan).run_recorded(3).unwrap();
        let mut replay = Replay::default();
        for record in trace {
            replay
                .check(record)
                .unwrap_or_else(|why| panic!("{set}: {why}"));
        }
        assert_eq!(replay.forks, 40);
        assert_eq!(replay.moves, moves(&outcome), "{set}");
    }
}

#[test]
fn what_does_not_end_is_told() {
    let hw = Hardware::new(&uniform(1, 1, 2, 1), exact());
    let setup = setup(&hw, RuleSet::Ballast);
    let mut plan = Plan::default();
    let silent = plan.pipe(1);
    let reader = plan.program(vec![Op::Compute(MS), Op::Receive(silent)]);
    plan.root = plan.parent([reader, reader], MS);
    let stuck = job(&hw, &setup, &plan).run(1);
    let told = "3 tasks are asleep and nobody is left to wake them; waiting for a message from pipe 0: \
                program 0 (tasks 1, 2); for children: program 1 (task 0)";
    assert_eq!(stuck.unwrap_err().to_string(), told);

    let mut plan = Plan::default();
    plan.root = plan.program(vec![Op::Sleep(HOUR + 1)]);
    let long = job(&hw, &setup, &plan).run(1);
    assert!(
        matches!(long, Err(SimError::TooLong { live: 1, .. })),
        "{long:?}"
    );
}

/// Children that sleep and then work for long, of a parent that goes on working.
fn burst(tasks: usize, sleep_ms: u64) -> Plan {
    let mut plan = Plan::default();
    let child = plan.program(vec![
        Op::Compute(MS / 10),
        Op::Sleep(sleep_ms * MS),
        Op::Mark(Mark::First),
        Op::Compute(2000 * MS),
    ]);
    let starts = std::iter::repeat_n([Op::Compute(MS / 5), Op::Fork(child)], tasks);
    let ops = starts.flatten().chain([Op::Compute(1500 * MS)]).collect();
    plan.root = plan.program(ops);
    plan
}

/// Moves that are decided while all of a [`burst`] run; its parent is the first to end.
fn moves_of_burst(hw: &Hardware, setup: &Setup, tasks: usize, sleep_ms: u64) -> usize {
    let plan = burst(tasks, sleep_ms);
    let (_, trace) = job(hw, setup, &plan).run_recorded(1).unwrap();
    let ticks = trace.iter().filter_map(|record| match record {
        Record::Tick(tick) if tick.observation.at <= 1400 * MS => Some(tick),
        _ => None,
    });
    ticks.map(|tick| tick.decisions.moves.len()).sum()
}

#[test]
fn a_lone_pair_stays_together_where_that_is_tolerated() {
    let mut plan = Plan::default();
    let work = [Op::Mark(Mark::First), Op::Compute(1000 * MS)];
    let child = plan.program(work.to_vec());
    plan.root = plan.program([&[Op::Fork(child)], &work[..]].concat());
    // imb_numa_nr is 2 on nodes of 16 CPUs and 1 on nodes of 8.
    for (cores, together) in [(16, true), (8, false)] {
        let hw = Hardware::new(&uniform(2, 1, cores, 1), exact());
        let outcome = run(&hw, &plan);
        assert_eq!(outcome.last.contains(&2), together, "{cores}: {outcome:?}");
        assert_eq!(moves(&outcome), 0);
    }
}

/// Tasks that may use only the first node, and then all.
fn induced(hw: &Hardware, tasks: usize, confined_ms: u64, free_ms: u64) -> Plan {
    let mut plan = Plan {
        sets: vec![hw.cpus_of_node(0).collect()],
        ..Plan::default()
    };
    let child = plan.program(vec![
        Op::Confine(Some(0)),
        Op::Mark(Mark::First),
        Op::Compute(confined_ms * MS),
        Op::Confine(None),
        Op::Compute(free_ms * MS),
    ]);
    plan.root = plan.parent(std::iter::repeat_n(child, tasks), MS / 10);
    plan
}

/// The moves that two nodes need: half of the excess, until that is 1 or tolerated.
fn moves_needed(hw: &Hardware, tasks: u32) -> u64 {
    let (mut counts, weight) = ([tasks, 0], &hw.shape.weight);
    let mut moves = 0;
    loop {
        let e = excess(counts[0], weight[0], counts[1], weight[1]);
        if e <= 1 || (e <= 2 && counts[0] <= hw.nodes[0].imb_numa_nr) {
            return moves;
        }
        moves += e / 2;
        counts[0] -= (e / 2) as u32;
        counts[1] += (e / 2) as u32;
    }
}

#[test]
fn an_induced_imbalance_takes_the_moves_that_it_needs() {
    for (weights, most) in [(vec![8, 8], 8), (vec![16, 16], 7), (vec![5, 3], 5)] {
        let hw = Hardware::new(&unequal(&weights), exact());
        for tasks in 1..=most {
            let plan = induced(&hw, tasks, 500, 1500);
            let outcome = run(&hw, &plan);
            assert_eq!(outcome.first, [tasks as u32, 0], "{weights:?}");
            let needed = moves_needed(&hw, tasks as u32);
            assert_eq!(
                moves(&outcome),
                needed,
                "{tasks} on {weights:?}: {outcome:?}"
            );
            assert_eq!(u64::from(outcome.last[1]), needed, "they stay");
            // Whom the limits moved, and who was born elsewhere and then confined, went once; nobody
            // else was in a queue.
            let went = needed + u64::from(outcome.birth[1]);
            assert_eq!(
                (outcome.node_migrations, outcome.waits),
                (went, went),
                "{outcome:?}"
            );
        }
    }
}

/// R9 without a balancer: two CPUs have four tasks, and two others are idle once the tasks may use them.
#[test]
fn idle_cpus_take_waiting_tasks() {
    let hw = Hardware::new(&uniform(2, 1, 2, 1), exact());
    let mut setup = setup(&hw, RuleSet::Ballast);
    setup.balance_ns = 0;
    let plan = induced(&hw, 4, 100, 400);
    let outcome = job(&hw, &setup, &plan).run(1).unwrap();
    assert!(outcome.pulls_remote >= 2, "{outcome:?}");
    // 4 x 100 ms on two CPUs, then 400 ms on four; on two it would be another 400 ms.
    assert!(outcome.wall_ns < 640 * MS, "{outcome:?}");
    assert!(outcome.late_ns_max <= 2 * MS, "{outcome:?}");
}

/// Both threads of a core are slower than one; memory is where it was touched, and a crowded node is slow.
#[test]
fn where_tasks_are_shows_in_their_time() {
    let hog = |tasks: usize| {
        let mut plan = Plan::default();
        let child = plan.program(vec![Op::Compute(60 * MS)]);
        plan.root = plan.parent(std::iter::repeat_n(child, tasks), MS / 10);
        plan
    };
    // Three cores for the parent and its two children, all of which begin on a core of their own.
    let hw = Hardware::new(&uniform(1, 1, 3, 2), exact());
    let (two, six) = (run(&hw, &hog(2)).wall_ns, run(&hw, &hog(6)).wall_ns);
    assert!(
        two < 61 * MS && (100 * MS..102 * MS).contains(&six),
        "{two} {six}"
    );

    // One core: 60 ms of work beside another task take 100 ms, and what that has left then goes faster.
    let hw = Hardware::new(&uniform(1, 1, 1, 2), exact());
    let mut plan = Plan::default();
    let [short, long] = [60, 120].map(|work| plan.program(vec![Op::Compute(work * MS)]));
    plan.root = plan.parent([short, long], MS / 10);
    let wall = run(&hw, &plan).wall_ns;
    assert!((159 * MS..162 * MS).contains(&wall), "{wall}");

    // A node that gives what one task asks for: 60 ms for each of two take 120 ms, and the rest is alone.
    let hw = Hardware::new(&uniform(1, 1, 8, 1), exact());
    let mut plan = Plan::default();
    let intensity = 1_000_000;
    let [short, long] = [60, 120].map(|ms| {
        let work = ms * MS;
        plan.program(vec![Op::Touch { work, intensity }])
    });
    plan.root = plan.parent([short, long], MS / 10);
    let wall = run(&hw, &plan).wall_ns;
    assert!((179 * MS..182 * MS).contains(&wall), "{wall}");

    let hw = Hardware::new(&uniform(2, 1, 16, 1), exact());
    let plan = workload("mpi:8,iterations=20", &hw);
    let mut unseen = setup(&hw, RuleSet::Ballast);
    unseen.newborn_ns = 0;
    let crowded = job(&hw, &unseen, &plan).run(1).unwrap();
    let spread = run(&hw, &plan);
    assert_eq!(spread.local_permille, Some(1000));
    assert!(crowded.local_permille < Some(1000), "{crowded:?}");
    assert!(crowded.run_ns > spread.run_ns, "{crowded:?} {spread:?}");
}

/// Without R6 the sleepers pile up, and the balancer has to undo it.
#[test]
fn unseen_sleepers_break_what_r3_promises() {
    let hw = Hardware::new(&uniform(2, 1, 8, 1), exact());
    let mut setup = setup(&hw, RuleSet::Ballast);
    assert_eq!(moves_of_burst(&hw, &setup, 10, 50), 0);
    setup.newborn_ns = 0;
    assert!(moves_of_burst(&hw, &setup, 10, 50) > 0);
}

/// Machines of equal nodes of all kinds, and of unequal ones.
fn machines() -> impl Strategy<Value = Machine> {
    let equal = (2u32..6, 1u32..4, 1u32..6, 1u32..3)
        .prop_map(|(nodes, llcs, cores, threads)| uniform(nodes, llcs, cores, threads));
    let other = prop::collection::vec(1u32..20, 2..6).prop_map(|weights| unequal(&weights));
    prop_oneof![equal, other]
}

fn workloads() -> impl Strategy<Value = String> {
    prop_oneof![
        (1u32..40).prop_map(|n| format!("fork-burst:{n},spin_ms=120")),
        (1u32..30, 0u32..1001)
            .prop_map(|(n, m)| format!("mpi:{n},iterations=10,touch_ms=30,memory_permille={m}")),
        (1u32..3).prop_map(|n| format!("hackbench:{n},loops=2")),
        (1u32..30).prop_map(|n| format!("mpi:{n},iterations=5,touch_ms=30,spin=1")),
        (1u32..30).prop_map(|n| format!("stream:{n},runs=1")),
        (1u32..20).prop_map(|n| format!("tbench:{n},requests=20")),
        (1u32..20).prop_map(|n| format!("schbench:{n},rounds=2")),
        (1u32..=10).prop_map(|n| format!("numa{n:02},loops=2,loop_us=2000,touch_us=3000")),
    ]
}

fn extras() -> impl Strategy<Value = Extras> {
    let locality = prop_oneof![
        Just(None),
        Just(Some(Evidence::Exact)),
        Just(Some(Evidence::Sampled))
    ];
    let rates = prop_oneof![Just(0u64), Just(65_536)];
    (locality, rates.clone(), rates, any::<bool>(), any::<bool>()).prop_map(
        |(locality, bring_rate, page_rate, hot_first, pulls)| Extras {
            locality,
            bring_rate,
            page_rate,
            hot_first,
            pulls,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Fork and run time agree (R3): what forks make of a tolerated state the balancer leaves alone.
    #[test]
    fn forks_make_what_the_balancer_leaves_alone(
        machine in machines(),
        share in 1usize..=100,
        sleep_ms in prop_oneof![Just(0u64), 1u64..100],
    ) {
        let hw = Hardware::new(&machine, exact());
        // With the parent there are not more tasks than CPUs.
        let tasks = (hw.nr_cpus() - 1) * share / 100;
        let setup = setup(&hw, RuleSet::Ballast);
        prop_assert_eq!(moves_of_burst(&hw, &setup, tasks, sleep_ms), 0);
    }

    /// Nobody is lost, whatever the machine, the workload and the rules.
    #[test]
    fn all_come_to_their_end(
        machine in machines(),
        workload in workloads(),
        set in prop::sample::select(RuleSet::ALL.to_vec()),
        newborns in any::<bool>(),
        pull_delay_ns in prop_oneof![Just(0u64), Just(MS / 2), Just(20 * MS)],
        extras in extras(),
        seed in any::<u64>(),
    ) {
        let hw = Hardware::new(&machine, Params::default());
        let mut setup = setup(&hw, set);
        setup.newborn_ns *= u64::from(newborns);
        setup.pull_delay_ns = pull_delay_ns;
        setup.extras = extras;
        let workload: Workload = workload.parse().unwrap();
        let plan = workload.plan(&hw);
        let outcome = job(&hw, &setup, &plan).run(seed).unwrap();
        let all = outcome.forks.least + outcome.forks.tolerated + outcome.forks.full_local + outcome.forks.full;
        // Parents of tasks are no tasks of the workload themselves, but for STREAM's first thread.
        for counts in [&outcome.birth, &outcome.first, &outcome.last] {
            let counted = u64::from(counts.iter().sum::<u32>());
            prop_assert!(counted > 0 && counted <= all + 1);
        }
        prop_assert!(outcome.run_ns > 0 && outcome.run_ns <= outcome.wall_ns);
    }

    /// The same where tasks may use only some CPUs for a while.
    #[test]
    fn affinity_is_kept(
        machine in machines(),
        tasks in 1usize..20,
        picks in prop::collection::vec(any::<u16>(), 1..5),
        set in prop::sample::select(RuleSet::ALL.to_vec()),
    ) {
        let hw = Hardware::new(&machine, Params::default());
        let setup = setup(&hw, set);
        let mut plan = induced(&hw, tasks, 20, 20);
        let mut cpus: Vec<usize> = picks.iter().map(|&pick| usize::from(pick) % hw.nr_cpus()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        plan.sets = vec![cpus];
        let outcome = job(&hw, &setup, &plan).run(1).unwrap();
        prop_assert_eq!(outcome.last.iter().sum::<u32>() as usize, tasks);
    }
}
