// SPDX-License-Identifier: GPL-2.0-only
//! The processes of `work numa-mem`: what they are to do, and the life of their leaders.
//!
//! A process's first thread, its leader, makes the memory, starts the workers, and from then on only looks
//! where they ([`numa_worker`](super::numa_worker)) and their pages are.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use clap::{Args, ValueEnum};
use fastrand::Rng;

use super::arena::{Arena, HugePages};
use super::clock;
use super::crew::Crew;
use super::futex::Gate;
use super::numa_tally::{Left, Sample, Tally};
use super::numa_worker::Worker;
use super::pages::{Sampled, Share};
use super::shared::{Shareable, Shared};
use super::times::Sent;

/// What processes and threads do; the same for all of them.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Processes to start.
    #[arg(long, value_name = "P", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub processes: u32,

    /// Threads of each process.
    #[arg(long, value_name = "T", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: u32,

    /// Memory of each process that all of its threads work on.
    #[arg(long, value_name = "MIB", default_value_t = 32,
          value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub shared_mib: u32,

    /// Memory of each thread that it alone works on.
    #[arg(long, value_name = "MIB", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub local_mib: u32,

    /// Who touches memory first and so decides on which node it is.
    #[arg(long, value_enum, default_value_t = FirstTouch::Threads)]
    pub first_touch: FirstTouch,

    /// In which order a thread works on pages.
    #[arg(long, value_enum, default_value_t = Order::Sequential)]
    pub order: Order,

    /// Huge pages: as the machine is set, wherever possible, or none.
    #[arg(long, value_enum, default_value_t = HugePages::Default)]
    pub huge_pages: HugePages,

    /// Rounds of each thread, instead of a time.
    #[arg(long, value_name = "N", conflicts_with = "seconds",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub rounds: Option<u64>,

    /// Time between two looks at where threads and pages are.
    #[arg(long, value_name = "MSEC", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub sample_ms: u64,

    /// How many pages of a process are looked at; an even sample if it has more.
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sample_pages: u32,

    /// Seed of random orders and of the sample of pages.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Who touches memory first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FirstTouch {
    /// Each thread its own memory, and an equal part of what is shared.
    Threads,
    /// The process's first thread all of it, before it starts the others.
    Main,
}

/// The order of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Ascending, of shared memory from the thread's own part on.
    Sequential,
    /// Random, for each thread another one, the same in each round.
    Random,
}

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
    /// [`clock::now`] when it was through.
    pub end: AtomicU64,
    pub round_times: Sent,
}

// SAFETY: atomics that are valid when zero, a `Shareable`, and a smaller alignment than a page.
unsafe impl Shareable for WorkerSlot {}

/// What all processes share.
#[derive(Clone)]
pub struct Places {
    pub gate: Arc<Shared<Gate>>,
    /// By process.
    pub left: Arc<Shared<Left>>,
    /// By process, then thread.
    pub workers: Arc<Shared<WorkerSlot>>,
}

impl Places {
    pub fn new(plan: &Plan) -> anyhow::Result<Places> {
        Ok(Places {
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

impl Plan {
    /// Threads of all processes.
    pub fn workers(&self) -> usize {
        self.processes as usize * self.threads as usize
    }

    /// Memory of all processes.
    pub fn total_mib(&self) -> u64 {
        let local = u64::from(self.threads) * u64::from(self.local_mib);
        u64::from(self.processes) * (u64::from(self.shared_mib) + local)
    }

    /// A generator for one purpose of one process.
    pub fn rng(&self, process: usize, purpose: usize) -> Rng {
        let mut all = Rng::with_seed(self.seed);
        let own = all.u64(..) ^ ((process as u64) << 32 | purpose as u64);
        Rng::with_seed(own)
    }
}

/// The memory of a process.
struct Memory {
    shared: Option<Arc<Arena>>,
    /// By thread; none of them, or all.
    local: Vec<Arc<Arena>>,
}

impl Memory {
    fn new(plan: &Plan) -> io::Result<Memory> {
        let arena = |mib| Arena::new(mib, plan.huge_pages).map(Arc::new);
        let locals = if plan.local_mib > 0 { plan.threads } else { 0 };
        Ok(Memory {
            shared: (plan.shared_mib > 0)
                .then(|| arena(plan.shared_mib))
                .transpose()?,
            local: (0..locals)
                .map(|_| arena(plan.local_mib))
                .collect::<io::Result<_>>()?,
        })
    }

    fn arenas(&self) -> impl Iterator<Item = &Arena> {
        self.shared.iter().chain(&self.local).map(|arena| &**arena)
    }

    /// A sample of each piece, shared memory first, in proportion to their sizes.
    fn samples(&self, limit: usize, rng: &mut Rng) -> Vec<Sampled> {
        let all: usize = self.arenas().map(Arena::pages).sum();
        let own = |pages: usize| (pages as u128 * limit as u128 / all.max(1) as u128) as usize;
        self.arenas()
            .map(|arena| Sampled::new(arena.start(), arena.pages(), own(arena.pages()), rng))
            .collect()
    }
}

/// The life of a process: a job of a crew. `length` is that of the run in nanoseconds, if it has one.
pub fn lead(plan: &Plan, process: usize, places: &Places, length: Option<u64>) -> io::Result<()> {
    let memory = Memory::new(plan)?;
    if plan.first_touch == FirstTouch::Main {
        memory
            .arenas()
            .for_each(|arena| arena.touch(0..arena.pages()));
    }
    let mut look = Look::new(plan, process, &memory);
    let mut crew = Crew::threads();
    for thread in 0..plan.threads as usize {
        let worker = Worker {
            plan: plan.clone(),
            process,
            thread,
            places: places.clone(),
            length,
            shared: memory.shared.clone(),
            local: memory.local.get(thread).cloned(),
        };
        let started = crew.start(format!("thread {thread}"), move || worker.live());
        started.map_err(plain)?;
    }
    let start = loop {
        if let Some(start) = places.gate[0].opened() {
            break start;
        }
        crew.all_ended().map_err(plain)?;
        clock::sleep(1_000_000);
    };
    let period = plan.sample_ms * 1_000_000;
    let workers = places.workers_of(plan, process);
    let left = &places.left[process];
    let mut due = start;
    loop {
        let ended = crew.all_ended().map_err(plain)?;
        look.take(start, workers, left);
        if ended {
            break;
        }
        // The next of the common times that has not passed.
        due += period * (clock::now().saturating_sub(due) / period + 1);
        while clock::now() < due && !crew.all_ended().map_err(plain)? {
            clock::sleep_until(due.min(clock::now() + 20_000_000));
        }
    }
    look.leave(left);
    crew.wait().map_err(plain)
}

/// A process can only tell an error number when it fails.
fn plain(error: anyhow::Error) -> io::Error {
    error.downcast().unwrap_or_else(io::Error::other)
}

/// What the leader does while others work.
struct Look {
    has_shared: bool,
    pages: Vec<Sampled>,
    tally: Tally,
    refused: Option<i32>,
    /// CPU time of this thread before its first look.
    before: u64,
}

impl Look {
    fn new(plan: &Plan, process: usize, memory: &Memory) -> Look {
        let mut rng = plan.rng(process, 0);
        Look {
            has_shared: memory.shared.is_some(),
            pages: memory.samples(plan.sample_pages as usize, &mut rng),
            tally: Tally::default(),
            refused: None,
            before: 0,
        }
    }

    fn take(&mut self, start: u64, workers: &[WorkerSlot], left: &Left) {
        if self.tally.samples == 0 {
            self.before = clock::thread_cpu_time();
        }
        let at = clock::now().saturating_sub(start);
        // All of them have told a node before the gate was opened.
        let node = |slot: &WorkerSlot| slot.node.load(Relaxed).wrapping_sub(1);
        let users: Vec<u32> = workers.iter().map(node).collect();
        let mut distinct = users.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let sample = Sample {
            at,
            local: self.local(&users),
            nodes: distinct.len() as u32,
        };
        left.keep(self.tally.samples, sample);
        self.tally.add(sample);
    }

    /// The share of local use by threads on the nodes `users`; `None` once the kernel has refused.
    fn local(&mut self, users: &[u32]) -> Option<f64> {
        if self.refused.is_some() {
            return None;
        }
        for pages in &mut self.pages {
            if let Err(error) = pages.ask() {
                self.refused = Some(error.raw_os_error().unwrap_or(libc::EIO));
                return None;
            }
        }
        let mut share = Share::default();
        let (shared, local) = self.pages.split_at(usize::from(self.has_shared));
        for pages in shared {
            pages.add_to(&mut share, users.iter().copied());
        }
        for (pages, &user) in local.iter().zip(users) {
            pages.add_to(&mut share, [user]);
        }
        share.value()
    }

    fn leave(&self, left: &Left) {
        let sum = |of: fn(&Sampled) -> usize| self.pages.iter().map(of).sum::<usize>() as u32;
        left.put(&self.tally);
        left.pages.store(sum(Sampled::len), Relaxed);
        left.absent.store(sum(Sampled::absent), Relaxed);
        left.refused
            .store(self.refused.unwrap_or(0) as u32, Relaxed);
        let looking = clock::thread_cpu_time().saturating_sub(self.before);
        left.looking.store(looking, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: Plan,
        #[arg(long)]
        seconds: Option<u32>,
    }

    fn plan(line: &str) -> Plan {
        Line::parse_from(line.split(' ')).plan
    }

    #[test]
    fn memory_is_of_processes_and_of_threads() {
        let plan = plan("x --processes 3 --threads 4 --shared-mib 10 --local-mib 2");
        assert_eq!((plan.workers(), plan.total_mib()), (12, 3 * 18));
        let most = Plan {
            processes: u32::MAX,
            threads: 4096,
            shared_mib: 0,
            local_mib: 1 << 20,
            ..plan
        };
        assert_eq!(most.total_mib(), u64::from(u32::MAX) << 32);
    }

    #[test]
    fn pieces_are_sampled_in_proportion() {
        let plan = plan("x --threads 2 --shared-mib 2 --local-mib 1");
        let memory = Memory::new(&plan).unwrap();
        let lengths = |limit| -> Vec<usize> {
            let samples = memory.samples(limit, &mut plan.rng(0, 0));
            samples.iter().map(Sampled::len).collect()
        };
        assert_eq!(lengths(100), [50, 25, 25]);
        assert_eq!(lengths(1), [1, 1, 1]);
        let all: usize = memory.arenas().map(Arena::pages).sum();
        assert_eq!(lengths(1 << 30).iter().sum::<usize>(), all);
    }

    #[test]
    fn a_process_leaves_its_workers_behind() {
        let plan = plan("x --processes 1 --threads 3 --shared-mib 1 --local-mib 1 --rounds 4");
        let places = Places::new(&plan).unwrap();
        places.gate[0].open().unwrap();
        lead(&plan, 0, &places, None).unwrap();
        let pages = 4 * (2 << 20) / crate::memory::pages::page_size() as u64;
        for slot in places.workers_of(&plan, 0) {
            assert!(slot.first.load(Relaxed) > 0 && slot.end.load(Relaxed) > 0);
            assert_eq!(slot.rounds.load(Relaxed), 4);
            assert_eq!(slot.pages.load(Relaxed), pages);
        }
        assert!(places.workers_of(&plan, 1).is_empty());
        assert!(places.left[0].tally().samples >= 1);
    }

    #[test]
    fn every_purpose_has_numbers_of_its_own() {
        let plan = plan("x");
        let first = |process, purpose| plan.rng(process, purpose).u64(..);
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(2, 1));
        assert_ne!(first(0, 0), first(0, 1));
    }
}
