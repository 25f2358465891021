// SPDX-License-Identifier: GPL-2.0-only
//! What several runs came to: a table for people, JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::hardware::{Hardware, Params};
use super::outcome::Outcome;
use super::world::Setup;

/// Digits of a row's largest value that are shown, at least.
const SIGNIFICANT: usize = 4;
/// Decimals at most: more would be digits of jitter.
const MOST_DECIMALS: usize = 7;

/// Decimals of numbers the largest of which is `largest`: `least` of them, and more where they would say too little.
pub(super) fn decimals(largest: f64, least: usize) -> usize {
    let mut decimals = least;
    let mut smallest = 10f64.powi(SIGNIFICANT as i32 - 1 - least as i32);
    while largest > 0.0 && largest < smallest && decimals < MOST_DECIMALS {
        decimals += 1;
        smallest /= 10.0;
    }
    decimals
}

/// Placements that are listed; all are counted.
const LISTED: usize = 6;

/// Of some quantity over the runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    pub min: f64,
    pub max: f64,
    pub range: f64,
    pub mean: f64,
}

impl Summary {
    /// `None`: there is not one value.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let number = values.clone().count();
        let min = values.clone().reduce(f64::min)?;
        let max = values.clone().reduce(f64::max)?;
        Some(Self {
            min,
            max,
            range: max - min,
            mean: values.sum::<f64>() / number as f64,
        })
    }
}

/// The modelled machine, in short.
#[derive(Debug, Serialize)]
pub(super) struct Shape {
    nodes: usize,
    cpus: usize,
    llcs: usize,
    node_ids: Vec<u32>,
    node_cpus: Vec<u32>,
}

impl Shape {
    pub fn of(hw: &Hardware) -> Self {
        Self {
            nodes: hw.nr_nodes(),
            cpus: hw.nr_cpus(),
            llcs: hw.nr_llcs(),
            node_ids: hw.node_ids.clone(),
            node_cpus: hw.shape.weight.clone(),
        }
    }

    /// What is simulated, in a line. `flags` are those that were given besides the ones that it tells of; `runs` says how
    /// often.
    pub fn title(&self, workload: &str, setup: &Setup, flags: &str, runs: &str) -> String {
        let Self {
            nodes, cpus, llcs, ..
        } = self;
        let newborns = match setup.counts_newborns() {
            false => "sleepers unseen",
            true => "sleepers counted",
        };
        let set = setup.limits.set;
        let flags = match flags {
            "" => String::new(),
            flags => format!("{flags}; "),
        };
        format!(
            "{workload}; nodes {nodes}, LLCs {llcs}, CPUs {cpus}; rules {set}, {newborns}; {flags}{runs}"
        )
    }
}

/// What times are, below every title.
pub(super) const UNITS: &str =
    "times are in units of the model (docs/simulation.md), good for comparing rules\n\n";

/// See the module.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    workload: &'a str,
    flags: &'a str,
    machine: Shape,
    setup: &'a Setup,
    params: &'a Params,
    summary: BTreeMap<&'static str, Summary>,
    runs: &'a [Outcome],
}

/// A row of the table: its key in JSON, its name, its value of a run, decimals: those of 2 or
/// more are at least so many.
struct Row(
    &'static str,
    &'static str,
    fn(&Outcome) -> Option<f64>,
    usize,
);

const ROWS: &[Row] = &[
    Row("run_s", "run time, s", |o| Some(seconds(o.run_ns)), 3),
    Row(
        "wall_s",
        "from first to last task, s",
        |o| Some(seconds(o.wall_ns)),
        3,
    ),
    Row(
        "birth_spread",
        "spread at birth, tasks",
        |o| Some(o.birth_spread as f64),
        0,
    ),
    Row(
        "first_spread",
        "spread after start-up",
        |o| Some(o.first_spread as f64),
        0,
    ),
    Row(
        "last_spread",
        "spread at the end",
        |o| Some(o.last_spread as f64),
        0,
    ),
    Row(
        "moves",
        "moves by the balancer",
        |o| Some((o.moves.excess + o.moves.utilisation) as f64),
        0,
    ),
    Row(
        "node_migrations",
        "changes of node",
        |o| Some(o.node_migrations as f64),
        0,
    ),
    Row(
        "llc_migrations",
        "changes of LLC in a node",
        |o| Some(o.llc_migrations as f64),
        0,
    ),
    Row(
        "local_percent",
        "local memory, %",
        |o| Some(o.local_permille? as f64 / 10.0),
        1,
    ),
    Row(
        "wait_ms_max",
        "longest wait, ms",
        |o| Some(o.wait_ns_max as f64 / 1e6),
        2,
    ),
    Row(
        "wake_us_p99",
        "99 % of wake-ups, us",
        |o| Some(o.wake_ns_p99? as f64 / 1e3),
        1,
    ),
];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// What was run, in the user's words.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    pub workload: &'a str,
    /// Flags besides those that a title tells of anyway.
    pub flags: &'a str,
}

impl<'a> Report<'a> {
    pub fn new(named: Named<'a>, hw: &'a Hardware, setup: &'a Setup, runs: &'a [Outcome]) -> Self {
        let summaries = ROWS.iter().filter_map(|&Row(key, _, value, _)| {
            let values = runs.iter().filter_map(value);
            Some((key, Summary::of(values)?))
        });
        Self {
            workload: named.workload,
            flags: named.flags,
            machine: Shape::of(hw),
            setup,
            params: &hw.params,
            summary: summaries.collect(),
            runs,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = self.title() + "\n";
        text.push_str(UNITS);
        self.table(&mut text);
        self.placements(&mut text, "tasks per node after start-up", |run| &run.first);
        self.placements(&mut text, "tasks per node at the end", |run| &run.last);
        self.decisions(&mut text);
        self.plot(&mut text);
        text
    }

    /// What was simulated, in a line.
    pub fn title(&self) -> String {
        let seed = self.runs.first().map_or(0, |run| run.seed);
        let runs = format!("runs {}, seed {seed}", self.runs.len());
        let Self {
            workload,
            flags,
            setup,
            ..
        } = self;
        self.machine.title(workload, setup, flags, &runs)
    }

    fn table(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{:28}{:>10}{:>10}{:>10}{:>10}",
            "", "min", "max", "range", "mean"
        );
        for Row(key, name, _, decimals) in ROWS {
            let Some(s) = self.summary.get(key) else {
                continue;
            };
            let decimals = match *decimals {
                rounded @ (0 | 1) => rounded,
                least => self::decimals(s.max, least),
            };
            // A mean of whole numbers is none itself.
            let mean = decimals.max(1);
            let _ = writeln!(
                text,
                "{name:28}{:>10.decimals$}{:>10.decimals$}{:>10.decimals$}{:>10.mean$}",
                s.min, s.max, s.range, s.mean
            );
        }
    }

    fn placements(&self, text: &mut String, title: &str, of: fn(&Outcome) -> &Vec<u32>) {
        let mut counted: BTreeMap<&Vec<u32>, usize> = BTreeMap::new();
        for run in self.runs {
            *counted.entry(of(run)).or_default() += 1;
        }
        let mut counted: Vec<(&Vec<u32>, usize)> = counted.into_iter().collect();
        counted.sort_by_key(|&(_, runs)| std::cmp::Reverse(runs));
        let _ = writeln!(text, "\n{title}");
        for (counts, runs) in counted.iter().take(LISTED) {
            let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
            let _ = writeln!(
                text,
                "  {:40} in {runs} of {}",
                counts.join(" "),
                self.runs.len()
            );
        }
        if let Some(more @ 1..) = counted.len().checked_sub(LISTED) {
            let _ = writeln!(text, "  and {more} others");
        }
    }

    /// The first run.
    fn plot(&self, text: &mut String) {
        let Some(occupancy) = self.runs.first().map(|run| &run.occupancy) else {
            return;
        };
        let most = occupancy.most();
        if most == 0 {
            return;
        }
        let _ = writeln!(
            text,
            "\ntasks on each node over time, first run: a column is {} s, a full one {:.1} tasks",
            seconds(occupancy.span_ns),
            f64::from(most) / 1000.0
        );
        for (node, id) in self.machine.node_ids.iter().enumerate() {
            let _ = writeln!(text, "  node {id:3} |{}|", occupancy.bars(node, most));
        }
    }

    fn decisions(&self, text: &mut String) {
        let sum = |of: fn(&Outcome) -> u64| self.runs.iter().map(of).sum::<u64>();
        let rows = [
            ("forks: least loaded node", sum(|o| o.forks.least)),
            (
                "forks: local, tolerated (R1, R2)",
                sum(|o| o.forks.tolerated),
            ),
            ("forks: all full, local", sum(|o| o.forks.full_local)),
            ("forks: all full, least utilised", sum(|o| o.forks.full)),
            ("forks: of these on another node", sum(|o| o.forks.remote)),
            ("moves: excess (R1 to R3)", sum(|o| o.moves.excess)),
            ("moves: utilisation", sum(|o| o.moves.utilisation)),
            ("moves: to their memory (R8)", sum(|o| o.steps.preferred)),
            ("moves: nearer to it (R8)", sum(|o| o.steps.nearer)),
            ("moves: swaps for it (R4, R8)", sum(|o| o.steps.swaps)),
            ("pairs left alone: tolerated", sum(|o| o.moves.tolerated)),
            ("pairs left alone: held", sum(|o| o.moves.held)),
            ("pairs left alone: no task", sum(|o| o.moves.no_task)),
            ("pulls inside the node (R9)", sum(|o| o.pulls_node)),
            ("pulls from other nodes (R9)", sum(|o| o.pulls_remote)),
            ("wakees left behind wakers (SYNC)", sum(|o| o.syncs)),
            ("pages that went to another node", sum(|o| o.pages_moved)),
        ];
        text.push_str("\ndecisions of all runs\n");
        // What never happened would only hide what did.
        for (name, count) in rows.into_iter().filter(|row| row.1 > 0) {
            let _ = writeln!(text, "  {name:36}{count:>10}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_has_more_decimals() {
        for (largest, least, wanted) in [
            (1234.5, 3, 3),
            (1.0, 3, 3),
            (0.999, 3, 4),
            (0.0881, 3, 5),
            (0.000_004, 3, 7),
            (0.0, 3, 3),
            (12.5, 2, 2),
            (0.25, 2, 4),
        ] {
            assert_eq!(decimals(largest, least), wanted, "{largest}");
        }
    }

    #[test]
    fn summaries() {
        let summary = Summary::of([2.0, 5.0, 3.5].into_iter()).unwrap();
        let Summary {
            min,
            max,
            range,
            mean,
        } = summary;
        assert_eq!((min, max, range, mean), (2.0, 5.0, 3.0, 3.5));
        assert_eq!(Summary::of(std::iter::empty()), None);
    }
}
