// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast replay` accepts what the policy decided and finds what it did not.

use std::process::{Command, Output};

use scx_ballast::machine::Machine;
use scx_ballast::machine::describe::Source;
use scx_ballast::policy::compile::{Limits, NodeShape, Thresholds};
use scx_ballast::policy::engine::Engine;
use scx_ballast::policy::locality::decide::Decider;
use scx_ballast::policy::locality::evidence::Standing;
use scx_ballast::policy::locality::extents::Extent;
use scx_ballast::policy::locality::follow::Batch;
use scx_ballast::policy::locality::fork::HomeWhy;
use scx_ballast::policy::locality::record::{BroughtRecord, LocalityRecord};
use scx_ballast::policy::locality::view::{Stay, Steps, TaskView, Unit, UnitView, View, Why};
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
        parent: Some(9),
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
        lasting: Vec::new(),
    };
    let mut engine = Engine::new(header.limits.clone(), header.shape.clone(), 4);
    let decisions = engine.tick(&mut observation).clone();
    assert_eq!(decisions.moves.len(), 2);
    TickRecord {
        observation,
        decisions,
        locality: None,
    }
}

/// Two hogs on each node, the state is balanced; but the memory of one on node 0 is on node 1 and the other
/// way round, and they are of different processes on a machine that is full: they change places.
fn swapped(header: &Header) -> TickRecord {
    let mut tick = tick(header);
    let observation = &mut tick.observation;
    observation.nodes.iter_mut().for_each(|node| {
        (node.running, node.running_milli) = (8, 8000);
    });
    observation.llcs = vec![8, 8];
    observation.tasks[1].llc = 1;
    observation.tasks.truncate(2);
    let known = |unit: u32, nodes: u64| TaskView {
        unit,
        standing: Standing::Known,
        row: Some(unit),
        nodes,
    };
    let unit = |pid: i32| UnitView {
        unit: Unit::Process(pid),
        is_group: false,
        waits: false,
    };
    let view = View {
        at_ms: 5,
        tasks: vec![known(0, 0b10), known(1, 0b01)],
        units: vec![unit(20), unit(21)],
        nodes: 2,
        scores: vec![100, 900, 900, 100],
    };
    let mut engine = Engine::new(header.limits.clone(), header.shape.clone(), 4);
    let decisions = engine.tick_with(observation, Some(&view)).clone();
    let mut steps = Steps::default();
    Decider::new(header.shape.clone(), 4).decide(
        observation,
        &view,
        &header.limits,
        &decisions.moves,
        &mut steps,
    );
    let why: Vec<Why> = steps.steps.iter().map(|step| step.why).collect();
    assert_eq!(why, [Why::Swap, Why::SwappedFor]);
    TickRecord {
        observation: tick.observation,
        decisions,
        locality: Some(LocalityRecord {
            view,
            steps: Some(steps),
        }),
    }
}

fn brought(moved: Option<u32>) -> Record {
    Record::Brought(BroughtRecord {
        at: 5_000_000,
        tgid: 20,
        to: 1,
        within: moved.map(|_| Extent {
            start: 8,
            end: 900,
            to: 1,
        }),
        batch: moved.map(|moved| Batch {
            moved,
            ..Batch::default()
        }),
        cost_us: 70,
    })
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
    let (tick, swap) = (tick(&header), swapped(&header));
    // A second header, as after hotplug.
    let (output, text) = replay(&[
        Record::Header(header.clone()),
        Record::Fork(fork()),
        Record::Lost { forks: 3 },
        brought(Some(500)),
        brought(None),
        Record::Header(header),
        Record::Tick(tick),
        brought(Some(12)),
        Record::Tick(swap),
    ]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        text,
        "1 fork placements, 2 ticks with 2 moves and 2 steps of locality, 512 pages brought; 3 placements not recorded; 0 mismatches\n"
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
    let steps_of = |tick: &mut TickRecord, change: fn(&mut Steps)| {
        let located = tick.locality.as_mut().and_then(|it| it.steps.as_mut());
        change(located.expect("steps"));
    };
    let mut one_sided = swapped(&header);
    steps_of(&mut one_sided, |steps| {
        steps.steps.pop();
    });
    let mut reason = swapped(&header);
    steps_of(&mut reason, |steps| steps.stays.push((0, Stay::AtHome)));
    // Of a machine with three nodes.
    let mut elsewhere = swapped(&header);
    elsewhere.locality.as_mut().expect("a view").view.nodes = 3;
    let (output, text) = replay(&[
        Record::Header(header),
        Record::Fork(local),
        Record::Fork(why),
        Record::Fork(llc),
        Record::Tick(bystander),
        Record::Tick(lazy),
        Record::Tick(one_sided),
        Record::Tick(reason),
        Record::Tick(elsewhere),
        Record::Fork(fork()),
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.ends_with(" 8 mismatches\n"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let wanted = [
        "line 2: fork of 10: the trace says node 0 (least), the policy says node 1 (least)",
        "line 3: fork of 10: the trace says node 1 (tolerated), the policy says node 1 (least)",
        "line 4: fork of 10: the trace says LLC 0, the policy says LLC 1",
        "line 5: tick at 2: move 1: the trace says task 24 (slot 3, seq 2) goes from node 0 to node 1, LLC 1 (excess), \
         the policy says task 23 (slot 3, seq 2) goes from node 0 to node 1, LLC 1 (excess)",
        "line 6: tick at 2: move 2 (of 1 in the trace and 2 by the policy): the trace says there is none, \
         the policy says task 22 (slot 2, seq 2) goes from node 0 to node 1, LLC 1 (excess)",
        "line 7: locality at 2: step 2 (of 1 in the trace and 2 by the policy): the trace says there is none, \
         the policy says task 21 (slot 1, seq 2) goes from node 1 to node 0, LLC 0 (swapped_for, gain 800)",
        "line 8: locality at 2: who stays, 1 (of 1 in the trace and 0 by the policy): the trace says task 20 stays \
         (at_home), the policy says there is none",
        "line 9: locality at 2: not of this machine",
    ];
    assert_eq!(lines[..8], wanted);
}

/// A tick of a version that knew nothing of memory.
#[test]
fn old_traces_replay() {
    let header = header(&machine());
    let record = Record::Tick(tick(&header));
    let text = serde_json::to_string(&record).expect("JSON");
    assert!(!text.contains("locality"), "{text}");
    assert_eq!(serde_json::from_str::<Record>(&text).expect("JSON"), record);
}

/// With a view the balancer takes others first: without it the same decisions are wrong.
#[test]
fn what_the_balancer_chose_by_memory_needs_the_view() {
    let header = header(&machine());
    let mut tick = tick(&header);
    let known = |task: u32| TaskView {
        unit: 0,
        standing: Standing::Known,
        row: Some(u32::from(task >= 2)),
        nodes: if task < 2 { 0b10 } else { 0b01 },
    };
    let view = View {
        at_ms: 5,
        tasks: (0..4).map(known).collect(),
        units: Vec::new(),
        nodes: 2,
        scores: vec![0, 1000, 1000, 0],
    };
    let mut engine = Engine::new(header.limits.clone(), header.shape.clone(), 4);
    let decisions = engine.tick_with(&mut tick.observation, Some(&view)).clone();
    let gone: Vec<u32> = decisions.moves.iter().map(|m| m.slot).collect();
    assert_eq!(gone, [1, 0], "those whose memory is there");
    assert_ne!(decisions, tick.decisions, "without it others would go");
    tick.decisions = decisions;
    let mut blind = tick.clone();
    tick.locality = Some(LocalityRecord { view, steps: None });
    blind.locality = None;
    let (_, text) = replay(&[
        Record::Header(header),
        Record::Tick(tick),
        Record::Tick(blind),
    ]);
    assert!(text.ends_with(" 1 mismatches\n"), "{text}");
    assert!(text.contains("line 3: "), "{text}");
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
    assert!(
        text.contains(
            "line 2: fork of 10: the trace says node 0 (least; home preferred), the policy says node 1 (least; home preferred)"
        ),
        "{text}"
    );
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
    assert!(text.contains("no header in its first line"), "{text}");
}

/// Exit status, and both outputs.
fn replay_text(text: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("trace");
    std::fs::write(&path, text).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    let output = command.arg("replay").arg(&path).output().expect("a run");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into())
}

#[test]
fn what_was_cut_off_is_left_out_and_nothing_else_is() {
    let line = |record| serde_json::to_string(&record).expect("JSON");
    let header = line(Record::Header(header(&machine())));
    let fork = line(Record::Fork(fork()));
    let cut = &fork[..fork.len() - 5];
    let (status, text) = replay_text(&format!("{header}\n{fork}\n{cut}"));
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("1 fork placements"), "{text}");
    let told = ": the last line is incomplete and left out\n";
    assert!(text.contains(told), "{text}");
    let (_, whole) = replay_text(&format!("{header}\n{fork}"));
    assert!(!whole.contains(told), "{whole}");
    for broken in [
        format!("{header}\n{cut}\n{fork}\n"),
        format!("{header}\nnothing\n"),
        header[..90].to_string(),
    ] {
        let (status, text) = replay_text(&broken);
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains("not a record of a trace"), "{text}");
    }
    let (status, text) = replay_text("");
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("is empty"), "{text}");
}

/// Numbers that no machine has are an error, and add up without a panic.
#[test]
fn absurd_numbers_are_refused() {
    let mut absurd = header(&machine());
    absurd.shape.weight[0] = u32::MAX;
    let (output, _) = replay(&[Record::Header(absurd)]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("line 1: the header contradicts itself: node 0 has 4294967295 CPUs"),
        "{text}"
    );
    let mut newborns = tick(&header(&machine()));
    newborns.observation.nodes[0].newborn = u32::MAX;
    let (output, _) = replay(&[Record::Header(header(&machine())), Record::Tick(newborns)]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("line 2: newborn is 4294967295, and cannot be above"),
        "{text}"
    );
    let lost = || Record::Lost { forks: u64::MAX };
    let (output, text) = replay(&[Record::Header(header(&machine())), lost(), lost()]);
    assert_eq!(output.status.code(), Some(0), "{text}");
}
