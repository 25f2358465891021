// SPDX-License-Identifier: GPL-2.0-only
//! The truth of the evidence: what first touch and a look say of the processes of the suite `locality`'s six cases, against
//! the kernel's own count of their pages.
//!
//! *Agreement* of two distributions over nodes is what they have in common, in percent: 100 when they are the same, 0
//! when all pages are where the evidence has none.

use std::fs;

use super::*;
use crate::running::first_touch::faults_of;
use crate::sched::{binary, with_own};
use crate::tasks::thread_cpus;

/// A case of the suite, with less memory.
struct Case {
    name: &'static str,
    flags: &'static str,
    processes: usize,
    /// Memory of each process.
    mib: usize,
    /// A memory policy says where pages are, and not who touches them first.
    placed: bool,
}

const CASES: [Case; 6] = [
    Case {
        name: "start-remote",
        flags: "--processes 2 --threads 1 --shared-mib 16 --memory-on 0 --start-on 1",
        processes: 2,
        mib: 16,
        placed: false,
    },
    Case {
        name: "one-per-node",
        flags: "--processes 2 --threads 2 --shared-mib 0 --local-mib 8 --memory-on each --start-on next",
        processes: 2,
        mib: 16,
        placed: false,
    },
    Case {
        name: "larger-than-a-node",
        flags: "--processes 1 --threads 6 --shared-mib 0 --local-mib 4 --first-touch main --memory-on 0",
        processes: 1,
        mib: 24,
        placed: false,
    },
    Case {
        name: "shm-pair",
        flags: "--processes 2 --threads 1 --shared-mib 16 --shared-between-processes --memory-on 0 --start-on each",
        processes: 2,
        mib: 16,
        placed: false,
    },
    Case {
        name: "bound",
        flags: "--processes 2 --threads 1 --shared-mib 16 --policy bind:0 --start-on 1",
        processes: 2,
        mib: 16,
        placed: true,
    },
    Case {
        name: "interleaved",
        flags: "--processes 2 --threads 1 --shared-mib 16 --policy interleave",
        processes: 2,
        mib: 16,
        placed: true,
    },
];

/// Percent that both distributions have in common; nothing has nothing in common.
fn agreement(told: &[u64], truth: &[u64]) -> f64 {
    if told.iter().sum::<u64>() == 0 {
        return 0.0;
    }
    let parts = (0..truth.len()).map(|node| share(told, node).min(share(truth, node)));
    100.0 * parts.sum::<f64>()
}

/// The processes that `parent` has started.
fn children(parent: i32) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let behind_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        behind_name.split(' ').nth(1) == Some(&parent.to_string())
    };
    pids.filter(is_child).collect()
}

/// What all threads of a process are credited with.
fn faults(tgid: i32, nodes: usize) -> Vec<u64> {
    let mut sum = vec![0; nodes];
    for (tid, _) in thread_cpus(tgid) {
        for (sum, faults) in sum.iter_mut().zip(faults_of(tid, nodes)) {
            *sum += faults;
        }
    }
    sum
}

#[test]
#[ignore = "runs in the lab"]
fn evidence_agrees_with_numa_maps_in_every_case() {
    with_own(
        &["--max-tasks", "2048", "--locality", "first-touch"],
        |_| {
            let nodes = nodes().len();
            if nodes < 2 {
                return remark("(one node)");
            }
            for case in CASES {
                let args = format!(
                    "work numa-mem --seconds 60 --huge-pages avoid {}",
                    case.flags
                );
                let args: Vec<&str> = args.split(' ').collect();
                let work = Task::exec(binary().to_str().unwrap(), &args);
                let mut asked = Asked::start();
                let pages = (case.mib * MIB / PAGE) as u64;
                let processes = within(secs(2), || {
                    let processes = children(work.pid());
                    let has_all = |&pid: &i32| asked.truth(pid, None).iter().sum::<u64>() >= pages;
                    match processes.len() == case.processes && processes.iter().all(has_all) {
                        true => Ok(processes),
                        false => Err(format!("{}: {processes:?} make their memory", case.name)),
                    }
                });
                // A tick credits what was touched since the one before.
                std::thread::sleep(ms(300));
                for pid in processes {
                    let truth = asked.truth(pid, None);
                    let (look, _) = asked.look(pid, 200);
                    let (sampled, touched) = (found(&look), faults(pid, nodes));
                    let [b, a] = [&sampled, &touched].map(|told| agreement(told, &truth));
                    remark(&format!(
                        "{}: sampled {b:.1}, first touch {a:.1} %;",
                        case.name
                    ));
                    // 200 addresses of pages that are half here and half there: 12 % are more than three deviations.
                    assert!(b >= 88.0, "{sampled:?}, {truth:?}");
                    // Where a policy places pages, first touch tells the node of the task: why it decides nothing.
                    match case.placed {
                        false => assert!(a >= 70.0, "{touched:?}, {truth:?}"),
                        true => assert!(a <= 75.0, "{touched:?}, {truth:?}"),
                    }
                }
            }
        },
    );
}
