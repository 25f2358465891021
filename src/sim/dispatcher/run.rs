// SPDX-License-Identifier: GPL-2.0-only
//! Tasks come to CPUs and leave them; slices and queues.

use crate::policy::turns::{charge, slice_among};
use crate::sim::queue::enter;
use crate::sim::task::{Counted, State};
use crate::sim::world::{Event, World};

impl World<'_> {
    /// The same for a woken task, which has saved up little in its sleep.
    pub(super) fn start_woken(&mut self, cpu: usize, id: usize) {
        let llc = self.hw.place(cpu).llc;
        let task = &mut self.tasks[id];
        enter(&self.queues, task, llc, true, self.setup.slice_ns);
        self.start(cpu, id);
    }

    /// The task, which is in no queue, runs on the CPU, which is idle.
    pub(in crate::sim) fn start(&mut self, cpu: usize, id: usize) {
        assert!(self.cpus[cpu].task.is_none(), "CPU {cpu} is taken");
        assert!(
            self.cpus[cpu].behind.is_none(),
            "somebody is overtaken on CPU {cpu}"
        );
        assert!(self.may_use(id, cpu), "task {id} may not use CPU {cpu}");
        let (now, place) = (self.now(), self.hw.place(cpu));
        let task = &mut self.tasks[id];
        if task.has_run && task.llc != place.llc {
            let stays = self.hw.node_of_llc(task.llc) == place.node;
            self.tally.migrated(stays);
        }
        task.has_run = true;
        if let Some(at) = task.woken_at.take() {
            self.tally.woken(now - at);
        }
        task.state = State::Running(cpu);
        (task.last_cpu, task.llc) = (cpu, place.llc);
        let here = Counted::Running(place.llc);
        self.counters.count_as(self.hw, task, here, now);
        if task.dom != place.llc {
            enter(&self.queues, task, place.llc, false, self.setup.slice_ns);
        }
        self.queues[place.llc].advance(task.vtime);
        let at = &mut self.cpus[cpu];
        at.task = Some(id);
        at.run += 1;
        at.charged_until = now;
        at.worked_until = now + self.hw.params.switch_ns;
        self.busy += 1;
        self.set_idle(cpu, false);
        self.new_slice(cpu);
        self.fresh.push_back(cpu);
    }

    /// The CPU's task leaves it; where to is up to the caller, who also has the CPU look for another.
    pub(in crate::sim) fn leave(&mut self, cpu: usize, id: usize) {
        self.account_work(cpu);
        self.account_time(cpu);
        self.demand.end(cpu);
        let at = &mut self.cpus[cpu];
        assert_eq!(at.task.take(), Some(id), "who leaves CPU {cpu}");
        // What was announced for it means nobody any more.
        at.run += 1;
        self.events.cancel(cpu);
        self.busy -= 1;
        self.set_idle(cpu, true);
    }

    fn set_idle(&mut self, cpu: usize, idle: bool) {
        self.idle.set(self.hw, cpu, idle);
        if self.hw.smt {
            let siblings = self.hw.siblings(cpu).iter().copied();
            self.stale.extend(siblings.filter(|&other| other != cpu));
        }
    }

    /// Charge the CPU's task for its time.
    fn account_time(&mut self, cpu: usize) {
        let now = self.now();
        let at = &mut self.cpus[cpu];
        let used = now - std::mem::replace(&mut at.charged_until, now);
        if let Some(id) = at.task {
            let task = &mut self.tasks[id];
            task.runtime_ns += used;
            task.vtime += charge(used, task.weight);
        }
    }

    fn slice(&self, llc: usize) -> u64 {
        let setup = self.setup;
        slice_among(
            self.counters.running_in(llc),
            self.hw.shape.llc_weight[llc],
            (setup.slice_ns, setup.slice_min_ns.min(setup.slice_ns)),
        )
    }

    /// A slice ends at a tick.
    fn new_slice(&mut self, cpu: usize) {
        let ends = self.now() + self.slice(self.hw.place(cpu).llc);
        let ends = self.hw.tick_after(ends - 1);
        let at = &mut self.cpus[cpu];
        at.slice_ends = ends;
        let run = at.run;
        // Who is to go elsewhere goes at the first tick.
        let wished = at.task.is_some_and(|id| self.tasks[id].wish.is_some());
        let ends = match wished {
            true => self.hw.tick_after(self.now()),
            false => ends,
        };
        self.events.announce(ends, Event::Slice { cpu, run });
    }

    /// The CPU's task has had its turn, or has to go elsewhere: the next, if one is due.
    pub(in crate::sim) fn slice_ends(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].task else {
            return;
        };
        if self.tasks[id].wish.is_some() {
            self.leave(cpu, id);
            self.start_behind(cpu);
            let llc = self.grant_wish(id).unwrap_or(self.hw.place(cpu).llc);
            self.enqueue_and_kick(id, llc);
            if self.cpus[cpu].task.is_none() {
                self.dispatch(cpu);
            }
            return;
        }
        if self.now() < self.cpus[cpu].slice_ends {
            return;
        }
        if self.cpus[cpu].behind.is_some() {
            self.make_way(cpu, id);
            return;
        }
        self.account_time(cpu);
        let llc = self.hw.place(cpu).llc;
        let vtime = self.tasks[id].vtime;
        let head = self.queues[llc].first(|other| self.may_use(other, cpu));
        let next = match head {
            Some(head) if self.tasks[head].vtime <= vtime => Some(head),
            Some(_) => None,
            None => self.waits_on_node(cpu, self.hw.place(cpu).node, self.setup.slice_ns),
        };
        let Some(next) = next else {
            self.queues[llc].advance(vtime);
            self.new_slice(cpu);
            return;
        };
        self.leave(cpu, id);
        self.unqueue(next);
        self.start(cpu, next);
        self.enqueue_and_kick(id, llc);
    }

    /// The LLC that the task was to go to; it is granted.
    pub(in crate::sim) fn grant_wish(&mut self, id: usize) -> Option<usize> {
        let now = self.now();
        let task = &mut self.tasks[id];
        let llc = task.wish.take()?;
        task.moved_at = Some(now);
        Some(llc)
    }

    /// The task waits in the LLC, some of whose CPUs it may use.
    pub(in crate::sim) fn enqueue(&mut self, id: usize, llc: usize, woken: bool) {
        let now = self.now();
        let task = &mut self.tasks[id];
        self.counters
            .count_as(self.hw, task, Counted::Running(llc), now);
        enter(&self.queues, task, llc, woken, self.setup.slice_ns);
        let key = (task.vtime, self.queued);
        self.queued += 1;
        task.queued_at = now;
        task.state = State::Waiting { llc, key };
        self.waiting[self.hw.node_of_llc(llc)] += 1;
        let queue = &mut self.queues[llc];
        queue.insert(key, id);
        if !std::mem::replace(&mut queue.watched, true) {
            self.events
                .announce(self.hw.tick_after(now), Event::Sweep(llc));
        }
    }

    /// `llc`, unless the task may use none of its CPUs.
    pub(super) fn llc_to_wait_in(&self, id: usize, llc: usize) -> usize {
        let usable = |llc: usize| self.usable(id, self.hw.cpus_of_llc(llc)) > 0;
        match usable(llc) {
            true => llc,
            false => (0..self.hw.nr_llcs())
                .find(|&llc| usable(llc))
                .unwrap_or(llc),
        }
    }

    /// The same for one that no wake-up found a place for; an idle CPU there is told.
    pub(in crate::sim) fn enqueue_and_kick(&mut self, id: usize, llc: usize) {
        let llc = self.llc_to_wait_in(id, llc);
        self.enqueue(id, llc, false);
        let allowed = self.allowed(id);
        let node = self.hw.cpus_of_node(self.hw.node_of_llc(llc));
        let idle = self.idle.any(self.hw.cpus_of_llc(llc), allowed);
        if let Some(cpu) = idle.or_else(|| self.idle.any(node, allowed)) {
            self.dispatch(cpu);
        }
    }

    /// The task leaves its queue, to run.
    pub(in crate::sim) fn unqueue(&mut self, id: usize) {
        let now = self.now();
        let State::Waiting { llc, key } = self.tasks[id].state else {
            panic!("task {id} waits nowhere");
        };
        self.waiting[self.hw.node_of_llc(llc)] -= 1;
        self.queues[llc].remove(key, now);
        self.tally.waited(now - self.tasks[id].queued_at);
    }

    /// The CPU is idle: the next task of its LLC, else one from elsewhere.
    pub(in crate::sim) fn dispatch(&mut self, cpu: usize) {
        if self.cpus[cpu].task.is_none() {
            self.start_behind(cpu);
        }
        if self.cpus[cpu].task.is_some() {
            return;
        }
        let place = self.hw.place(cpu);
        let own = self.queues[place.llc].first(|id| self.may_use(id, cpu));
        let Some(id) = own.or_else(|| self.pull(cpu)) else {
            return;
        };
        self.unqueue(id);
        self.start(cpu, id);
    }
}
