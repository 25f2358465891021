// SPDX-License-Identifier: GPL-2.0-only
//! Locality on the simulated machine: the scheduler's own [`Tracker`], and what stands for its memory thread.
//!
//! A look at a process finds its memory: what its threads share and what each has for itself. With
//! [`Evidence::Exact`] the counts are right to the page, with [`Evidence::Sampled`] addresses are drawn by chance,
//! as many as a real look asks for. Of each thread that has memory of its own there is a sample, too, as touches
//! give it (docs/locality.md). What was used since the last look is hot (R7). Answers come with the next tick.
//!
//! Not modelled: memory policies, shared mappings of several processes, first touch as a prior, pages that the
//! kernel refuses to move, and what a look costs, which is taken as [`LOOK_US`].

use crate::locality::hints::LiveSlot;
use crate::locality::mode::Mode;
use crate::locality::tracker::Tracker;
use crate::machine::limits::MAX_NODES;
use crate::memory::{Brought, Look, Order, Report};
use crate::policy::locality::areas::{Area, allot, order};
use crate::policy::locality::extents::{Extent, Touched};
use crate::policy::locality::input::{MemoryPolicy, NodePages, Sample};
use crate::policy::locality::ledger::TaskKey;

use super::extras::Evidence;
use super::hardware::Hardware;
use super::memory::Memory;
use super::task::{Process, Task};
use super::world::World;

/// CPU time of a look at 200 addresses of a gigabyte (docs/locality.md).
const LOOK_US: u32 = 103;
/// Addresses of one thread's own memory in a look, as src/bpf/intf.h keeps of them, and threads per look.
const TOUCHES: u64 = 64;
const TOUCHED_TASKS: usize = 32;
/// As `--look-budget-us` is by default.
const LOOK_BUDGET_US: u32 = 20_000;
/// A task's own memory begins at its number times so many pages, less than 64 TiB each; what threads share is below.
const OWN_PAGES: u64 = 1 << 34;
/// No simulated task.
const NOBODY: i32 = -1;
/// All owners of slots are the first ones: slots are not used again.
pub(super) const SEQ: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(super) struct Locality {
    pub tracker: Tracker,
    /// Answers for the next tick.
    reports: Vec<Report>,
    /// Processes that belong somewhere, ascending, with their nodes: as of the last tick.
    preferred: Vec<(i32, u64)>,
    /// Whose turn it is of a process's many threads.
    turn: usize,
}

impl Locality {
    pub fn new(hw: &Hardware, bring_rate: u64) -> Self {
        let limits = (0, LOOK_BUDGET_US);
        let mut tracker = Tracker::new(Mode::Sampled, hw.places.clone(), &hw.shape, limits, NOBODY);
        if bring_rate > 0 {
            tracker.bring_memory(bring_rate);
        }
        Self {
            tracker,
            reports: Vec::new(),
            preferred: Vec::new(),
            turn: 0,
        }
    }

    /// Take in the answers; whether tasks are to be looked at.
    pub fn begin(&mut self, at: u64) -> bool {
        for report in self.reports.drain(..) {
            self.tracker.report(report);
        }
        self.tracker.is_due(at)
    }

    /// Bit n: the process belongs on node n; 0: nowhere in particular.
    pub fn nodes_of(&self, tgid: i32) -> u64 {
        let at = self.preferred.binary_search_by_key(&tgid, |&(of, _)| of);
        at.map_or(0, |at| self.preferred[at].1)
    }
}

/// The process id of a task.
pub(super) fn tgid(processes: &[Process], task: &Task) -> i32 {
    processes[task.process].leader as i32
}

impl World<'_> {
    /// After a tick: carry out its orders, for the next one, and keep what it prefers.
    pub(super) fn follow_orders(&mut self, orders: Vec<Order>) {
        let (now, Some(mut locality)) = (self.now(), self.locality.take()) else {
            return;
        };
        for order in orders {
            let report = match order {
                Order::Look {
                    tgid,
                    addresses,
                    at_ms,
                    ..
                } => self.look(&mut locality, tgid, addresses, at_ms),
                Order::Bring {
                    tgid,
                    to,
                    pages,
                    within,
                    at_ms,
                } => self.bring_pages((tgid, within), usize::from(to), pages, at_ms),
            };
            locality.reports.push(report);
        }
        locality.preferred.clear();
        let preferred = locality.tracker.preferred(now);
        locality.preferred.extend(preferred);
        let (tasks, processes) = (&self.tasks, &self.processes);
        let alive = tasks.iter().enumerate().filter(|(_, task)| task.is_alive());
        let live = alive.map(|(id, task)| LiveSlot {
            slot: id as u32,
            seq: SEQ,
            tgid: tgid(processes, task),
        });
        if locality.tracker.forgets(now) {
            locality.tracker.forget(&live.collect::<Vec<_>>(), now);
        }
        self.locality = Some(locality);
    }

    fn members(&self, tgid: i32) -> Vec<usize> {
        let tasks = self.tasks.iter().enumerate();
        let of_it = |task: &Task| task.is_alive() && self::tgid(&self.processes, task) == tgid;
        let members = tasks.filter(|(_, task)| of_it(task));
        members.map(|(id, _)| id).collect()
    }

    fn look(&mut self, locality: &mut Locality, tgid: i32, addresses: u32, at_ms: u64) -> Report {
        let members = self.members(tgid);
        let (mut look, nodes) = (empty_look(at_ms), self.hw.nr_nodes());
        look.sample.pages = vec![NodePages::default(); nodes];
        if let Some(&first) = members.first() {
            self.sample_areas(&members, first, addresses, &mut look);
            let from = locality.turn % members.len();
            locality.turn = locality.turn.wrapping_add(TOUCHED_TASKS);
            let turn = members.iter().cycle().skip(from);
            for &id in turn.take(members.len().min(TOUCHED_TASKS)) {
                self.sample_own(id, &mut look);
            }
        }
        Report::Looked {
            tgid,
            at_ms,
            cost_us: LOOK_US,
            found: Ok(look),
        }
    }

    /// The process's areas, hot ones first (R7): what its threads share, and each one's own.
    fn sample_areas(&mut self, members: &[usize], first: usize, addresses: u32, look: &mut Look) {
        let process = self.tasks[first].process;
        let page_ns = self.hw.params.page_ns.max(1);
        let now_ms = look.sample.at_ms;
        let hot_first = self.setup.extras.hot_first;
        // By address: first the shared one, then by task.
        let mut areas = Vec::new();
        let mut add = |start: u64, memory: &Memory, used: u64| {
            let pages = memory.all() / page_ns;
            if pages > 0 {
                areas.push(Area {
                    start,
                    pages,
                    touched_ms: hot_first.then_some(used / 1_000_000).filter(|_| used > 0),
                    sampled_ms: None,
                });
            }
        };
        add(
            0,
            &self.processes[process].memory,
            self.processes[process].used_at,
        );
        for &id in members {
            let task = &self.tasks[id];
            add(own_start(id), &task.memory, task.used_at);
        }
        order(&mut areas, now_ms);
        look.resident = areas.iter().map(|area| area.pages).sum();
        let allotted = allot(&areas, addresses, now_ms);
        for (area, count) in areas.iter().zip(allotted) {
            let memory = match area.start {
                0 => &self.processes[process].memory,
                start => &self.tasks[(start / OWN_PAGES) as usize - 1].memory,
            };
            let exact = self.setup.extras.locality == Some(Evidence::Exact);
            draw(memory, count.into(), exact, &mut self.random, |node, n| {
                look.sample.pages[node].private += n;
            });
            look.sample.asked += count;
        }
    }

    /// What one thread works on, if it has memory of its own.
    fn sample_own(&mut self, id: usize, look: &mut Look) {
        let task = &self.tasks[id];
        let page_ns = self.hw.params.page_ns.max(1);
        let memory = &task.memory;
        let pages = (memory.all() / page_ns).min(TOUCHES);
        let alone = self.processes[task.process].threads == 1;
        // Of a process with one thread the look says it all.
        if pages == 0 || alone {
            return;
        }
        let mut sample = Sample {
            at_ms: look.sample.at_ms,
            asked: pages as u32,
            pages: vec![NodePages::default(); self.hw.nr_nodes()],
        };
        let exact = self.setup.extras.locality == Some(Evidence::Exact);
        draw(memory, pages, exact, &mut self.random, |node, n| {
            sample.pages[node].private += n;
        });
        let task: TaskKey = (id as u32, SEQ);
        // One page in the middle of each of as many equal parts.
        let all = memory.all() / page_ns;
        look.touched.extend((0..pages).map(|part| {
            let page = (all * (2 * part + 1)) / (2 * pages);
            Touched {
                task,
                page: own_start(id) + page,
                node: memory.node_at(page * page_ns) as u16,
                area: own_start(id),
            }
        }));
        look.tasks.push((task, sample));
    }

    /// Bring pages of a process, or of one of its threads, to a node; the shared ones first.
    fn bring_pages(
        &mut self,
        (tgid, within): (i32, Option<Extent>),
        to: usize,
        pages: u32,
        at_ms: u64,
    ) -> Report {
        let page_ns = self.hw.params.page_ns.max(1);
        let asked = u64::from(pages) * page_ns;
        let mut members = self.members(tgid);
        let mut left = asked;
        if let Some(extent) = within {
            // An extent is of one area, which is of one thread.
            members.retain(|&id| own_start(id) == extent.start - extent.start % OWN_PAGES);
        } else if let Some(&first) = members.first() {
            let process = self.tasks[first].process;
            left -= self.processes[process].memory.bring(to, left);
        }
        for id in members {
            left -= self.tasks[id].memory.bring(to, left);
        }
        self.tally.brought(asked - left);
        let moved = ((asked - left) / page_ns) as u32;
        Report::Brought {
            tgid,
            to: to as u16,
            within,
            at_ms,
            cost_us: moved,
            brought: Ok(Brought {
                moved,
                refused: 0,
                finished: left >= page_ns,
            }),
        }
    }
}

/// The first page of a task's own memory.
fn own_start(id: usize) -> u64 {
    (id as u64 + 1) * OWN_PAGES
}

fn empty_look(at_ms: u64) -> Look {
    Look {
        sample: Sample {
            at_ms,
            asked: 0,
            pages: Vec::new(),
        },
        tasks: Vec::new(),
        touched: Vec::new(),
        policy: MemoryPolicy::Free,
        group: None,
        resident: 0,
    }
}

/// So many pages of it, by node: in proportion, or by chance.
fn draw(
    memory: &Memory,
    count: u64,
    exact: bool,
    random: &mut fastrand::Rng,
    mut found: impl FnMut(usize, u32),
) {
    let all = memory.all();
    if all == 0 {
        return;
    }
    if exact {
        // What is up to and with a node, rounded, less what is before it: the counts sum up to `count`.
        let share = |work: u64| (u128::from(work) * u128::from(count) / u128::from(all)) as u64;
        let mut before = 0;
        for node in 0..MAX_NODES {
            let with = before + memory.on(node);
            found(
                node.min(MAX_NODES - 1),
                (share(with) - share(before)) as u32,
            );
            before = with;
            if before == all {
                break;
            }
        }
        return;
    }
    for _ in 0..count {
        let mut at = random.u64(0..all);
        let mut node = 0;
        while at >= memory.on(node) {
            at -= memory.on(node);
            node += 1;
        }
        found(node, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(exact: bool) -> [u32; 3] {
        let mut memory = Memory::default();
        memory.touch(0, 3, 50);
        memory.touch(2, 3, 150);
        let mut counts = [0; 3];
        let mut random = fastrand::Rng::with_seed(1);
        draw(&memory, 200, exact, &mut random, |node, n| {
            counts[node] += n
        });
        counts
    }

    #[test]
    fn exact_evidence_is_in_proportion_and_noise_is_around_it() {
        assert_eq!(drawn(true), [50, 0, 150]);
        let counts = drawn(false);
        assert_eq!((counts[1], counts.iter().sum::<u32>()), (0, 200));
        // Three standard deviations of 200 draws with a quarter's chance: 18.
        assert!(
            counts[0] != 50 && counts[0].abs_diff(50) <= 18,
            "{counts:?}"
        );
    }
}
