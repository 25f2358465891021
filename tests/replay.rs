// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast replay` accepts what the policy decided and finds what it did not.

use std::process::{Command, Output};

use scx_ballast::machine::Machine;
use scx_ballast::machine::describe::Source;
use scx_ballast::policy::compile::{Limits, NodeShape, Thresholds};
use scx_ballast::policy::engine::Engine;
use scx_ballast::policy::locality::fork::HomeWhy;
use scx_ballast::policy::observation::{NodeObs, Observation, Shape, TaskObs};
use scx_ballast::policy::placement::ForkWhy;
use scx_ballast::policy::record::{FORMAT, ForkRecord, Header, HomeRecord, Record, TickRecord};
use scx_ballast::policy::rule_set::RuleSet;

fn machine() -> Machine {
    let source: Source = "2 nodes x 8 cpus".parse().expect("a machine");
    source.machine(None).expect("a machine")
}

fn header(machine: &Machine) -> Header {
    let limits = Limits::compile(
        RuleSet::Ballast,
        Thresholds::default(),
        &NodeShape::all(machine),
    );
    Header {
        format: FORMAT,
        version: "test".into(),
        node_ids: vec![0, 1],
        shape: Shape::of(machine),
        limits,
    }
}

/// The second task of an otherwise idle machine, whose parent runs on node 0: that node would have 2,
/// which is beyond imb_numa_nr of 1.
fn fork() -> ForkRecord {
    ForkRecord {
        at: 1,
        pid: 10,
        local: 0,
        allowed: 3,
        usable: 8,
        committed: vec![1, 0],
        task_weight: vec![100, 100],
        first: 0,
        allowed_llcs: u64::MAX,
        llc_committed: vec![0],
        node: 1,
        why: ForkWhy::Least,
        llc: 1,
        home: None,
    }
}

/// A new thread of a process that belongs on node 1, where as many tasks are as on node 0.
fn thread() -> ForkRecord {
    ForkRecord {
        committed: vec![1, 1],
        llc_committed: vec![1],
        home: Some(HomeRecord {
            prefers: 2,
            usable: vec![8, 8],
            why: HomeWhy::Preferred,
        }),
        ..fork()
    }
}

/// Four hogs on node 0: two move.
fn tick(header: &Header) -> TickRecord {
    let task = |slot: u32| TaskObs {
        slot,
        seq: 2,
        pid: 20 + slot as i32,
        tgid: 20 + slot as i32,
        llc: 0,
        busy: 1000,
        weight: 100,
        nodes: 3,
        moved_ms: u32::MAX,
    };
    let node = |running: u32| NodeObs {
        running_milli: running * 1000,
        running,
        newborn: 0,
        task_weight: 100,
    };
    let mut observation = Observation {
        at: 2,
        nodes: vec![node(4), node(0)],
        llcs: vec![4, 0],
        tasks: (0..4).map(task).collect(),
        held: Vec::new(),
    };
    let mut engine = Engine::new(header.limits.clone(), header.shape.clone(), 4);
    let decisions = engine.tick(&mut observation).clone();
    assert_eq!(decisions.moves.len(), 2);
    TickRecord {
        observation,
        decisions,
    }
}

fn replay(records: &[Record]) -> (Output, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("trace");
    let lines = records
        .iter()
        .map(|record| serde_json::to_string(record).expect("JSON") + "\n");
    std::fs::write(&path, lines.collect::<String>()).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    let output = command.arg("replay").arg(&path).output().expect("a run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn the_policys_own_answers_match() {
    let header = header(&machine());
    let tick = tick(&header);
    // A second header, as after hotplug.
    let (output, text) = replay(&[
        Record::Header(header.clone()),
        Record::Fork(fork()),
        Record::Lost { forks: 3 },
        Record::Header(header),
        Record::Tick(tick),
    ]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        text,
        "1 fork placements, 1 ticks with 2 moves; 3 placements not recorded; 0 mismatches\n"
    );
}

#[test]
fn other_answers_are_found() {
    let header = header(&machine());
    let mut local = fork();
    (local.node, local.llc) = (0, 0);
    let mut why = fork();
    why.why = ForkWhy::Tolerated;
    let mut llc = fork();
    llc.llc = 0;
    let mut bystander = tick(&header);
    bystander.decisions.moves[0].pid += 1;
    let mut lazy = tick(&header);
    lazy.decisions.moves.pop();
    let (output, text) = replay(&[
        Record::Header(header),
        Record::Fork(local),
        Record::Fork(why),
        Record::Fork(llc),
        Record::Tick(bystander),
        Record::Tick(lazy),
        Record::Fork(fork()),
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.ends_with(" 5 mismatches\n"), "{text}");
    for line in 2..=6 {
        assert!(text.contains(&format!("line {line}: ")), "{text}");
    }
}

#[test]
fn homes_of_new_threads_are_decided_again() {
    let header = header(&machine());
    let with = |why, change: fn(&mut ForkRecord)| {
        let mut record = thread();
        record.home.as_mut().expect("a home").why = why;
        change(&mut record);
        Record::Fork(record)
    };
    let local = |record: &mut ForkRecord| (record.node, record.llc) = (0, 0);
    let (output, text) = replay(&[
        Record::Header(header.clone()),
        with(HomeWhy::Preferred, |_| {}),
        // Too many there.
        with(HomeWhy::NotTolerated, |record| {
            (record.node, record.llc, record.committed[1]) = (0, 0, 3);
        }),
        with(HomeWhy::NoPreference, |record| {
            (record.node, record.llc, record.allowed) = (0, 0, 1);
        }),
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?} {text}");
    let (output, text) = replay(&[
        Record::Header(header),
        with(HomeWhy::Preferred, local),
        with(HomeWhy::NotTolerated, local),
        with(HomeWhy::NoPreference, |_| {}),
        with(HomeWhy::Preferred, |record| record.home = None),
        with(HomeWhy::Preferred, |record| record.committed[1] = 3),
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.ends_with(" 5 mismatches\n"), "{text}");
}

/// Traces of older versions say nothing about homes, and today's neither where there is no preference.
#[test]
fn a_fork_without_a_preference_is_as_it_was() {
    let line = serde_json::to_string(&Record::Fork(fork())).expect("JSON");
    assert!(!line.contains("home"), "{line}");
    let record: Record = serde_json::from_str(&line).expect("a record");
    assert_eq!(record, Record::Fork(fork()));
}

#[test]
fn a_trace_begins_with_a_header() {
    let (output, _) = replay(&[Record::Fork(fork())]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("no header before this line"), "{text}");
}
