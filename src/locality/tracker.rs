// SPDX-License-Identifier: GPL-2.0-only
//! What lies between reports, faults and observations on one side, and decisions and orders on the other.
//!
//! Everything comes in as a value and goes out as one, so a test can be the memory thread and the kernel. A
//! tick that looks at tasks goes: faults, view, balancer, moves and swaps, what is to be remembered, orders.
//!
//! *When* a tick looks at tasks ([`Tracker::is_due`]), though the balancer has no use for it: at the next one
//! while somebody who runs is off its node, when a look at a process of unknown memory is due or has been
//! answered, and otherwise every [`CALM_MS`].
//!
//! Taking in a process or a report takes memory, ordering a look does, and so does a unit that is seen for the
//! first time; a tick without any of it does not.

use crate::memory::{Brought, Order, Report};
use crate::policy::engine::Engine;
use crate::policy::locality::decide::Decider;
use crate::policy::locality::evidence::{FirstTouch, Sample};
use crate::policy::locality::ledger::{FIRST_WAIT_MS, Ledger};
use crate::policy::locality::places::Places;
use crate::policy::locality::record::BroughtRecord;
use crate::policy::locality::view::{Stay, Steps, View};
use crate::policy::observation::{Observation, Shape};

use super::counts::Counts;
use super::faults::Faults;
use super::following::{Decided, Following};
use super::hints::LiveSlot;
use super::looks::Looks;
use super::mode::Mode;
use super::touches::{Ring, Touches};

/// Between two looks at the tasks of a machine where there is nothing to do.
pub const CALM_MS: u64 = 1_000;
/// Between two times that those who are gone are forgotten.
const FORGET_MS: u64 = 5_000;

/// See the module.
#[derive(Debug)]
pub struct Tracker {
    mode: Mode,
    shape: Shape,
    /// This very process, which is neither looked at nor moved.
    own: i32,
    ledger: Ledger,
    decider: Decider,
    looks: Looks,
    /// With `--migrate-memory`.
    following: Option<Following>,
    faults: Faults,
    touches: Touches,
    touch: FirstTouch,
    view: View,
    steps: Steps,
    /// When tasks are to be looked at again.
    next_ms: u64,
    last_ms: Option<u64>,
    forget_ms: u64,
    /// Of those that are alive, when others are forgotten.
    alive: Vec<i32>,
    /// Batches since the last [`take_brought`](Self::take_brought).
    brought: Vec<BroughtRecord>,
    pub counts: Counts,
}

impl Tracker {
    /// For up to `slots` tasks, with `budget_us` of CPU time per second for looks. `own`: this process's id.
    pub fn new(
        mode: Mode,
        places: Places,
        shape: &Shape,
        (slots, budget_us): (usize, u32),
        own: i32,
    ) -> Self {
        let nodes = shape.nodes();
        let mut ledger = Ledger::new(places, shape.clone());
        ledger.reserve(slots);
        Self {
            mode,
            own,
            ledger,
            decider: Decider::new(shape.clone(), slots),
            looks: Looks::new(slots, budget_us),
            following: None,
            faults: Faults::new(slots, nodes),
            touches: Touches::new(slots),
            touch: FirstTouch {
                at_ms: 0,
                faults: vec![0; nodes],
            },
            view: View {
                tasks: Vec::with_capacity(slots),
                units: Vec::with_capacity(slots),
                scores: Vec::with_capacity(slots * nodes),
                ..View::default()
            },
            steps: Steps {
                steps: Vec::with_capacity(slots.min(4096)),
                stays: Vec::with_capacity(slots),
            },
            next_ms: 0,
            last_ms: None,
            forget_ms: 0,
            alive: Vec::with_capacity(slots),
            brought: Vec::new(),
            counts: Counts::new(nodes),
            shape: shape.clone(),
        }
    }

    /// From now on bring memory to tasks that do not go to it, at most so many pages per second.
    pub fn bring_memory(&mut self, rate: u64) {
        self.following = Some(Following::new(rate));
    }

    /// What the memory thread has found or done.
    pub fn report(&mut self, report: Report) {
        match report {
            Report::Looked {
                tgid,
                at_ms,
                cost_us,
                found,
            } => {
                let resident = found.as_ref().map_or(0, |look| look.resident);
                self.looks.answered(tgid, cost_us, resident);
                self.counts.looks += 1;
                self.counts.look_us += u64::from(cost_us);
                match found {
                    Ok(look) => {
                        self.ledger.set_policy(tgid, look.policy);
                        self.ledger.set_group(tgid, look.group);
                        self.ledger.sampled(tgid, &look.sample);
                        if let Some(following) = &mut self.following {
                            following.touched(tgid, &look.touched, at_ms);
                        }
                        for (task, sample) in &look.tasks {
                            self.ledger.sampled_task(*task, sample);
                        }
                    }
                    Err(why) => {
                        self.counts.unseen(why);
                        let nothing = Sample {
                            at_ms,
                            asked: 0,
                            pages: Vec::new(),
                        };
                        self.ledger.sampled(tgid, &nothing);
                    }
                }
            }
            Report::Brought {
                tgid,
                to,
                within,
                at_ms,
                cost_us,
                brought,
            } => {
                self.counts.bring_us += u64::from(cost_us);
                let batch = brought.as_ref().ok().map(Brought::batch);
                if let Some(following) = &mut self.following {
                    following.brought(tgid, at_ms, batch, &mut self.ledger);
                }
                self.brought.push(BroughtRecord {
                    at: at_ms * 1_000_000,
                    tgid,
                    to,
                    within,
                    batch,
                    cost_us,
                });
                match brought {
                    Ok(brought) => self.counts.brought(&brought),
                    Err(why) => self.counts.unseen(why),
                }
            }
        }
        self.next_ms = 0;
    }

    /// Are the tasks to be looked at, even if the balancer has no use for it?
    pub fn is_due(&self, at_ns: u64) -> bool {
        at_ns / 1_000_000 >= self.next_ms
    }

    /// A tick: by what is known now `engine` decides, then locality. `faults` reads a slot's counts, `ring` the
    /// last addresses that its owner worked on, `send` gives an order to the memory thread and is false when there is no room for it.
    pub fn tick(
        &mut self,
        engine: &mut Engine,
        obs: &mut Observation,
        faults: impl FnMut(u32, &mut [u64]) -> bool,
        mut ring: impl FnMut(u32) -> Option<Ring>,
        mut send: impl FnMut(Order) -> bool,
    ) {
        let now_ms = obs.at / 1_000_000;
        self.take_faults(obs, now_ms, faults);
        self.ledger.view(obs, now_ms, &mut self.view);
        engine.tick_with(obs, Some(&self.view));
        let mut next_ms = now_ms + CALM_MS;
        if self.mode == Mode::Sampled {
            self.decide(engine, obs);
            let mut touches = std::mem::take(&mut self.touches);
            // What its tasks work on goes with each look at a process.
            let mut send = |mut order| {
                if let Order::Look { tgid, touched, .. } = &mut order {
                    touches.take(&obs.tasks, *tgid, &mut ring, touched);
                }
                send(order)
            };
            next_ms = next_ms.min(now_ms + self.patience_ms());
            let (standings, look_ms) =
                self.looks
                    .order(obs, &self.ledger, (self.own, now_ms), &mut send);
            self.counts.standings = standings;
            next_ms = next_ms.min(look_ms);
            if self.follow(obs, now_ms, send) {
                next_ms = now_ms;
            }
            self.touches = touches;
        }
        let elapsed_ms = self.last_ms.replace(now_ms).map(|last| now_ms - last);
        let elapsed_us = elapsed_ms.unwrap_or(0) * 1000;
        self.counts
            .locations((obs, &self.view), &self.shape, &self.ledger, elapsed_us);
        self.next_ms = next_ms;
    }

    fn take_faults(
        &mut self,
        obs: &Observation,
        at_ms: u64,
        mut faults: impl FnMut(u32, &mut [u64]) -> bool,
    ) {
        self.touch.at_ms = at_ms;
        for task in obs.tasks.iter().filter(|task| task.tgid != self.own) {
            let key = (task.slot, task.seq);
            if let Some(since) = self.faults.since(key, |now| faults(task.slot, now)) {
                self.touch.faults.copy_from_slice(since);
                self.ledger.touched(task.tgid, key, &self.touch);
            }
        }
    }

    fn decide(&mut self, engine: &mut Engine, obs: &Observation) {
        let already = &engine.decisions().moves;
        let (view, steps) = (&self.view, &mut self.steps);
        self.decider
            .decide(obs, view, engine.limits(), already, steps);
        self.ledger.remember(obs, view, steps);
        engine.remember_steps(&steps.steps);
        self.counts.steps(steps);
    }

    /// Whether memory is on its way to somebody.
    fn follow(&mut self, obs: &Observation, now_ms: u64, send: impl FnMut(Order) -> bool) -> bool {
        let Some(following) = &mut self.following else {
            return false;
        };
        let on = Decided {
            obs,
            steps: &self.steps,
            shape: &self.shape,
            now_ms,
        };
        following.tick(on, &self.ledger, &mut self.looks, send)
    }

    /// How long the tasks can be left alone, by what was decided.
    fn patience_ms(&self) -> u64 {
        if !self.steps.steps.is_empty() {
            return 0;
        }
        let stays = self.steps.stays.iter();
        let patience = stays.map(|(_, stay)| match stay {
            Stay::Resting | Stay::Held | Stay::Budget => 0,
            stay if stay.is_refusal() => FIRST_WAIT_MS,
            Stay::Waiting => FIRST_WAIT_MS,
            _ => CALM_MS,
        });
        patience.min().unwrap_or(CALM_MS)
    }

    /// Whether it is time to forget who is gone.
    pub fn forgets(&self, at_ns: u64) -> bool {
        at_ns / 1_000_000 >= self.forget_ms
    }

    /// Forget who is gone, now and then. `live`: all tasks, ascending by slot.
    pub fn forget(&mut self, live: &[LiveSlot], at_ns: u64) {
        if !self.forgets(at_ns) {
            return;
        }
        self.forget_ms = at_ns / 1_000_000 + FORGET_MS;
        self.alive.clear();
        self.alive.extend(live.iter().map(|one| one.tgid));
        self.alive.sort_unstable();
        self.alive.dedup();
        let process = |tgid: i32| self.alive.binary_search(&tgid).is_ok();
        self.ledger.retain(process, |(slot, seq)| {
            let at = live.binary_search_by_key(&slot, |one| one.slot);
            at.is_ok_and(|at| live[at].seq == seq)
        });
        self.looks.retain(process);
        if let Some(following) = &mut self.following {
            following.retain(process);
        }
    }

    /// What came of batches of memory, once.
    pub fn take_brought(&mut self) -> impl Iterator<Item = BroughtRecord> + '_ {
        self.brought.drain(..)
    }

    /// What the last tick knew.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What it decided by that; `None`: this mode decides nothing.
    pub fn steps(&self) -> Option<&Steps> {
        (self.mode == Mode::Sampled).then_some(&self.steps)
    }

    /// The processes that belong somewhere, ascending, with their nodes.
    pub fn preferred(&self, at_ns: u64) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.ledger.preferred(at_ns / 1_000_000)
    }
}
