// SPDX-License-Identifier: GPL-2.0-only
//! In which order a node looks at the others.
//!
//! Nearest first. Nodes at the same distance are ordered by a rotation that starts behind the node
//! itself: on four equidistant nodes, node 1 looks at 1, 2, 3, 0 and node 3 at 3, 0, 1, 2. With the
//! plain order of ids every full node would spill to node 0 first.

use super::{Machine, NodeIdx};

impl Machine {
    /// All nodes with CPUs, in the order in which `node` should look for help: itself, then by
    /// distance, ties by rotation (see the module). Nodes without CPUs never appear; asked about
    /// one of them, the answer begins with its nearest node.
    pub fn nearest_first(&self, node: NodeIdx) -> Vec<NodeIdx> {
        let with_cpus = self.nr_cpu_nodes() as u16;
        let behind = |other: NodeIdx| {
            if node.0 < with_cpus {
                (other.0 + with_cpus - node.0) % with_cpus
            } else {
                other.0
            }
        };
        let mut order: Vec<NodeIdx> = (0..with_cpus).map(NodeIdx).collect();
        order.sort_by_key(|&other| (other != node, self.distance(node, other), behind(other)));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineBuilder;

    fn order(machine: &Machine, node: u16) -> Vec<u16> {
        machine
            .nearest_first(NodeIdx(node))
            .iter()
            .map(|n| n.0)
            .collect()
    }

    #[test]
    fn equal_distances_rotate() {
        let machine = MachineBuilder::uniform(4, 1, 2, 1).build().unwrap();
        assert_eq!(order(&machine, 0), [0, 1, 2, 3]);
        assert_eq!(order(&machine, 1), [1, 2, 3, 0]);
        assert_eq!(order(&machine, 3), [3, 0, 1, 2]);
    }

    #[test]
    fn nearer_nodes_come_first() {
        let mut builder = MachineBuilder::uniform(4, 1, 2, 1);
        for (a, b) in [(0, 2), (1, 3)] {
            builder.distance(a, b, 12);
            builder.distance(b, a, 12);
        }
        let machine = builder.build().unwrap();
        assert_eq!(order(&machine, 0), [0, 2, 1, 3]);
        assert_eq!(order(&machine, 3), [3, 1, 0, 2]);
    }

    #[test]
    fn a_node_is_its_own_nearest_whatever_the_firmware_says() {
        let mut builder = MachineBuilder::uniform(2, 1, 1, 1);
        builder.distance(1, 1, 40);
        assert_eq!(order(&builder.build().unwrap(), 1), [1, 0]);
    }

    #[test]
    fn nodes_without_cpus_are_in_no_order() {
        let mut builder = MachineBuilder::uniform(2, 1, 2, 1);
        builder.node(5, Some(1024));
        builder.distance(5, 0, 30);
        builder.distance(5, 1, 15);
        let machine = builder.build().unwrap();
        assert_eq!(order(&machine, 0), [0, 1]);
        assert_eq!(order(&machine, 2), [1, 0]);
    }
}
