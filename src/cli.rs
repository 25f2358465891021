// SPDX-License-Identifier: GPL-2.0-only
//! Every flag in one place.
//!
//! Flags of the sched_ext ecosystem are spelled as its other schedulers spell them. Values are
//! checked here, while the user's words are still known, so that the rest of the program sees only
//! sensible numbers. A bad flag ends with exit status 2.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::num::IntErrorKind;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use thiserror::Error;

use crate::compare::CompareArgs;
use crate::machine::Machine;
use crate::machine::describe::{self, Source};
use crate::output::{self, NobodyReads};
use crate::policy::compile::{ImbNumaNr, Thresholds};
use crate::policy::rule_set::RuleSet;
use crate::ranged::{ParsedBy, Ranged, shown, u32_in, u64_in};
use crate::sim::SimulateArgs;
use crate::work::WorkArgs;

pub mod effect;

use effect::Given;

/// `0.1.0-g<sha>[-dirty] <triple>`, as sched_ext schedulers print it.
pub const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    env!("BALLAST_GIT_VERSION"),
    " ",
    env!("BALLAST_TARGET")
);

/// What is wrong with a command line and shows only once it is parsed, such as two flags that do not
/// go together. As for a bad flag, the exit status is 2.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    pub fn new(what: impl Display) -> UsageError {
        UsageError(what.to_string())
    }
}

/// Say what went wrong, if something did, and how the program ends.
pub fn exit_code(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else {
        return ExitCode::SUCCESS;
    };
    if error.is::<NobodyReads>() {
        return ExitCode::SUCCESS;
    }
    // Not eprintln!, which panics when nobody can read it.
    let _ = writeln!(std::io::stderr(), "Error: {error:#}");
    match error.is::<UsageError>() {
        true => ExitCode::from(2),
        false => ExitCode::FAILURE,
    }
}

/// Say what clap has to say instead of a command line, a refusal or help that was asked for, and end the program: with
/// status 1 when help cannot be written.
pub fn exit_over(error: &clap::Error) -> ! {
    let said = error.print().and_then(|()| std::io::stdout().flush());
    let status = match said {
        // Nobody is left to tell when a refusal cannot be written.
        Err(failed) if !error.use_stderr() => {
            let failed = output::refused(failed);
            match failed.is::<NobodyReads>() {
                true => error.exit_code(),
                false => {
                    let _ = writeln!(std::io::stderr(), "Error: {failed:#}");
                    1
                }
            }
        }
        _ => error.exit_code(),
    };
    std::process::exit(status)
}

/// A NUMA-aware sched_ext scheduler.
///
/// Without a command it loads the scheduler and stays in the foreground until Ctrl-C; the machine
/// then goes back to the kernel's own scheduler.
#[derive(Debug, Parser)]
#[command(name = "scx_ballast", version = VERSION, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunArgs,
}

impl Cli {
    /// A command line, and which of its flags were given.
    ///
    /// # Errors
    /// What clap has to say instead.
    pub fn parse_words<W>(words: impl IntoIterator<Item = W>) -> Result<(Self, Given), clap::Error>
    where
        W: Into<OsString> + Clone,
    {
        let mut matches = Self::command().try_get_matches_from(words)?;
        let command = Self::command();
        let given = match matches.subcommand() {
            Some((name, inside)) => {
                let command = command.find_subcommand(name);
                command.map_or_else(Given::default, |command| Given::of(command, inside))
            }
            None => Given::of(&command, &matches),
        };
        let cli = Self::from_arg_matches_mut(&mut matches);
        let cli = cli.map_err(|error| error.format(&mut Self::command()))?;
        Ok((cli, given))
    }

    /// Refuse flags that would have no effect.
    ///
    /// # Errors
    /// Which, and why.
    pub fn check_effect(&self, given: &Given) -> Result<(), UsageError> {
        match &self.command {
            None => effect::check_run(&self.run, given),
            Some(Command::Simulate(args)) => effect::check_simulate(args, given),
            Some(
                Command::Topology(_)
                | Command::Rules(_)
                | Command::Replay(_)
                | Command::Work(_)
                | Command::Compare(_),
            ) => Ok(()),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the machine as the scheduler sees it.
    Topology(TopologyArgs),
    /// Show the limits that these flags compile to on this machine, and every rule set's.
    Rules(RulesArgs),
    /// Decide again what a trace recorded, and compare.
    Replay(ReplayArgs),
    /// Run a workload on a modelled machine, under the same rules.
    Simulate(Box<SimulateArgs>),
    /// Run a built-in workload; its last line of output is its result.
    Work(WorkArgs),
    /// Compare schedulers: EEVDF, this one with flags, others.
    Compare(Box<CompareArgs>),
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

#[derive(Debug, Args)]
#[command(after_long_help = describe::help())]
pub struct RulesArgs {
    #[command(flatten)]
    pub rules: RuleArgs,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// How to print the limits; both have every rule set's. docs/rules.md tells the fields of JSON.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// What `--trace` wrote; `-` for standard input.
    pub file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_long_help = describe::help())]
pub struct TopologyArgs {
    /// How to print the topology.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Which machine a command is about; for every command that can do without the running one.
#[derive(Debug, Clone, Args)]
pub struct MachineArgs {
    /// Take another machine than this one: a preset, a short form such as "2 nodes x 8 cpus", or a
    /// file (- for standard input) with the output of numactl -H or lscpu -p.
    #[arg(long, value_name = "ID|FILE", value_parser = str::parse::<Source>)]
    pub machine: Option<Source>,
    /// Split LLCs into virtual ones of MIN to MAX cores, as the scheduler would with this flag.
    #[arg(long, value_name = "MIN-MAX", num_args = 0..=1, require_equals = true,
          default_missing_value = "2-8", value_parser = virt_llc())]
    pub virt_llc: Option<VirtLlc>,
}

impl MachineArgs {
    /// The machine: the one that was named, else the running one.
    pub fn read(&self) -> anyhow::Result<Machine> {
        let virt_llc = self.virt_llc.map(VirtLlc::range);
        Ok(match &self.machine {
            Some(source) => source.machine(virt_llc)?,
            None => Machine::detect(virt_llc)?,
        })
    }
}

/// Cores per virtual LLC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtLlc {
    pub min: usize,
    pub max: usize,
}

impl VirtLlc {
    pub fn range(self) -> (usize, usize) {
        (self.min, self.max)
    }
}

fn parse_virt_llc(text: &str) -> Result<VirtLlc, String> {
    let (min, max) = text
        .split_once('-')
        .ok_or("expected MIN-MAX, for example 2-8")?;
    let number = |s: &str| {
        s.parse::<usize>().map_err(|error| match error.kind() {
            IntErrorKind::PosOverflow => format!("'{s}' is more cores than any machine has"),
            _ => format!("'{s}' is not a number of cores"),
        })
    };
    let (min, max) = (number(min)?, number(max)?);
    if min == 0 || min > max {
        return Err(format!("expected 1 <= MIN <= MAX, got {min}-{max}"));
    }
    Ok(VirtLlc { min, max })
}

fn virt_llc() -> ParsedBy<VirtLlc> {
    Ranged::new(parse_virt_llc, ["1<=MIN<=MAX".into()])
}

/// An interval of statistics, and how long a workload may run.
pub(crate) const SECONDS: RangeInclusive<f64> = 0.001..=86_400.0;

/// Seconds, possibly a fraction; scx_stats' clients use the same.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number of seconds"))?;
    if !SECONDS.contains(&seconds) {
        let (least, most) = (SECONDS.start(), SECONDS.end());
        return Err(format!("expected {least} to {most} seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

pub(crate) fn seconds() -> ParsedBy<Duration> {
    Ranged::new(parse_seconds, [shown(&SECONDS)])
}

fn imb_numa_nr() -> ParsedBy<ImbNumaNr> {
    let (tasks, percent) = (ImbNumaNr::TASKS, ImbNumaNr::PERCENT);
    let percent = format!("{}%..{}%", percent.start(), percent.end());
    Ranged::new(str::parse, ["auto".into(), shown(&tasks), percent])
}

/// Which imbalance between nodes is left alone.
#[derive(Debug, Clone, Args)]
pub struct RuleArgs {
    /// The rules that fork placement and balancing follow: ours, or a model of a kernel's.
    #[arg(long, value_name = "SET", default_value = "ballast",
          value_parser = PossibleValuesParser::new(RuleSet::ALL.map(RuleSet::name))
              .try_map(|name| name.parse::<RuleSet>()))]
    pub rules: RuleSet,

    /// Largest imbalance, in tasks, that is left alone on lightly loaded nodes. By default that of
    /// the rule set: 2, the kernel's NUMA_IMBALANCE_MIN.
    #[arg(long, value_name = "N", value_parser = u32_in(0..=4096))]
    pub imbalance_min: Option<u32>,

    /// Up to how many tasks a node is lightly loaded: by the topology as the rule set says (auto), a
    /// number of tasks, or a share of the node's CPUs (P%). Never more than the node's CPUs.
    #[arg(long, value_name = "auto|N|P%", default_value_t = ImbNumaNr::Auto,
          value_parser = imb_numa_nr())]
    pub imb_numa_nr: ImbNumaNr,
}

impl RuleArgs {
    pub fn thresholds(&self) -> Thresholds {
        Thresholds {
            imbalance_min: self.imbalance_min,
            imb_numa_nr: self.imb_numa_nr,
        }
    }
}

/// What the daemon can keep and still is an interval; besides 0.
const BALANCE_INTERVAL_MS: RangeInclusive<u64> = 10..=60_000;

fn parse_balance_interval(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(ms) if ms == 0 || BALANCE_INTERVAL_MS.contains(&ms) => Ok(ms),
        _ => {
            let (least, most) = (BALANCE_INTERVAL_MS.start(), BALANCE_INTERVAL_MS.end());
            Err(format!("expected 0 or {least} to {most} milliseconds"))
        }
    }
}

/// What is looked at to find out where a process's memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LocalityMode {
    /// The most that this machine offers: off on one node, else sampled, else first-touch.
    Auto,
    /// Nothing.
    Off,
    /// Faults by the node where they were taken: orders candidates, moves nobody.
    FirstTouch,
    /// The kernel is asked for the nodes of some pages of each process.
    Sampled,
}

/// Flags of locality.
#[derive(Debug, Clone, Args)]
pub struct LocalityArgs {
    /// Find out where processes have their memory, and run them there when the limits allow.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = LocalityMode::Auto)]
    pub locality: LocalityMode,

    /// CPU time for finding out where memory is: so much in each second, on the whole machine.
    #[arg(long, value_name = "USEC", default_value_t = 20_000,
          value_parser = u32_in(100..=1_000_000))]
    pub look_budget_us: u32,

    /// Bring memory to processes that have settled elsewhere and do not go to it. Needs --locality
    /// sampled, which auto comes to on several nodes.
    #[arg(long)]
    pub migrate_memory: bool,

    /// With --migrate-memory: at most so much of it.
    #[arg(long, value_name = "MIB_PER_S", default_value_t = 256,
          value_parser = u32_in(1..=1_048_576))]
    pub migrate_rate: u32,
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DispatcherKind {
    /// BPF, by limits that this program computes.
    Kernel,
    /// This program, task by task: slower, for trying rules. docs/user-dispatcher.md
    User,
}

/// What the scheduler decides by, on the real machine and in the simulator.
#[derive(Debug, Clone, Args)]
pub struct PolicyArgs {
    #[command(flatten)]
    pub rules: RuleArgs,

    /// How often nodes are compared and tasks moved to even them out; 0 never.
    #[arg(long, value_name = "MSEC", default_value_t = 100,
          value_parser = Ranged::new(parse_balance_interval, ["0".into(), shown(&BALANCE_INTERVAL_MS)]))]
    pub balance_interval_ms: u64,

    /// How long a forked task that has hardly run counts for its node while it sleeps; 0 never:
    /// sleepers unseen.
    #[arg(long, value_name = "MSEC", default_value_t = 1000,
          value_parser = u64_in(0..=60_000))]
    pub newborn_ms: u64,

    /// CPU time after which a forked task no longer is a newborn.
    #[arg(long, value_name = "USEC", default_value_t = 5000,
          value_parser = u64_in(0..=10_000_000))]
    pub newborn_work_us: u64,

    /// Longest time a task runs before others in its queue get a turn.
    #[arg(long, value_name = "USEC", default_value_t = 5000,
          value_parser = u64_in(100..=1_000_000))]
    pub slice_us: u64,

    /// Shortest turn: slices shrink down to this when a queue is long. Never above --slice-us.
    #[arg(long, value_name = "USEC", default_value_t = 1000,
          value_parser = u64_in(50..=1_000_000))]
    pub slice_min_us: u64,

    /// How long a task waits in its own LLC before idle CPUs of other LLCs and nodes may take it.
    #[arg(long, value_name = "USEC", default_value_t = 500,
          value_parser = u64_in(0..=1_000_000))]
    pub pull_delay_us: u64,

    /// Leave a wakee behind its waker when the waker has so far slept within this time after such a
    /// wake-up; 0 never does.
    #[arg(long, value_name = "USEC", default_value_t = 100,
          value_parser = u64_in(0..=1_000_000))]
    pub sync_us: u64,
}

/// Flags of the scheduler itself.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Where each task's place is decided: in BPF, or in user space through scx_rustland_core.
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = DispatcherKind::Kernel)]
    pub dispatcher: DispatcherKind,

    #[command(flatten)]
    pub policy: PolicyArgs,

    #[command(flatten)]
    pub locality: LocalityArgs,

    /// Write fork placements and balancing decisions, with all that they were decided by, to FILE
    /// as JSON lines; `scx_ballast replay FILE` decides them again.
    #[arg(long, value_name = "FILE", value_parser = output::file())]
    pub trace: Option<PathBuf>,

    /// Tasks that the daemon can see at one time; tasks beyond that are scheduled all the same.
    #[arg(long, value_name = "N", default_value_t = 32768,
          value_parser = u32_in(1..=4_194_304))]
    pub max_tasks: u32,

    /// Split LLCs into virtual ones of MIN to MAX cores: shorter queues, less contention.
    #[arg(long, value_name = "MIN-MAX", num_args = 0..=1, require_equals = true,
          default_missing_value = "2-8", value_parser = virt_llc())]
    pub virt_llc: Option<VirtLlc>,

    /// Use one idle mask for the machine instead of one per node, as kernels before 6.15 do.
    #[arg(long)]
    pub global_idle_mask: bool,

    /// Schedule only tasks of policy SCHED_EXT; all others stay with the kernel's scheduler.
    #[arg(long)]
    pub partial: bool,

    /// Print statistics every SEC seconds while the scheduler runs.
    #[arg(long, value_name = "SEC", value_parser = seconds())]
    pub stats: Option<Duration>,

    /// Print statistics of a running scx_ballast every SEC seconds; does not load anything, and
    /// waits when none runs.
    #[arg(long, value_name = "SEC", value_parser = seconds(), conflicts_with = "stats")]
    pub monitor: Option<Duration>,

    /// Describe the statistics.
    #[arg(long)]
    pub help_stats: bool,

    /// Length of the debug dump after an abort; 0 is the kernel's default.
    #[arg(long, value_name = "BYTES", default_value_t = 0,
          value_parser = u32_in(0..=16_777_216))]
    pub exit_dump_len: u32,

    /// Say more; -vv adds everything that libbpf says.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,

    #[command(flatten, next_help_heading = "Libbpf Options")]
    pub libbpf: LibbpfOpts,
}

#[cfg(test)]
mod tests;
