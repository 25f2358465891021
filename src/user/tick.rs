// SPDX-License-Identifier: GPL-2.0-only
//! The balancing tick: observe, let the policy decide, note the wishes.
//!
//! How many tasks run is sampled several times per interval, because nobody tells when one falls asleep;
//! the average of the samples is the average that the policy asks for. As in the kernel dispatcher tasks are looked
//! at only when the counters are not calm, and of two such ticks in a row the first decides nothing.

use super::dispatcher::Dispatcher;
use super::facts::{Facts, Seen};
use super::tasks::{Counted, Task};
use crate::machine::Machine;
use crate::policy::balance::{Decisions, is_calm};
use crate::policy::compile::Limits;
use crate::policy::engine::Engine;
use crate::policy::limits::NICE_0_WEIGHT;
use crate::policy::observation::{NodeObs, Observation, Shape, TaskObs};

/// Samples per interval, the one of the tick itself among them.
pub const SAMPLES: u32 = 4;
/// Tasks that are asked about at a tick because they ran.
const ASKED: u32 = 512;
/// Tasks per sample of which it is asked whether they are still there.
const CHECKED: u32 = 8;

/// What the balancer remembers from tick to tick.
#[derive(Debug)]
pub struct Balancing {
    engine: Engine,
    obs: Observation,
    /// By node: sum of the samples.
    sum: Vec<u64>,
    samples: u32,
    /// By node: task-ns of running and waiting, each sample standing for the time since the one before.
    running_ns: Vec<u64>,
    sampled_at: Option<u64>,
    /// When the tasks were last looked at, if that was at the last tick.
    seen_at: Option<u64>,
    /// Slots and sequence counts of those that shall go elsewhere; the next tick withdraws it.
    wishes: Vec<(u32, u32)>,
}

impl Balancing {
    pub fn new(shape: &Shape, limits: &Limits, tasks: usize) -> Self {
        Self {
            engine: Engine::new(limits.clone(), shape.clone(), tasks),
            obs: Observation::for_shape(shape, tasks),
            sum: vec![0; shape.nodes()],
            samples: 0,
            running_ns: vec![0; shape.nodes()],
            sampled_at: None,
            seen_at: None,
            wishes: Vec::with_capacity(64),
        }
    }

    /// Task-ns of running and waiting on a node so far.
    pub fn running_ns(&self, node: usize) -> u64 {
        self.running_ns[node]
    }

    /// What the last tick saw and decided.
    pub fn last(&self) -> (&Observation, &Decisions) {
        (&self.obs, self.engine.decisions())
    }
}

impl<F: Facts> Dispatcher<F> {
    /// Between two ticks: who runs now?
    pub fn take_sample(&mut self, balancing: &mut Balancing, now: u64) {
        self.sample(now);
        for _ in 0..CHECKED {
            self.check_one(now);
        }
        let before = balancing.sampled_at.replace(now);
        let elapsed = before.map_or(0, |at| now.saturating_sub(at));
        for (node, sum) in balancing.sum.iter_mut().enumerate() {
            let running = u64::from(self.counts.running_on(&self.places, node));
            *sum += running;
            balancing.running_ns[node] += running * elapsed;
        }
        balancing.samples += 1;
    }

    /// A task that sleeps may have ended; the slot is wanted for others.
    fn check_one(&mut self, now: u64) {
        let Some(slot) = self.tasks.next_in_turn() else {
            return;
        };
        if self.tasks.get(slot).counted == Counted::None {
            self.look_at(&[slot], now);
        }
    }

    /// One tick; whether anything was decided. `wanted` is told the CPUs, by the kernel's ids, where a task
    /// that shall go elsewhere has to be made to leave.
    pub fn tick(
        &mut self,
        balancing: &mut Balancing,
        now: u64,
        mut wanted: impl FnMut(u32),
    ) -> bool {
        self.take_sample(balancing, now);
        self.withdraw(balancing);
        self.read_counters(balancing, now);
        if is_calm(&balancing.obs, &self.places.shape) {
            balancing.seen_at = None;
            balancing.engine.skip(&mut balancing.obs);
            return false;
        }
        let seen_at = balancing.seen_at.replace(now);
        self.read_tasks(&mut balancing.obs, now, seen_at);
        if seen_at.is_none() {
            balancing.engine.skip(&mut balancing.obs);
            return false;
        }
        self.task_weights.clear();
        let weights = balancing.obs.nodes.iter().map(|node| node.task_weight);
        self.task_weights.extend(weights);
        let decisions = balancing.engine.tick(&mut balancing.obs);
        for one in &decisions.moves {
            let task = self.tasks.get_mut(one.slot);
            task.wish = Some(one.llc);
            balancing.wishes.push((one.slot, one.seq));
            // One that has its CPU for itself is never queued again by itself.
            if let Counted::On(cpu) = task.counted {
                wanted(self.places.place(cpu).id);
            }
        }
        true
    }

    /// A move that somebody asks for: to the node with the kernel's id `node`.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn want(
        &mut self,
        machine: &Machine,
        pid: i32,
        node: u32,
        mut wanted: impl FnMut(u32),
    ) -> Result<(), String> {
        let found = machine.cpu_nodes().iter().find(|known| known.id == node);
        let node = found.ok_or_else(|| format!("there is no node {node} with CPUs"))?;
        let (places, counts) = (&self.places, &self.counts);
        let llcs = places.shape.llcs_of(node.idx.as_usize());
        let llc = llcs.min_by_key(|&llc| {
            let weight = u64::from(places.shape.llc_weight[llc]);
            u64::from(counts.committed_in(llc)) * 1000 / weight.max(1)
        });
        let slot = self.tasks.find(pid).filter(|_| llc.is_some());
        let slot = slot.ok_or_else(|| format!("task {pid} is not known here"))?;
        let task = self.tasks.get_mut(slot);
        if task.nodes >> node.idx.as_usize() & 1 == 0 {
            return Err(format!("task {pid} may not run on node {}", node.id));
        }
        task.wish = llc.map(|llc| llc as u16);
        if let Counted::On(cpu) = task.counted {
            wanted(self.places.place(cpu).id);
        }
        Ok(())
    }

    fn withdraw(&mut self, balancing: &mut Balancing) {
        for (slot, seq) in balancing.wishes.drain(..) {
            if self.tasks.current(slot, seq).is_some() {
                self.tasks.get_mut(slot).wish = None;
            }
        }
    }

    fn read_counters(&self, balancing: &mut Balancing, now: u64) {
        let Balancing {
            obs, sum, samples, ..
        } = balancing;
        obs.at = now;
        for (node, at) in obs.nodes.iter_mut().enumerate() {
            let milli = sum[node] * 1000 / u64::from((*samples).max(1));
            *at = NodeObs {
                running_milli: milli.min(u32::MAX.into()) as u32,
                running: self.counts.running_on(&self.places, node),
                newborn: self.counts.newborns_on(&self.places, node),
                task_weight: NICE_0_WEIGHT,
            };
        }
        for (llc, committed) in obs.llcs.iter_mut().enumerate() {
            *committed = self.counts.committed_in(llc);
        }
        sum.fill(0);
        *samples = 0;
    }

    /// Those that ran since `seen_at`, and how long.
    fn read_tasks(&mut self, obs: &mut Observation, now: u64, seen_at: Option<u64>) {
        obs.tasks.clear();
        let slots: Vec<u32> = self.tasks.iter().map(|(slot, _)| slot).collect();
        let elapsed = seen_at.map_or(0, |at| now - at);
        let mut weights = vec![(0u64, 0u64); self.places.shape.nodes()];
        let mut left = ASKED;
        for slot in slots {
            let task = self.tasks.get(slot);
            let on = matches!(task.counted, Counted::On(_));
            if let Counted::On(cpu) = task.counted {
                let (tasks, weight) = &mut weights[self.places.place(cpu).node];
                *tasks += 1;
                *weight += u64::from(task.weight);
            }
            if !(task.active || on) || left == 0 {
                continue;
            }
            left -= 1;
            if let Some(seen) = self.observe_task(slot, now, elapsed) {
                obs.tasks.push(seen);
            }
        }
        for (node, (tasks, weight)) in obs.nodes.iter_mut().zip(weights) {
            let average = weight.checked_div(tasks);
            node.task_weight = average.map_or(NICE_0_WEIGHT, |average| average as u32);
        }
    }

    /// The process of a task, which is asked for once.
    pub(super) fn process_of(&mut self, slot: u32) -> Option<i32> {
        let task = self.tasks.get(slot);
        if task.tgid == 0 {
            let seen = self.facts.ask_one(task.pid)?;
            self.tasks.get_mut(slot).tgid = seen.process;
        }
        Some(self.tasks.get(slot).tgid)
    }

    /// What a task had of a CPU since it was last observed.
    fn observe_task(&mut self, slot: u32, now: u64, elapsed: u64) -> Option<TaskObs> {
        let task = self.tasks.get(slot);
        let (pid, cpu) = (task.pid, task.cpu);
        // One that runs is not always queued when its affinity changes (6.12).
        self.ask_usable(slot, u64::MAX, self.places.place(cpu).id);
        let Seen {
            ran_ns, process, ..
        } = self.facts.ask_one(pid)?;
        let task = self.tasks.get_mut(slot);
        task.tgid = process;
        // It may be asked again without having been queued.
        task.active = false;
        let before = task.seen_ns.replace(ran_ns);
        // Of one that is older than we are it is not known what it ran lately.
        let at_first = if task.born_at.is_some() { 0 } else { ran_ns };
        let ran = ran_ns.saturating_sub(before.unwrap_or(at_first));
        let busy = ran.saturating_mul(1000).checked_div(elapsed).unwrap_or(0);
        let busy = busy.min(1000) as u16;
        (busy > 0).then(|| observed(slot, task, busy, now))
    }
}

fn observed(slot: u32, task: &Task, busy: u16, now: u64) -> TaskObs {
    let moved_ms = task.moved_at.map_or(u32::MAX, |at| {
        (now.saturating_sub(at) / 1_000_000).min(u32::MAX.into()) as u32
    });
    TaskObs {
        slot,
        seq: task.seq,
        pid: task.pid,
        tgid: task.tgid,
        llc: task.llc as u16,
        busy,
        weight: task.weight,
        nodes: task.nodes,
        moved_ms,
    }
}
