// SPDX-License-Identifier: GPL-2.0-only
//! Locality between the daemon and BPF: preferred nodes go down, first-touch faults and touches come up.
//!
//! A preference is a hint that BPF looks at when the task is woken and when it starts a thread; the
//! limits come first, there as here. One that reaches the next owner of a slot, because the task ended
//! just then, lasts until the daemon looks again.

use thiserror::Error;

use super::intf::task_slot;
use super::load::Scheduler;
use crate::locality::touches::Ring;

/// Why a preference could not be written.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PreferError {
    #[error("no task {0} is seen by the scheduler")]
    NoSuchTask(i32),
    #[error("preferred nodes are not looked at: one node, or --locality off")]
    Off,
}

/// Does the slot belong to a task?
fn is_owned(slot: &task_slot) -> bool {
    slot.seq.is_multiple_of(2) && slot.seq != 0
}

/// Where the words of `slot` lie in a table of `nodes` words a slot, as src/bpf/slot.bpf.h has it.
fn words_of(slot: u32, nodes: usize) -> std::ops::Range<usize> {
    let first = slot as usize * nodes;
    first..first + nodes
}

impl Scheduler<'_> {
    /// Tell BPF where the task in `slot` belongs, one bit for each dense node; 0: nowhere in particular.
    /// Ignored if the slot has another owner than `seq` by now.
    pub fn set_preferred(&self, slot: u32, seq: u32, nodes: u64) {
        let Some(at) = self.slots.at(slot as usize) else {
            return;
        };
        // SAFETY: inside the mapping and aligned; `prefers` is ours to write, whole.
        unsafe {
            if (&raw const (*at.as_ptr()).seq).read_volatile() != seq {
                return;
            }
            let prefers = &raw mut (*at.as_ptr()).prefers;
            // A line that is not written stays in the caches of those that read it.
            if prefers.read_volatile() != nodes {
                prefers.write_volatile(nodes);
            }
        }
    }

    /// Minor faults of the slot's owner by dense CPU node since it got the slot, into `faults`; what is
    /// beyond the nodes stays. `false` if they are not collected.
    pub fn faults(&self, slot: u32, faults: &mut [u64]) -> bool {
        let Some(table) = &self.faults else {
            return false;
        };
        for (to, word) in faults.iter_mut().zip(words_of(slot, self.nodes)) {
            *to = table.get(word).unwrap_or(0);
        }
        true
    }

    /// The last addresses that the slot's owner seemed to work on; `None` if they are not collected.
    pub fn touches(&self, slot: u32) -> Option<Ring> {
        let ring = self.touches.as_ref()?.get(slot as usize)?;
        Some(Ring {
            count: ring.count,
            at: ring.at,
        })
    }

    /// Every thread of the process of thread `pid` belongs on `nodes` from now on.
    ///
    /// # Errors
    /// When the scheduler does not see the thread, or BPF would not look at it.
    pub fn prefer_process(&self, pid: i32, nodes: u64) -> Result<(), PreferError> {
        if !self.preferring {
            return Err(PreferError::Off);
        }
        let used = (self.slot_counts().0 as usize).min(self.slots.len());
        let slots = || {
            (0..used)
                .filter_map(|i| Some((i as u32, self.slots.get(i)?)))
                .filter(|(_, slot)| is_owned(slot))
        };
        let (_, found) = slots()
            .find(|(_, slot)| slot.pid == pid)
            .ok_or(PreferError::NoSuchTask(pid))?;
        for (i, slot) in slots().filter(|(_, slot)| slot.tgid == found.tgid) {
            self.set_preferred(i, slot.seq, nodes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_free_or_was_never_used_has_no_owner() {
        let with = |seq| task_slot {
            seq,
            ..Default::default()
        };
        assert!(is_owned(&with(2)));
        assert!(!is_owned(&with(3)));
        assert!(!is_owned(&with(0)));
    }

    #[test]
    fn words_of_slots_follow_each_other() {
        assert_eq!(words_of(0, 3), 0..3);
        assert_eq!(words_of(5, 3), 15..18);
        // The largest table does not fit into 32 bits of bytes, but its index does.
        assert_eq!(words_of(4_194_303, 64).end, 1 << 28);
    }
}
