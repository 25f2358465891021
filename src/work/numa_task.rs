// SPDX-License-Identifier: GPL-2.0-only
//! The processes of `work numa-mem`: what they share, and the life of their leaders.
//!
//! A process's first thread, its leader, makes the memory, starts the workers, and from then on only looks
//! ([`numa_look`](super::numa_look)) where they ([`numa_worker`](super::numa_worker)) and their pages are.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use anyhow::Context;
use fastrand::Rng;

use super::arena::{Arena, Reach, part_of};
use super::clock;
use super::cpus::NodeMap;
use super::crew::Crew;
use super::futex::Gate;
use super::numa_begin::Beginning;
use super::numa_look::Look;
use super::numa_plan::{FirstTouch, Plan};
use super::numa_tally::Left;
use super::numa_worker::Worker;
use super::pages::Sampled;
use super::shared::{Shareable, Shared};
use super::times::Sent;
use crate::machine::limits::MAX_NODES;

/// Places where a worker can be: nodes with CPUs by dense index, and one for CPUs that were not online
/// at the start.
pub const PLACES: usize = MAX_NODES + 1;
/// The number of that one.
pub const ELSEWHERE: usize = MAX_NODES;

/// What a worker leaves behind. Nodes are the kernel's, stored + 1; 0 is "not got there".
#[repr(align(64))]
pub struct WorkerSlot {
    /// Where it began, and where it is.
    pub first: AtomicU32,
    pub node: AtomicU32,
    pub node_changes: AtomicU32,
    pub rounds: AtomicU64,
    /// Pages worked on, over and over.
    pub pages: AtomicU64,
    /// The same by place, up to the last stretch.
    pub done: [AtomicU64; PLACES],
    /// The kernel's id of the thread; there once `cpu_begin` is.
    pub thread: AtomicU32,
    /// Its CPU time when it began to work, and when it was through; 0 before.
    pub cpu_begin: AtomicU64,
    pub cpu_end: AtomicU64,
    /// [`clock::now`] when it was through.
    pub end: AtomicU64,
    pub round_times: Sent,
}

// SAFETY: atomics that are valid when zero, a `Shareable`, and a smaller alignment than a page.
unsafe impl Shareable for WorkerSlot {}

impl WorkerSlot {
    /// The node where it said that it is.
    pub fn node(&self) -> u32 {
        self.node.load(Relaxed).wrapping_sub(1)
    }

    /// Its CPU time so far, once it has begun; `None` in the moment of its end.
    pub fn cpu_time(&self) -> Option<u64> {
        let end = || Some(self.cpu_end.load(Relaxed)).filter(|&end| end > 0);
        let now = || clock::cpu_time_of(self.thread.load(Relaxed) as libc::pid_t);
        end().or_else(now).or_else(end)
    }
}

/// What all processes share.
#[derive(Clone)]
pub struct Places {
    pub nodes: Arc<NodeMap>,
    /// Memory that the threads of all processes work on.
    pub common: Option<Arc<Arena>>,
    pub gate: Arc<Shared<Gate>>,
    /// By process.
    pub left: Arc<Shared<Left>>,
    /// By process, then thread.
    pub workers: Arc<Shared<WorkerSlot>>,
}

impl Places {
    pub fn new(plan: &Plan, nodes: NodeMap) -> anyhow::Result<Places> {
        let common = plan
            .shared_between_processes
            .then(|| arena(plan, plan.shared_mib, Reach::Children, &nodes))
            .transpose()
            .context("cannot make memory that processes share")?;
        Ok(Places {
            nodes: Arc::new(nodes),
            common,
            gate: Shared::new(1)?,
            left: Shared::new(plan.processes as usize)?,
            workers: Shared::new(plan.workers())?,
        })
    }

    /// The workers of a process.
    pub fn workers_of(&self, plan: &Plan, process: usize) -> &[WorkerSlot] {
        let threads = plan.threads as usize;
        let mut all = self.workers.chunks_exact(threads);
        all.nth(process).unwrap_or_default()
    }
}

/// Memory as planned, none of it touched yet.
fn arena(plan: &Plan, mib: u32, reach: Reach, nodes: &NodeMap) -> io::Result<Arc<Arena>> {
    let arena = Arena::new(mib, plan.huge_pages, reach)?;
    if let Some(policy) = plan.policy {
        policy.apply(&arena, nodes)?;
    }
    Ok(Arc::new(arena))
}

/// The memory of a process.
pub struct Memory {
    shared: Option<Arc<Arena>>,
    /// By thread; none of them, or all.
    local: Vec<Arc<Arena>>,
}

impl Memory {
    fn new(plan: &Plan, places: &Places) -> io::Result<Memory> {
        let arena = |mib| arena(plan, mib, Reach::Process, &places.nodes);
        let locals = if plan.local_mib > 0 { plan.threads } else { 0 };
        let shared = match &places.common {
            Some(common) => Some(Arc::clone(common)),
            None if plan.shared_mib > 0 => Some(arena(plan.shared_mib)?),
            None => None,
        };
        Ok(Memory {
            shared,
            local: (0..locals)
                .map(|_| arena(plan.local_mib))
                .collect::<io::Result<_>>()?,
        })
    }

    /// Whether the first of the [`Memory::samples`] is of shared memory.
    pub fn has_shared(&self) -> bool {
        self.shared.is_some()
    }

    fn arenas(&self) -> impl Iterator<Item = &Arena> {
        self.shared.iter().chain(&self.local).map(|arena| &**arena)
    }

    /// Touches all that is this process's own, and its part of what all processes share.
    fn touch(&self, plan: &Plan, process: usize) {
        if let Some(shared) = &self.shared {
            let parts = match plan.shared_between_processes {
                true => (process, plan.processes as usize),
                false => (0, 1),
            };
            shared.touch(part_of(shared.pages(), parts.0, parts.1));
        }
        for local in &self.local {
            local.touch(0..local.pages());
        }
    }

    /// A sample of each piece, shared memory first, in proportion to their sizes.
    pub fn samples(&self, limit: usize, rng: &mut Rng) -> Vec<Sampled> {
        let all: usize = self.arenas().map(Arena::pages).sum();
        let own = |pages: usize| (pages as u128 * limit as u128 / all.max(1) as u128) as usize;
        self.arenas()
            .map(|arena| Sampled::new(arena.start(), arena.pages(), own(arena.pages()), rng))
            .collect()
    }
}

/// What a process is to do.
pub struct Leader {
    pub plan: Plan,
    pub process: usize,
    pub places: Places,
    pub beginning: Beginning,
    /// Of the run, in nanoseconds, if it has one.
    pub length: Option<u64>,
}

impl Leader {
    /// The life of a process: a job of a crew of processes.
    pub fn live(&self) -> io::Result<()> {
        let memory = Memory::new(&self.plan, &self.places)?;
        if self.plan.first_touch == FirstTouch::Main {
            self.beginning.before_touching()?;
            memory.touch(&self.plan, self.process);
        }
        self.beginning.before_start()?;
        let mut look = Look::new(&self.plan, self.process, &memory);
        let mut crew = self.start_workers(&memory)?;
        let start = self.wait_for_start(&mut crew)?;
        self.beginning.after_start()?;
        self.watch(&mut look, &mut crew, start)?;
        look.leave(&self.places.left[self.process]);
        // Until here: workers that have ended have let go of theirs, and the last look asks for all of it.
        drop(memory);
        crew.wait().map_err(plain)
    }

    fn start_workers(&self, memory: &Memory) -> io::Result<Crew> {
        let mut crew = Crew::threads();
        for thread in 0..self.plan.threads as usize {
            let worker = Worker {
                plan: self.plan.clone(),
                process: self.process,
                thread,
                places: self.places.clone(),
                beginning: self.beginning.clone(),
                length: self.length,
                shared: memory.shared.clone(),
                local: memory.local.get(thread).cloned(),
            };
            let started = crew.start(format!("thread {thread}"), move || worker.live());
            started.map_err(plain)?;
        }
        Ok(crew)
    }

    fn wait_for_start(&self, crew: &mut Crew) -> io::Result<u64> {
        loop {
            if let Some(start) = self.places.gate[0].opened() {
                return Ok(start);
            }
            crew.all_ended().map_err(plain)?;
            clock::sleep(1_000_000);
        }
    }

    /// Looks at once, at the common times from `start` on, and when the workers are through.
    fn watch(&self, look: &mut Look, crew: &mut Crew, start: u64) -> io::Result<()> {
        let period = self.plan.sample_ms * 1_000_000;
        let workers = self.places.workers_of(&self.plan, self.process);
        let left = &self.places.left[self.process];
        let mut due = start;
        look.take(start, due, workers, &self.places.nodes, left);
        loop {
            // The next of the common times that has not passed.
            due += period * (clock::now().saturating_sub(due) / period + 1);
            let mut ended = crew.all_ended().map_err(plain)?;
            while clock::now() < due && !ended {
                clock::sleep_until(due.min(clock::now() + 20_000_000));
                ended = crew.all_ended().map_err(plain)?;
            }
            look.take(start, due, workers, &self.places.nodes, left);
            if ended {
                return Ok(());
            }
        }
    }
}

/// A process can only tell an error number when it fails.
fn plain(error: anyhow::Error) -> io::Error {
    error.downcast().unwrap_or_else(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::super::numa_plan::tests::plan;
    use super::*;

    fn places(plan: &Plan) -> Places {
        Places::new(plan, NodeMap::detect().unwrap()).unwrap()
    }

    #[test]
    fn pieces_are_sampled_in_proportion() {
        for flags in ["", " --shared-between-processes"] {
            let plan = plan(&format!(
                "x --threads 2 --shared-mib 2 --local-mib 1{flags}"
            ));
            let memory = Memory::new(&plan, &places(&plan)).unwrap();
            let lengths = |limit| -> Vec<usize> {
                let samples = memory.samples(limit, &mut plan.rng(0, 0));
                samples.iter().map(Sampled::len).collect()
            };
            assert_eq!(lengths(100), [50, 25, 25]);
            assert_eq!(lengths(1), [1, 1, 1]);
            let all: usize = memory.arenas().map(Arena::pages).sum();
            assert_eq!(lengths(1 << 30).iter().sum::<usize>(), all);
        }
    }

    #[test]
    fn a_process_leaves_its_workers_behind() {
        let plan = plan("x --processes 1 --threads 3 --shared-mib 1 --local-mib 1 --rounds 4");
        let places = places(&plan);
        places.gate[0].open().unwrap();
        let leader = Leader {
            beginning: Beginning::of(0, None, None, &places.nodes).unwrap(),
            plan: plan.clone(),
            process: 0,
            places: places.clone(),
            length: None,
        };
        leader.live().unwrap();
        let pages = 4 * (2 << 20) / crate::memory::pages::page_size() as u64;
        for slot in places.workers_of(&plan, 0) {
            assert!(slot.first.load(Relaxed) > 0 && slot.end.load(Relaxed) > 0);
            assert_eq!(slot.rounds.load(Relaxed), 4);
            assert_eq!(slot.pages.load(Relaxed), pages);
            let done: u64 = slot.done.iter().map(|done| done.load(Relaxed)).sum();
            assert_eq!(done, pages);
            let (begin, end) = (slot.cpu_begin.load(Relaxed), slot.cpu_end.load(Relaxed));
            assert!(0 < begin && begin < end && slot.cpu_time() == Some(end));
        }
        assert!(places.workers_of(&plan, 1).is_empty());
        let tally = places.left[0].tally();
        assert!(tally.samples >= 2);
        // All have run, and there is a share unless the kernel does not tell.
        let told = places.left[0].refused.load(Relaxed) == 0;
        assert_eq!(tally.local.value().is_some(), told);
    }
}
