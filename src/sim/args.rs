// SPDX-License-Identifier: GPL-2.0-only
//! The command line of `simulate`. Flags that the scheduler has, too, mean the same here.

use std::path::PathBuf;

use clap::Args;

use super::workload::{self, Workload};
use super::world::Setup;
use crate::cli::{Format, MachineArgs, RuleArgs, parse_balance_interval};
use crate::machine::describe;
use crate::policy::compile::{Limits, NodeShape};

/// Flags of `simulate`.
#[derive(Debug, Args)]
#[command(after_long_help = long_help())]
pub struct SimulateArgs {
    /// What runs: a workload and its size, then what is to differ from its defaults, for example
    /// mpi:16,iterations=100.
    #[arg(long, value_name = "NAME:N[,KEY=VALUE]", value_parser = str::parse::<Workload>)]
    pub workload: Workload,

    #[command(flatten)]
    pub machine: MachineArgs,

    #[command(flatten)]
    pub rules: RuleArgs,

    /// How often nodes are compared and tasks moved to even them out; 0 never.
    #[arg(long, value_name = "MSEC", default_value_t = 100,
          value_parser = parse_balance_interval)]
    pub balance_interval_ms: u64,

    /// How long a forked task that has hardly run counts for its node while it sleeps; 0 never:
    /// sleepers unseen.
    #[arg(long, value_name = "MSEC", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub newborn_ms: u64,

    /// CPU time after which a forked task no longer is a newborn.
    #[arg(long, value_name = "USEC", default_value_t = 5000,
          value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub newborn_work_us: u64,

    /// Longest time a task runs before others in its queue get a turn.
    #[arg(long, value_name = "USEC", default_value_t = 5000,
          value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub slice_us: u64,

    /// Shortest turn: slices shrink down to this when a queue is long. Never above --slice-us.
    #[arg(long, value_name = "USEC", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    pub slice_min_us: u64,

    /// How long a task waits in its own LLC before idle CPUs of other LLCs and nodes may take it.
    #[arg(long, value_name = "USEC", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub pull_delay_us: u64,

    /// Runs, each with a seed of its own.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,

    /// Seed of the first run; the others count up from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Give up on a run after so much simulated time.
    #[arg(long, value_name = "SEC", default_value_t = 3600,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub limit_s: u64,

    /// Write the first run's fork placements and balancing decisions to FILE as JSON lines;
    /// `scx_ballast replay FILE` decides them again.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// How to print what came out.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

fn long_help() -> String {
    format!("{}\n{}", workload::help(), describe::help())
}

impl SimulateArgs {
    /// The scheduler that the flags ask for, on a machine with these nodes.
    pub fn setup(&self, nodes: &[NodeShape]) -> Setup {
        let rules = &self.rules;
        Setup {
            limits: Limits::compile(rules.rules, rules.thresholds(), nodes),
            slice_ns: self.slice_us * 1000,
            slice_min_ns: self.slice_min_us * 1000,
            pull_delay_ns: self.pull_delay_us * 1000,
            newborn_ns: self.newborn_ms * 1_000_000,
            newborn_work_ns: self.newborn_work_us * 1000,
            balance_ns: self.balance_interval_ms * 1_000_000,
        }
    }
}
