// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that were given to a CPU and have not come back: are they still there, and does their CPU know of them?
//!
//! Looks cost a file of /proc each, so they are made only where the answer decides something, only at what was not
//! known to be runnable a moment ago, and only within a budget; beyond that the belief stands.

use super::dispatcher::Dispatcher;
use super::facts::{Facts, State};
use super::tasks::Counted;

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
const LOOKS_FOR_SAMPLE: u32 = 256;

impl<F: Facts> Dispatcher<F> {
    /// Look at a task that is believed to be on a CPU, unless that was known a moment ago or there have been
    /// enough looks. Afterwards it is counted by what is known.
    pub(super) fn look(&mut self, slot: u32, now: u64) {
        let task = self.tasks.get(slot);
        if now.saturating_sub(task.known_at) < FRESH_NS || self.looks == 0 {
            return;
        }
        self.looks -= 1;
        self.look_anyway(slot, now);
    }

    pub(super) fn look_anyway(&mut self, slot: u32, now: u64) {
        self.tally.looks += 1;
        let pid = self.tasks.get(slot).pid;
        let Some(seen) = self.facts.look(pid) else {
            // Until its parent has waited for it this is still known.
            let ran_ns = self.facts.runtime_ns(pid);
            self.note_end(slot, now, ran_ns);
            self.forget(slot);
            return;
        };
        let task = self.tasks.get_mut(slot);
        task.ran_ns = seen.ran_ns;
        let (given, newborn) = (task.cpu, task.born_at.is_some());
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
            State::Asleep if newborn && self.is_newborn(slot, now) => {
                let llc = self.places.place(cpu).llc;
                self.count_as(slot, Counted::Newborn(llc));
            }
            State::Asleep => {
                self.tasks.get_mut(slot).born_at = None;
                self.uncount(slot);
            }
            State::Elsewhere => self.forget(slot),
        }
    }

    /// Young, and has hardly run.
    fn is_newborn(&mut self, slot: u32, now: u64) -> bool {
        let task = self.tasks.get(slot);
        let young = task
            .born_at
            .is_some_and(|born| now < born.saturating_add(self.times.newborn_ns));
        let ran = |facts: &mut F, pid| facts.runtime_ns(pid).unwrap_or(u64::MAX);
        let (charged, pid) = (task.charged_ns, task.pid);
        young
            && charged < self.times.newborn_work_ns
            && ran(&mut self.facts, pid) < self.times.newborn_work_ns
    }

    /// Look at all that are believed to run, as far as the budget goes; those who had no turn this time are
    /// first the next.
    pub(super) fn sample(&mut self, now: u64) {
        let cpus = self.places.nr_cpus();
        let mut left = LOOKS_FOR_SAMPLE;
        for _ in 0..cpus {
            self.turn = (self.turn + 1) % cpus;
            let mut i = self.counts.on(self.turn).len();
            while i > 0 && left > 0 {
                i -= 1;
                let Some(&slot) = self.counts.on(self.turn).get(i) else {
                    continue;
                };
                if now.saturating_sub(self.tasks.get(slot).known_at) >= FRESH_NS {
                    left -= 1;
                    self.look_anyway(slot, now);
                }
            }
            if left == 0 {
                return;
            }
        }
    }

    /// The CPUs, by the kernel's ids, that a task was given to a while ago that has not come back; they are to be
    /// woken. BPF wakes a CPU just before it puts a task into that CPU's queue: one that falls asleep in
    /// between lets the task lie. For those that are awake it means nothing.
    pub fn overdue(&mut self, now: u64, mut wake: impl FnMut(u32)) {
        for cpu in 0..self.places.nr_cpus() {
            let mut late = false;
            for &slot in self.counts.on(cpu) {
                let task = self.tasks.get_mut(slot);
                let wait = WAKE_AFTER_NS << task.woken.min(WAKE_DOUBLED);
                if now.saturating_sub(task.woken_at) >= wait {
                    task.woken_at = now;
                    task.woken += 1;
                    late = true;
                }
            }
            if late {
                wake(self.places.place(cpu).id);
            }
        }
    }

    /// Look at who was given to the CPU: is nobody there?
    pub(super) fn look_at_cpu(&mut self, cpu: usize, now: u64) -> bool {
        let mut i = self.counts.on(cpu).len();
        while i > 0 {
            i -= 1;
            if let Some(&slot) = self.counts.on(cpu).get(i) {
                self.look(slot, now);
            }
        }
        self.is_empty(cpu)
    }

    /// As the last argument of a search: so many looks, not more.
    pub(super) fn looks_for_one(&self) -> u32 {
        LOOKS_FOR_ONE.min(self.looks)
    }
}
