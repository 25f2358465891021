// SPDX-License-Identifier: GPL-2.0-only
//! A wake-up: where its process belongs, if the limits allow; else the previous CPU, a whole core of its LLC,
//! any CPU there, the same in the node; another node only when this one has no spare and that one has.

use crate::policy::limits::spare;
use crate::policy::locality::wake::{WakeState, may_wake};
use crate::policy::placement::spill_nodes;
use crate::sim::task::{Counted, State};
use crate::sim::world::World;

impl World<'_> {
    /// The task has something to do. `sync`: the CPU of a waker who says that it is about to sleep.
    pub(in crate::sim) fn wake(&mut self, id: usize, sync: Option<usize>) {
        assert_eq!(self.state(id), State::Asleep, "task {id} is woken");
        self.tasks[id].woken_at = Some(self.now());
        self.place_wakeup(id, sync);
    }

    /// Find a place for a task that is on no CPU and in no queue.
    pub(in crate::sim) fn place_wakeup(&mut self, id: usize, sync: Option<usize>) {
        let prev = self.tasks[id].last_cpu;
        let wish = self.grant_wish(id);
        if wish.is_none()
            && let Some(cpu) = self.idle_preferred(id, self.hw.place(prev).node)
        {
            self.start_woken(cpu, id);
            return;
        }
        if wish.is_none()
            && let Some(cpu) = sync
            && self.stays_behind(id, cpu)
        {
            self.leave_behind(cpu, id);
            return;
        }
        let llc = wish.unwrap_or(self.hw.place(prev).llc);
        match self.idle_near(id, prev, llc) {
            Some(cpu) => self.start_woken(cpu, id),
            None if self.llc_to_wait_in(id, llc) == llc => self.enqueue(id, llc, true),
            // Not allowed there any more.
            None => self.enqueue_and_kick(id, llc),
        }
    }

    fn idle_near(&self, id: usize, prev: usize, llc: usize) -> Option<usize> {
        let allowed = self.allowed(id);
        let prev_ok = self.hw.place(prev).llc == llc && self.may_use(id, prev);
        let prev_idle = (prev_ok && self.idle.is_idle(prev)).then_some(prev);
        let in_llc = self.hw.cpus_of_llc(llc);
        let node = self.hw.node_of_llc(llc);
        prev_idle
            .filter(|&cpu| self.idle.is_whole(cpu))
            .or_else(|| self.idle.whole_core(in_llc.clone(), allowed))
            .or(prev_idle)
            .or_else(|| self.idle.any(in_llc, allowed))
            .or_else(|| self.idle.any(self.hw.cpus_of_node(node), allowed))
            .or_else(|| self.idle_elsewhere(id, node))
    }

    /// For a task off the nodes where its process belongs (R8): an idle CPU on the nearest that may have it.
    fn idle_preferred(&self, id: usize, node: usize) -> Option<usize> {
        let prefers = self.prefers(id);
        if prefers == 0 || prefers >> node & 1 == 1 {
            return None;
        }
        let (hw, now) = (self.hw, self.now());
        // The task is not to stand in its own way.
        let own = match self.tasks[id].counted {
            Counted::Newborn(llc, _) => Some(hw.node_of_llc(llc)),
            Counted::None | Counted::Running(_) => None,
        };
        let committed = (0..hw.nr_nodes()).map(|node| {
            let all = self.counters.committed_on(hw, node, now);
            all.saturating_sub(u32::from(own == Some(node)))
        });
        let committed: Vec<u32> = committed.collect();
        let state = WakeState {
            committed: &committed,
            weight: &hw.shape.weight,
            allowed: self.tasks[id].nodes,
        };
        let limits = &self.setup.limits.fork;
        let nodes = hw.order(node).iter().map(|&node| usize::from(node));
        nodes
            .filter(|&node| prefers >> node & 1 == 1 && may_wake(&state, limits, node))
            .find_map(|node| self.idle.any(hw.cpus_of_node(node), self.allowed(id)))
    }

    /// Another node for a task whose own has no spare.
    fn idle_elsewhere(&self, id: usize, node: usize) -> Option<usize> {
        let now = self.now();
        let weight = &self.hw.shape.weight;
        let spare_on =
            |node: usize| spare(weight[node], self.counters.committed_on(self.hw, node, now));
        spill_nodes(spare_on, self.hw.order(node), self.tasks[id].nodes).find_map(|other| {
            let cpus = self.hw.cpus_of_node(other);
            self.idle.any(cpus, self.allowed(id))
        })
    }
}
