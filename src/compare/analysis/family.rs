// SPDX-License-Identifier: GPL-2.0-only
//! Many questions at once: Holm's correction, what so few blocks can never show, and the verdict.

use crate::compare::record::Better;

use super::Verdict;
use super::contrast::Estimate;
use super::machines;
use super::permutation::smallest_p;

/// A corrected p up to this is significant. It is the largest probability, under no effect at all, of
/// one or more wrong verdicts in a whole comparison.
pub const SIGNIFICANT: f64 = 0.05;

/// Each p after Holm's correction: never below the one before it in ascending order, never above 1.
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|&a, &b| ps[a].total_cmp(&ps[b]).then(a.cmp(&b)));
    let mut corrected = vec![1.0; ps.len()];
    let mut floor: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        floor = floor.max(ps[index] * (ps.len() - rank) as f64).min(1.0);
        corrected[index] = floor;
    }
    corrected
}

/// So few blocks that no verdict is possible whatever they give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewBlocks {
    /// Comparisons of a primary metric between two arms.
    pub questions: usize,
    /// Blocks with which each of them could be answered.
    pub needed: u32,
}

impl TooFewBlocks {
    /// None if `blocks` blocks, on all machines together, can answer `questions` questions.
    pub fn check(blocks: u32, questions: usize) -> Option<Self> {
        let enough = |blocks: u32| smallest_p(blocks as usize) * questions as f64 <= SIGNIFICANT;
        if questions == 0 || enough(blocks) {
            return None;
        }
        // With more than 3000 questions no number of blocks is enough, and the largest is as good as any.
        let needed = (blocks + 1..=64).find(|&blocks| enough(blocks));
        Some(TooFewBlocks {
            questions,
            needed: needed.unwrap_or(64),
        })
    }
}

/// A question's p after correction, and the smallest that its pairs and those of its family allow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Corrected {
    pub p: f64,
    pub smallest: f64,
}

/// Holm's correction of a family of questions.
pub fn correct(family: &[&Estimate]) -> Vec<Corrected> {
    let ps: Vec<f64> = family.iter().map(|estimate| estimate.p).collect();
    let smallest: Vec<f64> = family.iter().map(|e| e.smallest_p()).collect();
    // The correction never falls when a p grows: the correction of the smallest is the smallest.
    holm(&ps)
        .into_iter()
        .zip(holm(&smallest))
        .map(|(p, smallest)| Corrected { p, smallest })
        .collect()
}

/// What may be said of an estimate. `corrected` is none for a question that was not declared, which
/// never gets an answer; `noise` is on the estimate's scale and not negative.
pub fn verdict(
    estimate: &Estimate,
    corrected: Option<Corrected>,
    noise: f64,
    better: Better,
) -> Verdict {
    let smallest = corrected.map_or(estimate.smallest_p(), |corrected| corrected.smallest);
    if smallest > SIGNIFICANT {
        return Verdict::TooFew;
    }
    if machines::contradict(&estimate.machines, noise) {
        return Verdict::Undecided;
    }
    let (Some(corrected), Some((low, high))) = (corrected, estimate.interval) else {
        return Verdict::Undecided;
    };
    if corrected.p > SIGNIFICANT {
        return Verdict::Undecided;
    }
    match better {
        Better::Lower if high < -noise => Verdict::Better,
        Better::Lower if low > noise => Verdict::Worse,
        Better::Higher if low > noise => Verdict::Better,
        Better::Higher if high < -noise => Verdict::Worse,
        _ => Verdict::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_by_hand() {
        assert!(holm(&[]).is_empty());
        let found = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12);
        }
        assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
    }

    #[test]
    fn blocks_that_can_answer() {
        assert_eq!(TooFewBlocks::check(6, 1), None);
        let few = |blocks, questions| TooFewBlocks::check(blocks, questions).map(|few| few.needed);
        assert_eq!(few(5, 1), Some(6));
        assert_eq!(few(8, 10), Some(9));
        assert_eq!(few(12, 102), None);
        assert_eq!(few(12, 103), Some(13));
        assert_eq!(few(1, 0), None);
    }

    fn estimate(interval: (f64, f64)) -> Estimate {
        Estimate {
            pairs: 12,
            median: (interval.0 + interval.1) / 2.0,
            interval: Some(interval),
            p: 0.001,
            machines: Vec::new(),
        }
    }

    fn judged(interval: (f64, f64), p: f64, noise: f64, better: Better) -> Verdict {
        let corrected = Corrected { p, smallest: 0.001 };
        verdict(&estimate(interval), Some(corrected), noise, better)
    }

    #[test]
    fn a_verdict_needs_p_and_interval_and_direction() {
        use Better::{Higher, Lower};
        assert_eq!(judged((0.1, 0.2), 0.05, 0.0, Lower), Verdict::Worse);
        assert_eq!(judged((0.1, 0.2), 0.05, 0.0, Higher), Verdict::Better);
        assert_eq!(judged((-0.2, -0.1), 0.05, 0.0, Lower), Verdict::Better);
        assert_eq!(judged((-0.2, -0.1), 0.05, 0.0, Higher), Verdict::Worse);
        assert_eq!(judged((0.1, 0.2), 0.051, 0.0, Lower), Verdict::Undecided);
        assert_eq!(judged((-0.1, 0.2), 0.01, 0.0, Lower), Verdict::Undecided);
        assert_eq!(judged((0.1, 0.2), 0.01, 0.1, Lower), Verdict::Undecided);
        assert_eq!(judged((0.1, 0.2), 0.01, 0.09, Lower), Verdict::Worse);
        assert_eq!(judged((-0.2, -0.1), 0.01, 0.1, Higher), Verdict::Undecided);
    }

    #[test]
    fn what_was_not_declared_is_never_decided() {
        let sure = estimate((0.1, 0.2));
        assert_eq!(verdict(&sure, None, 0.0, Better::Lower), Verdict::Undecided);
        let few = Estimate {
            pairs: 5,
            interval: None,
            ..sure
        };
        assert_eq!(verdict(&few, None, 0.0, Better::Lower), Verdict::TooFew);
    }

    #[test]
    fn too_few_depends_on_the_whole_family() {
        let eight = Estimate {
            pairs: 8,
            p: 1.0,
            ..estimate((0.1, 0.2))
        };
        // 2 / 2^8 is 0.0078: six of them can be significant, seven cannot.
        assert!(correct(&[&eight; 6])[0].smallest <= SIGNIFICANT);
        assert!(correct(&[&eight; 7])[0].smallest > SIGNIFICANT);
        // One with fewer pairs comes last, when the others are out of the way.
        let six = Estimate {
            pairs: 6,
            ..eight.clone()
        };
        assert!(correct(&[&eight, &six])[1].smallest <= SIGNIFICANT);
        assert!(correct(&[&six, &six])[1].smallest > SIGNIFICANT);
    }
}
