// SPDX-License-Identifier: GPL-2.0-only
//! `work pairs`: what a wake-up costs, and whether partners stay together.
//!
//! Each pair plays ping-pong: the waker sends and waits, the wakee waits and answers. Only one of
//! the two runs at any time. Left free, they show where the scheduler puts a wakee; pinned to two
//! CPUs, what a wake-up between those costs.
//!
//! | key | what |
//! |---|---|
//! | `kind`, `mode`, `count`, `cpus`, `loops` | what was run; `cpus` is `free` or `A,B` |
//! | `ns_per_loop` | time of a round trip (two wake-ups), median over the pairs |
//! | `same_node` | share of the pairs, 0 to 1, whose partners ended on one node |
//! | `wall_ms` | from the common start until the last task is gone |

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context, Result};
use clap::Args;

use super::clock;
use super::cpus::{self, CpuSet, NodeMap};
use super::crew::CrewArgs;
use super::futex::Gate;
pub use super::link::LinkKind;
use super::link::{self, End};
use super::numbers::median;
use super::output::{Output, ResultLine};
use super::shared::{Shareable, Shared};
use super::two_cpus::{PairCpus, TwoCpus};

/// Flags of `work pairs`.
#[derive(Debug, Args)]
pub struct PairsArgs {
    /// Round trips of each pair.
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = crate::ranged::u64_in(1..=1_000_000_000_000))]
    loops: u64,

    /// Pairs that play at the same time.
    #[arg(long, value_name = "C", default_value_t = 1,
          value_parser = crate::ranged::u32_in(1..=16384))]
    count: u32,

    /// What a pair talks through.
    #[arg(long, value_enum, default_value_t = LinkKind::Pipe)]
    kind: LinkKind,

    /// Pin wakers to CPU A and wakees to CPU B, which may be the same; or to the first two CPUs that
    /// are as near as said: same-cpu, same-core, same-llc, same-node, cross-node.
    #[arg(long, value_name = "A,B|NEAR")]
    cpus: Option<PairCpus>,

    #[command(flatten)]
    crew: CrewArgs,
}

/// What a pair leaves behind. CPUs are those at the end.
#[repr(align(64))]
struct Slot {
    nanos: AtomicU64,
    waker_cpu: AtomicU32,
    wakee_cpu: AtomicU32,
}

// SAFETY: atomics that are valid when zero, and a smaller alignment than a page.
unsafe impl Shareable for Slot {}

/// What both members of a pair know.
#[derive(Clone)]
struct Rally {
    pair: usize,
    loops: u64,
    gate: Arc<Shared<Gate>>,
    slots: Arc<Shared<Slot>>,
}

impl Rally {
    fn wake(&self, pin: Option<&CpuSet>, mut end: End) -> io::Result<()> {
        pin.map_or(Ok(()), CpuSet::apply)?;
        self.gate[0].pass()?;
        let start = clock::now();
        for _ in 0..self.loops {
            end.send()?;
            end.receive()?;
        }
        let slot = &self.slots[self.pair];
        slot.nanos.store(clock::now() - start, Ordering::Relaxed);
        slot.waker_cpu.store(cpus::current(), Ordering::Relaxed);
        Ok(())
    }

    fn answer(&self, pin: Option<&CpuSet>, mut end: End) -> io::Result<()> {
        pin.map_or(Ok(()), CpuSet::apply)?;
        self.gate[0].pass()?;
        for _ in 0..self.loops {
            end.receive()?;
            end.send()?;
        }
        let slot = &self.slots[self.pair];
        slot.wakee_cpu.store(cpus::current(), Ordering::Relaxed);
        Ok(())
    }
}

/// Lets all pairs play at the same time.
pub fn run(args: &PairsArgs, output: &mut Output) -> Result<ResultLine> {
    let nodes = NodeMap::detect()?;
    let cpus = args.cpus.map(PairCpus::resolve).transpose()?;
    let pin = |cpu: Option<u32>| cpu.map(|cpu| CpuSet::among_allowed(&[cpu])).transpose();
    let waker_pin = pin(cpus.map(|cpus| cpus.waker))?;
    let wakee_pin = pin(cpus.map(|cpus| cpus.wakee))?;

    let gate = Shared::<Gate>::new(1)?;
    let slots = Shared::<Slot>::new(args.count as usize)?;
    let mut crew = args.crew.crew()?;
    for pair in 0..args.count as usize {
        let [waker_end, wakee_end] = link::connect(args.kind)?;
        let waker = Rally {
            pair,
            loops: args.loops,
            gate: Arc::clone(&gate),
            slots: Arc::clone(&slots),
        };
        let wakee = waker.clone();
        let (waker_pin, wakee_pin) = (waker_pin.clone(), wakee_pin.clone());
        crew.start(format!("waker {pair}"), move || {
            waker.wake(waker_pin.as_ref(), waker_end)
        })?;
        crew.start(format!("wakee {pair}"), move || {
            wakee.answer(wakee_pin.as_ref(), wakee_end)
        })?;
    }
    let start = crew.open(&gate[0])?;
    crew.wait()?;
    let wall = clock::now() - start;
    summary(args, cpus, &nodes, &slots, wall, output)
}

fn summary(
    args: &PairsArgs,
    cpus: Option<TwoCpus>,
    nodes: &NodeMap,
    slots: &[Slot],
    wall: u64,
    output: &mut Output,
) -> Result<ResultLine> {
    let mut times = Vec::new();
    let mut together = 0;
    for (pair, slot) in slots.iter().enumerate() {
        let time = slot.nanos.load(Ordering::Relaxed) as f64 / args.loops as f64;
        let waker = slot.waker_cpu.load(Ordering::Relaxed);
        let wakee = slot.wakee_cpu.load(Ordering::Relaxed);
        output.detail(|| {
            format!("pair {pair}: ns_per_loop {time:.0}, at the end cpu {waker} and {wakee}")
        })?;
        times.push(time);
        together += u32::from(nodes.node_of(waker) == nodes.node_of(wakee));
    }
    let cpus = cpus.map_or_else(|| "free".to_owned(), |cpus| cpus.to_string());
    Ok(ResultLine::new("pairs")
        .with("kind", args.kind.name())
        .with("mode", args.crew.name())
        .with("count", args.count)
        .with("cpus", cpus)
        .with("loops", args.loops)
        .with_rounded("ns_per_loop", median(&times).context("no pair")?, 0)
        .with_rounded("same_node", f64::from(together) / slots.len() as f64, 3)
        .with_rounded("wall_ms", clock::as_millis(wall), 1))
}
