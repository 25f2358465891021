// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast rules`, and what is said of flags and traces that make no sense; no kernel needed.

use std::process::{Command, Output};

fn ballast(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    command.args(args).output().expect("the command starts")
}

/// Its lines for people, for a machine of 2 nodes with 8 CPUs each.
fn rules(args: &[&str]) -> String {
    let all = [&["rules", "--machine", "2 nodes x 8 cpus"], args].concat();
    let output = ballast(&all);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_chosen_set_alone_is_marked() {
    for set in ["none", "v5.6", "v5.11", "v5.18", "v6.0", "ballast"] {
        let text = rules(&["--rules", set]);
        assert!(text.starts_with(&format!("rule set {set}: ")), "{text}");
        let marked = text.lines().filter(|line| line.starts_with('*'));
        let marked: Vec<&str> = marked.collect();
        assert_eq!(marked.len(), 1, "{text}");
        assert!(marked[0].starts_with(&format!("* {set} ")), "{text}");
    }
}

/// 8 CPUs in one LLC: 12.5 % is 1.
#[test]
fn thresholds_change_the_numbers() {
    let line = |args: &[&str]| {
        let text = rules(args);
        let marked = text.lines().find(|line| line.starts_with('*'));
        marked.expect("a marked line").to_owned()
    };
    assert!(line(&[]).contains("excess <= 2 and busier <= 1"));
    let more = line(&["--imb-numa-nr", "50%", "--imbalance-min", "3"]);
    assert!(more.contains("excess <= 3 and busier <= 4"), "{more}");
}

/// Status 2 and a sentence that says what would be right.
#[test]
fn bad_rules_are_refused() {
    for (args, why) in [
        (
            &["--rules", "v9.9"][..],
            "none, v5.6, v5.11, v5.18, v6.0, ballast",
        ),
        (&["--imb-numa-nr", "0%"], "1% to 100%"),
        (&["--imb-numa-nr", "101%"], "1% to 100%"),
        (&["--imb-numa-nr", "many"], "auto, a number of tasks"),
        (&["--imbalance-min=-1"], "--imbalance-min"),
        (
            &["--balance-interval-ms", "5"],
            "0 or 10 to 60000 milliseconds",
        ),
        (
            &["--balance-interval-ms", "60001"],
            "0 or 10 to 60000 milliseconds",
        ),
        (&["rules", "--rules", ""], "--rules"),
    ] {
        let output = ballast(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.starts_with("error: ") && text.contains(why), "{text}");
    }
}

#[test]
fn what_is_no_trace_is_not_replayed() {
    for (file, why) in [
        ("/no/such/trace", "cannot read /no/such/trace"),
        ("Cargo.toml", "Cargo.toml, line 1: not a record of a trace"),
    ] {
        let output = ballast(&["replay", file]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with("Error: ") && text.contains(why), "{text}");
    }
}
