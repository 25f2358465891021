// SPDX-License-Identifier: GPL-2.0-only
//! The machine as the user dispatcher needs it: from a CPU's id to its place and back.
//!
//! CPUs, LLCs and nodes are dense indices, those of [`Machine`], in which the CPUs of an LLC and of a node are
//! contiguous.

use std::ops::Range;

use crate::machine::Machine;
use crate::policy::observation::Shape;

/// Where a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub node: usize,
    pub llc: usize,
    pub core: usize,
    /// The kernel's id.
    pub id: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Places {
    pub shape: Shape,
    pub smt: bool,
    /// By CPU.
    cpus: Vec<Place>,
    /// By core: its CPUs.
    cores: Vec<Vec<usize>>,
    llcs: Vec<Range<usize>>,
    nodes: Vec<Range<usize>>,
    /// By the kernel's id.
    by_id: Vec<Option<usize>>,
}

fn wide(range: &Range<u16>) -> Range<usize> {
    usize::from(range.start)..usize::from(range.end)
}

impl Places {
    pub fn new(machine: &Machine) -> Self {
        let mut by_id = vec![None; machine.nr_cpu_ids()];
        for cpu in machine.cpus() {
            by_id[cpu.id as usize] = Some(cpu.idx.as_usize());
        }
        let place = |cpu: &crate::machine::Cpu| Place {
            node: cpu.node.as_usize(),
            llc: cpu.llc.as_usize(),
            core: cpu.core.as_usize(),
            id: cpu.id,
        };
        let cores = machine.cores().iter().map(|core| {
            let cpus = core.cpus.iter().map(|cpu| cpu.as_usize());
            cpus.collect()
        });
        Self {
            shape: Shape::of(machine),
            smt: machine.smt(),
            cpus: machine.cpus().iter().map(place).collect(),
            cores: cores.collect(),
            llcs: machine.llcs().iter().map(|llc| wide(&llc.cpus)).collect(),
            nodes: machine
                .cpu_nodes()
                .iter()
                .map(|node| wide(&node.cpus))
                .collect(),
            by_id,
        }
    }

    pub fn place(&self, cpu: usize) -> Place {
        self.cpus[cpu]
    }

    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Length of an array by the kernel's ids.
    pub fn nr_cpu_ids(&self) -> usize {
        self.by_id.len()
    }

    /// The online CPU with the kernel's id `id`.
    pub fn by_id(&self, id: u32) -> Option<usize> {
        self.by_id.get(id as usize).copied().flatten()
    }

    pub fn cpus_of_llc(&self, llc: usize) -> Range<usize> {
        self.llcs[llc].clone()
    }

    pub fn cpus_of_node(&self, node: usize) -> Range<usize> {
        self.nodes[node].clone()
    }

    /// All CPUs of the core of `cpu`.
    pub fn siblings(&self, cpu: usize) -> &[usize] {
        &self.cores[self.cpus[cpu].core]
    }

    /// The nodes in the order in which `node` looks for help, itself first.
    pub fn order(&self, node: usize) -> &[u8] {
        &self.shape.order[node]
    }
}
