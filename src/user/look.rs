// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that were given to a CPU and have not come back: are they still there, and does their CPU know of them?
//!
//! Looks cost a system call, so they are made only where the answer decides something, only at what was not
//! known to be runnable a moment ago, and only within a budget; beyond that the belief stands.

use std::ops::Range;

use super::dispatcher::Dispatcher;
use super::facts::{ASKED_AT_ONCE, Facts, Seen, State};
use super::tasks::{Counted, Task};

/// What was known of a task so long ago is still true.
const FRESH_NS: u64 = 200_000;
/// Whoever is seen on another CPU than the one that it was given to so long ago does not wait any more.
const BOUNCED_AFTER_NS: u64 = 1_000_000_000;

/// The CPU of a task that has not come back is woken after this time, then after twice this, and so on for so many
/// times.
const WAKE_AFTER_NS: u64 = 20_000_000;
const WAKE_DOUBLED: u32 = 5;

/// Looks for one placement, beyond the CPU where the task was; ...
const LOOKS_FOR_ONE: u32 = 8;
/// ... for all between two calls of [`Dispatcher::begin`]; ...
pub(super) const LOOKS_AT_ONCE: u32 = 128;
/// ... and for one sample of who runs.
const LOOKS_FOR_SAMPLE: usize = 256;

impl<F: Facts> Dispatcher<F> {
    /// Look at all that were given to these CPUs, but for those of whom that was known a moment ago, while there have
    /// not been enough looks.
    pub(super) fn look_at_cpus(&mut self, cpus: Range<usize>, now: u64) {
        let mut slots = std::mem::take(&mut self.looked);
        cpus.for_each(|cpu| self.stale_on(cpu, now, &mut slots));
        slots.truncate(self.looks as usize);
        self.looks -= slots.len() as u32;
        self.look_at(&slots, now);
        slots.clear();
        self.looked = slots;
    }

    /// Look at who was given to the CPU: is nobody there?
    pub(super) fn look_at_cpu(&mut self, cpu: usize, now: u64) -> bool {
        self.look_at_cpus(cpu..cpu + 1, now);
        self.is_empty(cpu)
    }

    /// Look at all that are believed to run, as far as the budget goes; those who had no turn this time are
    /// first the next.
    pub(super) fn sample(&mut self, now: u64) {
        let cpus = self.places.nr_cpus();
        let mut slots = std::mem::take(&mut self.looked);
        for _ in 0..cpus {
            self.turn = (self.turn + 1) % cpus;
            self.stale_on(self.turn, now, &mut slots);
            if slots.len() >= LOOKS_FOR_SAMPLE {
                slots.truncate(LOOKS_FOR_SAMPLE);
                break;
            }
        }
        self.look_at(&slots, now);
        slots.clear();
        self.looked = slots;
    }

    /// Add who was given to the CPU and was not known to be runnable a moment ago.
    fn stale_on(&self, cpu: usize, now: u64, slots: &mut Vec<u32>) {
        let is_stale = |&slot: &u32| {
            let known_at = self.tasks.get(slot).known_at;
            now.saturating_sub(known_at) >= FRESH_NS
        };
        slots.extend(self.counts.on(cpu).iter().copied().filter(is_stale));
    }

    /// Look at these tasks. Afterwards each is counted by what is known.
    pub(super) fn look_at(&mut self, slots: &[u32], now: u64) {
        self.tally.looks += slots.len() as u64;
        let (mut asked, mut seen) = (
            std::mem::take(&mut self.asked),
            std::mem::take(&mut self.seen),
        );
        for some in slots.chunks(ASKED_AT_ONCE) {
            asked.clear();
            asked.extend(some.iter().map(|&slot| self.tasks.get(slot).pid));
            self.facts.ask(&asked, &mut seen);
            for (&slot, &seen) in some.iter().zip(&seen) {
                self.note(slot, seen, now);
            }
        }
        (self.asked, self.seen) = (asked, seen);
    }

    /// What was seen of a task; `None`: it is gone.
    fn note(&mut self, slot: u32, seen: Option<Seen>, now: u64) {
        let alive = |seen: &Seen| seen.state != State::Ended;
        let Some(seen) = seen.filter(alive) else {
            // Until its parent has waited for it this is still known.
            self.note_end(slot, now, seen.map(|seen| seen.ran_ns));
            self.forget(slot);
            return;
        };
        let task = self.tasks.get_mut(slot);
        task.ran_ns = seen.ran_ns;
        let given = task.cpu;
        let cpu = self.places.by_id(seen.cpu).unwrap_or(given);
        let waits = now.saturating_sub(task.given_at) < BOUNCED_AFTER_NS;
        match seen.state {
            State::Runnable if task.counted == Counted::None => {
                // It has just been woken, and will be queued.
            }
            State::Runnable => {
                task.known_at = now;
                // While it waits it still has the CPU where it was. After a while it must have run: there, because
                // BPF has put it there.
                let cpu = if waits { given } else { cpu };
                self.count_as(slot, Counted::On(cpu));
            }
            State::Asleep if self.is_newborn(slot, seen.ran_ns, now) => {
                let llc = self.places.place(cpu).llc;
                self.count_as(slot, Counted::Newborn(llc));
            }
            State::Asleep => {
                self.tasks.get_mut(slot).born_at = None;
                self.uncount(slot);
            }
            State::Elsewhere | State::Ended => self.forget(slot),
        }
    }

    /// Young, and has hardly run.
    fn is_newborn(&self, slot: u32, ran_ns: u64, now: u64) -> bool {
        let task = self.tasks.get(slot);
        let young = |born: u64| now < born.saturating_add(self.times.newborn_ns);
        task.born_at.is_some_and(young) && task.charged_ns.max(ran_ns) < self.times.newborn_work_ns
    }

    /// The CPUs, by the kernel's ids, that a task was given to a while ago that has not come back; they are to be
    /// woken. BPF wakes a CPU just before it puts a task into that CPU's queue: one that falls asleep in
    /// between lets the task lie. For those that are awake it means nothing.
    pub fn overdue(&mut self, now: u64, mut wake: impl FnMut(u32)) {
        for cpu in 0..self.places.nr_cpus() {
            let mut late = false;
            for &slot in self.counts.on(cpu) {
                late |= is_late(self.tasks.get_mut(slot), now);
            }
            if late {
                wake(self.places.place(cpu).id);
            }
        }
    }

    /// As the last argument of a search: so many looks, not more.
    pub(super) fn looks_for_one(&self) -> u32 {
        LOOKS_FOR_ONE.min(self.looks)
    }
}

/// It was given to its CPU, or that was woken for it, so long ago that it is to be woken, which is noted.
fn is_late(task: &mut Task, now: u64) -> bool {
    let wait = WAKE_AFTER_NS << task.woken.min(WAKE_DOUBLED);
    let late = now.saturating_sub(task.woken_at) >= wait;
    if late {
        task.woken_at = now;
        task.woken += 1;
    }
    late
}
