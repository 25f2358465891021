// SPDX-License-Identifier: GPL-2.0-only
//! What was seen while the benchmarks ran, by arm.

use crate::compare::record::Run;
use crate::compare::report::content::{Block, Cell, Table, clean_brief};
use crate::compare::report::evidence::{self, Pooled, QUANTITIES, Quantity};
use crate::compare::report::model::Model;

/// A table over all benchmarks and, with `verbose`, one for each and the counters of /proc/vmstat.
pub fn section(model: &Model, verbose: bool) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(
        "Evidence, over all runs that count".to_owned(),
    )];
    let (table, notes) = summary(model, None);
    blocks.push(Block::Table(table));
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    if !verbose {
        return blocks;
    }
    if model.benchmarks().len() > 1 {
        for (suite, benchmark) in model.benchmarks() {
            blocks.push(Block::Heading(format!(
                "Evidence, {}",
                clean_brief(benchmark)
            )));
            blocks.push(Block::Table(summary(model, Some((suite, benchmark))).0));
        }
    }
    blocks.extend(vmstat(model));
    blocks
}

/// The quantities of one benchmark, or of all; and why some are not available.
pub fn summary<'a>(
    model: &Model<'a>,
    benchmark: Option<(&'a str, &'a str)>,
) -> (Table, Vec<String>) {
    let head = ["seen during the runs", "unit"]
        .into_iter()
        .map(str::to_owned);
    let mut table = Table::new(2, head.chain(model.arms.iter().cloned()));
    table.row(counts(model, benchmark));
    let mut quantities = Vec::new();
    for quantity in &QUANTITIES {
        let pooled: Vec<Pooled> = (0..model.arms.len())
            .map(|arm| evidence::pool(quantity, model.runs(arm, benchmark)))
            .collect();
        let labels = [Cell::new(quantity.name), Cell::new(quantity.unit)];
        table.row(labels.into_iter().chain(pooled.iter().map(cell)));
        quantities.push((quantity, pooled));
    }
    (table, notes(&quantities, &model.arms))
}

fn counts<'a>(model: &Model<'a>, benchmark: Option<(&'a str, &'a str)>) -> Vec<Cell> {
    let counts =
        (0..model.arms.len()).map(|arm| Cell::new(model.runs(arm, benchmark).count().to_string()));
    [Cell::new("runs"), Cell::new("")]
        .into_iter()
        .chain(counts)
        .collect()
}

fn cell(pooled: &Pooled) -> Cell {
    match pooled {
        Pooled::Known { .. } => Cell::new(pooled.text()),
        Pooled::NotAvailable(_) | Pooled::NoRuns => Cell::faint(pooled.text()),
    }
}

/// Why a quantity is not available, or of how many runs it is: one line for each reason, with all the
/// quantities and arms that share it.
fn notes(quantities: &[(&Quantity, Vec<Pooled>)], arms: &[String]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for (quantity, pooled) in quantities {
        let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
        for (pooled, arm) in pooled.iter().zip(arms) {
            if let Some(reason) = pooled.remark(quantity.unit) {
                append(&mut reasons, reason, arm);
            }
        }
        for (reason, of) in reasons {
            let text = match of.len() == arms.len() {
                true => reason,
                false => format!("{reason} ({})", of.join(", ")),
            };
            append(&mut lines, text, quantity.name);
        }
    }
    let lines = lines.into_iter();
    lines
        .map(|(reason, of)| format!("{}: {reason}", of.join("; ")))
        .collect()
}

fn append<'a>(lists: &mut Vec<(String, Vec<&'a str>)>, key: String, item: &'a str) {
    match lists.iter_mut().find(|(known, _)| *known == key) {
        Some((_, items)) => items.push(item),
        None => lists.push((key, vec![item])),
    }
}

/// Counters of /proc/vmstat per second, those last that mean nothing under sched_ext.
pub fn vmstat(model: &Model) -> Vec<Block> {
    let all = || (0..model.arms.len()).flat_map(|arm| model.runs(arm, None));
    let names = evidence::vmstat_names(all());
    if names.is_empty() {
        return Vec::new();
    }
    let (silent, telling): (Vec<&str>, Vec<&str>) = names
        .into_iter()
        .partition(|name| evidence::is_meaningless_under_sched_ext(name));
    let head = std::iter::once("/proc/vmstat, per s".to_owned());
    let mut table = Table::new(1, head.chain(model.arms.iter().cloned()));
    let add = |table: &mut Table, name: &str| {
        let cells = (0..model.arms.len()).map(|arm| {
            let runs: Vec<&Run> = model.runs(arm, None).collect();
            cell(&evidence::vmstat(name, runs))
        });
        table.row(std::iter::once(Cell::new(name)).chain(cells));
    };
    for name in telling {
        add(&mut table, name);
    }
    if !silent.is_empty() {
        table.span(
            "driven by the fair class alone: near 0 under sched_ext, and no sign of anything",
        );
    }
    for name in silent {
        add(&mut table, name);
    }
    vec![
        Block::Heading("Memory counters".to_owned()),
        Block::Table(table),
    ]
}
