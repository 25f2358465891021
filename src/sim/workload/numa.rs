// SPDX-License-Identifier: GPL-2.0-only
//! `numa01` to `numa10`: `perf bench numa mem` as document 000 ran it. Processes whose threads work on memory,
//! all of a process on the same area, which its first thread has touched, or each on an area of its own.
//!
//! 01 to 05 have as many threads as the machine has CPUs, 06 to 10 have 64 or 32. What a loop costs is an
//! assumption; the sizes are the document's.

use super::{Choice, Kind, On};
use crate::sim::program::{Mark, Op, Plan, Whose};

/// Of 3 GiB that all threads of a process share, touched by the first.
const SHARED: &[Choice] = &[
    Choice(
        "loops",
        50,
        100_000,
        "times that each thread goes through it",
    ),
    Choice("loop_us", 400_000, 600_000_000, "work of a loop"),
    Choice("touch_us", 1_536_000, 600_000_000, "work of touching it"),
    MEMORY,
    CLONE,
];

/// Of 32 MiB that each thread has for itself.
const OWN: &[Choice] = &[
    Choice(
        "loops",
        800,
        100_000,
        "times that each thread goes through it",
    ),
    Choice("loop_us", 4_200, 600_000_000, "work of a loop"),
    Choice("touch_us", 16_000, 600_000_000, "work of touching it"),
    MEMORY,
    CLONE,
];

const MEMORY: Choice = Choice(
    "memory_permille",
    800,
    1000,
    "how much of that work waits for memory",
);
const CLONE: Choice = Choice("clone_us", 20, 1_000_000, "work of starting a thread");

pub(super) const NUMA01: Kind = kind("numa01", 1, SHARED);
pub(super) const NUMA02: Kind = kind("numa02", 2, OWN);
pub(super) const NUMA03: Kind = kind("numa03", 3, SHARED);
pub(super) const NUMA04: Kind = kind("numa04", 4, SHARED);
pub(super) const NUMA05: Kind = kind("numa05", 5, SHARED);
pub(super) const NUMA06: Kind = kind("numa06", 6, SHARED);
pub(super) const NUMA07: Kind = kind("numa07", 7, OWN);
pub(super) const NUMA08: Kind = kind("numa08", 8, SHARED);
pub(super) const NUMA09: Kind = kind("numa09", 9, SHARED);
pub(super) const NUMA10: Kind = kind("numa10", 10, SHARED);

const fn kind(name: &'static str, test: u64, options: &'static [Choice]) -> Kind {
    Kind {
        name,
        unit: "test",
        most: 10,
        fixed: Some(test),
        options,
        plan,
    }
}

/// Processes, and threads of each.
fn shape(test: u64, on: On) -> (u64, u64) {
    let all_in = |processes: u64| (processes, (on.cpus / processes).max(1));
    match test {
        1 => all_in(2),
        2 | 3 => all_in(1),
        4 => all_in(on.nodes),
        5 => all_in(2 * on.nodes),
        6 => (2, 32),
        7 | 8 => (1, 32),
        9 => (8, 4),
        _ => (16, 2),
    }
}

fn is_own(test: u64) -> bool {
    matches!(test, 2 | 7)
}

fn plan(test: u64, options: &[u64], on: On) -> Plan {
    let &[loops, loop_us, touch_us, permille, clone_us] = options else {
        return Plan::default();
    };
    let (processes, threads) = shape(test, on);
    let intensity = permille * 1000;
    let mut plan = Plan::default();
    let all = plan.barrier((processes * threads) as u32);
    let touch = Op::Touch {
        work: touch_us * 1000,
        intensity,
    };
    let memory = Op::Memory {
        work: loop_us * 1000,
        intensity,
    };
    let mut worker = vec![Op::Mark(Mark::First)];
    let mut leader = Vec::new();
    match is_own(test) {
        true => worker.push(touch),
        false => {
            leader.extend([Op::Use(Whose::Process), touch]);
            worker.push(Op::Use(Whose::Process));
        }
    }
    worker.extend([Op::Barrier(all), Op::Mark(Mark::Begin)]);
    if loops > 0 {
        let (to, times) = (worker.len(), loops as u32);
        worker.extend([memory, Op::Repeat { to, times }]);
    }
    worker.push(Op::Mark(Mark::End));
    let worker = plan.program(worker);
    let workers = (0..threads).map(|_| worker);
    leader.extend(Op::start_threads(workers, clone_us * 1000));
    leader.push(Op::WaitChildren);
    let leader = plan.program(leader);
    plan.root = plan.parent((0..processes).map(|_| leader), 200_000);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document's table: ../shared/reference, numa_workloads_power8-8n-256.
    #[test]
    fn shapes_are_the_documents() {
        let power8 = On {
            cpus: 256,
            nodes: 8,
        };
        let shapes = (1..=10).map(|test| shape(test, power8));
        let expected = [
            (2, 128),
            (1, 256),
            (1, 256),
            (8, 32),
            (16, 16),
            (2, 32),
            (1, 32),
            (1, 32),
            (8, 4),
            (16, 2),
        ];
        assert!(shapes.eq(expected));
    }
}
