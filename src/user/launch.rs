// SPDX-License-Identifier: GPL-2.0-only
//! Becoming `scx_ballast_user`, and what it cannot offer.

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use crate::cli::{
    DEFAULT_LOOK_BUDGET_US, DEFAULT_PULL_DELAY_US, DEFAULT_SYNC_US, LocalityMode, RunArgs,
    UsageError,
};
use crate::machine::Machine;

/// The other program, beside this one.
pub const PROGRAM: &str = "scx_ballast_user";
/// Tasks that fit into its heap, which has a fixed size.
const MAX_TASKS: u32 = 65_536;
/// CPUs that scx_rustland_core's BPF part has room for.
const MAX_CPUS: usize = 1024;
/// There when the kernel has seccomp filters.
const SECCOMP: &str = "/proc/sys/kernel/seccomp/actions_avail";

/// Refuse flags that would have no effect.
///
/// # Errors
/// Which, and why.
pub fn check_flags(args: &RunArgs) -> Result<(), UsageError> {
    let not = |flag: &str, why: &str| {
        Err(UsageError::new(format_args!(
            "{flag} cannot be had with --dispatcher user: {why}"
        )))
    };
    let memory = "it does not look where memory lies";
    match args.locality.locality {
        LocalityMode::FirstTouch => return not("--locality first-touch", memory),
        LocalityMode::Sampled => return not("--locality sampled", memory),
        LocalityMode::Auto | LocalityMode::Off => {}
    }
    if args.locality.migrate_memory {
        return not("--migrate-memory", memory);
    }
    if args.locality.look_budget_us != DEFAULT_LOOK_BUDGET_US {
        return not("--look-budget-us", memory);
    }
    if args.policy.pull_delay_us != DEFAULT_PULL_DELAY_US {
        return not("--pull-delay-us", "idle CPUs do not pull tasks");
    }
    if args.sync_us != DEFAULT_SYNC_US {
        return not("--sync-us", "it is not told who wakes whom");
    }
    if args.global_idle_mask {
        return not("--global-idle-mask", "it uses no idle mask");
    }
    if args.max_tasks > MAX_TASKS {
        return not(
            &format!("--max-tasks {}", args.max_tasks),
            &format!("its memory is of a fixed size, enough for {MAX_TASKS}"),
        );
    }
    Ok(())
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
    check_flags(args)?;
    let own = std::env::current_exe().context("where this program is")?;
    let program = own.with_file_name(PROGRAM);
    if !program.exists() {
        return Err(anyhow!(
            "{} is missing: --dispatcher user needs it beside {}",
            program.display(),
            own.display()
        ));
    }
    let error = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .exec();
    Err(error).with_context(|| format!("running {}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;

    fn refusal(flags: &[&str]) -> Option<String> {
        let words = ["scx_ballast", "--dispatcher", "user"];
        let cli = Cli::try_parse_from(words.iter().chain(flags)).unwrap();
        check_flags(&cli.run).err().map(|error| error.to_string())
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        for flags in [
            vec!["--locality", "sampled"],
            vec!["--locality", "first-touch"],
            vec!["--migrate-memory"],
            vec!["--look-budget-us", "100"],
            vec!["--pull-delay-us", "1"],
            vec!["--sync-us", "0"],
            vec!["--global-idle-mask"],
            vec!["--max-tasks", "65537"],
        ] {
            let said = refusal(&flags).unwrap_or_else(|| panic!("{flags:?} is taken"));
            assert!(
                said.contains(flags[0]) && said.contains("--dispatcher user"),
                "{said}"
            );
        }
        let taken = [
            "--rules",
            "v6.0",
            "--slice-us",
            "100",
            "--partial",
            "--locality",
            "off",
            "--trace",
            "x",
            "--balance-interval-ms",
            "0",
            "--newborn-ms",
            "0",
            "--virt-llc",
        ];
        assert_eq!(refusal(&taken), None);
        assert_eq!(refusal(&[]), None);
    }
}
