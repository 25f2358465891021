// SPDX-License-Identifier: GPL-2.0-only
//! Which addresses tasks work on, for the looks at their processes: taken from BPF's rings, where each is
//! used once.
//!
//! BPF counts per slot, from when the slot was given to its owner; a new owner is told by the slot's sequence
//! count. Nothing is read but what goes with an order.

use crate::memory::Touch;
use crate::policy::observation::TaskObs;

/// Addresses that are kept of a task; TOUCHES of src/bpf/intf.h.
pub const KEPT: usize = 64;
/// Tasks whose addresses go with one look; where there are more, they take turns.
const MOST_TASKS: usize = 32;

/// As BPF has it: the n-th address is at n modulo [`KEPT`].
#[derive(Debug, Clone, Copy)]
pub struct Ring {
    pub count: u64,
    pub at: [u64; KEPT],
}

/// See the module.
#[derive(Debug, Default)]
pub struct Touches {
    /// By slot: whose addresses were taken, and up to which.
    taken: Vec<(u32, u64)>,
    turn: usize,
}

impl Touches {
    pub fn new(slots: usize) -> Self {
        Self {
            taken: vec![(0, 0); slots],
            turn: 0,
        }
    }

    /// Add to `touched` what the process's tasks among `tasks` have worked on since they were asked before.
    /// `ring` reads a slot's.
    pub fn take(
        &mut self,
        tasks: &[TaskObs],
        tgid: i32,
        mut ring: impl FnMut(u32) -> Option<Ring>,
        touched: &mut Vec<Touch>,
    ) {
        let of_process = || tasks.iter().filter(|task| task.tgid == tgid);
        let count = of_process().count();
        let from = if count > MOST_TASKS {
            self.turn % count
        } else {
            0
        };
        self.turn = self.turn.wrapping_add(MOST_TASKS);
        for task in of_process().cycle().skip(from).take(count.min(MOST_TASKS)) {
            let (slot, seq) = (task.slot, task.seq);
            if let Some(ring) = ring(slot) {
                let new = self.since((slot, seq), &ring);
                touched.extend(new.map(|at| ((slot, seq), at)));
            }
        }
    }

    /// What a slot's owner has got since the last time, as far as it is still there.
    fn since(&mut self, (slot, seq): (u32, u32), ring: &Ring) -> impl Iterator<Item = u64> {
        let now = (seq, ring.count);
        let before = match self.taken.get_mut(slot as usize) {
            Some(taken) => std::mem::replace(taken, now),
            None => now,
        };
        let from = if before.0 == seq { before.1 } else { 0 };
        let from = from.max(ring.count.saturating_sub(KEPT as u64));
        (from..ring.count).map(|n| ring.at[n as usize % KEPT])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The n-th address is `base + n`.
    fn ring(base: u64, count: u64) -> Ring {
        let mut at = [0; KEPT];
        (0..count).for_each(|n| at[n as usize % KEPT] = base + n);
        Ring { count, at }
    }

    fn task(slot: u32, tgid: i32) -> TaskObs {
        TaskObs {
            slot,
            seq: 2,
            pid: slot as i32,
            tgid,
            llc: 0,
            busy: 1000,
            weight: 100,
            nodes: 3,
            moved_ms: u32::MAX,
        }
    }

    #[test]
    fn each_address_is_used_once_and_a_new_owner_begins_anew() {
        let mut touches = Touches::new(4);
        let mut since = |seq, ring: Ring| touches.since((3, seq), &ring).collect::<Vec<_>>();
        assert_eq!(since(2, ring(100, 3)), [100, 101, 102]);
        assert!(since(2, ring(100, 3)).is_empty());
        assert_eq!(since(2, ring(100, 4)), [103]);
        // What was overwritten is not there any more.
        let last: Vec<u64> = (136..200).collect();
        assert_eq!(since(2, ring(100, 100)), last);
        assert_eq!(since(4, ring(500, 2)), [500, 501]);
        // Beyond the slots that were foreseen nothing is known.
        assert_eq!(touches.since((4, 2), &ring(0, 9)).count(), 0);
    }

    #[test]
    fn a_process_of_many_tasks_takes_turns() {
        let mut touches = Touches::new(100);
        let tasks: Vec<TaskObs> = (0..100)
            .map(|slot| task(slot, 7 + slot as i32 % 2))
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        for count in 1..=2 {
            let mut touched = Vec::new();
            touches.take(&tasks, 8, |_| Some(ring(0, count)), &mut touched);
            assert!(touched.iter().all(|((slot, _), _)| slot % 2 == 1));
            let slots: std::collections::BTreeSet<u32> =
                touched.iter().map(|((slot, _), _)| *slot).collect();
            assert_eq!(slots.len(), MOST_TASKS);
            seen.extend(slots);
        }
        assert_eq!(seen.len(), 50);
        let mut touched = Vec::new();
        touches.take(&tasks, 8, |_| None, &mut touched);
        assert_eq!(touched, []);
    }
}
