// SPDX-License-Identifier: GPL-2.0-only
//! Which pair of nodes is served next: that with the largest gap, the nearest on a tie, then the one
//! with the lowest first node.
//!
//! With many nodes a tick serves many pairs, and between two of them the loads of two nodes change at
//! most. So every node's own largest gap is kept, and only what a change can have moved is looked at
//! again: in proportion to the nodes, where looking at all pairs would be in proportion to their
//! square.
//!
//! Invariant: after [`PairQueue::begin`], [`PairQueue::close`] and [`PairQueue::changed`] every node's
//! entry is what a search of all its open pairs would find, provided that the size of a pair's gap
//! depends on these two nodes alone.

use super::observation::Shape;

/// A node's largest gap.
#[derive(Debug, Clone, Copy)]
struct Entry {
    to: usize,
    size: u64,
    /// Place of `to` in the node's order.
    rank: u8,
}

impl Entry {
    fn is_before(&self, other: &Entry) -> bool {
        self.size > other.size || (self.size == other.size && self.rank < other.rank)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PairQueue {
    nodes: usize,
    /// By pair: the second's place in the first's order; 0 for pairs that are not looked at.
    rank: Vec<u8>,
    /// By pair: settled for this tick.
    closed: Vec<bool>,
    /// By node.
    entries: Vec<Option<Entry>>,
}

impl PairQueue {
    pub fn new(shape: &Shape) -> Self {
        let nodes = shape.nodes();
        let mut rank = vec![0; nodes * nodes];
        for (node, order) in shape.order.iter().enumerate() {
            for (place, &to) in order.iter().enumerate().skip(1) {
                rank[node * nodes + usize::from(to)] = place as u8;
            }
        }
        Self {
            nodes,
            rank,
            closed: vec![false; nodes * nodes],
            entries: vec![None; nodes],
        }
    }

    /// A new tick. `size` is the size of the gap from one node to another, `None` if the two are left
    /// alone; everywhere below, too.
    pub fn begin(&mut self, size: impl Fn(usize, usize) -> Option<u64>) {
        self.closed.fill(false);
        for node in 0..self.nodes {
            self.search(node, &size);
        }
    }

    /// The pair to serve, from the fuller node.
    pub fn next(&self) -> Option<(usize, usize)> {
        let mut next: Option<(usize, &Entry)> = None;
        for (from, entry) in self.entries.iter().enumerate() {
            let Some(entry) = entry else { continue };
            if next.is_none_or(|(_, best)| entry.is_before(best)) {
                next = Some((from, entry));
            }
        }
        next.map(|(from, entry)| (from, entry.to))
    }

    /// The pair is settled for this tick.
    pub fn close(&mut self, from: usize, to: usize, size: impl Fn(usize, usize) -> Option<u64>) {
        self.closed[from * self.nodes + to] = true;
        if self.entries[from].is_some_and(|entry| entry.to == to) {
            self.search(from, &size);
        }
    }

    /// The loads of nodes `a` and `b` have changed.
    pub fn changed(&mut self, a: usize, b: usize, size: impl Fn(usize, usize) -> Option<u64>) {
        for from in 0..self.nodes {
            let is_stale = |entry: Entry| entry.to == a || entry.to == b;
            if from == a || from == b || self.entries[from].is_some_and(is_stale) {
                self.search(from, &size);
                continue;
            }
            for to in [a, b] {
                if let Some(entry) = self.entry(from, to, &size)
                    && self.entries[from].is_none_or(|best| entry.is_before(&best))
                {
                    self.entries[from] = Some(entry);
                }
            }
        }
    }

    fn entry(
        &self,
        from: usize,
        to: usize,
        size: &impl Fn(usize, usize) -> Option<u64>,
    ) -> Option<Entry> {
        let pair = from * self.nodes + to;
        let rank = self.rank[pair];
        if rank == 0 || self.closed[pair] {
            return None;
        }
        let size = size(from, to)?;
        Some(Entry { to, size, rank })
    }

    fn search(&mut self, from: usize, size: &impl Fn(usize, usize) -> Option<u64>) {
        let mut best: Option<Entry> = None;
        for to in 0..self.nodes {
            if let Some(entry) = self.entry(from, to, size)
                && best.is_none_or(|best| entry.is_before(&best))
            {
                best = Some(entry);
            }
        }
        self.entries[from] = best;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineBuilder;
    use proptest::prelude::*;

    /// What the first paragraph of the module says, by looking at all pairs.
    fn by_search(
        shape: &Shape,
        closed: &[(usize, usize)],
        loads: &[u64],
    ) -> Option<(usize, usize)> {
        let nodes = shape.nodes();
        let pairs = (0..nodes).flat_map(|from| {
            let others = shape.order[from].iter().enumerate().skip(1);
            others.map(move |(place, &to)| (from, usize::from(to), place))
        });
        let open = pairs.filter(|&(from, to, _)| {
            !closed.contains(&(from, to)) && size(loads, from, to).is_some()
        });
        let best = open.min_by_key(|&(from, to, place)| {
            (std::cmp::Reverse(size(loads, from, to)), place, from)
        });
        best.map(|(from, to, _)| (from, to))
    }

    fn size(loads: &[u64], from: usize, to: usize) -> Option<u64> {
        loads[from].checked_sub(loads[to]).filter(|&size| size > 1)
    }

    proptest! {
        #[test]
        fn the_next_pair_is_the_one_that_a_search_finds(
            mut loads in prop::collection::vec(0u64..9, 2..10),
            steps in prop::collection::vec((any::<bool>(), 0u64..9, 0u64..9, 0usize..10, 0usize..10), 0..60),
        ) {
            let nodes = loads.len();
            let machine = MachineBuilder::uniform(nodes as u32, 1, 1, 1).build().unwrap();
            let shape = Shape::of(&machine);
            let mut queue = PairQueue::new(&shape);
            let mut closed = Vec::new();
            queue.begin(|from, to| size(&loads, from, to));
            prop_assert_eq!(queue.next(), by_search(&shape, &closed, &loads));
            for (closes, load_a, load_b, a, b) in steps {
                let (a, b) = match queue.next() {
                    Some(next) if closes => next,
                    _ => (a % nodes, b % nodes),
                };
                if closes {
                    closed.push((a, b));
                    queue.close(a, b, |from, to| size(&loads, from, to));
                } else {
                    (loads[a], loads[b]) = (load_a, load_b);
                    queue.changed(a, b, |from, to| size(&loads, from, to));
                }
                prop_assert_eq!(queue.next(), by_search(&shape, &closed, &loads));
            }
        }
    }
}
