// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast simulate`, as it is called.

use std::process::{Command, Output};

fn ballast(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    command.args(args).output().expect("the command starts")
}

fn simulate(args: &[&str]) -> String {
    let output = ballast(&[&["simulate"], args].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

const PILE_UP: &[&str] = &[
    "--machine",
    "2 nodes x 8 cpus",
    "--workload",
    "fork-burst:6,spin_ms=400",
    "--newborn-ms",
    "0",
    "--runs",
    "3",
];

/// All of it, to the digit: the model is deterministic. Who changes the model changes these numbers, and
/// should know why.
#[test]
fn what_it_prints() {
    let expected = include_str!("fixtures/simulate.txt");
    assert_eq!(simulate(PILE_UP), expected);
}

#[test]
fn json_has_every_run() {
    let text = simulate(&[PILE_UP, &["--format", "json", "--seed", "40"]].concat());
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let runs = json["runs"].as_array().expect("runs");
    let seeds: Vec<_> = runs.iter().map(|run| run["seed"].as_u64()).collect();
    assert_eq!(seeds, [Some(40), Some(41), Some(42)]);
    assert_eq!(json["workload"], "fork-burst:6,spin_ms=400");
    assert_eq!(json["setup"]["limits"]["set"], "ballast");
    let run_s = |run: &serde_json::Value| run["run_ns"].as_u64().map(|ns| ns as f64 / 1e9);
    let least = runs.iter().filter_map(run_s).fold(f64::INFINITY, f64::min);
    assert_eq!(json["summary"]["run_s"]["min"].as_f64(), Some(least));
}

#[test]
fn its_trace_replays() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("trace");
    let file = file.to_str().expect("a name in UTF-8");
    simulate(&[PILE_UP, &["--trace", file]].concat());
    let output = ballast(&["replay", file]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.contains("6 fork placements") && text.ends_with(" 0 mismatches\n"),
        "{text}"
    );
}

/// Status 2 and a sentence that says what would be right; 1 for what goes wrong later.
#[test]
fn what_makes_no_sense_is_refused() {
    for (args, status, why) in [
        (&["simulate"][..], 2, "--workload"),
        (&["simulate", "--workload", "mpi"], 2, "expected NAME:N"),
        (
            &["simulate", "--workload", "mpi:4,cpus=3"],
            2,
            "mpi has no 'cpus', but sleep_ms",
        ),
        (
            &["simulate", "--workload", "mpi:4", "--runs", "0"],
            2,
            "--runs",
        ),
        (
            &["simulate", "--workload", "mpi:4", "--limit-s", "1"],
            1,
            "5 tasks are not through after 1 simulated seconds",
        ),
        (
            &[
                "simulate",
                "--workload",
                "mpi:4,iterations=1",
                "--trace",
                "/no/such/file",
            ],
            1,
            "cannot create /no/such/file",
        ),
    ] {
        let output = ballast(&[args, &["--machine", "2 nodes x 4 cpus"][..]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
        assert!(text.contains(why), "{text}");
    }
}
