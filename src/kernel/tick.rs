// SPDX-License-Identifier: GPL-2.0-only
//! What the balancer sees: the counters and slots of BPF as an [`Observation`] of the policy.
//!
//! A tick reads the counters, and makes no system call but the one that asks for BPF's clock. Only when
//! the counters are not calm, or when it is asked to, it reads the slots as well, each that was ever used
//! once. Shares of CPU time are those since the slots were read before: uneven counters have to be
//! compared with shares of the same interval, so of two such ticks in a row the first decides nothing.
//! It takes no memory: all vectors have their final size from the start.

use anyhow::Result;

use super::intf;
use super::load::Scheduler;
use super::observe::{epoch_at, newborns};
use crate::locality::hints::LiveSlot;
use crate::machine::{LlcIdx, Machine};
use crate::policy::balance::is_calm;
use crate::policy::limits::NICE_0_WEIGHT;
use crate::policy::observation::{NodeObs, Observation, Shape, TaskObs};

/// CPU time of a slot's owner at the last tick.
#[derive(Clone, Copy, Default)]
struct Seen {
    seq: u32,
    runtime_ns: u64,
}

/// Remembers the last tick, to tell what happened since.
pub struct TickObserver {
    shape: Shape,
    seen: Vec<Seen>,
    /// When `seen` was read.
    seen_at: Option<u64>,
    /// The slots that belonged to a task then, ascending.
    live: Vec<LiveSlot>,
    /// Integral of `running` of each node.
    running_ns: Vec<u64>,
    at: u64,
    /// By node: number and weights of the tasks that run or wait now.
    weights: Vec<(u32, u64)>,
}

impl TickObserver {
    /// For `slots` slots.
    pub fn new(shape: &Shape, slots: usize) -> Self {
        Self {
            shape: shape.clone(),
            seen: vec![Seen::default(); slots],
            seen_at: None,
            live: Vec::with_capacity(slots),
            running_ns: vec![0; shape.nodes()],
            at: 0,
            weights: vec![(0, 0); shape.nodes()],
        }
    }

    /// Bring `obs` up to date. `false`: there is nothing to decide by, either because all is calm or
    /// because this was the first look at something. `wants_tasks` is told the time and says whether tasks
    /// are of interest though all is calm.
    pub fn observe(
        &mut self,
        sched: &Scheduler<'_>,
        machine: &Machine,
        wants_tasks: impl FnOnce(u64) -> bool,
        obs: &mut Observation,
    ) -> Result<bool> {
        let (now, own_llc) = sched.observe_queues()?;
        let last = std::mem::replace(&mut self.at, now);
        let elapsed = now.saturating_sub(last);
        obs.at = now;
        self.read_counters(sched, machine, own_llc, elapsed, obs);
        let wanted = wants_tasks(now);
        let calm = is_calm(obs, &self.shape);
        if last == 0 || elapsed == 0 {
            self.seen_at = None;
            return Ok(false);
        }
        if calm && !wanted {
            return Ok(false);
        }
        let Some(seen_at) = self.seen_at.replace(now) else {
            self.read_slots(sched, elapsed, obs);
            return Ok(false);
        };
        self.read_slots(sched, now - seen_at, obs);
        Ok(calm || seen_at == last)
    }

    /// The slots that belonged to a task when they were last read, ascending.
    pub fn live(&self) -> &[LiveSlot] {
        &self.live
    }

    fn read_counters(
        &mut self,
        sched: &Scheduler<'_>,
        machine: &Machine,
        own_llc: Option<usize>,
        elapsed: u64,
        obs: &mut Observation,
    ) {
        let epoch = epoch_at(obs.at, sched.newborn_epoch_ns);
        let mut totals = [0u64; intf::MAX_NODES as usize];
        obs.nodes.fill(NodeObs::default());
        for llc in machine.llcs() {
            let Some(counters) = sched.steady_counters(llc.idx.as_usize()) else {
                continue;
            };
            let node = &mut obs.nodes[llc.node.as_usize()];
            // The daemon runs whenever it looks; seen by it, its own node would always be fuller.
            let own = i64::from(own_llc == Some(llc.idx.as_usize()));
            let running = (counters.running - own).max(0) as u32;
            let newborn = epoch.map_or(0, |epoch| newborns(&counters, epoch));
            node.running += running;
            node.newborn += newborn;
            obs.llcs[llc.idx.as_usize()] = running + newborn;
            totals[llc.node.as_usize()] = totals[llc.node.as_usize()].wrapping_add(
                (counters.running as u64)
                    .wrapping_mul(obs.at)
                    .wrapping_sub(counters.stamp),
            );
        }
        for ((node, before), total) in obs.nodes.iter_mut().zip(&mut self.running_ns).zip(totals) {
            let task_ns = total.wrapping_sub(std::mem::replace(before, total));
            let milli = (u128::from(task_ns) * 1000)
                .checked_div(elapsed.into())
                .unwrap_or(0);
            // Counter and stamp change one after the other. Read in between they are off by one task
            // since boot, upwards or below 0; more than there are tasks tells both.
            let limit = u128::from(sched.slot_counts().1.max(node.running) + 1) * 1000;
            node.running_milli = match milli <= limit {
                true => milli as u32,
                false => node.running.saturating_mul(1000),
            };
        }
    }

    fn read_slots(&mut self, sched: &Scheduler<'_>, elapsed: u64, obs: &mut Observation) {
        obs.tasks.clear();
        self.live.clear();
        self.weights.fill((0, 0));
        let used = (sched.slot_counts().0 as usize).min(self.seen.len());
        for i in 0..used {
            let Some(slot) = sched.slots.get(i) else {
                break;
            };
            if slot.seq % 2 == 1 || slot.seq == 0 {
                continue;
            }
            self.live.push(LiveSlot {
                slot: i as u32,
                seq: slot.seq,
                tgid: slot.tgid,
            });
            let before = self.seen[i];
            self.seen[i] = Seen {
                seq: slot.seq,
                runtime_ns: slot.runtime_ns,
            };
            self.weigh(&slot);
            let since = if before.seq == slot.seq {
                before.runtime_ns
            } else {
                0
            };
            let ran = slot.runtime_ns.saturating_sub(since);
            let busy = ran
                .saturating_mul(1000)
                .checked_div(elapsed)
                .unwrap_or(0)
                .min(1000);
            if busy > 0 && slot.llc < self.shape.llc_node.len() as u32 {
                obs.tasks.push(task_obs(i, &slot, busy as u16, obs.at));
            }
        }
        for (node, &(tasks, weights)) in obs.nodes.iter_mut().zip(&self.weights) {
            let average = weights.checked_div(tasks.into());
            node.task_weight = average.map_or(NICE_0_WEIGHT, |average| average as u32);
        }
    }

    /// A task that runs or waits counts for the average weight of its node.
    fn weigh(&mut self, slot: &intf::task_slot) {
        if slot.where_ & 0xff != u64::from(intf::WHERE_RUNNING) {
            return;
        }
        let llc = (slot.where_ >> 8 & 0xff_ffff) as usize;
        let node = self.shape.llc_node.get(llc).map(|&node| usize::from(node));
        if let Some((tasks, weights)) = node.and_then(|node| self.weights.get_mut(node)) {
            *tasks += 1;
            *weights += u64::from(slot.weight);
        }
    }
}

fn task_obs(i: usize, slot: &intf::task_slot, busy: u16, now: u64) -> TaskObs {
    let moved_ms = match slot.moved_at {
        0 => u32::MAX,
        at => (now.saturating_sub(at) / 1_000_000).min(u32::MAX.into()) as u32,
    };
    TaskObs {
        slot: i as u32,
        seq: slot.seq,
        pid: slot.pid,
        tgid: slot.tgid,
        llc: slot.llc as u16,
        busy,
        weight: slot.weight,
        nodes: slot.nodes,
        moved_ms,
    }
}

impl Scheduler<'_> {
    /// The counters of an LLC, counter and stamp of one moment as far as a few reads can tell.
    fn steady_counters(&self, llc: usize) -> Option<intf::llc_counters> {
        let mut last = self.llcs.get(llc)?;
        for _ in 0..4 {
            let again = self.llcs.get(llc)?;
            if (again.running, again.stamp) == (last.running, last.stamp) {
                break;
            }
            last = again;
        }
        Some(last)
    }

    /// Tasks that run or wait in `llc` now.
    pub(super) fn running(&self, llc: LlcIdx) -> u32 {
        self.llcs
            .get(llc.as_usize())
            .map_or(0, |counters| counters.running.max(0) as u32)
    }
}
