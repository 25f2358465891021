// SPDX-License-Identifier: GPL-2.0-only
//! The scx_ballast command: parse, pick a command, report the error; nothing else.

use std::process::ExitCode;

use anyhow::Result;
use scx_ballast::cli::effect::Given;
use scx_ballast::cli::{self, Cli, Command, DispatcherKind};
use scx_ballast::{compare, daemon, observe, replay, rules, sim, topology, user, work};

fn run(cli: &Cli, given: &Given) -> Result<()> {
    cli.check_effect(given)?;
    match &cli.command {
        Some(Command::Topology(args)) => topology::run(args),
        Some(Command::Rules(args)) => rules::run(args),
        Some(Command::Replay(args)) => replay::run(args),
        Some(Command::Simulate(args)) => sim::run(args, given),
        Some(Command::Work(args)) => work::run(args),
        Some(Command::Compare(args)) => compare::run(args),
        None if cli.run.help_stats => observe::describe(),
        None if cli.run.monitor.is_some() => observe::monitor_only(&cli.run),
        None if cli.run.dispatcher == DispatcherKind::User => {
            user::launch::run(&cli.run).map(|never| match never {})
        }
        None => daemon::run(&cli.run),
    }
}

fn main() -> ExitCode {
    let parsed = Cli::parse_words(std::env::args_os());
    let (cli, given) = parsed.unwrap_or_else(|error| cli::exit_over(&error));
    cli::exit_code(run(&cli, &given))
}
