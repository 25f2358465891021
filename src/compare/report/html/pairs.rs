// SPDX-License-Identifier: GPL-2.0-only
//! Paired differences: the change of every block, with the median and its interval.

use maud::{Markup, html};

use super::scale::{Scale, WIDTH, px};
use super::strip::jitter;
use crate::compare::analysis::{Row, Verdict};
use crate::compare::report::model::{Change, Model, Pair, change, pairs, row_label};
use crate::compare::report::number;
use crate::compare::report::text::shorten;

const LANE: f64 = 36.0;

/// A sign for each verdict, so that it is not told by the colour alone.
fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::Undecided => "○",
        Verdict::TooFew => "·",
    }
}

/// A verdict with its sign; secondary metrics have none.
pub fn verdict(row: &Row, change: &Change) -> String {
    let word = change.verdict_word(row);
    match (row.primary, change.noise_text()) {
        (false, _) => word.to_owned(),
        (true, Some(noise)) if change.is_within_noise(row) => {
            format!("{} within the noise ({noise})", sign(change.verdict))
        }
        (true, _) => format!("{} {word}", sign(change.verdict)),
    }
}

/// Class of a verdict's colour. Secondary metrics are not judged, so they have none.
pub fn class(row: &Row, verdict: Verdict) -> &'static str {
    match (row.primary, verdict) {
        (true, Verdict::Better) => "better",
        (true, Verdict::Worse) => "worse",
        _ => "open",
    }
}

/// The plot; none without a pair.
pub fn plot(model: &Model, row: &Row) -> Option<Markup> {
    let arms = 1..model.arms.len();
    let lanes: Vec<Vec<Pair>> = arms.clone().map(|arm| pairs(row, arm)).collect();
    if lanes.iter().all(Vec::is_empty) {
        return None;
    }
    let changes: Vec<Change> = arms.filter_map(|arm| change(row, arm)).collect();
    let intervals = changes.iter().filter_map(|change| change.interval);
    let values = lanes
        .iter()
        .flatten()
        .map(|pair| pair.change)
        .chain(intervals.flat_map(|(low, high)| [low, high]))
        .chain([0.0]);
    let unit = match changes.iter().find_map(|change| change.unit.as_deref()) {
        Some(unit) => format!(" {}", shorten(unit, 8)),
        None => "%".to_owned(),
    };
    let scale = Scale::around(values, 8.0, WIDTH - 8.0)?;
    let bottom = LANE * lanes.len() as f64 + 4.0;
    let height = bottom + 30.0;
    let title = format!(
        "Change of every block against {}: {}",
        model.base(),
        row_label(row)
    );
    Some(html! {
        svg viewBox={ "0 0 360 " (px(height)) } role="img" aria-label=(title) {
            title { (title) }
            (scale.axis(4.0, bottom, &unit))
            line class="zero" x1=(px(scale.at(0.0))) x2=(px(scale.at(0.0))) y1="4" y2=(px(bottom)) {}
            text class="tick" x="352" y=(px(bottom + 25.0)) text-anchor="end" {
                "change against " (shorten(model.base(), 20)) "; better →"
            }
            @for (at, pairs) in lanes.iter().enumerate() {
                g transform={ "translate(0 " (px(LANE * at as f64)) ")" } {
                    (lane(model, row, at + 1, pairs, &scale))
                }
            }
        }
    })
}

fn lane(model: &Model, row: &Row, arm: usize, pairs: &[Pair], scale: &Scale) -> Markup {
    let label = &model.arms[arm];
    let Some(change) = change(row, arm) else {
        return html! { text class="lane" x="8" y="13" { (shorten(label, 30)) ": no pair" } };
    };
    html! {
        text class="lane" x="8" y="13" { (shorten(label, 30)) }
        text class={ "lane " (class(row, change.verdict)) } x="352" y="13" text-anchor="end" {
            (verdict(row, &change)) " " (shorten(&change.text(), 16))
        }
        @if let Some(noise) = change.noise { (noise_band(noise, scale)) }
        (interval(row, &change, scale, 19.0, 12.0))
        @for pair in pairs {
            (mark(scale.at(pair.change), 25.0 + jitter(pair.block), pair.machine, &html! {
                (label) ", block " (pair.block + 1)
                @if let (true, Some(machine)) = (model.machines.len() > 1, model.machines.get(pair.machine)) {
                    " on " (machine.name)
                }
                ": " (match &change.unit {
                    None => number::signed_percent(pair.change),
                    Some(unit) => format!("{} {unit}", number::signed_short(pair.change)),
                })
            }))
        }
    }
}

/// How far two copies of one arm lay apart: an interval has to lie beyond it.
fn noise_band((low, high): (f64, f64), scale: &Scale) -> Markup {
    let (left, right) = (scale.at(low), scale.at(high));
    html! {
        rect class="noise" x=(px(left)) y="17" height="16" width=(px((right - left).max(0.5))) {
            title { "noise of two equal arms (A/A)" }
        }
    }
}

/// The interval as a bar and the median as a line across it.
pub fn interval(row: &Row, change: &Change, scale: &Scale, top: f64, height: f64) -> Markup {
    let class = class(row, change.verdict);
    let middle = scale.at(change.value);
    html! {
        @if let Some((low, high)) = change.interval {
            rect class={ "interval " (class) } x=(px(scale.at(low))) y=(px(top)) height=(px(height))
                width=(px((scale.at(high) - scale.at(low)).max(1.0))) {
                title { "95% interval " (change.interval_text().unwrap_or_default()) }
            }
        }
        @if scale.holds(change.value) { line class={ "effect " (class) } x1=(px(middle)) x2=(px(middle)) y1=(px(top - 2.0)) y2=(px(top + height + 2.0)) {} }
    }
}

/// Shapes by machine: circle, square, triangle, diamond; then again from the first.
pub fn mark(x: f64, y: f64, machine: usize, title: &Markup) -> Markup {
    let (x, left, top) = (px(x), px(x - 2.4), px(y - 2.4));
    html! {
        @match machine % 4 {
            0 => circle class="dot" cx=(x) cy=(px(y)) r="2.6" { title { (title) } },
            1 => rect class="dot" x=(left) y=(top) width="4.8" height="4.8" { title { (title) } },
            2 => path class="dot" d={ "M" (x) " " (px(y - 3.2)) "l3.2 5.6h-6.4z" } { title { (title) } },
            _ => path class="dot" d={ "M" (x) " " (px(y - 3.4)) "l3.4 3.4l-3.4 3.4l-3.4 -3.4z" } { title { (title) } },
        }
    }
}
