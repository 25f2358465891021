// SPDX-License-Identifier: GPL-2.0-only
//! What a reader has to know before the numbers.

use std::collections::{BTreeMap, BTreeSet};

use crate::compare::record::{Discarded, Mean, Plan, Run};

use super::brief::brief;
use super::family::{SIGNIFICANT, TooFewBlocks};
use super::gather::{Gathered, Machine};
use super::{Row, Verdict};

/// The most primary metrics that a suite should have.
const PRIMARIES: usize = 5;

/// How many names a warning lists.
const NAMES: usize = 5;

/// All warnings: first of each file, then of the files together, then of the results.
pub fn all(gathered: &Gathered, rows: &[Row]) -> Vec<String> {
    let machines = &gathered.machines;
    let mut warnings = Vec::new();
    for index in 0..machines.len() {
        of_file(machines, index, &mut warnings);
    }
    of_differences(gathered, &mut warnings);
    of_blocks(gathered, rows, &mut warnings);
    of_contradictions(gathered, rows, &mut warnings);
    of_noise(gathered, rows, &mut warnings);
    of_metrics(gathered, rows, &mut warnings);
    warnings
}

/// The file as a reader knows it, and nothing if it is the only one.
fn prefix(machines: &[Machine], index: usize) -> String {
    if machines.len() == 1 {
        return String::new();
    }
    match machines[index].plan.environment.host.known() {
        Some(host) => format!("file {} ({host}): ", index + 1),
        None => format!("file {}: ", index + 1),
    }
}

fn of_file(machines: &[Machine], index: usize, warnings: &mut Vec<String>) {
    let Machine {
        plan,
        runs,
        discarded,
    } = &machines[index];
    let prefix = prefix(machines, index);
    let planned = plan.blocks as usize * plan.arms.len() * plan.benchmarks.len();
    if runs.len() < planned {
        let missing = planned - runs.len();
        let given_up = given_up(runs, discarded);
        warnings.push(match missing.saturating_sub(given_up) {
            0 => format!(
                "{prefix}{} of {planned} runs: {missing} {} tried and given up",
                runs.len(),
                if missing == 1 { "was" } else { "were" }
            ),
            _ => format!(
                "{prefix}unfinished: {} of {planned} runs; whoever stops when the numbers please fools himself, so resume it",
                runs.len()
            ),
        });
    }
    if let Some(first) = discarded.first() {
        let count = discarded.len();
        let runs = if count == 1 { "run was" } else { "runs were" };
        warnings.push(format!(
            "{prefix}{count} {runs} discarded, the first because: {}",
            brief(&first.reason)
        ));
    }
}

/// How many runs were tried and never counted.
fn given_up(runs: &[(usize, &Run)], discarded: &[&Discarded]) -> usize {
    let made: BTreeSet<_> = runs
        .iter()
        .map(|(_, run)| (run.block, run.arm, run.benchmark))
        .collect();
    let tried: BTreeSet<_> = discarded
        .iter()
        .map(|run| (run.block, run.arm, run.benchmark))
        .collect();
    tried.difference(&made).count()
}

/// What is not the same on all machines.
fn of_differences(gathered: &Gathered, warnings: &mut Vec<String>) {
    let machines = &gathered.machines;
    for (index, machine) in machines.iter().enumerate() {
        let prefix = prefix(machines, index);
        let has = |all: &[usize], index: usize| all.contains(&index);
        let arms = gathered.merged.arms.iter().enumerate();
        let arms = arms.filter(|(arm, _)| !has(&gathered.merged.arm_of[index], *arm));
        missing(&prefix, "arm", arms.map(|(_, a)| a.label.clone()), warnings);
        let benchmarks = gathered.merged.benchmarks.iter().enumerate();
        let benchmarks = benchmarks.filter(|(b, _)| !has(&gathered.merged.benchmark_of[index], *b));
        let names = benchmarks.map(|(_, benchmark)| benchmark.name.clone());
        missing(&prefix, "benchmark", names, warnings);
        let metrics = machine.plan.benchmarks.iter().enumerate();
        let metrics = metrics.flat_map(|(b, benchmark)| {
            let all = &gathered.merged.benchmarks[gathered.merged.benchmark_of[index][b]];
            let lacks = |name: &String| !benchmark.metrics.iter().any(|m| m.name == *name);
            let names = all.metrics.iter().map(|metric| &metric.name);
            names
                .filter(move |name| lacks(name))
                .map(|name| format!("{} {name}", benchmark.name))
                .collect::<Vec<_>>()
        });
        missing(&prefix, "metric", metrics, warnings);
    }
    let plans: Vec<&Plan> = machines.iter().map(|machine| machine.plan).collect();
    differing(
        "kernels",
        plans.iter().map(|p| &p.environment.kernel),
        warnings,
    );
    differing(
        "versions of scx_ballast",
        plans.iter().map(|p| &p.version),
        warnings,
    );
    of_arms(gathered, &plans, warnings);
    of_commands(gathered, &plans, warnings);
    of_hosts(&plans, warnings);
}

fn missing(
    prefix: &str,
    what: &str,
    names: impl Iterator<Item = String>,
    warnings: &mut Vec<String>,
) {
    let names: Vec<String> = names.collect();
    if !names.is_empty() {
        warnings.push(format!("{prefix}has no {what} {}", listed(&names)));
    }
}

fn differing<'a>(what: &str, values: impl Iterator<Item = &'a String>, warnings: &mut Vec<String>) {
    let mut distinct: Vec<String> = Vec::new();
    for value in values {
        if !distinct.contains(value) {
            distinct.push(value.clone());
        }
    }
    if distinct.len() > 1 {
        let all = listed(&distinct);
        warnings.push(format!("the machines have different {what}: {all}"));
    }
}

/// Arms of one label that were not started alike. Where a program is installed may differ.
fn of_arms(gathered: &Gathered, plans: &[&Plan], warnings: &mut Vec<String>) {
    for (index, merged) in gathered.merged.arms.iter().enumerate() {
        let started: Vec<String> = plans
            .iter()
            .zip(&gathered.merged.arm_of)
            .filter_map(|(plan, arm_of)| {
                let arm = &plan.arms[arm_of.iter().position(|&arm| arm == index)?];
                let mut words = arm.argv.clone();
                if let Some(program) = words.first_mut()
                    && let Some((_, name)) = program.rsplit_once('/')
                {
                    *program = name.to_owned();
                }
                let balancing = match arm.numa_balancing {
                    None => "",
                    Some(true) => " with NUMA balancing on",
                    Some(false) => " with NUMA balancing off",
                };
                Some(format!("{:?}{balancing}", words.join(" ")))
            })
            .collect();
        let what = format!("schedulers named {:?}", merged.label);
        differing(&what, started.iter(), warnings);
    }
}

/// Benchmarks of one name that do not run the same. Numbers may differ: they are made from the machine's.
fn of_commands(gathered: &Gathered, plans: &[&Plan], warnings: &mut Vec<String>) {
    let mut names = Vec::new();
    for (index, merged) in gathered.merged.benchmarks.iter().enumerate() {
        let mut commands =
            plans
                .iter()
                .zip(&gathered.merged.benchmark_of)
                .filter_map(|(plan, benchmark_of)| {
                    let at = benchmark_of.iter().position(|&it| it == index)?;
                    Some(without_numbers(&plan.benchmarks[at].command))
                });
        let first = commands.next();
        if commands.any(|other| Some(other) != first) {
            names.push(merged.name.clone());
        }
    }
    if !names.is_empty() {
        let names = listed(&names);
        warnings.push(format!(
            "the machines ran different commands under one name, and not only with other numbers, so that they may not have measured the same: {names}"
        ));
    }
}

/// `command` with `#` for each number or list of numbers, such as `8`, `0.5` or `0-7,16-23`.
fn without_numbers(command: &str) -> String {
    let mut text = String::with_capacity(command.len());
    let mut in_number = false;
    for c in command.chars() {
        in_number = c.is_ascii_digit() || in_number && matches!(c, '.' | ',' | '-');
        match in_number {
            false => text.push(c),
            true if !text.ends_with('#') => text.push('#'),
            true => {}
        }
    }
    text
}

/// One host is one machine, in however many files.
fn of_hosts(plans: &[&Plan], warnings: &mut Vec<String>) {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (plan, file) in plans.iter().zip(1..) {
        if let Some(host) = plan.environment.host.known() {
            files.entry(host).or_default().push(file.to_string());
        }
    }
    for (host, files) in files.iter().filter(|(_, files)| files.len() > 1) {
        warnings.push(format!(
            "the files {} are all of the host {:?}: they count as several machines, but say nothing about more than this one",
            listed(files),
            brief(host)
        ));
    }
}

/// Whether there are enough blocks for any verdict.
fn of_blocks(gathered: &Gathered, rows: &[Row], warnings: &mut Vec<String>) {
    let arms = gathered.merged.arms.iter().skip(1);
    let judged = arms.filter(|arm| arm.twin_of.is_none()).count();
    let questions = judged * rows.iter().filter(|row| row.primary).count();
    let blocks = gathered.machines.iter().map(|machine| machine.plan.blocks);
    let blocks = blocks.fold(0, u32::saturating_add);
    if let Some(few) = TooFewBlocks::check(blocks, questions) {
        warnings.push(format!(
            "too few blocks ({blocks}): whatever the values are, they may be chance; at least {} are needed for {} x {}",
            few.needed,
            counted(few.questions / judged.max(1), "primary metric"),
            counted(judged, "arm")
        ));
        return;
    }
    let few = named(gathered, rows, |verdict, row| {
        row.primary && verdict == Verdict::TooFew
    });
    if !few.is_empty() {
        let few = listed(&few);
        warnings.push(format!("too few pairs for a verdict: {few}"));
    }
}

/// Where machines say the opposite of each other.
fn of_contradictions(gathered: &Gathered, rows: &[Row], warnings: &mut Vec<String>) {
    let mut names = Vec::new();
    for row in rows {
        for (arm, merged) in gathered.merged.arms.iter().enumerate() {
            let differ = row.arms[arm].as_ref().is_some_and(|summary| {
                summary.effect.as_ref().is_some_and(|e| e.machines_differ)
                    || summary
                        .difference
                        .as_ref()
                        .is_some_and(|d| d.machines_differ)
            });
            if differ {
                names.push(format!("{} under {}", name(row), brief(&merged.label)));
            }
        }
    }
    if !names.is_empty() {
        let names = listed(&names);
        warnings.push(format!(
            "the machines contradict each other, better on one and worse on another, so that no change, interval or Gmean of all of them is true of any: {names}"
        ));
    }
}

/// What the A/A arms say.
fn of_noise(gathered: &Gathered, rows: &[Row], warnings: &mut Vec<String>) {
    let arms = &gathered.merged.arms;
    let twins: Vec<usize> = (1..arms.len())
        .filter(|&arm| arms[arm].twin_of.is_some())
        .collect();
    if twins.is_empty() {
        warnings.push(
            "no A/A arm: how much two copies of one arm differ here is unknown and taken as 0"
                .into(),
        );
    }
    for row in rows {
        for &twin in &twins {
            let Some((p_holm, verdict)) = judged(row, twin) else {
                continue;
            };
            if p_holm.is_some_and(|p| p <= SIGNIFICANT) {
                let (name, label) = (name(row), brief(&arms[twin].label));
                let differ = match verdict {
                    Verdict::Better | Verdict::Worse => "differs from its original",
                    _ => "may differ from its original",
                };
                warnings.push(format!(
                    "{name}: the A/A arm {label:?} {differ} beyond chance; what is not steady here can look like an effect of any arm"
                ));
            }
        }
    }
}

/// What is unusual about metrics.
fn of_metrics(gathered: &Gathered, rows: &[Row], warnings: &mut Vec<String>) {
    let mut primaries: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.primary) {
        *primaries.entry(&row.suite).or_default() += 1;
    }
    if primaries.is_empty() && !rows.is_empty() {
        warnings.push("no metric is primary, so that nothing can be called better or worse".into());
    }
    for (suite, count) in primaries {
        if count > PRIMARIES {
            warnings.push(format!(
                "the suite {suite:?} has {count} primary metrics: more than {PRIMARIES} make every one hard to show"
            ));
        }
    }
    let differences: Vec<String> = rows
        .iter()
        .filter(|row| {
            row.arms
                .iter()
                .flatten()
                .any(|arm| arm.difference.is_some())
        })
        .map(name)
        .collect();
    if !differences.is_empty() {
        let names = listed(&differences);
        warnings.push(format!(
            "with values of 0 or below, compared by difference, not by ratio, and in no geometric mean: {names}"
        ));
    }
    let averaged: Vec<String> = gathered
        .rows
        .iter()
        .zip(rows)
        .filter(|(planned, row)| {
            planned.metric.mean == Mean::Harmonic && row.mean != Mean::Harmonic
        })
        .map(|(_, row)| name(row))
        .collect();
    if !averaged.is_empty() {
        let names = listed(&averaged);
        warnings.push(format!(
            "averaged as times are, as 0 has no harmonic mean: {names}"
        ));
    }
}

/// Corrected p and verdict of an arm.
fn judged(row: &Row, arm: usize) -> Option<(Option<f64>, Verdict)> {
    let summary = row.arms[arm].as_ref()?;
    let effect = summary.effect.as_ref().map(|e| (e.p_holm, e.verdict));
    effect.or(summary.difference.as_ref().map(|d| (d.p_holm, d.verdict)))
}

fn name(row: &Row) -> String {
    format!("{} {}", brief(&row.benchmark), brief(&row.metric))
}

/// Rows and arms, copies left out, whose verdict `wanted` wants.
fn named(gathered: &Gathered, rows: &[Row], wanted: impl Fn(Verdict, &Row) -> bool) -> Vec<String> {
    let arms = &gathered.merged.arms;
    let mut names = Vec::new();
    for row in rows {
        for (arm, merged) in arms.iter().enumerate() {
            let found = judged(row, arm).is_some_and(|(_, verdict)| wanted(verdict, row));
            if found && merged.twin_of.is_none() {
                names.push(format!("{} under {}", name(row), merged.label));
            }
        }
    }
    names
}

/// `1 arm`, `2 arms`.
fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// The first names, and how many more there are.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES).map(|name| brief(name)).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
