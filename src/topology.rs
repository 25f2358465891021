// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast topology`: the machine as the scheduler sees it.
//!
//! [`render_text`] is for people, compact from one socket to sixteen, and may change.
//! [`render_json`] is for programs: fields are added, never renamed or removed, and `format` would
//! count up if that promise had to be broken. Ids are the kernel's unless a field says `index`;
//! sets of CPUs are strings in the kernel's list notation.
//!
//! | field | what |
//! |---|---|
//! | `format` | 1 |
//! | `nr_cpu_ids` | highest possible CPU id + 1 |
//! | `cpus` | online CPUs |
//! | `smt` | some core has more than one online CPU |
//! | `nodes[]` | nodes with CPUs first, both kinds by id |
//! | `nodes[].index`, `.id` | dense index, kernel's id |
//! | `nodes[].memory_only` | no online CPU: in no order, limit or average |
//! | `nodes[].memory_mib` | memory in MiB, `null` if unknown |
//! | `nodes[].weight`, `.cpus` | number and set of online CPUs |
//! | `nodes[].distances[]` | to each entry of `nodes`, 10 is local |
//! | `nodes[].nearest_first[]` | ids of nodes with CPUs, in the order in which this one looks for help |
//! | `nodes[].llcs[].index` | dense index |
//! | `nodes[].llcs[].level` | cache level, `null` without cache information |
//! | `nodes[].llcs[].virtual` | a part of an LLC (`--virt-llc`) |
//! | `nodes[].llcs[].weight`, `.cpus` | number and set of online CPUs |
//! | `nodes[].llcs[].cores[]` | online CPUs of each core |
//! | `warnings[]` | what was odd, one sentence each |
//!
//! NUMA levels with their imb_numa_nr come next to `nodes` as `levels`, and behind the distances in
//! the text.

use crate::cli::{Format, TopologyArgs, VirtLlc};
use crate::machine::{Llc, Machine, Node, NodeIdx, cpulist};
use anyhow::Context;
use serde::Serialize;
use std::fmt::Write;
use std::io::Write as _;

/// `scx_ballast topology`.
pub fn run(args: &TopologyArgs) -> anyhow::Result<()> {
    let machine = Machine::detect(args.virt_llc.map(VirtLlc::range))?;
    let text = match args.format {
        Format::Text => render_text(&machine),
        Format::Json => render_json(&machine)? + "\n",
    };
    // Not print!, which panics when the reader has gone or the disk is full.
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Lines of the text do not grow beyond this where they can be broken.
const LINE_WIDTH: usize = 100;

/// The machine for people: lines, each of them ended; the warnings last.
pub fn render_text(machine: &Machine) -> String {
    let sections = [
        summary(machine),
        node_table(machine),
        llc_lists(machine),
        distance_table(machine),
        warning_list(machine),
    ];
    let sections: Vec<String> = sections
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    sections.join("\n")
}

/// The machine for programs: one JSON object, fields as in the module's table.
///
/// # Errors
/// None that serde_json would have for plain numbers and strings.
pub fn render_json(machine: &Machine) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&MachineJson::of(machine))
}

fn summary(machine: &Machine) -> String {
    let smt = match machine
        .cores()
        .iter()
        .rev()
        .max_by_key(|core| core.cpus.len())
    {
        Some(core) if core.cpus.len() > 1 => {
            let siblings = core
                .cpus
                .iter()
                .map(|cpu| machine.cpus()[cpu.as_usize()].id);
            format!(
                "up to {} CPUs per core (such as {})",
                core.cpus.len(),
                cpulist::format(siblings)
            )
        }
        _ => "no SMT".to_owned(),
    };
    format!(
        "{}, {}, {}, {}; {smt}; CPU ids 0 to {}\n",
        counted(machine.nodes().len(), "node"),
        counted(machine.llcs().len(), "LLC"),
        counted(machine.cores().len(), "core"),
        counted(machine.cpus().len(), "CPU"),
        machine.nr_cpu_ids() - 1,
    )
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn node_table(machine: &Machine) -> String {
    let head = [
        "node", "memory", "LLCs", "cache", "cores", "CPUs", "CPU list",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for node in machine.nodes() {
        let cpus = match node.memory_only {
            true => "none: not scheduled on".to_owned(),
            false => cpulist::format(machine.kernel_ids(&node.cpus)),
        };
        rows.push([
            node.id.to_string(),
            node.memory_mib.map_or("?".to_owned(), memory),
            node.llcs.len().to_string(),
            caches(llcs_of(machine, node)),
            node.cores.len().to_string(),
            node.cpus.len().to_string(),
            cpus,
        ]);
    }
    table(&rows)
}

/// A size in MiB with one decimal in the unit that suits it.
fn memory(mib: u64) -> String {
    match mib {
        0..1024 => format!("{mib} MiB"),
        _ => format!("{}.{} GiB", mib / 1024, mib % 1024 * 10 / 1024),
    }
}

/// The kinds of last-level caches among `llcs`: `L3`, `L2/L3`, `L3 parts`, `?`.
fn caches(llcs: &[Llc]) -> String {
    let mut kinds: Vec<String> = llcs
        .iter()
        .map(|llc| match (llc.level, llc.is_virtual) {
            (Some(level), false) => format!("L{level}"),
            (Some(level), true) => format!("L{level} parts"),
            (None, false) => "?".to_owned(),
            (None, true) => "node parts".to_owned(),
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join("/")
}

fn llcs_of<'a>(machine: &'a Machine, node: &Node) -> &'a [Llc] {
    &machine.llcs()[node.llcs.start as usize..node.llcs.end as usize]
}

/// Which CPUs are in which LLC, one paragraph per node; nothing if every node is one LLC.
fn llc_lists(machine: &Machine) -> String {
    if machine.llcs().len() == machine.nr_cpu_nodes() {
        return String::new();
    }
    let entry = |llc: &Llc| {
        format!(
            "{}: {}",
            llc.idx,
            cpulist::format(machine.kernel_ids(&llc.cpus))
        )
    };
    let width = machine.llcs().iter().map(|llc| entry(llc).len()).max();
    let width = width.unwrap_or(0) + 3;
    let label = machine
        .cpu_nodes()
        .iter()
        .map(|node| node.id.to_string().len())
        .max();
    let label = label.unwrap_or(0);
    let indent = "LLCs of node   ".len() + label;
    let per_line = (LINE_WIDTH.saturating_sub(indent) / width).max(1);

    let mut text = String::new();
    for node in machine.cpu_nodes() {
        for (at, llcs) in llcs_of(machine, node).chunks(per_line).enumerate() {
            let lead = match at {
                0 => format!("LLCs of node {:>label$}  ", node.id),
                _ => " ".repeat(indent),
            };
            let line: String = llcs
                .iter()
                .map(|llc| format!("{:width$}", entry(llc)))
                .collect();
            push_line(&mut text, &(lead + &line));
        }
    }
    text
}

fn distance_table(machine: &Machine) -> String {
    if machine.nodes().len() < 2 {
        return String::new();
    }
    let mut text = format!("{:>8}", "distance");
    for to in machine.nodes() {
        let _ = write!(text, " {:>4}", to.id);
    }
    text.push('\n');
    for from in machine.nodes() {
        let _ = write!(text, "{:>8}", from.id);
        for to in machine.nodes() {
            let _ = write!(text, " {:>4}", machine.distance(from.idx, to.idx));
        }
        text.push('\n');
    }
    text
}

fn warning_list(machine: &Machine) -> String {
    machine
        .warnings()
        .iter()
        .map(|warning| format!("warning: {warning}\n"))
        .collect()
}

/// `rows` in columns two spaces apart, all but the last aligned to the right.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells =
            row.iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| match column + 1 == N {
                    true => cell.clone(),
                    false => format!("{cell:>width$}  "),
                });
        push_line(&mut text, &cells.collect::<String>());
    }
    text
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

#[derive(Serialize)]
struct MachineJson<'a> {
    format: u32,
    nr_cpu_ids: usize,
    cpus: String,
    smt: bool,
    nodes: Vec<NodeJson>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct NodeJson {
    index: NodeIdx,
    id: u32,
    memory_only: bool,
    memory_mib: Option<u64>,
    weight: u32,
    cpus: String,
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

impl<'a> MachineJson<'a> {
    fn of(machine: &'a Machine) -> Self {
        Self {
            format: 1,
            nr_cpu_ids: machine.nr_cpu_ids(),
            cpus: cpulist::format(machine.cpus().iter().map(|cpu| cpu.id)),
            smt: machine.smt(),
            nodes: machine
                .nodes()
                .iter()
                .map(|node| NodeJson::of(machine, node))
                .collect(),
            warnings: machine.warnings(),
        }
    }
}

impl NodeJson {
    fn of(machine: &Machine, node: &Node) -> Self {
        let nodes = machine.nodes();
        let order = machine.nearest_first(node.idx);
        Self {
            index: node.idx,
            id: node.id,
            memory_only: node.memory_only,
            memory_mib: node.memory_mib,
            weight: node.weight(),
            cpus: cpulist::format(machine.kernel_ids(&node.cpus)),
            distances: nodes
                .iter()
                .map(|to| machine.distance(node.idx, to.idx))
                .collect(),
            nearest_first: order
                .iter()
                .map(|other| nodes[other.as_usize()].id)
                .collect(),
            llcs: llcs_of(machine, node)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineBuilder;

    #[test]
    fn one_llc_per_node_needs_no_list_of_them() {
        let mut builder = MachineBuilder::uniform(2, 1, 4, 2);
        builder.nr_cpu_ids(32).node(7, Some(16384)).warn("odd.");
        let text = render_text(&builder.build().unwrap());
        let expected = "\
3 nodes, 2 LLCs, 8 cores, 16 CPUs; up to 2 CPUs per core (such as 0-1); CPU ids 0 to 31

node    memory  LLCs  cache  cores  CPUs  CPU list
   0         ?     1     L3      4     8  0-7
   1         ?     1     L3      4     8  8-15
   7  16.0 GiB     0             0     0  none: not scheduled on

distance    0    1    7
       0   10   20   20
       1   20   10   20
       7   20   20   10

warning: odd.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn llcs_are_listed_in_columns_and_broken() {
        let machine = MachineBuilder::uniform(2, 10, 16, 1).build().unwrap();
        let text = llc_lists(&machine);
        assert!(text.lines().all(|line| line.len() <= LINE_WIDTH), "{text}");
        assert!(
            text.starts_with("LLCs of node 0  0: 0-15       1: 16-31"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.ends_with("19: 304-319\n"), "{text}");
    }

    #[test]
    fn one_node_is_one_short_page() {
        let text = render_text(&MachineBuilder::uniform(1, 1, 4, 1).build().unwrap());
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.starts_with("1 node, 1 LLC, 4 cores, 4 CPUs; no SMT; CPU ids 0 to 3\n"));
    }

    #[test]
    fn json_says_what_the_documentation_says() {
        let mut builder = MachineBuilder::uniform(2, 2, 1, 2);
        builder.distance(0, 1, 21);
        let json = render_json(&builder.build().unwrap()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["format"], 1);
        assert_eq!(json["nr_cpu_ids"], 8);
        assert_eq!(json["smt"], true);
        assert_eq!(json["warnings"], serde_json::json!([]));
        let node = serde_json::json!({
            "index": 1, "id": 1, "memory_only": false, "memory_mib": null, "weight": 4,
            "cpus": "4-7", "distances": [20, 10], "nearest_first": [1, 0],
            "llcs": [
                { "index": 2, "level": 3, "virtual": false, "weight": 2, "cpus": "4-5", "cores": ["4-5"] },
                { "index": 3, "level": 3, "virtual": false, "weight": 2, "cpus": "6-7", "cores": ["6-7"] },
            ],
        });
        assert_eq!(json["nodes"][1], node);
    }
}
