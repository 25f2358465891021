// SPDX-License-Identifier: GPL-2.0-only
//! Memory follows tasks (`--migrate-memory`): what the policy of it ([`follow`](crate::policy::locality::follow))
//! is told of the processes that run, and its wishes as orders.
//!
//! At most one order is given in a tick. A tick with this takes memory. Where a task has settled is known of those
//! whose processes run on several nodes: there parts of the memory follow ([`extents`]).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::memory::Order;
use crate::policy::locality::decide::MIN_BUSY;
use crate::policy::locality::extents::{Extents, Finding, Touched};
use crate::policy::locality::follow::{
    Batch, Follow, MOST_SETTLING_MS, Resident, Wish, has_settled, settling_ms,
};
use crate::policy::locality::ledger::{Ledger, TaskKey};
use crate::policy::locality::view::{Stay, Steps};
use crate::policy::observation::{Observation, Shape};

use super::looks::Looks;

/// The tasks of a process that run.
#[derive(Debug, Clone)]
struct Process {
    tgid: i32,
    nodes: u64,
    stuck: bool,
    /// Where in a list of shares its own are, if they are known.
    shares: Option<Range<usize>>,
}

impl Process {
    fn is_spread(&self) -> bool {
        self.nodes.count_ones() > 1
    }
}

/// What a tick knew and decided.
#[derive(Debug, Clone, Copy)]
pub struct Decided<'a> {
    pub obs: &'a Observation,
    pub steps: &'a Steps,
    pub shape: &'a Shape,
    pub now_ms: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Following {
    follow: Follow,
    wishes: Vec<Wish>,
    stays: Vec<Option<Stay>>,
    processes: Vec<Process>,
    /// By process on several nodes.
    parts: BTreeMap<i32, Parts>,
    /// Where a task was seen last, since when, and when.
    places: BTreeMap<TaskKey, Place>,
}

/// What touches tell of a process; found anew when there are more of them, and now and then.
#[derive(Debug, Default)]
struct Parts {
    extents: Extents,
    finding: Finding,
    /// `None`: there is something new.
    found_ms: Option<u64>,
}

impl Parts {
    fn find(&mut self, now_ms: u64, node: impl Fn(TaskKey) -> Option<u16>) -> Finding {
        let young = |at: u64| now_ms.saturating_sub(at) < MOST_SETTLING_MS;
        if !self.found_ms.is_some_and(young) {
            self.finding = self.extents.find(now_ms, node);
            self.found_ms = Some(now_ms);
        }
        self.finding
    }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    node: u16,
    since_ms: u64,
    /// Since when it has been stuck there ([`is_stuck`]); now, if it is not.
    stuck_ms: u64,
    seen_ms: u64,
}

/// A task of known memory that goes nowhere: it cannot, or has nothing to win by it, since its memory is on no node in
/// particular, next door, or mostly here. Those that may go as soon as a rest or a budget allows are not.
fn is_stuck(stay: Option<Stay>) -> bool {
    let Some(stay) = stay else { return false };
    stay.is_refusal()
        || matches!(
            stay,
            Stay::Waiting | Stay::Affinity | Stay::NoPreference | Stay::TinyGain | Stay::AtHome
        )
}

impl Following {
    /// `rate`: pages per second.
    pub fn new(rate: u64) -> Self {
        Self {
            follow: Follow::new(rate, 0),
            wishes: Vec::new(),
            stays: Vec::new(),
            processes: Vec::new(),
            parts: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    /// What a look at a process has told of single tasks.
    pub fn touched(&mut self, tgid: i32, touched: &[Touched], at_ms: u64) {
        if let Some(parts) = self.parts.get_mut(&tgid) {
            parts.extents.touched(touched, at_ms);
            parts.found_ms = None;
        }
    }

    /// Order what is wished for now; whether something was.
    pub fn tick(
        &mut self,
        on: Decided<'_>,
        ledger: &Ledger,
        looks: &mut Looks,
        mut send: impl FnMut(Order) -> bool,
    ) -> bool {
        self.find_processes(on);
        self.find_places(on);
        let findings = self.findings(on.now_ms, looks);
        let shares = self.find_shares(ledger);
        let processes = self.processes.iter().zip(findings);
        let residents = processes.filter_map(|(process, finding)| {
            let memory = ledger.memory_of(process.tgid, on.now_ms)?;
            Some(Resident {
                tgid: process.tgid,
                standing: memory.standing,
                policy: memory.policy,
                sampled_ms: memory.sampled_ms,
                nodes: process.nodes,
                stuck: process.stuck,
                pages: looks.resident(process.tgid),
                shares: shares.get(process.shares.clone()?)?,
                finding,
            })
        });
        let residents: Vec<Resident<'_>> = residents.collect();
        self.follow.tick(on.now_ms, &residents, &mut self.wishes);
        for wish in std::mem::take(&mut self.wishes) {
            match wish {
                Wish::Look { tgid } => {
                    looks.order_now(tgid, on.now_ms, &mut send);
                }
                Wish::Bring {
                    tgid,
                    to,
                    pages,
                    within,
                } => {
                    let at_ms = on.now_ms;
                    let bring = Order::Bring {
                        tgid,
                        to,
                        pages,
                        within,
                        at_ms,
                    };
                    if !send(bring) {
                        // Nothing was brought; the next tick tries again.
                        self.follow.brought(tgid, at_ms, Some(Batch::default()));
                    }
                }
            }
        }
        self.follow.is_under_way()
    }

    /// Each process once, ascending.
    fn find_processes(&mut self, on: Decided<'_>) {
        self.stays.clear();
        self.stays.resize(on.obs.tasks.len(), None);
        for &(task, stay) in &on.steps.stays {
            self.stays[task as usize] = Some(stay);
        }
        self.processes.clear();
        let tasks = on.obs.tasks.iter().zip(&self.stays);
        for (task, &stay) in tasks.filter(|(task, _)| task.busy >= MIN_BUSY) {
            let node = on.shape.llc_node.get(usize::from(task.llc));
            self.processes.push(Process {
                tgid: task.tgid,
                nodes: node.map_or(0, |node| 1 << node),
                stuck: is_stuck(stay),
                shares: None,
            });
        }
        self.processes.sort_by_key(|process| process.tgid);
        self.processes.dedup_by(|again, first| {
            let same = again.tgid == first.tgid;
            if same {
                first.nodes |= again.nodes;
                first.stuck &= again.stuck;
            }
            same
        });
    }

    /// Where the tasks of processes on several nodes are; of others nothing is kept.
    fn find_places(&mut self, on: Decided<'_>) {
        let several = self.processes.iter().filter(|process| process.is_spread());
        for process in several.clone() {
            self.parts.entry(process.tgid).or_default();
        }
        let several: Vec<i32> = several.map(|process| process.tgid).collect();
        for (task, &stay) in on.obs.tasks.iter().zip(&self.stays) {
            let node = on.shape.llc_node.get(usize::from(task.llc));
            let (Some(&node), true) = (node, several.binary_search(&task.tgid).is_ok()) else {
                continue;
            };
            let node = u16::from(node);
            let now = Place {
                node,
                since_ms: on.now_ms,
                stuck_ms: on.now_ms,
                seen_ms: on.now_ms,
            };
            let place = self.places.entry((task.slot, task.seq)).or_insert(now);
            match place.node == node {
                true => place.seen_ms = on.now_ms,
                false => *place = now,
            }
            if !is_stuck(stay) {
                place.stuck_ms = on.now_ms;
            }
        }
        let lately = |place: &Place| on.now_ms.saturating_sub(place.seen_ms) <= MOST_SETTLING_MS;
        self.places.retain(|_, place| lately(place));
    }

    /// Of all processes together.
    fn find_shares(&mut self, ledger: &Ledger) -> Vec<u16> {
        let mut shares = Vec::new();
        for process in &mut self.processes {
            let start = shares.len();
            let is_known = ledger.local_shares(process.tgid, &mut shares);
            process.shares = is_known.then_some(start..shares.len());
        }
        shares
    }

    /// Of each process.
    fn findings(&mut self, now_ms: u64, looks: &Looks) -> Vec<Finding> {
        let (parts, places) = (&mut self.parts, &self.places);
        let rate = self.follow.rate();
        let finding = |process: &Process| match parts.get_mut(&process.tgid) {
            Some(parts) if process.is_spread() => {
                let settling_ms = settling_ms(looks.resident(process.tgid), rate);
                let settled = |task: TaskKey| {
                    let place = places.get(&task)?;
                    let ago = |then: u64| now_ms.saturating_sub(then);
                    let (stayed, stuck) = (ago(place.since_ms), ago(place.stuck_ms));
                    has_settled(stayed, stuck, settling_ms).then_some(place.node)
                };
                parts.find(now_ms, settled)
            }
            _ => Finding::default(),
        };
        self.processes.iter().map(finding).collect()
    }

    /// What came of a batch; `None`: we could not touch the process. The tasks whose memory is near now are told
    /// `ledger`: by what it knew of them they would be sent back to where it was.
    pub fn brought(&mut self, tgid: i32, at_ms: u64, batch: Option<Batch>, ledger: &mut Ledger) {
        let done = self.follow.brought(tgid, at_ms, batch);
        if let (Some(part), Some(parts)) = (done, self.parts.get_mut(&tgid)) {
            // Of a part that was given up most is where it was.
            let has_come = batch.is_some_and(|batch| batch.refused <= batch.moved);
            for (task, permille) in parts
                .extents
                .tasks_of(part)
                .into_iter()
                .filter(|_| has_come)
            {
                ledger.brought(task, part.to.into(), permille);
            }
            parts.extents.brought(part, at_ms);
            parts.found_ms = None;
        }
    }

    /// Forget processes that are gone.
    pub fn retain(&mut self, process: impl Fn(i32) -> bool) {
        self.parts.retain(|&tgid, _| process(tgid));
        self.follow.retain(process);
    }
}
