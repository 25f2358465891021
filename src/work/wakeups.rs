// SPDX-License-Identifier: GPL-2.0-only
//! `work wakeups`: how late a sleeper runs beside busy tasks.
//!
//! Sleepers wake at fixed times and note how much later they actually run, while hogs keep the same
//! CPUs busy. The lateness holds the timer's own, which an idle CPU shows (`--hogs 0`), and what the
//! scheduler adds. A sleeper that is later than its next time skips that one: it was not asleep to
//! be woken. Skipped times are counted as `missed`.
//!
//! | key | what |
//! |---|---|
//! | `cpus`, `pin`, `hogs`, `sleepers`, `period_us`, `seconds` | what was run |
//! | `p50_us`, `p90_us`, `p99_us`, `p999_us` | lateness of all sleepers' wake-ups, at most 0.8 % too high |
//! | `max_us` | the largest lateness |
//! | `samples`, `missed` | wake-ups measured and skipped |

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::clock;
use super::cpus::{self, CpuList, CpuSet};
use super::crew::Crew;
use super::futex::Gate;
use super::output::{Output, ResultLine};
use super::shared::{Shareable, Shared};
use super::times::{Recorder, Sent, Times};
use crate::cli::{self, UsageError};
use crate::machine::cpulist;

/// Flags of `work wakeups`.
#[derive(Debug, Args)]
pub struct WakeupsArgs {
    /// The CPUs that all tasks share, such as 0-3,8 [default: the first that may be used].
    #[arg(long, value_name = "LIST", value_parser = cpus::parse_list)]
    cpus: Option<CpuList>,

    /// Busy tasks.
    #[arg(long, value_name = "H", default_value_t = 1,
          value_parser = crate::ranged::u32_in(0..=65536))]
    hogs: u32,

    /// Tasks that sleep and wake.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = crate::ranged::u32_in(1..=16384))]
    sleepers: u32,

    /// Time between two wake-ups of a sleeper.
    #[arg(long, value_name = "USEC", default_value_t = 1000,
          value_parser = crate::ranged::u64_in(10..=60_000_000))]
    period_us: u64,

    /// How long to measure.
    #[arg(long, value_name = "SEC", default_value = "5", value_parser = cli::seconds())]
    seconds: Duration,

    /// Pin each task to one of the CPUs, in turn, instead of confining it to all of them.
    #[arg(long)]
    pin: bool,
}

/// What a sleeper leaves behind.
struct Slot {
    late: Sent,
    missed: AtomicU64,
}

// SAFETY: a `Shareable` and an atomic.
unsafe impl Shareable for Slot {}

impl Slot {
    /// Wakes every `period` from `first` until `end`; all in nanoseconds.
    fn measure(&self, mut lateness: Recorder, first: u64, period: u64, end: u64) {
        let mut due = first;
        while due < end {
            clock::sleep_until(due);
            let late = clock::now().saturating_sub(due);
            lateness.record(late);
            // Times from the end on are nobody's.
            let missed = (late / period).min((end - due - 1) / period);
            self.missed.fetch_add(missed, Ordering::Relaxed);
            due += (late / period + 1) * period;
        }
        lateness.send(&self.late);
    }
}

/// Lets sleepers and hogs run and sums up.
pub fn run(args: &WakeupsArgs, output: &mut Output) -> Result<ResultLine> {
    let (length, period) = (clock::nanos(args.seconds), args.period_us * 1000);
    // When the first of them wakes.
    if period / u64::from(args.sleepers) >= length {
        return Err(UsageError::new(
            "no sleeper would wake: --seconds must be longer than --period-us",
        )
        .into());
    }
    let cpus = CpuSet::or_first(args.cpus.as_ref())?;
    let places = places(&cpus, args.pin)?;
    let gate = Shared::<Gate>::new(1)?;
    let slots = Shared::<Slot>::new(args.sleepers as usize)?;

    let mut crew = Crew::processes()?;
    for hog in 0..args.hogs as usize {
        let (place, gate) = (places[hog % places.len()].clone(), Arc::clone(&gate));
        crew.start(format!("hog {hog}"), move || {
            place.apply()?;
            let until = gate[0].pass()? + length;
            clock::spin_until(until);
            Ok(())
        })?;
    }
    for sleeper in 0..args.sleepers as usize {
        let (place, gate) = (places[sleeper % places.len()].clone(), Arc::clone(&gate));
        let slots = Arc::clone(&slots);
        // Spread over a period, so that sleepers do not wake all at once.
        let offset = period * (sleeper as u64 + 1) / u64::from(args.sleepers);
        crew.start(format!("sleeper {sleeper}"), move || {
            place.apply()?;
            exact_timers()?;
            let lateness = Recorder::new()?;
            let start = gate[0].pass()?;
            slots[sleeper].measure(lateness, start + offset, period, start + length);
            Ok(())
        })?;
    }
    crew.open(&gate[0])?;
    crew.wait()?;
    summary(args, &cpus, &slots, output)
}

/// The sets of CPUs that tasks are confined to, in turn.
fn places(cpus: &CpuSet, pin: bool) -> Result<Vec<CpuSet>> {
    match pin {
        true => cpus
            .iter()
            .map(|cpu| CpuSet::among_allowed(&[cpu]))
            .collect(),
        false => Ok(vec![cpus.clone()]),
    }
}

/// Switches off the slack of 50 us that the kernel otherwise allows itself for timers of ordinary
/// tasks.
fn exact_timers() -> io::Result<()> {
    // SAFETY: plain numbers.
    match unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn summary(
    args: &WakeupsArgs,
    cpus: &CpuSet,
    slots: &[Slot],
    output: &mut Output,
) -> Result<ResultLine> {
    let micros = |nanos: u64| nanos as f64 / 1e3;
    let mut missed = 0;
    for (sleeper, slot) in slots.iter().enumerate() {
        let own_missed = slot.missed.load(Ordering::Relaxed);
        missed += own_missed;
        let own = Times::of([&slot.late])?;
        output.detail(|| {
            format!(
                "sleeper {sleeper}: p50 {:.1} us p99 {:.1} us max {:.1} us samples {} missed {own_missed}",
                micros(own.at(0.5)),
                micros(own.at(0.99)),
                micros(own.max()),
                own.samples()
            )
        })?;
    }
    let late = Times::of(slots.iter().map(|slot| &slot.late))?;
    if late.samples() == 0 {
        bail!("no sleeper woke in time: give more --seconds");
    }
    Ok(ResultLine::new("wakeups")
        .with("cpus", cpulist::format(cpus.iter()))
        .with("pin", if args.pin { "yes" } else { "no" })
        .with("hogs", args.hogs)
        .with("sleepers", args.sleepers)
        .with("period_us", args.period_us)
        .with("seconds", args.seconds.as_secs_f64())
        .with_rounded("p50_us", micros(late.at(0.5)), 1)
        .with_rounded("p90_us", micros(late.at(0.9)), 1)
        .with_rounded("p99_us", micros(late.at(0.99)), 1)
        .with_rounded("p999_us", micros(late.at(0.999)), 1)
        .with_rounded("max_us", micros(late.max()), 1)
        .with("samples", late.samples())
        .with("missed", missed))
}
