// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs share an LLC.
//!
//! shared_cpu_list of the last level there is decides, as in the kernel's scheduling domains; the
//! caches' `id` files are missing on some machines and contradict it on others (QEMU's AMD models).
//! An LLC ends at its node: with sub-NUMA clustering one cache serves several.

use super::limits::MAX_LLCS_PER_NODE;
use super::sysfs::LastCache;
use super::{MachineBuilder, cpulist};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of an online CPU before its LLC is.
pub(super) struct Facts {
    /// Kernel id of its node.
    pub node: u32,
    /// Lowest online CPU of its core.
    pub core: u32,
    /// Its last cache, if the kernel knows one.
    pub cache: Option<LastCache>,
}

/// The key of an LLC inside its node, which is the lowest CPU that shares it, and the cache's level.
pub(super) type LlcKey = (u32, Option<u8>);

/// The key of whatever shares a cache that nothing is known of.
const UNKNOWN: LlcKey = (u32::MAX, None);

/// The LLC of each CPU. `facts` are by kernel id, as is the answer.
pub(super) fn llc_keys(
    builder: &mut MachineBuilder,
    facts: &BTreeMap<u32, Facts>,
) -> BTreeMap<u32, LlcKey> {
    let in_node = |id: &u32, node: u32| facts.get(id).is_some_and(|other| other.node == node);
    let mut keys: BTreeMap<u32, LlcKey> = facts
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
    merge_private_caches(builder, facts, &mut keys);
    keys
}

/// Warns of missing cache information and of lists of sharers that contradict each other.
fn warn_of_caches(
    builder: &mut MachineBuilder,
    facts: &BTreeMap<u32, Facts>,
    keys: &BTreeMap<u32, LlcKey>,
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
    keys: &mut BTreeMap<u32, LlcKey>,
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
        keys.extend(members().map(|(&id, _)| (id, UNKNOWN)));
    }
}
