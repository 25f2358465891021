// SPDX-License-Identifier: GPL-2.0-only
//! The 95 % interval of the centre of paired contrasts.
//!
//! The centre is that of Hodges and Lehmann: the median of the means of all two contrasts, each with
//! itself included. Pairs are drawn again with replacement, each machine's among themselves, and the
//! interval is between two percentiles of the centres of what was drawn. At 8 to 12 pairs the 2.5th
//! and 97.5th are too close together; they are moved apart by what Student's t and the divisor n - 1
//! would move a mean's (Hesterberg's expanded percentile interval). docs/statistics.md has the measured
//! coverage of this and of what was not chosen.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::contrast::Contrast;
use super::describe::{quantile, sorted};
use super::random::Stream;

/// Fewer pairs have no interval: below, not even the whole range of the pairs is a 95 % interval.
pub const MIN_PAIRS: usize = 6;

/// Outside of the interval is this share on each side.
const TAIL: f64 = 0.025;

/// Looking at a resample of n pairs takes about n^2 steps; so many steps are enough of an interval.
const STEPS: usize = 400_000_000;
const MIN_RESAMPLES: usize = 2000;

/// Lower and upper end, from at most `resamples` resamples; none for too few pairs.
pub fn interval(
    contrasts: &[Contrast],
    resamples: usize,
    stream: &mut Stream,
) -> Option<(f64, f64)> {
    if contrasts.len() < MIN_PAIRS {
        return None;
    }
    let strata = strata(contrasts);
    let tail = tail(contrasts.len(), strata.len())?;
    let affordable = (STEPS / contrasts.len().pow(2)).max(MIN_RESAMPLES);
    let centres = Centres::of(contrasts);
    let mut drawn = vec![0; contrasts.len()];
    let found: Vec<f64> = (0..resamples.min(affordable).max(1))
        .map(|_| {
            draw(&strata, &mut drawn, stream);
            centres.centre(&drawn)
        })
        .collect();
    let found = sorted(&found);
    Some((quantile(&found, tail), quantile(&found, 1.0 - tail)))
}

/// The share to leave out on each side, of `pairs` pairs of `strata` machines.
fn tail(pairs: usize, strata: usize) -> Option<f64> {
    let freedom = pairs.checked_sub(strata).filter(|&freedom| freedom > 0)? as f64;
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let widened = student.inverse_cdf(1.0 - TAIL) * (pairs as f64 / freedom).sqrt();
    Some(Normal::new(0.0, 1.0).ok()?.cdf(-widened))
}

/// Indices of the contrasts of each machine. Machines with a single pair, which drawn again would never
/// vary, are taken together; a last one that is alone goes to the first machine.
fn strata(contrasts: &[Contrast]) -> Vec<Vec<usize>> {
    let mut strata: Vec<Vec<usize>> = Vec::new();
    let mut singles = Vec::new();
    let mut begin = 0;
    for machine in contrasts.chunk_by(|a, b| a.machine == b.machine) {
        let indices = begin..begin + machine.len();
        begin = indices.end;
        match machine.len() {
            1 => singles.extend(indices),
            _ => strata.push(indices.collect()),
        }
    }
    match (strata.first_mut(), singles.len()) {
        (_, 0) => {}
        (Some(first), 1) => first.extend(singles),
        _ => strata.push(singles),
    }
    strata
}

/// Draws every stratum again; `drawn[i]` is how often contrast i came.
fn draw(strata: &[Vec<usize>], drawn: &mut [u32], stream: &mut Stream) {
    drawn.fill(0);
    for stratum in strata {
        for _ in stratum {
            drawn[stratum[stream.below(stratum.len())]] += 1;
        }
    }
}

/// Means of two contrasts, ascending, with the indices of the two.
///
/// A resample's means are these, each as often as its two contrasts make it: nothing needs to be
/// sorted again.
struct Centres {
    means: Vec<(f64, u32, u32)>,
}

impl Centres {
    fn of(contrasts: &[Contrast]) -> Self {
        let mut means = Vec::with_capacity(contrasts.len() * (contrasts.len() + 1) / 2);
        for (i, a) in contrasts.iter().enumerate() {
            for (j, b) in contrasts.iter().enumerate().skip(i) {
                means.push(((a.value + b.value) / 2.0, i as u32, j as u32));
            }
        }
        means.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        Centres { means }
    }

    /// The median of the means in a resample.
    fn centre(&self, drawn: &[u32]) -> f64 {
        let pairs: u64 = drawn.iter().map(|&times| u64::from(times)).sum();
        let count = pairs * (pairs + 1) / 2;
        // The ranks, from 1, of the middle one or of the two in the middle.
        let (lower, upper) = (count.div_ceil(2), count / 2 + 1);
        let (mut passed, mut low) = (0, None);
        for &(mean, i, j) in &self.means {
            let (a, b) = (u64::from(drawn[i as usize]), u64::from(drawn[j as usize]));
            passed += if i == j { a * (a + 1) / 2 } else { a * b };
            if passed >= lower && low.is_none() {
                low = Some(mean);
            }
            if passed >= upper {
                return (low.unwrap_or(mean) + mean) / 2.0;
            }
        }
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contrasts(machines: &[&[f64]]) -> Vec<Contrast> {
        let of = |(machine, values): (usize, &&[f64])| {
            let values = values.to_vec();
            values
                .into_iter()
                .map(move |value| Contrast { machine, value })
        };
        machines.iter().enumerate().flat_map(of).collect()
    }

    fn stream() -> Stream {
        Stream::named(&[1], &[])
    }

    /// The centre as its definition has it.
    fn centre_by_definition(values: &[f64]) -> f64 {
        let mut means = Vec::new();
        for i in 0..values.len() {
            for j in i..values.len() {
                means.push((values[i] + values[j]) / 2.0);
            }
        }
        super::super::describe::median(&means)
    }

    #[test]
    fn a_resamples_centre_is_that_of_its_values() {
        let values = [0.3, -0.2, 0.1, 0.1, 0.9, -0.4, 0.05];
        let centres = Centres::of(&contrasts(&[&values]));
        let mut stream = stream();
        let strata = vec![(0..values.len()).collect()];
        let mut drawn = vec![0; values.len()];
        for _ in 0..200 {
            draw(&strata, &mut drawn, &mut stream);
            assert_eq!(drawn.iter().sum::<u32>(), 7);
            let resample: Vec<f64> = (0..values.len())
                .flat_map(|i| vec![values[i]; drawn[i] as usize])
                .collect();
            let expected = centre_by_definition(&resample);
            assert!((centres.centre(&drawn) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn five_pairs_have_no_interval() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(
            interval(&contrasts(&[&values[..5]]), 100, &mut stream()),
            None
        );
        let (low, high) = interval(&contrasts(&[&values]), 2000, &mut stream()).unwrap();
        assert!(1.0 <= low && low < 2.5 && 4.5 < high && high <= 6.0);
    }

    #[test]
    fn percentiles_are_moved_apart() {
        // t(11) at 0.975 is 2.2010; times sqrt(12 / 11) is 2.2989; Phi(-2.2989) is 0.01076.
        assert!((tail(12, 1).unwrap() - 0.01076).abs() < 1e-5);
        assert!((tail(100_000, 1).unwrap() - TAIL).abs() < 1e-4);
        assert_eq!(tail(6, 6), None);
    }

    #[test]
    fn a_machine_is_drawn_from_itself() {
        // Two machines that agree with themselves: nothing varies, though they differ.
        let found = interval(
            &contrasts(&[&[1.0; 6], &[3.0; 6]]),
            500,
            &mut Stream::named(&[1], &[]),
        );
        assert_eq!(found, Some((2.0, 2.0)));
        // The same values from one machine vary.
        let one = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0];
        let (low, high) = interval(&contrasts(&[&one]), 500, &mut stream()).unwrap();
        assert!(low < 2.0 && high > 2.0);
    }

    #[test]
    fn machines_with_one_pair_are_taken_together() {
        let strata = |machines: &[&[f64]]| strata(&contrasts(machines));
        assert_eq!(strata(&[&[1.0], &[1.0], &[1.0]]), [[0, 1, 2]]);
        assert_eq!(
            strata(&[&[1.0], &[1.0, 1.0], &[1.0]]),
            [vec![1, 2], vec![0, 3]]
        );
        assert_eq!(strata(&[&[1.0], &[1.0, 1.0]]), [vec![1, 2, 0]]);
    }
}
