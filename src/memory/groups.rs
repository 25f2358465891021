// SPDX-License-Identifier: GPL-2.0-only
//! Processes that share most of their memory belong together: they get a number.
//!
//! The number stays with the shared memory for as long as anybody is known to use it mostly, and is not used
//! again. One who is the only one so far has it too, so that the next one does not change where it belongs.

use std::collections::BTreeMap;

use super::maps::SharedId;

#[derive(Debug, Default)]
pub struct Groups {
    /// The memory that each process uses mostly.
    of: BTreeMap<i32, SharedId>,
    numbers: BTreeMap<SharedId, u32>,
    next: u32,
}

impl Groups {
    /// What a process shares most of its memory in.
    pub fn set(&mut self, tgid: i32, id: Option<SharedId>) {
        let before = self.of.remove(&tgid);
        if let Some(id) = id {
            self.of.insert(tgid, id);
            if !self.numbers.contains_key(&id) {
                self.numbers.insert(id, self.next);
                self.next = self.next.wrapping_add(1);
            }
        }
        let left = before.filter(|before| !self.of.values().any(|id| id == before));
        left.and_then(|id| self.numbers.remove(&id));
    }

    pub fn of(&self, tgid: i32) -> Option<u32> {
        let id = self.of.get(&tgid)?;
        self.numbers.get(id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_share_have_a_number() {
        let id = |inode| {
            Some(SharedId {
                device: (0, 1),
                inode,
            })
        };
        let mut groups = Groups::default();
        groups.set(1, id(7));
        groups.set(2, id(7));
        groups.set(3, id(8));
        groups.set(4, None);
        assert_eq!(groups.of(1), groups.of(2));
        assert_ne!(groups.of(1), groups.of(3));
        assert_eq!((groups.of(4), groups.of(5)), (None, None));
        let (seven, eight) = (groups.of(1), groups.of(3));
        groups.set(1, None);
        assert_eq!((groups.of(1), groups.of(2)), (None, seven));
        // The last one is gone: another number next time.
        groups.set(2, None);
        groups.set(2, id(7));
        assert!(groups.of(2) != seven && groups.of(2) != eight);
        groups.set(2, id(7));
        assert!(groups.of(2).is_some());
        assert_eq!(groups.numbers.len(), 2);
    }
}
