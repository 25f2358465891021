// SPDX-License-Identifier: GPL-2.0-only
//! Two nodes, tasks that go at once to where they shall, and a memory thread that answers as it should.

use std::collections::BTreeMap;

use scx_ballast::locality::hints::LiveSlot;
use scx_ballast::locality::mode::Mode;
use scx_ballast::locality::touches::{KEPT, Ring};
use scx_ballast::locality::tracker::Tracker;
use scx_ballast::machine::Machine;
use scx_ballast::machine::describe::Source;
use scx_ballast::memory::{Brought, Look, Order, Report, Touch, Unseen};
use scx_ballast::policy::compile::{Limits, NodeShape, Thresholds};
use scx_ballast::policy::engine::Engine;
use scx_ballast::policy::locality::evidence::{MemoryPolicy, NodePages, Sample};
use scx_ballast::policy::locality::extents::{Extent, Touched};
use scx_ballast::policy::locality::ledger::TaskKey;
use scx_ballast::policy::locality::places::Places;
use scx_ballast::policy::locality::view::{Stay, Step};
use scx_ballast::policy::observation::{NodeObs, Observation, Shape, TaskObs};
use scx_ballast::policy::rule_set::RuleSet;

/// What --look-budget-us is when nothing is said.
pub const BUDGET_US: u32 = 20_000;
/// This process's id, as the tracker is told.
pub const OWN: i32 = 1;
pub const TICK_MS: u64 = 100;
pub const NS_PER_MS: u64 = 1_000_000;
/// Pages of every process.
pub const RESIDENT: u64 = 10_000;

/// The memory of a process.
#[derive(Clone)]
pub struct Memory {
    pub pages: [u32; 2],
    pub policy: MemoryPolicy,
    pub group: Option<u32>,
    pub cost_us: u32,
}

pub fn on(pages: [u32; 2]) -> Memory {
    Memory {
        pages,
        policy: MemoryPolicy::Free,
        group: None,
        cost_us: 200,
    }
}

/// A sample for each task, of the pages at addresses that are their nodes.
pub fn samples(touched: &[Touch], at_ms: u64) -> Vec<(TaskKey, Sample)> {
    let of_task = |touched: &[Touch]| {
        let mut pages = vec![NodePages::default(); 2];
        for &(_, node) in touched {
            pages[node as usize].private += 1;
        }
        let asked = touched.len() as u32;
        let sample = Sample {
            at_ms,
            asked,
            pages,
        };
        (touched[0].0, sample)
    };
    touched.chunk_by(|a, b| a.0 == b.0).map(of_task).collect()
}

/// Two nodes of eight CPUs. Tasks go at once to where they shall.
pub struct World {
    pub tracker: Tracker,
    pub engine: Engine,
    pub shape: Shape,
    pub tasks: Vec<TaskObs>,
    pub moved_at: BTreeMap<u32, u64>,
    /// By process; those that are not here are gone.
    pub memory: BTreeMap<i32, Memory>,
    /// By slot: the node whose memory it works on, and how many addresses that were so far.
    pub touches: BTreeMap<u32, (u64, u64)>,
    /// By slot: the first of 16 pages that it is seen on at each look; they are where its touches are.
    pub pages: BTreeMap<u32, u64>,
    /// By slot: faults on either node so far.
    pub faults: BTreeMap<u32, [u64; 2]>,
    /// Orders that were not answered.
    pub orders: Vec<Order>,
    /// Room in the memory thread's queue.
    pub room: usize,
    pub now_ms: u64,
    /// Ticks in which tasks were looked at, and looks that were ordered.
    pub seen: u32,
    pub looked: BTreeMap<i32, u32>,
}

pub fn machine() -> Machine {
    let source: Source = "2 nodes x 8 cpus".parse().unwrap();
    source.machine(None).unwrap()
}

impl World {
    pub fn new(mode: Mode) -> Self {
        Self::with(mode, Thresholds::default())
    }

    pub fn with(mode: Mode, thresholds: Thresholds) -> Self {
        let machine = machine();
        let shape = Shape::of(&machine);
        let shapes = NodeShape::all(&machine);
        let limits = Limits::compile(RuleSet::Ballast, thresholds, &shapes);
        Self {
            tracker: Tracker::new(mode, Places::of(&machine), &shape, (64, BUDGET_US), OWN),
            engine: Engine::new(limits, shape.clone(), 64),
            shape,
            tasks: Vec::new(),
            moved_at: BTreeMap::new(),
            memory: BTreeMap::new(),
            touches: BTreeMap::new(),
            pages: BTreeMap::new(),
            faults: BTreeMap::new(),
            orders: Vec::new(),
            room: usize::MAX,
            now_ms: 10_000,
            seen: 0,
            looked: BTreeMap::new(),
        }
    }

    pub fn task(&mut self, tgid: i32, node: u16) -> u32 {
        let slot = self.tasks.len() as u32;
        self.tasks.push(TaskObs {
            slot,
            seq: 2,
            pid: 100 + slot as i32,
            tgid,
            llc: node,
            busy: 1000,
            weight: 100,
            nodes: 3,
            moved_ms: u32::MAX,
        });
        slot
    }

    pub fn node_of(&self, slot: u32) -> u16 {
        self.tasks[slot as usize].llc
    }

    pub fn observation(&self) -> Observation {
        let on = |node: u16| {
            self.tasks
                .iter()
                .filter(move |t| t.llc == node && t.busy > 500)
        };
        let counts = [on(0).count() as u32, on(1).count() as u32];
        let node = |&running: &u32| NodeObs {
            running_milli: running * 1000,
            running,
            newborn: 0,
            task_weight: 100,
        };
        let mut tasks = self.tasks.clone();
        for task in &mut tasks {
            let moved = self.moved_at.get(&task.slot);
            task.moved_ms = moved.map_or(u32::MAX, |at| (self.now_ms - at) as u32);
        }
        Observation {
            at: self.now_ms * NS_PER_MS,
            nodes: counts.iter().map(node).collect(),
            llcs: counts.to_vec(),
            tasks,
            held: Vec::new(),
            lasting: Vec::new(),
        }
    }

    /// A tick; what locality decided.
    pub fn tick(&mut self) -> Vec<Step> {
        self.now_ms += TICK_MS;
        for order in std::mem::take(&mut self.orders) {
            self.answer(order);
        }
        if !self.tracker.is_due(self.now_ms * NS_PER_MS) {
            return Vec::new();
        }
        self.seen += 1;
        let mut obs = self.observation();
        // Some addresses in each tick; the address is the node.
        self.touches
            .values_mut()
            .for_each(|(_, count)| *count += 20);
        let (faults, orders, room) = (&self.faults, &mut self.orders, self.room);
        let touches = &self.touches;
        self.tracker.tick(
            &mut self.engine,
            &mut obs,
            |slot, now| {
                faults.get(&slot).is_some_and(|faults| {
                    now.copy_from_slice(faults);
                    true
                })
            },
            |slot| {
                let &(node, count) = touches.get(&slot)?;
                let at = [node; KEPT];
                Some(Ring { count, at })
            },
            |order| {
                let fits = orders.len() < room;
                orders.extend(fits.then_some(order));
                fits
            },
        );
        for order in &self.orders {
            if let Order::Look { tgid, .. } = order {
                *self.looked.entry(*tgid).or_default() += 1;
            }
        }
        let live: Vec<LiveSlot> = self.tasks.iter().map(live).collect();
        self.tracker.forget(&live, obs.at);
        let steps = self.tracker.steps().map(|steps| steps.steps.clone());
        let steps = steps.unwrap_or_default();
        for step in &steps {
            self.tasks[step.slot as usize].llc = step.llc;
            self.moved_at.insert(step.slot, self.now_ms);
        }
        steps
    }

    pub fn ticks(&mut self, n: u32) -> Vec<Step> {
        (0..n).flat_map(|_| self.tick()).collect()
    }

    /// As the memory thread would.
    pub fn answer(&mut self, order: Order) {
        let (tgid, addresses, touched, at_ms) = match order {
            Order::Look {
                tgid,
                addresses,
                touched,
                at_ms,
            } => (tgid, addresses, touched, at_ms),
            Order::Bring {
                tgid,
                to,
                pages,
                within: None,
                at_ms,
            } => return self.bring((tgid, to), pages, at_ms),
            Order::Bring {
                tgid,
                within: Some(part),
                at_ms,
                ..
            } => return self.bring_part(tgid, part, at_ms),
        };
        let memory = self.memory.get(&tgid);
        let found = memory.map(|memory| {
            let page = |&private: &u32| NodePages { private, shared: 0 };
            Look {
                sample: Sample {
                    at_ms,
                    asked: addresses,
                    pages: memory.pages.iter().map(page).collect(),
                },
                tasks: samples(&touched, at_ms),
                touched: self.touched_pages(),
                policy: memory.policy,
                group: memory.group,
                resident: RESIDENT,
            }
        });
        self.tracker.report(Report::Looked {
            tgid,
            at_ms,
            cost_us: memory.map_or(20, |memory| memory.cost_us),
            found: found.ok_or(Unseen::Gone),
        });
    }

    /// Of two nodes, what is on the other one comes.
    pub fn bring(&mut self, (tgid, to): (i32, u16), pages: u32, at_ms: u64) {
        let memory = self.memory.get_mut(&tgid).unwrap();
        let other = &mut memory.pages[1 - usize::from(to)];
        // A sample's share of what is brought.
        let all = u64::from(pages) * 200 / RESIDENT;
        let moved = all.min(u64::from(*other)) as u32;
        *other -= moved;
        memory.pages[usize::from(to)] += moved;
        self.tracker.report(Report::Brought {
            tgid,
            to,
            within: None,
            at_ms,
            cost_us: 100,
            brought: Ok(Brought {
                moved: moved * (RESIDENT / 200) as u32,
                refused: 0,
                finished: u64::from(moved) < all,
            }),
        });
    }

    pub fn touched_pages(&self) -> Vec<Touched> {
        let pages = self.pages.iter().flat_map(|(&slot, &first)| {
            let node = self.touches[&slot].0 as u16;
            (first..first + 16).map(move |page| Touched {
                task: (slot, 2),
                page,
                node,
                area: 0,
            })
        });
        pages.collect()
    }

    /// All of it, and whoever is seen on it works there from now on.
    pub fn bring_part(&mut self, tgid: i32, part: Extent, at_ms: u64) {
        for (slot, &first) in &self.pages {
            if (part.start..part.end).contains(&first) {
                self.touches.get_mut(slot).unwrap().0 = part.to.into();
            }
        }
        self.tracker.report(Report::Brought {
            tgid,
            to: part.to,
            within: Some(part),
            at_ms,
            cost_us: 100,
            brought: Ok(Brought {
                moved: part.pages() as u32,
                refused: 0,
                finished: true,
            }),
        });
    }

    pub fn preferred(&self) -> Vec<(i32, u64)> {
        self.tracker.preferred(self.now_ms * NS_PER_MS).collect()
    }

    /// Why the task stayed in the last tick that looked.
    pub fn stay(&self, slot: u32) -> Option<Stay> {
        let stays = &self.tracker.steps()?.stays;
        let stay = stays.iter().find(|&&(task, _)| task == slot);
        stay.map(|&(_, stay)| stay)
    }
}

pub fn live(task: &TaskObs) -> LiveSlot {
    LiveSlot {
        slot: task.slot,
        seq: task.seq,
        tgid: task.tgid,
    }
}
