// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast rules`: the limits that the flags compile to on a machine.
//!
//! For each node the numbers of the chosen set, then those of every set side by side. A limit reads
//! "at most N tasks" ([`max_running`](crate::policy::compile::PairLimits::max_running)) and "an imbalance of at
//! most N". Both formats have all sets; the fields of JSON are told in docs/rules.md.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use crate::cli::{Format, RulesArgs};
use crate::machine::Machine;
use crate::output;
use crate::policy::compile::{Limits, NodeShape, PairLimits, Thresholds};
use crate::policy::limits::UNLIMITED;
use crate::policy::placement::Judge;
use crate::policy::rule_set::{RuleSet, Side};

/// `scx_ballast rules`.
pub fn run(args: &RulesArgs) -> Result<()> {
    let machine = args.machine.read()?;
    let shapes = NodeShape::all(&machine);
    let thresholds = args.rules.thresholds();
    let chosen = Limits::compile(args.rules.rules, thresholds, &shapes);
    let text = match args.format {
        Format::Text => render_text(&machine, &shapes, &chosen, thresholds),
        Format::Json => render_json(&machine, &shapes, chosen.set, thresholds)? + "\n",
    };
    output::write(text)
}

/// The same for programs.
#[derive(Serialize)]
struct RulesJson {
    format: u32,
    chosen: RuleSet,
    nodes: Vec<NodeJson>,
    sets: Vec<SetJson>,
}

/// A node with CPUs, by dense index.
#[derive(Serialize)]
struct NodeJson {
    id: u32,
    /// Its LLCs as they are split, as many as the real ones if they are not.
    split_llcs: usize,
    #[serde(flatten)]
    shape: NodeShape,
}

#[derive(Serialize)]
struct SetJson {
    description: &'static str,
    #[serde(flatten)]
    limits: Limits,
}

/// Every set's limits for programs; `chosen` is named.
///
/// # Errors
/// None that serde_json would have for plain numbers and strings.
pub fn render_json(
    machine: &Machine,
    shapes: &[NodeShape],
    chosen: RuleSet,
    thresholds: Thresholds,
) -> serde_json::Result<String> {
    let nodes = shapes.iter().zip(machine.cpu_nodes());
    let sets = RuleSet::ALL.into_iter();
    serde_json::to_string_pretty(&RulesJson {
        format: 1,
        chosen,
        nodes: nodes
            .map(|(shape, node)| NodeJson {
                id: node.id,
                split_llcs: node.llcs.len(),
                shape: *shape,
            })
            .collect(),
        sets: sets
            .map(|set| SetJson {
                description: describe(set),
                limits: Limits::compile(set, thresholds, shapes),
            })
            .collect(),
    })
}

/// Every set's limits for people; `chosen` is marked.
pub fn render_text(
    machine: &Machine,
    shapes: &[NodeShape],
    chosen: &Limits,
    thresholds: Thresholds,
) -> String {
    let mut text = format!("rule set {}: {}\n", chosen.set, describe(chosen.set));
    for group in groups(machine, shapes) {
        let _ = write!(text, "\n{}\n", group.title);
        let _ = writeln!(
            text,
            "  {:8}  {:34}  {:44}  move to preferred node if then",
            "set", "fork stays local while", "run time leaves alone while"
        );
        for set in RuleSet::ALL {
            let limits = Limits::compile(set, thresholds, shapes);
            let mark = if set == chosen.set { '*' } else { ' ' };
            let _ = writeln!(
                text,
                "{mark} {set:8}  {:34}  {:44}  {}",
                fork(&limits, group.node),
                pair(&limits.run_time, group.node),
                pair(&limits.preferred, group.node),
            );
        }
    }
    text.push_str(FOOTNOTES);
    text
}

/// How to read the table.
const FOOTNOTES: &str = "
tasks: committed tasks of the node, running, waiting or newborn; excess: of the busier node over the lighter,
in tasks; an excess of 1 is always left alone. More: docs/rules.md
";

fn describe(set: RuleSet) -> &'static str {
    match set {
        RuleSet::Ballast => "one predicate at fork, at run time and for preferred nodes",
        RuleSet::None => "no tolerance at all (Linux 5.5)",
        RuleSet::V5_6 => "a model of Linux 5.6",
        RuleSet::V5_11 => "a model of Linux 5.11",
        RuleSet::V5_18 => "a model of Linux 5.18",
        RuleSet::V6_0 => "a model of Linux 6.0 and later",
    }
}

/// Nodes of the same shape.
struct Group {
    /// One of them, dense.
    node: usize,
    title: String,
}

fn groups(machine: &Machine, shapes: &[NodeShape]) -> Vec<Group> {
    // Nodes that are split otherwise have a line of their own, although their limits are the same.
    let mut kinds: Vec<((NodeShape, usize), Vec<u32>, usize)> = Vec::new();
    for (node, (shape, at)) in shapes.iter().zip(machine.cpu_nodes()).enumerate() {
        let shape = (*shape, at.llcs.len());
        match kinds.iter_mut().find(|(kind, ..)| *kind == shape) {
            Some((_, ids, _)) => ids.push(at.id),
            None => kinds.push((shape, vec![at.id], node)),
        }
    }
    let title = |(shape, parts): (NodeShape, usize), ids: Vec<u32>| {
        let plural = if ids.len() == 1 { "" } else { "s" };
        let llcs = if shape.llcs == 1 { "LLC" } else { "LLCs" };
        let split = match parts == shape.llcs as usize {
            true => String::new(),
            false => format!(" (split into {parts} virtual ones, which the limits do not count)"),
        };
        format!(
            "node{plural} {}: {} CPUs in {} {llcs}{split}, the kernel's imb_numa_nr is {}",
            crate::machine::cpulist::format(ids),
            shape.weight,
            shape.llcs,
            shape.imb_numa_nr
        )
    };
    kinds
        .into_iter()
        .map(|(shape, ids, node)| Group {
            node,
            title: title(shape, ids),
        })
        .collect()
}

fn fork(limits: &Limits, node: usize) -> String {
    let fork = &limits.fork;
    let most = fork.max_running[node];
    match fork.judge {
        Judge::After => format!("excess after <= {} and tasks <= {most}", fork.max_imbalance),
        Judge::Before if most == 0 => "no other node has more spare".into(),
        Judge::Before if fork.max_imbalance == UNLIMITED => format!("tasks + 1 <= {most}"),
        Judge::Before => format!(
            "spare differs <= {}, tasks + 1 <= {most}",
            fork.max_imbalance
        ),
    }
}

fn pair(limits: &PairLimits, node: usize) -> String {
    let most = limits.max_running[node];
    let side = match limits.side {
        Side::Busier => "busier",
        Side::Lighter => "lighter",
    };
    let one_more = if limits.one_more { " + 1" } else { "" };
    let excess = if limits.halved {
        "excess / 2"
    } else {
        "excess"
    };
    match limits.max_imbalance {
        _ if most == 0 => "excess <= 1".into(),
        UNLIMITED => format!("{side}{one_more} <= {most}"),
        max => format!("{excess} <= {max} and {side}{one_more} <= {most}"),
    }
}
