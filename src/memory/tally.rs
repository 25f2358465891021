// SPDX-License-Identifier: GPL-2.0-only
//! The answers of a look, counted by node.

use std::collections::BTreeMap;

use super::maps::SharedId;
use crate::policy::locality::input::NodePages;

/// See the module. Pages have weights; the result is as many pages as there were answers.
#[derive(Debug)]
pub struct Tally {
    /// By node: weights of private and of shared pages.
    nodes: Vec<(u64, u64)>,
    /// Weights of the pages of each shared mapping.
    shares: BTreeMap<SharedId, u64>,
    answers: u64,
}

impl Tally {
    pub fn new(nodes: usize) -> Self {
        Self {
            nodes: vec![(0, 0); nodes],
            shares: BTreeMap::new(),
            answers: 0,
        }
    }

    pub fn add(&mut self, node: usize, shared: Option<SharedId>, weight: u64) {
        self.answers += 1;
        match shared {
            None => self.nodes[node].0 += weight,
            Some(id) => {
                self.nodes[node].1 += weight;
                *self.shares.entry(id).or_default() += weight;
            }
        }
    }

    fn total(&self) -> u64 {
        self.nodes.iter().map(|node| node.0 + node.1).sum()
    }

    /// The shared mapping that more than half of the pages are in.
    pub fn mostly_in(&self) -> Option<SharedId> {
        let (&id, &most) = self.shares.iter().max_by_key(|(_, weight)| **weight)?;
        (most > self.total() / 2).then_some(id)
    }

    /// Pages by node, rounded.
    pub fn pages(&self) -> Vec<NodePages> {
        let total = self.total().max(1);
        let scaled = |weight: u64| ((weight * self.answers + total / 2) / total) as u32;
        let on = |&(private, shared): &(u64, u64)| NodePages {
            private: scaled(private),
            shared: scaled(shared),
        };
        self.nodes.iter().map(on).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(inode: u64) -> Option<SharedId> {
        Some(SharedId {
            device: (0, 1),
            inode,
        })
    }

    #[test]
    fn pages_of_half_full_areas_count_twice() {
        let mut tally = Tally::new(2);
        (0..50).for_each(|_| tally.add(0, None, 32));
        (0..100).for_each(|_| tally.add(1, None, 16));
        let pages: Vec<u32> = tally.pages().iter().map(|node| node.private).collect();
        assert_eq!(pages, [75, 75]);
    }

    #[test]
    fn more_than_half_is_most() {
        let mut tally = Tally::new(1);
        assert_eq!((tally.mostly_in(), tally.pages()[0].private), (None, 0));
        (0..10).for_each(|_| tally.add(0, None, 16));
        (0..10).for_each(|_| tally.add(0, id(5), 16));
        assert_eq!(tally.mostly_in(), None);
        tally.add(0, id(5), 16);
        assert_eq!(tally.mostly_in(), id(5));
        (0..5).for_each(|_| tally.add(0, id(6), 16));
        assert_eq!(tally.mostly_in(), None);
        let pages = tally.pages()[0];
        assert_eq!((pages.private, pages.shared), (10, 16));
    }
}
