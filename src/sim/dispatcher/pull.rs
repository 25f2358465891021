// SPDX-License-Identifier: GPL-2.0-only
//! Work conservation (R9): an idle CPU takes tasks that have waited elsewhere, and each tick looks whether
//! one has to be told.

use crate::sim::world::{Event, World};

/// Pull delays before a node with spare loses a task to another.
const PATIENCE: u64 = 8;

impl World<'_> {
    /// A task for the CPU, whose own LLC has none: of its node, then of others, nearest first.
    pub(super) fn pull(&mut self, cpu: usize) -> Option<usize> {
        if !self.setup.extras.pulls {
            return None;
        }
        let own = self.hw.place(cpu).node;
        let order = self.hw.order(own).iter().map(|&node| usize::from(node));
        let found = order
            .filter(|&node| self.waiting[node] > 0)
            .find_map(|node| {
                let id = self.waits_on_node(cpu, node, self.patience(own, node))?;
                Some((id, node))
            });
        let (id, node) = found?;
        self.tally.pulled(node == own);
        Some(id)
    }

    /// A node that has spare has woken a CPU of its own for its tasks.
    fn patience(&self, own: usize, node: usize) -> u64 {
        let committed = || self.counters.committed_on(self.hw, node, self.now());
        match node != own && committed() < self.hw.shape.weight[node] {
            true => self.setup.pull_delay_ns * PATIENCE,
            false => self.setup.pull_delay_ns,
        }
    }

    /// A task of another LLC of `node` that the CPU may have and that has waited so long. One that may
    /// not use all of that node is not asked for patience: the CPUs that were woken may not be for it.
    pub(super) fn waits_on_node(&self, cpu: usize, node: usize, waited: u64) -> Option<usize> {
        if self.waiting[node] == 0 {
            return None;
        }
        let (now, own) = (self.now(), self.hw.place(cpu).llc);
        let old_enough = |id: usize| {
            let narrow = self.tasks[id].confined.is_some();
            let waited = match narrow {
                true => waited.min(self.setup.pull_delay_ns),
                false => waited,
            };
            now - self.tasks[id].queued_at >= waited
        };
        let mut llcs = self.hw.shape.llcs_of(node).filter(|&llc| llc != own);
        llcs.find_map(|llc| {
            self.queues[llc].first_of_few(|id| self.may_use(id, cpu) && old_enough(id))
        })
    }

    /// A tick of an LLC in which tasks wait: an idle CPU of its own is told at once, one farther away
    /// once the first of them has waited for the pull delay.
    pub(in crate::sim) fn sweep(&mut self, llc: usize) {
        if self.queues[llc].is_empty() {
            self.queues[llc].watched = false;
            return;
        }
        if let Some((cpu, old)) = self.idle_for_head(llc) {
            self.tally.kicks += 1;
            self.note_late(llc);
            self.dispatch(cpu);
            let works = self.cpus[cpu].task.is_some();
            let may_pull = self.setup.extras.pulls;
            assert!(
                works || !old || !may_pull,
                "CPU {cpu} stays idle beside LLC {llc} (R9)"
            );
        }
        let next = self.hw.tick_after(self.now());
        self.events.announce(next, Event::Sweep(llc));
    }

    /// The idle CPU nearest to the LLC that may run its first task, and whether that has waited for the pull
    /// delay.
    fn idle_for_head(&self, llc: usize) -> Option<(usize, bool)> {
        let head = self.queues[llc].first(|_| true)?;
        let allowed = self.allowed(head);
        let near = self.idle.any(self.hw.cpus_of_llc(llc), allowed);
        let old = self.now() - self.tasks[head].queued_at >= self.setup.pull_delay_ns;
        let order = self.hw.order(self.hw.node_of_llc(llc)).iter();
        let mut order = order.map(|&node| usize::from(node)).filter(|_| old);
        let far = || order.find_map(|node| self.idle.any(self.hw.cpus_of_node(node), allowed));
        Some((near.or_else(far)?, old))
    }

    /// How long the first task of a queue has waited beyond the pull delay, a CPU being idle that may run it.
    /// One task is taken per tick, so only the first of several is sure of pull delay plus one tick.
    fn note_late(&mut self, llc: usize) {
        let head = self.queues[llc].first(|_| true);
        let waited = head.map_or(0, |head| self.now() - self.tasks[head].queued_at);
        let late = waited.saturating_sub(self.setup.pull_delay_ns);
        self.tally.late_ns = self.tally.late_ns.max(late);
    }
}
