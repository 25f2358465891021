// SPDX-License-Identifier: GPL-2.0-only
//! What a run costs, in counts, which are the same on every machine.

mod simulated;

use scx_ballast::sim::workload::Workload;
use simulated::{MS, hw, run_plan};

/// Four ranks per CPU take turns, and with each turn others get on differently. That changes when their phases end, and
/// is no event: on average a CPU has at most one per tick.
#[test]
fn more_ranks_than_cpus_are_no_more_than_an_event_per_tick() {
    let hw = hw();
    let workload: Workload = "mpi:64,iterations=5".parse().unwrap();
    let (run, _) = run_plan(&workload.plan(&hw), u64::MAX).unwrap();
    let ticks = run.wall_ns / MS * hw.nr_cpus() as u64;
    // That many take turns at all.
    assert!(run.events > ticks / 4, "{} of {ticks}", run.events);
    assert!(
        run.events <= ticks,
        "{} events in {ticks} ticks",
        run.events
    );
}

/// At a tick the slices of many CPUs end at one moment. Each changes how fast others get on, who are looked at once
/// when all of them have ended; after each of these events it would be three times as often.
#[test]
fn speeds_are_worked_out_once_per_moment() {
    let hw = hw();
    let workload: Workload = "mpi:64,iterations=5".parse().unwrap();
    let (run, _) = run_plan(&workload.plan(&hw), u64::MAX).unwrap();
    assert!(
        run.speeds < 3 * run.events,
        "{} speeds in {} events",
        run.speeds,
        run.events
    );
}
