// SPDX-License-Identifier: GPL-2.0-only
//! Distribution: every value of every arm on one machine, over a box of the quartiles.

use maud::{Markup, html};

use super::scale::{Scale, WIDTH, px};
use crate::compare::analysis::{Row, Sample};
use crate::compare::record::Better;
use crate::compare::report::content::{clean, clean_brief};
use crate::compare::report::model::{Model, row_label, summary};
use crate::compare::report::number;
use crate::compare::report::parts::results::row_decimals;
use crate::compare::report::text::shorten;

const LANE: f64 = 36.0;

/// The plot; none if no arm has a value on that machine.
pub fn plot(model: &Model, row: &Row, machine: usize) -> Option<Markup> {
    let lanes: Vec<Vec<Sample>> = (0..model.arms.len())
        .map(|arm| samples(row, arm, machine))
        .collect();
    if lanes.iter().all(Vec::is_empty) {
        return None;
    }
    // Of all machines, so that plots side by side can be compared.
    let values = row.arms.iter().flatten().flat_map(|arm| &arm.values);
    let values = values.map(|sample| sample.value);
    let scale = Scale::around(values, 8.0, WIDTH - 8.0)?;
    let bottom = LANE * lanes.len() as f64 + 4.0;
    let height = bottom + 30.0;
    let title = format!(
        "Every value: {} on {}",
        row_label(row),
        model.machines.get(machine)?.name
    );
    Some(html! {
        svg viewBox={ "0 0 360 " (px(height)) } role="img" aria-label=(title) {
            title { (title) }
            (scale.axis(4.0, bottom, ""))
            text class="tick" x="352" y=(px(bottom + 25.0)) text-anchor="end" { (direction(row)) }
            @for (arm, lane) in lanes.iter().enumerate() {
                g transform={ "translate(0 " (px(LANE * arm as f64)) ")" } {
                    (self::lane(row, &model.arms[arm], lane, &scale, arm == 0))
                }
            }
        }
    })
}

fn samples(row: &Row, arm: usize, machine: usize) -> Vec<Sample> {
    let values = summary(row, arm).map_or(&[][..], |arm| &arm.values);
    let of_machine = values.iter().filter(|sample| sample.machine == machine);
    of_machine.copied().collect()
}

fn direction(row: &Row) -> String {
    let unit = shorten(&clean_brief(&row.unit), 24);
    match row.better {
        Better::Lower => format!("{unit}; ← lower is better"),
        Better::Higher => format!("{unit}; higher is better →"),
    }
}

fn lane(row: &Row, label: &str, samples: &[Sample], scale: &Scale, is_base: bool) -> Markup {
    let quartiles = quartiles(samples);
    let class = if is_base { "dot base" } else { "dot" };
    html! {
        text class="lane" x="8" y="13" { (shorten(label, 52)) }
        @if samples.is_empty() {
            text class="tick" x="8" y="27" { "no run" }
        }
        @if let Some([low, middle, high]) = quartiles {
            rect class="box" x=(px(scale.at(low))) y="19" height="12"
                width=(px((scale.at(high) - scale.at(low)).max(1.0))) {
                title { "half of the values: " (value(row, low)) " to " (value(row, high)) }
            }
            line class="median" x1=(px(scale.at(middle))) x2=(px(scale.at(middle))) y1="17" y2="33" {}
        }
        @for sample in samples.iter().filter(|sample| sample.value.is_finite()) {
            @let x = scale.at(sample.value);
            @let y = 25.0 + jitter(sample.block);
            @if sample.outlier {
                path class="outlier" d={ "M" (px(x)) " " (px(y - 4.5)) "l4.5 4.5l-4.5 4.5l-4.5 -4.5z" } {
                    title { (label) ", block " (sample.block + 1) ": " (value(row, sample.value)) ", outlier" }
                }
            } @else {
                circle class=(class) cx=(px(x)) cy=(px(y)) r="2.6" {
                    title { (label) ", block " (sample.block + 1) ": " (value(row, sample.value)) }
                }
            }
        }
    }
}

fn value(row: &Row, value: f64) -> String {
    let value = number::fixed(value, row_decimals(row));
    clean(format!("{value} {}", row.unit).trim_end())
}

/// Keeps equal values apart; the same for the same block in every arm.
pub fn jitter(block: u32) -> f64 {
    f64::from(block % 5 * 3 % 5) * 2.0 - 4.0
}

/// Quartiles, interpolated between values.
fn quartiles(samples: &[Sample]) -> Option<[f64; 3]> {
    let values = samples.iter().map(|sample| sample.value);
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * (values.len() - 1) as f64;
        let (low, high) = (
            values[place.floor() as usize],
            values[place.ceil() as usize],
        );
        low + (high - low) * place.fract()
    };
    (values.len() >= 4).then(|| [at(0.25), at(0.5), at(0.75)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_values() {
        let sample = |value| Sample {
            machine: 0,
            block: 0,
            value,
            outlier: false,
        };
        let samples: Vec<Sample> = [4.0, 1.0, 3.0, 2.0, 5.0].map(sample).to_vec();
        assert_eq!(quartiles(&samples), Some([2.0, 3.0, 4.0]));
        assert_eq!(quartiles(&samples[..3]), None);
    }
}
