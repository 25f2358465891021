// SPDX-License-Identifier: GPL-2.0-only
//! A histogram of times in shared memory: percentiles of any number of samples in a fixed space.
//!
//! Buckets are as wide as their value divided by 128 or narrower, so that a percentile is at most
//! 0.8 % above the true one and never below it. Recording neither allocates nor fails.

use std::sync::atomic::{AtomicU64, Ordering};

use super::shared::Shareable;

/// Values below this have a bucket of their own; each doubling beyond has half as many buckets.
const LINEAR: u64 = 256;
const LINEAR_BITS: u32 = LINEAR.ilog2();
const PER_DOUBLING: usize = LINEAR as usize / 2;
/// Largest value that is told apart from larger ones: 2^40 - 1 ns, 18 minutes.
const LARGEST: u64 = (1 << 40) - 1;
const BUCKETS: usize = LINEAR as usize + (40 - LINEAR_BITS as usize) * PER_DOUBLING;

/// Counts of values in nanoseconds, for one writer.
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    max: AtomicU64,
}

// SAFETY: atomics; zero is empty.
unsafe impl Shareable for Histogram {}

impl Histogram {
    /// Adds a value.
    pub fn record(&self, value: u64) {
        self.counts[bucket_of(value)].fetch_add(1, Ordering::Relaxed);
        self.max.fetch_max(value, Ordering::Relaxed);
    }
}

/// Several histograms, summed up for reading.
pub struct Summary {
    counts: Vec<u64>,
    samples: u64,
    max: u64,
}

impl Summary {
    pub fn of<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Summary {
        let mut counts = vec![0; BUCKETS];
        let mut max = 0;
        for histogram in histograms {
            for (sum, count) in counts.iter_mut().zip(&histogram.counts) {
                *sum += count.load(Ordering::Relaxed);
            }
            max = max.max(histogram.max.load(Ordering::Relaxed));
        }
        Summary {
            samples: counts.iter().sum(),
            counts,
            max,
        }
    }

    /// How many values there are.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The largest value, exactly; 0 of none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The smallest value that at least `permille` of 1000 values (1 to 1000) do not exceed, rounded
    /// up to the end of its bucket; 0 of no values.
    pub fn permille(&self, permille: u32) -> u64 {
        let wanted = u128::from(self.samples) * u128::from(permille);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u128::from(count);
            if count > 0 && seen * 1000 >= wanted {
                return last_of(bucket).min(self.max);
            }
        }
        self.max
    }
}

/// The bucket of a value: itself at first, then its order of magnitude and its highest bits.
fn bucket_of(value: u64) -> usize {
    let value = value.min(LARGEST);
    if value < LINEAR {
        return value as usize;
    }
    let doubling = value.ilog2() - LINEAR_BITS;
    let within = (value >> (doubling + 1)) as usize - PER_DOUBLING;
    LINEAR as usize + doubling as usize * PER_DOUBLING + within
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let Some(beyond) = bucket.checked_sub(LINEAR as usize) else {
        return bucket as u64;
    };
    let (doubling, within) = (beyond / PER_DOUBLING, beyond % PER_DOUBLING);
    (((PER_DOUBLING + within + 1) as u64) << (doubling + 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::super::shared::Shared;
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        let mut first = 0;
        for bucket in 0..BUCKETS {
            let last = last_of(bucket);
            assert_eq!(bucket_of(first), bucket);
            assert_eq!(bucket_of(last), bucket);
            assert!((last - first) * 128 <= first, "{bucket}: {first} to {last}");
            first = last + 1;
        }
        assert_eq!(first, LARGEST + 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_of_a_known_set() {
        let histograms = Shared::<Histogram>::new(2).unwrap();
        for value in 1..=1000 {
            histograms[value % 2].record(value as u64 * 1000);
        }
        let summary = Summary::of(&histograms[..]);
        assert_eq!(summary.samples(), 1000);
        assert_eq!(summary.max(), 1_000_000);
        for (permille, exact) in [(1, 1_000), (500, 500_000), (990, 990_000), (999, 999_000)] {
            let found = summary.permille(permille);
            let most = exact + exact / 128;
            assert!((exact..=most).contains(&found), "{permille}: {found}");
        }
        assert_eq!(summary.permille(1000), 1_000_000);
    }

    #[test]
    fn nothing_is_zero() {
        let histograms = Shared::<Histogram>::new(1).unwrap();
        let summary = Summary::of(&histograms[..]);
        assert_eq!((summary.samples(), summary.max()), (0, 0));
        assert_eq!(summary.permille(500), 0);
    }
}
