// SPDX-License-Identifier: GPL-2.0-only
//! From an observation of the kernel's counters to the statistics that are shown.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use super::stats::{LocalStats, LocalityStats, NodeStats, Stats};
use crate::balancer::Balancer;
use crate::kernel::load::Scheduler;
use crate::kernel::stat;
use crate::locality::Locality;
use crate::machine::Machine;

/// Makes reports; knows what does not come from BPF.
pub struct Reporter {
    start_up: Duration,
}

/// CPU time of this process so far, user and system.
pub fn own_cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the struct; all-zero is a valid value of it anyway.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.max(0) as u64) + Duration::from_micros(t.tv_usec.max(0) as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Page faults of this process that needed I/O.
pub fn own_major_faults() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: as above.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_majflt.max(0) as u64
}

/// What locality did, by its mode.
fn locality_stats(locality: &Locality) -> (String, LocalityStats) {
    let counts = locality.counts();
    let stats = LocalityStats {
        preferred: counts.preferred,
        nearer: counts.nearer,
        swaps: counts.swaps,
        full: counts.full,
        imbalance: counts.imbalance,
        no_spare_swap: counts.no_spare_swap,
        waiting: counts.waiting,
        known: u64::from(counts.standings.known),
        void: u64::from(counts.standings.void),
        unknown: u64::from(counts.standings.unknown),
        looks: counts.looks,
        gone: counts.gone,
        not_allowed: counts.not_allowed,
        look_us: counts.look_us,
        brought_pages: counts.brought_pages,
        refused_pages: counts.refused_pages,
        memory_cpu_us: locality.memory_cpu_us(),
    };
    (locality.mode().name().into(), stats)
}

/// By node; the share is computed from a difference ([`Stats::since`]).
fn local_stats(locality: &Locality, machine: &Machine) -> BTreeMap<u32, LocalStats> {
    let shares = locality.counts().shares.iter();
    let nodes = machine.cpu_nodes().iter().zip(shares);
    let stats = nodes.map(|(node, share)| {
        let stats = LocalStats {
            seen_us: share.seen_us,
            local_us: share.local_us,
            share: 0.0,
        };
        (node.id, stats)
    });
    stats.collect()
}

impl Reporter {
    pub fn new(start_up: Duration) -> Self {
        Self { start_up }
    }

    /// Totals since load, and the state of each node now.
    pub fn report(
        &mut self,
        sched: &Scheduler<'_>,
        machine: &Machine,
        balancer: &Balancer,
    ) -> Result<Stats> {
        let tally = &balancer.tally;
        let locality = balancer.locality();
        let seen = sched.observe(machine)?;
        let event = |s| seen.events.get(s);
        let nodes = seen
            .nodes
            .iter()
            .zip(machine.cpu_nodes())
            .map(|(load, node)| {
                let stats = NodeStats {
                    cpus: u64::from(load.weight),
                    running: u64::from(load.running),
                    committed: u64::from(load.committed),
                    spare: u64::from(load.spare()),
                    waiting: u64::from(load.waiting),
                    running_ns: load.running_ns,
                    running_avg: 0.0,
                };
                (node.id, stats)
            })
            .collect();
        Ok(Stats {
            at_us: seen.now / 1000,
            nodes,
            tasks_seen: u64::from(seen.tasks_seen),
            tasks_unseen: event(stat::STAT_UNSEEN),
            fork_local: event(stat::STAT_FORK_LOCAL),
            fork_remote: event(stat::STAT_FORK_REMOTE),
            fork_tolerated: event(stat::STAT_FORK_TOLERATED),
            fork_full: event(stat::STAT_FORK_FULL),
            fork_preferred: event(stat::STAT_FORK_PREFERRED),
            idle_prev: event(stat::STAT_IDLE_PREV),
            idle_llc: event(stat::STAT_IDLE_LLC),
            idle_node: event(stat::STAT_IDLE_NODE),
            idle_remote: event(stat::STAT_IDLE_REMOTE),
            idle_preferred: event(stat::STAT_IDLE_PREFERRED),
            sync: event(stat::STAT_SYNC),
            queued_llc: event(stat::STAT_QUEUE_LLC),
            queued_cpu: event(stat::STAT_QUEUE_CPU),
            kthread: event(stat::STAT_KTHREAD),
            kept: event(stat::STAT_KEEP),
            pulled_llc: event(stat::STAT_PULL_LLC),
            pulled_node: event(stat::STAT_PULL_NODE),
            pulled_remote: event(stat::STAT_PULL_REMOTE),
            moved: event(stat::STAT_MOVE),
            llc_migrations: event(stat::STAT_LLC_MIGRATION),
            node_migrations: event(stat::STAT_NODE_MIGRATION),
            kicks: event(stat::STAT_KICK),
            wasted_us: event(stat::STAT_WASTED_NS) / 1000,
            waits: event(stat::STAT_WAITS),
            wait_us: event(stat::STAT_WAIT_NS) / 1000,
            moves_excess: tally.moves_excess,
            moves_utilisation: tally.moves_utilisation,
            alone_tolerated: tally.alone_tolerated,
            alone_over: tally.alone_over,
            alone_held: tally.alone_held,
            alone_no_task: tally.alone_no_task,
            alone_budget: tally.alone_budget,
            ticks: tally.ticks,
            tick_us: tally.tick_time.as_micros() as u64,
            locality: locality.map(locality_stats).into_iter().collect(),
            local: locality.map_or_else(BTreeMap::new, |locality| local_stats(locality, machine)),
            trace_lost: event(stat::STAT_TRACE_LOST),
            daemon_cpu_us: own_cpu_time().as_micros() as u64,
            daemon_major_faults: own_major_faults(),
            start_up_us: self.start_up.as_micros() as u64,
        })
    }
}
