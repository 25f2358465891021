// SPDX-License-Identifier: GPL-2.0-only
//! How sure it is: each effect with interval, p values and verdict.

use crate::compare::analysis::{Effect, Row, Verdict};
use crate::compare::report::content::{Block, Cell, Table, Tone};
use crate::compare::report::model::{Model, effect, row_label};
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
            table.row(cells(label, effect(row, arm), row));
        }
    }
    table
}

fn cells(label: &str, effect: Option<&Effect>, row: &Row) -> Vec<Cell> {
    let Some(effect) = effect else {
        return vec![Cell::new(label), Cell::faint("no pair")];
    };
    let probability = |p: Option<f64>| match p {
        Some(p) => Cell::new(number::probability(p)),
        None => Cell::faint("-"),
    };
    vec![
        Cell::new(label),
        Cell::new(number::signed_percent(effect.change)),
        match effect.interval {
            Some(interval) => Cell::new(interval_text(row, interval)),
            None => Cell::faint("-"),
        },
        probability(effect.p),
        probability(effect.p_holm),
        Cell::new(effect.pairs.to_string()),
        Cell::new(verdict_word(effect.verdict)).tone(tone(effect.verdict)),
    ]
}

/// An interval of ratios as changes in %.
pub fn interval_text(row: &Row, interval: (f64, f64)) -> String {
    let (low, high) = number::change_interval(row.better, interval);
    let signed = |change: f64| number::signed_percent(change).replace('%', "");
    format!("{} .. {}", signed(low), signed(high))
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
