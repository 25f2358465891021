// SPDX-License-Identifier: GPL-2.0-only
//! Paired differences: the change of every block, with the median and its interval.

use maud::{Markup, html};

use super::scale::{Scale, WIDTH, px};
use crate::compare::analysis::{Effect, Row, Verdict};
use crate::compare::report::model::{Model, effect, ratios, row_label};
use crate::compare::report::number;
use crate::compare::report::parts::effects::{interval_text, verdict_word};
use crate::compare::report::text::shorten;

const LANE: f64 = 36.0;

/// A sign for each verdict, so that it is not told by the colour alone.
pub fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "▲",
        Verdict::Worse => "▼",
        Verdict::Undecided => "○",
        Verdict::TooFew => "·",
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
    let points: Vec<Vec<Point>> = arms.clone().map(|arm| points(row, arm)).collect();
    let ends = arms.filter_map(|arm| {
        let (low, high) = number::change_interval(row.better, effect(row, arm)?.interval?);
        Some([low, high])
    });
    let changes = points.iter().flatten().map(|point| point.change);
    if changes.clone().next().is_none() {
        return None;
    }
    let values = changes.chain(ends.flatten()).chain([0.0]);
    let scale = Scale::around(values, 8.0, WIDTH - 8.0)?;
    let bottom = LANE * points.len() as f64 + 4.0;
    let height = bottom + 30.0;
    let title = format!(
        "Change of every block against {}: {}",
        model.base(),
        row_label(row)
    );
    Some(html! {
        svg viewBox={ "0 0 360 " (px(height)) } role="img" aria-label=(title) {
            title { (title) }
            (scale.axis(4.0, bottom, "%"))
            line class="zero" x1=(px(scale.at(0.0))) x2=(px(scale.at(0.0))) y1="4" y2=(px(bottom)) {}
            text class="tick" x="352" y=(px(bottom + 25.0)) text-anchor="end" {
                "change against " (shorten(model.base(), 20)) "; better →"
            }
            @for (at, points) in points.iter().enumerate() {
                g transform={ "translate(0 " (px(LANE * at as f64)) ")" } {
                    (lane(model, row, at + 1, points, &scale))
                }
            }
        }
    })
}

struct Point {
    machine: usize,
    block: u32,
    change: f64,
}

fn points(row: &Row, arm: usize) -> Vec<Point> {
    ratios(row, arm)
        .into_iter()
        .map(|(machine, block, ratio)| Point {
            machine,
            block,
            change: number::change(row.better, ratio),
        })
        .collect()
}

fn lane(model: &Model, row: &Row, arm: usize, points: &[Point], scale: &Scale) -> Markup {
    let label = &model.arms[arm];
    let Some(effect) = effect(row, arm) else {
        return html! { text class="lane" x="8" y="13" { (shorten(label, 30)) ": no pair" } };
    };
    html! {
        text class="lane" x="8" y="13" { (shorten(label, 30)) }
        text class={ "lane " (class(row, effect.verdict)) } x="352" y="13" text-anchor="end" {
            (sign(effect.verdict)) " " (verdict_word(effect.verdict)) " " (number::signed_percent(effect.change))
        }
        (interval(row, effect, scale, 19.0, 12.0))
        @for point in points {
            (mark(scale.at(point.change), 25.0 + f64::from(point.block * 3 % 5) * 2.0 - 4.0, point.machine, &html! {
                (label) ", block " (point.block)
                @if let (true, Some(machine)) = (model.machines.len() > 1, model.machines.get(point.machine)) {
                    " on " (machine.name)
                }
                ": " (number::signed_percent(point.change))
            }))
        }
    }
}

/// The interval as a bar and the median as a line across it.
pub fn interval(row: &Row, effect: &Effect, scale: &Scale, top: f64, height: f64) -> Markup {
    let class = class(row, effect.verdict);
    let middle = scale.at(effect.change);
    html! {
        @if let Some(interval) = effect.interval {
            @let (low, high) = number::change_interval(row.better, interval);
            rect class={ "interval " (class) } x=(px(scale.at(low))) y=(px(top)) height=(px(height))
                width=(px((scale.at(high) - scale.at(low)).max(1.0))) {
                title { "95% interval " (interval_text(row, interval)) }
            }
        }
        line class={ "effect " (class) } x1=(px(middle)) x2=(px(middle)) y1=(px(top - 2.0)) y2=(px(top + height + 2.0)) {}
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
