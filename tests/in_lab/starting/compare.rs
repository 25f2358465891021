// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast compare` under a real kernel: attaches, evidence, and ends of all kinds.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use scx_ballast::compare::record::{Fact, Plan, Record, Run};
use scx_ballast::compare::results;

use crate::guest::{must, nodes, read, secs, state, wait_for_state, within};
use crate::sched::{binary, with_none};

const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const SUITE: &str = r#"
name = "lab"
description = "one short benchmark"

[metrics.wall]
unit = "ms"
better = "lower"
pattern = 'wall_ms_median=([0-9.]+)'

[[benchmark]]
name = "burst"
command = "{scx_ballast} work fork-burst --tasks 4 --sleep-ms 20 --spin-ms 100 --repeats 3 --gap-ms 100"
timeout_s = 60
metrics = ["wall"]
placement = '^repeat \d+: first ([\d ]+) last'
"#;

/// A comparison with a results file of its own.
struct Comparison {
    folder: tempfile::TempDir,
}

impl Comparison {
    fn new() -> Comparison {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("suite.toml"), SUITE).unwrap();
        Comparison { folder }
    }

    fn start(&self, arguments: &str) -> Child {
        let mut command = Command::new(binary());
        let command = command.args(["compare", "--results", "results.jsonl"]);
        command
            .args(arguments.split(' '))
            .current_dir(self.folder.path())
            .spawn()
            .unwrap()
    }

    #[track_caller]
    fn must(&self, arguments: &str) {
        let status = self.start(arguments).wait().unwrap();
        assert!(status.success(), "{arguments}: {status}");
    }

    fn records(&self) -> Vec<Record> {
        results::read(&self.folder.path().join("results.jsonl")).unwrap()
    }
}

fn plan(records: &[Record]) -> &Plan {
    match &records[0] {
        Record::Plan(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn runs(records: &[Record]) -> Vec<&Run> {
    let mut runs = Vec::new();
    for record in records {
        if let Record::Run(run) = record {
            runs.push(&**run);
        }
    }
    runs
}

#[test]
#[ignore = "runs in the lab"]
fn arms_take_turns_and_evidence_is_complete() {
    with_none(|| {
        let comparison = Comparison::new();
        comparison.must("eevdf ballast --suite suite.toml --blocks 2 --seed 1 --settle 0.2");
        let records = comparison.records();
        assert_eq!(plan(&records).environment.nodes.len(), nodes().len());
        let runs = runs(&records);
        assert_eq!(runs.len(), 4);
        for run in runs {
            let evidence = &run.evidence;
            assert_eq!(run.placement.len(), 3);
            assert!(evidence.user_s > 0.1, "{evidence:?}");
            assert!(
                evidence.schedstat.known().unwrap().run_ns > 100_000_000,
                "{evidence:?}"
            );
            assert!(evidence.vmstat.known().unwrap()["numa_hit"] > 0);
            let used = evidence.node_use.known().unwrap();
            assert_eq!(used.nodes.len(), nodes().len());
            assert!(
                used.nodes.values().flatten().any(|&share| share > 0.05),
                "{used:?}"
            );
            let migrations = evidence.migrations.known().unwrap();
            assert!(
                migrations.all >= migrations.cross_node && migrations.all > 0,
                "{migrations:?}"
            );
            match run.arm {
                0 => assert_eq!(evidence.in_charge.state, "disabled"),
                _ => {
                    assert!(evidence.in_charge.ops.starts_with("scx_ballast_"));
                    let scheduler = evidence.scheduler.known().unwrap();
                    assert!(scheduler.cpu_s > 0.0 && scheduler.start_s > 0.0);
                    // Twelve children at least were forked under it.
                    let statistics = scheduler.statistics.known().unwrap();
                    let of = |key: &str| statistics[key].as_u64().unwrap();
                    assert!(of("fork_local") + of("fork_remote") >= 12, "{statistics}");
                }
            }
        }
    });
}

/// Ends a comparison by `signal` while a benchmark runs under the scheduler, and lets it go on.
fn interrupted_by(signal: &str) {
    with_none(|| {
        let balances = Path::new(NUMA_BALANCING).exists();
        let setting = || balances.then(|| read(NUMA_BALANCING));
        let before = setting();
        let comparison = Comparison::new();
        let arms = match balances {
            true => "eevdf ballast --numa-balancing both",
            false => "eevdf ballast",
        };
        let rest = "--suite suite.toml --blocks 1 --seed 3 --settle 0.2";
        let mut child = comparison.start(&format!("{arms} {rest}"));
        within(secs(10), || match state() == "enabled" && bursts() > 0 {
            true => Ok(()),
            false => Err("no benchmark runs under the scheduler".into()),
        });
        must(&format!("kill -{signal} {}", child.id()));
        assert!(!child.wait().unwrap().success());
        wait_for_state("disabled", secs(2));
        within(secs(2), || match (bursts(), setting() == before) {
            (0, true) => Ok(()),
            (left, same) => Err(format!(
                "{left} processes are left, setting the same: {same}"
            )),
        });
        comparison.must("--resume");
        let records = comparison.records();
        let arms = plan(&records).arms.len();
        let mut made: Vec<usize> = runs(&records).iter().map(|run| run.arm).collect();
        made.sort_unstable();
        assert_eq!(made, (0..arms).collect::<Vec<_>>());
        assert_eq!(setting(), before);
        for (run, arm) in runs(&records)
            .iter()
            .map(|run| (run, &plan(&records).arms[run.arm]))
        {
            let eevdf = run.evidence.in_charge.state == "disabled";
            assert_eq!(eevdf, arm.argv.is_empty(), "{}", arm.label);
            assert!(matches!(run.evidence.in_charge.enable_seq, Fact::Known(_)));
        }
    });
}

/// Processes of the benchmark. No program is started for it: on a loaded machine that takes longer than the
/// benchmark runs.
fn bursts() -> usize {
    let entries = fs::read_dir("/proc").unwrap();
    // A process may end while it is looked at.
    let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    lines
        .filter(|line| line.windows(16).any(|part| part == b"work\0fork-burst\0"))
        .count()
}

#[test]
#[ignore = "runs in the lab"]
fn ctrl_c_gives_the_machine_back_and_can_be_resumed() {
    interrupted_by("INT");
}

#[test]
#[ignore = "runs in the lab"]
fn sigkill_gives_the_machine_back_and_can_be_resumed() {
    interrupted_by("KILL");
}
