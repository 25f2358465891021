// SPDX-License-Identifier: GPL-2.0-only
//! How sure it is: each effect with interval, p values and verdict.

use crate::compare::analysis::{Row, Verdict};
use crate::compare::report::content::{Block, Cell, Table, Tone};
use crate::compare::report::model::{Change, Model, change, row_label};
use crate::compare::report::number;

/// Effects on the primary metrics, and with `verbose` on the secondary ones; with `machines` on each of
/// several machines, which is shown anyway where they contradict each other.
pub fn section(model: &Model, verbose: bool, machines: bool) -> Vec<Block> {
    if model.arms.len() < 2 {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let primary: Vec<&Row> = model.primary_rows().collect();
    if !primary.is_empty() {
        blocks.push(Block::Heading("How sure: primary metrics".to_owned()));
        blocks.push(Block::Table(table(model, &primary, machines)));
    }
    let secondary = model.analysis.rows.iter().filter(|row| !row.primary);
    let secondary: Vec<&Row> = secondary.collect();
    if verbose && !secondary.is_empty() {
        blocks.push(Block::Heading("How sure: secondary metrics".to_owned()));
        blocks.push(Block::Table(table(model, &secondary, machines)));
    }
    blocks
}

fn table(model: &Model, rows: &[&Row], machines: bool) -> Table {
    let head = [
        format!("against {}", model.base()),
        "change".to_owned(),
        "95% interval".to_owned(),
        "p".to_owned(),
        "p (Holm)".to_owned(),
        "pairs".to_owned(),
    ];
    let noise = has_noise(model, rows).then(|| "noise".to_owned());
    let mut table = Table::new(
        1,
        head.into_iter()
            .chain(noise.clone())
            .chain(["verdict".to_owned()]),
    );
    for row in rows {
        table.span(row_label(row));
        for (arm, label) in model.arms.iter().enumerate().skip(1) {
            let change = change(row, arm);
            table.row(cells(label, row, change.as_ref(), noise.is_some()));
            if let Some(change) = change.filter(|it| machines || it.machines_differ) {
                for cells in machine_cells(model, &change) {
                    table.row(cells);
                }
            }
        }
    }
    table
}

/// Whether an A/A arm says anything about any of `rows`.
pub fn has_noise(model: &Model, rows: &[&Row]) -> bool {
    let arms = 1..model.arms.len();
    rows.iter().any(|row| {
        arms.clone()
            .any(|arm| change(row, arm).is_some_and(|change| change.noise.is_some()))
    })
}

fn or_dash(text: Option<String>) -> Cell {
    text.map_or(Cell::faint("-"), Cell::new)
}

fn cells(label: &str, row: &Row, change: Option<&Change>, with_noise: bool) -> Vec<Cell> {
    let Some(change) = change else {
        return vec![Cell::new(label), Cell::faint("no pair")];
    };
    let noise = with_noise.then(|| or_dash(change.noise_text()));
    let verdict = Cell::new(change.verdict_word(row)).tone(tone(row, change.verdict));
    [
        Cell::new(label),
        Cell::new(change.text()),
        or_dash(change.interval_text()),
        or_dash(change.p.map(number::probability)),
        or_dash(change.p_holm.map(number::probability)),
        Cell::new(change.pairs.to_string()),
    ]
    .into_iter()
    .chain(noise)
    .chain([verdict])
    .collect()
}

/// A row for each machine; the rest of its columns belongs to all machines together.
fn machine_cells(model: &Model, change: &Change) -> Vec<Vec<Cell>> {
    let machines = change.machines.iter();
    machines
        .map(|on| {
            vec![
                Cell::faint(format!("- on {}", machine_name(model, on.machine))),
                Cell::faint(change.text_of(on.value)),
                Cell::faint(
                    change
                        .interval_text_of(on.interval)
                        .unwrap_or("-".to_owned()),
                ),
                Cell::new(""),
                Cell::new(""),
                Cell::faint(on.pairs.to_string()),
            ]
        })
        .collect()
}

pub fn machine_name<'m>(model: &'m Model, machine: usize) -> &'m str {
    model.machines.get(machine).map_or("?", |it| &it.name)
}

fn tone(row: &Row, verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Better if row.primary => Tone::Better,
        Verdict::Worse if row.primary => Tone::Worse,
        _ => Tone::Faint,
    }
}
