// SPDX-License-Identifier: GPL-2.0-only
//! SYNC wake-ups: a wakee is left behind a waker who says that it is about to sleep, and has kept its word before.
//!
//! The wakee is on its waker's CPU and in no queue; nobody else takes it from there. It runs as soon as the waker
//! sleeps or has had its turn. Each tick looks: a waker who said so longer ago than the limit makes way. Asserted:
//! nobody is overtaken on the way, and nobody is left for longer than the limit and a tick.

use crate::policy::limits::tolerated;
use crate::sim::queue::enter;
use crate::sim::task::{Counted, State};
use crate::sim::world::{Event, World};

impl World<'_> {
    /// Does the woken task stay behind the one on `cpu`, which has woken it? What that one says is noted.
    pub(super) fn stays_behind(&mut self, id: usize, cpu: usize) -> bool {
        let (now, limit, place) = (self.now(), self.setup.sync_ns, self.hw.place(cpu));
        let Some(waker) = self.cpus[cpu].task.filter(|_| limit > 0) else {
            return false;
        };
        let waker = &mut self.tasks[waker];
        waker.sync_at.get_or_insert(now);
        if waker.sync_lag > limit {
            return false;
        }
        // Somebody waits here already.
        if self.counters.running_in(place.llc) > self.hw.shape.llc_weight[place.llc] {
            return false;
        }
        let from = self.hw.place(self.tasks[id].last_cpu).node;
        (from == place.node || self.sync_may_cross(id, place.node, from))
            && self.may_use(id, cpu)
            && self.cpus[cpu].behind.is_none()
    }

    /// Is the state tolerated in which the wakee has taken its waker's place on another node? A wakee that
    /// belongs somewhere crosses only to there.
    fn sync_may_cross(&self, id: usize, to: usize, from: usize) -> bool {
        let prefers = self.prefers(id);
        if prefers != 0 && prefers >> to & 1 == 0 {
            return false;
        }
        let (hw, now, limits) = (self.hw, self.now(), &self.setup.limits.fork);
        let committed = |node| self.counters.committed_on(hw, node, now);
        tolerated(
            committed(to),
            hw.shape.weight[to],
            committed(from),
            hw.shape.weight[from],
            limits.max_running[to],
            limits.max_imbalance,
        )
    }

    /// The woken task is next on the CPU.
    pub(super) fn leave_behind(&mut self, cpu: usize, id: usize) {
        let (now, llc) = (self.now(), self.hw.place(cpu).llc);
        let task = &mut self.tasks[id];
        let here = Counted::Running(llc);
        self.counters.count_as(self.hw, task, here, now);
        enter(&self.queues, task, llc, true, self.setup.slice_ns);
        task.state = State::Behind(cpu);
        task.queued_at = now;
        self.tally.syncs += 1;
        self.cpus[cpu].behind = Some(id);
        self.watch_behind(cpu);
    }

    fn watch_behind(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.cpus[cpu].watched, true) {
            let next = self.hw.tick_after(self.now());
            self.events.announce(next, Event::Behind(cpu));
        }
    }

    /// Nobody runs on the CPU any more: whoever was left behind does.
    pub(in crate::sim) fn start_behind(&mut self, cpu: usize) {
        if let Some(id) = self.cpus[cpu].behind.take() {
            let waited = self.now() - self.tasks[id].queued_at;
            let most = self.setup.sync_ns + self.hw.params.tick_ns;
            assert!(waited <= most, "task {id} was left behind for {waited} ns");
            self.start(cpu, id);
        }
    }

    /// A tick: the task on the CPU makes way for the one behind it, unless it may still keep its word.
    pub(in crate::sim) fn tick_behind(&mut self, cpu: usize) {
        self.cpus[cpu].watched = false;
        let at = &self.cpus[cpu];
        let (Some(id), Some(_)) = (at.task, at.behind) else {
            return;
        };
        let now = self.now();
        let said = self.tasks[id].sync_at;
        match said.is_some_and(|said| now - said <= self.setup.sync_ns) {
            true => self.watch_behind(cpu),
            false => self.make_way(cpu, id),
        }
    }

    /// The CPU's task waits in its queue, and the one behind it runs.
    pub(super) fn make_way(&mut self, cpu: usize, id: usize) {
        self.leave(cpu, id);
        self.start_behind(cpu);
        self.enqueue_and_kick(id, self.hw.place(cpu).llc);
    }
}
