// SPDX-License-Identifier: GPL-2.0-only
//! What the values of one arm look like, taken by themselves.

use crate::compare::record::Mean;

use super::gather::Point;

/// Fewer values than this have no quartiles worth a fence.
const MIN_FOR_FENCES: usize = 4;

/// The middle value, or the mean of the two middle ones; NaN of nothing. `values` are finite.
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// `values` in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The value below which a share `at` of the ascending values is, on the line between its neighbours
/// (type 7 of Hyndman and Fan, which numpy and R take by default); NaN of nothing.
pub fn quantile(ascending: &[f64], at: f64) -> f64 {
    let Some(last) = ascending.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = at.clamp(0.0, 1.0) * last as f64;
    let below = (place as usize).min(last);
    let above = (below + 1).min(last);
    let share = place - below as f64;
    ascending[below] * (1.0 - share) + ascending[above] * share
}

/// Amean or Hmean; NaN of nothing. The harmonic mean is for values above 0.
pub fn mean(values: &[f64], mean: Mean) -> f64 {
    let count = values.len() as f64;
    match mean {
        Mean::Arithmetic => values.iter().sum::<f64>() / count,
        Mean::Harmonic => count / values.iter().map(|value| 1.0 / value).sum::<f64>(),
    }
}

/// Sample standard deviation within machines: deviations are from the mean of the value's own machine.
pub fn stddev(points: &[Point]) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0);
    for machine in by_machine(points) {
        let values: Vec<f64> = machine.iter().map(|point| point.value).collect();
        let centre = mean(&values, Mean::Arithmetic);
        squares += values.iter().map(|v| (v - centre).powi(2)).sum::<f64>();
        freedom += values.len() - 1;
    }
    (freedom > 0).then(|| (squares / freedom as f64).sqrt())
}

/// For each point whether it is beyond Tukey's fences of its machine's values: more than one and a half
/// times the distance of the quartiles away from them.
pub fn outliers(points: &[Point]) -> Vec<bool> {
    let mut marks = Vec::with_capacity(points.len());
    for machine in by_machine(points) {
        let values: Vec<f64> = machine.iter().map(|point| point.value).collect();
        let ascending = sorted(&values);
        let (low, high) = (quantile(&ascending, 0.25), quantile(&ascending, 0.75));
        let reach = 1.5 * (high - low);
        let beyond = |value: &f64| *value < low - reach || *value > high + reach;
        let judged = values.len() >= MIN_FOR_FENCES;
        marks.extend(values.iter().map(|value| judged && beyond(value)));
    }
    marks
}

/// Runs of points of one machine; points are in the order of machines.
fn by_machine(points: &[Point]) -> impl Iterator<Item = &[Point]> {
    points.chunk_by(|a, b| a.machine == b.machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(machines: &[&[f64]]) -> Vec<Point> {
        let of = |(machine, values): (usize, &&[f64])| {
            let values = values.to_vec();
            (0..).zip(values).map(move |(block, value)| Point {
                machine,
                block,
                value,
            })
        };
        machines.iter().enumerate().flat_map(of).collect()
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.25), 1.75);
        assert_eq!(quantile(&[5.0], 0.9), 5.0);
        assert_eq!(quantile(&[1.0, 2.0], 1.0), 2.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn rates_are_averaged_by_their_times() {
        assert_eq!(mean(&[40.0, 60.0], Mean::Arithmetic), 50.0);
        assert!((mean(&[40.0, 60.0], Mean::Harmonic) - 48.0).abs() < 1e-12);
    }

    #[test]
    fn deviation_is_within_machines() {
        assert_eq!(stddev(&points(&[&[1.0]])), None);
        assert_eq!(stddev(&points(&[&[1.0, 2.0, 3.0]])), Some(1.0));
        assert_eq!(
            stddev(&points(&[&[1.0, 2.0, 3.0], &[101.0, 102.0, 103.0]])),
            Some(1.0)
        );
    }

    #[test]
    fn outliers_are_those_of_their_own_machine() {
        let far = [1.0, 2.0, 3.0, 4.0, 9.0];
        assert_eq!(
            outliers(&points(&[&far])),
            [false, false, false, false, true]
        );
        // Upper fence is 4 + 1.5 * 2 = 7, which itself is not beyond.
        assert!(!outliers(&points(&[&[1.0, 2.0, 3.0, 4.0, 7.0]]))[4]);
        assert!(!outliers(&points(&[&[1.0, 1.0, 9.0]])).contains(&true));
        let marks = outliers(&points(&[&far, &[9.0, 9.1, 9.2, 9.3, 1.0]]));
        assert!(marks[4] && marks[9] && !marks[5]);
    }
}
