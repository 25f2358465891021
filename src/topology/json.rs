// SPDX-License-Identifier: GPL-2.0-only
//! The machine for programs; the fields are told in [`topology`](super).

use super::levels::{groups, warnings};
use crate::machine::{Levels, Llc, Machine, Node, NodeIdx, NodeSet, cpulist};
use serde::Serialize;

/// The machine for programs: one JSON object, fields as in the module's table.
///
/// # Errors
/// None that serde_json would have for plain numbers and strings.
pub fn render_json(machine: &Machine) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&MachineJson::of(machine, &Levels::of(machine)))
}
#[derive(Serialize)]
struct MachineJson {
    format: u32,
    nr_cpu_ids: usize,
    cpus: String,
    smt: bool,
    nodes: Vec<NodeJson>,
    levels: Vec<LevelJson>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct NodeJson {
    index: NodeIdx,
    id: u32,
    memory_only: bool,
    memory_mib: Option<u64>,
    weight: u32,
    cpus: String,
    imb_numa_nr: u32,
    distances: Vec<u32>,
    nearest_first: Vec<u32>,
    llcs: Vec<LlcJson>,
}

#[derive(Serialize)]
struct LlcJson {
    index: u16,
    level: Option<u8>,
    #[serde(rename = "virtual")]
    is_virtual: bool,
    weight: u32,
    cpus: String,
    cores: Vec<String>,
}

#[derive(Serialize)]
struct LevelJson {
    distance: u32,
    spans: Vec<String>,
    domains: Vec<DomainJson>,
}

#[derive(Serialize)]
struct DomainJson {
    cpus: String,
    weight: u32,
    imb_numa_nr: u32,
    degenerate: bool,
}

impl MachineJson {
    fn of(machine: &Machine, levels: &Levels) -> Self {
        Self {
            format: 1,
            nr_cpu_ids: machine.nr_cpu_ids(),
            cpus: cpulist::format(machine.cpus().iter().map(|cpu| cpu.id)),
            smt: machine.smt(),
            nodes: machine
                .nodes()
                .iter()
                .map(|node| NodeJson::of(machine, levels, node))
                .collect(),
            levels: (0..levels.numa_levels().len())
                .map(|level| LevelJson::of(machine, levels, level))
                .collect(),
            warnings: warnings(machine, levels),
        }
    }
}

impl NodeJson {
    fn of(machine: &Machine, levels: &Levels, node: &Node) -> Self {
        let nodes = machine.nodes();
        let order = machine.nearest_first(node.idx);
        Self {
            index: node.idx,
            id: node.id,
            memory_only: node.memory_only,
            memory_mib: node.memory_mib,
            weight: node.weight(),
            cpus: cpulist::format(machine.kernel_ids(&node.cpus)),
            imb_numa_nr: levels.node_limit(node.idx),
            distances: nodes
                .iter()
                .map(|to| machine.distance(node.idx, to.idx))
                .collect(),
            nearest_first: order
                .iter()
                .map(|other| nodes[other.as_usize()].id)
                .collect(),
            llcs: machine.llcs()[node.llcs.start as usize..node.llcs.end as usize]
                .iter()
                .map(|llc| LlcJson::of(machine, llc))
                .collect(),
        }
    }
}

impl LlcJson {
    fn of(machine: &Machine, llc: &Llc) -> Self {
        let cores = &machine.cores()[llc.cores.start as usize..llc.cores.end as usize];
        let siblings = cores.iter().map(|core| {
            cpulist::format(
                core.cpus
                    .iter()
                    .map(|cpu| machine.cpus()[cpu.as_usize()].id),
            )
        });
        Self {
            index: llc.idx.0,
            level: llc.level,
            is_virtual: llc.is_virtual,
            weight: llc.weight(),
            cpus: cpulist::format(machine.kernel_ids(&llc.cpus)),
            cores: siblings.collect(),
        }
    }
}

impl LevelJson {
    fn of(machine: &Machine, levels: &Levels, level: usize) -> Self {
        let set = |nodes: NodeSet| {
            let inside = machine
                .cpu_nodes()
                .iter()
                .filter(|node| nodes & 1 << node.idx.0 != 0);
            cpulist::format(inside.map(|node| node.id))
        };
        let domains = groups(machine, levels, level);
        let level = &levels.numa_levels()[level];
        Self {
            distance: level.distance(),
            spans: machine
                .cpu_nodes()
                .iter()
                .map(|node| set(level.span(node.idx)))
                .collect(),
            domains: domains
                .iter()
                .map(|group| DomainJson {
                    cpus: group.cpu_list(machine),
                    weight: group.weight,
                    imb_numa_nr: group.imb_numa_nr,
                    degenerate: group.degenerate,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineBuilder;

    #[test]
    fn json_says_what_the_documentation_says() {
        let mut builder = MachineBuilder::uniform(2, 2, 1, 2);
        builder.distance(0, 1, 21);
        let json = render_json(&builder.build().unwrap()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["format"], 1);
        assert_eq!(json["nr_cpu_ids"], 8);
        assert_eq!(json["smt"], true);
        let oneway = "the distance between nodes 0 and 1 depends on the direction";
        assert_eq!(json["warnings"], serde_json::json!([oneway]));
        let node = serde_json::json!({
            "index": 1, "id": 1, "memory_only": false, "memory_mib": null, "weight": 4,
            "cpus": "4-7", "imb_numa_nr": 2, "distances": [20, 10], "nearest_first": [1, 0],
            "llcs": [
                { "index": 2, "level": 3, "virtual": false, "weight": 2, "cpus": "4-5", "cores": ["4-5"] },
                { "index": 3, "level": 3, "virtual": false, "weight": 2, "cpus": "6-7", "cores": ["6-7"] },
            ],
        });
        assert_eq!(json["nodes"][1], node);
        let levels = serde_json::json!([
            { "distance": 10, "spans": ["0", "1"],
              "domains": [{ "cpus": "0-7", "weight": 4, "imb_numa_nr": 2, "degenerate": false }] },
            { "distance": 20, "spans": ["0", "0-1"],
              "domains": [
                { "cpus": "0-3", "weight": 4, "imb_numa_nr": 2, "degenerate": true },
                { "cpus": "4-7", "weight": 8, "imb_numa_nr": 2, "degenerate": false },
              ] },
            { "distance": 21, "spans": ["0-1", "0-1"],
              "domains": [{ "cpus": "0-3", "weight": 8, "imb_numa_nr": 4, "degenerate": false }] },
        ]);
        assert_eq!(json["levels"], levels);
    }
}
