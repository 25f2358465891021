// SPDX-License-Identifier: GPL-2.0-only
//! Workloads from traces: who came when, and how long they ran and slept.

mod simulated;

use scx_ballast::policy::balance::Decisions;
use scx_ballast::policy::compile::{Limits, Thresholds};
use scx_ballast::policy::observation::{Observation, TaskObs};
use scx_ballast::policy::placement::ForkWhy;
use scx_ballast::policy::record::{ExitRecord, FORMAT, ForkRecord, Header, Record, TickRecord};
use scx_ballast::policy::rule_set::RuleSet;
use scx_ballast::sim::hardware::Hardware;
use scx_ballast::sim::program::{Mark, Op, Plan};
use scx_ballast::sim::source::{Source, trace};
use simulated::{MS, described, hw, run_plan};

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
    let half = [Op::Compute(MS * 10 / 3), Op::Away(20 * MS)];
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
    assert_eq!(unended[2..4], [Op::Compute(12_500_000), Op::Away(50 * MS)]);
    assert_eq!(traced.plan.sets, [(8..16).collect::<Vec<_>>()]);
    let root = [
        Op::Fork(0),
        Op::Away(1000 * MS),
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

/// A task that was confined to a node which is not here runs everywhere, and that is told.
#[test]
fn tasks_without_a_node_here_are_told() {
    let (hw, wide) = (hw(), described("4 nodes x 4 cpus"));
    let last = |allowed| {
        let records = [
            header(&wide),
            fork(1000, 10, 9, u64::MAX),
            fork(1000, 11, 9, allowed),
        ];
        let traced = trace::plan(records, &hw).unwrap();
        (traced.unconfined, traced.note(), traced.plan.sets)
    };
    let (unconfined, note, sets) = last(0b1100);
    assert_eq!((unconfined, sets.len()), (1, 0));
    assert!(
        note.contains("; 1 may use only nodes that this machine does not have, and use all"),
        "{note}"
    );
    for (allowed, confined) in [(0b0110, 1), (0b0010, 1), (0b1111, 0)] {
        let (unconfined, note, sets) = last(allowed);
        assert_eq!((unconfined, sets.len()), (0, confined), "{allowed:b}");
        assert!(!note.contains("does not have"), "{note}");
    }
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
    let (own, asleep) = (Op::Compute(200 * MS), Op::Away(200 * MS));
    let rest = [Op::Compute(300 * MS), Op::Away(300 * MS)];
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
    // Once in a microsecond of its second at most, and once in 100 ns of its CPU time.
    assert_eq!(sleeps(&one(0, 900, u64::MAX)), 1_000_000);
    assert_eq!(sleeps(&one(0, 10, u64::MAX)), 100_000);
    assert_eq!(sleeps(&one(0, 0, u64::MAX)), 0);
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
    let record = |plan: &Plan| run_plan(plan, u64::MAX).unwrap();
    // A recorded sleep has the slack of its timer in it: with that of another each of tbench's many short ones would be
    // half as long again.
    for (text, orphans) in [
        ("fork-burst:12", 12),
        ("mpi:6,iterations=10", 6),
        ("tbench:4", 5),
    ] {
        let workload: Source = text.parse().unwrap();
        let (before, records) = record(&workload.load(&hw).unwrap().plan);
        let again = trace::plan(records.clone(), &hw).unwrap();
        assert_eq!(again.tasks, cpu_times(&records).len() as u64);
        // Children of the first task, which no record is of.
        assert_eq!((again.orphans, again.unended), (orphans, 0), "{text}");
        let (after, repeated) = record(&again.plan);
        let wall = [before.wall_ns, after.wall_ns];
        // The start on a CPU, 2 us, is in recorded CPU time, and comes again: a twentieth of a turn of tbench.
        assert!(wall[0].abs_diff(wall[1]) < wall[0] / 10, "{text}: {wall:?}");
        for (one, other) in cpu_times(&records).iter().zip(cpu_times(&repeated)) {
            // Jitter, what a phase loses beside others, and starts.
            assert!(one.abs_diff(other) < one / 10 + MS, "{text}: {one} {other}");
        }
    }
}
