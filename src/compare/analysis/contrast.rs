// SPDX-License-Identifier: GPL-2.0-only
//! What an arm is against another, block by block, and what follows from that alone.

use std::collections::BTreeMap;

use super::bootstrap;
use super::describe::median;
use super::gather::Point;
use super::machines::{self, OnMachine};
use super::permutation;
use super::random::Stream;

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// By the logarithm of their ratio.
    Ratio,
    /// By their difference, as some value is 0 or below.
    Difference,
}

impl Scale {
    /// The scale for all arms of a row, so that they can be compared with each other.
    pub fn of<'a>(mut values: impl Iterator<Item = &'a Point>) -> Self {
        match values.all(|point| point.value > 0.0) {
            true => Scale::Ratio,
            false => Scale::Difference,
        }
    }

    fn contrast(self, value: f64, base: f64) -> f64 {
        match self {
            // Not the logarithm of the quotient, which may be infinite.
            Scale::Ratio => value.ln() - base.ln(),
            Scale::Difference => value - base,
        }
    }
}

/// One pair: an arm and its base on the same machine in the same block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contrast {
    pub machine: usize,
    pub value: f64,
}

/// The pairs of two arms, in the order of machines and blocks. A block that has only one of them is
/// no pair.
pub fn contrasts(arm: &[Point], base: &[Point], scale: Scale) -> Vec<Contrast> {
    let key = |point: &Point| (point.machine, point.block);
    let base: BTreeMap<_, f64> = base.iter().map(|point| (key(point), point.value)).collect();
    arm.iter()
        .filter_map(|point| {
            Some(Contrast {
                machine: point.machine,
                value: scale.contrast(point.value, *base.get(&key(point))?),
            })
        })
        .collect()
}

/// An arm against another, on the row's [`Scale`].
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    pub pairs: usize,
    pub median: f64,
    pub interval: Option<(f64, f64)>,
    pub p: f64,
    /// Each machine by itself; empty with a single one.
    pub machines: Vec<OnMachine>,
}

impl Estimate {
    /// None without a pair. `names` say what is compared, for the random numbers.
    pub fn of(
        contrasts: &[Contrast],
        resamples: usize,
        seeds: &[u64],
        names: [&str; 4],
    ) -> Option<Self> {
        if contrasts.is_empty() {
            return None;
        }
        let stream = |purpose| {
            let [a, b, c, d] = names;
            Stream::named(seeds, &[purpose, a, b, c, d])
        };
        let values: Vec<f64> = contrasts.iter().map(|contrast| contrast.value).collect();
        let median = median(&values);
        // The interval is of another centre than the median; the two are the same but for odd shapes,
        // and then the interval grows rather than deny what stands beside it.
        let machines = machines::each(contrasts, resamples, seeds, names);
        let interval =
            bootstrap::interval(contrasts, resamples, &mut stream("interval")).map(|interval| {
                // Resampling within machines does not see that machines differ.
                std::iter::once(median)
                    .chain(machines::disagreeing(&machines, median))
                    .fold(interval, |(low, high), at| (low.min(at), high.max(at)))
            });
        Some(Estimate {
            pairs: values.len(),
            median,
            interval,
            p: permutation::p_value(&values, &mut stream("permutation")),
            machines,
        })
    }

    /// How far from 0 its centre is, on any machine that does not agree with it.
    pub fn farthest(&self) -> f64 {
        machines::disagreeing(&self.machines, self.median)
            .fold(self.median.abs(), |far, at| far.max(at.abs()))
    }

    /// The smallest p that so many pairs can have.
    pub fn smallest_p(&self) -> f64 {
        permutation::smallest_p(self.pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(machine: usize, block: u32, value: f64) -> Point {
        Point {
            machine,
            block,
            value,
        }
    }

    #[test]
    fn a_pair_is_of_one_machine_and_block() {
        let base = [point(0, 0, 1.0), point(0, 1, 2.0), point(1, 0, 4.0)];
        let arm = [point(0, 1, 3.0), point(0, 2, 9.0), point(1, 0, 3.0)];
        let found = contrasts(&arm, &base, Scale::Difference);
        let values: Vec<_> = found.iter().map(|c| (c.machine, c.value)).collect();
        assert_eq!(values, [(0, 1.0), (1, -1.0)]);
        assert_eq!(Estimate::of(&[], 100, &[1], [""; 4]), None);
    }

    #[test]
    fn zero_and_below_have_no_ratio() {
        assert_eq!(Scale::of([point(0, 0, 0.1)].iter()), Scale::Ratio);
        assert_eq!(Scale::of([point(0, 0, 0.0)].iter()), Scale::Difference);
        assert_eq!(Scale::of([point(0, 0, -1.0)].iter()), Scale::Difference);
    }

    #[test]
    fn the_interval_contains_the_median() {
        // 31 times 0 and 30 times 1: every two-mean's median is 0.5, the median of the values is 0.
        let values: Vec<Contrast> = (0..61)
            .map(|i| Contrast {
                machine: 0,
                value: f64::from(u8::from(i >= 31)),
            })
            .collect();
        let found = Estimate::of(&values, 300, &[1], [""; 4]).unwrap();
        assert_eq!(found.median, 0.0);
        assert_eq!(found.interval.map(|(low, _)| low), Some(0.0));
    }
}
