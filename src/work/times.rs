// SPDX-License-Identifier: GPL-2.0-only
//! Times that a task measures, and percentiles of those of many tasks.
//!
//! A task records into an [hdrhistogram](hdrhistogram) of its own, which takes no memory after it was made
//! and cannot fail, and at its end puts the counts into shared memory ([`Sent`]), where they outlive it.
//! Percentiles are at most 0.8 % above the true one and never below it. The largest time is exact.

use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::{CreationError, Histogram};

use super::shared::Shareable;

/// Two significant digits: buckets as wide as a 128th of their values, or narrower.
const DIGITS: u8 = 2;
/// Largest time that is told apart from larger ones: 2^40 - 1 ns, 18 minutes.
const LARGEST: u64 = (1 << 40) - 1;
/// Buckets of such a histogram.
const BUCKETS: usize = 4352;

fn empty() -> Result<Histogram<u64>, CreationError> {
    Histogram::new_with_max(LARGEST, DIGITS)
}

/// Where one task records times, in nanoseconds.
pub struct Recorder {
    times: Histogram<u64>,
    max: u64,
}

impl Recorder {
    /// An empty one. It takes memory, so it is made before anything is measured.
    pub fn new() -> std::io::Result<Recorder> {
        let times = empty().map_err(std::io::Error::other)?;
        Ok(Recorder { times, max: 0 })
    }

    /// Adds a time.
    pub fn record(&mut self, nanos: u64) {
        self.times.saturating_record(nanos);
        self.max = self.max.max(nanos);
    }

    /// Puts everything into `sent`, which holds nothing yet.
    pub fn send(&self, sent: &Sent) {
        for (count, bucket) in sent.counts.iter().zip(self.times.iter_all()) {
            count.store(bucket.count_at_value(), Ordering::Relaxed);
        }
        sent.max.store(self.max, Ordering::Relaxed);
    }
}

/// What one recorder sent.
pub struct Sent {
    counts: [AtomicU64; BUCKETS],
    max: AtomicU64,
}

// SAFETY: atomics; zero is empty.
unsafe impl Shareable for Sent {}

/// The times of several recorders.
pub struct Times {
    times: Histogram<u64>,
    max: u64,
}

impl Times {
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Sent>) -> anyhow::Result<Times> {
        let layout = empty()?;
        let (mut times, mut max) = (layout.clone(), 0);
        for sent in all {
            for (count, bucket) in sent.counts.iter().zip(layout.iter_all()) {
                let count = count.load(Ordering::Relaxed);
                times.saturating_record_n(bucket.value_iterated_to(), count);
            }
            max = max.max(sent.max.load(Ordering::Relaxed));
        }
        Ok(Times { times, max })
    }

    /// How many times there are.
    pub fn samples(&self) -> u64 {
        self.times.len()
    }

    /// The largest one, exactly; 0 of none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The smallest time that at least `quantile` (0 to 1) of all do not exceed, rounded up to the end
    /// of its bucket; 0 of none.
    pub fn at(&self, quantile: f64) -> u64 {
        self.times.value_at_quantile(quantile).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::Shared;
    use super::*;

    #[test]
    fn every_bucket_has_a_place() {
        assert_eq!(empty().unwrap().distinct_values(), BUCKETS);
        assert_eq!(empty().unwrap().iter_all().count(), BUCKETS);
    }

    #[test]
    fn percentiles_of_a_known_set() {
        let sent = Shared::<Sent>::new(2).unwrap();
        for (at, sent) in sent.iter().enumerate() {
            let mut recorder = Recorder::new().unwrap();
            let odd_or_even = (1..=1000).filter(|value| value % 2 == at as u64);
            odd_or_even.for_each(|value| recorder.record(value * 1000));
            recorder.send(sent);
        }
        let times = Times::of(sent.iter()).unwrap();
        assert_eq!(times.samples(), 1000);
        assert_eq!(times.max(), 1_000_000);
        for (quantile, exact) in [(0.001, 1_000), (0.5, 500_000), (0.99, 990_000)] {
            let found = times.at(quantile);
            let most = exact + exact / 128;
            assert!((exact..=most).contains(&found), "{quantile}: {found}");
        }
        assert_eq!(times.at(1.0), 1_000_000);
    }

    #[test]
    fn extremes_are_kept() {
        let sent = Shared::<Sent>::new(1).unwrap();
        assert_eq!(Times::of(sent.iter()).unwrap().samples(), 0);
        assert_eq!(Times::of(sent.iter()).unwrap().at(0.5), 0);
        let mut recorder = Recorder::new().unwrap();
        recorder.record(0);
        recorder.record(u64::MAX);
        recorder.send(&sent[0]);
        let times = Times::of(sent.iter()).unwrap();
        assert_eq!((times.samples(), times.max()), (2, u64::MAX));
        assert_eq!((times.at(0.5), times.at(1.0)), (0, LARGEST));
    }
}
