// SPDX-License-Identifier: GPL-2.0-only
//! Memory follows tasks (`--migrate-memory`): what the policy of it ([`follow`](crate::policy::locality::follow))
//! is told of the processes that run, and its wishes as orders.
//!
//! At most one batch is ordered in a tick. A tick with this takes memory.

use crate::memory::{Brought, Order};
use crate::policy::locality::decide::MIN_BUSY;
use crate::policy::locality::follow::{Batch, Follow, Resident, Wish};
use crate::policy::locality::ledger::Ledger;
use crate::policy::locality::view::{Stay, Steps, View};
use crate::policy::observation::{Observation, Shape};

use super::looks::Looks;

/// The tasks of a process that run.
#[derive(Debug, Clone, Copy)]
struct Process {
    tgid: i32,
    nodes: u64,
    stuck: bool,
    row: Option<u32>,
}

/// What a tick knew and decided.
#[derive(Debug, Clone, Copy)]
pub struct Decided<'a> {
    pub obs: &'a Observation,
    pub view: &'a View,
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
}

/// A task that cannot go to its memory, or whose memory is on no node in particular.
fn is_stuck(stay: Option<Stay>) -> bool {
    let Some(stay) = stay else { return false };
    stay.is_refusal() || matches!(stay, Stay::Waiting | Stay::Affinity | Stay::NoPreference)
}

impl Following {
    /// `rate`: pages per second.
    pub fn new(rate: u64) -> Self {
        Self {
            follow: Follow::new(rate, 0),
            wishes: Vec::new(),
            stays: Vec::new(),
            processes: Vec::new(),
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
        let residents = self.processes.iter().filter_map(|process| {
            let memory = ledger.memory_of(process.tgid, on.now_ms)?;
            let nodes = on.view.nodes as usize;
            let start = process.row? as usize * nodes;
            Some(Resident {
                tgid: process.tgid,
                standing: memory.standing,
                policy: memory.policy,
                sampled_ms: memory.sampled_ms,
                nodes: process.nodes,
                stuck: process.stuck,
                pages: looks.resident(process.tgid),
                scores: on.view.scores.get(start..start + nodes)?,
            })
        });
        let residents: Vec<Resident<'_>> = residents.collect();
        self.follow.tick(on.now_ms, &residents, &mut self.wishes);
        for wish in std::mem::take(&mut self.wishes) {
            match wish {
                Wish::Look { tgid } => {
                    looks.order_one(tgid, on.now_ms, &mut send);
                }
                Wish::Bring { tgid, to, pages } => {
                    let at_ms = on.now_ms;
                    let bring = Order::Bring {
                        tgid,
                        to,
                        pages,
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
        let tasks = on.obs.tasks.iter().zip(&on.view.tasks).zip(&self.stays);
        for ((task, seen), &stay) in tasks.filter(|((task, _), _)| task.busy >= MIN_BUSY) {
            let node = on.shape.llc_node.get(usize::from(task.llc));
            self.processes.push(Process {
                tgid: task.tgid,
                nodes: node.map_or(0, |node| 1 << node),
                stuck: is_stuck(stay),
                row: seen.row,
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

    /// What came of a batch; `None`: we could not touch the process.
    pub fn brought(&mut self, tgid: i32, at_ms: u64, brought: Option<&Brought>) {
        let batch = brought.map(|brought| Batch {
            moved: brought.moved,
            refused: brought.refused,
            finished: brought.finished,
        });
        self.follow.brought(tgid, at_ms, batch);
    }

    /// Forget processes that are gone.
    pub fn retain(&mut self, process: impl Fn(i32) -> bool) {
        self.follow.retain(process);
    }
}
