// SPDX-License-Identifier: GPL-2.0-only
//! The machine that this process runs on, or the one below `SCX_SYSFS_PREFIX`.
//!
//! `scx_utils::Topology` tells nodes, their online CPUs, packages, core ids and core types. What it
//! tells otherwise than the kernel's scheduling domains is read from sysfs again:
//!
//! - LLCs: it tells caches apart by their `id` files, which are missing on some machines and on
//!   others (QEMU's AMD models) contradict shared_cpu_list, by which the kernel goes.
//! - Cores: it tells them apart by node, package and core id; dies may repeat core ids.
//! - Distances: its rows have one entry per online node, whatever the nodes' ids are.
//! - Sizes: its number of possible CPUs is the running kernel's even below `SCX_SYSFS_PREFIX`, and
//!   its number of CPU ids ends at the last folder, not at the last possible CPU.
//! - CPUs in no node's folder are lost.
//!
//! Odd but workable findings become warnings of the machine, not errors.

use super::limits::*;
use super::sysfs::{LastCache, Sysfs};
use super::{CpuDesc, Machine, MachineBuilder, MachineError, cpulist};
use scx_utils::{CoreType, ROOT_PREFIX, Topology};
use std::collections::{BTreeMap, BTreeSet};

impl Machine {
    /// The machine that this process runs on, as of now. `virt_llc` cuts its LLCs into virtual ones
    /// of so many to so many cores, as scx_utils' `--virt-llc` does.
    ///
    /// With the environment variable `SCX_SYSFS_PREFIX`, sysfs is read below it; as scx_utils looks
    /// at it once per process, so does this.
    ///
    /// # Errors
    /// sysfs cannot be read or makes no sense; the machine is beyond [`limits`](super::limits).
    pub fn detect(virt_llc: Option<(usize, usize)>) -> Result<Machine, MachineError> {
        let sysfs = Sysfs::below(&ROOT_PREFIX);
        let online: BTreeSet<u32> = sysfs.online_cpus()?.into_iter().collect();
        let folders = sysfs.cpu_folders()?;
        // Topology::new() would panic.
        if online.is_empty() || folders.is_empty() {
            return Err(MachineError::NoCpus);
        }
        let topology = Topology::new().map_err(MachineError::Topology)?;

        let mut builder = MachineBuilder::new();
        builder.virt_llc(virt_llc);
        builder.nr_cpu_ids(nr_cpu_ids(&sysfs, &online, &folders)?);
        add_nodes(&mut builder, &sysfs, &topology)?;
        add_cpus(&mut builder, &sysfs, &topology, &online)?;
        builder.build()
    }
}

/// The highest id among possible, present and online CPUs + 1.
fn nr_cpu_ids(
    sysfs: &Sysfs,
    online: &BTreeSet<u32>,
    folders: &[u32],
) -> Result<usize, MachineError> {
    let possible = sysfs.possible_cpus()?.unwrap_or_default();
    let last = possible.iter().chain(online).chain(folders).max();
    Ok(last.map_or(0, |&last| last as usize + 1))
}

/// Adds nodes, memory and distances. Nodes without CPUs beyond the limit are left out.
fn add_nodes(
    builder: &mut MachineBuilder,
    sysfs: &Sysfs,
    topology: &Topology,
) -> Result<(), MachineError> {
    let (with_cpus, without): (Vec<_>, Vec<_>) = topology
        .nodes
        .values()
        .partition(|node| !node.all_cpus.is_empty());
    let room = MAX_NODES.saturating_sub(with_cpus.len());
    if without.len() > room {
        let left_out = without[room..].iter().map(|node| node.id as u32);
        builder.warn(format!(
            "nodes {} have no CPUs and are left out, as {MAX_NODES} nodes are the most that are supported",
            cpulist::format(left_out)
        ));
    }
    let nodes: BTreeMap<u32, &[usize]> = with_cpus
        .iter()
        .chain(without.iter().take(room))
        .map(|node| (node.id as u32, node.distance.as_slice()))
        .collect();
    let columns = match sysfs.online_nodes()? {
        Some(columns) if !columns.is_empty() => columns,
        _ => topology.nodes.keys().map(|&id| id as u32).collect(),
    };
    for &id in nodes.keys() {
        builder.node(id, sysfs.node_memory_mib(id));
    }
    add_distances(builder, &nodes, &columns);
    Ok(())
}

/// Maps each node's row to node ids; an entry that is missing or out of range is taken from the
/// opposite direction, else left at its default.
fn add_distances(builder: &mut MachineBuilder, rows: &BTreeMap<u32, &[usize]>, columns: &[u32]) {
    let entry = |from: u32, to: u32| {
        let column = columns.iter().position(|&id| id == to)?;
        let distance = u32::try_from(*rows.get(&from)?.get(column)?).ok()?;
        (LOCAL_DISTANCE..=MAX_DISTANCE)
            .contains(&distance)
            .then_some(distance)
    };
    let mut incomplete = BTreeSet::new();
    let mut asymmetric = Vec::new();
    for &from in rows.keys() {
        for &to in rows.keys() {
            let (there, back) = (entry(from, to), entry(to, from));
            if there.is_none() && rows.len() > 1 {
                incomplete.insert(from);
            }
            if from < to && there.is_some() && back.is_some() && there != back {
                asymmetric.push(format!("{from} and {to}"));
            }
            if let Some(distance) = there.or(back) {
                builder.distance(from, to, distance);
            }
        }
    }
    if !incomplete.is_empty() {
        builder.warn(format!(
            "the distances of node {} are incomplete or out of range; the opposite direction or \
             {LOCAL_DISTANCE} (local) and {REMOTE_DISTANCE} (remote) are used instead",
            cpulist::format(incomplete)
        ));
    }
    if let [first, more @ ..] = asymmetric.as_slice() {
        builder.warn(format!(
            "the distance between nodes {first} depends on the direction{}",
            match more.len() {
                0 => String::new(),
                n => format!(", and so do {n} more"),
            }
        ));
    }
}

/// What is known of a CPU before its LLC is.
struct Facts {
    node: u32,
    /// Lowest CPU of the core.
    core: u32,
    cache: Option<LastCache>,
    little: bool,
}

/// Adds all online CPUs.
fn add_cpus(
    builder: &mut MachineBuilder,
    sysfs: &Sysfs,
    topology: &Topology,
    online: &BTreeSet<u32>,
) -> Result<(), MachineError> {
    let mut facts = BTreeMap::new();
    let mut homeless = Vec::new();
    let first_node = topology
        .nodes
        .values()
        .find(|node| !node.all_cpus.is_empty());
    let Some(first_node) = first_node.map(|node| node.id as u32) else {
        return Err(MachineError::NoCpus);
    };
    for &id in online {
        let known = topology.all_cpus.get(&(id as usize));
        if known.is_none() {
            homeless.push(id);
        }
        facts.insert(
            id,
            Facts {
                node: known.map_or(first_node, |cpu| cpu.node_id as u32),
                core: first_sibling(sysfs, topology, online, id)?,
                cache: sysfs.last_cache(id)?,
                little: known.is_some_and(|cpu| cpu.core_type == CoreType::Little),
            },
        );
    }
    if !homeless.is_empty() {
        builder.warn(format!(
            "CPUs {} are online and in no node; they are counted to node {first_node}",
            cpulist::format(homeless)
        ));
    }
    let llcs = llc_keys(builder, &facts);
    for (&id, facts) in &facts {
        let (llc, level) = llcs[&id];
        builder.cpu(CpuDesc {
            id,
            node: facts.node,
            llc,
            core: facts.core,
            level,
            little: facts.little,
        });
    }
    Ok(())
}

/// The lowest online CPU of the core of `cpu`, by the list of siblings, or by core and package id.
fn first_sibling(
    sysfs: &Sysfs,
    topology: &Topology,
    online: &BTreeSet<u32>,
    cpu: u32,
) -> Result<u32, MachineError> {
    if let Some(siblings) = sysfs.siblings(cpu)? {
        let first = siblings.into_iter().find(|id| online.contains(id));
        return Ok(first.unwrap_or(cpu));
    }
    let core = topology
        .all_cpus
        .get(&(cpu as usize))
        .and_then(|cpu| topology.all_cores.get(&cpu.core_id));
    Ok(core
        .and_then(|core| core.cpus.keys().next())
        .map_or(cpu, |&first| first as u32))
}

/// For each CPU the key of its LLC inside its node (the lowest CPU that shares it, or `u32::MAX`
/// where nothing is known) and the cache's level.
fn llc_keys(
    builder: &mut MachineBuilder,
    facts: &BTreeMap<u32, Facts>,
) -> BTreeMap<u32, (u32, Option<u8>)> {
    const UNKNOWN: (u32, Option<u8>) = (u32::MAX, None);
    let in_node = |id: &u32, node: u32| facts.get(id).is_some_and(|other| other.node == node);
    let mut keys: BTreeMap<u32, (u32, Option<u8>)> = facts
        .iter()
        .map(|(&id, cpu)| {
            let key = cpu.cache.as_ref().map(|cache| {
                let first = cache.cpus.iter().find(|other| in_node(other, cpu.node));
                (first.copied().unwrap_or(id), Some(cache.level))
            });
            (id, key.unwrap_or(UNKNOWN))
        })
        .collect();

    warn_of_caches(builder, facts, &keys);
    merge_private_caches(builder, facts, &mut keys, UNKNOWN);
    keys
}

/// Warns of missing cache information and of lists of sharers that contradict each other.
fn warn_of_caches(
    builder: &mut MachineBuilder,
    facts: &BTreeMap<u32, Facts>,
    keys: &BTreeMap<u32, (u32, Option<u8>)>,
) {
    let unknown: Vec<u32> = facts
        .iter()
        .filter(|(_, cpu)| cpu.cache.is_none())
        .map(|(&id, _)| id)
        .collect();
    if unknown.len() == facts.len() {
        builder.warn("the kernel has no information about caches; each node is taken as one LLC");
    } else if !unknown.is_empty() {
        builder.warn(format!(
            "the kernel has no information about the caches of CPUs {}; those of a node are taken as one LLC",
            cpulist::format(unknown)
        ));
    }
    let disagree = facts.iter().filter(|(id, cpu)| {
        let first = facts.get(&keys[id].0);
        cpu.cache.is_some() && first.is_some_and(|first| first.cache != cpu.cache)
    });
    let disagree: Vec<u32> = disagree.map(|(&id, _)| id).collect();
    if !disagree.is_empty() {
        builder.warn(format!(
            "the caches of CPUs {} are shared one way only; a CPU is counted to the first CPU that it names",
            cpulist::format(disagree)
        ));
    }
}

/// Takes a node as one LLC when its last caches are private to cores and too many to be LLCs
/// (some server ARM machines tell of nothing beyond a core's L2).
fn merge_private_caches(
    builder: &mut MachineBuilder,
    facts: &BTreeMap<u32, Facts>,
    keys: &mut BTreeMap<u32, (u32, Option<u8>)>,
    merged: (u32, Option<u8>),
) {
    let nodes: BTreeSet<u32> = facts.values().map(|cpu| cpu.node).collect();
    for node in nodes {
        let members = || facts.iter().filter(|(_, cpu)| cpu.node == node);
        let llcs: BTreeSet<u32> = members().map(|(id, _)| keys[id].0).collect();
        let pairs: BTreeSet<(u32, u32)> =
            members().map(|(id, cpu)| (keys[id].0, cpu.core)).collect();
        if llcs.len() <= MAX_LLCS_PER_NODE || pairs.len() != llcs.len() {
            continue;
        }
        builder.warn(format!(
            "node {node} has {} caches of the last level, each private to a core; the node is taken as one LLC",
            llcs.len()
        ));
        keys.extend(members().map(|(&id, _)| (id, merged)));
    }
}
