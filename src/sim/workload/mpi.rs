// SPDX-License-Identifier: GPL-2.0-only
//! `mpi:N`: ranks as a launcher starts them, in the shape of NAS mg.
//!
//! A launcher forks N helpers in a row. Each sleeps, execs its rank, touches its memory, and works on it in
//! rounds with a barrier after each.

use super::{Choice, Kind, On};
use crate::sim::program::{Mark, Op, Plan};

pub(super) const KIND: Kind = Kind {
    name: "mpi",
    unit: "ranks",
    most: 65_536,
    fixed: None,
    options: &options(0, 0, 500, 700),
    plan,
};

/// `mgd:N`: the same as NAS mg.D under MPICH, calibrated on two rows of document 002 (docs/simulation.md;
/// tests/yardstick.rs says how).
pub(super) const MGD: Kind = Kind {
    name: "mgd",
    options: &options(200, 1, 4200, 741),
    ..KIND
};

const fn options(init_ms: u64, spin: u64, iterations: u64, permille: u64) -> [Choice; 8] {
    [
        Choice(
            "sleep_ms",
            50,
            600_000,
            "how long each helper sleeps before it execs",
        ),
        Choice(
            "iterations",
            iterations,
            1_000_000,
            "rounds, with a barrier after each",
        ),
        Choice(
            "init_ms",
            init_ms,
            600_000,
            "work of a rank before it touches its memory, as MPI_Init",
        ),
        Choice(
            "spin",
            spin,
            1,
            "1: ranks spin at barriers, as MPICH has them do; 0: they sleep",
        ),
        Choice("work_ms", 20, 600_000, "work of a rank in a round"),
        Choice("touch_ms", 400, 600_000, "work on touching its memory"),
        Choice(
            "memory_permille",
            permille,
            1000,
            "how much of that work waits for memory",
        ),
        Choice(
            "fork_us",
            500,
            1_000_000,
            "work of the launcher for each helper",
        ),
    ]
}

/// What a helper does before it sleeps, and what an exec takes.
const START_NS: u64 = 100_000;
const EXEC_NS: u64 = 1_000_000;

fn plan(ranks: u64, options: &[u64], _: On) -> Plan {
    let &[
        sleep_ms,
        iterations,
        init_ms,
        spin,
        work_ms,
        touch_ms,
        permille,
        fork_us,
    ] = options
    else {
        return Plan::default();
    };
    let intensity = permille * 1000;
    let mut plan = Plan::default();
    let barrier = plan.barrier(ranks as u32);
    let meet = match spin {
        0 => Op::Barrier(barrier),
        _ => Op::Spin(barrier),
    };
    let mut rank = vec![
        Op::Compute(START_NS),
        Op::Sleep(sleep_ms * 1_000_000),
        Op::Compute(EXEC_NS),
        Op::Exec,
        Op::Mark(Mark::First),
        Op::Compute(init_ms * 1_000_000),
        Op::Touch {
            work: touch_ms * 1_000_000,
            intensity,
        },
        meet,
        Op::Mark(Mark::Begin),
    ];
    if iterations > 0 {
        let to = rank.len();
        rank.extend([
            Op::Memory {
                work: work_ms * 1_000_000,
                intensity,
            },
            meet,
            Op::Repeat {
                to,
                times: iterations as u32,
            },
        ]);
    }
    rank.push(Op::Mark(Mark::End));
    let rank = plan.program(rank);
    let ranks = std::iter::repeat_n(rank, ranks as usize);
    plan.root = plan.parent(ranks, fork_us * 1000);
    plan
}
