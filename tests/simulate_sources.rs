// SPDX-License-Identifier: GPL-2.0-only
//! Workloads from files and traces: what they say is what runs, and what cannot be understood is answered with its line.

use clap::Parser;
use scx_ballast::machine::describe::Source as Description;
use scx_ballast::policy::balance::Decisions;
use scx_ballast::policy::compile::{Limits, Thresholds};
use scx_ballast::policy::observation::{Observation, TaskObs};
use scx_ballast::policy::placement::ForkWhy;
use scx_ballast::policy::record::{ExitRecord, FORMAT, ForkRecord, Header, Record, TickRecord};
use scx_ballast::policy::rule_set::RuleSet;
use scx_ballast::sim::SimulateArgs;
use scx_ballast::sim::hardware::{Hardware, Params};
use scx_ballast::sim::program::{Channel, Mark, Op, Plan, PlanNames, Whose};
use scx_ballast::sim::runs::Job;
use scx_ballast::sim::source::{Source, parse, trace};
use scx_ballast::sim::world::Setup;

const MS: u64 = 1_000_000;

fn hardware(machine: &str) -> Hardware {
    let source: Description = machine.parse().expect("a machine");
    Hardware::new(&source.machine(None).expect("a machine"), Params::default())
}

/// Two nodes of eight CPUs.
fn hw() -> Hardware {
    hardware("2 nodes x 8 cpus")
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    simulate: SimulateArgs,
}

/// The scheduler without a flag.
fn setup(hw: &Hardware) -> Setup {
    let args = Flags::parse_from(["x", "--workload", "mpi:1"]).simulate;
    args.setup_with(&args.policy, &hw.nodes)
}

/// Every statement there is.
const ALL: &str = "
barrier all 3           # tasks that come to it
pipe data 16
queue words 2
nodes second 1
start launcher          # programs may be named before they are written

program launcher
    fork helper 2 500us
    wait
end
program helper
    compute 100us
    sleep 50ms
    exec
    mark first
    touch 40ms 70%
    barrier all
    mark begin
    repeat 10
        memory 2s 100%
        send data
        receive data
    end
    mark end
    confine second
    confine all
    thread part 1 20us
end
program part
    busy 3ms
    use shared
    touch 1ms 7.5%
    use own
    send words
    receive words
    spin all
end
";

#[test]
fn a_file_is_the_plan_that_it_says() {
    let wanted = Plan {
        programs: vec![
            vec![
                Op::Compute(MS / 2),
                Op::Fork(1),
                Op::Compute(MS / 2),
                Op::Fork(1),
                Op::WaitChildren,
            ],
            vec![
                Op::Compute(MS / 10),
                Op::Sleep(50 * MS),
                Op::Exec,
                Op::Mark(Mark::First),
                Op::Touch {
                    work: 40 * MS,
                    intensity: 700_000,
                },
                Op::Barrier(0),
                Op::Mark(Mark::Begin),
                Op::Memory {
                    work: 2000 * MS,
                    intensity: 1_000_000,
                },
                Op::Send(0),
                Op::Receive(0),
                Op::Repeat { to: 7, times: 10 },
                Op::Mark(Mark::End),
                Op::Confine(Some(0)),
                Op::Confine(None),
                Op::Compute(MS / 50),
                Op::Thread(2),
            ],
            vec![
                Op::Busy(3 * MS),
                Op::Use(Whose::Process),
                Op::Touch {
                    work: MS,
                    intensity: 75_000,
                },
                Op::Use(Whose::Task),
                Op::Send(1),
                Op::Receive(1),
                Op::Spin(0),
            ],
        ],
        barriers: vec![3],
        channels: vec![
            Channel {
                capacity: 16,
                sync: true,
            },
            Channel {
                capacity: 2,
                sync: false,
            },
        ],
        sets: vec![(8..16).collect()],
        root: 0,
        names: PlanNames {
            programs: vec!["launcher".into(), "helper".into(), "part".into()],
            barriers: vec!["all".into()],
            channels: vec!["data".into(), "words".into()],
            marks: Some((19, 25)),
        },
    };
    assert_eq!(parse(ALL, &hw()), Ok(wanted));
}

/// Without marks tasks are looked at when they begin, and loops still go back to where they began.
#[test]
fn a_file_without_marks_counts_births() {
    let text = "program a\nrepeat 2\ncompute 1ms\nend\nend\nstart a";
    let plan = parse(text, &hw()).unwrap();
    let wanted = [
        Op::Mark(Mark::First),
        Op::Compute(MS),
        Op::Repeat { to: 1, times: 2 },
    ];
    assert_eq!(plan.programs, [wanted]);
}

/// The built-in burst, written down.
#[test]
fn a_written_workload_runs_as_the_built_in_one() {
    let text = "
        program parent
            fork child 20 200us
            wait
        end
        program child
            compute 100us
            sleep 50ms
            mark first
            mark begin
            compute 200ms
            mark end
        end
        start parent";
    let built_in: Source = "fork-burst:20".parse().unwrap();
    let hw = hw();
    let written = parse(text, &hw).unwrap();
    let built_in = built_in.load(&hw).unwrap().plan;
    // Programs stand in another order.
    assert_eq!(
        written.programs[written.root].len(),
        built_in.programs[built_in.root].len()
    );
    assert_eq!(written.programs[1], built_in.programs[0]);
}

#[test]
fn what_is_not_understood_is_answered_with_its_line() {
    let program = |steps: &str| format!("start a\nprogram a\n{steps}\nend\n");
    for (text, why) in [
        (
            String::new(),
            "line 1: there is no program; expected `program NAME`, steps, `end`",
        ),
        (
            "program a\nend".into(),
            "line 1: nothing says where to begin; expected a line `start PROGRAM`",
        ),
        (
            "start b\nprogram a\nend".into(),
            "line 1: there is no program 'b'; there are a",
        ),
        (
            "start a\nstart a\nprogram a\nend".into(),
            "line 2: there is a second `start`",
        ),
        (
            "compute 1ms".into(),
            "line 1: expected one of program, barrier, pipe, queue, nodes, start, got 'compute'",
        ),
        (
            "program a\ncompute 1ms\n".into(),
            "line 1: program 'a' has no `end`",
        ),
        (
            "program a\nrepeat 2\nend\n".into(),
            "line 1: program 'a' has no `end`",
        ),
        (
            "program a\nrepeat 2\ncompute 1ms\n".into(),
            "line 1: a loop in program 'a' has no `end`",
        ),
        (
            "program a\nprogram b\nend".into(),
            "line 1: program 'a' has no `end`",
        ),
        (
            "program a\nend\nprogram a\nend".into(),
            "line 3: program 'a' is already there, in line 1",
        ),
        (
            "barrier b 0".into(),
            "line 1: expected a number from 1 to 1000000, got '0'",
        ),
        (
            "pipe p".into(),
            "line 1: expected `pipe NAME MESSAGES`, got `pipe p`",
        ),
        (
            "nodes n 0-x".into(),
            "line 1: expected nodes such as 0-1,4, got '0-x'",
        ),
        (
            "nodes n 5".into(),
            "line 1: the machine has no node 5 with CPUs; it has 0-1",
        ),
        (
            program("sleeep 1ms"),
            "line 3: expected one of compute, busy, memory, ",
        ),
        (
            program("compute 20"),
            "line 3: expected a time such as 20ms",
        ),
        (
            program("compute"),
            "line 3: expected `compute TIME`, got `compute`",
        ),
        (
            program("touch 1ms 70"),
            "line 3: expected a share from 0% to 100%, such as 74.1%, got '70'",
        ),
        (
            program("barrier b"),
            "line 3: there is no barrier 'b'; there is none",
        ),
        (program("send p"), "line 3: there is no pipe or queue 'p'"),
        (
            program("use both"),
            "line 3: expected use own or shared, got 'both'",
        ),
        (
            program("spin b"),
            "line 3: there is no barrier 'b'; there is none",
        ),
        (
            program("exec\nthread b\nexec\nend\nprogram b"),
            "line 5: only a process of one thread can `exec`",
        ),
        (
            program("repeat 2\nexec\nthread b\nend\nend\nprogram b"),
            "line 4: only a process of one thread can `exec`",
        ),
        (
            program("exec\nthread b\nend\nprogram b\nexec"),
            "line 7: only a process of one thread can `exec`",
        ),
        (program("confine n"), "line 3: there is no set of nodes 'n'"),
        (
            program("mark middle"),
            "line 3: expected mark first, begin or end, got 'middle'",
        ),
        (
            program("fork b"),
            "line 3: there is no program 'b'; there are a",
        ),
        (
            program("fork a 2 1ms x"),
            "line 3: expected `fork PROGRAM [TIMES [TIME]]`",
        ),
        (program("fork a"), "line 2: program 'a' starts itself again"),
        (program("repeat 2\nrepeat 3"), "line 4: loops do not nest"),
        (
            program("repeat 2\nend\n"),
            "line 4: there is nothing in the loop",
        ),
        (
            program("exec now"),
            "line 3: expected `exec`, got `exec now`",
        ),
        (
            program("repeat 1000\nfork b 1000\nend\nend\nprogram b\nfork c 2\nend\nprogram c"),
            "line 2: it starts 3000001 tasks, and at most 1000000 are run",
        ),
    ] {
        let error = parse(&text, &hw()).expect_err(&text).to_string();
        assert!(error.starts_with(why), "{text}\n{error}");
    }
}

/// mg.D by hand is mg.D: the same operations, one after the other.
#[test]
fn mgd_can_be_written_down() {
    let file = include_str!("fixtures/workloads/mgd.txt");
    let docs = include_str!("../docs/simulation.md");
    assert!(docs.contains(&format!("```text\n{file}```")), "docs");
    let written = parse(file, &hw()).unwrap();
    let built_in: Source = "mgd:16".parse().unwrap();
    let built_in = built_in.load(&hw()).unwrap().plan;
    // The built-in one has its rank first.
    let [launcher, rank] = &written.programs[..] else {
        panic!("{written:?}");
    };
    assert_eq!(*rank, built_in.programs[0]);
    let forks = |ops: &[Op], rank: usize| {
        let is_it = |op: &&Op| **op == Op::Fork(rank);
        ops.iter().filter(is_it).count()
    };
    assert_eq!(forks(launcher, 1), 16);
    assert_eq!(forks(&built_in.programs[1], 0), 16);
    assert_eq!(launcher.len(), built_in.programs[1].len());
    assert_eq!(written.barriers, built_in.barriers);
}

/// Threads of a written process work on what one of them has touched, and go on when the last spins.
#[test]
fn written_threads_share_memory_and_spin() {
    let text = "
        barrier ready 2
        nodes near 0
        nodes far 1
        program owner
            confine near
            use shared
            touch 10ms 100%
            thread other
            spin ready
            mark end
            wait
        end
        program other
            mark begin
            use shared
            confine far
            memory 10ms 100%
            spin ready
        end
        start owner";
    let hw = hw();
    let plan = parse(text, &hw).unwrap();
    let job = Job {
        hw: &hw,
        setup: &setup(&hw),
        plan: &plan,
        most_ns: 1000 * MS,
    };
    let outcome = job.run(1).unwrap();
    assert_eq!(outcome.local_permille, Some(0), "all of it is on node 0");
    // At distance 20 it takes twice as long, and the owner spins until then.
    assert!((19..22).contains(&(outcome.run_ns / MS)), "{outcome:?}");
}

/// Who writes a workload that hangs is told where.
#[test]
fn a_deadlock_is_told_by_its_names() {
    let text = "
        barrier round 3
        pipe results 2
        queue room 1
        program launcher
            fork rank 2
            fork reader
            fork writer
            wait
        end
        program rank
            compute 1ms
            barrier round
        end
        program reader
            receive results
        end
        program writer
            send room
            send room
        end
        start launcher";
    let hw = hw();
    let plan = parse(text, &hw).unwrap();
    let args = setup(&hw);
    let job = |most_ns| Job {
        hw: &hw,
        setup: &args,
        plan: &plan,
        most_ns,
    };
    let told = job(u64::MAX).run(1).unwrap_err().to_string();
    assert_eq!(
        told,
        "5 tasks are asleep and nobody is left to wake them; waiting at barrier 'round', where 2 of 3 have come: \
         program 'rank' (tasks 1, 2); for a message from pipe 'results': program 'reader' (task 3); for room in \
         queue 'room': program 'writer' (task 4); for children: program 'launcher' (task 0)"
    );
    // One that spins is awake, and waits all the same.
    let plan = parse(&text.replace("barrier round\n", "spin round\n"), &hw).unwrap();
    let long = Job {
        plan: &plan,
        ..job(1000 * MS)
    };
    let told = long.run(1).unwrap_err().to_string();
    assert!(
        told.starts_with(
            "5 tasks are not through after 1 simulated second, the limit that --limit-s sets; waiting at barrier \
             'round', where 2 of 3"
        ),
        "{told}"
    );
}

/// ... and who computes or sleeps too long, what it does.
#[test]
fn what_takes_too_long_is_told() {
    let hw = hw();
    let args = setup(&hw);
    let told = |text: &str, most_ns| {
        let plan = parse(text, &hw).unwrap();
        let job = Job {
            hw: &hw,
            setup: &args,
            plan: &plan,
            most_ns,
        };
        job.run(1).unwrap_err().to_string()
    };
    assert_eq!(
        told("start p\nprogram p\ncompute 10s\nend\n", 2000 * MS),
        "1 task is not through after 2 simulated seconds, the limit that --limit-s sets; computing: program 'p' (task 0)"
    );
    let text = "start p\nprogram p\nfork q 2\nfork r\nbusy 9s\nend\nprogram q\nsleep 9s\nend\n\
                program r\ntouch 1ms 10%\nmemory 9s 10%\nend\n";
    assert_eq!(
        told(text, 1000 * MS),
        "4 tasks are not through after 1 simulated second, the limit that --limit-s sets; \
         working on memory: program 'r' (task 3); busy: program 'p' (task 0); sleeping: program 'q' (tasks 1, 2)"
    );
}

/// No time lies between an end and a beginning after it: in a program, and where the programs' order shows only when
/// they run.
#[test]
fn what_ends_before_it_begins_has_no_time() {
    let error = steps("compute 1ms\nmark end\ncompute 1ms\nmark begin").unwrap_err();
    assert!(
        error.starts_with("line 4: `mark end` comes before `mark begin`, which is in line 6"),
        "{error}"
    );
    // In turns it has one.
    steps("mark begin\ncompute 1ms\nmark end\nmark begin\nmark end").unwrap();

    let text = "start p\nprogram p\nfork q\nmark end\nend\nprogram q\nsleep 1ms\nmark begin\nend\n";
    let hw = hw();
    let run = |text: &str| {
        let plan = parse(text, &hw).unwrap();
        let job = Job {
            hw: &hw,
            setup: &setup(&hw),
            plan: &plan,
            most_ns: 1000 * MS,
        };
        job.run(1)
    };
    let error = run(text).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the last `mark end` (line 4) comes before the first `mark begin` (line 8)"
        ),
        "{error}"
    );
    let outcome = run(&text.replace("mark end", "wait\nmark end")).unwrap();
    assert!(outcome.run_ns < outcome.wall_ns, "{outcome:?}");
}

#[test]
fn marks_of_programs_that_nobody_starts_are_told() {
    let of = |steps: &str| {
        let text = format!(
            "start p\nprogram p\n{steps}\nend\nprogram q\nthread r\nend\nprogram r\nmark begin\nmark end\nend\n"
        );
        parse(&text, &hw()).map_err(|error| error.to_string())
    };
    let error = of("compute 1ms").unwrap_err();
    assert!(
        error.starts_with("line 9: this mark is never reached: nobody starts program 'r'"),
        "{error}"
    );
    of("fork q").unwrap();
}

/// The file that the documentation shows.
#[test]
fn the_documented_example_is_understood() {
    let docs = include_str!("../docs/simulation.md");
    let (_, rest) = docs
        .split_once("```text\n# A launcher")
        .expect("the example");
    let (example, _) = rest.split_once("```").expect("its end");
    let text = format!("# A launcher{example}");
    let hw = hardware("2 nodes x 16 cpus");
    let plan = parse(&text, &hw).unwrap();
    assert!(plan.programs.len() > 1);
    let file = include_str!("fixtures/workloads/launcher.txt");
    assert_eq!(
        text, file,
        "the documentation and the file that the tests run differ"
    );
}

/// A fork of `pid` by `parent` at so many ms, on a machine of two nodes.
fn fork(at_ms: u64, pid: i32, parent: i32, allowed: u64) -> Record {
    Record::Fork(ForkRecord {
        at: at_ms * MS,
        pid,
        local: 0,
        allowed,
        usable: 8,
        committed: vec![0, 0],
        task_weight: vec![100, 100],
        first: 0,
        allowed_llcs: u64::MAX,
        llc_committed: vec![0],
        node: 0,
        why: ForkWhy::Least,
        llc: 0,
        parent: Some(parent),
        home: None,
    })
}

fn exit(at_ms: u64, pid: i32, run_ms: u64, sleeps: u64) -> Record {
    Record::Exit(ExitRecord {
        at: at_ms * MS,
        pid,
        run_ns: run_ms * MS,
        sleeps,
    })
}

fn header(hw: &Hardware) -> Record {
    Record::Header(Header {
        format: FORMAT,
        version: "test".into(),
        node_ids: hw.node_ids.clone(),
        shape: hw.shape.clone(),
        limits: Limits::compile(RuleSet::Ballast, Thresholds::default(), &hw.nodes),
    })
}

/// A parent of 100 ms with a child in the middle of its life, and somebody on the second node who never ended.
#[test]
fn a_trace_is_arrivals_and_times() {
    let hw = hw();
    let busy = TaskObs {
        slot: 0,
        seq: 2,
        pid: 12,
        tgid: 12,
        llc: 0,
        busy: 250,
        weight: 100,
        nodes: 2,
        moved_ms: u32::MAX,
    };
    let tick = |busy: TaskObs| {
        Record::Tick(TickRecord {
            observation: Observation {
                at: 2200 * MS,
                tasks: vec![busy],
                ..Observation::for_shape(&hw.shape, 1)
            },
            decisions: Decisions::default(),
            locality: None,
        })
    };
    let traced = trace::plan(
        [
            header(&hw),
            fork(1000, 10, 9, u64::MAX),
            fork(1050, 11, 10, u64::MAX),
            exit(1075, 11, 25, 0),
            exit(1100, 10, 20, 4),
            // The same thread id, another task.
            fork(2000, 12, 10, 2),
            tick(busy),
        ],
        &hw,
    )
    .unwrap();
    assert_eq!((traced.tasks, traced.unended, traced.orphans), (3, 1, 2));
    let half = [Op::Compute(MS * 10 / 3), Op::Sleep(20 * MS)];
    let rounds = |to: usize| Op::Repeat { to, times: 2 };
    let rest = Op::Compute(10 * MS - MS * 10 / 3 * 2);
    let parent = [
        &[Op::Mark(Mark::First)],
        &half[..],
        &[rounds(1), rest, Op::Fork(1)],
        &half[..],
        &[rounds(6), rest],
    ]
    .concat();
    assert_eq!(traced.plan.programs[0], parent);
    assert_eq!(
        traced.plan.programs[1],
        [Op::Mark(Mark::First), Op::Compute(25 * MS)]
    );
    // A quarter of 200 ms, with three sleeps.
    let unended = &traced.plan.programs[2];
    assert_eq!(unended[1], Op::Confine(Some(0)));
    assert_eq!(unended[2..4], [Op::Compute(12_500_000), Op::Sleep(50 * MS)]);
    assert_eq!(traced.plan.sets, [(8..16).collect::<Vec<_>>()]);
    let root = [
        Op::Fork(0),
        Op::Sleep(1000 * MS),
        Op::Fork(2),
        Op::WaitChildren,
    ];
    assert_eq!(traced.plan.programs[traced.plan.root], root);

    let error = trace::plan([header(&hw)], &hw).unwrap_err();
    assert!(
        error.starts_with("no task was forked in this trace"),
        "{error}"
    );
}

/// A task that slept less often than it forked has its children when it had them; and no number in a file is too large.
#[test]
fn children_come_when_they_came_and_absurd_numbers_are_bounded() {
    let hw = hw();
    let one = |at, run, sleeps| {
        trace::plan(
            [
                header(&hw),
                fork(1000, 10, 9, u64::MAX),
                fork(1400, 11, 10, u64::MAX),
                exit(2000, 10, run, sleeps),
                Record::Lost { forks: u64::MAX },
                Record::Lost { forks: at },
            ],
            &hw,
        )
        .unwrap()
    };
    let traced = one(1, 500, 0);
    let (own, asleep) = (Op::Compute(200 * MS), Op::Sleep(200 * MS));
    let rest = [Op::Compute(300 * MS), Op::Sleep(300 * MS)];
    let parent = [
        &[Op::Mark(Mark::First), own, asleep, Op::Fork(1)],
        &rest[..],
    ]
    .concat();
    assert_eq!(traced.plan.programs[0], parent);
    assert_eq!(traced.lost, u64::MAX);
    let sleeps = |traced: &trace::Traced| -> u64 {
        let ops = traced.plan.programs[0].iter();
        let times = ops.map(|op| match op {
            Op::Repeat { times, .. } => u64::from(*times),
            _ => 0,
        });
        times.sum()
    };
    // Once in a microsecond of its second at most.
    assert_eq!(sleeps(&one(0, 0, u64::MAX)), 1_000_000);
}

/// CPU time of each task that ended, ascending, in ns.
fn cpu_times(records: &[Record]) -> Vec<u64> {
    let times = records.iter().filter_map(|record| match record {
        Record::Exit(exit) => Some(exit.run_ns),
        _ => None,
    });
    let mut times: Vec<u64> = times.collect();
    times.sort_unstable();
    times
}

/// What the simulator records is a workload, too: as many tasks, with the same CPU time, in as long a time.
#[test]
fn a_recorded_simulation_runs_again() {
    let hw = hw();
    let setup = setup(&hw);
    let record = |plan: &Plan| {
        let job = Job {
            hw: &hw,
            setup: &setup,
            plan,
            most_ns: u64::MAX,
        };
        job.run_recorded(3).unwrap()
    };
    for text in ["fork-burst:12", "mpi:6,iterations=10"] {
        let workload: Source = text.parse().unwrap();
        let (before, records) = record(&workload.load(&hw).unwrap().plan);
        let again = trace::plan(records.clone(), &hw).unwrap();
        assert_eq!(again.tasks, cpu_times(&records).len() as u64);
        // All are children of the first task, which no record is of.
        assert_eq!((again.orphans, again.unended), (again.tasks, 0));
        let (after, repeated) = record(&again.plan);
        let wall = [before.wall_ns, after.wall_ns];
        assert!(wall[0].abs_diff(wall[1]) < wall[0] / 20, "{text}: {wall:?}");
        for (one, other) in cpu_times(&records).iter().zip(cpu_times(&repeated)) {
            // Jitter, and what a phase loses beside others.
            assert!(one.abs_diff(other) < one / 20 + MS, "{text}: {one} {other}");
        }
    }
}

/// A file of one program `p`, which starts, with these steps; `q` computes.
fn steps(steps: &str) -> Result<Plan, String> {
    let text = format!("start p\nprogram p\n{steps}\nend\nprogram q\ncompute 1ms\nend\n");
    parse(&text, &hw()).map_err(|error| error.to_string())
}

#[test]
fn marks_that_say_nothing_of_the_start_leave_it_at_birth() {
    let plan = steps("mark begin\ncompute 1ms\nmark end").unwrap();
    assert_eq!(
        plan.programs[0][..2],
        [Op::Mark(Mark::First), Op::Mark(Mark::Begin)]
    );
    let own = steps("compute 1ms\nmark first").unwrap();
    assert_eq!(own.programs[0], [Op::Compute(MS), Op::Mark(Mark::First)]);
    for (text, missing) in [("mark begin", "`mark end`"), ("mark end", "`mark begin`")] {
        let error = steps(text).unwrap_err();
        assert!(error.contains(&format!("nowhere {missing}")), "{error}");
        assert!(error.contains("line 3"), "{error}");
    }
}

#[test]
fn many_forks_are_one_loop_and_too_many_tasks_are_told() {
    let plan = steps("fork q 1000 2ms").unwrap();
    let ops = [
        Op::Compute(2 * MS),
        Op::Fork(1),
        Op::Repeat { to: 1, times: 1000 },
    ];
    assert_eq!(plan.programs[0][1..], ops);
    let error = steps("fork q 1000000").unwrap_err();
    assert!(error.contains("starts 1000001 tasks"), "{error}");
    let error = parse("nodes all 0\nstart p\nprogram p\nend\n", &hw()).unwrap_err();
    assert!(
        error.to_string().contains("'all' means all nodes"),
        "{error}"
    );
}
