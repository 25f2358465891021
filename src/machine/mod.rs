// SPDX-License-Identifier: GPL-2.0-only
//! What the hardware looks like.
//!
//! A [`Machine`] is a value: read once (hotplug restarts the scheduler), never changed, the same
//! for the kernel dispatcher, the policy and the tests. [`Machine::detect`] reads the one that the
//! process runs on, [`Machine::describe`] makes others from words and text, [`MachineBuilder`] any
//! from plain data; all go through the builder, which alone validates and numbers.
//!
//! What always holds of a `Machine`:
//!
//! - It has at least one online CPU, and offline CPUs are not in it.
//! - Nodes with CPUs come first, `0..nr_cpu_nodes()`, then the nodes without; both by kernel id.
//! - The LLCs of a node are contiguous, as are the cores and the CPUs of an LLC. So a node, too, is
//!   a range of CPUs, and "relative to the node's first LLC" fits a 64-bit mask.
//! - Inside an LLC CPUs are ordered by kernel id; siblings need not be neighbours.
//! - An LLC lies in one node, a core in one LLC.
//! - Nodes without CPUs (CXL memory, HBM, GPU memory) have weight 0, no LLC, and appear in no order.
//! - Everything is within [`limits`].
//!
//! NUMA levels and imb_numa_nr are derived, in [`Levels`]; nothing here depends on them.

mod builder;
pub mod cpulist;
pub mod describe;
mod detect;
mod error;
mod ids;
mod levels;
pub mod limits;
mod llc;
mod order;
mod slit;
mod sysfs;
mod virt_llc;

pub use builder::{CpuDesc, MachineBuilder};
pub use error::MachineError;
pub use ids::{CoreIdx, CpuIdx, LlcIdx, NodeIdx};
pub use levels::{Domain, DomainKind, Levels, NodeSet, NumaLevel};

use std::ops::Range;

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its dense index.
    pub idx: NodeIdx,
    /// The kernel's id.
    pub id: u32,
    /// Its LLCs, as a range of [`LlcIdx`]; empty for a node without CPUs.
    pub llcs: Range<u16>,
    /// Its cores, as a range of [`CoreIdx`].
    pub cores: Range<u16>,
    /// Its online CPUs, as a range of [`CpuIdx`].
    pub cpus: Range<u16>,
    /// Its memory in MiB, rounded down; `None` where the kernel does not say.
    pub memory_mib: Option<u64>,
    /// It has no online CPU. Such a node takes part in no order, limit or average.
    pub memory_only: bool,
}

/// CPUs that share a last-level cache, or a part of them when virtual LLCs were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Llc {
    /// Its dense index.
    pub idx: LlcIdx,
    /// The node it lies in.
    pub node: NodeIdx,
    /// Its cores, as a range of [`CoreIdx`].
    pub cores: Range<u16>,
    /// Its online CPUs, as a range of [`CpuIdx`].
    pub cpus: Range<u16>,
    /// Level of the cache that tells these CPUs apart (3 on most machines); `None` when the kernel
    /// has no cache information and the node stands in for one.
    pub level: Option<u8>,
    /// It is one of several parts of a real LLC.
    pub is_virtual: bool,
    /// Online CPUs of the real LLC in this node, as a range of [`CpuIdx`]: `cpus` and, if it is
    /// virtual, those of the other parts.
    pub cache_cpus: Range<u16>,
}

/// A physical core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// Its dense index.
    pub idx: CoreIdx,
    /// The LLC it lies in.
    pub llc: LlcIdx,
    /// The node it lies in.
    pub node: NodeIdx,
    /// Its online CPUs, ascending; more than one with SMT.
    pub cpus: Vec<CpuIdx>,
}

/// An online logical CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Its dense index.
    pub idx: CpuIdx,
    /// The kernel's id.
    pub id: u32,
    /// The core it belongs to.
    pub core: CoreIdx,
    /// The LLC it belongs to.
    pub llc: LlcIdx,
    /// The node it belongs to.
    pub node: NodeIdx,
}

impl Node {
    /// The rules' `w`: online CPUs, 0 for a node without any.
    pub fn weight(&self) -> u32 {
        self.cpus.len() as u32
    }
}

impl Llc {
    /// Online CPUs, at least 1.
    pub fn weight(&self) -> u32 {
        self.cpus.len() as u32
    }
}

/// A machine; see the module for what always holds of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    nodes: Vec<Node>,
    llcs: Vec<Llc>,
    cores: Vec<Core>,
    cpus: Vec<Cpu>,
    /// Row-major, from the row's node to the column's, in dense indices.
    distances: Vec<u32>,
    nr_cpu_nodes: usize,
    nr_cpu_ids: usize,
    warnings: Vec<String>,
}

impl Machine {
    /// All nodes; those with CPUs first, in [`NodeIdx`] order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All LLCs, in [`LlcIdx`] order.
    pub fn llcs(&self) -> &[Llc] {
        &self.llcs
    }

    /// All cores with an online CPU, in [`CoreIdx`] order.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// All online CPUs, in [`CpuIdx`] order.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// How many nodes have CPUs, 1 to 64; they are the first ones of [`Machine::nodes`].
    pub fn nr_cpu_nodes(&self) -> usize {
        self.nr_cpu_nodes
    }

    /// The nodes that have CPUs.
    pub fn cpu_nodes(&self) -> &[Node] {
        &self.nodes[..self.nr_cpu_nodes]
    }

    /// The firmware's distance from `from` to `to`, 10 to 255, 10 being local. Not necessarily
    /// symmetric.
    ///
    /// # Panics
    /// If one of the indices is not of this machine.
    pub fn distance(&self, from: NodeIdx, to: NodeIdx) -> u32 {
        assert!(to.as_usize() < self.nodes.len(), "node {to} does not exist");
        self.distances[from.as_usize() * self.nodes.len() + to.as_usize()]
    }

    /// Whether some core has more than one *online* CPU. The kernel's `smt/active` is not asked.
    pub fn smt(&self) -> bool {
        self.cores.iter().any(|core| core.cpus.len() > 1)
    }

    /// The highest possible kernel CPU id + 1, as the kernel's `nr_cpu_ids`: the length of any array
    /// that is subscripted by kernel ids. CPUs below it may be offline or missing.
    pub fn nr_cpu_ids(&self) -> usize {
        self.nr_cpu_ids
    }

    /// What was odd about the machine and what was made of it, one sentence each; for the user.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The online CPU with the kernel's id `id`.
    pub fn cpu_by_id(&self, id: u32) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }

    /// The node with the kernel's id `id`.
    pub fn node_by_id(&self, id: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Kernel ids of a range of [`CpuIdx`], such as [`Node::cpus`]; in dense order.
    ///
    /// # Panics
    /// If the range is not of this machine.
    pub fn kernel_ids(&self, cpus: &Range<u16>) -> impl Iterator<Item = u32> {
        self.cpus[cpus.start as usize..cpus.end as usize]
            .iter()
            .map(|cpu| cpu.id)
    }
}
