// SPDX-License-Identifier: GPL-2.0-only
//! What a process of `work numa-mem` finds when it looks at its threads and pages from time to time.
//!
//! The process adds sample after sample to a [`Tally`] of its own and leaves it behind in shared memory at
//! its end ([`Left`]). The first [`KEPT`] samples are kept one by one, for people; all of them count.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::shared::Shareable;

/// How many samples of a process are kept.
pub const KEPT: usize = 1024;

/// A look at a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Nanoseconds since the start.
    pub at: u64,
    /// Share of the pairs of a thread and a page that it uses which are on one node.
    pub local: Option<f64>,
    /// On how many nodes its threads run.
    pub nodes: u32,
}

/// All samples so far, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    pub samples: u32,
    pub local_start: Option<f64>,
    pub local_end: Option<f64>,
    local_sum: f64,
    local_samples: u32,
    /// Samples with all threads on one node.
    pub one_node: u32,
    /// When all threads were first seen on one node, in nanoseconds since the start.
    pub converged: Option<u64>,
    /// Since when they were seen there every time.
    pub settled: Option<u64>,
}

impl Tally {
    pub fn add(&mut self, sample: Sample) {
        if self.samples == 0 {
            self.local_start = sample.local;
        }
        self.samples += 1;
        self.local_end = sample.local;
        if let Some(local) = sample.local {
            self.local_sum += local;
            self.local_samples += 1;
        }
        if sample.nodes == 1 {
            self.one_node += 1;
            self.converged.get_or_insert(sample.at);
            self.settled.get_or_insert(sample.at);
        } else {
            self.settled = None;
        }
    }

    /// The mean over the samples that have a share.
    pub fn local_mean(&self) -> Option<f64> {
        (self.local_samples > 0).then(|| self.local_sum / f64::from(self.local_samples))
    }
}

/// What a process leaves behind.
pub struct Left {
    samples: AtomicU32,
    local_start: Maybe,
    local_end: Maybe,
    local_sum: AtomicU64,
    local_samples: AtomicU32,
    one_node: AtomicU32,
    converged: AtomicU64,
    settled: AtomicU64,
    kept: [Kept; KEPT],
    /// Pages that are sampled, and those of them that had no node at the end.
    pub pages: AtomicU32,
    pub absent: AtomicU32,
    /// Why the kernel does not tell where pages are, as an error number; or 0.
    pub refused: AtomicU32,
    /// CPU time that looking took, in nanoseconds.
    pub looking: AtomicU64,
}

// SAFETY: atomics that are valid when zero, and a smaller alignment than a page.
unsafe impl Shareable for Left {}

struct Kept {
    at: AtomicU64,
    local: Maybe,
    nodes: AtomicU32,
}

/// A number or nothing, which is what zero bytes are.
struct Maybe(AtomicU64);

impl Maybe {
    /// Bits of a float are inverted: those of no share between 0 and 1 are all ones.
    fn put(&self, value: Option<f64>) {
        self.0
            .store(value.map_or(0, |value| !value.to_bits()), Relaxed);
    }

    fn get(&self) -> Option<f64> {
        match self.0.load(Relaxed) {
            0 => None,
            bits => Some(f64::from_bits(!bits)),
        }
    }
}

impl Left {
    /// Keeps sample number `at`, if there is room.
    pub fn keep(&self, at: u32, sample: Sample) {
        if let Some(kept) = self.kept.get(at as usize) {
            kept.at.store(sample.at, Relaxed);
            kept.local.put(sample.local);
            kept.nodes.store(sample.nodes, Relaxed);
        }
    }

    /// Times are stored + 1; 0 is never.
    pub fn put(&self, tally: &Tally) {
        let time = |time: Option<u64>| time.map_or(0, |time| time.saturating_add(1));
        self.samples.store(tally.samples, Relaxed);
        self.local_start.put(tally.local_start);
        self.local_end.put(tally.local_end);
        self.local_sum.store(tally.local_sum.to_bits(), Relaxed);
        self.local_samples.store(tally.local_samples, Relaxed);
        self.one_node.store(tally.one_node, Relaxed);
        self.converged.store(time(tally.converged), Relaxed);
        self.settled.store(time(tally.settled), Relaxed);
    }

    pub fn tally(&self) -> Tally {
        let time = |time: &AtomicU64| time.load(Relaxed).checked_sub(1);
        Tally {
            samples: self.samples.load(Relaxed),
            local_start: self.local_start.get(),
            local_end: self.local_end.get(),
            local_sum: f64::from_bits(self.local_sum.load(Relaxed)),
            local_samples: self.local_samples.load(Relaxed),
            one_node: self.one_node.load(Relaxed),
            converged: time(&self.converged),
            settled: time(&self.settled),
        }
    }

    /// The samples that were kept.
    pub fn kept(&self) -> impl Iterator<Item = Sample> {
        let samples = self.samples.load(Relaxed) as usize;
        self.kept.iter().take(samples).map(|kept| Sample {
            at: kept.at.load(Relaxed),
            local: kept.local.get(),
            nodes: kept.nodes.load(Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::Shared;
    use super::*;

    fn sample(at: u64, local: Option<f64>, nodes: u32) -> Sample {
        Sample { at, local, nodes }
    }

    #[test]
    fn convergence_is_seen_once_and_kept_or_lost() {
        let mut tally = Tally::default();
        tally.add(sample(5, Some(0.5), 2));
        assert_eq!((tally.converged, tally.settled), (None, None));
        tally.add(sample(10, None, 1));
        tally.add(sample(20, Some(1.0), 2));
        assert_eq!((tally.converged, tally.settled), (Some(10), None));
        tally.add(sample(30, Some(0.75), 1));
        tally.add(sample(40, Some(0.75), 1));
        assert_eq!((tally.converged, tally.settled), (Some(10), Some(30)));
        assert_eq!((tally.samples, tally.one_node), (5, 3));
        assert_eq!(
            (tally.local_start, tally.local_end),
            (Some(0.5), Some(0.75))
        );
        assert_eq!(tally.local_mean(), Some(0.75));
    }

    #[test]
    fn what_is_left_is_what_was_found() {
        let left = Shared::<Left>::new(1).unwrap();
        assert_eq!(left[0].tally(), Tally::default());
        let mut tally = Tally::default();
        for number in 0..KEPT as u32 + 2 {
            let local = (number > 0).then_some(0.0);
            let sample = sample(0, local, 1);
            left[0].keep(number, sample);
            tally.add(sample);
        }
        left[0].put(&tally);
        assert_eq!(left[0].tally(), tally);
        assert_eq!(tally.local_start, None);
        assert_eq!(left[0].kept().count(), KEPT);
        assert_eq!(left[0].kept().nth(1), Some(sample(0, Some(0.0), 1)));
        assert_eq!(left[0].kept().next(), Some(sample(0, None, 1)));
    }
}
