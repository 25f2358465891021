// SPDX-License-Identifier: GPL-2.0-only
//! How evenly tasks, or where no benchmark told of tasks CPU time, lay on the nodes.

use crate::compare::report::content::{Block, Cell, Table, clean_brief};
use crate::compare::report::evidence::{busy_by_node, spreads};
use crate::compare::report::model::Model;
use crate::compare::report::number;

/// Both tables; nothing where nothing was seen.
pub fn section(model: &Model) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (heading, table) in [
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
        }
    }
    blocks
}

/// Median and range over all repeats, for benchmarks that print tasks per node.
fn tasks(model: &Model) -> Table {
    let mut table = head(model, "median (range) over repeats");
    for key in model.benchmarks() {
        let spreads: Vec<Vec<u32>> = (0..model.arms.len())
            .map(|arm| spreads(model.runs(arm, Some(key))))
            .collect();
        if spreads.iter().all(Vec::is_empty) {
            continue;
        }
        let cells = spreads.into_iter().map(|spread| {
            let values: Vec<f64> = spread.into_iter().map(f64::from).collect();
            range_cell(values, 0)
        });
        table.row(std::iter::once(Cell::new(clean_brief(key.1))).chain(cells));
    }
    table
}

/// Median and range over the runs.
fn busy(model: &Model) -> Table {
    let mut table = head(model, "median (range) over runs");
    for key in model.benchmarks() {
        let gaps: Vec<Vec<f64>> = (0..model.arms.len())
            .map(|arm| {
                let runs = model.runs(arm, Some(key));
                runs.filter_map(|run| gap(&busy_by_node(run)?)).collect()
            })
            .collect();
        if gaps.iter().all(Vec::is_empty) {
            continue;
        }
        let cells = gaps.into_iter().map(|gaps| range_cell(gaps, 0));
        table.row(std::iter::once(Cell::new(clean_brief(key.1))).chain(cells));
    }
    table
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

fn range_cell(mut values: Vec<f64>, decimals: usize) -> Cell {
    values.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first(), values.last()) else {
        return Cell::faint("not available");
    };
    let middle = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
    // Half tasks are a median between two repeats.
    let digits = if middle.fract() == 0.0 { decimals } else { 1 };
    Cell::new(format!(
        "{} ({}..{})",
        number::fixed(middle, digits),
        number::fixed(*low, decimals),
        number::fixed(*high, decimals)
    ))
}
