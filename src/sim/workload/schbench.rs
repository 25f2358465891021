// SPDX-License-Identifier: GPL-2.0-only
//! `schbench:WORKERS`: a messenger wakes all workers, threads of its process, and sleeps; each works and sleeps
//! again. What counts is how long they wait for a CPU when they are woken.

use super::{Choice, Kind, On};
use crate::sim::program::{Channel, Mark, Op, Plan};

pub(super) const KIND: Kind = Kind {
    name: "schbench",
    unit: "workers",
    most: 16_384,
    fixed: None,
    options: &[
        Choice("rounds", 30, 1_000_000, "times that all are woken"),
        Choice("sleep_ms", 30, 600_000, "between two of them"),
        Choice("work_ms", 10, 600_000, "work of a worker in a round"),
        Choice("wake_us", 2, 1_000_000, "work of waking one"),
        Choice("clone_us", 20, 1_000_000, "work of starting one"),
    ],
    plan,
};

fn plan(workers: u64, options: &[u64], _: On) -> Plan {
    let &[rounds, sleep_ms, work_ms, wake_us, clone_us] = options else {
        return Plan::default();
    };
    let mut plan = Plan::default();
    // Room for all: who is late is woken once more when it comes.
    let call = Channel {
        capacity: rounds.max(1) as u32,
        // A futex.
        sync: false,
    };
    let calls: Vec<usize> = (0..workers).map(|_| plan.channel(call)).collect();
    let mut threads = Vec::new();
    for &call in &calls {
        let mut ops = vec![Op::Mark(Mark::Begin)];
        if rounds > 0 {
            ops.extend([
                Op::Receive(call),
                Op::Mark(Mark::First),
                Op::Compute(work_ms * 1_000_000),
                Op::Repeat {
                    to: 1,
                    times: rounds as u32,
                },
            ]);
        }
        ops.push(Op::Mark(Mark::End));
        threads.push(plan.program(ops));
    }
    let mut messenger = Op::start_threads(threads.into_iter(), clone_us * 1000);
    if rounds > 0 {
        let to = messenger.len();
        let wakes = calls
            .iter()
            .flat_map(|&call| [Op::Compute(wake_us * 1000), Op::Send(call)]);
        messenger.extend(wakes);
        let times = rounds as u32;
        messenger.extend([Op::Sleep(sleep_ms * 1_000_000), Op::Repeat { to, times }]);
    }
    messenger.push(Op::WaitChildren);
    plan.root = plan.program(messenger);
    plan
}
