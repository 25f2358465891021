// SPDX-License-Identifier: GPL-2.0-only
//! The machine that this process runs on, or the one below `SCX_SYSFS_PREFIX`.
//!
//! sysfs is read here and not through `scx_utils::Topology`, whose answers differ from the kernel's
//! scheduling domains, on which everything in this scheduler is built:
//!
//! - It tells caches apart by `id` files and cores by ids; see [`llc`] and [`first_siblings`].
//! - Its rows of distances are by position, whatever the nodes' ids are; see [`add_distances`].
//! - Its number of CPU ids ends at the last CPU folder, not at the last possible CPU, its number of
//!   possible CPUs is the running kernel's even below `SCX_SYSFS_PREFIX`, and it loses CPUs that
//!   are in no node's folder.
//! - It reads every CPU's frequencies once per node: over a second on 16 nodes and 1024 CPUs, where
//!   what is needed here takes a tenth of one.
//!
//! A test keeps the two in agreement where they should agree. Odd but workable findings become
//! warnings of the machine, not errors.

use super::limits::*;
use super::llc::{self, Facts};
use super::sysfs::Sysfs;
use super::{CpuDesc, Machine, MachineBuilder, MachineError, cpulist};
use scx_utils::ROOT_PREFIX;
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
        let possible = sysfs.possible_cpus()?.unwrap_or_default();
        let last = possible.iter().chain(&online).max();

        let mut builder = MachineBuilder::new();
        builder.virt_llc(virt_llc);
        builder.nr_cpu_ids(last.map_or(0, |&last| last as usize + 1));
        let node_of = add_nodes(&mut builder, &sysfs, &online)?;
        let core_of = first_siblings(&sysfs, &online)?;
        let little = match virt_llc {
            Some(_) => little_cpus(&sysfs, &online)?,
            None => BTreeSet::new(),
        };

        let mut facts = BTreeMap::new();
        for &id in &online {
            let cache = sysfs.last_cache(id)?;
            facts.insert(
                id,
                Facts {
                    node: node_of[&id],
                    core: core_of[&id],
                    cache,
                },
            );
        }
        let llc_of = llc::llc_keys(&mut builder, &facts);
        for (&id, facts) in &facts {
            let (llc, level) = llc_of[&id];
            builder.cpu(CpuDesc {
                id,
                node: facts.node,
                llc,
                core: facts.core,
                level,
                little: little.contains(&id),
            });
        }
        builder.build()
    }
}

/// Adds nodes, memory and distances; returns the node of every online CPU. Nodes without CPUs beyond
/// the limit are left out; without any node there is one, with id 0.
fn add_nodes(
    builder: &mut MachineBuilder,
    sysfs: &Sysfs,
    online: &BTreeSet<u32>,
) -> Result<BTreeMap<u32, u32>, MachineError> {
    let Some(ids) = sysfs.online_nodes()? else {
        builder.node(0, None);
        return Ok(online.iter().map(|&cpu| (cpu, 0)).collect());
    };
    let mut node_of = BTreeMap::new();
    for &id in &ids {
        for cpu in sysfs.node_cpus(id)? {
            if online.contains(&cpu) {
                node_of.entry(cpu).or_insert(id);
            }
        }
    }
    adopt_homeless(builder, &mut node_of, online, ids[0]);

    let with_cpus: BTreeSet<u32> = node_of.values().copied().collect();
    let without: Vec<u32> = ids
        .iter()
        .copied()
        .filter(|id| !with_cpus.contains(id))
        .collect();
    let room = MAX_NODES.saturating_sub(with_cpus.len()).min(without.len());
    let (kept, left_out) = without.split_at(room);
    if !left_out.is_empty() {
        builder.warn(format!(
            "nodes {} have no CPUs and are left out, as {MAX_NODES} nodes are the most that are supported",
            cpulist::format(left_out.iter().copied())
        ));
    }
    let mut rows = BTreeMap::new();
    for id in with_cpus.into_iter().chain(kept.iter().copied()) {
        builder.node(id, sysfs.node_memory_mib(id));
        rows.insert(id, sysfs.node_distances(id)?);
    }
    add_distances(builder, &rows, &ids);
    Ok(node_of)
}

/// Gives online CPUs that are in no node's list to the first node with CPUs, or else to `fallback`.
fn adopt_homeless(
    builder: &mut MachineBuilder,
    node_of: &mut BTreeMap<u32, u32>,
    online: &BTreeSet<u32>,
    fallback: u32,
) {
    let homeless: Vec<u32> = online
        .iter()
        .copied()
        .filter(|cpu| !node_of.contains_key(cpu))
        .collect();
    if homeless.is_empty() {
        return;
    }
    let home = node_of.values().min().copied().unwrap_or(fallback);
    builder.warn(format!(
        "CPUs {} are online and in no node; they are counted to node {home}",
        cpulist::format(homeless.iter().copied())
    ));
    node_of.extend(homeless.into_iter().map(|cpu| (cpu, home)));
}

/// Sets the distances from each node's row, which has one entry per online node (`columns`),
/// ascending by id. An entry that is missing or out of range is taken from the opposite direction,
/// else left at its default.
fn add_distances(builder: &mut MachineBuilder, rows: &BTreeMap<u32, Vec<u32>>, columns: &[u32]) {
    let entry = |from: u32, to: u32| {
        let column = columns.iter().position(|&id| id == to)?;
        let distance = *rows.get(&from)?.get(column)?;
        (LOCAL_DISTANCE..=MAX_DISTANCE)
            .contains(&distance)
            .then_some(distance)
    };
    let mut incomplete = BTreeSet::new();
    for &from in rows.keys() {
        for &to in rows.keys() {
            let (there, back) = (entry(from, to), entry(to, from));
            if there.is_none() && rows.len() > 1 {
                incomplete.insert(from);
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
}

/// The lowest online CPU of the core of each: by the list of siblings, else by core and package id.
/// Core ids alone repeat across packages, and on some machines across the dies of one.
fn first_siblings(
    sysfs: &Sysfs,
    online: &BTreeSet<u32>,
) -> Result<BTreeMap<u32, u32>, MachineError> {
    let mut first_with_ids = BTreeMap::new();
    let mut firsts = BTreeMap::new();
    for &cpu in online {
        let first = match sysfs.siblings(cpu)? {
            Some(siblings) => siblings
                .into_iter()
                .find(|id| online.contains(id))
                .unwrap_or(cpu),
            None => match sysfs.package_and_core(cpu)? {
                Some(ids) => *first_with_ids.entry(ids).or_insert(cpu),
                None => cpu,
            },
        };
        firsts.insert(cpu, first);
    }
    Ok(firsts)
}

/// The little CPUs of a hybrid machine: those below the average where the strongest CPU has at least
/// 1.3 times the capacity of the weakest, as for scx_utils.
fn little_cpus(sysfs: &Sysfs, online: &BTreeSet<u32>) -> Result<BTreeSet<u32>, MachineError> {
    let mut capacities = BTreeMap::new();
    for &cpu in online {
        match sysfs.capacity(cpu)? {
            Some(capacity) => capacities.insert(cpu, capacity),
            None => return Ok(BTreeSet::new()),
        };
    }
    let max = capacities.values().max().copied().unwrap_or(0);
    let min = capacities.values().min().copied().unwrap_or(0);
    if max * 10 < min * 13 {
        return Ok(BTreeSet::new());
    }
    let sum: u64 = capacities.values().sum();
    let below = |capacity: u64| capacity * (online.len() as u64) < sum;
    Ok(capacities
        .into_iter()
        .filter(|&(_, c)| below(c))
        .map(|(cpu, _)| cpu)
        .collect())
}
