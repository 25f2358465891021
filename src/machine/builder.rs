// SPDX-License-Identifier: GPL-2.0-only
//! From plain data to a [`Machine`]: validates, numbers, enforces the limits.
//!
//! Everything here is in kernel ids. Keys of LLCs need to be unique inside a node only, keys of
//! cores inside an LLC only: repeating them elsewhere does no harm, and an LLC that crosses nodes
//! falls apart by itself.

use super::ids::{CoreIdx, CpuIdx, LlcIdx, NodeIdx};
use super::limits::*;
use super::slit;
use super::virt_llc::CoreRange;
use super::{Core, Cpu, Llc, Machine, MachineError, Node};
use std::collections::{BTreeMap, BTreeSet};

/// An online CPU, as [`MachineBuilder::cpu`] takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuDesc {
    /// The kernel's id of the CPU.
    pub id: u32,
    /// The kernel's id of its node.
    pub node: u32,
    /// CPUs of one node with the same key share an LLC.
    pub llc: u32,
    /// CPUs of one LLC with the same key share a core.
    pub core: u32,
    /// Level of the last-level cache; `None` if there is no cache information.
    pub level: Option<u8>,
    /// It is a little core of a hybrid machine; virtual LLCs do not mix the two kinds.
    pub little: bool,
}

/// Collects the description of a machine; [`MachineBuilder::build`] makes it a [`Machine`].
///
/// The order of the calls does not matter.
#[derive(Debug, Clone, Default)]
pub struct MachineBuilder {
    nodes: Vec<(u32, Option<u64>)>,
    cpus: Vec<CpuDesc>,
    distances: BTreeMap<(u32, u32), u32>,
    nr_cpu_ids: Option<usize>,
    virt_llc: Option<(usize, usize)>,
    warnings: Vec<String>,
}

/// The CPUs of one node by LLC key and core key, the first CPU of each in front.
type Group<'a> = Vec<&'a CpuDesc>;

impl MachineBuilder {
    /// An empty machine, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// A regular machine without memory sizes: `nodes` nodes of `llcs` LLCs of `cores` cores of
    /// `threads` CPUs, ids counted up from 0 in that order, all distances at their defaults.
    pub fn uniform(nodes: u32, llcs: u32, cores: u32, threads: u32) -> Self {
        let mut builder = Self::new();
        for node in 0..nodes {
            builder.node(node, None);
        }
        for id in 0..nodes * llcs * cores * threads {
            let core = id / threads;
            let llc = core / cores;
            builder.cpu(CpuDesc {
                id,
                node: llc / llcs,
                llc,
                core,
                level: Some(3),
                little: false,
            });
        }
        builder
    }

    /// Adds a node by its kernel id, with its memory in MiB.
    pub fn node(&mut self, id: u32, memory_mib: Option<u64>) -> &mut Self {
        self.nodes.push((id, memory_mib));
        self
    }

    /// Adds an online CPU.
    pub fn cpu(&mut self, cpu: CpuDesc) -> &mut Self {
        self.cpus.push(cpu);
        self
    }

    /// Sets the distance, 10 to 255, from one node to another (kernel ids), in this direction only.
    /// Otherwise it is [`LOCAL_DISTANCE`] or [`REMOTE_DISTANCE`].
    pub fn distance(&mut self, from: u32, to: u32, distance: u32) -> &mut Self {
        self.distances.insert((from, to), distance);
        self
    }

    /// Sets the highest possible kernel CPU id + 1. Otherwise it is that of the highest CPU added.
    pub fn nr_cpu_ids(&mut self, nr_cpu_ids: usize) -> &mut Self {
        self.nr_cpu_ids = Some(nr_cpu_ids);
        self
    }

    /// Cuts LLCs into virtual ones of `range.0` to `range.1` cores; `None` leaves them whole.
    pub fn virt_llc(&mut self, range: Option<(usize, usize)>) -> &mut Self {
        self.virt_llc = range;
        self
    }

    /// Adds a sentence to [`Machine::warnings`].
    pub fn warn(&mut self, warning: impl Into<String>) -> &mut Self {
        self.warnings.push(warning.into());
        self
    }

    /// The machine.
    ///
    /// # Errors
    /// No CPU; a CPU or node described twice, a CPU or distance of a node that was not described;
    /// a distance outside 10 to 255; an empty range for virtual LLCs; a machine beyond [`limits`].
    ///
    /// [`limits`]: super::limits
    pub fn build(&self) -> Result<Machine, MachineError> {
        let nr_cpu_ids = self.check_cpus()?;
        let ids = self.order_nodes()?;
        let range = self.virt_llc.map(CoreRange::new).transpose()?;

        let mut machine = Machine {
            nodes: Vec::new(),
            llcs: Vec::new(),
            cores: Vec::new(),
            cpus: Vec::new(),
            distances: self.distance_matrix(&ids)?,
            nr_cpu_nodes: 0,
            nr_cpu_ids,
            warnings: self.warnings.clone(),
        };
        let numbers: Vec<u32> = ids.iter().map(|&(id, _)| id).collect();
        let strange = slit::warnings(&numbers, &machine.distances);
        machine.warnings.extend(strange);
        for &(id, memory_mib) in &ids {
            self.add_node(&mut machine, id, memory_mib, range)?;
        }
        let remedy = fewer_llcs(&machine.llcs, MAX_LLCS, "take CPUs offline");
        check_limit("LLCs".into(), machine.llcs.len(), MAX_LLCS, remedy)?;
        Ok(machine)
    }

    /// Validates CPU ids; returns the number of possible ones.
    fn check_cpus(&self) -> Result<usize, MachineError> {
        let mut seen = BTreeSet::new();
        if let Some(cpu) = self.cpus.iter().find(|cpu| !seen.insert(cpu.id)) {
            return Err(MachineError::DuplicateCpu(cpu.id));
        }
        let &last = seen.last().ok_or(MachineError::NoCpus)?;
        let nr_cpu_ids = self.nr_cpu_ids.unwrap_or(last as usize + 1);
        if last as usize >= nr_cpu_ids {
            return Err(MachineError::CpuBeyondIds {
                cpu: last,
                nr_cpu_ids,
            });
        }
        check_limit(
            "possible CPU ids".into(),
            nr_cpu_ids,
            MAX_CPU_IDS,
            "boot with possible_cpus=4096 (or nr_cpus=4096)",
        )?;
        Ok(nr_cpu_ids)
    }

    /// Validates node ids; returns nodes with CPUs first, both kinds by id.
    fn order_nodes(&self) -> Result<Vec<(u32, Option<u64>)>, MachineError> {
        let mut seen = BTreeSet::new();
        if let Some(node) = self.nodes.iter().find(|node| !seen.insert(node.0)) {
            return Err(MachineError::DuplicateNode(node.0));
        }
        let with_cpus: BTreeSet<u32> = self.cpus.iter().map(|cpu| cpu.node).collect();
        if let Some(&id) = with_cpus.difference(&seen).next() {
            return Err(MachineError::UnknownNode(id));
        }
        check_limit(
            "nodes".into(),
            self.nodes.len(),
            MAX_NODES,
            "let the firmware make fewer (NPS, SNC), or boot with numa=off",
        )?;
        let mut nodes = self.nodes.clone();
        nodes.sort_by_key(|&(id, _)| (!with_cpus.contains(&id), id));
        Ok(nodes)
    }

    /// The row-major matrix for the nodes in their dense order.
    fn distance_matrix(&self, nodes: &[(u32, Option<u64>)]) -> Result<Vec<u32>, MachineError> {
        for (&(from, to), &distance) in &self.distances {
            if let Some(&id) = [from, to]
                .iter()
                .find(|id| !nodes.iter().any(|node| node.0 == **id))
            {
                return Err(MachineError::UnknownNode(id));
            }
            if !(LOCAL_DISTANCE..=MAX_DISTANCE).contains(&distance) {
                return Err(MachineError::Distance { from, to, distance });
            }
        }
        let entry = |from: u32, to: u32| {
            let default = if from == to {
                LOCAL_DISTANCE
            } else {
                REMOTE_DISTANCE
            };
            self.distances.get(&(from, to)).copied().unwrap_or(default)
        };
        Ok(nodes
            .iter()
            .flat_map(|&(from, _)| nodes.iter().map(move |&(to, _)| entry(from, to)))
            .collect())
    }

    /// Appends a node with its LLCs, cores and CPUs.
    fn add_node(
        &self,
        machine: &mut Machine,
        id: u32,
        memory_mib: Option<u64>,
        range: Option<CoreRange>,
    ) -> Result<(), MachineError> {
        let idx = NodeIdx::from_usize(machine.nodes.len());
        let start = Lengths::of(machine);
        for llc in self.llcs_of(id) {
            let level = llc.iter().flatten().find_map(|cpu| cpu.level);
            let parts = match range {
                Some(range) => range.split(llc, |core| core.iter().any(|cpu| cpu.little)),
                None => vec![llc],
            };
            let first_part = machine.llcs.len();
            for cores in parts {
                add_llc(machine, idx, &cores, level, range.is_some())?;
            }
            join_parts(&mut machine.llcs[first_part..]);
        }
        let end = Lengths::of(machine);
        let llcs = &machine.llcs[usize::from(start.llcs)..];
        let more_nodes = "let the firmware make more nodes (NPS, SNC), or take CPUs offline";
        check_limit(
            format!("LLCs in node {id}"),
            llcs.len(),
            MAX_LLCS_PER_NODE,
            fewer_llcs(llcs, MAX_LLCS_PER_NODE, more_nodes),
        )?;
        machine.nodes.push(Node {
            idx,
            id,
            llcs: start.llcs..end.llcs,
            cores: start.cores..end.cores,
            cpus: start.cpus..end.cpus,
            memory_mib,
            memory_only: start.cpus == end.cpus,
        });
        machine.nr_cpu_nodes += usize::from(start.cpus != end.cpus);
        Ok(())
    }

    /// The CPUs of a node as cores inside LLCs, each level by the lowest kernel id in it.
    fn llcs_of(&self, node: u32) -> Vec<Vec<Group<'_>>> {
        let mut cpus: Group = self.cpus.iter().filter(|cpu| cpu.node == node).collect();
        cpus.sort_by_key(|cpu| cpu.id);
        group_by_key(cpus, |cpu| cpu.llc)
            .into_iter()
            .map(|llc| group_by_key(llc, |cpu| cpu.core))
            .collect()
    }
}

/// `cpus` in groups of equal keys; groups in the order of their first members.
fn group_by_key<'a>(cpus: Group<'a>, key: impl Fn(&CpuDesc) -> u32) -> Vec<Group<'a>> {
    let mut place = BTreeMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for cpu in cpus {
        let at = *place.entry(key(cpu)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(cpu);
    }
    groups
}

/// Lets the parts of a real LLC know of each other.
fn join_parts(parts: &mut [Llc]) {
    if let [first, .., last] = parts {
        let cache_cpus = first.cpus.start..last.cpus.end;
        for part in parts {
            part.is_virtual = true;
            part.cache_cpus = cache_cpus.clone();
        }
    }
}

/// What makes fewer of these than there are: fewer parts of real ones, unless those are too many by themselves.
fn fewer_llcs(llcs: &[Llc], limit: usize, else_do: &'static str) -> &'static str {
    let real = llcs.chunk_by(|a, b| a.cache_cpus == b.cache_cpus).count();
    match real <= limit && real < llcs.len() {
        true => "a --virt-llc of more cores makes fewer",
        false => else_do,
    }
}

/// Appends an LLC of the node being added, with its cores and CPUs; whole until it is joined with
/// others.
fn add_llc(
    machine: &mut Machine,
    node: NodeIdx,
    groups: &[Group],
    level: Option<u8>,
    split: bool,
) -> Result<(), MachineError> {
    let llc = LlcIdx::from_usize(machine.llcs.len());
    let start = Lengths::of(machine);

    let mut members: Vec<(u32, CoreIdx)> = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let core = CoreIdx::from_usize(start.cores as usize + at);
        members.extend(group.iter().map(|cpu| (cpu.id, core)));
        machine.cores.push(Core {
            idx: core,
            llc,
            node,
            cpus: Vec::new(),
        });
    }
    members.sort_unstable();
    let first = members.first().map_or(0, |&(id, _)| id);
    check_limit(
        format!("CPUs in the LLC of CPU {first}"),
        members.len(),
        MAX_CPUS_PER_LLC,
        match split {
            true => "a --virt-llc of fewer cores makes smaller ones",
            false => "split it with --virt-llc",
        },
    )?;
    for (id, core) in members {
        let idx = CpuIdx::from_usize(machine.cpus.len());
        machine.cores[core.as_usize()].cpus.push(idx);
        machine.cpus.push(Cpu {
            idx,
            id,
            core,
            llc,
            node,
        });
    }

    let end = Lengths::of(machine);
    machine.llcs.push(Llc {
        idx: llc,
        node,
        cores: start.cores..end.cores,
        cpus: start.cpus..end.cpus,
        level,
        is_virtual: false,
        cache_cpus: start.cpus..end.cpus,
    });
    Ok(())
}

/// How much of a machine there is so far. Fits, as CPU ids are checked before any of it is made.
struct Lengths {
    llcs: u16,
    cores: u16,
    cpus: u16,
}

impl Lengths {
    fn of(machine: &Machine) -> Self {
        Self {
            llcs: machine.llcs.len() as u16,
            cores: machine.cores.len() as u16,
            cpus: machine.cpus.len() as u16,
        }
    }
}

fn check_limit(
    what: String,
    found: usize,
    limit: usize,
    remedy: &'static str,
) -> Result<(), MachineError> {
    if found <= limit {
        return Ok(());
    }
    Err(MachineError::Limit {
        what,
        found,
        limit,
        remedy,
    })
}
