// SPDX-License-Identifier: GPL-2.0-only
//! A new task: the policy chooses node and LLC, and it is counted there at once.

use crate::policy::locality::fork::fork_home;
use crate::policy::placement::{ForkState, fork_llc};
use crate::policy::record::{ForkRecord, HomeRecord, Record};
use crate::sim::locality::tgid;
use crate::sim::task::{Counted, Process, Task};
use crate::sim::world::World;

impl World<'_> {
    /// The task `parent` on `cpu` starts a process, or a thread of its own.
    pub(in crate::sim) fn fork(&mut self, cpu: usize, parent: usize, program: usize, thread: bool) {
        let id = self.tasks.len();
        let (now, place) = (self.now(), self.hw.place(cpu));
        let mut task = Task::new(program, Some(parent), cpu, place.llc);
        task.confined = self.tasks[parent].confined;
        task.nodes = self.tasks[parent].nodes;
        task.weight = self.tasks[parent].weight;
        task.vtime = self.queues[place.llc].clock;
        task.born_at = Some(now);
        task.process = match thread {
            true => self.tasks[parent].process,
            false => {
                self.processes.push(Process::new(id));
                self.processes.len() - 1
            }
        };
        self.processes[task.process].threads += 1;
        self.tasks.push(task);
        self.tasks[parent].children += 1;
        self.live += 1;

        let llc = self.fork_home(cpu, id);
        let task = &mut self.tasks[id];
        task.places.birth = self.hw.node_of_llc(llc);
        self.counters
            .count_as(self.hw, task, Counted::Running(llc), now);
        let allowed = self.allowed(id);
        let in_llc = self.hw.cpus_of_llc(llc);
        let in_node = self.hw.cpus_of_node(self.hw.node_of_llc(llc));
        let idle = self.idle.whole_core(in_llc.clone(), allowed);
        let idle = idle.or_else(|| self.idle.any(in_llc, allowed));
        match idle.or_else(|| self.idle.any(in_node, allowed)) {
            Some(cpu) => self.start(cpu, id),
            None => self.enqueue(id, llc, true),
        }
    }

    /// The LLC that the policy chooses for the new task `id` of a parent on `cpu`.
    fn fork_home(&mut self, cpu: usize, id: usize) -> usize {
        let (hw, now, place) = (self.hw, self.now(), self.hw.place(cpu));
        let nodes = 0..hw.nr_nodes();
        let committed: Vec<u32> = nodes
            .map(|node| self.counters.committed_on(hw, node, now))
            .collect();
        let usable = self.usable(id, hw.cpus_of_node(place.node));
        let task = &self.tasks[id];
        let task_parent = task.parent;
        let state = ForkState {
            committed: &committed,
            weight: &hw.shape.weight,
            task_weight: self.balancing.task_weights(),
            allowed: task.nodes,
            order: hw.order(place.node),
            usable,
        };
        // Every task may use some CPU, so there always is a node.
        let prefers = self.prefers(id);
        let usable_on = self.usable_by_node(id, prefers);
        let limits = &self.setup.limits.fork;
        let Some(choice) = fork_home(&state, limits, prefers, &hw.shape.order, &usable_on) else {
            return place.llc;
        };
        let llcs = hw.shape.llcs_of(choice.node as usize);
        let counts = llcs.clone().map(|llc| self.counters.committed_in(llc, now));
        let counts: Vec<u32> = counts.collect();
        let allowed = llcs.clone().enumerate().filter(|(_, llc)| {
            let cpus = hw.cpus_of_llc(*llc);
            self.usable(id, cpus) > 0
        });
        let allowed = allowed.fold(0u64, |mask, (bit, _)| mask | 1 << bit);
        // As BPF has it: the parent's LLC, where it is one of these; a number that is none otherwise.
        let first = (place.llc as u32).wrapping_sub(llcs.start as u32);
        let weight = &hw.shape.llc_weight[llcs.clone()];
        let llc = fork_llc(&counts, weight, allowed, first as usize);
        let llc = llcs.start + llc.unwrap_or(0) as usize;
        self.tally
            .forked(choice.why, choice.node as usize == place.node);
        if let Some(trace) = &mut self.trace {
            trace.push(Record::Fork(ForkRecord {
                at: now,
                pid: id as i32,
                local: place.node as u32,
                allowed: state.allowed,
                usable,
                task_weight: state.task_weight.to_vec(),
                first,
                allowed_llcs: allowed,
                llc_committed: counts,
                node: choice.node,
                why: choice.why,
                llc: llc as u32,
                parent: task_parent.map(|parent| parent as i32),
                home: (prefers != 0).then_some(HomeRecord {
                    prefers,
                    usable: usable_on,
                    why: choice.home,
                }),
                committed,
            }));
        }
        llc
    }

    /// The nodes where the task's process belongs, as a mask; 0: nowhere in particular.
    pub(super) fn prefers(&self, id: usize) -> u64 {
        let locality = self.locality.as_ref();
        locality.map_or(0, |locality| {
            locality.nodes_of(tgid(&self.processes, &self.tasks[id]))
        })
    }

    /// CPUs of each node that the task may use; nothing when there is no node to ask for.
    fn usable_by_node(&self, id: usize, prefers: u64) -> Vec<u32> {
        let nodes = match prefers {
            0 => 0..0,
            _ => 0..self.hw.nr_nodes(),
        };
        nodes
            .map(|node| self.usable(id, self.hw.cpus_of_node(node)))
            .collect()
    }
}
