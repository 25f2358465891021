// SPDX-License-Identifier: GPL-2.0-only
//! `work numa-mem` where threads and memory are held in place, so that the right local share is known.
//!
//! No scheduler is loaded: the workload is the instrument here, and EEVDF honours affinity as well. NUMA
//! balancing is off wherever it could move pages.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::guest::{must, nodes, remark, undisturbed};
use crate::sched::{binary, with_none};
use crate::work::{Report, report, work};

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

/// Does something while the kernel moves no pages for the sake of balance.
fn without_balancing(test: impl FnOnce()) {
    const SETTING: &str = "/proc/sys/kernel/numa_balancing";
    let before = std::fs::read_to_string(SETTING);
    if before.is_ok() {
        std::fs::write(SETTING, "0").unwrap();
    }
    test();
    // A test that fails ends its machine, or another one here sets this itself.
    if let Ok(before) = before {
        std::fs::write(SETTING, before.trim()).unwrap();
    }
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

/// Nobody holds anything in place but the workload itself, and that until the start only.
#[test]
#[ignore = "runs in the lab"]
fn memory_and_threads_begin_on_different_nodes() {
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    with_none(|| {
        without_balancing(|| {
            for flags in [
                "--shared-mib 4",
                "--shared-mib 0 --local-mib 4",
                "--shared-mib 2 --local-mib 2 --first-touch main",
                "--shared-mib 4 --shared-between-processes",
            ] {
                for (memory, start, local) in [(0, 1, 0.0), (1, 0, 0.0), (1, 1, 1.0)] {
                    let line = format!(
                        "numa-mem --processes 1 --threads 1 --seconds 1 {flags} \
                         --memory-on {memory} --start-on {start} --sample-pages 100000 --report-at 1"
                    );
                    let line: Vec<&str> = line.split_whitespace().collect();
                    // One thread on an idle machine has no reason to leave, and seldom does.
                    undisturbed(5, || {
                        let report = work(&line);
                        assert_eq!(report.number("moved_pages_share"), 0.0);
                        assert_eq!(report.number("absent_pages"), 0.0);
                        if report.number("migrations") > 0.0 {
                            return Err("it was moved".into());
                        }
                        for key in ["local_start", "local_mean", "local_1s"] {
                            assert_eq!(report.number(key), local, "{key}: {}", report.text());
                        }
                        Ok(())
                    });
                }
            }
        });
    });
}

/// Processes take turns, and the next node is another one.
#[test]
#[ignore = "runs in the lab"]
fn every_process_begins_on_a_node_of_its_own() {
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    with_none(|| {
        without_balancing(|| {
            let processes = nodes().len().to_string();
            for (start, local) in [("each", 1.0), ("next", 0.0)] {
                let line = format!(
                    "numa-mem --processes {processes} --threads 1 --seconds 1 --shared-mib 4 \
                     --memory-on each --start-on {start} --sample-pages 100000"
                );
                let report = work(&line.split_whitespace().collect::<Vec<_>>());
                assert_eq!(report.number("local_start"), local, "{}", report.text());
            }
        });
    });
}

/// What a policy says goes, whoever touches first and wherever; threads stay on node 1.
#[test]
#[ignore = "runs in the lab"]
fn a_policy_puts_memory_where_it_says() {
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    with_none(|| {
        let part = 1.0 / nodes().len() as f64;
        for more in ["", " --shared-between-processes"] {
            for (policy, low, high) in [
                ("bind:0", 0.0, 0.0),
                ("bind:1", 1.0, 1.0),
                ("prefer:0", 0.0, 0.0),
                ("interleave", part - 0.01, part + 0.01),
            ] {
                let args = format!(
                    "--rounds 2 --shared-mib 4 --huge-pages avoid --sample-pages 100000 --policy {policy}{more}"
                );
                let report = held("-N1", &args);
                assert_shares(&report, low, high);
                assert_eq!(report.number("moved_pages_share"), 0.0);
            }
        }
    });
}

/// Pages that are sent to another node meanwhile have moved.
#[test]
#[ignore = "runs in the lab"]
fn pages_that_change_node_are_told() {
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    with_none(|| {
        let mut command = Command::new(binary());
        let line = "work numa-mem --processes 1 --threads 1 --shared-mib 4 --seconds 6 \
                    --memory-on 0 --start-on 0 --sample-pages 100000 --report-at 6";
        command.args(line.split_whitespace()).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        // The process that works is the child's child.
        let worker = children_of(child.id());
        must(&format!("migratepages {} 0 1", worker.trim()));
        let output = child.wait_with_output().unwrap();
        let report = Report::parse(&String::from_utf8(output.stdout).unwrap());
        assert!(
            report.number("moved_pages_share") > 0.9,
            "{}",
            report.text()
        );
        assert_eq!(report.number("local_start"), 1.0, "{}", report.text());
    });
}

/// Three threads on two CPUs, held there once all have begun: one has the CPU beside all memory to itself, two
/// share one of the other node. By threads a third would be local; by run time it is half.
#[test]
#[ignore = "runs in the lab"]
fn a_thread_that_waits_does_not_count() {
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    with_none(|| {
        let first = |node: usize| *nodes()[node].cpus.iter().next().unwrap();
        let mut command = Command::new(binary());
        let line = "work numa-mem --processes 3 --threads 1 --shared-mib 2 --policy bind:0 \
                    --sample-pages 64 --sample-ms 200 --seconds 14 --report-at 14";
        command.args(line.split_whitespace()).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        // One shell: to start a program takes up to a second here, and all has to be held by 13 s.
        let (a, b) = (first(0), first(1));
        must(&format!(
            "set -- $(pgrep -P {}); taskset -a -p -c {a} $1; taskset -a -p -c {b} $2; taskset -a -p -c {b} $3",
            child.id()
        ));
        let output = child.wait_with_output().unwrap();
        let report = Report::parse(&String::from_utf8(output.stdout).unwrap());
        let local = report.number("local_14s");
        remark(&format!("{local}"));
        assert!((0.42..=0.58).contains(&local), "{}", report.text());
    });
}

fn children_of(pid: u32) -> String {
    must(&format!("pgrep -P {pid}"))
}

/// Two threads, each held on another node, and all memory on one of the two: half of it local, and a process that is
/// together at most until it is held.
///
/// Each thread has a mask of its own. Under one mask with a CPU of either node EEVDF may leave both on one
/// CPU for good: by its counters one node with two and one with none is an imbalance that it tolerates (the
/// fault that R2 has the cap by affinity for).
#[test]
#[ignore = "runs in the lab"]
fn threads_on_both_nodes_do_not_converge() {
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    with_none(|| {
        let first = |node: usize| *nodes()[node].cpus.iter().next().unwrap();
        let mut command = Command::new(binary());
        let line =
            "work numa-mem --processes 1 --threads 2 --shared-mib 4 --policy bind:0 --seconds 12";
        command.args(line.split_whitespace()).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        // Those two that have run longest are the ones that work.
        must(&format!(
            "set -- $(cd /proc/{}/task; for t in *; do echo $(cut -d' ' -f1 $t/schedstat) $t; done \
                      | sort -n | tail -n2 | cut -d' ' -f2); \
             taskset -p -c {} $1; taskset -p -c {} $2",
            children_of(child.id()).trim(),
            first(0),
            first(1)
        ));
        let output = child.wait_with_output().unwrap();
        let report = Report::parse(&String::from_utf8(output.stdout).unwrap());
        // Up to half of the run goes by before they are held, since to start programs takes long here.
        assert!(report.number("one_node") < 0.6, "{}", report.text());
        let local = report.number("local_end");
        assert!((0.42..=0.58).contains(&local), "{}", report.text());
    });
}
