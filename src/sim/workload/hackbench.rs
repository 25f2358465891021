// SPDX-License-Identifier: GPL-2.0-only
//! `hackbench:GROUPS`: in each group 20 senders send messages to each of 20 receivers, through a pipe per
//! receiver. All begin together when all are there.

use super::{Choice, Kind, On};
use crate::sim::program::{Mark, Op, Plan};

pub(super) const KIND: Kind = Kind {
    name: "hackbench",
    unit: "groups",
    most: 1024,
    fixed: None,
    options: &[
        Choice(
            "loops",
            100,
            1_000_000,
            "messages from each sender to each receiver",
        ),
        Choice(
            "message_us",
            5,
            1_000_000,
            "work of sending one, and of receiving one",
        ),
        Choice(
            "fork_us",
            100,
            1_000_000,
            "work of the parent for each task",
        ),
    ],
    plan,
};

/// As hackbench has it.
const PAIRS: u64 = 20;
/// A pipe of 64 KiB holds so many messages of 100 bytes.
const PIPE: u32 = 655;

fn plan(groups: u64, options: &[u64], _: On) -> Plan {
    let &[loops, message_us, fork_us] = options else {
        return Plan::default();
    };
    let message = Op::Compute(message_us * 1000);
    let mut plan = Plan::default();
    let all = plan.barrier((groups * PAIRS * 2) as u32);
    let begin = [
        Op::Barrier(all),
        Op::Mark(Mark::First),
        Op::Mark(Mark::Begin),
    ];
    let mut children = Vec::new();
    for _ in 0..groups {
        let pipes: Vec<usize> = (0..PAIRS).map(|_| plan.pipe(PIPE)).collect();
        let send = pipes.iter().flat_map(|&pipe| [message, Op::Send(pipe)]);
        let sender = looped(&begin, send.collect(), loops);
        let sender = plan.program(sender);
        for &pipe in &pipes {
            let receive = vec![Op::Receive(pipe), message];
            children.push(plan.program(looped(&begin, receive, loops * PAIRS)));
        }
        children.extend(std::iter::repeat_n(sender, PAIRS as usize));
    }
    plan.root = plan.parent(children, fork_us * 1000);
    plan
}

/// A beginning, a body so many times, an end.
fn looped(begin: &[Op], body: Vec<Op>, times: u64) -> Vec<Op> {
    let mut ops = begin.to_vec();
    if times > 0 {
        let to = ops.len();
        ops.extend(body);
        ops.push(Op::Repeat {
            to,
            times: times as u32,
        });
    }
    ops.push(Op::Mark(Mark::End));
    ops
}
