// SPDX-License-Identifier: GPL-2.0-only
//! Built-in workloads: `scx_ballast work NAME`.
//!
//! Small programs that show one habit of a scheduler each, on any Linux machine, under any
//! scheduler, as any user, with nothing else installed. They judge; they never touch the scheduler.
//!
//! | workload | shows |
//! |---|---|
//! | `fork_burst` | where new tasks go that first sleep and then run |
//! | `mpi` | whether ranks of a launcher get an even share of the nodes, and keep it |
//! | `numa_mem` | whether threads run where their memory is, and how soon those of a process are together |
//! | `pairs` | what a wake-up costs, and whether partners stay together |
//! | `hogs` | whether nice values get the CPU time that they stand for |
//! | `wakeups` | how late a sleeper runs beside busy tasks |
//!
//! What always holds of a workload:
//!
//! - The last line that it prints is `result NAME KEY=VALUE ...` ([`ResultLine`]), and it prints
//!   that line only if all of its tasks came to their end. Lines before it are for people.
//! - Tasks spin for a time, not for a number of rounds: emulated machines are many times slower.
//!   Only `mpi`, and `numa_mem` if asked to, have a fixed amount of work, because the time that it takes
//!   is a result. Times are of CLOCK_MONOTONIC.
//! - What could not be measured is `not-available`, never a number.
//! - What it starts never outlives it (`crew`), whatever ends it.
//!
//! A further workload is a module with an `Args` struct and a `run` that returns its
//! [`ResultLine`], plus a line in [`Workload`] and in [`run`]. Starting tasks, waiting for them,
//! sharing memory with them and confining them to CPUs is in the modules below already.

mod arena;
mod clock;
mod cpus;
mod crew;
mod fork_burst;
mod futex;
mod hogs;
mod link;
mod memory;
mod mempolicy;
mod mpi;
mod mpi_rank;
mod numa_begin;
mod numa_look;
mod numa_mem;
mod numa_plan;
mod numa_tally;
mod numa_task;
mod numa_worker;
mod numbers;
mod output;
mod pages;
mod pairs;
mod shared;
mod times;
mod two_cpus;
mod wakeups;
mod watch;
mod weights;

use anyhow::Result;
use clap::{Args, Subcommand};

pub use fork_burst::ForkBurstArgs;
pub use hogs::HogsArgs;
pub use mpi::MpiArgs;
pub use mpi_rank::RankArgs;
pub use numa_mem::NumaMemArgs;
pub use output::{Output, ResultLine};
pub use pairs::{LinkKind, PairsArgs};
pub use wakeups::WakeupsArgs;

/// The command line behind `work`.
#[derive(Debug, Args)]
pub struct WorkArgs {
    #[command(subcommand)]
    pub workload: Workload,

    /// Print details before the result line.
    // Not the id `verbose`: what is global here would be handed up to the scheduler's own flag.
    #[arg(id = "details", short = 'v', long = "verbose", global = true)]
    pub verbose: bool,
}

/// The workloads.
#[derive(Debug, Subcommand)]
pub enum Workload {
    /// Fork tasks that sleep and then spin; count on which nodes they run.
    ForkBurst(ForkBurstArgs),
    /// Ranks as an MPI launcher starts them; ranks per node over time, and run time.
    Mpi(MpiArgs),
    /// What `mpi` execs.
    #[command(hide = true)]
    MpiRank(RankArgs),
    /// Threads that work on memory of their process or their own; local share, throughput, convergence.
    NumaMem(NumaMemArgs),
    /// Pairs of tasks that wake each other; time of a round trip.
    Pairs(PairsArgs),
    /// CPU hogs of different nice values on the same CPUs; share of each.
    Hogs(HogsArgs),
    /// Sleepers beside hogs on the same CPUs; how late they run.
    Wakeups(WakeupsArgs),
}

/// Runs a workload and prints its result line.
///
/// # Errors
/// The machine or the user's limits refuse something that the workload needs (CPUs, tasks, nice
/// values), one of its tasks ended early, or the output cannot be written.
pub fn run(args: &WorkArgs) -> Result<()> {
    let mut output = Output::new(args.verbose);
    let result = match &args.workload {
        Workload::ForkBurst(args) => fork_burst::run(args, &mut output),
        Workload::Mpi(args) => mpi::run(args, &mut output),
        Workload::MpiRank(args) => return mpi_rank::run(args),
        Workload::NumaMem(args) => numa_mem::run(args, &mut output),
        Workload::Pairs(args) => pairs::run(args, &mut output),
        Workload::Hogs(args) => hogs::run(args, &mut output),
        Workload::Wakeups(args) => wakeups::run(args, &mut output),
    }?;
    output.line(&result.to_string())
}
