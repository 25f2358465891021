// SPDX-License-Identifier: GPL-2.0-only
//! Where tasks ran: CPU use of the nodes over time, tasks per node, shares of CPU time.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::bars::{self, Bar};
use super::heat::{self, Line};
use crate::compare::record::Run;
use crate::compare::report::content::{clean, clean_brief};
use crate::compare::report::evidence::busy_by_node;
use crate::compare::report::model::{Machine, Model};
use crate::compare::report::text::shorten;

/// A benchmark: suite and name.
type Key<'a> = (&'a str, &'a str);

/// All benchmarks on all machines.
pub fn section(model: &Model) -> Markup {
    html! {
        @for machine in &model.machines {
            @for key in model.benchmarks() {
                @if machine.benchmark(key.0, key.1).is_some() { (benchmark(model, machine, key)) }
            }
        }
    }
}

fn benchmark<'a>(model: &Model<'a>, machine: &Machine<'a>, key: Key<'a>) -> Markup {
    let name = match model.machines.len() {
        1 => clean_brief(key.1),
        _ => format!("{} on {}", clean_brief(key.1), machine.name),
    };
    let maps: Vec<Markup> = (0..model.arms.len())
        .filter_map(|arm| use_over_time(model, machine, arm, key))
        .collect();
    let placed: Vec<Markup> = tasks(model, machine, key);
    let shares = shares(model, machine, key, &name);
    if maps.is_empty() && placed.is_empty() && shares.is_none() {
        return html! { p class="faint" { (name) ": node use is not available: " (why(model, machine, key)) } };
    }
    html! {
        article class="card" {
            h3 { (name) }
            @if !maps.is_empty() {
                h4 { "CPU use of each node over time, in the run of median wall time" }
                (heat::legend("idle", "all CPUs busy"))
                div class="plots" { @for map in &maps { (map) } }
            }
            @if !placed.is_empty() {
                h4 { "Tasks per node in each repeat" }
                (heat::legend("none", "the most of any node here"))
                div class="plots" { @for map in &placed { (map) } }
            }
            @if let Some(shares) = &shares {
                h4 { "Each node's share of the CPU time, " (known_runs(model, machine, key)) }
                div class="plots" { figure { (shares) } }
            }
        }
    }
}

fn why<'a>(model: &Model<'a>, machine: &Machine<'a>, key: Key<'a>) -> String {
    use crate::compare::record::Fact;
    let mut runs = (0..model.arms.len()).flat_map(|arm| machine.runs(arm, Some(key)));
    runs.find_map(|run| match &run.evidence.node_use {
        Fact::NotAvailable(reason) => Some(clean_brief(reason)),
        Fact::Known(_) => None,
    })
    .unwrap_or_else(|| "no run".to_owned())
}

fn use_over_time<'a>(
    model: &Model<'a>,
    machine: &Machine<'a>,
    arm: usize,
    key: Key<'a>,
) -> Option<Markup> {
    let run = machine.typical_run(arm, key)?;
    let seen = run.evidence.node_use.known()?;
    let lines: Vec<Line> = seen
        .nodes
        .iter()
        .map(|(node, shares)| use_line(machine, *node, shares))
        .collect();
    let periods = lines.iter().map(|line| line.shares.len()).max()?;
    let seconds = periods as f64 * seen.period_ms as f64 / 1000.0;
    let label = &model.arms[arm];
    let title = format!(
        "{label}: CPU use of each node over time, {}",
        clean_brief(key.1)
    );
    let map = heat::map(&title, &lines, seconds, " s")?;
    Some(html! {
        figure {
            figcaption { (shorten(label, 40)) ", block " (run.block + 1) }
            (map)
        }
    })
}

fn use_line(machine: &Machine, node: u32, shares: &[f32]) -> Line {
    let shares: Vec<f64> = shares.iter().map(|share| f64::from(*share)).collect();
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let cpus = machine.plan.environment.nodes.get(&node);
    let cpus = cpus.map_or(String::new(), |cpus| format!(" (CPUs {})", clean(cpus)));
    Line {
        label: format!("node {node}"),
        title: format!("node {node}{cpus}: {:.0}% busy on average", mean * 100.0),
        shares,
    }
}

/// Repeats side by side; a node for each line, dark where most tasks were.
fn tasks<'a>(model: &Model<'a>, machine: &Machine<'a>, key: Key<'a>) -> Vec<Markup> {
    let repeats = |arm: usize| -> Vec<&'a Vec<u32>> {
        let runs = machine.runs(arm, Some(key));
        runs.flat_map(|run: &'a Run| &run.placement).collect()
    };
    let all: Vec<Vec<&Vec<u32>>> = (0..model.arms.len()).map(repeats).collect();
    let most = all.iter().flatten().flat_map(|nodes| nodes.iter().copied());
    let Some(most) = most.max().filter(|most| *most > 0) else {
        return Vec::new();
    };
    let nodes: Vec<u32> = machine.plan.environment.nodes.keys().copied().collect();
    let maps = all.iter().enumerate().filter_map(|(arm, repeats)| {
        let label = &model.arms[arm];
        let lines = task_lines(repeats, &nodes, most);
        let title = format!(
            "{label}: tasks per node in each repeat, {}",
            clean_brief(key.1)
        );
        let map = heat::map(&title, &lines, repeats.len() as f64, "")?;
        Some(html! {
            figure {
                figcaption { (shorten(label, 40)) ", " (repeats.len()) " repeats" }
                (map)
            }
        })
    });
    maps.collect()
}

fn task_lines(repeats: &[&Vec<u32>], nodes: &[u32], most: u32) -> Vec<Line> {
    let lines = repeats.iter().map(|nodes| nodes.len()).max().unwrap_or(0);
    (0..lines)
        .map(|at| {
            let counts: Vec<u32> = repeats
                .iter()
                .filter_map(|nodes| nodes.get(at).copied())
                .collect();
            let mean = f64::from(counts.iter().sum::<u32>()) / counts.len().max(1) as f64;
            // The workload's nodes are the machine's in order; else their place has to do.
            let node = nodes.get(at).copied().unwrap_or(at as u32);
            let least = counts.iter().min().copied().unwrap_or(0);
            let greatest = counts.iter().max().copied().unwrap_or(0);
            Line {
                label: format!("node {node}"),
                title: format!("node {node}: {mean:.1} tasks on average, {least} to {greatest}"),
                shares: counts
                    .iter()
                    .map(|count| f64::from(*count) / f64::from(most))
                    .collect(),
            }
        })
        .collect()
}

/// How many runs tell of their node use, of how many.
fn known_runs<'a>(model: &Model<'a>, machine: &Machine<'a>, key: Key<'a>) -> String {
    let runs = || (0..model.arms.len()).flat_map(|arm| machine.runs(arm, Some(key)));
    let known = runs().filter(|run| busy_by_node(run).is_some()).count();
    match (known, runs().count()) {
        (known, all) if known == all => "all runs".to_owned(),
        (known, all) => format!("{known} of {all} runs"),
    }
}

/// Busy time by node, weighted by how long runs took and how many CPUs a node has.
fn shares<'a>(
    model: &Model<'a>,
    machine: &Machine<'a>,
    key: Key<'a>,
    name: &str,
) -> Option<Markup> {
    let bars: Vec<Bar> = (0..model.arms.len())
        .map(|arm| {
            let mut parts: BTreeMap<u32, f64> = BTreeMap::new();
            for run in machine.runs(arm, Some(key)) {
                for (node, busy) in busy_by_node(run).into_iter().flatten() {
                    let cpus = machine.plan.environment.nodes.get(&node);
                    let cpus = cpus.map_or(1, |list| cpus_in(list));
                    *parts.entry(node).or_default() += busy * run.evidence.wall_s * cpus as f64;
                }
            }
            Bar {
                label: model.arms[arm].clone(),
                parts: parts.into_iter().collect(),
            }
        })
        .collect();
    bars::plot(&format!("Each node's share of the CPU time, {name}"), &bars)
}

/// How many CPUs a list such as `0-7,16-23` names; 1 for what is no list, so that no node vanishes.
fn cpus_in(list: &str) -> u64 {
    let ranges = list.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u64 = first.trim().parse().ok()?;
        let last: u64 = last.trim().parse().ok()?;
        last.checked_sub(first)?.checked_add(1)
    });
    let total = ranges.sum::<Option<u64>>();
    total.filter(|cpus| *cpus > 0).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::cpus_in;

    #[test]
    fn lists_of_cpus_are_counted() {
        assert_eq!(cpus_in("0-7,16-23"), 16);
        assert_eq!(cpus_in("5"), 1);
        assert_eq!(cpus_in("7-0"), 1);
        assert_eq!(cpus_in("<script>"), 1);
    }
}
