// SPDX-License-Identifier: GPL-2.0-only
//! Who comes when: the order of runs, from the recorded seed alone.
//!
//! A block has each arm once at each benchmark. Benchmarks come in random order, and the arms of a
//! benchmark come one after the other, in random order too: what is compared is close in time, so that
//! the slow drift of a machine (heat, caches, other users) is the same for both.
//!
//! The order of a block depends on the seed, the block's number and the two counts, never on what
//! happened before, so that a resumed comparison goes on as it would have. Generator and shuffle are
//! written out here, so that no new version of a library changes the order.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// A run that has to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub block: u32,
    /// The how manieth run of the block, from 0.
    pub position: u32,
    pub arm: usize,
    pub benchmark: usize,
}

/// The runs of a block, in order.
pub fn block(seed: u64, block: u32, arms: usize, benchmarks: usize) -> Vec<Slot> {
    // One stream a block.
    let mut dice = Pcg64::new(u128::from(seed), u128::from(block));
    let mut slots = Vec::with_capacity(arms * benchmarks);
    for benchmark in shuffled(benchmarks, &mut dice) {
        for arm in shuffled(arms, &mut dice) {
            slots.push(Slot {
                block,
                position: slots.len() as u32,
                arm,
                benchmark,
            });
        }
    }
    slots
}

/// The runs of all blocks, in order.
pub fn all(seed: u64, blocks: u32, arms: usize, benchmarks: usize) -> Vec<Slot> {
    (0..blocks)
        .flat_map(|number| block(seed, number, arms, benchmarks))
        .collect()
}

/// The numbers below `count` in random order, by Fisher and Yates.
fn shuffled(count: usize, dice: &mut Pcg64) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        numbers.swap(last, below(last as u64 + 1, dice) as usize);
    }
    numbers
}

/// A number below `bound`, each as likely as the others.
fn below(bound: u64, dice: &mut Pcg64) -> u64 {
    // The largest multiple of `bound`; what lies above would favour small numbers.
    let fair = u64::MAX - u64::MAX % bound;
    loop {
        let number = dice.next_u64();
        if number < fair {
            return number % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_seed_never_changes() {
        let order: Vec<_> = block(7, 0, 3, 2)
            .iter()
            .map(|s| (s.benchmark, s.arm))
            .collect();
        assert_eq!(order, PINNED, "results files of old could not be resumed");
    }

    const PINNED: [(usize, usize); 6] = [(0, 2), (0, 1), (0, 0), (1, 2), (1, 0), (1, 1)];

    #[test]
    fn each_arm_comes_once_at_each_benchmark_of_a_block() {
        for number in 0..50 {
            let slots = block(1, number, 4, 3);
            let mut pairs: Vec<_> = slots.iter().map(|s| (s.benchmark, s.arm)).collect();
            pairs.sort_unstable();
            let expected: Vec<_> = (0..3).flat_map(|b| (0..4).map(move |a| (b, a))).collect();
            assert_eq!(pairs, expected);
            assert!(slots.iter().zip(0..).all(|(slot, at)| slot.position == at));
            assert!(
                slots
                    .chunks(4)
                    .all(|c| c.iter().all(|s| s.benchmark == c[0].benchmark))
            );
        }
    }

    #[test]
    fn every_order_comes_equally_often() {
        let mut counts = std::collections::BTreeMap::<Vec<usize>, u32>::new();
        for number in 0..6000 {
            let order = block(3, number, 3, 1).iter().map(|s| s.arm).collect();
            *counts.entry(order).or_default() += 1;
        }
        assert_eq!(counts.len(), 6);
        // Six standard deviations of a fair one are 173.
        assert!(
            counts.values().all(|&n| n.abs_diff(1000) < 175),
            "{counts:?}"
        );
    }

    #[test]
    fn seeds_and_blocks_differ() {
        let order = |seed, number| {
            let slots = block(seed, number, 6, 1);
            slots.iter().map(|slot| slot.arm).collect::<Vec<_>>()
        };
        assert_ne!(order(1, 0), order(2, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_eq!(order(1, 1), order(1, 1));
    }
}
