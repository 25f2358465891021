// SPDX-License-Identifier: GPL-2.0-only
//! Which memory is near which CPUs, as a number from 0 to 1000.
//!
//! A node's own memory is 1000 near. That of another node with CPUs falls in a straight line with
//! the distance, to 0 at the largest distance of the machine. So where all other nodes are equally
//! far only the own memory counts, and where there are several levels memory next door is better
//! than memory across the machine. The kernel does the same in `score_nearby_nodes` for machines
//! without fixed groups of nodes; here it does for all, because a sum of parts of every page, each
//! counted with one weight, never counts a page twice.
//!
//! Memory of a node without CPUs belongs to the nodes that are nearest to it, wholly. Where all are,
//! it makes no difference between them.

use serde::{Deserialize, Serialize};

use crate::machine::{Machine, NodeIdx};

/// As near as can be.
pub const NEAREST: u16 = 1000;
/// The firmware's distance of a node to itself.
const LOCAL_DISTANCE: u32 = 10;

/// The places of memory and CPUs, in dense indices: nodes with CPUs first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Nodes with CPUs.
    cpu_nodes: usize,
    /// All nodes.
    nodes: usize,
    /// By node with CPUs, then by node: 0 to [`NEAREST`].
    nearness: Vec<u16>,
}

impl Places {
    /// The places of a machine.
    pub fn of(machine: &Machine) -> Self {
        let nodes = machine.nodes().len();
        let distance =
            |from: usize, to: usize| machine.distance(NodeIdx(from as u16), NodeIdx(to as u16));
        Self::by_distance(machine.nr_cpu_nodes(), nodes, distance)
    }

    /// `nodes` nodes of which the first `cpu_nodes` have CPUs, at these distances.
    pub fn by_distance(
        cpu_nodes: usize,
        nodes: usize,
        distance: impl Fn(usize, usize) -> u32,
    ) -> Self {
        let pairs = || (0..cpu_nodes).flat_map(|a| (0..cpu_nodes).map(move |b| (a, b)));
        let others = pairs().filter(|(a, b)| a != b);
        let farthest = others.map(|(a, b)| distance(a, b)).max().unwrap_or(0);
        let range = farthest.saturating_sub(LOCAL_DISTANCE);
        let between = |from: usize, to: usize| {
            let nearer = farthest.saturating_sub(distance(from, to)).min(range);
            (nearer * u32::from(NEAREST)).checked_div(range)
        };
        let without_cpus = |from: usize, to: usize| {
            let nearest = (0..cpu_nodes).map(|node| distance(node, to)).min();
            nearest == Some(distance(from, to))
        };
        let mut nearness = Vec::with_capacity(cpu_nodes * nodes);
        for from in 0..cpu_nodes {
            nearness.extend((0..nodes).map(|to| match to {
                _ if to == from => NEAREST,
                _ if to < cpu_nodes => between(from, to).unwrap_or(0) as u16,
                _ => NEAREST * u16::from(without_cpus(from, to)),
            }));
        }
        Self {
            cpu_nodes,
            nodes,
            nearness,
        }
    }

    /// Nodes with CPUs, which are the first.
    pub fn cpu_nodes(&self) -> usize {
        self.cpu_nodes
    }

    /// All nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// By node: how near its memory is to the CPUs of `node`.
    pub fn nearness_from(&self, node: usize) -> &[u16] {
        let start = node * self.nodes;
        self.nearness
            .get(start..start + self.nodes)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_all_are_equally_far_only_the_own_memory_is_near() {
        let places = Places::by_distance(3, 3, |a, b| if a == b { 10 } else { 21 });
        assert_eq!(places.nearness_from(1), [0, 1000, 0]);
        // Distances that say nothing are no reason to call everything near.
        let places = Places::by_distance(2, 2, |_, _| 10);
        assert_eq!(places.nearness_from(0), [1000, 0]);
    }

    #[test]
    fn nearness_falls_with_the_distance() {
        // A line of three: 20 next door, 30 across. (30 - 20) / (30 - 10) = 1 / 2.
        let places = Places::by_distance(3, 3, |a, b| 10 + 10 * a.abs_diff(b) as u32);
        assert_eq!(places.nearness_from(0), [1000, 500, 0]);
        assert_eq!(places.nearness_from(1), [500, 1000, 500]);
    }

    #[test]
    fn memory_without_cpus_belongs_to_the_nearest() {
        // Node 2 has no CPUs and hangs on node 1; node 3 is equally far from both.
        let row = [[10, 20, 40, 30], [20, 10, 17, 30]];
        let places = Places::by_distance(2, 4, |a, b| row[a][b]);
        assert_eq!(places.nearness_from(0), [1000, 0, 0, 1000]);
        assert_eq!(places.nearness_from(1), [0, 1000, 1000, 1000]);
    }
}
