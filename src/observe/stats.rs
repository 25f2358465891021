// SPDX-License-Identifier: GPL-2.0-only
//! The statistics: names, meanings (`--help-stats` prints them) and how the monitor shows them.
//!
//! Counters are what happened between two answers to the same client, gauges are the moment of the
//! answer. The names are read by other programs: they only ever get more.

use std::collections::BTreeMap;
use std::io::{self, Write};

use scx_stats_derive::{Stats, stat_doc};
use serde::{Deserialize, Serialize};

/// One node with CPUs.
#[stat_doc]
#[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
#[stat(desc = "a NUMA node", _om_prefix = "node_", _om_label = "node")]
pub struct NodeStats {
    #[stat(desc = "online CPUs")]
    pub cpus: u64,
    #[stat(desc = "tasks that run or wait now; per-CPU kernel threads excluded")]
    pub running: u64,
    #[stat(desc = "running + newborns asleep")]
    pub committed: u64,
    #[stat(desc = "max(0, cpus - committed)")]
    pub spare: u64,
    #[stat(desc = "tasks in the queues of its LLCs and CPUs now")]
    pub waiting: u64,
    #[stat(desc = "integral of running over time (task-ns)")]
    pub running_ns: u64,
    #[stat(desc = "average of running since the last answer")]
    pub running_avg: f64,
}

/// The whole scheduler.
#[stat_doc]
#[derive(Clone, Debug, Default, Serialize, Deserialize, Stats)]
#[stat(top)]
pub struct Stats {
    #[stat(desc = "time of the answer (us of the kernel's clock)", _om_skip)]
    pub at_us: u64,
    #[stat(desc = "nodes by the kernel's id")]
    pub nodes: BTreeMap<u32, NodeStats>,
    #[stat(desc = "tasks that have a slot now")]
    pub tasks_seen: u64,
    #[stat(desc = "new tasks for which no slot was left (--max-tasks)")]
    pub tasks_unseen: u64,
    #[stat(desc = "forks placed on the parent's node")]
    pub fork_local: u64,
    #[stat(desc = "forks placed on another node")]
    pub fork_remote: u64,
    #[stat(
        desc = "forks placed on the parent's node, or their process's, although another had less (R1, R2)"
    )]
    pub fork_tolerated: u64,
    #[stat(desc = "forks placed while no allowed node had spare")]
    pub fork_full: u64,
    #[stat(desc = "new threads placed where their process belongs (R8); the above count them too")]
    pub fork_preferred: u64,
    #[stat(desc = "dispatches to the idle previous CPU")]
    pub idle_prev: u64,
    #[stat(desc = "dispatches to an idle CPU of the same LLC")]
    pub idle_llc: u64,
    #[stat(desc = "dispatches to an idle CPU of the same node, forks included")]
    pub idle_node: u64,
    #[stat(desc = "dispatches to an idle CPU of another node, the own one having no spare")]
    pub idle_remote: u64,
    #[stat(
        desc = "dispatches to an idle CPU of a node where the task belongs, off it before (R8)"
    )]
    pub idle_preferred: u64,
    #[stat(desc = "wakees left behind a waker about to sleep")]
    pub sync: u64,
    #[stat(desc = "tasks put in an LLC queue")]
    pub queued_llc: u64,
    #[stat(desc = "tasks put in a CPU queue (narrow affinity)")]
    pub queued_cpu: u64,
    #[stat(desc = "dispatches of per-CPU kernel threads")]
    pub kthread: u64,
    #[stat(desc = "tasks that went on after their slice")]
    pub kept: u64,
    #[stat(desc = "narrow tasks pulled by an idle CPU of the same LLC")]
    pub pulled_llc: u64,
    #[stat(desc = "tasks pulled from another LLC of the node")]
    pub pulled_node: u64,
    #[stat(desc = "tasks pulled from another node")]
    pub pulled_remote: u64,
    #[stat(desc = "wanted homes carried out")]
    pub moved: u64,
    #[stat(desc = "tasks that ran in another LLC of the node than before")]
    pub llc_migrations: u64,
    #[stat(desc = "tasks that ran on another node than before")]
    pub node_migrations: u64,
    #[stat(desc = "idle CPUs woken for a task that had waited too long")]
    pub kicks: u64,
    #[stat(desc = "time a task waited while a CPU it may use was idle (us, sampled at ticks)")]
    pub wasted_us: u64,
    #[stat(desc = "waits in queues that have ended")]
    pub waits: u64,
    #[stat(desc = "time spent in queues (us)")]
    pub wait_us: u64,
    #[stat(desc = "moves asked for: the excess of a node was beyond the limit (R1 to R3)")]
    pub moves_excess: u64,
    #[stat(desc = "moves asked for: no spare on both nodes, utilisation clearly different")]
    pub moves_utilisation: u64,
    #[stat(desc = "ticks times pairs of nodes left alone: tolerated by the limit (R1, R2)")]
    pub alone_tolerated: u64,
    #[stat(desc = "... over already, by what is counted now")]
    pub alone_over: u64,
    #[stat(desc = "... earlier moves did not last")]
    pub alone_held: u64,
    #[stat(desc = "... no task that makes the load may move (R10)")]
    pub alone_no_task: u64,
    #[stat(desc = "... the tick's budget of moves was spent")]
    pub alone_budget: u64,
    #[stat(desc = "ticks of the balancer")]
    pub ticks: u64,
    #[stat(desc = "time spent in ticks (us)")]
    pub tick_us: u64,
    #[stat(desc = "fork placements that did not fit into the trace buffer (--trace)")]
    pub trace_lost: u64,
    #[stat(desc = "CPU time of the daemon (us)")]
    pub daemon_cpu_us: u64,
    #[stat(desc = "page faults of the daemon that needed I/O")]
    pub daemon_major_faults: u64,
    #[stat(desc = "time from start to enabled (us)")]
    pub start_up_us: u64,
}

impl Stats {
    /// What happened between `last` and this: counters as differences, gauges as they are.
    pub fn since(&self, last: &Self) -> Self {
        let mut change = self.clone();
        macro_rules! subtract {
            ($($counter:ident),* $(,)?) => {
                $(change.$counter = self.$counter.wrapping_sub(last.$counter);)*
            };
        }
        subtract!(
            tasks_unseen,
            fork_local,
            fork_remote,
            fork_tolerated,
            fork_full,
            fork_preferred,
            idle_prev,
            idle_llc,
            idle_node,
            idle_remote,
            idle_preferred,
            sync,
            queued_llc,
            queued_cpu,
            kthread,
            kept,
            pulled_llc,
            pulled_node,
            pulled_remote,
            moved,
            llc_migrations,
            node_migrations,
            kicks,
            wasted_us,
            waits,
            wait_us,
            moves_excess,
            moves_utilisation,
            alone_tolerated,
            alone_over,
            alone_held,
            alone_no_task,
            alone_budget,
            ticks,
            tick_us,
            trace_lost,
            daemon_cpu_us,
            daemon_major_faults,
        );
        let elapsed_ns = self.at_us.saturating_sub(last.at_us) * 1000;
        for (id, node) in &mut change.nodes {
            if let Some(before) = last.nodes.get(id) {
                node.running_ns = node.running_ns.wrapping_sub(before.running_ns);
            }
            if elapsed_ns > 0 {
                node.running_avg = node.running_ns as f64 / elapsed_ns as f64;
            }
        }
        change
    }

    /// A few lines for a terminal.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for (id, n) in &self.nodes {
            writeln!(
                out,
                "node {id:>2}: cpus {:>3}  running {:>4} (avg {:>6.1})  committed {:>4}  spare {:>3}  waiting {:>4}",
                n.cpus, n.running, n.running_avg, n.committed, n.spare, n.waiting
            )?;
        }
        writeln!(
            out,
            "forks: local {} (tolerated {}) remote {} full {} preferred {}  idle: prev {} llc {} node {} remote {} preferred {}  sync {}",
            self.fork_local,
            self.fork_tolerated,
            self.fork_remote,
            self.fork_full,
            self.fork_preferred,
            self.idle_prev,
            self.idle_llc,
            self.idle_node,
            self.idle_remote,
            self.idle_preferred,
            self.sync
        )?;
        writeln!(
            out,
            "queued: llc {} cpu {}  kthread {}  kept {}  pulled: llc {} node {} remote {}  moved {}  kicks {}",
            self.queued_llc,
            self.queued_cpu,
            self.kthread,
            self.kept,
            self.pulled_llc,
            self.pulled_node,
            self.pulled_remote,
            self.moved,
            self.kicks
        )?;
        writeln!(
            out,
            "balance: moves by excess {} by utilisation {}  left alone: tolerated {} over {} held {} no task {} budget {}  {} ticks, {} us",
            self.moves_excess,
            self.moves_utilisation,
            self.alone_tolerated,
            self.alone_over,
            self.alone_held,
            self.alone_no_task,
            self.alone_budget,
            self.ticks,
            self.tick_us
        )?;
        writeln!(
            out,
            "migrations: llc {} node {}  wait: {} us in {} waits, wasted {} us  tasks {} ({} new ones unseen)  daemon {} us\n",
            self.llc_migrations,
            self.node_migrations,
            self.wait_us,
            self.waits,
            self.wasted_us,
            self.tasks_seen,
            self.tasks_unseen,
            self.daemon_cpu_us
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_us: u64, forks: u64, running_ns: u64) -> Stats {
        Stats {
            at_us,
            fork_local: forks,
            tasks_seen: 7,
            nodes: [(
                0,
                NodeStats {
                    running_ns,
                    running: 3,
                    ..Default::default()
                },
            )]
            .into(),
            ..Default::default()
        }
    }

    #[test]
    fn counters_are_differences_and_gauges_are_not() {
        // 2 tasks for half of 1 s: 1e9 task-ns in 1e6 us, 1.0 on average.
        let change = at(3_000_000, 12, 5_000_000_000).since(&at(2_000_000, 5, 4_000_000_000));
        assert_eq!(change.fork_local, 7);
        assert_eq!(change.tasks_seen, 7);
        assert_eq!(change.nodes[&0].running, 3);
        assert_eq!(change.nodes[&0].running_avg, 1.0);
    }

    #[test]
    fn no_time_no_average() {
        let change = at(5, 1, 9).since(&at(5, 1, 9));
        assert_eq!(change.nodes[&0].running_avg, 0.0);
    }
}
