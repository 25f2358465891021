// SPDX-License-Identifier: GPL-2.0-only
//! The balancing tick: observe, let the policy decide, write wishes.
//!
//! As in src/kernel/tick.rs tasks are looked at only when the counters are not calm, and of two such ticks
//! in a row the first decides nothing, because shares of CPU time have to be of the same interval as counts.

use crate::policy::balance::is_calm;
use crate::policy::compile::Limits;
use crate::policy::engine::Engine;
use crate::policy::limits::NICE_0_WEIGHT;
use crate::policy::locality::record::LocalityRecord;
use crate::policy::observation::{NodeObs, Observation, TaskObs};
use crate::policy::record::{FORMAT, Header, Record, TickRecord};
use crate::sim::clock::Time;
use crate::sim::hardware::Hardware;
use crate::sim::locality::{SEQ, tgid};
use crate::sim::task::{Counted, State, Task};
use crate::sim::world::{Event, World};

/// What the balancer remembers from tick to tick.
#[derive(Debug)]
pub(in crate::sim) struct Balancing {
    engine: Engine,
    obs: Observation,
    /// By node: integral of running tasks at the last tick.
    integral: Vec<u64>,
    at: Time,
    /// When the tasks were last looked at.
    seen_at: Option<Time>,
    /// By node: average weight of its tasks when they were last looked at, for fork placement.
    weights: Vec<u32>,
    /// Tasks with a wish, which the next tick withdraws.
    wishes: Vec<usize>,
}

impl Balancing {
    pub fn new(hw: &Hardware, limits: &Limits) -> Self {
        Self {
            engine: Engine::new(limits.clone(), hw.shape.clone(), 0),
            obs: Observation::for_shape(&hw.shape, 0),
            integral: vec![0; hw.nr_nodes()],
            at: 0,
            seen_at: None,
            weights: vec![NICE_0_WEIGHT; hw.nr_nodes()],
            wishes: Vec::new(),
        }
    }

    pub fn task_weights(&self) -> &[u32] {
        &self.weights
    }

    /// At the last tick nobody counted, neither then nor in the interval before it.
    pub fn saw_nothing(&self) -> bool {
        let mut nodes = self.obs.nodes.iter();
        nodes.all(|node| node.running_milli == 0 && node.running + node.newborn == 0)
    }

    /// The last tick, which was left out, was at `at`.
    pub fn was_at(&mut self, at: Time) {
        self.at = at;
    }
}

impl World<'_> {
    pub(in crate::sim) fn trace_header(&self) -> Record {
        Record::Header(Header {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").into(),
            node_ids: self.hw.node_ids.clone(),
            shape: self.hw.shape.clone(),
            limits: self.setup.limits.clone(),
        })
    }

    /// One tick.
    pub(in crate::sim) fn balance(&mut self) {
        self.tally.ticks += 1;
        for id in std::mem::take(&mut self.balancing.wishes) {
            self.tasks[id].wish = None;
        }
        if !self.observe() {
            self.balancing.engine.skip(&mut self.balancing.obs);
            return;
        }
        let nodes = self.balancing.obs.nodes.iter();
        self.balancing.weights = nodes.map(|node| node.task_weight).collect();
        let Balancing { engine, obs, .. } = &mut self.balancing;
        let mut orders = Vec::new();
        match &mut self.locality {
            Some(locality) => {
                let send = |order| {
                    orders.push(order);
                    true
                };
                locality
                    .tracker
                    .tick(engine, obs, |_, _| false, |_| None, send);
            }
            None => {
                engine.tick(obs);
            }
        }
        let wishes = self.note_decisions();
        for (id, llc) in wishes {
            self.wish(id, llc);
        }
        self.follow_orders(orders);
    }

    /// Count and record what was decided; returns who shall go where.
    fn note_decisions(&mut self) -> Vec<(usize, usize)> {
        let Balancing { engine, obs, .. } = &self.balancing;
        let decisions = engine.decisions();
        self.tally.decided(decisions);
        let tracker = self.locality.as_ref().map(|locality| &locality.tracker);
        let steps = tracker.and_then(|tracker| tracker.steps());
        self.tally.located(steps);
        let moves = decisions.moves.iter().map(|one| (one.slot, one.llc));
        let steps = steps.into_iter().flat_map(|steps| &steps.steps);
        let wishes = moves.chain(steps.map(|one| (one.slot, one.llc)));
        let wishes = wishes.map(|(slot, llc)| (slot as usize, usize::from(llc)));
        let wishes = wishes.collect();
        if let Some(trace) = &mut self.trace {
            trace.push(Record::Tick(TickRecord {
                observation: obs.clone(),
                decisions: decisions.clone(),
                locality: tracker.map(|tracker| LocalityRecord {
                    view: tracker.view().clone(),
                    steps: tracker.steps().cloned(),
                }),
            }));
        }
        self.note_brought();
        wishes
    }

    /// Memory that has come since the last tick.
    fn note_brought(&mut self) {
        let Some(locality) = &mut self.locality else {
            return;
        };
        let brought = locality.tracker.take_brought().map(Record::Brought);
        match &mut self.trace {
            Some(trace) => trace.extend(brought),
            None => drop(brought),
        }
    }

    /// The task shall go to `llc`: at the next tick if it runs, else when it is next placed.
    fn wish(&mut self, id: usize, llc: usize) {
        self.tasks[id].wish = Some(llc);
        self.balancing.wishes.push(id);
        if let State::Running(cpu) = self.tasks[id].state {
            let run = self.cpus[cpu].run;
            let at = self.hw.tick_after(self.now());
            self.events.announce(at, Event::Slice { cpu, run });
        }
    }

    /// Bring the observation up to date; `false`: there is nothing to decide by.
    fn observe(&mut self) -> bool {
        let now = self.now();
        let last = std::mem::replace(&mut self.balancing.at, now);
        self.balancing.obs.at = now;
        // The balancer was there before the workload: its first interval is as long as any, and idle at first.
        let elapsed = match self.tally.ticks {
            1 => self.setup.balance_ns,
            _ => now - last,
        };
        self.read_counters(now, elapsed);
        let due = match &mut self.locality {
            Some(locality) => locality.begin(now),
            None => false,
        };
        if !due && is_calm(&self.balancing.obs, &self.hw.shape) {
            return false;
        }
        let seen_at = self.balancing.seen_at.replace(now);
        let since = seen_at.map_or(elapsed, |at| now - at);
        self.read_tasks(now, since);
        seen_at == Some(last)
    }

    fn read_counters(&mut self, now: Time, elapsed: Time) {
        let (hw, counters) = (self.hw, &self.counters);
        let Balancing { obs, integral, .. } = &mut self.balancing;
        for (node, at) in obs.nodes.iter_mut().enumerate() {
            let total = counters.integral_of(node, now);
            let task_ns = total - std::mem::replace(&mut integral[node], total);
            let milli = task_ns.saturating_mul(1000).checked_div(elapsed);
            *at = NodeObs {
                running_milli: milli.unwrap_or(0) as u32,
                running: counters.running_on(node),
                newborn: 0,
                task_weight: NICE_0_WEIGHT,
            };
        }
        for (llc, committed) in obs.llcs.iter_mut().enumerate() {
            let newborn = counters.newborns_in(llc, now);
            obs.nodes[hw.node_of_llc(llc)].newborn += newborn;
            *committed = counters.running_in(llc) + newborn;
        }
    }

    fn read_tasks(&mut self, now: Time, elapsed: Time) {
        let obs = &mut self.balancing.obs;
        obs.tasks.clear();
        let mut weights = vec![(0u64, 0u64); self.hw.nr_nodes()];
        for (id, task) in self.tasks.iter_mut().enumerate() {
            if !task.is_alive() {
                continue;
            }
            if let Counted::Running(llc) = task.counted {
                let (tasks, weight) = &mut weights[self.hw.node_of_llc(llc)];
                *tasks += 1;
                *weight += u64::from(task.weight);
            }
            // What it has run and was not yet charged for is seen at the next tick, as in the kernel.
            let ran = task.runtime_ns - std::mem::replace(&mut task.seen_ns, task.runtime_ns);
            let busy = ran.saturating_mul(1000).checked_div(elapsed);
            let busy = busy.unwrap_or(0).min(1000) as u16;
            if busy > 0 {
                let tgid = tgid(&self.processes, task);
                obs.tasks.push(observed((id, tgid), task, busy, now));
            }
        }
        for (node, (tasks, weight)) in obs.nodes.iter_mut().zip(weights) {
            let average = weight.checked_div(tasks);
            node.task_weight = average.map_or(NICE_0_WEIGHT, |average| average as u32);
        }
    }
}

fn observed((id, tgid): (usize, i32), task: &Task, busy: u16, now: Time) -> TaskObs {
    let moved_ms = task.moved_at.map_or(u32::MAX, |at| {
        ((now - at) / 1_000_000).min(u32::MAX.into()) as u32
    });
    TaskObs {
        slot: id as u32,
        seq: SEQ,
        pid: id as i32,
        tgid,
        llc: task.llc as u16,
        busy,
        weight: task.weight,
        nodes: task.nodes,
        moved_ms,
    }
}
