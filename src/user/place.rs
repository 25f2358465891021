// SPDX-License-Identifier: GPL-2.0-only
//! Which CPU.
//!
//! The order is the kernel dispatcher's. A new task: node and LLC by the policy, a whole idle core first. A woken
//! one: the previous CPU, a whole idle core of its LLC, any idle CPU there, the same in the node, another node
//! only when this one has no spare and that one has. One whose slice ended: its CPU if nobody waits there, else as
//! if it were woken. When no CPU is idle: the one of the LLC with the fewest tasks.

use std::ops::Range;

use super::dispatcher::Dispatcher;
use super::facts::Facts;
use super::tasks::Counted;
use crate::policy::limits::spare;
use crate::policy::placement::{ForkState, fork_llc, fork_node, spill_nodes};
use crate::policy::record::{ForkRecord, Record};

/// Tasks on a CPU that are asked whose they are.
const ASKED_FOR_A_PARENT: usize = 4;

/// How far away a CPU was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Prev,
    Llc,
    Node,
    Remote,
}

impl<F: Facts> Dispatcher<F> {
    /// A new task, whose parent is on `parent`.
    pub(super) fn place_fork(&mut self, slot: u32, parent: usize, now: u64) -> usize {
        let forker = self.forker(self.tasks.get(slot).pid, parent);
        // Who fell asleep must not be counted as running.
        self.look_at_cpus(0..self.places.nr_cpus(), now);
        let llc = self.fork_home(slot, (parent, forker), now);
        let in_llc = self.places.cpus_of_llc(llc);
        let node = usize::from(self.places.shape.llc_node[llc]);
        let in_node = self.places.cpus_of_node(node);
        let idle = self.idle_in(slot, in_llc, now);
        match idle.or_else(|| self.idle_in(slot, in_node, now)) {
            Some(cpu) => {
                self.tally.idle_node += 1;
                cpu
            }
            None => self.shortest(slot, llc, parent),
        }
    }

    /// The LLC that the policy chooses for a new task.
    fn fork_home(&mut self, slot: u32, (parent, forker): (usize, Option<i32>), now: u64) -> usize {
        let place = self.places.place(parent);
        let nodes = 0..self.places.shape.nodes();
        // Its parent ran there when it forked, though by now it may wait for its children, as after the last fork of a
        // burst. The kernel dispatcher decides at the fork itself, and counts it.
        let asleep = self.is_asleep(forker);
        let committed = nodes.map(|node| {
            let parent = u32::from(asleep && node == place.node);
            self.counts.committed_on(&self.places, node) + parent
        });
        let committed: Vec<u32> = committed.collect();
        let usable = self.usable(slot, self.places.cpus_of_node(place.node));
        let task = self.tasks.get(slot);
        let (pid, allowed) = (task.pid, task.nodes);
        let state = ForkState {
            committed: &committed,
            weight: &self.places.shape.weight,
            task_weight: &self.task_weights,
            allowed,
            order: self.places.order(place.node),
            usable,
        };
        // Every task may use some CPU, so there is a node, unless one of them has just gone.
        let Some(choice) = fork_node(&state, &self.limits.fork) else {
            return place.llc;
        };
        let llcs = self.places.shape.llcs_of(choice.node as usize);
        let llc_committed: Vec<u32> = llcs
            .clone()
            .map(|llc| self.counts.committed_in(llc) + u32::from(asleep && llc == place.llc))
            .collect();
        let allowed_llcs = llcs.clone().enumerate().fold(0u64, |mask, (bit, llc)| {
            let any = self.usable(slot, self.places.cpus_of_llc(llc)) > 0;
            mask | u64::from(any) << bit
        });
        // The parent's LLC where it is one of these; a number that is none otherwise.
        let first = (place.llc as u32).wrapping_sub(llcs.start as u32);
        let weight = &self.places.shape.llc_weight[llcs.clone()];
        let llc = fork_llc(&llc_committed, weight, allowed_llcs, first as usize);
        let llc = llcs.start + llc.unwrap_or(0) as usize;
        let local = choice.node as usize == place.node;
        self.tally.forked(choice.why, local);
        if let Some(records) = &mut self.records {
            records.push(Record::Fork(ForkRecord {
                at: now,
                pid,
                local: place.node as u32,
                allowed,
                usable,
                task_weight: self.task_weights.clone(),
                first,
                allowed_llcs,
                llc_committed,
                node: choice.node,
                why: choice.why,
                llc: llc as u32,
                parent: forker,
                home: None,
                committed,
            }));
        }
        llc
    }

    /// The thread that has forked `pid` on `cpu`: of the process that the kernel names one that was given to this CPU, else
    /// its first one.
    fn forker(&mut self, pid: i32, cpu: usize) -> Option<i32> {
        let process = self.facts.ask_one(pid)?.parent;
        for i in 0..self.counts.on(cpu).len().min(ASKED_FOR_A_PARENT) {
            let slot = self.counts.on(cpu)[i];
            if self.process_of(slot) == Some(process) {
                return Some(self.tasks.get(slot).pid);
            }
        }
        Some(process)
    }

    /// It is known, and in no counter.
    fn is_asleep(&self, pid: Option<i32>) -> bool {
        let slot = pid.and_then(|pid| self.tasks.find(pid));
        slot.is_some_and(|slot| self.tasks.get(slot).counted == Counted::None)
    }

    fn usable(&self, slot: u32, cpus: Range<usize>) -> u32 {
        cpus.filter(|&cpu| self.may_use(slot, cpu)).count() as u32
    }

    /// A task that was asleep and was on `prev` before.
    pub(super) fn place_wakeup(&mut self, slot: u32, prev: usize, now: u64) -> usize {
        let llc = self.home_llc(slot, prev, now);
        match self.idle_near(slot, prev, llc, now) {
            Some((cpu, found)) => {
                match found {
                    Found::Prev => self.tally.idle_prev += 1,
                    Found::Llc => self.tally.idle_llc += 1,
                    Found::Node => self.tally.idle_node += 1,
                    Found::Remote => self.tally.idle_remote += 1,
                }
                cpu
            }
            None => self.shortest(slot, llc, prev),
        }
    }

    /// A task whose turn on `prev` is over.
    pub(super) fn place_again(&mut self, slot: u32, prev: usize, now: u64) -> usize {
        let llc = self.home_llc(slot, prev, now);
        let here = self.places.place(prev).llc == llc && self.may_use(slot, prev);
        if here && self.look_at_cpu(prev, now) {
            self.tally.kept += 1;
            return prev;
        }
        match self.idle_near(slot, prev, llc, now) {
            Some((cpu, found)) => {
                match found {
                    Found::Prev | Found::Llc => self.tally.pulled_llc += 1,
                    Found::Node => self.tally.pulled_node += 1,
                    Found::Remote => self.tally.pulled_remote += 1,
                }
                cpu
            }
            None => self.shortest(slot, llc, prev),
        }
    }

    /// Where the task shall be: its wanted LLC, whose wish is granted, or that of `prev`.
    fn home_llc(&mut self, slot: u32, prev: usize, now: u64) -> usize {
        let task = self.tasks.get_mut(slot);
        let Some(llc) = task.wish.take() else {
            return self.places.place(prev).llc;
        };
        task.moved_at = Some(now);
        self.tally.moved += 1;
        usize::from(llc)
    }

    /// An idle CPU for a task that belongs to `llc`, and how far from there it is.
    fn idle_near(
        &mut self,
        slot: u32,
        prev: usize,
        llc: usize,
        now: u64,
    ) -> Option<(usize, Found)> {
        let here = self.places.place(prev).llc == llc && self.may_use(slot, prev);
        let prev_idle = here && self.look_at_cpu(prev, now);
        if prev_idle && self.is_whole(prev) {
            return Some((prev, Found::Prev));
        }
        let in_llc = self.places.cpus_of_llc(llc);
        if let Some(cpu) = self.empty_in(slot, in_llc.clone(), true) {
            return Some((cpu, Found::Llc));
        }
        if prev_idle {
            return Some((prev, Found::Prev));
        }
        if let Some(cpu) = self.idle_in(slot, in_llc, now) {
            return Some((cpu, Found::Llc));
        }
        let node = usize::from(self.places.shape.llc_node[llc]);
        if let Some(cpu) = self.idle_in(slot, self.places.cpus_of_node(node), now) {
            return Some((cpu, Found::Node));
        }
        let cpu = self.idle_elsewhere(slot, node, now)?;
        Some((cpu, Found::Remote))
    }

    /// Another node for a task whose own has no spare.
    fn idle_elsewhere(&mut self, slot: u32, node: usize, now: u64) -> Option<usize> {
        let spare_on = |node: usize| {
            let committed = self.counts.committed_on(&self.places, node);
            spare(self.places.shape.weight[node], committed)
        };
        let allowed = self.tasks.get(slot).nodes;
        let nodes = spill_nodes(spare_on, self.places.order(node), allowed);
        let nodes = nodes.fold((0u64, Vec::new()), |(mask, mut list), node| {
            list.push(node);
            (mask | 1 << node, list)
        });
        nodes
            .1
            .into_iter()
            .find_map(|node| self.idle_in(slot, self.places.cpus_of_node(node), now))
    }

    /// No CPU of its core has a task.
    fn is_whole(&self, cpu: usize) -> bool {
        !self.places.smt
            || self
                .places
                .siblings(cpu)
                .iter()
                .all(|&cpu| self.is_empty(cpu))
    }

    /// A CPU that nobody was given to, as far as is known.
    fn empty_in(&self, slot: u32, mut cpus: Range<usize>, whole: bool) -> Option<usize> {
        cpus.find(|&cpu| {
            self.is_empty(cpu) && (!whole || self.is_whole(cpu)) && self.may_use(slot, cpu)
        })
    }

    /// The same, a whole core first; where none is empty, those that are believed to be busy are looked at.
    fn idle_in(&mut self, slot: u32, cpus: Range<usize>, now: u64) -> Option<usize> {
        if self.places.smt
            && let Some(cpu) = self.empty_in(slot, cpus.clone(), true)
        {
            return Some(cpu);
        }
        if let Some(cpu) = self.empty_in(slot, cpus.clone(), false) {
            return Some(cpu);
        }
        let mut looks = self.looks_for_one();
        let len = cpus.len().max(1);
        for i in 0..cpus.len() {
            if looks == 0 {
                break;
            }
            let cpu = cpus.start + (self.turn + i) % len;
            // With a task that waits behind another it is not about to be idle.
            if self.counts.on(cpu).len() > 2 || !self.may_use(slot, cpu) {
                continue;
            }
            let before = self.tally.looks;
            let idle = self.look_at_cpu(cpu, now);
            looks = looks.saturating_sub((self.tally.looks - before) as u32);
            if idle {
                return Some(cpu);
            }
        }
        self.turn = self.turn.wrapping_add(1) % self.places.nr_cpus();
        None
    }

    /// Where to wait: the CPU of `llc` with the fewest tasks. On a tie `prev` if it has none of them, else the
    /// next one after it, so that those who share a CPU while others have one for themselves take turns at it.
    pub(super) fn shortest(&mut self, slot: u32, llc: usize, prev: usize) -> usize {
        self.tally.queued += 1;
        let node = usize::from(self.places.shape.llc_node[llc]);
        let found = self.shortest_in(slot, self.places.cpus_of_llc(llc), prev);
        // Not allowed there any more: the nearest node where it is.
        found
            .or_else(|| {
                let mut nodes = self
                    .places
                    .order(node)
                    .iter()
                    .map(|&node| usize::from(node));
                nodes.find_map(|node| self.shortest_in(slot, self.places.cpus_of_node(node), prev))
            })
            .unwrap_or(prev)
    }

    fn shortest_in(&self, slot: u32, cpus: Range<usize>, prev: usize) -> Option<usize> {
        let start = match cpus.contains(&prev) {
            true => prev + 1 - cpus.start,
            false => 0,
        };
        let len = cpus.len().max(1);
        let from_there = (0..cpus.len()).map(|i| cpus.start + (start + i) % len);
        from_there
            .filter(|&cpu| self.may_use(slot, cpu))
            .min_by_key(|&cpu| self.counts.on(cpu).len())
    }
}
