// SPDX-License-Identifier: GPL-2.0-only
//! What is known of the memory of a process, or of one task, and how sure it is.
//!
//! Two sources, and they are not equals:
//!
//! - [`Sample`]: some addresses were looked at, and this many pages lay on each node. That is where the
//!   memory is. Counts are halved with every new sample, as the kernel does with its faults at every
//!   scan, so a change is followed within two samples however far apart they are.
//! - [`FirstTouch`]: minor faults taken while running on a node. Mostly the memory came from there, but
//!   page cache, copy on write and huge pages are counted as well. It is a prior: it orders, it never
//!   decides alone. It decays with time. A sample that says the same confirms it, and then one sample
//!   is enough; one that says otherwise voids it.
//!
//! Neither says anything about where a process *should* run if its memory was placed by rule: bound
//! or interleaved by a memory policy, or confined by a cpuset. See [`MemoryPolicy::places`].
//!
//! Integers only; counts may be any `u32`, times may go backwards, nothing here overflows.

use serde::{Deserialize, Serialize};

pub use super::input::{FirstTouch, MemoryPolicy, NodePages, Sample};

/// Pages of the decayed samples below which they are too few to tell nodes apart.
pub const MIN_PAGES: u64 = 32;
/// Of the addresses that were asked for at least so many in a thousand were present.
pub const MIN_ANSWERED: u16 = 125;
/// Successive samples may differ by so much, in permille of the pages; with 200 addresses chance alone
/// makes about 50.
pub const STABLE_PERMILLE: u16 = 150;
/// First-touch faults that are worth looking at.
pub const MIN_FAULTS: u64 = 16;
/// First touch loses half of its weight in this time.
pub const HALF_LIFE_MS: u64 = 4_000;
/// Agreement of first touch and sample, in permille of the pages, that confirms or voids.
const CONFIRMED_FROM: u16 = 700;
const VOIDED_BELOW: u16 = 500;

/// Counts are kept in sixteenths, so that halving does not lose small ones at once.
const ONE: u64 = 16;
/// No count grows beyond this, far from where sums of products would overflow.
const MOST: u64 = 1 << 38;

/// What samples say about first touch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prior {
    #[default]
    Unconfirmed,
    Confirmed,
    Voided,
}

/// How much the evidence is worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nothing is known.
    #[default]
    Unknown,
    /// First touch alone: orders, does not decide.
    FirstTouch,
    /// Too few samples, pages or answers.
    Few,
    /// The last sample is too old.
    Stale,
    /// The last two samples contradict each other.
    Unstable,
    /// The memory was placed by rule.
    Void,
    /// Good enough to decide by.
    Known,
}

/// Decayed pages on a node, in sixteenths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    pub private: u64,
    pub shared: u64,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    policy: MemoryPolicy,
    /// By node.
    held: Vec<Held>,
    /// By node: permille of the last sample.
    last: Vec<u16>,
    samples: u32,
    sampled_ms: u64,
    /// Permille of the last sample's addresses that were present.
    answered: u16,
    /// How much the last two samples differ, in permille.
    drift: u16,
    /// By node: decayed faults, in sixteenths, as of `touched_ms`.
    touched: Vec<u64>,
    touched_ms: u64,
    prior: Prior,
}

impl Evidence {
    /// Nothing is known of memory on any of `nodes` (R5: as of every new process and task).
    pub fn new(nodes: usize) -> Self {
        Self {
            held: vec![Held::default(); nodes],
            last: vec![0; nodes],
            touched: vec![0; nodes],
            ..Self::default()
        }
    }

    pub fn set_policy(&mut self, policy: MemoryPolicy) {
        self.policy = policy;
    }

    pub fn policy(&self) -> MemoryPolicy {
        self.policy
    }

    /// When the last sample was taken.
    pub fn sampled_ms(&self) -> u64 {
        self.sampled_ms
    }

    pub fn prior(&self) -> Prior {
        self.prior
    }

    /// How much the last two samples differ, in permille; `None` if there were no two.
    pub fn drift(&self) -> Option<u16> {
        (self.samples >= 2).then_some(self.drift)
    }

    /// By node.
    pub(super) fn held(&self) -> &[Held] {
        &self.held
    }

    /// By node: decayed faults, in some unit; nothing if a sample has voided them.
    pub(super) fn touched(&self) -> &[u64] {
        match self.prior {
            Prior::Voided => &[],
            Prior::Unconfirmed | Prior::Confirmed => &self.touched,
        }
    }

    /// Take a sample. One without any page present is as if it had not been taken.
    pub fn add_sample(&mut self, sample: &Sample) {
        let count = |at: usize| sample.pages.get(at).copied().unwrap_or_default();
        let pages = |at: usize| u64::from(count(at).private) + u64::from(count(at).shared);
        let total: u64 = (0..self.held.len()).map(pages).sum();
        if total == 0 {
            return;
        }
        let mut shares = vec![0; self.held.len()];
        to_permille(&mut shares, pages);
        for (at, held) in self.held.iter_mut().enumerate() {
            held.private = held.private / 2 + u64::from(count(at).private) * ONE;
            held.shared = held.shared / 2 + u64::from(count(at).shared) * ONE;
        }
        self.drift = match self.samples {
            0 => 0,
            _ => difference(&self.last, &shares),
        };
        self.last = shares;
        self.samples = self.samples.saturating_add(1);
        self.sampled_ms = self.sampled_ms.max(sample.at_ms);
        let asked = u64::from(sample.asked).max(total);
        self.answered = (total * 1000 / asked) as u16;
        self.judge_prior(sample.at_ms);
    }

    /// So many permille of the memory have been brought to node `to`, from all others alike. It is known by that as well
    /// as before, and to a sample that says the same it is no change.
    pub fn brought(&mut self, to: usize, permille: u16) {
        let part = u64::from(permille.min(1000));
        if to >= self.held.len() {
            return;
        }
        for at in (0..self.held.len()).filter(|&at| at != to) {
            let take = |from: &mut u64| {
                let taken = *from * part / 1000;
                *from -= taken;
                taken
            };
            let private = take(&mut self.held[at].private);
            self.held[to].private += private;
            let mut share = u64::from(self.last[at]);
            let taken = take(&mut share) as u16;
            self.last[at] -= taken;
            self.last[to] += taken;
        }
    }

    /// Add faults.
    pub fn add_first_touch(&mut self, touch: &FirstTouch) {
        self.decay_touch(touch.at_ms);
        for (sum, &faults) in self.touched.iter_mut().zip(&touch.faults) {
            *sum = (*sum + u64::from(faults) * ONE).min(MOST);
        }
    }

    /// Halve for each half-life since the last time; what is left of one stays for the next time.
    fn decay_touch(&mut self, now_ms: u64) {
        let lives = now_ms.saturating_sub(self.touched_ms) / HALF_LIFE_MS;
        let shift = lives.min(63) as u32;
        self.touched.iter_mut().for_each(|sum| *sum >>= shift);
        self.touched_ms += lives * HALF_LIFE_MS;
    }

    /// Compare first touch with the last sample.
    fn judge_prior(&mut self, now_ms: u64) {
        self.decay_touch(now_ms);
        if !self.has_touch() {
            return;
        }
        let mut shares = vec![0; self.touched.len()];
        to_permille(&mut shares, |at| self.touched[at]);
        let agreement = 1000 - difference(&self.last, &shares).min(1000);
        if agreement >= CONFIRMED_FROM {
            self.prior = Prior::Confirmed;
        } else if agreement < VOIDED_BELOW {
            self.prior = Prior::Voided;
        }
    }

    fn has_touch(&self) -> bool {
        self.touched.iter().sum::<u64>() >= MIN_FAULTS * ONE
    }

    /// What it is worth at `now_ms`, if a sample is too old after `stale_ms`.
    pub fn standing(&self, now_ms: u64, stale_ms: u64) -> Standing {
        let pages: u64 = self
            .held
            .iter()
            .map(|held| held.private + held.shared)
            .sum();
        // A confirmed prior is the second opinion that otherwise a second sample has to give.
        let opinions = self.samples + u32::from(self.prior == Prior::Confirmed);
        match self.samples {
            _ if self.policy.places() => Standing::Void,
            0 if self.has_touch() => Standing::FirstTouch,
            0 => Standing::Unknown,
            _ if now_ms.saturating_sub(self.sampled_ms) > stale_ms => Standing::Stale,
            _ if pages < MIN_PAGES * ONE || opinions < 2 => Standing::Few,
            _ if self.answered < MIN_ANSWERED => Standing::Few,
            _ if self.drift > STABLE_PERMILLE => Standing::Unstable,
            _ => Standing::Known,
        }
    }
}

/// Each one's part of the whole, rounded down; nothing if there is none.
fn to_permille(shares: &mut [u16], count: impl Fn(usize) -> u64) {
    let total: u64 = (0..shares.len()).map(&count).sum();
    for (at, share) in shares.iter_mut().enumerate() {
        *share = (count(at) * 1000).checked_div(total).unwrap_or(0) as u16;
    }
}

/// How much of the whole lies elsewhere, in permille.
fn difference(a: &[u16], b: &[u16]) -> u16 {
    let apart: u32 = a
        .iter()
        .zip(b)
        .map(|(&a, &b)| u32::from(a.abs_diff(b)))
        .sum();
    (apart / 2) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, asked: u32, private: &[u32]) -> Sample {
        let on = |&private| NodePages { private, shared: 0 };
        Sample {
            at_ms,
            asked,
            pages: private.iter().map(on).collect(),
        }
    }

    fn touch(at_ms: u64, faults: &[u32]) -> FirstTouch {
        FirstTouch {
            at_ms,
            faults: faults.to_vec(),
        }
    }

    fn after(samples: &[Sample]) -> Evidence {
        let mut evidence = Evidence::new(2);
        samples
            .iter()
            .for_each(|sample| evidence.add_sample(sample));
        evidence
    }

    #[test]
    fn counts_are_halved_with_every_sample() {
        let evidence = after(&[sample(0, 100, &[100, 0]), sample(9, 100, &[0, 100])]);
        // 100 / 2 on node 0 and 100 on node 1, in sixteenths.
        let held: Vec<u64> = evidence.held().iter().map(|held| held.private).collect();
        assert_eq!(held, [50 * 16, 100 * 16]);
    }

    #[test]
    fn two_samples_that_agree_are_enough() {
        let one = sample(0, 100, &[80, 20]);
        assert_eq!(
            after(std::slice::from_ref(&one)).standing(0, 1000),
            Standing::Few
        );
        let two = after(&[one.clone(), sample(500, 100, &[90, 10])]);
        assert_eq!(two.standing(1500, 1000), Standing::Known);
        assert_eq!(two.standing(1501, 1000), Standing::Stale);
        assert_eq!(two.drift(), Some(100));
        // 80 : 20, then 40 : 60. 400 of 1000 went elsewhere.
        let moved = after(&[one, sample(500, 100, &[40, 60])]);
        assert_eq!(moved.drift(), Some(400));
        assert_eq!(moved.standing(500, 1000), Standing::Unstable);
    }

    #[test]
    fn what_was_brought_is_known_to_be_there() {
        let mut evidence = after(&[sample(0, 100, &[100, 0]), sample(9, 100, &[100, 0])]);
        evidence.brought(1, 800);
        let held: Vec<u64> = evidence.held().iter().map(|held| held.private).collect();
        // 150 pages, 120 of them there now.
        assert_eq!(held, [30 * 16, 120 * 16]);
        assert_eq!(evidence.standing(9, 1000), Standing::Known);
        // The next sample says the same, and one that does not is a change.
        let mut other = evidence.clone();
        evidence.add_sample(&sample(10, 100, &[20, 80]));
        assert_eq!(evidence.drift(), Some(0));
        other.add_sample(&sample(10, 100, &[100, 0]));
        assert_eq!(other.standing(10, 1000), Standing::Unstable);
        // A node that there is not.
        let before = evidence.clone();
        evidence.brought(2, 1000);
        assert_eq!(evidence, before);
    }

    #[test]
    fn few_pages_and_few_answers_are_not_enough() {
        // 20 + 20 / 2 = 30 pages are below 32; 22 + 11 are not.
        let twice = |asked, n| after(&[sample(0, asked, &[n, 0]), sample(1, asked, &[n, 0])]);
        assert_eq!(twice(30, 20).standing(1, 10), Standing::Few);
        assert_eq!(twice(30, 22).standing(1, 10), Standing::Known);
        // 40 of 400 addresses had a page.
        assert_eq!(twice(400, 40).standing(1, 10), Standing::Few);
        assert_eq!(twice(320, 40).standing(1, 10), Standing::Known);
    }

    #[test]
    fn a_sample_without_pages_says_nothing() {
        let mut evidence = after(&[sample(0, 100, &[80, 20]), sample(1, 100, &[80, 20])]);
        let before = evidence.clone();
        evidence.add_sample(&sample(50, 100, &[0, 0]));
        assert_eq!(evidence, before);
    }

    #[test]
    fn memory_that_was_placed_is_void() {
        let mut evidence = after(&[sample(0, 100, &[80, 20]), sample(1, 100, &[80, 20])]);
        for policy in [
            MemoryPolicy::Bind,
            MemoryPolicy::Interleave,
            MemoryPolicy::Cpuset,
        ] {
            evidence.set_policy(policy);
            assert_eq!(evidence.standing(1, 10), Standing::Void);
        }
        for policy in [MemoryPolicy::Free, MemoryPolicy::Preferred] {
            evidence.set_policy(policy);
            assert_eq!(evidence.standing(1, 10), Standing::Known);
        }
    }

    #[test]
    fn first_touch_is_confirmed_or_voided_by_a_sample() {
        let mut first = Evidence::new(2);
        first.add_first_touch(&touch(0, &[90, 10]));
        assert_eq!(first.standing(0, 10), Standing::FirstTouch);

        let mut confirmed = first.clone();
        confirmed.add_sample(&sample(1, 100, &[70, 30]));
        assert_eq!(confirmed.prior(), Prior::Confirmed);
        assert_eq!(confirmed.standing(1, 10), Standing::Known);

        let mut voided = first;
        voided.add_sample(&sample(1, 100, &[30, 70]));
        assert_eq!(voided.prior(), Prior::Voided);
        assert_eq!(voided.standing(1, 10), Standing::Few);
        assert_eq!(voided.touched(), [0; 0]);
    }

    #[test]
    fn first_touch_decays_with_time() {
        let mut evidence = Evidence::new(2);
        evidence.add_first_touch(&touch(0, &[64, 0]));
        // Two and a half half-lives: 64 / 4, and the rest of the third counts later.
        evidence.add_first_touch(&touch(10_000, &[0, 0]));
        assert_eq!(evidence.touched(), [16 * 16, 0]);
        assert_eq!(evidence.standing(10_000, 1), Standing::FirstTouch);
        evidence.add_first_touch(&touch(12_000, &[0, 0]));
        assert_eq!(evidence.touched(), [8 * 16, 0]);
        assert_eq!(evidence.standing(12_000, 1), Standing::Unknown);
        evidence.add_first_touch(&touch(u64::MAX, &[0, 0]));
        assert_eq!(evidence.touched(), [0, 0]);
    }

    #[test]
    fn the_largest_numbers_do_no_harm() {
        let mut evidence = Evidence::new(64);
        let pages = NodePages {
            private: u32::MAX,
            shared: u32::MAX,
        };
        for _ in 0..100 {
            evidence.add_first_touch(&touch(u64::MAX, &[u32::MAX; 64]));
            evidence.add_sample(&Sample {
                at_ms: u64::MAX,
                asked: 0,
                pages: vec![pages; 64],
            });
        }
        // Back in time: as if no time had passed.
        evidence.add_first_touch(&touch(0, &[1; 64]));
        assert_eq!(evidence.standing(0, 10), Standing::Known);
    }
}
