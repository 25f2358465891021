// SPDX-License-Identifier: GPL-2.0-only
//! The same statistics as the kernel dispatcher's; what there is not is 0 (docs/user-dispatcher.md).

use std::time::Duration;

use super::dispatcher::Dispatcher;
use super::facts::Facts;
use super::tick::Balancing;
use crate::machine::Machine;
use crate::observe::{self, NodeStats, Stats};
use crate::policy::limits::spare;

/// What scx_rustland_core's BPF part counts, and what the loop knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outside {
    /// Time of the report, in ns.
    pub now: u64,
    pub start_up: Duration,
    /// Dispatches that BPF decided by itself.
    pub by_bpf: u64,
}

impl<F: Facts> Dispatcher<F> {
    /// Totals since load, and the state of each node now.
    pub fn report(
        &self,
        balancing: &Balancing,
        machine: &Machine,
        balanced: &observe::Tally,
        outside: Outside,
    ) -> Stats {
        let nodes = machine.cpu_nodes().iter().enumerate().map(|(idx, node)| {
            let committed = self.counts.committed_on(&self.places, idx);
            let cpus = self.places.cpus_of_node(idx);
            let waiting = cpus.map(|cpu| self.counts.on(cpu).len().saturating_sub(1));
            let stats = NodeStats {
                cpus: node.weight().into(),
                running: self.counts.running_on(&self.places, idx).into(),
                committed: committed.into(),
                spare: spare(node.weight(), committed).into(),
                waiting: waiting.sum::<usize>() as u64,
                running_ns: balancing.running_ns(idx),
                running_avg: 0.0,
            };
            (node.id, stats)
        });
        let tally = &self.tally;
        Stats {
            at_us: outside.now / 1000,
            nodes: nodes.collect(),
            tasks_seen: self.tasks.len() as u64,
            tasks_unseen: tally.unseen,
            fork_local: tally.fork_local,
            fork_remote: tally.fork_remote,
            fork_tolerated: tally.fork_tolerated,
            fork_full: tally.fork_full,
            idle_prev: tally.idle_prev,
            idle_llc: tally.idle_llc,
            idle_node: tally.idle_node,
            idle_remote: tally.idle_remote,
            queued_cpu: tally.queued,
            kthread: outside.by_bpf,
            kept: tally.kept,
            pulled_llc: tally.pulled_llc,
            pulled_node: tally.pulled_node,
            pulled_remote: tally.pulled_remote,
            moved: tally.moved,
            llc_migrations: tally.llc_migrations,
            node_migrations: tally.node_migrations,
            moves_excess: balanced.moves_excess,
            moves_utilisation: balanced.moves_utilisation,
            alone_tolerated: balanced.alone_tolerated,
            alone_over: balanced.alone_over,
            alone_held: balanced.alone_held,
            alone_no_task: balanced.alone_no_task,
            alone_budget: balanced.alone_budget,
            ticks: balanced.ticks,
            tick_us: balanced.tick_time.as_micros() as u64,
            daemon_cpu_us: observe::own_cpu_time().as_micros() as u64,
            daemon_major_faults: observe::own_major_faults(),
            start_up_us: outside.start_up.as_micros() as u64,
            ..Stats::default()
        }
    }
}
