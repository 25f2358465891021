// SPDX-License-Identifier: GPL-2.0-only
//! From values to places on a plot.

use maud::{Markup, html};

use crate::compare::report::number;

/// Width of every plot, in its own units.
pub const WIDTH: f64 = 360.0;

/// A linear axis from `low` to `high` over the places `left` to `right`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    pub left: f64,
    pub right: f64,
}

impl Scale {
    /// An axis that shows all of `values` with a little room on both sides; none if there is nothing to show.
    pub fn around(values: impl IntoIterator<Item = f64>, left: f64, right: f64) -> Option<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            return None;
        }
        let span = high - low;
        // All equal: any span will do, if it is one.
        let room = match span > 0.0 && span.is_finite() {
            true => span * 0.06,
            false => (low.abs() * 0.01).max(f64::MIN_POSITIVE * 1e9).max(1e-9),
        };
        Some(Scale {
            low: low - room,
            high: high + room,
            left,
            right,
        })
    }

    /// Where `value` is; never outside the axis.
    pub fn at(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.5
        };
        self.left + share * (self.right - self.left)
    }

    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Round values inside the axis, about `wanted` of them.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        let step = round_step((self.high - self.low) / wanted.max(1) as f64);
        if !step.is_finite() || step <= 0.0 {
            return Vec::new();
        }
        let first = (self.low / step).ceil();
        let ticks = (0..=2 * wanted.max(1)).map(|n| (first + n as f64) * step);
        ticks.filter(|tick| self.holds(*tick)).collect()
    }

    /// Digits behind the point that tell ticks apart.
    pub fn tick_decimals(&self, wanted: usize) -> usize {
        let step = round_step((self.high - self.low) / wanted.max(1) as f64);
        (-step.log10().floor()).clamp(0.0, 9.0) as usize
    }

    /// Lines from `top` to `bottom` with their values below.
    pub fn axis(&self, top: f64, bottom: f64, unit: &str) -> Markup {
        let decimals = self.tick_decimals(4);
        html! {
            @for tick in self.ticks(4) {
                line class="grid" x1=(px(self.at(tick))) x2=(px(self.at(tick))) y1=(px(top)) y2=(px(bottom)) {}
                text class="tick" x=(px(self.at(tick))) y=(px(bottom + 12.0)) text-anchor="middle" {
                    (number::fixed(tick, decimals)) (unit)
                }
            }
        }
    }
}

/// The largest of 1, 2, 5 times a power of ten that is not above `step` by much.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = match step / power {
        lead if lead < 1.5 => 1.0,
        lead if lead < 3.5 => 2.0,
        lead if lead < 7.5 => 5.0,
        _ => 10.0,
    };
    factor * power
}

/// A place, to a tenth of a unit.
pub fn px(place: f64) -> String {
    let text = format!("{place:.1}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_holds_its_values() {
        let scale = Scale::around([1.0, 3.0, f64::NAN], 0.0, 100.0).unwrap();
        assert!(scale.holds(1.0) && scale.holds(3.0));
        assert!(scale.at(1.0) > 0.0 && scale.at(3.0) < 100.0);
        assert_eq!(scale.at(2.0), 50.0);
        assert_eq!(scale.at(f64::INFINITY), 50.0);
        assert_eq!(scale.ticks(4), [1.0, 1.5, 2.0, 2.5, 3.0]);
    }

    #[test]
    fn degenerate_values_have_an_axis() {
        for values in [[5.0, 5.0], [0.0, 0.0], [1e300, 1e300], [-1e308, 1e308]] {
            let scale = Scale::around(values, 0.0, 100.0).unwrap();
            assert!(scale.at(values[0]).is_finite());
            assert!(scale.ticks(4).len() <= 9);
        }
        assert_eq!(Scale::around([f64::NAN], 0.0, 1.0), None);
        assert_eq!(Scale::around([], 0.0, 1.0), None);
    }
}
