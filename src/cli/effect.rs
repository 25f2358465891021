// SPDX-License-Identifier: GPL-2.0-only
//! Flags that would have no effect beside others are refused: here, and with one kind of message.
//!
//! A [`Row`] for each pair. Invariants: a refused flag was given by the user, and what switches it off was given, too,
//! or is a flag that has to be given for the other to do something. A default refuses nothing. What depends on the
//! machine is not known here.

use std::collections::BTreeMap;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::{DispatcherKind, LocalityMode, PolicyArgs, RunArgs, UsageError};
use crate::output::is_dash;
use crate::policy::compile::ImbNumaNr;
use crate::policy::rule_set::RuleSet;
use crate::sim::SimulateArgs;
use crate::sim::extras::{LeftOut, LocalityFlag};
use crate::sim::source::Source;

/// The flags that the user gave, by their names without the dashes, with what was given to them.
#[derive(Debug, Clone, Default)]
pub struct Given {
    flags: BTreeMap<String, Vec<String>>,
    /// The one whose values `--sweep` tries: it is given, but has not one value that switches others off.
    swept: Option<String>,
}

impl Given {
    /// Flags of the command itself, not of its subcommands.
    pub fn of(command: &Command, matches: &ArgMatches) -> Self {
        let named = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        let named = command
            .get_arguments()
            .filter(|arg| named(arg.get_id().as_str()));
        let flags = named.filter_map(|arg| {
            let takes = arg.get_action().takes_values();
            let raw = matches.get_raw(arg.get_id().as_str()).filter(|_| takes);
            let values = raw.into_iter().flatten();
            let values = values.map(|value| value.to_string_lossy().into_owned());
            Some((arg.get_long()?.to_owned(), values.collect()))
        });
        Self {
            flags: flags.collect(),
            swept: None,
        }
    }

    /// The flags but for some, as they can be given again, in the order of their names.
    pub fn words(&self, but: &[&str]) -> String {
        let flags = self.flags.iter();
        let flags = flags.filter(|(flag, _)| !but.contains(&flag.as_str()));
        let words = flags.map(|(flag, values)| match &values[..] {
            [] => format!("--{flag}"),
            values => format!("--{flag} {}", values.join(",")),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.contains_key(flag)
    }

    /// `--sweep` tries its values.
    fn sweeps(&self, flag: &str) -> bool {
        self.swept.as_deref() == Some(flag)
    }

    /// It was given one value.
    fn fixes(&self, flag: &str) -> bool {
        self.has(flag) && !self.sweeps(flag)
    }
}

/// Whether it holds, the flag, what it cannot be had with or without, why, and what to do if that is not to leave one
/// of the two out.
struct Row<'a> {
    holds: bool,
    flag: &'a str,
    beside: &'a str,
    why: &'a str,
    remedy: &'a str,
}

const ONE: &str = "leave one of the two flags out";

const fn row<'a>(holds: bool, flag: &'a str, beside: &'a str, why: &'a str) -> Row<'a> {
    Row {
        holds,
        flag,
        beside,
        why,
        remedy: ONE,
    }
}

/// For what has to be given besides.
const fn needs<'a>(
    holds: bool,
    flag: &'a str,
    beside: &'a str,
    why: &'a str,
    remedy: &'a str,
) -> Row<'a> {
    Row {
        holds,
        flag,
        beside,
        why,
        remedy,
    }
}

/// Refuse the first that holds.
fn refuse<'a>(rows: impl IntoIterator<Item = Row<'a>>) -> Result<(), UsageError> {
    let Some(row) = rows.into_iter().find(|row| row.holds) else {
        return Ok(());
    };
    let Row {
        flag,
        beside,
        why,
        remedy,
        ..
    } = row;
    let what = format!("{flag} cannot be had {beside}: {why}; {remedy}");
    Err(UsageError::new(what))
}

const NO_NEWBORNS: &str = "no newborn is counted then";
const NO_TICKS: &str = "with --balance-interval-ms 0";
const UNKNOWN: &str = "nobody knows then where memory is";
const LOOKS_AT_TICKS: &str =
    "memory is looked at, and followed, at the ticks of the balancer, of which there are none";

/// Of the flags that the scheduler and the simulator have.
fn check_policy(policy: &PolicyArgs, given: &Given) -> Result<(), UsageError> {
    let (set, thresholds) = (policy.rules.rules, policy.rules.thresholds());
    let with_set = format!("with --rules {set}");
    let topology = given.fixes("imb-numa-nr") && thresholds.imb_numa_nr == ImbNumaNr::Auto;
    let imb_numa_nr = given.has("imb-numa-nr") && !topology;
    let never_light = given.fixes("imb-numa-nr") && thresholds.imb_numa_nr == ImbNumaNr::Tasks(0);
    let even = given.fixes("imbalance-min") && thresholds.imbalance_min.is_some_and(|n| n <= 1);
    let with_even = format!(
        "with --imbalance-min {}",
        thresholds.imbalance_min.unwrap_or(0)
    );
    let no_ticks = has_no_ticks(policy, given);
    let newborn_work = given.has("newborn-work-us");
    let newborn_off = given.fixes("newborn-ms") && policy.newborn_ms == 0;
    let none_asleep = given.fixes("newborn-work-us") && policy.newborn_work_us == 0;
    let slice = format!("with slices of {} us at most", policy.slice_us);
    let has_one_slice = given.fixes("slice-min-us")
        && !given.sweeps("slice-us")
        && policy.slice_min_us > policy.slice_us;
    refuse([
        row(
            imb_numa_nr && !set.uses_imb_numa_nr(),
            "--imb-numa-nr",
            &with_set,
            "these rules do not use it",
        ),
        row(
            given.has("imbalance-min") && !set.uses_imbalance_min(),
            "--imbalance-min",
            &with_set,
            "these rules tolerate nothing",
        ),
        row(
            given.has("imbalance-min") && never_light && set.uses_imb_numa_nr(),
            "--imbalance-min",
            "with --imb-numa-nr 0",
            "no node is ever lightly loaded then, and any imbalance is evened out",
        ),
        row(
            imb_numa_nr && even && set == RuleSet::Ballast,
            "--imb-numa-nr",
            &with_even,
            "an imbalance of 1 is always left alone, and nothing beyond that on a lightly loaded node either",
        ),
        row(
            given.has("imbalance-min") && no_ticks && !set.uses_imbalance_min_at_fork(),
            "--imbalance-min",
            NO_TICKS,
            "nobody is moved then, and at fork these rules do not use it",
        ),
        row(
            newborn_work && newborn_off,
            "--newborn-work-us",
            "with --newborn-ms 0",
            NO_NEWBORNS,
        ),
        row(
            given.has("newborn-ms") && none_asleep && !newborn_off,
            "--newborn-ms",
            "with --newborn-work-us 0",
            NO_NEWBORNS,
        ),
        needs(
            has_one_slice,
            "--slice-min-us",
            &slice,
            "no slice is longer than that",
            "give a smaller one, or a larger --slice-us",
        ),
    ])
}

fn has_no_ticks(policy: &PolicyArgs, given: &Given) -> bool {
    given.fixes("balance-interval-ms") && policy.balance_interval_ms == 0
}

/// Flags of the scheduler.
///
/// # Errors
/// Which two do not go together, and what to do.
pub fn check_run(args: &RunArgs, given: &Given) -> Result<(), UsageError> {
    for watch in ["help-stats", "monitor"] {
        let beside = format!("with --{watch}");
        // What is logged of the watching itself.
        let is_other = |flag: &&String| *flag != watch && *flag != "verbose";
        let mut others = given.flags.keys().filter(is_other);
        if let (true, Some(other)) = (given.has(watch), others.next()) {
            let flag = format!("--{other}");
            return refuse([row(true, &flag, &beside, "that loads no scheduler")]);
        }
    }
    check_policy(&args.policy, given)?;
    match args.dispatcher {
        DispatcherKind::Kernel => check_locality(args, given),
        DispatcherKind::User => check_user(args, given),
    }
}

/// Where memory is looked for, and followed, by the kernel dispatcher. What `--locality auto` comes to only the machine
/// tells.
fn check_locality(args: &RunArgs, given: &Given) -> Result<(), UsageError> {
    let locality = &args.locality;
    let with_mode = match locality.locality {
        LocalityMode::Off => "with --locality off",
        LocalityMode::FirstTouch => "with --locality first-touch",
        LocalityMode::Auto | LocalityMode::Sampled => "",
    };
    let (no_looks, no_ticks) = (!with_mode.is_empty(), has_no_ticks(&args.policy, given));
    let named = match locality.locality {
        LocalityMode::Sampled | LocalityMode::FirstTouch => given.has("locality"),
        LocalityMode::Auto | LocalityMode::Off => false,
    };
    let looks = "it needs --locality sampled (or auto, the default)";
    let budget = given.has("look-budget-us");
    let (memory, flag) = (locality.migrate_memory, "--migrate-memory");
    refuse([
        row(memory && no_looks, flag, with_mode, looks),
        row(memory && no_ticks, flag, NO_TICKS, LOOKS_AT_TICKS),
        needs(
            given.has("migrate-rate") && !memory,
            "--migrate-rate",
            "without --migrate-memory",
            "no memory is brought then",
            "give both, or leave it out",
        ),
        row(budget && no_looks, "--look-budget-us", with_mode, looks),
        row(
            budget && no_ticks,
            "--look-budget-us",
            NO_TICKS,
            LOOKS_AT_TICKS,
        ),
        row(named && no_ticks, "--locality", NO_TICKS, LOOKS_AT_TICKS),
    ])
}

/// What the user dispatcher has no use for.
fn check_user(args: &RunArgs, given: &Given) -> Result<(), UsageError> {
    let user = "with --dispatcher user";
    let memory = "it does not look where memory lies";
    let unused = |name, flag, why| row(given.has(name), flag, user, why);
    let mode = |mode, flag| row(args.locality.locality == mode, flag, user, memory);
    refuse([
        mode(LocalityMode::FirstTouch, "--locality first-touch"),
        mode(LocalityMode::Sampled, "--locality sampled"),
        unused("migrate-memory", "--migrate-memory", memory),
        unused("migrate-rate", "--migrate-rate", memory),
        unused("look-budget-us", "--look-budget-us", memory),
        unused(
            "pull-delay-us",
            "--pull-delay-us",
            "idle CPUs do not pull tasks",
        ),
        unused("sync-us", "--sync-us", "it is not told who wakes whom"),
        unused(
            "global-idle-mask",
            "--global-idle-mask",
            "it uses no idle mask",
        ),
    ])
}

/// Flags of `simulate`. The values of a swept flag are given, but none of them switches another flag off.
///
/// # Errors
/// As [`check_run`].
pub fn check_simulate(args: &SimulateArgs, given: &Given) -> Result<(), UsageError> {
    let mut given = given.clone();
    if let Some(sweep) = &args.sweep {
        given.flags.insert(sweep.flag().to_owned(), Vec::new());
        given.swept = Some(sweep.flag().to_owned());
    }
    check_policy(&args.policy, &given)?;
    check_model(args, &given)?;
    check_outputs(args, &given)
}

fn check_model(args: &SimulateArgs, given: &Given) -> Result<(), UsageError> {
    let extras = &args.extras;
    let without = |rule| extras.without.contains(&rule);
    let off = extras.locality == LocalityFlag::Off;
    let no_ticks = has_no_ticks(&args.policy, given);
    let rate = extras.migrate_rate > 0;
    let too = "give --locality exact or sampled, too";
    // Tasks that may not use all CPUs are let go after a pull delay, with R9 and without; no built-in workload has any.
    let nobody_confined = matches!(args.workload, Source::BuiltIn(_));
    let no_r6 = |name, flag| {
        let holds = given.has(name) && without(LeftOut::R6);
        row(holds, flag, "with --without r6", NO_NEWBORNS)
    };
    refuse([
        no_r6("newborn-ms", "--newborn-ms"),
        no_r6("newborn-work-us", "--newborn-work-us"),
        row(
            given.has("pull-delay-us") && without(LeftOut::R9) && nobody_confined,
            "--pull-delay-us",
            "with --without r9",
            "no CPU takes tasks from elsewhere then, whatever the delay",
        ),
        row(
            without(LeftOut::R10) && no_ticks,
            "--without r10",
            NO_TICKS,
            "it is about tasks that the balancer moves, and it moves none",
        ),
        needs(
            rate && off,
            "--migrate-rate",
            "without --locality",
            UNKNOWN,
            too,
        ),
        needs(
            without(LeftOut::R7) && off,
            "--without r7",
            "without --locality",
            "it is about looks at memory, of which there are none",
            too,
        ),
        row(
            rate && without(LeftOut::R8),
            "--migrate-rate",
            "with --without r8",
            UNKNOWN,
        ),
        row(
            !off && without(LeftOut::R8),
            "--locality",
            "with --without r8",
            "that is --locality off, the default",
        ),
        row(!off && no_ticks, "--locality", NO_TICKS, LOOKS_AT_TICKS),
    ])
}

/// What goes to standard output goes there in place of the table, which alone tells of all runs.
fn check_outputs(args: &SimulateArgs, given: &Given) -> Result<(), UsageError> {
    let many = given.has("runs") && args.runs > 1;
    let first = |path: &Option<_>, beside| {
        let holds = many && path.as_deref().is_some_and(is_dash);
        let why = "that is the first run alone; to a file it leaves standard output to the table";
        row(holds, "--runs", beside, why)
    };
    refuse([
        first(&args.trace, "with --trace -"),
        first(&args.svg, "with --svg -"),
    ])
}

#[cfg(test)]
mod tests;
