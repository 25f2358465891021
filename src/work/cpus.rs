// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs a task may use, which one it is on, and the node of that one.
//!
//! CPUs are kernel ids here. A [`CpuSet`] is as long as the largest machine needs, and once it is
//! made, neither applying it nor [`current`] allocates, so that a forked child may use both.

use std::io;

use anyhow::{Context, Result, bail};

use crate::machine::limits::MAX_CPU_IDS;
use crate::machine::{Machine, cpulist};
use crate::policy::compile::NodeShape;

/// Bits of a word of the kernel's CPU masks.
const WORD_BITS: usize = libc::c_ulong::BITS as usize;
/// Words of a mask for every CPU id that a kernel can be built for (8192 and more to spare).
const WORDS: usize = 2 * MAX_CPU_IDS / WORD_BITS;

/// A set of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSet {
    words: [libc::c_ulong; WORDS],
}

impl CpuSet {
    /// The CPUs that the calling thread may use; online ones, as the kernel tells.
    pub fn allowed() -> Result<CpuSet> {
        let mut words = [0; WORDS];
        // SAFETY: the kernel writes at most `size_of_val(&words)` bytes to `words`.
        let result =
            unsafe { libc::sched_getaffinity(0, size_of_val(&words), words.as_mut_ptr().cast()) };
        match result {
            -1 => Err(io::Error::last_os_error()).context("cannot read the CPU affinity"),
            _ => Ok(CpuSet { words }),
        }
    }

    /// The set of `cpus`, all of which the calling thread may use.
    pub fn among_allowed(cpus: &[u32]) -> Result<CpuSet> {
        let allowed = CpuSet::allowed()?;
        for &cpu in cpus {
            if !allowed.contains(cpu) {
                bail!(
                    "CPU {cpu} is not one that this process may use ({})",
                    cpulist::format(allowed.iter())
                );
            }
        }
        Ok(CpuSet::of(cpus))
    }

    /// The set of `cpus`, none of which is beyond what a kernel can have.
    pub(super) fn of(cpus: &[u32]) -> CpuSet {
        let mut words = [0; WORDS];
        for &cpu in cpus {
            words[cpu as usize / WORD_BITS] |= 1 << (cpu as usize % WORD_BITS);
        }
        CpuSet { words }
    }

    /// The CPUs of `list`, or without one the first CPU that the calling thread may use.
    pub fn or_first(list: Option<&CpuList>) -> Result<CpuSet> {
        match list {
            Some(CpuList(cpus)) => CpuSet::among_allowed(cpus),
            None => {
                let first = CpuSet::allowed()?.iter().next();
                CpuSet::among_allowed(&[first.context("this process may use no CPU")?])
            }
        }
    }

    pub fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = (cpu as usize / WORD_BITS, cpu as usize % WORD_BITS);
        self.words
            .get(word)
            .is_some_and(|word| word >> bit & 1 == 1)
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..(WORDS * WORD_BITS) as u32).filter(|&cpu| self.contains(cpu))
    }

    /// Confines the calling thread to this set.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: the kernel reads `size_of_val(&self.words)` bytes of `self.words`.
        let result = unsafe {
            libc::sched_setaffinity(0, size_of_val(&self.words), self.words.as_ptr().cast())
        };
        match result {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// A list of CPUs as a user gives it: not empty, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(pub Vec<u32>);

/// A value parser for `0-3,8`.
pub fn parse_list(text: &str) -> Result<CpuList, String> {
    match cpulist::parse(text) {
        Some(cpus) if !cpus.is_empty() => Ok(CpuList(cpus)),
        _ => Err("expected a list of CPUs, for example 0-3,8".into()),
    }
}

/// The CPU that the calling thread is on now; out of date at once unless it is pinned.
pub fn current() -> u32 {
    // SAFETY: takes no arguments. It fails only on kernels without getcpu(2), none of which has
    // anything to do with this program; -1 then reads as a CPU that does not exist.
    unsafe { libc::sched_getcpu() as u32 }
}

/// The kernel's id of the node that the calling thread is on now, for tasks that have no [`NodeMap`].
pub fn current_node() -> u32 {
    let mut node = u32::MAX;
    let cpu = std::ptr::null_mut::<libc::c_uint>();
    let cache = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: `node` is a u32 to write to; the CPU is not asked for, and the third is not used.
    unsafe { libc::syscall(libc::SYS_getcpu, cpu, &raw mut node, cache) };
    node
}

/// The nodes of a machine's CPUs, in a form that a forked child may look at.
#[derive(Debug)]
pub struct NodeMap {
    /// By kernel CPU id: dense index among the nodes that have CPUs.
    node_of_cpu: Vec<Option<u16>>,
    /// The kernel's ids, by dense index.
    ids: Vec<u32>,
    weights: Vec<u32>,
    limits: Vec<u32>,
}

impl NodeMap {
    /// The machine as it is now.
    pub fn detect() -> Result<NodeMap> {
        Ok(NodeMap::new(&Machine::detect(None)?, &CpuSet::allowed()?))
    }

    fn new(machine: &Machine, allowed: &CpuSet) -> NodeMap {
        let mut node_of_cpu = vec![None; machine.nr_cpu_ids()];
        let mut weights = vec![0; machine.nr_cpu_nodes()];
        let shapes = NodeShape::all(machine);
        for cpu in machine.cpus() {
            node_of_cpu[cpu.id as usize] = Some(cpu.node.0);
            weights[cpu.node.as_usize()] += u32::from(allowed.contains(cpu.id));
        }
        NodeMap {
            node_of_cpu,
            ids: machine.nodes().iter().map(|node| node.id).collect(),
            weights,
            limits: shapes.iter().map(|shape| shape.imb_numa_nr).collect(),
        }
    }

    /// The node of a CPU, as dense index; `None` for a CPU that was not online at the start.
    pub fn node_of(&self, cpu: u32) -> Option<u16> {
        self.node_of_cpu.get(cpu as usize).copied().flatten()
    }

    /// The kernel's id of a CPU's node, for people; `None` as above.
    pub fn id_of(&self, cpu: u32) -> Option<u32> {
        self.ids.get(usize::from(self.node_of(cpu)?)).copied()
    }

    /// Per node that has CPUs: how many of them the process may use.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// The kernel's ids of all nodes; those that have CPUs come first, in the order of the indices.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The CPUs of a node, by dense index, that the calling thread may use.
    pub fn cpus_of(&self, node: usize) -> Result<CpuSet> {
        let allowed = CpuSet::allowed()?;
        let own = |&cpu: &u32| self.node_of(cpu).map(usize::from) == Some(node);
        Ok(CpuSet::of(&allowed.iter().filter(own).collect::<Vec<_>>()))
    }

    /// Per node that has CPUs: up to how many tasks it counts as lightly loaded (imb_numa_nr).
    pub fn limits(&self) -> &[u32] {
        &self.limits
    }

    /// How many of the `cpus` are on each node that has CPUs.
    pub fn count(&self, cpus: impl IntoIterator<Item = u32>) -> Result<Vec<u32>> {
        let mut counts = vec![0; self.weights.len()];
        for cpu in cpus {
            let node = self
                .node_of(cpu)
                .with_context(|| format!("CPU {cpu} was not online at the start"))?;
            counts[usize::from(node)] += 1;
        }
        Ok(counts)
    }
}

#[cfg(test)]
impl NodeMap {
    /// Nodes with these ids and numbers of CPUs that may be used, for tests.
    pub fn with_weights(nodes: &[(u32, u32)]) -> NodeMap {
        NodeMap {
            node_of_cpu: Vec::new(),
            ids: nodes.iter().map(|&(id, _)| id).collect(),
            weights: nodes.iter().map(|&(_, weight)| weight).collect(),
            limits: vec![1; nodes.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineBuilder;

    #[test]
    fn lists_parse_or_say_why_not() {
        assert_eq!(parse_list("0-2,8"), Ok(CpuList(vec![0, 1, 2, 8])));
        for text in ["", "x", "3-1", "-1"] {
            assert!(parse_list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sets_hold_what_is_allowed_and_nothing_else() {
        let allowed = CpuSet::allowed().unwrap();
        let all: Vec<u32> = allowed.iter().collect();
        assert!(!all.is_empty());
        assert_eq!(CpuSet::among_allowed(&all).unwrap(), allowed);
        assert!(CpuSet::among_allowed(&[65535]).is_err());
        assert!(!allowed.contains(u32::MAX));
        let first = CpuSet::or_first(None).unwrap();
        assert_eq!(first.iter().collect::<Vec<_>>(), all[..1]);
    }

    #[test]
    fn tasks_are_counted_on_their_nodes() {
        let machine = MachineBuilder::uniform(2, 1, 4, 1).build().unwrap();
        let mut allowed = CpuSet { words: [0; WORDS] };
        allowed.words[0] = 0b0011_1111;
        let nodes = NodeMap::new(&machine, &allowed);
        assert_eq!(nodes.weights(), [4, 2]);
        assert_eq!(nodes.node_of(3), Some(0));
        assert_eq!(nodes.node_of(4), Some(1));
        assert_eq!(nodes.node_of(8), None);
        assert_eq!((nodes.id_of(4), nodes.id_of(8)), (Some(1), None));
        assert_eq!(nodes.count([0, 5, 5]).unwrap(), [1, 2]);
        assert!(nodes.count([u32::MAX]).is_err());
    }
}
