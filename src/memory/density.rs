// SPDX-License-Identifier: GPL-2.0-only
//! How full areas are, by their size: most of a thread's stack was never touched, most of a heap was.
//!
//! Addresses are given to areas by size. With a thousand threads nearly all of them would be in stacks, and find
//! nothing. A process's areas of about the same size are alike in this, so what earlier looks found in them tells how many
//! pages to expect, and that is what addresses are given by. Then a page that is found in a half full area stands for two,
//! since its area got half as many addresses: [`Density::weight`]. It stands for [`MOST_WEIGHT`] at most, or one
//! page found by chance would outweigh all others; so areas that are nearly empty count for less than they have.

use std::collections::BTreeMap;

/// Expected pages of an area are at least one in so many, so that it is seen when it fills.
const LEAST: u64 = 64;
const MOST_WEIGHT: u64 = 4;
/// Older looks fade away: counts are halved at so many addresses.
const ENOUGH: u64 = 1024;
/// Weights are in this unit.
const ONE: u64 = 16;

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    asked: u64,
    found: u64,
}

/// Of the areas of a process.
#[derive(Debug, Default)]
pub struct Density {
    /// By power of two of the pages.
    classes: BTreeMap<u32, Counts>,
}

impl Density {
    /// An address in an area of so many pages was asked for.
    pub fn add(&mut self, pages: u64, found: bool) {
        let counts = self.classes.entry(class(pages)).or_default();
        if counts.asked >= ENOUGH {
            counts.asked /= 2;
            counts.found /= 2;
        }
        counts.asked += 1;
        counts.found += u64::from(found);
    }

    /// How many of an area's pages to expect; all of them where nothing is known.
    pub fn expected(&self, pages: u64) -> u64 {
        let (found, asked) = self.of(pages);
        let expected = u128::from(pages) * u128::from(found) / u128::from(asked);
        (expected as u64).max(pages / LEAST).max(1).min(pages)
    }

    /// How many pages one that is found in an area of so many stands for, in sixteenths.
    pub fn weight(&self, pages: u64) -> u64 {
        let (found, asked) = self.of(pages);
        (ONE * asked / found).clamp(ONE, ONE * MOST_WEIGHT)
    }

    /// As if one more had been asked for, and found.
    fn of(&self, pages: u64) -> (u64, u64) {
        let counts = self.classes.get(&class(pages)).copied();
        let counts = counts.unwrap_or_default();
        (counts.found + 1, counts.asked + 1)
    }
}

fn class(pages: u64) -> u32 {
    pages.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_expected() {
        let mut density = Density::default();
        assert_eq!(density.expected(2048), 2048);
        assert_eq!(density.weight(2048), 16);
        for at in 0..99 {
            density.add(2048, at % 4 == 0);
        }
        // 25 and 1 of 99 and 1.
        assert_eq!(density.expected(2048), 2048 * 26 / 100);
        assert_eq!(density.weight(2048), 16 * 100 / 26);
        // About the same size, and another one.
        assert_eq!(density.expected(4000), 4000 * 26 / 100);
        assert_eq!(density.expected(5000), 5000);
    }

    #[test]
    fn an_empty_area_is_not_forgotten() {
        let mut density = Density::default();
        (0..5000).for_each(|_| density.add(2048, false));
        assert_eq!(density.expected(2048), 32);
        assert_eq!(density.weight(2048), 64);
        // It fills, and soon that is seen.
        (0..1024).for_each(|_| density.add(2048, true));
        assert!(density.expected(2048) > 1024, "{}", density.expected(2048));
        assert_eq!((density.expected(1), density.expected(0)), (1, 0));
        assert!(density.expected(u64::MAX) >= u64::MAX / 2);
    }
}
