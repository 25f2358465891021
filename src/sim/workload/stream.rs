// SPDX-License-Identifier: GPL-2.0-only
//! `stream:THREADS`: STREAM with OpenMP. One process; its first thread starts the others, each touches its
//! part of the arrays, and then all go through the four kernels again and again, with a barrier after each.

use super::{Choice, Kind, On};
use crate::sim::program::{Mark, Op, Plan};

pub(super) const KIND: Kind = Kind {
    name: "stream",
    unit: "threads",
    most: 4096,
    fixed: None,
    options: &[
        Choice("runs", 10, 10_000, "times that all four kernels are run"),
        Choice("kernel_ms", 10, 600_000, "work of a thread in a kernel"),
        Choice(
            "touch_ms",
            40,
            600_000,
            "work of a thread on touching its part",
        ),
        Choice(
            "memory_permille",
            1000,
            1000,
            "how much of that work waits for memory",
        ),
        Choice("clone_us", 20, 1_000_000, "work of starting a thread"),
    ],
    plan,
};

/// Copy, Scale, Add, Triad.
const KERNELS: u64 = 4;

fn plan(threads: u64, options: &[u64], _: On) -> Plan {
    let &[runs, kernel_ms, touch_ms, permille, clone_us] = options else {
        return Plan::default();
    };
    let intensity = permille * 1000;
    let mut plan = Plan::default();
    let barrier = plan.barrier(threads as u32);
    let mut works = vec![
        Op::Mark(Mark::First),
        Op::Touch {
            work: touch_ms * 1_000_000,
            intensity,
        },
        Op::Barrier(barrier),
        Op::Mark(Mark::Begin),
    ];
    let kernel = Op::Memory {
        work: kernel_ms * 1_000_000,
        intensity,
    };
    for _ in 0..runs * KERNELS {
        works.extend([kernel, Op::Barrier(barrier)]);
    }
    works.push(Op::Mark(Mark::End));
    let thread = plan.program(works.clone());
    let others = (1..threads).map(|_| thread);
    // The first thread works, too, before it waits for the others.
    let mut first = Op::start_threads(others, clone_us * 1000);
    first.extend(works);
    first.push(Op::WaitChildren);
    plan.root = plan.program(first);
    plan
}
