// SPDX-License-Identifier: GPL-2.0-only
//! The result in plain words: one sentence for each arm but the base.

use crate::compare::report::model::{Model, change, row_label};

/// A sentence for each arm but the base; one that says why there is none, if there is none.
pub fn all(model: &Model) -> Vec<String> {
    if model.arms.len() < 2 {
        return vec!["Only one arm ran: there is nothing to compare.".to_owned()];
    }
    (1..model.arms.len())
        .map(|arm| format!("{}: {}", model.arms[arm], finding(model, arm)))
        .collect()
}

/// How an arm did, over the primary metrics.
pub fn finding(model: &Model, arm: usize) -> String {
    let score = model.score(arm);
    if score.all() == 0 {
        return "no primary metric was declared, so nothing is judged".to_owned();
    }
    let metrics = if score.all() == 1 {
        "metric"
    } else {
        "metrics"
    };
    let mut sentence = format!(
        "better on {} of {} primary {metrics}, worse on {}, undecided on {}",
        score.better,
        score.all(),
        score.worse,
        score.undecided,
    );
    let whys: Vec<String> = [
        (score.within_noise, "within the noise"),
        (score.differ, "as the machines differ"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, why)| format!("{count} {why}"))
    .collect();
    if !whys.is_empty() {
        sentence += &format!(" ({})", whys.join(", "));
    }
    if score.too_few > 0 {
        sentence += &format!(", too few blocks to say on {}", score.too_few);
    }
    if score.missing > 0 {
        sentence += &format!(", not measured on {}", score.missing);
    }
    if let Some(original) = model.twin_of(arm) {
        sentence += &noise(model, arm, &original);
    }
    sentence
}

/// What an A/A arm tells: how far two equal arms lie apart.
fn noise(model: &Model, arm: usize, original: &str) -> String {
    let changes = model
        .primary_rows()
        .filter_map(|row| Some((change(row, arm)?, row)))
        .filter(|(change, _)| change.unit.is_none());
    let largest = changes.max_by(|(a, _), (b, _)| a.value.abs().total_cmp(&b.value.abs()));
    match largest {
        Some((change, row)) => format!(
            " (a copy of {original}: all of it is noise, at most {} on {})",
            change.text(),
            row_label(row)
        ),
        None => format!(" (a copy of {original}: all of it is noise)"),
    }
}
