// SPDX-License-Identifier: GPL-2.0-only
//! How sure it is: each effect with interval, p values and verdict.

use crate::compare::analysis::{Row, Verdict};
use crate::compare::report::content::{Block, Cell, Table, Tone};
use crate::compare::report::model::{Change, Model, change, row_label};
use crate::compare::report::number;

/// Effects on the primary metrics, and with `verbose` on the secondary ones.
pub fn section(model: &Model, verbose: bool) -> Vec<Block> {
    if model.arms.len() < 2 {
        return Vec::new();
    }
    let mut blocks = Vec::new();
    let primary = table(model, model.primary_rows());
    if !primary.is_empty() {
        blocks.push(Block::Heading("How sure: primary metrics".to_owned()));
        blocks.push(Block::Table(primary));
    }
    if verbose {
        let secondary = table(model, model.analysis.rows.iter().filter(|row| !row.primary));
        if !secondary.is_empty() {
            blocks.push(Block::Heading("How sure: secondary metrics".to_owned()));
            blocks.push(Block::Table(secondary));
        }
    }
    blocks
}

pub fn table<'a>(model: &Model, rows: impl Iterator<Item = &'a Row>) -> Table {
    let base = model.base();
    let mut table = Table::new(
        1,
        [
            format!("against {base}"),
            "change".to_owned(),
            "95% interval".to_owned(),
            "p".to_owned(),
            "p (Holm)".to_owned(),
            "pairs".to_owned(),
            "verdict".to_owned(),
        ],
    );
    for row in rows {
        table.span(row_label(row));
        for (arm, label) in model.arms.iter().enumerate().skip(1) {
            table.row(cells(label, change(row, arm)));
        }
    }
    table
}

fn cells(label: &str, change: Option<Change>) -> Vec<Cell> {
    let Some(change) = change else {
        return vec![Cell::new(label), Cell::faint("no pair")];
    };
    let probability = |p: Option<f64>| match p {
        Some(p) => Cell::new(number::probability(p)),
        None => Cell::faint("-"),
    };
    vec![
        Cell::new(label),
        Cell::new(change.text()),
        match change.interval_text() {
            Some(interval) => Cell::new(interval),
            None => Cell::faint("-"),
        },
        probability(change.p),
        probability(change.p_holm),
        Cell::new(change.pairs.to_string()),
        Cell::new(verdict_word(change.verdict)).tone(tone(change.verdict)),
    ]
}

pub fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Undecided => "undecided",
        Verdict::TooFew => "too few",
    }
}

pub fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Better => Tone::Better,
        Verdict::Worse => Tone::Worse,
        Verdict::Undecided | Verdict::TooFew => Tone::Faint,
    }
}
