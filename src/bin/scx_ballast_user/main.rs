// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast --dispatcher user`: the loop around the user dispatcher and scx_rustland_core's BPF part.
//!
//! A program of its own because of what that crate brings: a global allocator over a locked heap of 64 MiB, the
//! handler of Ctrl-C, and a filter that forbids this thread new memory from then on. Everything that can be
//! tested without it is in the library (`scx_ballast::user`).

mod serve;
mod threads;

/// What scx_rustland_core generates (build.rs).
#[allow(clippy::all, clippy::pedantic)]
mod bpf {
    include!(concat!(env!("OUT_DIR"), "/rustland/bpf.rs"));
}

/// Its skeleton, under the name that it is used by.
#[allow(clippy::all, clippy::pedantic)]
mod bpf_skel {
    include!(concat!(env!("OUT_DIR"), "/rustland/bpf_skel.rs"));
}

/// The structures of its messages.
#[allow(clippy::all, clippy::pedantic, dead_code)]
#[allow(non_upper_case_globals, non_camel_case_types, non_snake_case)]
mod bpf_intf {
    include!(concat!(env!("OUT_DIR"), "/rustland/bpf_intf.rs"));
}

use std::process::ExitCode;

use anyhow::Result;
use scx_ballast::cli::effect::{self, Given};
use scx_ballast::cli::{self, RunArgs};
use scx_ballast::daemon::init_logging;
use scx_ballast::kernel::check;
use scx_ballast::observe;
use scx_ballast::user::launch::{self, check_size};

fn run(args: &RunArgs, given: &Given) -> Result<()> {
    effect::check_run(args, given)?;
    if args.help_stats {
        return observe::describe();
    }
    if args.monitor.is_some() {
        return observe::monitor_only(args);
    }
    check_size(args)?;
    init_logging(args.verbose)?;
    check::check()?;
    serve::run(args)
}

fn main() -> ExitCode {
    let (args, given) = launch::parse();
    cli::exit_code(run(&args, &given))
}
