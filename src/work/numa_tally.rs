// SPDX-License-Identifier: GPL-2.0-only
//! What a process of `work numa-mem` finds when it looks at its threads and pages from time to time.
//!
//! The process adds sample after sample to a [`Tally`] of its own and leaves it behind in shared memory at
//! its end ([`Left`]). The first [`KEPT`] samples are kept one by one, for people; all of them count.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::pages::Share;
use super::shared::Shareable;

/// How many samples of a process are kept.
pub const KEPT: usize = 1024;
/// How many times the local share can be asked for.
const MOST_WINDOWS: usize = 8;
const SECOND: u64 = 1_000_000_000;

/// Times, in whole seconds after the start, for each of which the local share of the second before it is
/// wanted: ascending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportAt(Vec<u32>);

impl FromStr for ReportAt {
    type Err = String;

    fn from_str(text: &str) -> Result<ReportAt, String> {
        let times: Result<Vec<u32>, _> = text.split(',').map(str::parse).collect();
        match times {
            Ok(times)
                if times.len() <= MOST_WINDOWS
                    && times.is_sorted_by(|a, b| a < b)
                    && times.iter().all(|time| (1..=86400).contains(time)) =>
            {
                Ok(ReportAt(times))
            }
            _ => Err(format!(
                "expected up to {MOST_WINDOWS} ascending numbers of seconds, 1 to 86400, for example 5,30"
            )),
        }
    }
}

impl ReportAt {
    /// The seconds.
    pub fn times(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }

    /// The number of the time whose last second a look falls into that was due at `due`.
    fn window_of(&self, due: u64) -> Option<usize> {
        let holds = |end: u64| due <= end && due > end - SECOND;
        let mut ends = self.times().map(|time| u64::from(time) * SECOND);
        ends.position(holds)
    }
}

/// A look at a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Nanoseconds since the start, when it was taken and when it was due.
    pub at: u64,
    pub due: u64,
    /// Use of memory since the look before; in the first one that of threads as they stand.
    pub local: Share,
    /// On how many nodes its threads run.
    pub nodes: u32,
}

/// All samples so far, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Tally {
    pub samples: u32,
    pub local_start: Share,
    /// Of the last sample in which something ran.
    pub local_end: Share,
    /// Of all samples but the first.
    pub local: Share,
    /// By the times of [`ReportAt`].
    pub windows: [Share; MOST_WINDOWS],
    /// Samples with all threads on one node.
    pub one_node: u32,
    /// When all threads were first seen on one node, in nanoseconds since the start.
    pub converged: Option<u64>,
    /// Since when they were seen there every time.
    pub settled: Option<u64>,
}

impl Tally {
    pub fn add(&mut self, sample: Sample, report_at: &ReportAt) {
        if self.samples == 0 {
            self.local_start = sample.local;
        } else if sample.local.value().is_some() {
            self.local_end = sample.local;
            self.local = self.local.plus(sample.local);
            if let Some(window) = report_at.window_of(sample.due) {
                self.windows[window] = self.windows[window].plus(sample.local);
            }
        }
        self.samples += 1;
        if sample.nodes == 1 {
            self.one_node += 1;
            self.converged.get_or_insert(sample.at);
            self.settled.get_or_insert(sample.at);
        } else {
            self.settled = None;
        }
    }
}

/// What a process leaves behind.
pub struct Left {
    samples: AtomicU32,
    local_start: SentShare,
    local_end: SentShare,
    local: SentShare,
    windows: [SentShare; MOST_WINDOWS],
    one_node: AtomicU32,
    converged: AtomicU64,
    settled: AtomicU64,
    kept: [Kept; KEPT],
    /// Pages that are sampled, those of them that had no node at the end, that ever had one, and that
    /// left their first one.
    pub pages: AtomicU32,
    pub absent: AtomicU32,
    pub known: AtomicU32,
    pub moved: AtomicU32,
    /// Why the kernel does not tell where pages are, as an error number; or 0.
    pub refused: AtomicU32,
    /// CPU time that looking took, and system time of everything else, in nanoseconds.
    pub looking: AtomicU64,
    pub system: AtomicU64,
}

// SAFETY: atomics that are valid when zero, and a smaller alignment than a page.
unsafe impl Shareable for Left {}

struct Kept {
    at: AtomicU64,
    local: SentShare,
    nodes: AtomicU32,
}

/// The bits of a share's numbers; zero bytes are those of an empty one.
struct SentShare {
    local: AtomicU64,
    used: AtomicU64,
}

impl SentShare {
    fn put(&self, share: Share) {
        self.local.store(share.local.to_bits(), Relaxed);
        self.used.store(share.used.to_bits(), Relaxed);
    }

    fn get(&self) -> Share {
        let number = |bits: &AtomicU64| f64::from_bits(bits.load(Relaxed));
        Share {
            local: number(&self.local),
            used: number(&self.used),
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
        self.local.put(tally.local);
        for (sent, &window) in self.windows.iter().zip(&tally.windows) {
            sent.put(window);
        }
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
            local: self.local.get(),
            windows: std::array::from_fn(|at| self.windows[at].get()),
            one_node: self.one_node.load(Relaxed),
            converged: time(&self.converged),
            settled: time(&self.settled),
        }
    }

    /// The samples that were kept: when they were taken, their local shares, and on how many nodes threads
    /// were.
    pub fn kept(&self) -> impl Iterator<Item = (u64, Share, u32)> {
        let samples = self.samples.load(Relaxed) as usize;
        self.kept.iter().take(samples).map(|kept| {
            let (at, nodes) = (kept.at.load(Relaxed), kept.nodes.load(Relaxed));
            (at, kept.local.get(), nodes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::Shared;
    use super::*;

    fn share(local: f64, used: f64) -> Share {
        Share { local, used }
    }

    fn sample(at: u64, local: Share, nodes: u32) -> Sample {
        let due = at;
        Sample {
            at,
            due,
            local,
            nodes,
        }
    }

    #[test]
    fn convergence_is_seen_once_and_kept_or_lost() {
        let mut tally = Tally::default();
        let mut add = |at, nodes| {
            tally.add(sample(at, Share::default(), nodes), &ReportAt::default());
            (tally.converged, tally.settled)
        };
        assert_eq!(add(5, 2), (None, None));
        add(10, 1);
        assert_eq!(add(20, 2), (Some(10), None));
        add(30, 1);
        assert_eq!(add(40, 1), (Some(10), Some(30)));
        assert_eq!((tally.samples, tally.one_node), (5, 3));
    }

    #[test]
    fn the_mean_is_by_run_time_and_without_the_first_look() {
        let mut tally = Tally::default();
        let looks = [(0.0, 4.0), (30.0, 30.0), (0.0, 10.0), (0.0, 0.0)];
        for (at, (local, used)) in looks.into_iter().enumerate() {
            let sample = sample(at as u64, share(local, used), 1);
            tally.add(sample, &ReportAt::default());
        }
        assert_eq!(tally.local_start, share(0.0, 4.0));
        assert_eq!(tally.local.value(), Some(0.75));
        assert_eq!(tally.local_end, share(0.0, 10.0));
    }

    #[test]
    fn a_window_is_the_second_before_its_time() {
        let report_at: ReportAt = "1,3".parse().unwrap();
        let mut tally = Tally::default();
        for tenth in 0..=35 {
            let local = share(f64::from(u32::from(tenth > 20)), 1.0);
            let sample = sample(tenth * SECOND / 10, local, 1);
            tally.add(sample, &report_at);
        }
        // The first look is of no run time.
        assert_eq!(tally.windows[0], share(0.0, 10.0));
        assert_eq!(tally.windows[1], share(10.0, 10.0));
        assert_eq!(tally.windows[2], Share::default());
    }

    #[test]
    fn times_are_few_and_ascending() {
        let parse = |text: &str| text.parse::<ReportAt>();
        let times: Vec<u32> = parse("5,30").unwrap().times().collect();
        assert_eq!(times, [5, 30]);
        let many = "1,2,3,4,5,6,7,8,9";
        for text in ["", "0", "5,", "5,5", "30,5", "1.5", "86401", many] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_left_is_what_was_found() {
        let left = Shared::<Left>::new(1).unwrap();
        assert_eq!(left[0].tally(), Tally::default());
        let report_at: ReportAt = "1".parse().unwrap();
        let mut tally = Tally::default();
        for number in 0..KEPT as u32 + 2 {
            let sample = sample(SECOND, share(0.0, f64::from(number)), 1);
            left[0].keep(number, sample);
            tally.add(sample, &report_at);
        }
        left[0].put(&tally);
        assert_eq!(left[0].tally(), tally);
        assert!(tally.windows[0].used > 0.0 && tally.local_end.used > 0.0);
        assert_eq!(tally.local_start.value(), None);
        assert_eq!(left[0].kept().count(), KEPT);
        assert_eq!(left[0].kept().nth(2), Some((SECOND, share(0.0, 2.0), 1)));
    }
}
