// SPDX-License-Identifier: GPL-2.0-only
//! `work hogs`: whether nice values get the CPU time that they stand for.
//!
//! One process per nice value does nothing but spin; all are confined to the same CPUs and run
//! during the same time. The CPU time of each is compared with the share that the kernel's weights
//! promise it ([`weights`]).
//!
//! | key | what |
//! |---|---|
//! | `nice`, `cpus`, `seconds` | what was run; one entry of `nice` per hog |
//! | `cpu_ms` | CPU time of each hog |
//! | `share`, `expected` | share of each in percent, found and by weight |
//! | `error` | largest deviation of a share from the expected one, in percent of that one |

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::clock;
use super::cpus::{self, CpuList, CpuSet};
use super::crew::Crew;
use super::futex::Gate;
use super::output::{Output, ResultLine};
use super::shared::{Shareable, Shared};
use super::weights::{self, expected_shares, largest_error, shares};
use crate::cli;
use crate::machine::cpulist;

/// Flags of `work hogs`.
#[derive(Debug, Args)]
pub struct HogsArgs {
    /// A hog for each of these nice values; below that of this process takes privileges.
    #[arg(long, value_name = "LIST", default_value = "0,5", value_delimiter = ',',
          allow_hyphen_values = true, value_parser = crate::ranged::i32_in(-20..=19))]
    nice: Vec<i32>,

    /// The CPUs that all hogs share, such as 0-3,8 [default: the first that may be used].
    #[arg(long, value_name = "LIST", value_parser = cpus::parse_list)]
    cpus: Option<CpuList>,

    /// How long the hogs run.
    #[arg(long, value_name = "SEC", default_value = "5", value_parser = cli::seconds())]
    seconds: Duration,
}

/// CPU time of a hog in nanoseconds.
#[repr(align(64))]
struct Slot(AtomicU64);

// SAFETY: an atomic that is valid when zero, and a smaller alignment than a page.
unsafe impl Shareable for Slot {}

/// Lets the hogs run and compares.
pub fn run(args: &HogsArgs, output: &mut Output) -> Result<ResultLine> {
    let cpus = CpuSet::or_first(args.cpus.as_ref())?;
    let nr_cpus = cpus.iter().count();
    let length = clock::nanos(args.seconds);
    let gate = Shared::<Gate>::new(1)?;
    let slots = Shared::<Slot>::new(args.nice.len())?;

    let mut crew = Crew::processes()?;
    for (at, &nice) in args.nice.iter().enumerate() {
        let (cpus, gate, slots) = (cpus.clone(), Arc::clone(&gate), Arc::clone(&slots));
        crew.start(format!("hog with nice {nice}"), move || {
            cpus.apply()?;
            set_nice(nice)?;
            let until = gate[0].pass()? + length;
            let before = clock::thread_cpu_time();
            clock::spin_until(until);
            let time = clock::thread_cpu_time() - before;
            slots[at].0.store(time, Ordering::Relaxed);
            Ok(())
        })?;
    }
    crew.open(&gate[0])?;
    crew.wait()?;

    let nanos = slots.iter().map(|slot| slot.0.load(Ordering::Relaxed));
    let times: Vec<f64> = nanos.map(clock::as_millis).collect();
    let weights: Vec<u32> = args.nice.iter().copied().map(weights::weight_of).collect();
    let expected = expected_shares(&weights, nr_cpus);
    let found = shares(&times);
    for (at, nice) in args.nice.iter().enumerate() {
        output.detail(|| {
            format!(
                "hog {at}: nice {nice} weight {} cpu {:.1} ms share {:.2} % expected {:.2} %",
                weights[at], times[at], found[at], expected[at]
            )
        })?;
    }
    let digits = |values: &[f64]| -> Vec<String> {
        values.iter().map(|value| format!("{value:.1}")).collect()
    };
    Ok(ResultLine::new("hogs")
        .with_list("nice", &args.nice)
        .with("cpus", cpulist::format(cpus.iter()))
        .with("seconds", args.seconds.as_secs_f64())
        .with_list("cpu_ms", digits(&times))
        .with_list("share", digits(&found))
        .with_list("expected", digits(&expected))
        .with_rounded("error", largest_error(&found, &expected), 1))
}

/// Sets the calling process's nice value.
fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: plain numbers; `as _` is for C libraries that disagree on the type of the first.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS as _, 0, nice) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
