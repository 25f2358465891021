// SPDX-License-Identifier: GPL-2.0-only
//! The command line of `simulate`. Flags that the scheduler has, too, mean the same here.

use std::path::PathBuf;

use clap::Args;

use super::extras::{ExtraArgs, Extras};
use super::source::{self, Source};
use super::sweep::Sweep;
use super::workload;
use super::world::Setup;
use crate::cli::{Format, MachineArgs, PolicyArgs};
use crate::machine::describe;
use crate::policy::compile::{Limits, NodeShape};

/// Flags of `simulate`.
#[derive(Debug, Args)]
#[command(after_long_help = long_help())]
pub struct SimulateArgs {
    /// What runs: a workload and its size, then what is to differ from its defaults, for example
    /// mpi:16,iterations=100; file:PATH with programs of your own; or trace:PATH with what --trace wrote.
    #[arg(long, value_name = "NAME:N[,KEY=VALUE]", value_parser = str::parse::<Source>)]
    pub workload: Source,

    #[command(flatten)]
    pub machine: MachineArgs,

    #[command(flatten)]
    pub policy: PolicyArgs,

    #[command(flatten)]
    pub extras: ExtraArgs,

    /// Runs, each with a seed of its own.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = crate::ranged::u32_in(1..=100_000))]
    pub runs: u32,

    /// Try a flag's values one after the other, each with all runs, and say which is best here and
    /// how much it matters: imb-numa-nr=1..32, slice-us=1000..20000..1000, imb-numa-nr=5%..50%..5%.
    #[arg(long, value_name = "FLAG=FROM..TO[..STEP]", value_parser = str::parse::<Sweep>,
          conflicts_with_all = ["trace", "svg"])]
    pub sweep: Option<Sweep>,

    /// Seed of the first run; the others count up from it.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = crate::ranged::u64_in(0..=u64::MAX))]
    pub seed: u64,

    /// Give up on a run after so much simulated time.
    #[arg(long, value_name = "SEC", default_value_t = 3600,
          value_parser = crate::ranged::u64_in(1..=1_000_000))]
    pub limit_s: u64,

    /// Write the first run's fork placements and balancing decisions to FILE as JSON lines;
    /// `scx_ballast replay FILE` decides them again. `-`: to standard output, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Draw tasks on each node over time, in the first run, into FILE; `-`: to standard output, instead of
    /// the table.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// How to print what came out.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

fn long_help() -> String {
    format!(
        "{}{}\n{}",
        workload::help(),
        source::help(),
        describe::help()
    )
}

impl SimulateArgs {
    /// The scheduler that the flags ask for, with `policy` for the policy's own, on a machine with these nodes.
    pub fn setup_with(&self, policy: &PolicyArgs, nodes: &[NodeShape]) -> Setup {
        let rules = &policy.rules;
        let mut setup = Setup {
            limits: Limits::compile(rules.rules, rules.thresholds(), nodes),
            slice_ns: policy.slice_us * 1000,
            slice_min_ns: policy.slice_min_us * 1000,
            pull_delay_ns: policy.pull_delay_us * 1000,
            sync_ns: policy.sync_us * 1000,
            newborn_ns: policy.newborn_ms * 1_000_000,
            newborn_work_ns: policy.newborn_work_us * 1000,
            balance_ns: policy.balance_interval_ms * 1_000_000,
            extras: Extras::default(),
        };
        self.extras.apply(&mut setup);
        setup
    }
}
