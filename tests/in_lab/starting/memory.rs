// SPDX-License-Identifier: GPL-2.0-only
//! `work numa-mem` where threads and memory are held in place, so that the right local share is known.
//!
//! No scheduler is loaded: the workload is the instrument here, and EEVDF honours affinity as well.

use std::process::Command;

use crate::guest::{must, nodes, remark};
use crate::sched::{binary, with_none};
use crate::work::{Report, report};

/// `work numa-mem` under numactl, which is told where threads and memory have to be.
#[track_caller]
fn held(numactl: &str, args: &str) -> Report {
    let mut command = Command::new("numactl");
    command.args(numactl.split(' ')).arg(binary());
    command.args(["work", "numa-mem"]).args(args.split(' '));
    let report = report(&mut command);
    remark(&format!("{numactl}: {}", report.number("local_mean")));
    report
}

#[track_caller]
fn assert_shares(report: &Report, low: f64, high: f64) {
    for key in ["local_start", "local_mean", "local_end"] {
        let share = report.number(key);
        assert!((low..=high).contains(&share), "{key}: {}", report.text());
    }
    // Threads cannot leave the node, so every look finds them together.
    assert_eq!(report.number("one_node"), 1.0, "{}", report.text());
    assert_eq!(report.number("migrations"), 0.0, "{}", report.text());
    assert_eq!(report.number("absent_pages"), 0.0, "{}", report.text());
}

/// Shared memory and memory of single threads, sampled and in full.
const SHAPES: [&str; 3] = [
    "--rounds 2 --shared-mib 4",
    "--rounds 2 --shared-mib 0 --local-mib 2 --order random",
    "--rounds 2 --shared-mib 2 --local-mib 1 --first-touch main --sample-pages 100000",
];

#[test]
#[ignore = "runs in the lab"]
fn memory_of_its_own_node_is_local() {
    with_none(|| {
        for shape in SHAPES {
            assert_shares(&held("-N0 -m0", shape), 1.0, 1.0);
        }
    });
}

#[test]
#[ignore = "runs in the lab"]
fn memory_of_another_node_is_not() {
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    with_none(|| {
        for shape in SHAPES {
            assert_shares(&held("-N0 -m1", shape), 0.0, 0.0);
        }
    });
}

/// Pages take turns between two nodes, which a sample of every n-th page would not notice.
#[test]
#[ignore = "runs in the lab"]
fn interleaved_memory_is_local_by_half() {
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    // NUMA balancing leaves memory alone that a policy has interleaved.
    with_none(|| {
        let all = "--rounds 2 --shared-mib 4 --huge-pages avoid --sample-pages 100000";
        assert_shares(&held("-N0 -i0,1", all), 0.49, 0.51);
        // 1024 of 2048 pages: a standard error of 1 %.
        let sample = "--rounds 2 --shared-mib 8 --huge-pages avoid --sample-pages 1024";
        assert_shares(&held("-N0 -i0,1", sample), 0.44, 0.56);
    });
}

/// Two threads, each pinned to another node by nobody but this: all memory on one of the two, and a
/// process that is never together.
#[test]
#[ignore = "runs in the lab"]
fn threads_on_both_nodes_do_not_converge() {
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    with_none(|| {
        let first = |node: usize| *nodes()[node].cpus.iter().next().unwrap();
        let (a, b) = (first(0), first(1));
        let args = "--processes 1 --threads 2 --shared-mib 4 --rounds 12";
        let line = format!(
            "numactl -m0 taskset -c {a},{b} {} work numa-mem {args}",
            binary().display()
        );
        // Two busy threads on two CPUs are kept apart, if not from the first moment on.
        let text = must(&line);
        let report = Report::parse(&text);
        assert!(report.number("one_node") < 0.5, "{}", report.text());
        let local = report.number("local_mean");
        assert!((0.4..=0.75).contains(&local), "{}", report.text());
    });
}
