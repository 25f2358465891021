// SPDX-License-Identifier: GPL-2.0-only
//! Memory of a task or a process: how much of it is on which node.
//!
//! It is measured in the work of touching it, as programs say it; [`Params::page_ns`] of that work is a
//! page. Memory is where it was touched first ([`Memory::touch`]) until somebody brings it elsewhere
//! ([`Memory::bring`]); bringing changes where it is and never how much there is.
//!
//! [`Params::page_ns`]: super::hardware::Params::page_ns

use super::hardware::ONE;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Empty: there is none.
    by_node: Vec<u64>,
}

impl Memory {
    pub fn all(&self) -> u64 {
        self.by_node.iter().sum()
    }

    pub fn on(&self, node: usize) -> u64 {
        self.by_node.get(node).copied().unwrap_or(0)
    }

    /// The node of the memory at `work` of it, in the order of the nodes.
    pub fn node_at(&self, work: u64) -> usize {
        let mut before = 0;
        let node = self.by_node.iter().position(|&part| {
            before += part;
            work < before
        });
        node.unwrap_or(0)
    }

    pub fn clear(&mut self) {
        self.by_node = Vec::new();
    }

    /// Where it is, in millionths of it. Without memory it counts as local to `node`.
    pub fn shares(&self, node: usize, into: &mut Vec<(usize, u64)>) {
        into.clear();
        let all = self.all();
        if all == 0 {
            into.push((node, ONE));
            return;
        }
        let parts = self.by_node.iter().enumerate();
        into.extend(parts.filter(|&(_, &work)| work > 0).map(|(node, &work)| {
            let share = u128::from(work) * u128::from(ONE) / u128::from(all);
            (node, share as u64)
        }));
    }

    /// More of it was touched on `node` of so many `nodes`, by so much work.
    pub fn touch(&mut self, node: usize, nodes: usize, work: u64) {
        self.by_node.resize(nodes, 0);
        self.by_node[node] += work;
    }

    /// Bring so much of it to node `to`, from the other nodes in proportion to what they have; returns how
    /// much that was.
    pub fn bring(&mut self, to: usize, amount: u64) -> u64 {
        let elsewhere = self.all() - self.on(to);
        if elsewhere == 0 {
            return 0;
        }
        let amount = amount.min(elsewhere);
        let mut brought = 0;
        for (node, work) in self.by_node.iter_mut().enumerate() {
            if node != to {
                let part = u128::from(*work) * u128::from(amount) / u128::from(elsewhere);
                // What rounding leaves stays: a part of a page.
                *work -= part as u64;
                brought += part as u64;
            }
        }
        self.by_node[to] += brought;
        brought
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bringing_takes_from_all_others_and_loses_nothing() {
        let mut memory = Memory::default();
        assert_eq!(memory.bring(1, 10), 0, "there is none");
        memory.touch(0, 3, 600);
        memory.touch(1, 3, 100);
        memory.touch(2, 3, 300);
        assert_eq!(memory.bring(1, 90), 90);
        assert_eq!([0, 1, 2].map(|node| memory.on(node)), [540, 190, 270]);
        assert_eq!(memory.bring(1, u64::MAX), 810);
        assert_eq!([0, 1, 2].map(|node| memory.on(node)), [0, 1000, 0]);
        assert_eq!(memory.bring(1, 5), 0, "all is there");
        let mut shares = Vec::new();
        memory.shares(0, &mut shares);
        assert_eq!(shares, [(1, ONE)]);
        memory.touch(2, 3, 10);
        assert_eq!([0, 999, 1000].map(|work| memory.node_at(work)), [1, 1, 2]);
    }

    #[test]
    fn what_is_nowhere_is_local() {
        let (memory, mut shares) = (Memory::default(), vec![(7, 7)]);
        memory.shares(2, &mut shares);
        assert_eq!(shares, [(2, ONE)]);
    }
}
