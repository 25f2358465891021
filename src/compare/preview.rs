// SPDX-License-Identifier: GPL-2.0-only
//! What a comparison would do, for `--dry-run`, and what there is to run, for `--list`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use super::order::{self, Slot};
use super::progress::duration;
use super::record::{Benchmark, Better, Metric, Plan, Record};
use super::runner::{Key, key, made};

/// What it takes to put a scheduler in charge and to end it, as a rule of thumb: it depends on the
/// scheduler and the machine, and emulated ones take far longer.
const ATTACH: Duration = Duration::from_secs(3);

/// The plan for a person: arms, benchmarks, what is skipped, the order of the runs that `records` do not
/// have, and how long these take.
pub fn describe(plan: &Plan, records: &[Record]) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "arms, in {} blocks, seed {}:", plan.blocks, plan.seed);
    for arm in &plan.arms {
        let twin = arm
            .twin_of
            .map(|of| format!(" (twin of {})", plan.arms[of].label));
        let program = match arm.argv.is_empty() {
            true => "the kernel's own scheduler".to_string(),
            false => shell_words::join(&arm.argv),
        };
        let twin = twin.unwrap_or_default();
        let _ = writeln!(text, "  {}{twin}: {program}", arm.label);
    }
    let _ = writeln!(text, "benchmarks:");
    for benchmark in &plan.benchmarks {
        let (name, limit) = (&benchmark.name, benchmark.timeout_s);
        let _ = writeln!(text, "  {name} (at most {limit} s): {}", benchmark.command);
        text += &metrics(benchmark);
    }
    for skipped in &plan.skipped {
        let _ = writeln!(text, "  {} is skipped: {}", skipped.name, skipped.reason);
    }
    let left = left(plan, &made(records));
    match records.is_empty() {
        true => text += "order:\n",
        false => text += "order of what is left:\n",
    }
    for block in left.chunk_by(|a, b| a.block == b.block) {
        let runs = block
            .chunk_by(|a, b| a.benchmark == b.benchmark)
            .map(|slots| {
                let names = slots.iter().map(|slot| plan.arms[slot.arm].label.as_str());
                let names: Vec<&str> = names.collect();
                let benchmark = &plan.benchmarks[slots[0].benchmark].name;
                format!("{benchmark} by {}", names.join(", "))
            });
        let runs: Vec<String> = runs.collect();
        let _ = writeln!(text, "  {}: {}", block[0].block + 1, runs.join("; "));
    }
    text + &times(plan, records, &left)
}

/// The metrics of a benchmark, a line each.
pub fn metrics(benchmark: &Benchmark) -> String {
    let line = |metric: &Metric| {
        let better = match metric.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
        };
        let primary = if metric.primary { ", primary" } else { "" };
        let (name, unit) = (&metric.name, &metric.unit);
        format!("    {name} in {unit}, {better} is better{primary}\n")
    };
    benchmark.metrics.iter().map(line).collect()
}

fn left(plan: &Plan, made: &BTreeSet<Key>) -> Vec<Slot> {
    let (arms, benchmarks) = (plan.arms.len(), plan.benchmarks.len());
    let mut all = order::all(plan.seed, plan.blocks, arms, benchmarks);
    all.retain(|slot| !made.contains(&key(slot)));
    all
}

/// How long the runs that are `left` take: what is certain, what is likely, and the most.
fn times(plan: &Plan, records: &[Record], left: &[Slot]) -> String {
    let count = |runs: usize| u32::try_from(runs).unwrap_or(u32::MAX);
    let settle = Duration::from_millis(plan.settle_ms).saturating_mul(count(left.len()));
    let loads = left
        .iter()
        .filter(|slot| !plan.arms[slot.arm].argv.is_empty());
    let loading = ATTACH.saturating_mul(count(loads.count()));
    let limits = left
        .iter()
        .map(|slot| plan.benchmarks[slot.benchmark].timeout_s);
    let limit = Duration::from_secs(limits.fold(0, u64::saturating_add));
    let overhead = settle.saturating_add(loading);
    let likely = match running(plan, records, left) {
        Some(running) => format!(
            "likely about {}, with benchmarks that take as long as before",
            duration(overhead.saturating_add(running))
        ),
        None => "how long the benchmarks themselves take shows once they ran".into(),
    };
    let made = match made(records).len() {
        0 => String::new(),
        made => format!(" ({made} are made)"),
    };
    format!(
        "{} runs{made}; at least {} of settling and about {} of loading schedulers ({} each); {likely}; at most {} if \
         every benchmark takes all its time\n",
        left.len(),
        duration(settle),
        duration(loading),
        duration(ATTACH),
        duration(overhead.saturating_add(limit))
    )
}

/// Time that benchmarks take in the runs that are `left`, by the runs of them that were made; nothing
/// if there is a benchmark that never ran.
fn running(plan: &Plan, records: &[Record], left: &[Slot]) -> Option<Duration> {
    let mut took = vec![(0.0, 0_u32); plan.benchmarks.len()];
    for record in records {
        if let Record::Run(run) = record
            && let Some((sum, runs)) = took.get_mut(run.benchmark)
        {
            *sum += run.evidence.wall_s;
            *runs += 1;
        }
    }
    let each = left.iter().map(|slot| match took[slot.benchmark] {
        (_, 0) => None,
        (sum, runs) => Some(sum / f64::from(runs)),
    });
    Duration::try_from_secs_f64(each.sum::<Option<f64>>()?).ok()
}
