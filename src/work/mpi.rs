// SPDX-License-Identifier: GPL-2.0-only
//! `work mpi`: ranks as an MPI launcher starts them.
//!
//! A launcher forks N helpers in a row. Each sleeps for a moment, as those do that set up their
//! connections, then execs the program proper ([`mpi_rank`](super::mpi_rank): this program again),
//! which works through memory of its own in rounds, with a barrier after each. The slowest rank
//! decides how long a round takes, so a node with one rank more than CPUs costs all of them, and
//! ranks that crowd one node wait for its memory while the other's lies idle. That is what NAS mg under
//! MPICH suffers from in the documents: the same program takes 95 or 175 seconds.
//!
//! A round is a fixed number of passes over the memory, not a fixed time: how long the work takes *is*
//! the result, and with rounds of a fixed time it would be the same however ranks are placed. Hence
//! run times of two machines are not comparable. The defaults take some ten seconds on an emulated
//! machine of 16 CPUs on 2 real ones; a real machine is through with them in a few balance intervals,
//! so ask for more `--iterations` there, and for memory that no cache holds. MPI libraries often spin
//! at a barrier; here ranks sleep, which also shows where they wake.
//!
//! Counts per node are in the order of the nodes' ids, over those that have CPUs. A spread is the
//! largest excess of one node over another, as the rules count it. The line before the result has the
//! counts, and with `-v` a line for each rank and each round comes before that. The result line:
//!
//! | key | what |
//! |---|---|
//! | `ranks`, `iterations`, `passes`, `memory_mib`, `sleep_ms`, `nodes` | what was run |
//! | `birth`, `first`, `last` | ranks on each node before the exec, first thing after it, and at the end |
//! | `first_spread`, `last_spread` | the spread of these |
//! | `round_spread_median`, `round_spread_max` | the spread at the end of each round |
//! | `migrations`, `moved_ranks` | changes of node between first and last; ranks that had any |
//! | `run_ms` | from when all ranks were ready until the last one had done its rounds |
//! | `wall_ms` | from before the first fork until the last rank is gone |

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use clap::Args;

use super::cpus::{self, NodeMap};
use super::crew::Crew;
use super::mpi_rank::{Places, Plan, Slot};
use super::numbers::{median, spread};
use super::output::{Output, ResultLine};
use super::{clock, memory, mpi_rank};

/// Flags of `work mpi`.
#[derive(Debug, Args)]
pub struct MpiArgs {
    #[command(flatten)]
    plan: Plan,

    /// How long each helper sleeps before it execs its rank.
    #[arg(long, value_name = "MSEC", default_value_t = 50,
          value_parser = crate::ranged::u64_in(0..=600_000))]
    sleep_ms: u64,
}

/// Starts the ranks, waits for them, and sums up.
pub fn run(args: &MpiArgs, output: &mut Output) -> Result<ResultLine> {
    memory::check(u64::from(args.plan.ranks) * u64::from(args.plan.memory_mib))?;
    let nodes = NodeMap::detect()?;
    let places = Arc::new(Places::new(&args.plan)?);
    let sleep = args.sleep_ms * 1_000_000;
    let mut crew = Crew::processes()?;
    let start = clock::now();
    for rank in 0..args.plan.ranks {
        let mut command = exec_command(&args.plan, rank, &places)?;
        let places = Arc::clone(&places);
        crew.start(format!("rank {rank}"), move || {
            let birth = &places.slots[rank as usize].birth;
            birth.store(cpus::current() + 1, Ordering::Relaxed);
            clock::sleep(sleep);
            places.keep_over_exec()?;
            Err(command.exec())
        })?;
    }
    crew.wait()?;
    let wall = clock::now() - start;
    let found = Found::of(&args.plan, &nodes, &places, output)?;
    let words = |counts: &[u32]| {
        let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
        counts.join(" ")
    };
    output.line(&format!(
        "ranks: first {} last {} birth {}",
        words(&found.first),
        words(&found.last),
        words(&found.birth)
    ))?;
    summary(args, &nodes, &found, wall)
}

/// What execs a rank. It is made before the fork, because it takes memory.
fn exec_command(plan: &Plan, rank: u32, places: &Places) -> Result<Command> {
    let numbers = [
        ("--rank", rank),
        ("--ranks", plan.ranks),
        ("--iterations", plan.iterations),
        ("--passes", plan.passes),
        ("--memory-mib", plan.memory_mib),
        ("--launcher", std::process::id()),
    ];
    // This file itself, even if its name belongs to another one by now.
    let mut command = Command::new("/proc/self/exe");
    command.arg0(env!("CARGO_PKG_NAME"));
    command.args(["work", mpi_rank::NAME]);
    for (flag, fd) in ["--board", "--slots", "--samples"].iter().zip(places.fds()) {
        let fd = fd.context("shared memory without a file")?;
        command.arg(flag).arg(fd.to_string());
    }
    for (flag, number) in numbers {
        command.arg(flag).arg(number.to_string());
    }
    Ok(command)
}

/// What the ranks left behind, as counts.
struct Found {
    birth: Vec<u32>,
    first: Vec<u32>,
    last: Vec<u32>,
    /// Spread at the end of each round.
    rounds: Vec<u64>,
    migrations: u64,
    moved_ranks: usize,
    /// Nanoseconds.
    run: u64,
}

impl Found {
    fn of(plan: &Plan, nodes: &NodeMap, places: &Places, output: &mut Output) -> Result<Found> {
        let slots = &places.slots;
        let (birth, first, last) = (
            cpus_of(slots, |slot| &slot.birth)?,
            cpus_of(slots, |slot| &slot.first)?,
            cpus_of(slots, |slot| &slot.last)?,
        );
        let changes = |slot: &Slot| slot.node_changes.load(Ordering::Relaxed);
        for (rank, slot) in slots.iter().enumerate() {
            output.detail(|| {
                format!(
                    "rank {rank}: cpu birth {} first {} last {} node changes {}",
                    birth[rank],
                    first[rank],
                    last[rank],
                    changes(slot)
                )
            })?;
        }
        let mut rounds = Vec::new();
        for round in 0..plan.iterations {
            let cpus: Option<Vec<u32>> = places.sampled(plan, round).collect();
            let counts = nodes.count(cpus.context("a rank missed a round")?)?;
            output.detail(|| format!("round {}: {counts:?}", round + 1))?;
            rounds.push(spread(&counts, nodes.weights()));
        }
        let starts = slots.iter().map(|slot| slot.start.load(Ordering::Relaxed));
        let ends = slots.iter().map(|slot| slot.end.load(Ordering::Relaxed));
        let (start, end) = starts.min().zip(ends.max()).context("there was no rank")?;
        Ok(Found {
            birth: nodes.count(birth)?,
            first: nodes.count(first)?,
            last: nodes.count(last)?,
            rounds,
            migrations: slots.iter().map(|slot| u64::from(changes(slot))).sum(),
            moved_ranks: slots.iter().filter(|slot| changes(slot) > 0).count(),
            run: end.saturating_sub(start),
        })
    }
}

/// A CPU of every rank.
fn cpus_of(slots: &[Slot], which: fn(&Slot) -> &AtomicU32) -> Result<Vec<u32>> {
    let cpu = |(rank, slot)| {
        let cpu = which(slot).load(Ordering::Relaxed).checked_sub(1);
        cpu.with_context(|| format!("rank {rank} left no trace"))
    };
    slots.iter().enumerate().map(cpu).collect()
}

fn summary(args: &MpiArgs, nodes: &NodeMap, found: &Found, wall: u64) -> Result<ResultLine> {
    let plan = &args.plan;
    let spread = |counts: &[u32]| spread(counts, nodes.weights());
    let rounds: Vec<f64> = found.rounds.iter().map(|&spread| spread as f64).collect();
    Ok(ResultLine::new("mpi")
        .with("ranks", plan.ranks)
        .with("iterations", plan.iterations)
        .with("passes", plan.passes)
        .with("memory_mib", plan.memory_mib)
        .with("sleep_ms", args.sleep_ms)
        .with("nodes", nodes.weights().len())
        .with_list("birth", &found.birth)
        .with_list("first", &found.first)
        .with_list("last", &found.last)
        .with("first_spread", spread(&found.first))
        .with(
            "round_spread_median",
            median(&rounds).context("there was no round")?,
        )
        .with(
            "round_spread_max",
            found.rounds.iter().max().context("there was no round")?,
        )
        .with("last_spread", spread(&found.last))
        .with("migrations", found.migrations)
        .with("moved_ranks", found.moved_ranks)
        .with_rounded("run_ms", clock::as_millis(found.run), 1)
        .with_rounded("wall_ms", clock::as_millis(wall), 1))
}
