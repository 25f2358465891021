// SPDX-License-Identifier: GPL-2.0-only
//! Levels as the command shows them: CPUs with the same numbers together.

use crate::machine::{CpuIdx, Levels, Machine, cpulist};
use std::collections::BTreeMap;

/// CPUs that have the same numbers at a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// Online CPUs in the domain of each.
    pub weight: u32,
    /// In tasks.
    pub imb_numa_nr: u32,
    /// The kernel removes the domain.
    pub degenerate: bool,
    /// Not empty, ascending.
    pub cpus: Vec<CpuIdx>,
}

/// The groups of a level (by its place), in the order of their first CPUs. CPUs that have no domain
/// there are in none.
pub(super) fn groups(machine: &Machine, levels: &Levels, level: usize) -> Vec<Group> {
    let mut by_numbers = BTreeMap::new();
    for cpu in machine.cpus() {
        if let Some(domain) = levels.domain_at(cpu.idx, level) {
            let numbers = (domain.weight, domain.imb_numa_nr, domain.degenerate);
            by_numbers
                .entry(numbers)
                .or_insert_with(Vec::new)
                .push(cpu.idx);
        }
    }
    let mut groups: Vec<Group> = by_numbers
        .into_iter()
        .map(|((weight, imb_numa_nr, degenerate), cpus)| Group {
            weight,
            imb_numa_nr,
            degenerate,
            cpus,
        })
        .collect();
    groups.sort_by(|a, b| a.cpus.cmp(&b.cpus));
    groups
}

impl Group {
    /// Its CPUs by the kernel's ids, in the kernel's list notation.
    pub fn cpu_list(&self, machine: &Machine) -> String {
        cpulist::format(
            self.cpus
                .iter()
                .map(|cpu| machine.cpus()[cpu.as_usize()].id),
        )
    }

    /// The shortest words for its CPUs: `all`, `nodes 0-3`, `CPUs 0-5,12`.
    pub fn words(&self, machine: &Machine) -> String {
        if self.cpus.len() == machine.cpus().len() {
            return "all".to_owned();
        }
        let mut by_node = vec![0; machine.nr_cpu_nodes()];
        for cpu in &self.cpus {
            by_node[machine.cpus()[cpu.as_usize()].node.as_usize()] += 1;
        }
        let nodes = || machine.cpu_nodes().iter().zip(&by_node);
        if nodes().any(|(node, &cpus)| cpus != 0 && cpus != node.weight()) {
            return format!("CPUs {}", self.cpu_list(machine));
        }
        let whole = nodes().filter(|(_, cpus)| **cpus != 0);
        let ids: Vec<u32> = whole.map(|(node, _)| node.id).collect();
        let plural = if ids.len() == 1 { "" } else { "s" };
        format!("node{plural} {}", cpulist::format(ids))
    }
}

/// The machine's warnings, and those that concern its levels.
pub(super) fn warnings(machine: &Machine, levels: &Levels) -> Vec<String> {
    let mut warnings = machine.warnings().to_vec();
    if !levels.sane() {
        warnings.push(
            "some remote nodes are at the local distance and their spans overlap; the kernel builds no \
             scheduling domains on such a machine, what is shown of them is what there would be"
                .to_owned(),
        );
    }
    warnings
}
