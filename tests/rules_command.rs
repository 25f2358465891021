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

/// All that the text has: the nodes, every set's limits, and which is chosen.
#[test]
fn json_has_every_set_and_says_which_is_chosen() {
    let json = |args: &[&str]| -> serde_json::Value {
        let text = rules(&[&["--format", "json"], args].concat());
        serde_json::from_str(&text).expect("JSON")
    };
    let all = json(&["--rules", "v5.6", "--virt-llc=2-2"]);
    assert_eq!(all["format"], 1);
    assert_eq!(all["chosen"], "v5.6");
    let node = |id: u32| serde_json::json!({ "id": id, "split_llcs": 4, "weight": 8, "llcs": 1, "imb_numa_nr": 1 });
    assert_eq!(all["nodes"], serde_json::json!([node(0), node(1)]));
    let sets = all["sets"].as_array().expect("sets");
    let names: Vec<&str> = sets.iter().filter_map(|set| set["set"].as_str()).collect();
    assert_eq!(names, ["none", "v5.6", "v5.11", "v5.18", "v6.0", "ballast"]);
    // The lines of the text have these numbers.
    assert_eq!(
        sets[1],
        serde_json::json!({
            "set": "v5.6",
            "description": "a model of Linux 5.6",
            "fork": { "judge": "before", "max_imbalance": u32::MAX, "max_running": [8, 8], "cap_by_affinity": false },
            "run_time": {
                "side": "busier", "one_more": false, "max_running": [2, 2], "max_imbalance": u32::MAX, "halved": false,
            },
            "preferred": {
                "side": "lighter", "one_more": false, "max_running": [2, 2], "max_imbalance": u32::MAX, "halved": false,
            },
            "no_spare_swap": false,
            "fresh_start": false,
        })
    );
    assert_eq!(
        sets[5],
        serde_json::json!({
            "set": "ballast",
            "description": "one predicate at fork, at run time and for preferred nodes",
            "fork": { "judge": "after", "max_imbalance": 2, "max_running": [1, 1], "cap_by_affinity": true },
            "run_time": {
                "side": "busier", "one_more": false, "max_running": [1, 1], "max_imbalance": 2, "halved": false,
            },
            "preferred": {
                "side": "busier", "one_more": false, "max_running": [1, 1], "max_imbalance": 2, "halved": false,
            },
            "no_spare_swap": true,
            "fresh_start": true,
        })
    );
    // Thresholds change those of all sets.
    let more = json(&["--imb-numa-nr", "50%"]);
    assert_eq!(more["chosen"], "ballast");
    for set in [3, 4, 5] {
        assert_eq!(more["sets"][set]["run_time"]["max_running"][1], 4);
    }
}

/// Limits go by real LLCs; the virtual ones are told.
#[test]
fn virtual_llcs_are_told() {
    let title = |flags: &[&str]| {
        let text = rules(flags);
        let title = text.lines().find(|line| line.starts_with("nodes 0-1: "));
        title.expect("a title").to_owned()
    };
    assert_eq!(
        title(&[]),
        "nodes 0-1: 8 CPUs in 1 LLC, the kernel's imb_numa_nr is 1"
    );
    assert_eq!(
        title(&["--virt-llc=2-2"]),
        "nodes 0-1: 8 CPUs in 1 LLC (split into 4 virtual ones, which the limits do not count), the kernel's imb_numa_nr is 1"
    );
    for (machine, split, why) in [
        (
            "1 node x 65 llcs",
            "--virt-llc=1-1",
            "let the firmware make more nodes",
        ),
        (
            "1 node x 65 cpus",
            "--virt-llc=1-1",
            "a --virt-llc of more cores makes fewer",
        ),
        (
            "1 node x 1200 cpus",
            "--virt-llc=600-600",
            "a --virt-llc of fewer cores makes smaller",
        ),
    ] {
        let output = ballast(&["rules", "--machine", machine, split]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
    let output = ballast(&["rules", "--machine", "1 node x 65 llcs"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("65 LLCs in node 0") && !said.contains("--virt-llc"),
        "{said}"
    );
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
        (
            &["rules", "--machine", "99999999999999999999x2"],
            "expected a count from 1 to 4096",
        ),
        (
            &["rules", "--virt-llc=1-99999999999999999999"],
            "is more cores than any machine has",
        ),
        (
            &[
                "simulate",
                "--workload",
                "mpi:4",
                "--runs",
                "99999999999999999999",
            ],
            "99999999999999999999 is not in 1..=100000",
        ),
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
