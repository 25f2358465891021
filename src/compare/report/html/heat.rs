// SPDX-License-Identifier: GPL-2.0-only
//! Heat maps: a line for each node, from left to right time or repeats, ten steps of one hue.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::scale::{Scale, WIDTH, px};

const LEFT: f64 = 52.0;
const LINE: f64 = 15.0;
/// More columns than this are averaged together: a phone shows no more, and the page stays small.
const MOST_COLUMNS: usize = 72;
const STEPS: usize = 10;

/// One line.
pub struct Line {
    pub label: String,
    /// What hovering tells.
    pub title: String,
    /// From 0 to 1.
    pub shares: Vec<f64>,
}

/// A map over an axis from 0 to `end`, in `unit`; none if there is nothing to show.
pub fn map(title: &str, lines: &[Line], end: f64, unit: &str) -> Option<Markup> {
    let longest = lines.iter().map(|line| line.shares.len()).max()?;
    if longest == 0 {
        return None;
    }
    let columns = longest.min(MOST_COLUMNS);
    let wide = (WIDTH - LEFT - 8.0) / columns as f64;
    let bottom = LINE * lines.len() as f64;
    // From 0 to the end without room on the sides, as the cells are.
    let axis = Scale {
        low: 0.0,
        high: if end > 0.0 { end } else { 1.0 },
        left: LEFT,
        right: WIDTH - 8.0,
    };
    Some(html! {
        svg viewBox={ "0 0 360 " (px(bottom + 18.0)) } role="img" aria-label=(title) {
            title { (title) }
            @for (step, path) in paths(lines, longest, columns, wide).iter().enumerate() {
                @if !path.is_empty() { path class={ "heat h" (step) } d=(path) {} }
            }
            @for (at, line) in lines.iter().enumerate() {
                @let top = LINE * at as f64;
                text class="tick" x=(px(LEFT - 5.0)) y=(px(top + 11.0)) text-anchor="end" { (line.label) }
                rect class="touch" x=(px(LEFT)) y=(px(top)) width=(px(WIDTH - LEFT - 8.0)) height=(px(LINE)) {
                    title { (line.title) }
                }
            }
            (axis.axis(bottom, bottom + 3.0, unit))
        }
    })
}

/// For each step of the scale the cells that have it, as one path.
fn paths(lines: &[Line], longest: usize, columns: usize, wide: f64) -> Vec<String> {
    let mut paths = vec![String::new(); STEPS];
    for (at, line) in lines.iter().enumerate() {
        let top = px(LINE * at as f64 + 0.5);
        let steps: Vec<Option<usize>> = (0..columns)
            .map(|column| step(&line.shares, column, longest, columns))
            .collect();
        let mut column = 0;
        while column < columns {
            let run = steps[column..]
                .iter()
                .take_while(|step| **step == steps[column])
                .count();
            if let Some(path) = steps[column].and_then(|step| paths.get_mut(step)) {
                let (x, width) = (px(LEFT + wide * column as f64), px(wide * run as f64));
                // Writing to a String cannot fail.
                let _ = write!(path, "M{x} {top}h{width}v{}h-{width}z", LINE - 1.0);
            }
            column += run;
        }
    }
    paths
}

/// Step of a column: of the average of what falls into it; none where the line has ended.
fn step(shares: &[f64], column: usize, longest: usize, columns: usize) -> Option<usize> {
    let from = column * longest / columns;
    let to = ((column + 1) * longest / columns).max(from + 1);
    let part = shares.get(from..to.min(shares.len()))?;
    let known: Vec<f64> = part.iter().copied().filter(|it| it.is_finite()).collect();
    if known.is_empty() {
        return None;
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    Some(((mean * STEPS as f64) as usize).min(STEPS - 1))
}

/// What the steps mean.
pub fn legend(low: &str, high: &str) -> Markup {
    html! {
        p class="legend" {
            (low) " "
            svg class="swatches" viewBox="0 0 100 10" aria-hidden="true" {
                @for step in 0..STEPS {
                    rect class={ "heat h" (step) } x=(step * 10) y="0" width="10" height="10" {}
                }
            }
            " " (high)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_averages_and_ends_stay_empty() {
        let shares = [0.0, 0.5, 1.0, 1.0];
        assert_eq!(step(&shares, 0, 4, 2), Some(2));
        assert_eq!(step(&shares, 1, 4, 2), Some(9));
        assert_eq!(step(&shares, 4, 8, 8), None);
        assert_eq!(step(&[f64::NAN], 0, 1, 1), None);
    }

    #[test]
    fn equal_neighbours_are_one_cell() {
        let line = Line {
            label: String::new(),
            title: String::new(),
            shares: vec![0.0, 0.0, 0.95],
        };
        let paths = paths(&[line], 3, 3, 10.0);
        assert_eq!(paths[0].matches('M').count(), 1);
        assert_eq!(paths[9].matches('M').count(), 1);
    }
}
