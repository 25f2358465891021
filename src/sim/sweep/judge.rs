// SPDX-License-Identifier: GPL-2.0-only
//! Which value is best, and how much it matters.
//!
//! The best point is the one whose runs take the least time on average; of several, the first. As good as the
//! best is every point whose average is not above the best one's slowest run: on this evidence nobody could
//! tell them apart by a single run. With one run a point that is only what is exactly equal.

use serde::Serialize;

use crate::sim::outcome::Outcome;

/// See the module. Points are subscripts, times nanoseconds of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub best: usize,
    pub worst: usize,
    /// The best one among them, ascending.
    pub as_good: Vec<usize>,
    pub mean_ns: Vec<u64>,
}

impl Verdict {
    /// `None`: there is nothing to judge by. Every point has the same number of runs.
    pub fn of(points: &[Vec<Outcome>]) -> Option<Self> {
        let times = points.iter().map(|runs| runs.iter().map(|run| run.run_ns));
        Self::of_times(&times.map(Iterator::collect).collect::<Vec<Vec<u64>>>())
    }

    fn of_times(points: &[Vec<u64>]) -> Option<Self> {
        let mean_ns: Option<Vec<u64>> = points.iter().map(|times| mean(times)).collect();
        let mean_ns = mean_ns?;
        let (best, _) = mean_ns
            .iter()
            .enumerate()
            .min_by_key(|&(at, ns)| (ns, at))?;
        // Of several worst ones the first, too.
        let worst = mean_ns
            .iter()
            .enumerate()
            .min_by_key(|&(at, ns)| (std::cmp::Reverse(ns), at));
        let slowest = points[best].iter().copied().max()?;
        let as_good = (0..points.len()).filter(|&at| mean_ns[at] <= slowest);
        Some(Self {
            best,
            worst: worst?.0,
            as_good: as_good.collect(),
            mean_ns,
        })
    }

    /// How much longer a point takes than the best, in permille.
    pub fn excess_permille(&self, point: usize) -> u64 {
        let best = u128::from(self.mean_ns[self.best].max(1));
        let more = u128::from(self.mean_ns[point] - self.mean_ns[self.best]);
        (more * 1000 / best) as u64
    }
    /// The same of runs that are no point; negative: they take less than the best. `None`: there are none.
    pub fn excess_permille_of(&self, runs: &[Outcome]) -> Option<i64> {
        let times: Vec<u64> = runs.iter().map(|run| run.run_ns).collect();
        let best = i128::from(self.mean_ns[self.best].max(1));
        let more = i128::from(mean(&times)?) - i128::from(self.mean_ns[self.best]);
        i64::try_from(more * 1000 / best).ok()
    }
}

fn mean(times: &[u64]) -> Option<u64> {
    let sum: u128 = times.iter().map(|&ns| u128::from(ns)).sum();
    sum.checked_div(times.len() as u128).map(|ns| ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_the_best_says_who_is_as_good() {
        let points = [[300, 300], [100, 140], [139, 141], [141, 141], [80, 400]];
        let verdict = Verdict::of_times(&points.map(Vec::from)).unwrap();
        assert_eq!((verdict.best, verdict.worst), (1, 0));
        assert_eq!(verdict.as_good, [1, 2]);
        assert_eq!(verdict.mean_ns, [300, 120, 140, 141, 240]);
        assert_eq!(verdict.excess_permille(1), 0);
        assert_eq!(verdict.excess_permille(4), 1000);
    }

    #[test]
    fn one_run_a_point_has_no_spread() {
        let points = [vec![7], vec![5], vec![5], vec![6]];
        let verdict = Verdict::of_times(&points).unwrap();
        assert_eq!((verdict.best, verdict.as_good), (1, vec![1, 2]));
        assert_eq!(Verdict::of_times(&[]), None);
        assert_eq!(Verdict::of_times(&[vec![]]), None);
    }
}
