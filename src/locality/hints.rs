// SPDX-License-Identifier: GPL-2.0-only
//! The preferred nodes in the slots, for BPF: where new threads go and which idle CPU is taken.
//!
//! Every thread of a process gets them, those that sleep as well. What was written is remembered by slot and
//! sequence count, so that only changes are written, and while no process's nodes change only slots with
//! a new owner are looked up. A new owner may have a hint that BPF gave it, its parent's, so it gets its
//! process's in any case.

/// A slot that belongs to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveSlot {
    pub slot: u32,
    pub seq: u32,
    pub tgid: i32,
}

/// See the module.
#[derive(Debug)]
pub struct Hints {
    /// By slot: for whom, and what.
    written: Vec<(u32, u64)>,
    /// Processes that belong somewhere, ascending: as of the last time, and now.
    last: Vec<(i32, u64)>,
    now: Vec<(i32, u64)>,
}

impl Hints {
    pub fn new(slots: usize) -> Self {
        Self {
            written: vec![(0, 0); slots],
            last: Vec::new(),
            now: Vec::new(),
        }
    }

    /// `preferred`: the processes that belong somewhere, ascending. `write` is given slot, sequence count and
    /// nodes.
    pub fn update(
        &mut self,
        live: &[LiveSlot],
        preferred: impl Iterator<Item = (i32, u64)>,
        mut write: impl FnMut(u32, u32, u64),
    ) {
        std::mem::swap(&mut self.last, &mut self.now);
        self.now.clear();
        self.now.extend(preferred);
        let same = self.last == self.now;
        for one in live {
            let Some(written) = self.written.get_mut(one.slot as usize) else {
                continue;
            };
            if same && written.0 == one.seq {
                continue;
            }
            let at = self.now.binary_search_by_key(&one.tgid, |&(tgid, _)| tgid);
            let nodes = at.map_or(0, |at| self.now[at].1);
            if *written != (one.seq, nodes) {
                write(one.slot, one.seq, nodes);
                *written = (one.seq, nodes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(
        hints: &mut Hints,
        live: &[(u32, u32, i32)],
        at: &[(i32, u64)],
    ) -> Vec<(u32, u32, u64)> {
        let live = live
            .iter()
            .map(|&(slot, seq, tgid)| LiveSlot { slot, seq, tgid });
        let live: Vec<LiveSlot> = live.collect();
        let mut written = Vec::new();
        let write = |slot, seq, nodes| written.push((slot, seq, nodes));
        hints.update(&live, at.iter().copied(), write);
        written
    }

    #[test]
    fn only_changes_are_written_to_every_thread() {
        let mut hints = Hints::new(8);
        let live = [(0, 2, 10), (1, 2, 10), (2, 2, 20)];
        assert_eq!(
            update(&mut hints, &live, &[]),
            [(0, 2, 0), (1, 2, 0), (2, 2, 0)]
        );
        let at = [(10, 1), (30, 2)];
        assert_eq!(update(&mut hints, &live, &at), [(0, 2, 1), (1, 2, 1)]);
        assert_eq!(update(&mut hints, &live, &at), []);
        // A new thread, a slot that another process got, and one that changed hands within the process.
        let live = [(0, 2, 10), (1, 4, 20), (2, 4, 10), (3, 2, 10)];
        assert_eq!(
            update(&mut hints, &live, &at),
            [(1, 4, 0), (2, 4, 1), (3, 2, 1)]
        );
        assert_eq!(
            update(&mut hints, &live, &[(10, 2)]),
            [(0, 2, 2), (2, 4, 2), (3, 2, 2)]
        );
        assert_eq!(
            update(&mut hints, &live, &[]),
            [(0, 2, 0), (2, 4, 0), (3, 2, 0)]
        );
    }
}
