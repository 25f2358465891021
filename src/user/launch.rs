// SPDX-License-Identifier: GPL-2.0-only
//! Becoming `scx_ballast_user`, and what it cannot offer.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::cli::effect::Given;
use crate::cli::{self, DispatcherKind, RunArgs, UsageError, VERSION};
use crate::machine::Machine;
use crate::user::ask;

/// The other program, beside this one.
pub const PROGRAM: &str = "scx_ballast_user";
/// Tasks that fit into its heap, which has a fixed size.
const MAX_TASKS: u32 = 65_536;
/// CPUs that scx_rustland_core's BPF part has room for.
pub(super) const MAX_CPUS: usize = 1024;
/// How long it may take to tell its version: a moment, but much more on a loaded machine with slow disks.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// There when the kernel has seccomp filters.
const SECCOMP: &str = "/proc/sys/kernel/seccomp/actions_avail";

/// The command line of the other program: the scheduler's flags, and no commands.
#[derive(Debug, Parser)]
#[command(name = PROGRAM, version = VERSION)]
struct UserCli {
    #[command(flatten)]
    run: RunArgs,
}

/// Flags that [`effect`](cli::effect) refuses, or of which one value is taken only, by their fields.
const NOT_OFFERED: &[&str] = &[
    "dispatcher",
    "locality",
    "migrate_memory",
    "migrate_rate",
    "look_budget_us",
    "pull_delay_us",
    "sync_us",
    "global_idle_mask",
];

/// The other program's definition; its help shows what it does.
fn command() -> clap::Command {
    let about = "The user dispatcher of scx_ballast";
    let more = "It is what `scx_ballast --dispatcher user` becomes: every task passes through the rules in user space \
                before it runs.";
    let shown = UserCli::command()
        .about(about)
        .long_about(format!("{about}.\n\n{more}"));
    let hide = |command: clap::Command, flag: &&str| command.mut_arg(*flag, |arg| arg.hide(true));
    NOT_OFFERED.iter().fold(shown, hide)
}

fn parse_from(words: impl IntoIterator<Item = OsString>) -> Result<(RunArgs, Given), clap::Error> {
    let matches = command().try_get_matches_from(words)?;
    let given = Given::of(&command(), &matches);
    let mut args = UserCli::from_arg_matches(&matches)?.run;
    let named = matches.value_source("dispatcher") == Some(ValueSource::CommandLine);
    if named && args.dispatcher == DispatcherKind::Kernel {
        return Err(command().error(
            ErrorKind::InvalidValue,
            format_args!("{PROGRAM} is the user dispatcher; scx_ballast has the kernel dispatcher"),
        ));
    }
    args.dispatcher = DispatcherKind::User;
    Ok((args, given))
}

/// The other program's flags, and which of them were given. Ends this process, with status 2, if they are wrong.
pub fn parse() -> (RunArgs, Given) {
    parse_from(std::env::args_os()).unwrap_or_else(|error| cli::exit_over(&error))
}

/// Refuse more tasks than it has memory for.
///
/// # Errors
/// How many it has room for.
pub fn check_size(args: &RunArgs) -> Result<(), UsageError> {
    if args.max_tasks <= MAX_TASKS {
        return Ok(());
    }
    Err(UsageError::new(format_args!(
        "--max-tasks {} cannot be had with --dispatcher user: its memory is of a fixed size, enough for {MAX_TASKS}",
        args.max_tasks
    )))
}

/// Can scx_rustland_core run here?
///
/// # Errors
/// What is missing.
pub fn check_machine(machine: &Machine) -> Result<()> {
    if !Path::new(SECCOMP).exists() {
        return Err(anyhow!(
            "this kernel has no seccomp filters, which --dispatcher user needs: CONFIG_SECCOMP_FILTER=y"
        ));
    }
    if machine.nr_cpu_ids() > MAX_CPUS {
        return Err(anyhow!(
            "this machine can have {} CPUs; --dispatcher user has room for {MAX_CPUS}",
            machine.nr_cpu_ids()
        ));
    }
    Ok(())
}

/// `scx_ballast --dispatcher user`: this process becomes the other program, with the same arguments.
///
/// # Errors
/// A flag that it has not, or the program cannot be run.
pub fn run(args: &RunArgs) -> Result<Infallible> {
    check_size(args)?;
    let own = std::env::current_exe().context("where this program is")?;
    let program = own.with_file_name(PROGRAM);
    if !program.exists() {
        return Err(anyhow!(
            "{} is missing: --dispatcher user needs it beside {}",
            program.display(),
            own.display()
        ));
    }
    check_build(&program)?;
    let error = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .exec();
    Err(error).with_context(|| format!("running {}", program.display()))
}

/// Is this program, which lies beside this one, of the same build? Both know flags, defaults and statistics, and would
/// disagree silently. What is compared is the version with the commit: two builds of one commit with different changes
/// that were not committed look alike. It is given [`ANSWERS_WITHIN`] to answer.
///
/// # Errors
/// What was found there, and what to do.
pub fn check_build(program: &Path) -> Result<()> {
    let remedy = "build both together (make build), or copy both from the same build";
    let path = program.display();
    let said = ask::version(program, ANSWERS_WITHIN)
        .map_err(|no_answer| anyhow!("{path} {no_answer}; {remedy}"))?;
    if said == format!("{PROGRAM} {VERSION}") {
        return Ok(());
    }
    let found = shown(&said);
    Err(match said.split_whitespace().next() == Some(PROGRAM) {
        true => {
            anyhow!(
                "{path} is of another build: it says '{found}', and this is {VERSION}; {remedy}"
            )
        }
        false => anyhow!(
            "{path} is another program: its version is '{found}', and should be '{PROGRAM} {VERSION}'; {remedy}"
        ),
    })
}

/// So much of what an unknown program has printed as fits into a message, and nothing that a terminal would obey.
fn shown(said: &str) -> String {
    const MOST_SHOWN: usize = 100;
    let plain = |c: char| if c.is_control() { '?' } else { c };
    let mut shown: String = said.chars().take(MOST_SHOWN).map(plain).collect();
    if said.chars().nth(MOST_SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::LocalityMode;

    fn parsed(words: &[&str]) -> Result<RunArgs, clap::Error> {
        let words = [PROGRAM].iter().chain(words).map(OsString::from);
        parse_from(words).map(|(args, _)| args)
    }

    #[test]
    fn its_help_shows_what_it_does() {
        command().debug_assert();
        for help in ["-h", "--help"] {
            let help = parsed(&[help]).unwrap_err().to_string();
            for absent in [
                "Commands",
                "Usage: scx_ballast_user [COMMAND]",
                "  simulate",
                "--dispatcher <",
                "--locality",
                "--migrate",
                "--look-",
                "--pull-",
                "--sync-",
                "--global-",
            ] {
                assert!(!help.contains(absent), "{absent} is in\n{help}");
            }
            for present in [
                "--trace",
                "--partial",
                "--rules",
                "--virt-llc",
                "--stats",
                PROGRAM,
            ] {
                assert!(help.contains(present), "{present} is not in\n{help}");
            }
        }
    }

    #[test]
    fn it_is_one_dispatcher_and_has_no_commands() {
        assert!(
            parsed(&["topology"])
                .unwrap_err()
                .to_string()
                .contains("'topology'")
        );
        let said = parsed(&["--dispatcher", "kernel"]).unwrap_err();
        assert!(
            said.to_string().contains("is the user dispatcher"),
            "{said}"
        );
        assert_eq!(said.exit_code(), 2);
        // As the launcher starts it, with flags that are not shown.
        let args = parsed(&["--dispatcher", "user", "--locality", "off", "--partial"]).unwrap();
        assert!(args.partial && args.dispatcher == DispatcherKind::User);
        assert!(args.locality.locality == LocalityMode::Off);
        assert!(parsed(&[]).is_ok());
        let said = parsed(&["--version"]).unwrap_err().to_string();
        assert_eq!(said.trim(), format!("{PROGRAM} {VERSION}"));
    }

    #[test]
    fn its_memory_is_of_a_fixed_size() {
        let most = parsed(&["--max-tasks", "65536"]).unwrap();
        assert!(check_size(&most).is_ok());
        let more = parsed(&["--max-tasks", "65537"]).unwrap();
        let said = check_size(&more).unwrap_err().to_string();
        assert!(
            said.contains("--max-tasks 65537") && said.contains("enough for 65536"),
            "{said}"
        );
    }
}
