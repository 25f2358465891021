// SPDX-License-Identifier: GPL-2.0-only
//! A machine, and a job on it under the scheduler without a flag, for tests of workloads that run.

use clap::Parser;
use scx_ballast::machine::describe::Source as Description;
use scx_ballast::policy::record::Record;
use scx_ballast::sim::SimulateArgs;
use scx_ballast::sim::hardware::{Hardware, Params};
use scx_ballast::sim::outcome::Outcome;
use scx_ballast::sim::program::Plan;
use scx_ballast::sim::runs::Job;
use scx_ballast::sim::world::SimError;

pub const MS: u64 = 1_000_000;

/// Two nodes of eight CPUs.
pub fn hw() -> Hardware {
    described("2 nodes x 8 cpus")
}

/// A machine as users describe it.
pub fn described(text: &str) -> Hardware {
    let source: Description = text.parse().expect("a machine");
    Hardware::new(&source.machine(None).expect("a machine"), Params::default())
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    simulate: SimulateArgs,
}

/// A plan on two nodes of eight CPUs, for at most so long.
pub fn run_plan(plan: &Plan, most_ns: u64) -> Result<(Outcome, Vec<Record>), SimError> {
    let hw = hw();
    let args = Flags::parse_from(["x", "--workload", "mpi:1"]).simulate;
    let job = Job {
        hw: &hw,
        setup: &args.setup_with(&args.policy, &hw.nodes),
        plan,
        most_ns,
    };
    job.run_recorded(3)
}
