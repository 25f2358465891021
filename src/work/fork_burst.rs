// SPDX-License-Identifier: GPL-2.0-only
//! `work fork-burst`: where new tasks go that first sleep and then run.
//!
//! One task starts N others in a row, as `make -j`, MPI launchers and servers do. Each sleeps for a
//! moment, as helpers do that wait for their input, and then computes. A scheduler that counts only
//! who runs sees an idle machine at every fork and may put them all in one place; whether it does is
//! often a matter of luck, hence the repeats.
//!
//! Each task notes its CPU at birth, at the first moment after its sleep (*first*), and at the end
//! of its spin (*last*), and counts its changes of node in between. The rules' excess judges the
//! counts per node; a node weighs as many CPUs as this process may use on it.
//!
//! Each repeat prints `repeat R: first C... last C... birth C...`, the tasks on each node that has
//! CPUs, in the order of the nodes' ids. With `-v` a line for each task comes before that, with its CPU
//! and the kernel's id of its node at the same three moments. The result line has:
//!
//! | key | what |
//! |---|---|
//! | `tasks`, `repeats`, `mode`, `nodes` | what was run, on how many nodes that have CPUs |
//! | `even`, `last_even` | share of the repeats, 0 to 1, whose spread of first (last) is at most 1 |
//! | `tolerated`, `birth_tolerated` | share whose first (birth) the rules tolerate, the forking task counted |
//! | `first_spread_median`, `last_spread_median` | spread: largest excess of one node over another |
//! | `migrations` | changes of node between first and last, of all tasks in all repeats |
//! | `wall_ms_median` | from before the first fork until the last task is gone |

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use clap::Args;

use super::clock;
use super::cpus::{self, NodeMap};
use super::crew::CrewArgs;
use super::numbers::{self, median, spread};
use super::output::{Output, ResultLine};
use super::shared::{Shareable, Shared};

/// Flags of `work fork-burst`.
#[derive(Debug, Args)]
pub struct ForkBurstArgs {
    /// Tasks per repeat.
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = crate::ranged::u32_in(1..=65536))]
    tasks: u32,

    /// How long each task sleeps after its birth.
    #[arg(long, value_name = "MSEC", default_value_t = 50,
          value_parser = crate::ranged::u64_in(0..=600_000))]
    sleep_ms: u64,

    /// How long each task spins after its sleep.
    #[arg(long, value_name = "MSEC", default_value_t = 200,
          value_parser = crate::ranged::u64_in(0..=600_000))]
    spin_ms: u64,

    /// How often to do it.
    #[arg(long, value_name = "R", default_value_t = 15,
          value_parser = crate::ranged::u32_in(1..=100_000))]
    repeats: u32,

    /// Idle time before each repeat but the first.
    #[arg(long, value_name = "MSEC", default_value_t = 300,
          value_parser = crate::ranged::u64_in(0..=600_000))]
    gap_ms: u64,

    #[command(flatten)]
    crew: CrewArgs,
}

const NANOS_PER_MILLI: u64 = 1_000_000;

/// What a task leaves behind. CPUs are stored + 1; 0 is "not got there".
#[repr(align(64))]
struct Slot {
    birth: AtomicU32,
    first: AtomicU32,
    last: AtomicU32,
    node_changes: AtomicU32,
}

// SAFETY: atomics that are valid when zero, and a smaller alignment than a page.
unsafe impl Shareable for Slot {}

impl Slot {
    /// The life of a task; times in nanoseconds.
    fn live(&self, nodes: &NodeMap, sleep: u64, spin: u64) {
        self.birth.store(cpus::current() + 1, Ordering::Relaxed);
        clock::sleep(sleep);
        let first = cpus::current();
        let until = clock::now() + spin;
        let (mut last, mut node_changes) = (first, 0);
        while clock::now() < until {
            let cpu = cpus::current();
            if cpu != last {
                node_changes += u32::from(nodes.node_of(cpu) != nodes.node_of(last));
                last = cpu;
            }
        }
        self.first.store(first + 1, Ordering::Relaxed);
        self.last.store(last + 1, Ordering::Relaxed);
        self.node_changes.store(node_changes, Ordering::Relaxed);
    }
}

/// One repeat, as counted afterwards: tasks per node, node changes, nanoseconds.
struct Burst {
    birth: Vec<u32>,
    first: Vec<u32>,
    last: Vec<u32>,
    /// Node of the forking task.
    parent: usize,
    node_changes: u64,
    wall: u64,
}

/// Does all repeats, printing a line for each.
pub fn run(args: &ForkBurstArgs, output: &mut Output) -> Result<ResultLine> {
    let nodes = Arc::new(NodeMap::detect()?);
    let mut bursts = Vec::new();
    for repeat in 1..=args.repeats {
        if repeat > 1 {
            clock::sleep(args.gap_ms * NANOS_PER_MILLI);
        }
        let burst = burst(args, &nodes, output)?;
        output.line(&format!(
            "repeat {repeat}: first {} last {} birth {}",
            spaced(&burst.first),
            spaced(&burst.last),
            spaced(&burst.birth)
        ))?;
        bursts.push(burst);
    }
    summary(args, &nodes, &bursts)
}

/// Starts the tasks, waits for them, and counts.
fn burst(args: &ForkBurstArgs, nodes: &Arc<NodeMap>, output: &mut Output) -> Result<Burst> {
    let slots = Shared::<Slot>::new(args.tasks as usize)?;
    let sleep = args.sleep_ms * NANOS_PER_MILLI;
    let spin = args.spin_ms * NANOS_PER_MILLI;
    let mut crew = args.crew.crew()?;
    let parent = nodes.node_of(cpus::current());
    let start = clock::now();
    for task in 0..args.tasks as usize {
        let (slots, nodes) = (Arc::clone(&slots), Arc::clone(nodes));
        crew.start(format!("task {task}"), move || {
            slots[task].live(&nodes, sleep, spin);
            Ok(())
        })?;
    }
    crew.wait()?;
    let wall = clock::now() - start;

    let mut cpus = [Vec::new(), Vec::new(), Vec::new()];
    let mut node_changes = 0;
    for (task, slot) in slots.iter().enumerate() {
        let places = [&slot.birth, &slot.first, &slot.last];
        for (cpus, place) in cpus.iter_mut().zip(places) {
            let cpu = place.load(Ordering::Relaxed).checked_sub(1);
            cpus.push(cpu.with_context(|| format!("task {task} left no trace"))?);
        }
        let changes = slot.node_changes.load(Ordering::Relaxed);
        node_changes += u64::from(changes);
        output.detail(|| {
            let [birth, first, last] = cpus.each_ref().map(|cpus| cpus[task]);
            let node = |cpu| nodes.id_of(cpu).map_or("?".to_owned(), |id| id.to_string());
            format!(
                "task {task}: cpu birth {birth} first {first} last {last} node birth {} first {} last {} changes {changes}",
                node(birth),
                node(first),
                node(last)
            )
        })?;
    }
    let [birth, first, last] = cpus;
    Ok(Burst {
        birth: nodes.count(birth)?,
        first: nodes.count(first)?,
        last: nodes.count(last)?,
        parent: parent
            .context("the forking task runs on no known node")?
            .into(),
        node_changes,
        wall,
    })
}

fn summary(args: &ForkBurstArgs, nodes: &NodeMap, bursts: &[Burst]) -> Result<ResultLine> {
    let spreads = |counts: fn(&Burst) -> &[u32]| -> Vec<f64> {
        let spreads = bursts
            .iter()
            .map(|burst| spread(counts(burst), nodes.weights()));
        spreads.map(|spread| spread as f64).collect()
    };
    let (first, last) = (spreads(|burst| &burst.first), spreads(|burst| &burst.last));
    let walls: Vec<f64> = bursts
        .iter()
        .map(|burst| clock::as_millis(burst.wall))
        .collect();
    let middle = |values: &[f64]| median(values).context("there was no repeat");
    Ok(ResultLine::new("fork-burst")
        .with("tasks", args.tasks)
        .with("repeats", bursts.len())
        .with("mode", args.crew.name())
        .with("nodes", nodes.weights().len())
        .with_rounded("even", even(&first), 3)
        .with("first_spread_median", middle(&first)?)
        .with_rounded("last_even", even(&last), 3)
        .with("last_spread_median", middle(&last)?)
        .with_rounded(
            "tolerated",
            tolerated(nodes, bursts, |burst| &burst.first),
            3,
        )
        .with_rounded(
            "birth_tolerated",
            tolerated(nodes, bursts, |burst| &burst.birth),
            3,
        )
        .with(
            "migrations",
            bursts.iter().map(|burst| burst.node_changes).sum::<u64>(),
        )
        .with_rounded("wall_ms_median", middle(&walls)?, 1))
}

/// The share of the bursts whose placement the rules tolerate. The forking task is part of the
/// state in which each of the others was placed.
fn tolerated(nodes: &NodeMap, bursts: &[Burst], counts: fn(&Burst) -> &[u32]) -> f64 {
    let is_tolerated = |burst: &&Burst| {
        let mut counts = counts(burst).to_vec();
        counts[burst.parent] += 1;
        numbers::is_tolerated(&counts, nodes.weights(), nodes.limits())
    };
    bursts.iter().filter(is_tolerated).count() as f64 / bursts.len().max(1) as f64
}

/// The share of the spreads that are at most 1, the least that an odd number of tasks allows.
fn even(spreads: &[f64]) -> f64 {
    let even = spreads.iter().filter(|&&spread| spread <= 1.0).count();
    even as f64 / spreads.len().max(1) as f64
}

fn spaced(counts: &[u32]) -> String {
    let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
    counts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_is_a_spread_of_at_most_one() {
        assert_eq!(even(&[0.0, 1.0, 2.0, 8.0]), 0.5);
        assert_eq!(even(&[]), 0.0);
    }

    #[test]
    fn counts_are_spaced() {
        assert_eq!(spaced(&[4, 0, 4]), "4 0 4");
    }
}
