// SPDX-License-Identifier: GPL-2.0-only
//! Which processes to look at in a tick: those that run and are due, within the budget of CPU time.
//!
//! What a look costs is learned per process from its last one, and of processes that were not looked at yet from the
//! first looks at others; when it is answered what it did cost is settled. A process that was ordered and has not been
//! answered is not ordered again, for a while. Looks out of turn are paid like others, and wait if they cannot be.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Order;
use crate::policy::locality::decide::MIN_BUSY;
use crate::policy::locality::evidence::Standing;
use crate::policy::locality::ledger::Ledger;
use crate::policy::locality::sampling::{Budget, Due};
use crate::policy::observation::Observation;

/// Addresses of a look: with these chance alone makes two samples differ by about 50 permille, a third of
/// what [`STABLE_PERMILLE`](crate::policy::locality::evidence::STABLE_PERMILLE) allows.
const ADDRESSES: u32 = 200;
/// What a first look costs until one has been taken, in us.
const GUESS_US: u32 = 300;
/// Until then there are so many at once.
const GUESSES: usize = 4;
/// An order that was not answered in this time is given again.
const LOST_MS: u64 = 10_000;

/// Of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    /// `None`: there was none yet.
    cost_us: Option<u32>,
    /// What was paid for the one that was ordered last.
    paid_us: u32,
    /// When it was ordered, if there is no answer yet.
    ordered_ms: Option<u64>,
    /// Pages that it had, of the base size.
    resident: u64,
}

impl Last {
    /// An order was given and may still be answered.
    fn waits(&self, now_ms: u64) -> bool {
        self.ordered_ms
            .is_some_and(|at| now_ms.saturating_sub(at) < LOST_MS)
    }
}

/// How many of the processes that run are in which standing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standings {
    pub known: u32,
    pub void: u32,
    pub unknown: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Looks {
    budget: Budget,
    /// By process.
    last: BTreeMap<i32, Last>,
    /// Processes to be looked at out of turn, as soon as it can be paid.
    wanted: BTreeSet<i32>,
    /// What first looks have cost lately.
    first_us: Option<u32>,
    /// Of the tick: processes that run, ascending, with their CPU time in thousandths of a CPU.
    busy: Vec<(i32, u32)>,
    due: Vec<Due>,
    chosen: Vec<i32>,
}

impl Looks {
    /// For up to so many tasks, with so much CPU time for looking in us per second.
    pub fn new(tasks: usize, budget_us: u32) -> Self {
        Self {
            budget: Budget::new(budget_us, 0),
            last: BTreeMap::new(),
            wanted: BTreeSet::new(),
            first_us: None,
            busy: Vec::with_capacity(tasks),
            due: Vec::with_capacity(tasks),
            chosen: Vec::with_capacity(tasks),
        }
    }

    /// Order what is due at `now_ms`; `send` is false when there is no room for more. `own` is not looked at.
    /// Returns when the next one of those that are not known is due and can be paid.
    pub fn order(
        &mut self,
        obs: &Observation,
        ledger: &Ledger,
        (own, now_ms): (i32, u64),
        mut send: impl FnMut(Order) -> bool,
    ) -> (Standings, u64) {
        self.find_busy(obs, own);
        for tgid in std::mem::take(&mut self.wanted) {
            self.order_now(tgid, now_ms, &mut send);
        }
        let (standings, next_ms) = self.find_due(ledger, now_ms);
        self.budget.take(&mut self.due, now_ms, &mut self.chosen);
        for at in 0..self.chosen.len() {
            self.order_paid(self.chosen[at], now_ms, &mut send);
        }
        (standings, next_ms.max(self.budget.ready_ms()))
    }

    /// Order a look out of turn: at once, unless one is under way, or as soon as it can be paid.
    pub fn order_now(&mut self, tgid: i32, now_ms: u64, send: impl FnMut(Order) -> bool) {
        if self.last.get(&tgid).is_some_and(|last| last.waits(now_ms)) {
            return;
        }
        match self.budget.pay(self.cost_us(tgid), now_ms) {
            true => self.order_paid(tgid, now_ms, send),
            false => drop(self.wanted.insert(tgid)),
        }
    }

    /// When there is no room for an order it is paid back.
    fn order_paid(&mut self, tgid: i32, now_ms: u64, mut send: impl FnMut(Order) -> bool) {
        let look = Order::Look {
            tgid,
            addresses: ADDRESSES,
            touched: Vec::new(),
            at_ms: now_ms,
        };
        let paid_us = self.cost_us(tgid);
        if send(look) {
            let last = self.last.entry(tgid).or_default();
            (last.ordered_ms, last.paid_us) = (Some(now_ms), paid_us);
        } else {
            self.budget.settle(paid_us, 0);
        }
    }

    /// What a look at a process is thought to cost.
    fn cost_us(&self, tgid: i32) -> u32 {
        let known = self.last.get(&tgid).and_then(|last| last.cost_us);
        known.or(self.first_us).unwrap_or(GUESS_US)
    }

    /// Processes whose threads run enough together that something is won by moving them.
    fn find_busy(&mut self, obs: &Observation, own: i32) {
        let busy = &mut self.busy;
        busy.clear();
        let others = obs.tasks.iter().filter(|task| task.tgid != own);
        busy.extend(others.map(|task| (task.tgid, u32::from(task.busy))));
        busy.sort_unstable();
        busy.dedup_by(|again, first| {
            let same = again.0 == first.0;
            first.1 += if same { again.1 } else { 0 };
            same
        });
        busy.retain(|&(_, busy)| busy >= u32::from(MIN_BUSY));
    }

    fn find_due(&mut self, ledger: &Ledger, now_ms: u64) -> (Standings, u64) {
        let (mut standings, mut next_ms) = (Standings::default(), u64::MAX);
        let mut guesses = 0;
        self.due.clear();
        for &(tgid, busy) in &self.busy {
            let last = self.last.get(&tgid);
            let due = ledger.due(tgid, now_ms, busy, self.cost_us(tgid));
            match due.standing {
                Standing::Known => standings.known += 1,
                Standing::Void => standings.void += 1,
                _ => {
                    standings.unknown += 1;
                    next_ms = next_ms.min(due.schedule.next_ms);
                }
            }
            let waits = last.is_some_and(|last| last.waits(now_ms));
            // Pushed only if due, so that the budget sorts few.
            if waits || due.schedule.next_ms > now_ms {
                continue;
            }
            let is_guess = self.first_us.is_none();
            if !is_guess || guesses < GUESSES {
                guesses += usize::from(is_guess);
                self.due.push(due);
            }
        }
        (standings, next_ms)
    }

    /// A process was looked at; it has so many pages.
    pub fn answered(&mut self, tgid: i32, cost_us: u32, resident: u64) {
        let last = self.last.entry(tgid).or_default();
        if last.cost_us.is_none() {
            let before = self.first_us.unwrap_or(cost_us);
            self.first_us = Some(before - before / 4 + cost_us / 4);
        }
        self.budget.settle(last.paid_us, cost_us);
        *last = Last {
            cost_us: Some(cost_us),
            paid_us: 0,
            ordered_ms: None,
            resident,
        };
    }

    /// Pages that a process had when it was last looked at.
    pub fn resident(&self, tgid: i32) -> u64 {
        self.last.get(&tgid).map_or(0, |last| last.resident)
    }

    /// Forget processes that are gone.
    pub fn retain(&mut self, process: impl Fn(i32) -> bool) {
        self.last.retain(|&tgid, _| process(tgid));
        self.wanted.retain(|&tgid| process(tgid));
    }
}
