// SPDX-License-Identifier: GPL-2.0-only
//! First placement: tasks that are forked in a row, sleep and then run must be spread evenly, each
//! time and not on average (R5, R6). Tasks that run only after all were forked show whether
//! sleeping newborns are counted: without that all of them look like idle room.

use crate::guest::{Node, nodes, remark, soak};
use crate::sched::with_shared;
use crate::work::{Report, work};

/// Tasks per node at birth and after the sleep.
struct Repeat {
    birth: Vec<u32>,
    first: Vec<u32>,
}

/// `repeat N: first A B last A B birth A B`
fn parse(line: &str) -> Option<Repeat> {
    let line = line.strip_prefix("repeat ")?;
    let counts = |key: &str| -> Vec<u32> {
        let words = line.split(' ').skip_while(|word| *word != key).skip(1);
        words.map_while(|word| word.parse().ok()).collect()
    };
    Some(Repeat {
        birth: counts("birth"),
        first: counts("first"),
    })
}

/// The rules' excess of `a` over `b`: (tasks, CPUs) of each.
fn excess(a: (u32, u32), b: (u32, u32)) -> i64 {
    let [c_a, w_a, c_b, w_b] = [a.0, a.1, b.0, b.1].map(i64::from);
    (2 * (c_a * w_b - c_b * w_a) / (w_a + w_b)).max(0)
}

/// The largest excess between any two nodes.
fn largest_excess(counts: &[u32], weights: &[u32]) -> i64 {
    let loads: Vec<(u32, u32)> = counts
        .iter()
        .copied()
        .zip(weights.iter().copied())
        .collect();
    let pairs = loads
        .iter()
        .flat_map(|a| loads.iter().map(|b| excess(*a, *b)));
    pairs.max().unwrap()
}

/// Is it as even as the rule makes it? An excess of at most 1 in either direction: on nodes of
/// equal size that is a difference of at most 1 task. The forking task runs itself and is counted
/// on its own node, which matters on nodes of unequal size: there a state is even if it is so with
/// that task on one of the nodes.
fn even(counts: &[u32], nodes: &[Node]) -> bool {
    let weights: Vec<u32> = nodes.iter().map(|node| node.cpus.len() as u32).collect();
    let equal = weights.iter().all(|weight| *weight == weights[0]);
    if equal || largest_excess(counts, &weights) <= 1 {
        return largest_excess(counts, &weights) <= 1;
    }
    (0..counts.len()).any(|parent| {
        let mut counts = counts.to_vec();
        counts[parent] += 1;
        largest_excess(&counts, &weights) <= 1
    })
}

#[track_caller]
fn judge(report: &Report) {
    let nodes = nodes();
    let cpus: usize = nodes.iter().map(|node| node.cpus.len()).sum();
    let repeats: Vec<Repeat> = report.lines.iter().filter_map(|line| parse(line)).collect();
    assert!(!repeats.is_empty(), "{:?}", report.lines);
    let mut bad = Vec::new();
    for (repeat, line) in repeats.iter().zip(&report.lines) {
        let tasks: u32 = repeat.birth.iter().sum();
        // With more tasks than CPUs a CPU that is idle for a moment rightly takes a waiting task
        // of another node (R9) before that has run for the first time: judge births alone then.
        let judged = tasks as usize > cpus || even(&repeat.first, &nodes);
        if !judged || !even(&repeat.birth, &nodes) {
            bad.push(line.clone());
        }
    }
    remark(&format!(
        "{}/{} even",
        repeats.len() - bad.len(),
        repeats.len()
    ));
    assert!(
        bad.is_empty(),
        "uneven:\n{}\n{}",
        bad.join("\n"),
        report.text()
    );
}

fn burst(tasks: &str, more: &[&str]) {
    let repeats = soak("8", "100");
    let mut args = vec!["fork-burst", "--tasks", tasks, "--repeats", repeats];
    args.extend(["--spin-ms", "50", "--gap-ms", "200"]);
    args.extend(more);
    with_shared(|_| judge(&work(&args)));
}

#[test]
#[ignore = "runs in the lab"]
fn burst_of_4_processes() {
    burst("4", &[]);
}

#[test]
#[ignore = "runs in the lab"]
fn burst_of_8_processes() {
    burst("8", &[]);
}

#[test]
#[ignore = "runs in the lab"]
fn burst_of_16_processes() {
    burst("16", &[]);
}

/// Threads are placed by the same rule.
#[test]
#[ignore = "runs in the lab"]
fn burst_of_8_threads() {
    burst("8", &["--threads"]);
}
