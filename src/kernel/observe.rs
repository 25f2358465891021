// SPDX-License-Identifier: GPL-2.0-only
//! What BPF counted, read from the mapped arrays.
//!
//! One system call per observation (the queue lengths, which only BPF can read), whatever the
//! number of CPUs and tasks. Nothing here writes.

use anyhow::Result;

use super::intf;
use super::load::Scheduler;
use crate::machine::Machine;

/// One node at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Online CPUs.
    pub weight: u32,
    /// Tasks that run or wait; per-CPU kthreads excluded.
    pub running: u32,
    /// running plus newborns asleep.
    pub committed: u32,
    /// Tasks in the queues of its LLCs and CPUs.
    pub waiting: u32,
    /// Integral of `running` over time since load, in task-ns.
    pub running_ns: u64,
}

impl NodeLoad {
    /// Tasks that could start at once.
    pub fn spare(&self) -> u32 {
        self.weight.saturating_sub(self.committed)
    }
}

/// Events since load, summed over CPUs; the meaning of each is in src/bpf/intf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Events([u64; intf::STAT_NR as usize]);

impl Events {
    pub fn get(&self, stat: u32) -> u64 {
        self.0.get(stat as usize).copied().unwrap_or(0)
    }
}

/// Everything at one moment.
#[derive(Debug, Clone)]
pub struct Observation {
    /// BPF's clock, in ns.
    pub now: u64,
    /// Nodes with CPUs, by dense index.
    pub nodes: Vec<NodeLoad>,
    pub events: Events,
    /// Slots that belong to a task.
    pub tasks_seen: u32,
}

/// Newborns asleep in one LLC: buckets whose epoch is recent; an older one has aged out.
pub(super) fn newborns(counters: &intf::llc_counters, epoch: u32) -> u32 {
    counters
        .newborn
        .iter()
        .filter(|&&b| epoch.wrapping_sub((b >> 32) as u32) < intf::NEWBORN_BUCKETS)
        .map(|&b| b as u32)
        .sum()
}

/// BPF's epoch_at(): never 0 when newborns are counted.
pub(super) fn epoch_at(now: u64, epoch_ns: u64) -> Option<u32> {
    now.checked_div(epoch_ns).map(|e| e as u32 + 1)
}

impl Scheduler<'_> {
    /// Observe now.
    pub fn observe(&self, machine: &Machine) -> Result<Observation> {
        let (now, _) = self.observe_queues()?;
        let epoch = epoch_at(now, self.newborn_epoch_ns);
        let mut nodes = vec![NodeLoad::default(); machine.nr_cpu_nodes()];
        for (load, node) in nodes.iter_mut().zip(machine.cpu_nodes()) {
            load.weight = node.weight();
        }
        for llc in machine.llcs() {
            let Some(counters) = self.llcs.get(llc.idx.as_usize()) else {
                continue;
            };
            let load = &mut nodes[llc.node.as_usize()];
            let running = counters.running.max(0) as u32;
            load.running += running;
            load.committed += running + epoch.map_or(0, |e| newborns(&counters, e));
            load.waiting += counters.waiting as u32;
            load.running_ns += (counters.running as u64)
                .wrapping_mul(now)
                .wrapping_sub(counters.stamp);
        }
        let mut events = [0u64; intf::STAT_NR as usize];
        for cpu in machine.cpus() {
            let Some(ctx) = self.cpus.get(cpu.id as usize) else {
                continue;
            };
            nodes[cpu.node.as_usize()].waiting += ctx.queued;
            for (sum, n) in events.iter_mut().zip(ctx.stat) {
                *sum += n;
            }
        }
        Ok(Observation {
            now,
            nodes,
            events: Events(events),
            tasks_seen: self.slot_counts().1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(epoch: u32, count: u32) -> u64 {
        u64::from(epoch) << 32 | u64::from(count)
    }

    #[test]
    fn old_buckets_count_nothing() {
        let mut counters = intf::llc_counters::default();
        counters.newborn[3] = bucket(11, 2);
        counters.newborn[4] = bucket(4, 7);
        assert_eq!(newborns(&counters, 11), 9, "7 epochs old is not too old");
        assert_eq!(newborns(&counters, 12), 2, "8 epochs old is");
        assert_eq!(newborns(&counters, 18), 2, "still within eight epochs");
        assert_eq!(newborns(&counters, 19), 0, "aged out without any event");
        assert_eq!(newborns(&counters, 10), 7, "the other is not born yet");
    }

    #[test]
    fn no_epochs_no_newborns() {
        assert_eq!(epoch_at(5_000, 0), None);
        assert_eq!(epoch_at(0, 1000), Some(1));
        assert_eq!(epoch_at(2_000, 1000), Some(3));
    }
}
