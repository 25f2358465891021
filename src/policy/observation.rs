// SPDX-License-Identifier: GPL-2.0-only
//! What a dispatcher tells the policy at a tick.
//!
//! Values only, in integers, so that an observation can be recorded and replayed bit by bit. A
//! dispatcher fills the same [`Observation`] again and again; its vectors keep their memory.

use serde::{Deserialize, Serialize};

use crate::machine::{Machine, NodeIdx};

/// CPUs of a node: more in a file are a mistake, and would not add up.
pub(super) const MOST_CPUS: u32 = 1 << 20;

/// What does not change while the scheduler is loaded: the places, in dense indices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// By node with CPUs: the nodes in the order in which it looks for help, itself first.
    pub order: Vec<Vec<u8>>,
    /// By node: its online CPUs.
    pub weight: Vec<u32>,
    /// By node: its first LLC. Its LLCs are contiguous.
    pub first_llc: Vec<u16>,
    /// By LLC: its online CPUs.
    pub llc_weight: Vec<u32>,
    /// By LLC: its node.
    pub llc_node: Vec<u8>,
}

impl Shape {
    /// The places of a machine.
    pub fn of(machine: &Machine) -> Self {
        let nodes = machine.cpu_nodes();
        let order = |node: NodeIdx| {
            machine
                .nearest_first(node)
                .iter()
                .map(|n| n.0 as u8)
                .collect()
        };
        Self {
            order: nodes.iter().map(|node| order(node.idx)).collect(),
            weight: nodes.iter().map(|node| node.weight()).collect(),
            first_llc: nodes.iter().map(|node| node.llcs.start).collect(),
            llc_weight: machine.llcs().iter().map(|llc| llc.weight()).collect(),
            llc_node: machine.llcs().iter().map(|llc| llc.node.0 as u8).collect(),
        }
    }

    /// Nodes with CPUs.
    pub fn nodes(&self) -> usize {
        self.weight.len()
    }

    /// The LLCs of a node, as a range of dense indices.
    pub fn llcs_of(&self, node: usize) -> std::ops::Range<usize> {
        let start = usize::from(self.first_llc[node]);
        let end = self.first_llc.get(node + 1).map(|&llc| usize::from(llc));
        start..end.unwrap_or(self.llc_weight.len())
    }
}

/// A node at a tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeObs {
    /// Tasks that ran or waited, on average over the interval, in thousandths.
    pub running_milli: u32,
    /// Tasks that run or wait now.
    pub running: u32,
    /// Newborns asleep now (R6).
    pub newborn: u32,
    /// Average weight of the tasks that run or wait now; 100 is nice 0.
    pub task_weight: u32,
}

impl NodeObs {
    /// c over the interval, in whole tasks.
    pub fn committed_avg(&self) -> u32 {
        self.running_milli.saturating_add(500) / 1000 + self.newborn
    }

    /// c now.
    pub fn committed_now(&self) -> u32 {
        self.running + self.newborn
    }
}

/// A task that ran during the interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskObs {
    /// Its slot, and the slot's sequence count, which tells its owners apart.
    pub slot: u32,
    pub seq: u32,
    /// Thread id.
    pub pid: i32,
    /// Process id: tasks with the same one are a group.
    pub tgid: i32,
    /// LLC where it last ran, dense.
    pub llc: u16,
    /// Share of one CPU that it had over the interval, in thousandths.
    pub busy: u16,
    /// Its weight; 100 is nice 0.
    pub weight: u32,
    /// Bit n is set if it may use some CPU of node n.
    pub nodes: u64,
    /// Since it was last moved by a decision, in ms; `u32::MAX`: never.
    pub moved_ms: u32,
}

/// Everything that a tick decides by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The dispatcher's clock, in ns; for the record, nothing is decided by it.
    pub at: u64,
    /// By node with CPUs.
    pub nodes: Vec<NodeObs>,
    /// By LLC: committed tasks now.
    pub llcs: Vec<u32>,
    /// Tasks that ran, ascending by slot. Those that did not run cannot be moved (R10).
    pub tasks: Vec<TaskObs>,
    /// Pairs of nodes between which nothing is moved for now: earlier moves did not last.
    pub held: Vec<(u8, u8)>,
    /// Pairs, the fuller node first, whose excess has lasted so long that it moves tasks away from their memory as well.
    #[serde(default)]
    pub lasting: Vec<(u8, u8)>,
}

impl Observation {
    /// An empty one with room for `tasks` tasks, so that filling it takes no memory.
    pub fn for_shape(shape: &Shape, tasks: usize) -> Self {
        let nodes = shape.nodes();
        Self {
            at: 0,
            nodes: vec![NodeObs::default(); nodes],
            llcs: vec![0; shape.llc_weight.len()],
            tasks: Vec::with_capacity(tasks),
            held: Vec::with_capacity(nodes * nodes),
            lasting: Vec::with_capacity(nodes * nodes),
        }
    }
}
