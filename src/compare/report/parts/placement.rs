// SPDX-License-Identifier: GPL-2.0-only
//! How evenly tasks, or where no benchmark told of tasks CPU time, lay on the nodes.

use crate::compare::record::Run;
use crate::compare::report::content::{Block, Cell, Table, clean_brief};
use crate::compare::report::evidence::{busy_by_node, spreads};
use crate::compare::report::model::Model;
use crate::compare::report::number;

/// Both tables; nothing where nothing was seen.
pub fn section(model: &Model) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (heading, (table, notes)) in [
        (
            "Placement: tasks on the fullest node beyond the emptiest",
            tasks(model),
        ),
        (
            "CPU time: busiest node beyond the idlest, % of a node",
            busy(model),
        ),
    ] {
        if !table.is_empty() {
            blocks.push(Block::Heading(heading.to_owned()));
            blocks.push(Block::Table(table));
            if !notes.is_empty() {
                blocks.push(Block::List(notes));
            }
        }
    }
    blocks
}

/// Median and range over all repeats, for benchmarks that print tasks per node.
fn tasks(model: &Model) -> (Table, Vec<String>) {
    spread(model, "median (range) over repeats", |run| {
        spreads([run]).into_iter().map(f64::from).collect()
    })
}

/// Median and range over the runs.
fn busy(model: &Model) -> (Table, Vec<String>) {
    spread(model, "median (range) over runs", |run| {
        let nodes = busy_by_node(run);
        nodes.and_then(|nodes| gap(&nodes)).into_iter().collect()
    })
}

/// A row for each benchmark that any run tells something of, and of how many runs it is where not all do.
fn spread(model: &Model, what: &str, tell: fn(&Run) -> Vec<f64>) -> (Table, Vec<String>) {
    let mut table = head(model, what);
    let mut notes = Vec::new();
    for key in model.benchmarks() {
        let told: Vec<Vec<Vec<f64>>> = (0..model.arms.len())
            .map(|arm| model.runs(arm, Some(key)).map(tell).collect())
            .collect();
        if told.iter().flatten().all(Vec::is_empty) {
            continue;
        }
        let partly: Vec<String> = told
            .iter()
            .zip(&model.arms)
            .filter_map(|(runs, label)| {
                let known = runs.iter().filter(|values| !values.is_empty()).count();
                let is_partly = 0 < known && known < runs.len();
                is_partly.then(|| format!("{known} of {} runs of {label}", runs.len()))
            })
            .collect();
        if !partly.is_empty() {
            notes.push(format!(
                "{}: known of {}",
                clean_brief(key.1),
                partly.join(", ")
            ));
        }
        let cells = told.into_iter().map(|runs| range_cell(runs.concat()));
        table.row(std::iter::once(Cell::new(clean_brief(key.1))).chain(cells));
    }
    (table, notes)
}

fn head(model: &Model, what: &str) -> Table {
    Table::new(
        1,
        std::iter::once(what.to_owned()).chain(model.arms.iter().cloned()),
    )
}

/// Busiest minus idlest, in %; none with fewer than two nodes.
fn gap(nodes: &[(u32, f64)]) -> Option<f64> {
    let shares = || nodes.iter().map(|(_, share)| *share);
    let most = shares().reduce(f64::max)?;
    let least = shares().reduce(f64::min)?;
    (nodes.len() > 1).then_some((most - least) * 100.0)
}

fn range_cell(mut values: Vec<f64>) -> Cell {
    values.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first(), values.last()) else {
        return Cell::faint("not available");
    };
    let middle = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
    // The same for all three: rounded differently, a median can lie outside of its range. Tasks are whole,
    // but for a median between two repeats.
    let is_whole = [*low, middle, *high]
        .iter()
        .all(|value| value.fract() == 0.0);
    let text = |value: f64| number::fixed(value, if is_whole { 0 } else { 1 });
    Cell::new(format!(
        "{} ({}..{})",
        text(middle),
        text(*low),
        text(*high)
    ))
}
