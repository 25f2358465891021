// SPDX-License-Identifier: GPL-2.0-only
//! `fork-burst:N`: a task starts N others in a row; each sleeps, then computes.

use super::{Choice, Kind, On};
use crate::sim::program::{Mark, Op, Plan};

pub(super) const KIND: Kind = Kind {
    name: "fork-burst",
    unit: "tasks",
    most: 65_536,
    fixed: None,
    options: &[
        Choice(
            "sleep_ms",
            50,
            600_000,
            "how long each sleeps after its birth",
        ),
        Choice("spin_ms", 200, 600_000, "how much each computes after that"),
        Choice(
            "clock",
            0,
            1,
            "1: so long by the clock, as `work fork-burst`; 0: until so much is done",
        ),
        Choice("fork_us", 200, 1_000_000, "work of the parent for each"),
    ],
    plan,
};

/// What a new task does before it sleeps.
const START_NS: u64 = 100_000;

fn plan(tasks: u64, options: &[u64], _: On) -> Plan {
    let &[sleep_ms, spin_ms, clock, fork_us] = options else {
        return Plan::default();
    };
    let mut plan = Plan::default();
    let child = plan.program(vec![
        Op::Compute(START_NS),
        Op::Sleep(sleep_ms * 1_000_000),
        Op::Mark(Mark::First),
        Op::Mark(Mark::Begin),
        match clock {
            0 => Op::Compute(spin_ms * 1_000_000),
            _ => Op::Busy(spin_ms * 1_000_000),
        },
        Op::Mark(Mark::End),
    ]);
    let children = std::iter::repeat_n(child, tasks as usize);
    plan.root = plan.parent(children, fork_us * 1000);
    plan
}
