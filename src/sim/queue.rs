// SPDX-License-Identifier: GPL-2.0-only
//! An LLC's queue of weighted virtual time, as in src/bpf/queue.bpf.h.
//!
//! One simplification: the kernel dispatcher has tasks that may not use all of an LLC wait in queues of
//! single CPUs. Here they wait in the LLC's queue, and CPUs that may not have them pass them over.

use std::collections::BTreeMap;

use super::clock::Time;
use super::task::Task;

/// A task owes at most so many slices.
const MAX_DEBT_SLICES: i64 = 100;
/// Tasks of a queue that are looked at from elsewhere.
const PULL_DEPTH: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub struct Queue {
    tasks: BTreeMap<(i64, u64), usize>,
    /// Virtual time of the latest task that it let run.
    pub clock: i64,
    /// Someone will look after it at the next tick.
    pub watched: bool,
    /// When a task was last taken from it.
    pub taken_at: Time,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub fn insert(&mut self, key: (i64, u64), task: usize) {
        let before = self.tasks.insert(key, task);
        assert!(before.is_none(), "two tasks at one place of a queue");
    }

    pub fn remove(&mut self, key: (i64, u64), now: Time) {
        let task = self.tasks.remove(&key);
        assert!(task.is_some(), "a waiting task is in no queue");
        self.taken_at = now;
    }

    /// The first that `may` have its turn.
    pub fn first(&self, may: impl Fn(usize) -> bool) -> Option<usize> {
        self.tasks.values().copied().find(|&task| may(task))
    }

    /// The same, looking at the first few only.
    pub fn first_of_few(&self, may: impl Fn(usize) -> bool) -> Option<usize> {
        let few = self.tasks.values().copied().take(PULL_DEPTH);
        few.into_iter().find(|&task| may(task))
    }

    pub fn tasks(&self) -> impl Iterator<Item = usize> {
        self.tasks.values().copied()
    }

    /// The clock goes with who runs.
    pub fn advance(&mut self, vtime: i64) {
        self.clock = self.clock.max(vtime);
    }
}

/// Give `task` a place in the virtual time of queue `dom`; `woken` limits what it saved up in its sleep.
pub fn enter(queues: &[Queue], task: &mut Task, dom: usize, woken: bool, slice_ns: u64) {
    let slice = slice_ns as i64;
    let clock = queues[dom].clock;
    if task.dom != dom {
        task.vtime += clock - queues[task.dom].clock;
        task.dom = dom;
    }
    if woken {
        task.vtime = task.vtime.max(clock - slice);
    }
    task.vtime = task.vtime.min(clock + MAX_DEBT_SLICES * slice);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_has_one_slice_of_credit_and_nobody_owes_for_ever() {
        let mut queues = [Queue::default(), Queue::default()];
        queues[0].clock = 1_000_000;
        queues[1].clock = 5_000;
        let mut task = Task::new(0, None, 0, 0);
        enter(&queues, &mut task, 0, true, 100);
        assert_eq!(task.vtime, 1_000_000 - 100);
        // What it is behind by goes with it.
        enter(&queues, &mut task, 1, false, 100);
        assert_eq!(task.vtime, 5_000 - 100);
        task.vtime = 50_000;
        enter(&queues, &mut task, 1, false, 100);
        assert_eq!(task.vtime, 5_000 + 100 * 100);
    }
}
