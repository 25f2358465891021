// SPDX-License-Identifier: GPL-2.0-only
//! `tbench:CLIENTS`: as many servers, which one parent forks, and clients, which another does. Each client
//! sends its server a request, waits for the answer, and so on.

use super::{Choice, Kind, On};
use crate::sim::program::{Mark, Op, Plan};

pub(super) const KIND: Kind = Kind {
    name: "tbench",
    unit: "clients",
    most: 8192,
    fixed: None,
    options: &[
        Choice("requests", 2000, 10_000_000, "requests of each client"),
        Choice("request_us", 20, 1_000_000, "work of a client for each"),
        Choice("answer_us", 20, 1_000_000, "work of its server for each"),
        Choice("fork_us", 200, 1_000_000, "work of a parent for each child"),
    ],
    plan,
};

fn plan(clients: u64, options: &[u64], _: On) -> Plan {
    let &[requests, request_us, answer_us, fork_us] = options else {
        return Plan::default();
    };
    let mut plan = Plan::default();
    let all = plan.barrier(2 * clients as u32);
    let (mut servers, mut callers) = (Vec::new(), Vec::new());
    for _ in 0..clients {
        let (ask, answer) = (plan.pipe(1), plan.pipe(1));
        let serve = [
            Op::Receive(ask),
            Op::Compute(answer_us * 1000),
            Op::Send(answer),
        ];
        let call = [
            Op::Compute(request_us * 1000),
            Op::Send(ask),
            Op::Receive(answer),
        ];
        servers.push(plan.program(task(all, &serve, requests)));
        callers.push(plan.program(task(all, &call, requests)));
    }
    let listener = plan.parent(servers, fork_us * 1000);
    let parent = plan.parent(callers, fork_us * 1000);
    let mut root = vec![Op::Fork(listener)];
    root.append(&mut plan.programs[parent]);
    plan.root = plan.program(root);
    plan
}

fn task(all: usize, body: &[Op], requests: u64) -> Vec<Op> {
    let mut ops = vec![
        Op::Barrier(all),
        Op::Mark(Mark::First),
        Op::Mark(Mark::Begin),
    ];
    if requests > 0 {
        let (to, times) = (ops.len(), requests as u32);
        ops.extend_from_slice(body);
        ops.push(Op::Repeat { to, times });
    }
    ops.push(Op::Mark(Mark::End));
    ops
}
