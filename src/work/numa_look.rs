// SPDX-License-Identifier: GPL-2.0-only
//! How the leader of a process of `work numa-mem` looks where its threads have run and where their pages
//! are.
//!
//! A thread that waits for a CPU or sleeps uses no memory, so what counts of a thread is its run time: the
//! CPU time that the kernel gave it since the look before, divided among nodes as the pages that it worked
//! on there meanwhile. The thread counts those itself, and the clock is read here, so that the work is not
//! held up by system calls. In the first look nothing has run yet: there each thread counts once, where it
//! stands.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::clock::{self, Whose};
use super::cpus::NodeMap;
use super::numa_plan::Plan;
use super::numa_tally::{Left, ReportAt, Sample, Tally};
use super::numa_task::{ELSEWHERE, Memory, PLACES, WorkerSlot};
use super::pages::{Sampled, Share, User};

/// What the leader knows from its looks.
pub struct Look {
    has_shared: bool,
    pages: Vec<Sampled>,
    report_at: ReportAt,
    tally: Tally,
    refused: Option<i32>,
    /// By thread.
    seen: Vec<Seen>,
    /// CPU time of this thread, and system time of the others, before the first look.
    before: u64,
    system_before: u64,
}

/// What a thread had done at the last look.
#[derive(Debug, Clone, Copy)]
struct Seen {
    cpu: u64,
    done: [u64; PLACES],
}

impl Look {
    pub fn new(plan: &Plan, process: usize, memory: &Memory) -> Look {
        let mut rng = plan.rng(process, 0);
        let nothing = Seen {
            cpu: 0,
            done: [0; PLACES],
        };
        Look {
            has_shared: memory.has_shared(),
            pages: memory.samples(plan.sample_pages as usize, &mut rng),
            report_at: plan.report_at.clone().unwrap_or_default(),
            tally: Tally::default(),
            refused: None,
            seen: vec![nothing; plan.threads as usize],
            before: 0,
            system_before: 0,
        }
    }

    /// A look that was due at `due`; threads began at `start`.
    pub fn take(
        &mut self,
        start: u64,
        due: u64,
        workers: &[WorkerSlot],
        nodes: &NodeMap,
        left: &Left,
    ) {
        let first = self.tally.samples == 0;
        if first {
            self.before = clock::thread_cpu_time();
            self.system_before = others_system_time();
        }
        let at = clock::now().saturating_sub(start);
        let mut standing: Vec<u32> = workers.iter().map(WorkerSlot::node).collect();
        let users: Vec<Vec<User>> = match first {
            true => standing
                .iter()
                .map(|&node| vec![User { node, weight: 1.0 }])
                .collect(),
            false => workers
                .iter()
                .zip(&mut self.seen)
                .map(|(slot, seen)| run_time(slot, seen, nodes))
                .collect(),
        };
        standing.sort_unstable();
        standing.dedup();
        let sample = Sample {
            at,
            due: due.saturating_sub(start),
            local: self.local(&users).unwrap_or_default(),
            nodes: standing.len() as u32,
        };
        left.keep(self.tally.samples, sample);
        self.tally.add(sample, &self.report_at);
    }

    /// The use of memory by threads, each of which ran as told; `None` once the kernel has refused.
    fn local(&mut self, users: &[Vec<User>]) -> Option<Share> {
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
            pages.add_to(&mut share, users.iter().flatten());
        }
        for (pages, users) in local.iter().zip(users) {
            pages.add_to(&mut share, users);
        }
        Some(share)
    }

    /// Leaves everything behind, once the threads have ended.
    pub fn leave(&self, left: &Left) {
        let sum = |of: fn(&Sampled) -> usize| self.pages.iter().map(of).sum::<usize>() as u32;
        left.put(&self.tally);
        left.pages.store(sum(Sampled::len), Relaxed);
        left.absent.store(sum(Sampled::absent), Relaxed);
        left.known.store(sum(Sampled::known), Relaxed);
        left.moved.store(sum(Sampled::moved), Relaxed);
        left.refused
            .store(self.refused.unwrap_or(0) as u32, Relaxed);
        let looking = clock::thread_cpu_time().saturating_sub(self.before);
        left.looking.store(looking, Relaxed);
        let system = others_system_time().saturating_sub(self.system_before);
        left.system.store(system, Relaxed);
    }
}

/// System time of this process without that of the calling thread.
fn others_system_time() -> u64 {
    let own = clock::system_time(Whose::Thread);
    clock::system_time(Whose::Process).saturating_sub(own)
}

/// Where a thread has run since it was `seen`, by the kernel's ids of nodes, and for how long.
fn run_time(slot: &WorkerSlot, seen: &mut Seen, nodes: &NodeMap) -> Vec<User> {
    let begun = slot.cpu_begin.load(Acquire);
    if begun == 0 {
        return Vec::new();
    }
    let cpu = slot.cpu_time().unwrap_or(seen.cpu);
    let ran = cpu.saturating_sub(seen.cpu.max(begun)) as f64;
    seen.cpu = seen.cpu.max(cpu);
    let done: Vec<u64> = slot
        .done
        .iter()
        .zip(&mut seen.done)
        .map(|(now, before)| {
            let now = now.load(Relaxed);
            now - std::mem::replace(before, now)
        })
        .collect();
    let all: u64 = done.iter().sum();
    if all == 0 {
        // Not through with a stretch yet.
        let (node, weight) = (slot.node(), ran);
        return vec![User { node, weight }];
    }
    let share = |(place, done)| User {
        node: match place {
            ELSEWHERE => u32::MAX,
            place => nodes.ids().get(place).copied().unwrap_or(u32::MAX),
        },
        weight: ran * done as f64 / all as f64,
    };
    let places = done.into_iter().enumerate();
    places.filter(|&(_, done)| done > 0).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::super::shared::Shared;
    use super::*;

    #[test]
    fn run_time_is_divided_as_the_work() {
        let nodes = NodeMap::with_weights(&[(0, 4), (3, 4)]);
        let slots = Shared::<WorkerSlot>::new(1).unwrap();
        let (slot, mut seen) = (
            &slots[0],
            Seen {
                cpu: 0,
                done: [0; PLACES],
            },
        );
        let user = |node, weight| User { node, weight };
        assert!(run_time(slot, &mut seen, &nodes).is_empty());
        // It has begun with 5 s behind it, and ended 4 s of run time later.
        slot.cpu_begin.store(5_000, Relaxed);
        slot.cpu_end.store(9_000, Relaxed);
        slot.done[0].store(10, Relaxed);
        slot.done[1].store(30, Relaxed);
        let found = run_time(slot, &mut seen, &nodes);
        assert_eq!(found, [user(0, 1000.0), user(3, 3000.0)]);
        // Nothing since then; the time of a stretch that is not done counts where the thread is.
        slot.node.store(4, Relaxed);
        slot.cpu_end.store(9_500, Relaxed);
        assert_eq!(run_time(slot, &mut seen, &nodes), [user(3, 500.0)]);
        slot.cpu_end.store(9_600, Relaxed);
        slot.done[ELSEWHERE].store(1, Relaxed);
        assert_eq!(run_time(slot, &mut seen, &nodes), [user(u32::MAX, 100.0)]);
    }
}
