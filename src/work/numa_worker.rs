// SPDX-License-Identifier: GPL-2.0-only
//! A thread of `work numa-mem`: round after round it reads and writes all memory of its own, and all that
//! the threads of its process share.
//!
//! Threads do not wait for each other once all of all processes have begun. Each says after every 64 KiB
//! where it runs, and how much it has worked on there so far, so that its leader knows it a fraction of a
//! millisecond late. A stretch that is split between two nodes counts on the second.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::arena::{Arena, part_of};
use super::clock;
use super::numa_begin::Beginning;
use super::numa_plan::{FirstTouch, Order, Plan};
use super::numa_task::{ELSEWHERE, PLACES, Places, WorkerSlot};
use super::times::Recorder;
use super::watch::Watch;

/// Pages between two words about where a worker is: 64 KiB if they are of 4 KiB.
const STRETCH: u64 = 16;

/// A thread that works.
pub struct Worker {
    pub plan: Plan,
    pub process: usize,
    pub thread: usize,
    pub places: Places,
    pub beginning: Beginning,
    /// Of the run, in nanoseconds, if it has one.
    pub length: Option<u64>,
    pub shared: Option<Arc<Arena>>,
    pub local: Option<Arc<Arena>>,
}

impl Worker {
    /// Its life: a job of a crew of threads.
    pub fn live(&self) -> io::Result<()> {
        let slot = &self.places.workers_of(&self.plan, self.process)[self.thread];
        if self.plan.first_touch == FirstTouch::Threads {
            self.beginning.before_touching()?;
            self.touch();
        }
        self.beginning.before_start()?;
        let routes = self.routes();
        let mut times = Recorder::new()?;
        // The gate may open late, and the leader looks as soon as it does.
        slot.node
            .store(Watch::begin().node.saturating_add(1), Relaxed);
        let start = self.places.gate[0].pass()?;
        self.beginning.after_start()?;
        let mut progress = Progress::begin(slot, &self.places);

        let until = self.length.map_or(u64::MAX, |length| start + length);
        let (mut rounds, mut begun) = (0, start);
        'run: while self.plan.rounds.is_none_or(|wanted| rounds < wanted) {
            for (arena, page) in routes.iter().flat_map(Route::pages) {
                arena.work_on(page);
                progress.pages += 1;
                if progress.pages.is_multiple_of(STRETCH) {
                    progress.tell();
                    if clock::now() >= until {
                        break 'run;
                    }
                }
            }
            rounds += 1;
            let now = clock::now();
            times.record(now - begun);
            begun = now;
        }
        slot.end.store(clock::now(), Relaxed);
        slot.rounds.store(rounds, Relaxed);
        times.send(&slot.round_times);
        progress.end();
        Ok(())
    }

    fn touch(&self) {
        if let Some(local) = &self.local {
            local.touch(0..local.pages());
        }
        if let Some(shared) = &self.shared {
            let (part, parts) = self.plan.own_part(self.process, self.thread);
            shared.touch(part_of(shared.pages(), part, parts));
        }
    }

    /// The way of a round: its own memory, then what is shared.
    fn routes(&self) -> Vec<Route> {
        let mut rng = self.plan.rng(self.process, self.thread + 1);
        let (own_part, parts) = self.plan.own_part(self.process, self.thread);
        let mut route = |arena: &Arc<Arena>, part: usize, parts: usize| {
            let first = part_of(arena.pages(), part, parts).start;
            let shuffled = match self.plan.order {
                Order::Sequential => None,
                Order::Random => {
                    let mut pages: Vec<u32> = (0..arena.pages() as u32).collect();
                    rng.shuffle(&mut pages);
                    Some(pages)
                }
            };
            Route {
                arena: Arc::clone(arena),
                first,
                shuffled,
            }
        };
        let local = self.local.iter().map(|arena| (arena, 0, 1));
        let shared = self.shared.iter().map(|arena| (arena, own_part, parts));
        let all = local.chain(shared);
        all.map(|(arena, part, parts)| route(arena, part, parts))
            .collect()
    }
}

/// What a worker tells while it works.
struct Progress<'a> {
    slot: &'a WorkerSlot,
    places: &'a Places,
    watch: Watch,
    /// Pages worked on, up to now, up to the last word about it, and by place.
    pages: u64,
    told: u64,
    done: [u64; PLACES],
}

impl<'a> Progress<'a> {
    fn begin(slot: &'a WorkerSlot, places: &'a Places) -> Progress<'a> {
        let watch = Watch::begin();
        let node = watch.node.saturating_add(1);
        slot.first.store(node, Relaxed);
        slot.node.store(node, Relaxed);
        // SAFETY: takes no arguments.
        let thread = unsafe { libc::gettid() };
        slot.thread.store(thread as u32, Relaxed);
        // Not 0, which is "not yet"; and with it the leader sees the thread's id.
        slot.cpu_begin
            .store(clock::thread_cpu_time().max(1), Release);
        Progress {
            slot,
            places,
            watch,
            pages: 0,
            told: 0,
            done: [0; PLACES],
        }
    }

    fn tell(&mut self) {
        self.watch.look();
        let node = self.watch.node.saturating_add(1);
        self.slot.node.store(node, Relaxed);
        let place = self.places.nodes.node_of(self.watch.cpu);
        let place = place.map_or(ELSEWHERE, usize::from);
        self.done[place] += self.pages - self.told;
        self.told = self.pages;
        self.slot.done[place].store(self.done[place], Relaxed);
    }

    fn end(mut self) {
        self.tell();
        self.slot
            .node_changes
            .store(self.watch.node_changes, Relaxed);
        self.slot.pages.store(self.pages, Relaxed);
        self.slot.cpu_end.store(clock::thread_cpu_time(), Relaxed);
    }
}

/// An order of the pages of an arena.
struct Route {
    arena: Arc<Arena>,
    first: usize,
    shuffled: Option<Vec<u32>>,
}

impl Route {
    fn pages(&self) -> impl Iterator<Item = (&Arena, usize)> {
        let pages = self.arena.pages();
        (0..pages).map(move |at| match &self.shuffled {
            Some(order) => (&*self.arena, order[at] as usize),
            None => (&*self.arena, (self.first + at) % pages),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::{HugePages, Reach};
    use super::*;

    #[test]
    fn a_round_comes_by_every_page_once() {
        let arena = Arc::new(Arena::new(1, HugePages::Default, Reach::Process).unwrap());
        let pages = arena.pages();
        let mut backwards: Vec<u32> = (0..pages as u32).collect();
        backwards.reverse();
        for (first, shuffled) in [(0, None), (pages / 3, None), (7, Some(backwards))] {
            let route = Route {
                arena: Arc::clone(&arena),
                first,
                shuffled,
            };
            let mut seen: Vec<usize> = route.pages().map(|(_, page)| page).collect();
            assert_ne!(seen.is_sorted(), first > 0);
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..pages));
        }
    }
}
