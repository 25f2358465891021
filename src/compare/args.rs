// SPDX-License-Identifier: GPL-2.0-only
//! The command line of `scx_ballast compare`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::arms::NumaBalancing;
use super::keeper::KeeperArgs;
use super::report::args::{Look, ReportArgs};
use crate::cli::{SECONDS, parse_seconds};
use crate::ranged::{Ranged, shown};

/// The suite that is run when none is named.
pub const DEFAULT_SUITE: &str = "quick";
/// Blocks when no number is given: enough for a paired permutation test with a few primary metrics.
pub const DEFAULT_BLOCKS: u32 = 12;
/// Settle time when none is given.
pub const DEFAULT_SETTLE: Duration = Duration::from_secs(1);

/// As other times, and 0: then a benchmark begins at once.
fn parse_settle(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => parse_seconds(text).map_err(|why| why.replace("expected", "expected 0 or")),
    }
}

/// What `compare` is asked to do.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub struct CompareArgs {
    #[command(subcommand)]
    pub command: Option<CompareCommand>,

    #[command(flatten)]
    pub run: CompareRunArgs,
}

const AFTER_HELP: &str = "Every run is written to the results file before the next begins. Ctrl-C ends a comparison at once \
     and gives the machine back to the scheduler that it had; --resume goes on where it was.\n\n\
     scx_ballast compare eevdf ballast \"ballast:--slice-us 20000\" scx_rusty --suite hackbench";

/// Other things than comparing.
#[derive(Debug, Subcommand)]
pub enum CompareCommand {
    /// Write the report of a comparison again, or of the same comparison on several machines.
    Report(ReportArgs),
    /// Cleans up after a comparison.
    #[command(hide = true)]
    Keeper(KeeperArgs),
}

/// What `--list` has no use for, by the fields.
const NOT_LISTED: [&str; 13] = [
    "arms",
    "blocks",
    "seed",
    "settle",
    "aa",
    "numa_balancing",
    "results",
    "resume",
    "format",
    "output",
    "verbose",
    "replace_running",
    "dry_run",
];

/// How to compare.
#[derive(Debug, Clone, Args)]
pub struct CompareRunArgs {
    /// Who is compared, the first being what the others are compared with: eevdf, ballast[:FLAGS] (this
    /// program), or NAME[:FLAGS] with the name or path of any sched_ext scheduler. A single one is
    /// compared with eevdf. Flags are split as a shell does.
    #[arg(value_name = "ARM")]
    pub arms: Vec<String>,

    /// A built-in suite of benchmarks, or a file with one; may be given several times [default: quick].
    #[arg(long = "suite", value_name = "NAME|FILE")]
    pub suites: Vec<String>,

    /// Only benchmarks of this name; * stands for any text, and the name before a slash for all sizes.
    /// May be given several times.
    #[arg(long = "bench", value_name = "NAME")]
    pub benches: Vec<String>,

    /// How often each arm runs each benchmark [default: 12].
    #[arg(long, value_name = "N", value_parser = crate::ranged::u32_in(1..=10_000))]
    pub blocks: Option<u32>,

    /// What decides the order of runs; drawn and recorded when not given.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Time between attaching a scheduler and running a benchmark [default: 1].
    #[arg(long, value_name = "SEC", value_parser = Ranged::new(parse_settle, ["0".into(), shown(&SECONDS)]))]
    pub settle: Option<Duration>,

    /// Also compare the first arm with itself: what differs then is the noise of the machine.
    #[arg(long)]
    pub aa: bool,

    /// What kernel.numa_balancing is for the arms eevdf; both makes two arms of each. By default it is
    /// left as the machine has it.
    #[arg(long, value_enum, value_name = "on|off|both")]
    pub numa_balancing: Option<NumaBalancing>,

    /// The results file [default: compare-TIME.jsonl in the current folder].
    #[arg(long, value_name = "FILE", value_parser = crate::output::file())]
    pub results: Option<PathBuf>,

    /// Go on with the comparison in the results file. What is not given is taken from there; what is
    /// given must be the same.
    #[arg(long, requires = "results")]
    pub resume: bool,

    #[command(flatten)]
    pub look: Look,

    /// End a sched_ext scheduler that is loaded (as SysRq-S does). It is not started again.
    #[arg(long)]
    pub replace_running: bool,

    /// Say what would be run, in what order, and how long that takes at most; run nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// List suites and their benchmarks on this machine; with --suite and --bench those alone.
    #[arg(long, conflicts_with_all = NOT_LISTED)]
    pub list: bool,

    /// Look for the kernel's files below DIR: for tests.
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,

    /// How long a scheduler may take to load and to end: for tests.
    #[arg(long, value_name = "SEC", hide = true, value_parser = crate::cli::seconds())]
    pub patience: Option<Duration>,
}
