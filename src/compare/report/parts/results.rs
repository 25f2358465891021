// SPDX-License-Identifier: GPL-2.0-only
//! The table that kernel people read: a line for each metric, and for each arm its mean and, in brackets,
//! its change; positive is better, stars where it is significant.

use crate::compare::analysis::{ArmSummary, Row};
use crate::compare::record::Mean;
use crate::compare::report::content::{Cell, Table, Tone, clean_brief};
use crate::compare::report::model::{Model, change, row_label, summary};
use crate::compare::report::number;

pub const LEGEND: &str = "Amean and Hmean: arithmetic mean of times, harmonic mean of rates. In brackets the \
    median change against the base by block, (base - arm) / base where lower is better, (arm - base) / base where \
    higher is; positive is better; without % it is in the metric's unit, as values of 0 have no ratios; differ: \
    machines contradict each other. *Starred*: a primary metric whose difference is significant. !: with outliers \
    among its values, which count like all others. Gmean: geometric mean of the ratios, turned so that above 1 is \
    better; in brackets the same mean as a change, as above, unless the metrics have different directions.";

/// Results of one suite: primary metrics first, each part in the plan's order.
pub fn table(model: &Model, suite: &str, verbose: bool) -> Table {
    let head = ["", "metric"].into_iter().map(str::to_owned);
    let mut table = Table::new(2, head.chain(model.arms.iter().cloned()));
    let (primary, secondary): (Vec<&Row>, Vec<&Row>) =
        model.rows_of(suite).partition(|row| row.primary);
    for row in &primary {
        add(&mut table, row, model.arms.len(), verbose);
    }
    add_geomean(&mut table, model, suite);
    if !primary.is_empty() && !secondary.is_empty() {
        table.span("secondary metrics: not judged together with the primary ones, never starred");
    }
    for row in &secondary {
        add(&mut table, row, model.arms.len(), verbose);
    }
    table
}

pub fn suite_name(suite: &str) -> String {
    clean_brief(suite)
}

fn add(table: &mut Table, row: &Row, arms: usize, verbose: bool) {
    let decimals = row_decimals(row);
    let mean = match row.mean {
        Mean::Arithmetic => "Amean",
        Mean::Harmonic => "Hmean",
    };
    let label = row_label(row);
    let cells = (0..arms).map(|arm| value_cell(row, arm, decimals));
    table.row(
        [Cell::new(mean), Cell::new(&label)]
            .into_iter()
            .chain(cells),
    );
    if !verbose {
        return;
    }
    type Tell = fn(&ArmSummary) -> Option<f64>;
    let details: [(&str, Tell); 7] = [
        ("Min", |arm| Some(arm.min)),
        ("Max", |arm| Some(arm.max)),
        ("Range", |arm| Some(arm.max - arm.min)),
        ("StdDev", |arm| arm.stddev),
        ("CoeffVar", |arm| Some(arm.stddev? / arm.mean * 100.0)),
        ("Median", |arm| Some(arm.median)),
        ("Outliers", |arm| Some(outliers(arm) as f64)),
    ];
    for (name, tell) in details {
        let cells = (0..arms).map(|arm| match summary(row, arm).and_then(tell) {
            Some(value) if name == "CoeffVar" => Cell::faint(padded(&number::fixed(value, 2), "%")),
            Some(value) if name == "Outliers" => Cell::faint(padded(&number::fixed(value, 0), "")),
            Some(value) => Cell::faint(padded(&number::fixed(value, decimals), "")),
            None => Cell::faint(padded("-", "")),
        });
        table.row(
            [Cell::faint(name), Cell::faint(&label)]
                .into_iter()
                .chain(cells),
        );
    }
}

fn outliers(arm: &ArmSummary) -> usize {
    arm.values.iter().filter(|sample| sample.outlier).count()
}

/// Leaves free what the brackets of the row above take, so that values stand in one column.
fn padded(value: &str, unit: &str) -> String {
    format!("{value}{unit:<11}")
}

/// Digits for all values of a row.
pub fn row_decimals(row: &Row) -> usize {
    number::decimals(row.arms.iter().flatten().map(|arm| arm.mean))
}

fn value_cell(row: &Row, arm: usize, decimals: usize) -> Cell {
    let Some(summary) = summary(row, arm) else {
        return Cell::faint("no run");
    };
    let mark = if outliers(summary) > 0 { "! " } else { "" };
    let value = format!("{mark}{}", number::fixed(summary.mean, decimals));
    let Some(change) = change(row, arm) else {
        return match arm {
            0 => Cell::new(in_brackets(&value, 0.0, false)),
            _ => Cell::new(format!("{value} (no pair) ")),
        };
    };
    if change.machines_differ {
        return Cell::new(format!("{value} {DIFFER}"));
    }
    let starred = change.is_starred(row);
    let tone = match starred {
        true if change.value >= 0.0 => Tone::Better,
        true => Tone::Worse,
        false => Tone::Plain,
    };
    let text = match (&change.unit, starred) {
        (None, _) => in_brackets(&value, change.value, starred),
        (Some(_), true) => format!("{value} *{:>8}*", number::signed(change.value, decimals)),
        (Some(_), false) => format!("{value} ({:>8})", number::signed(change.value, decimals)),
    };
    Cell::new(text).tone(tone)
}

/// Stands for a change that no machine has, in the place of brackets.
const DIFFER: &str = "(  differ)";

fn in_brackets(value: &str, change: f64, starred: bool) -> String {
    let change = number::fixed(change, 2);
    match starred {
        true => format!("{value} *{change:>7}%*"),
        false => format!("{value} ({change:>7}%)"),
    }
}

fn add_geomean(table: &mut Table, model: &Model, suite: &str) {
    let of_suite = |arm: usize| {
        let mut suites = model.analysis.suites.iter();
        suites.find(|summary| summary.suite == suite && summary.arm == arm)
    };
    let Some(first) = (1..model.arms.len()).find_map(of_suite) else {
        return;
    };
    let cells = (0..model.arms.len()).map(|arm| match (arm, of_suite(arm)) {
        (0, _) if first.change.is_none() => Cell::new(padded("1.0000", "")),
        (0, _) => Cell::new(in_brackets("1.0000", 0.0, false)),
        (_, Some(all)) => {
            let factor = number::fixed(all.geomean, 4);
            Cell::new(match all.change {
                _ if any_differs(model, suite, arm) => format!("{factor} {DIFFER}"),
                Some(change) => in_brackets(&factor, change, false),
                None => padded(&factor, ""),
            })
        }
        (_, None) => Cell::faint("no run"),
    });
    let metrics = if first.rows == 1 { "metric" } else { "metrics" };
    let label = Cell::new(format!("{} {metrics}, as ratios", first.rows));
    table.row([Cell::new("Gmean"), label].into_iter().chain(cells));
}

/// Whether machines contradict each other on a metric that a suite's Gmean rests on.
fn any_differs(model: &Model, suite: &str, arm: usize) -> bool {
    let has_primary = model.rows_of(suite).any(|row| row.primary);
    let mut counted = model
        .rows_of(suite)
        .filter(|row| row.primary || !has_primary);
    counted.any(|row| change(row, arm).is_some_and(|it| it.machines_differ && it.unit.is_none()))
}
