// SPDX-License-Identifier: GPL-2.0-only
//! A trace's header whose numbers contradict each other is refused, by whoever reads it, with the line and both numbers.

use std::process::{Command, Output};

use scx_ballast::machine::describe::Source;
use scx_ballast::policy::compile::{ImbNumaNr, Limits, NodeShape, Thresholds};
use scx_ballast::policy::consistent;
use scx_ballast::policy::observation::Shape;
use scx_ballast::policy::record::{FORMAT, Header};
use scx_ballast::policy::rule_set::RuleSet;
use serde_json::{Value, json};

/// Two nodes, each with two LLCs of four CPUs.
const MACHINE: &str = "2 nodes x 2 llcs x 4 cpus";

fn header(machine: &str, virt_llc: Option<(usize, usize)>, thresholds: Thresholds) -> Header {
    let source: Source = machine.parse().expect(machine);
    let machine = source.machine(virt_llc).expect("a machine");
    let ids = machine.cpu_nodes().iter().map(|node| node.id);
    Header {
        format: FORMAT,
        version: "test".into(),
        node_ids: ids.collect(),
        shape: Shape::of(&machine),
        limits: Limits::compile(RuleSet::Ballast, thresholds, &NodeShape::all(&machine)),
    }
}

/// What is said of the header with another value at the place.
fn said(place: &str, value: Value) -> String {
    let header = header(MACHINE, None, Thresholds::default());
    let mut header = serde_json::to_value(header).expect("JSON");
    *header.pointer_mut(place).expect(place) = value;
    let header: Header = serde_json::from_value(header).expect(place);
    consistent::check(&header).expect_err(place)
}

#[test]
fn headers_of_machines_are_consistent() {
    let mut with = Vec::new();
    for imb_numa_nr in [
        ImbNumaNr::Auto,
        ImbNumaNr::Tasks(0),
        ImbNumaNr::Tasks(4096),
        ImbNumaNr::Percent(100),
    ] {
        with.extend([None, Some(0), Some(4096)].map(|imbalance_min| Thresholds {
            imbalance_min,
            imb_numa_nr,
        }));
    }
    for machine in [
        MACHINE,
        "2 nodes x 8 cpus",
        "1 node x 1 cpu",
        "suse-2s-80",
        "zen3-nps4",
        "power8-8n-256",
        "64 nodes x 32 cpus",
    ] {
        for virt_llc in [None, Some((2, 8))] {
            for thresholds in &with {
                let header = header(machine, virt_llc, *thresholds);
                assert_eq!(consistent::check(&header), Ok(()), "{machine} {virt_llc:?}");
            }
        }
    }
}

/// A case for each pair of numbers that say the same thing.
#[test]
fn each_number_that_contradicts_another_is_found() {
    for (place, value, why) in [
        (
            "/shape/weight/1",
            json!(0),
            "node 1 has 0 CPUs by shape.weight, and its LLCs have 8 by shape.llc_weight",
        ),
        (
            "/shape/weight/0",
            json!(9),
            "node 0 has 9 CPUs by shape.weight, and its LLCs have 8",
        ),
        (
            "/shape/llc_weight/3",
            json!(5),
            "node 1 has 8 CPUs by shape.weight, and its LLCs have 9",
        ),
        (
            "/shape/llc_weight/2",
            json!(0),
            "shape.llc_weight[2] is 0, and an LLC has 1 to",
        ),
        (
            "/shape/llc_weight/2",
            json!(u32::MAX),
            "shape.llc_weight[2] is 4294967295, and an LLC has",
        ),
        (
            "/shape/weight",
            json!([]),
            "shape.weight has 0 nodes, and a machine has 1 to 64",
        ),
        (
            "/shape/weight",
            json!([8]),
            "node_ids has 2 nodes, and shape.weight has 1",
        ),
        (
            "/node_ids",
            json!([0, 1, 2]),
            "node_ids has 3 nodes, and shape.weight has 2",
        ),
        ("/node_ids", json!([3, 3]), "node_ids has 3 twice"),
        (
            "/shape/order",
            json!([[0, 1]]),
            "shape.order has 1 nodes, and shape.weight has 2",
        ),
        (
            "/shape/order/1",
            json!([1, 1]),
            "shape.order[1] is [1, 1], and names each node from 0 to 1 once",
        ),
        ("/shape/order/0", json!([]), "shape.order[0] is [], and"),
        (
            "/shape/order/0",
            json!([1, 0]),
            "shape.order[0] begins with node 1, and a node looks at itself first",
        ),
        (
            "/shape/first_llc",
            json!([0]),
            "shape.first_llc has 1 nodes, and shape.weight has 2",
        ),
        (
            "/shape/first_llc",
            json!([1, 2]),
            "shape.first_llc is [1, 2], and",
        ),
        (
            "/shape/first_llc",
            json!([0, 0]),
            "shape.first_llc is [0, 0], and",
        ),
        (
            "/shape/first_llc",
            json!([0, 4]),
            "shape.first_llc is [0, 4], and",
        ),
        (
            "/shape/first_llc",
            json!([0, 3]),
            "LLC 2 is on node 1 by shape.llc_node, and on node 0 by shape.first_llc",
        ),
        (
            "/shape/llc_node/0",
            json!(1),
            "LLC 0 is on node 1 by shape.llc_node, and on node 0",
        ),
        (
            "/shape/llc_node",
            json!([0, 0, 1]),
            "shape.llc_node has 3 LLCs, and shape.llc_weight has 4",
        ),
        (
            "/limits/fork/max_running",
            json!([2]),
            "limits.fork.max_running has 1 nodes, and shape.weight has 2",
        ),
        (
            "/limits/fork/max_running/0",
            json!(9),
            "limits.fork.max_running[0] is 9, and the node has 8 CPUs by shape.weight",
        ),
        (
            "/limits/run_time/max_running",
            json!([2, 2, 2]),
            "limits.run_time.max_running has 3 nodes",
        ),
        (
            "/limits/run_time/max_running/1",
            json!(u32::MAX),
            "limits.run_time.max_running[1] is 4294967295",
        ),
        (
            "/limits/preferred/max_running",
            json!([]),
            "limits.preferred.max_running has 0 nodes",
        ),
        (
            "/limits/preferred/max_running/1",
            json!(9),
            "limits.preferred.max_running[1] is 9",
        ),
    ] {
        let said = said(place, value.clone());
        let start = format!("the header contradicts itself: {why}");
        assert!(said.starts_with(&start), "{place} = {value}: {said}");
        assert!(said.ends_with("else record the trace again"), "{said}");
    }
}

fn ballast(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    command.args(args).output().expect("the command starts")
}

/// What both readers of a trace say, which have to agree, and end with status 1 and nothing on standard output.
fn refusal(text: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("trace");
    std::fs::write(&file, text).expect("a file");
    let path = file.to_str().expect("a name in UTF-8");
    let workload = format!("trace:{path}");
    let run = ["simulate", "--machine", MACHINE, "--workload", &workload];
    let [replayed, run] = [&["replay", path][..], &run].map(|args| {
        let output = ballast(args);
        let said = String::from_utf8_lossy(&output.stderr).replace(path, "TRACE");
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{output:?}");
        let last = said.trim_end().lines().last().unwrap_or_default();
        last.trim_start_matches("Error: ").to_string()
    });
    assert!(
        replayed == run || run.ends_with(&replayed),
        "{replayed}, {run}"
    );
    replayed
}

/// The line is told, also of a header further down, as after hotplug.
#[test]
fn both_readers_refuse_it_with_its_line() {
    let run = ["simulate", "--machine", MACHINE, "--workload"];
    let trace = ballast(&[&run[..], &["fork-burst:4,spin_ms=20", "--trace", "-"]].concat());
    let trace = String::from_utf8(trace.stdout).expect("text");
    let (first, rest) = trace.split_once('\n').expect("lines");
    let (fork, _) = rest.split_once('\n').expect("lines");
    let changed = |line: &str, from: &str, to: &str| {
        let wrong = line.replace(from, to);
        assert_ne!(line, wrong);
        wrong
    };
    let weights = changed(first, r#""weight":[8,8]"#, r#""weight":[8,0]"#);
    let contradicts =
        "the header contradicts itself: node 1 has 0 CPUs by shape.weight, and its LLCs have 8";
    let format = changed(first, r#""format":1"#, r#""format":2"#);
    let formats = "the trace has format 2, this version reads format 1";
    let llc = changed(fork, r#""llc":3"#, r#""llc":77"#);
    let node = changed(fork, r#""node":1"#, r#""node":55"#);
    let local = changed(fork, r#""local":1"#, r#""local":2"#);
    for (text, line, why) in [
        (format!("{weights}\n{rest}"), 1, contradicts),
        (format!("{first}\n{weights}\n{rest}"), 2, contradicts),
        (format!("{format}\n{rest}"), 1, formats),
        (format!("{first}\n{format}\n{rest}"), 2, formats),
        (
            format!("{first}\n{llc}\n"),
            2,
            "llc is 77, and cannot be above 3",
        ),
        (
            format!("{first}\n{node}\n"),
            2,
            "node is 55, and cannot be above 1",
        ),
        (
            format!("{first}\n{local}\n"),
            2,
            "local is 2, and cannot be above 1",
        ),
    ] {
        let said = refusal(&text);
        let start = format!("TRACE, line {line}: {why}");
        assert!(said.starts_with(&start), "{said}, not {start}");
    }
}
