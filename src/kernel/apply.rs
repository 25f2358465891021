// SPDX-License-Identifier: GPL-2.0-only
//! Writing wanted homes.
//!
//! A wish of the balancer that was not carried out by its next tick is withdrawn ([`Wishes`]): it was
//! decided on what is no longer so, and a task that sleeps would move on it much later.
//!
//! A wish names the sequence count of the slot it was decided for, so that it can never reach
//! another task that got the slot in the meantime: BPF ignores it then.

use thiserror::Error;

use super::intf::task_slot;
use super::load::Scheduler;
use super::mapped::MappedArray;
use crate::machine::{LlcIdx, Machine, NodeIdx};
use crate::policy::placement;

/// Why a wish could not be written.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WishError {
    #[error("no task {0} is seen by the scheduler")]
    NoSuchTask(i32),
    #[error("task {pid} may not use any CPU of node {node}")]
    NotAllowed { pid: i32, node: u32 },
}

/// What BPF reads: `seq << 32 | LLC + 1`.
fn wish(seq: u32, llc: LlcIdx) -> u64 {
    u64::from(seq) << 32 | (u64::from(llc.0) + 1)
}

/// Write the wish that thread `pid` moves to `llc` of dense node `node`.
fn want_llc(
    slots: &MappedArray<task_slot>,
    used: usize,
    pid: i32,
    node: u32,
    llc: LlcIdx,
) -> Result<(), WishError> {
    for i in 0..used.min(slots.len()) {
        let Some(slot) = slots.get(i) else { break };
        if slot.pid != pid || slot.seq % 2 == 1 || slot.seq == 0 {
            continue;
        }
        if slot.nodes & (1 << node) == 0 {
            return Err(WishError::NotAllowed { pid, node });
        }
        write_wanted(slots, i, wish(slot.seq, llc));
        return Ok(());
    }
    Err(WishError::NoSuchTask(pid))
}

/// The wishes of the last tick.
#[derive(Default)]
pub struct Wishes(Vec<(u32, u64)>);

impl Wishes {
    /// With room for `moves`, so that writing them takes no memory.
    pub fn with_capacity(moves: usize) -> Self {
        Self(Vec::with_capacity(moves))
    }

    /// Withdraw what is left of the last tick's wishes and write this one's: slots, each with its sequence
    /// count and the LLC that its owner shall go to.
    pub fn replace(&mut self, sched: &Scheduler<'_>, moves: impl Iterator<Item = (u32, u32, u16)>) {
        for (slot, old) in self.0.drain(..) {
            let still = sched.slots.get(slot as usize).map(|slot| slot.wanted);
            if still == Some(old) {
                write_wanted(&sched.slots, slot as usize, 0);
            }
        }
        for (slot, seq, llc) in moves {
            let wish = wish(seq, LlcIdx(llc));
            write_wanted(&sched.slots, slot as usize, wish);
            self.0.push((slot, wish));
        }
    }
}

fn write_wanted(slots: &MappedArray<task_slot>, i: usize, wish: u64) {
    if let Some(at) = slots.at(i) {
        // SAFETY: inside the mapping; `wanted` is ours to write, whole and aligned.
        unsafe { (&raw mut (*at.as_ptr()).wanted).write_volatile(wish) };
    }
}

impl Scheduler<'_> {
    /// Ask for thread `pid` to be moved to `node`, to the LLC there that a new task would get.
    ///
    /// # Errors
    /// When the scheduler does not see the thread, or the thread may not run there.
    pub fn want(&self, machine: &Machine, pid: i32, node: NodeIdx) -> Result<(), WishError> {
        let llcs = machine.nodes()[node.as_usize()].llcs.clone();
        let running: Vec<u32> = llcs.clone().map(|l| self.running(LlcIdx(l))).collect();
        let weight: Vec<u32> = llcs
            .clone()
            .map(|l| machine.llcs()[usize::from(l)].weight())
            .collect();
        let best = placement::fork_llc(&running, &weight, u64::MAX, 0).unwrap_or(0);
        let used = self.slot_counts().0 as usize;
        let llc = LlcIdx(llcs.start + best as u16);
        want_llc(&self.slots, used, pid, u32::from(node.0), llc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_never_zero_and_names_its_owner() {
        assert_eq!(wish(2, LlcIdx(0)), (2 << 32) | 1);
        assert_eq!(wish(0xffff_fffe, LlcIdx(1023)), 0xffff_fffe_0000_0400);
    }
}
