// SPDX-License-Identifier: GPL-2.0-only
//! Tables of the page; each scrolls by itself where it is wider than the screen.

use maud::{Markup, html};

use super::pairs::{class, interval, verdict};
use super::scale::{Scale, px};
use crate::compare::analysis::{Row, Sample};
use crate::compare::report::content::{Block, Cell, Row as TableRow, Table, Tone};
use crate::compare::report::model::{Change, Model, change, row_label, summary};
use crate::compare::report::number;
use crate::compare::report::parts::effects::{has_noise, machine_name};
use crate::compare::report::parts::results::row_decimals;

/// Blocks as they stand, under headings of a section's parts.
pub fn blocks(blocks: &[Block]) -> Markup {
    html! {
        @for block in blocks {
            @match block {
                Block::Title(text) | Block::Heading(text) => h3 { (text) },
                Block::Paragraph(text) | Block::Verdict(text) => p { (text) },
                Block::Warning(text) => p class="warning" { (text) },
                Block::List(lines) => ul class="notes" { @for line in lines { li { (line) } } },
                Block::Table(inner) => (table(inner)),
            }
        }
    }
}

pub fn table(table: &Table) -> Markup {
    html! {
        div class="scroll" tabindex="0" {
            table class=[table.prose.then_some("prose")] {
                thead { tr {
                    @for (at, head) in table.head.iter().enumerate() {
                        th scope="col" class=[(at < table.labels).then_some("label")] { (head) }
                    }
                } }
                tbody { @for row in &table.rows { tr {
                    @match row {
                        TableRow::Span(text) => th class="span" scope="colgroup" colspan=(table.head.len()) { (text) },
                        TableRow::Cells(cells) => {
                            @for (at, cell) in cells.iter().enumerate() {
                                @if at + 1 == table.labels {
                                    th scope="row" class="label" { (cell.text) }
                                } @else {
                                    (plain(cell, at < table.labels))
                                }
                            }
                        },
                    }
                } } }
            }
        }
    }
}

fn plain(cell: &Cell, is_label: bool) -> Markup {
    let tone = match cell.tone {
        Tone::Plain => "",
        Tone::Better => "better",
        Tone::Worse => "worse",
        Tone::Faint => "faint",
    };
    html! {
        @if is_label {
            td class={ "label " (tone) } { (cell.text) }
        } @else if tone.is_empty() {
            td { (cell.text) }
        } @else {
            td class=(tone) { (cell.text) }
        }
    }
}

/// Effects with their intervals drawn on one axis.
pub fn effects(model: &Model, rows: &[&Row]) -> Markup {
    let scale = common_scale(model, rows);
    let with_noise = has_noise(model, rows);
    html! {
        div class="scroll" tabindex="0" {
            table class="effects" {
                thead { tr {
                    th scope="col" class="label" { "against " (model.base()) }
                    th scope="col" { "verdict" }
                    th scope="col" { "change" }
                    th scope="col" class="drawn" { (ends(&scale)) }
                    th scope="col" { "95% interval" }
                    th scope="col" { "p" }
                    th scope="col" { "p (Holm)" }
                    th scope="col" { "pairs" }
                    @if with_noise { th scope="col" { "noise" } }
                } }
                tbody { @for row in rows {
                    tr { th class="span" scope="colgroup" colspan=(if with_noise { 9 } else { 8 }) { (row_label(row)) } }
                    @for (arm, label) in model.arms.iter().enumerate().skip(1) {
                        tr { th scope="row" class="label in" { (label) } (effect_cells(row, arm, &scale, with_noise)) }
                        (machine_rows(model, row, arm, with_noise))
                    }
                } }
            }
        }
    }
}

/// An arm on each of several machines.
fn machine_rows(model: &Model, row: &Row, arm: usize, with_noise: bool) -> Markup {
    let change = change(row, arm);
    html! {
        @if let Some(change) = &change { @for on in &change.machines {
            tr class="faint" {
                th scope="row" class="label in" { "- on " (machine_name(model, on.machine)) }
                td {}
                td { (change.text_of(on.value)) }
                td {}
                td { (change.interval_text_of(on.interval).unwrap_or("-".to_owned())) }
                td {}
                td {}
                td { (on.pairs) }
                @if with_noise { td {} }
            }
        } }
    }
}

fn effect_cells(row: &Row, arm: usize, scale: &Scale, with_noise: bool) -> Markup {
    let Some(change) = change(row, arm) else {
        return html! { td class="faint" { "no pair" } @for _ in 0..(6 + usize::from(with_noise)) { td {} } };
    };
    let probability = |p: Option<f64>| p.map_or("-".to_owned(), number::probability);
    html! {
        td class=(class(row, change.verdict)) { (verdict(row, &change)) }
        td { (change.text()) }
        td class="drawn" { @if change.unit.is_none() { (drawn(row, &change, scale)) } }
        td { (change.interval_text().unwrap_or("-".to_owned())) }
        td { (probability(change.p)) }
        td { (probability(change.p_holm)) }
        td { (change.pairs) }
        @if with_noise { td { (change.noise_text().unwrap_or("-".to_owned())) } }
    }
}

fn drawn(row: &Row, change: &Change, scale: &Scale) -> Markup {
    let (low, high) = change.interval.unwrap_or((change.value, change.value));
    let title = format!("{}: {}", row_label(row), change.text());
    html! {
        svg viewBox="0 0 220 18" role="img" aria-label=(title) {
            title { (title) }
            line class="zero" x1=(px(scale.at(0.0))) x2=(px(scale.at(0.0))) y1="0" y2="18" {}
            (interval(row, change, scale, 4.0, 10.0))
            @if low < scale.low { text class={ "lane " (class(row, change.verdict)) } x="0" y="13" { "◀" } }
            @if high > scale.high { text class={ "lane " (class(row, change.verdict)) } x="220" y="13" text-anchor="end" { "▶" } }
        }
    }
}

/// An axis for all changes in %, the same on both sides of 0. One change that is far larger than the others
/// would leave them no room: the axis ends before it, and an arrow says so.
fn common_scale(model: &Model, rows: &[&Row]) -> Scale {
    let changes = rows
        .iter()
        .flat_map(|row| (1..model.arms.len()).filter_map(|arm| change(row, arm)))
        .filter(|change| change.unit.is_none());
    let reaches = changes.map(|change| {
        let (low, high) = change.interval.unwrap_or((change.value, change.value));
        // f64::max drops what is no number.
        low.abs().max(high.abs()).max(0.0)
    });
    let mut reaches: Vec<f64> = reaches.collect();
    reaches.sort_by(f64::total_cmp);
    let largest = reaches.last().copied().unwrap_or(0.0);
    let usual = reaches.get(reaches.len() / 2).copied().unwrap_or(0.0);
    let reach = (largest.min(usual * 3.0) * 1.05).clamp(1.0, 100.0);
    Scale {
        low: -reach,
        high: reach,
        left: 4.0,
        right: 216.0,
    }
}

fn ends(scale: &Scale) -> Markup {
    let decimals = if scale.high < 10.0 { 1 } else { 0 };
    html! {
        span class="ends" {
            span { (number::fixed(scale.low, decimals)) "%" }
            span { "0" }
            span { "+" (number::fixed(scale.high, decimals)) "%" }
        }
    }
}

/// Every value of a metric: a line for each machine and block.
pub fn raw(model: &Model, row: &Row) -> Markup {
    let decimals = row_decimals(row).max(4);
    let mut blocks: Vec<(usize, u32)> = row
        .arms
        .iter()
        .flatten()
        .flat_map(|arm| {
            arm.values
                .iter()
                .map(|sample| (sample.machine, sample.block))
        })
        .collect();
    blocks.sort_unstable();
    blocks.dedup();
    let mut table = Table::new(
        1,
        std::iter::once("block".to_owned()).chain(model.arms.iter().cloned()),
    );
    for (machine, block) in blocks {
        // People count from 1.
        let number = block + 1;
        let name = match (model.machines.len(), model.machines.get(machine)) {
            (2.., Some(machine)) => format!("{} {number}", machine.name),
            _ => number.to_string(),
        };
        let cells = (0..model.arms.len()).map(|arm| {
            let samples = summary(row, arm).map_or(&[][..], |arm| &arm.values);
            raw_cell(samples, machine, block, decimals)
        });
        table.row(std::iter::once(Cell::new(name)).chain(cells));
    }
    html! {
        h3 { (row_label(row)) }
        (self::table(&table))
    }
}

fn raw_cell(samples: &[Sample], machine: usize, block: u32, decimals: usize) -> Cell {
    let mut samples = samples.iter();
    match samples.find(|sample| sample.machine == machine && sample.block == block) {
        None => Cell::faint("-"),
        Some(sample) if sample.outlier => {
            Cell::new(format!("{} ◇", number::fixed(sample.value, decimals)))
        }
        Some(sample) => Cell::new(number::fixed(sample.value, decimals)),
    }
}
