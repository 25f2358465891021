// SPDX-License-Identifier: GPL-2.0-only
//! What was compared, on what, and what did not take part.

use crate::compare::analysis::brief;
use crate::compare::record::{Fact, Plan, Skipped};
use crate::compare::report::content::{Block, Cell, Table, clean};
use crate::compare::report::model::{Machine, Model};
use crate::compare::report::number;

pub fn title(model: &Model) -> String {
    let others = match model.arms.len() {
        0 | 1 => String::new(),
        _ => format!(" against {}", model.base()),
    };
    let arms = match model.arms.len() {
        0 | 1 => model.base().to_owned(),
        2..=4 => model.arms[1..].join(", "),
        more => format!("{} arms", more - 1),
    };
    format!("{arms}{others}")
}

/// One line on each machine's comparison, then the arms.
pub fn arms(model: &Model) -> Vec<Block> {
    let mut blocks: Vec<Block> = model
        .machines
        .iter()
        .map(|machine| Block::Paragraph(machine_line(machine)))
        .collect();
    let mut table = Table::new(1, ["arm", "scheduler"]).with_prose();
    for (arm, label) in model.arms.iter().enumerate() {
        table.row([Cell::new(label), Cell::new(arm_text(model, arm))]);
    }
    blocks.push(Block::Table(table));
    blocks
}

/// What an arm is: its command, settings and role.
pub fn arm_text(model: &Model, arm: usize) -> String {
    let mut text = match model.arm(arm) {
        None => "not in any plan".to_owned(),
        Some(arm) if arm.argv.is_empty() => "EEVDF, the kernel's own".to_owned(),
        Some(arm) => arm.argv.join(" "),
    };
    match model.arm(arm).and_then(|arm| arm.numa_balancing) {
        Some(true) => text += "; NUMA balancing on",
        Some(false) => text += "; NUMA balancing off",
        None => {}
    }
    if arm == 0 {
        text += "; the base";
    }
    if let Some(original) = model.twin_of(arm) {
        text += &format!("; a copy of {original} (A/A: shows the noise)");
    }
    clean(&text)
}

pub fn machine_line(machine: &Machine) -> String {
    let plan = machine.plan;
    let seen = &plan.environment;
    clean(&format!(
        "{}: {} CPUs in {}, {}; {}, seed {}, scx_ballast {}, {}",
        machine.name,
        seen.cpus,
        count(seen.nodes.len(), "node"),
        seen.kernel,
        count(plan.blocks as usize, "block"),
        plan.seed,
        plan.version,
        plan.started
    ))
}

/// `3 blocks`, `1 block`.
pub fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// A table for each machine; with `verbose` all that is known of it.
pub fn environment(model: &Model, verbose: bool) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("Environment".to_owned())];
    for machine in &model.machines {
        blocks.push(Block::Table(environment_table(machine, verbose)));
    }
    blocks
}

/// Facts about one machine.
pub fn environment_table(machine: &Machine, verbose: bool) -> Table {
    let plan = machine.plan;
    let seen = &plan.environment;
    let mut table = Table::new(1, ["machine", &machine.name]).with_prose();
    let mut add = |name: &str, value: Cell| table.row([Cell::new(name), value]);
    add("kernel", Cell::new(&seen.kernel));
    add("CPU", fact(&seen.cpu_model));
    add("CPUs online", Cell::new(seen.cpus.to_string()));
    add("nodes", Cell::new(nodes(plan)));
    let memory = match &seen.memory_bytes {
        Fact::Known(bytes) => Cell::new(number::bytes(*bytes)),
        Fact::NotAvailable(why) => missing(why),
    };
    add("memory", memory);
    add("hypervisor", fact(&seen.hypervisor));
    add("NUMA balancing", fact(&seen.numa_balancing));
    add("frequency governor", fact(&seen.governor));
    let load = match &seen.load {
        Fact::Known(load) => Cell::new(format!("{load:.2}")),
        Fact::NotAvailable(why) => missing(why),
    };
    add("load when it began", load);
    if !verbose {
        return table;
    }
    add("SMT", fact(&seen.smt));
    add("transparent hugepages", fact(&seen.transparent_hugepages));
    add("boot line", fact(&seen.boot_line));
    match &seen.mitigations {
        Fact::NotAvailable(why) => add("mitigations", missing(why)),
        Fact::Known(all) => {
            for (name, state) in all {
                add(&format!("mitigation {name}"), Cell::new(state));
            }
        }
    }
    add("settle time", Cell::new(format!("{} ms", plan.settle_ms)));
    add(
        "compared by",
        Cell::new(format!("scx_ballast {}, {}", plan.version, plan.started)),
    );
    add("seed of the order", Cell::new(plan.seed.to_string()));
    table
}

fn nodes(plan: &Plan) -> String {
    let nodes = plan.environment.nodes.iter();
    let nodes: Vec<String> = nodes
        .map(|(node, cpus)| format!("{node}: {cpus}"))
        .collect();
    nodes.join("; ")
}

fn fact(fact: &Fact<String>) -> Cell {
    match fact {
        Fact::Known(text) if text.is_empty() => Cell::faint("(empty)"),
        Fact::Known(text) => Cell::new(text),
        Fact::NotAvailable(why) => missing(why),
    }
}

fn missing(why: &str) -> Cell {
    Cell::faint(format!("not available: {}", brief(why)))
}

/// Benchmarks that could not run, and why.
pub fn skipped(model: &Model) -> Vec<Block> {
    let skipped = model.skipped();
    if skipped.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<(&Skipped, Vec<String>)> = Vec::new();
    for (machine, benchmark) in skipped {
        match lines.iter_mut().find(|(known, _)| *known == benchmark) {
            Some((_, machines)) => machines.push(machine),
            None => lines.push((benchmark, vec![machine])),
        }
    }
    let lines = lines.into_iter().map(|(skipped, machines)| {
        let on = match machines.len() == model.machines.len() {
            true => String::new(),
            false => format!(" on {}", machines.join(", ")),
        };
        clean(&format!(
            "{}/{}{on}: {}",
            brief(&skipped.suite),
            brief(&skipped.name),
            brief(&skipped.reason)
        ))
    });
    vec![
        Block::Heading("Skipped benchmarks".to_owned()),
        Block::List(lines.collect()),
    ]
}

/// How many runs did not count; with `verbose` each with its reason.
pub fn discarded(model: &Model, verbose: bool) -> Vec<Block> {
    let all: usize = model
        .machines
        .iter()
        .map(|machine| machine.discarded.len())
        .sum();
    if all == 0 {
        return vec![Block::Paragraph("No run was discarded.".to_owned())];
    }
    let by_arm: Vec<String> = model
        .arms
        .iter()
        .enumerate()
        .filter_map(|(arm, label)| {
            let machines = model.machines.iter();
            let times: usize = machines.map(|machine| discarded_of(machine, arm)).sum();
            (times > 0).then(|| format!("{times} of {label}"))
        })
        .collect();
    let mut blocks = vec![Block::Paragraph(format!(
        "{} discarded, and repeated or given up: {}. The results file has the reasons.",
        count(all, "run"),
        by_arm.join(", ")
    ))];
    if verbose {
        blocks.push(Block::List(
            model.machines.iter().flat_map(reasons(model)).collect(),
        ));
    }
    blocks
}

fn discarded_of(machine: &Machine, arm: usize) -> usize {
    let discarded = machine.discarded.iter();
    discarded
        .filter(|run| machine.arm_of(run.arm) == Some(arm))
        .count()
}

fn reasons<'m>(model: &'m Model) -> impl Fn(&'m Machine<'m>) -> Vec<String> {
    move |machine| {
        let describe = |run: &&crate::compare::record::Discarded| {
            let arm = machine.arm_of(run.arm).map_or("?", |arm| &model.arms[arm]);
            let benchmarks = &machine.plan.benchmarks;
            let benchmark = benchmarks
                .get(run.benchmark)
                .map_or("?".to_owned(), |it| brief(&it.name));
            clean(&format!(
                "{}, block {}, {arm}, {benchmark}: {}",
                machine.name,
                run.block + 1,
                brief(&run.reason)
            ))
        };
        machine.discarded.iter().map(describe).collect()
    }
}
