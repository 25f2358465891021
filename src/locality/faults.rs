// SPDX-License-Identifier: GPL-2.0-only
//! Minor faults since the last time, from counts that only grow.
//!
//! BPF counts per slot, from when the slot was given to its owner. A new owner is told by the slot's sequence
//! count. The memory of slots that were never used is never touched.

/// See the module.
#[derive(Debug)]
pub struct Faults {
    nodes: usize,
    /// By slot: whose the counts are.
    seq: Vec<u32>,
    /// By slot, then by node with CPUs: the counts at the last time.
    last: Vec<u64>,
    now: Vec<u64>,
    since: Vec<u32>,
}

impl Faults {
    pub fn new(slots: usize, nodes: usize) -> Self {
        Self {
            nodes,
            seq: vec![0; slots],
            last: vec![0; slots * nodes],
            now: vec![0; nodes],
            since: vec![0; nodes],
        }
    }

    /// What the owner of a slot has had since the last time, by node; `None` if that is nothing. `read` fills
    /// in the counts, and is false if there are none.
    pub fn since(
        &mut self,
        (slot, seq): (u32, u32),
        read: impl FnOnce(&mut [u64]) -> bool,
    ) -> Option<&[u32]> {
        self.now.fill(0);
        if !read(&mut self.now) {
            return None;
        }
        let (slot, nodes) = (slot as usize, self.nodes);
        let before = std::mem::replace(self.seq.get_mut(slot)?, seq);
        let last = self.last.get_mut(slot * nodes..(slot + 1) * nodes)?;
        if before != seq {
            last.fill(0);
        }
        for ((last, &now), since) in last.iter_mut().zip(&self.now).zip(&mut self.since) {
            let grown = now.saturating_sub(std::mem::replace(last, now));
            *since = grown.min(u32::MAX.into()) as u32;
        }
        self.since.iter().any(|&n| n > 0).then_some(&self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_differences_and_a_new_owner_begins_anew() {
        let mut faults = Faults::new(4, 2);
        let mut since = |seq, counts: [u64; 2]| {
            let read = |now: &mut [u64]| {
                now.copy_from_slice(&counts);
                true
            };
            faults.since((3, seq), read).map(<[u32]>::to_vec)
        };
        assert_eq!(since(2, [5, 1]), Some(vec![5, 1]));
        assert_eq!(since(2, [5, 1]), None);
        assert_eq!(since(2, [5, 9]), Some(vec![0, 8]));
        assert_eq!(since(4, [4, 0]), Some(vec![4, 0]));
        assert_eq!(since(4, [u64::MAX, 0]), Some(vec![u32::MAX, 0]));
        assert_eq!(faults.since((3, 4), |_| false), None);
        // Beyond the slots that were foreseen nothing is known.
        assert_eq!(
            faults.since((4, 2), |now| {
                now.fill(7);
                true
            }),
            None
        );
    }
}
