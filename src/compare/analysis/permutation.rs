// SPDX-License-Identifier: GPL-2.0-only
//! The paired permutation test: had the two arms of some pairs changed places, how often would the mean
//! contrast be as far from 0 as it is?
//!
//! If the arms do not differ, swapping them within a block changes nothing but the sign of the block's
//! contrast, whatever the noise looks like; that is all that the test assumes. It swaps within
//! blocks, hence within machines.

use super::random::Stream;

/// Up to so many pairs, all ways to swap are looked at: 2^16, half of them as mirror images.
pub const EXACT_PAIRS: usize = 16;

/// Beyond, so many are drawn.
const DRAWS: u64 = (1 << 16) - 1;

/// Sums that differ by less than this share of the largest possible sum are the same: rounding must
/// not decide.
const SAME: f64 = 1e-9;

/// The two-sided p of `contrasts`, and 1 of nothing.
pub fn p_value(contrasts: &[f64], stream: &mut Stream) -> f64 {
    let largest: f64 = contrasts.iter().map(|c| c.abs()).sum();
    let bar = contrasts.iter().sum::<f64>().abs() - SAME * largest;
    match contrasts.len() {
        0..=EXACT_PAIRS => exact(contrasts, bar),
        _ => drawn(contrasts, bar, stream),
    }
}

/// The smallest p that so many pairs can have, whatever the values.
pub fn smallest_p(pairs: usize) -> f64 {
    match pairs {
        0..=EXACT_PAIRS => (2.0 * 0.5_f64.powi(pairs as i32)).min(1.0),
        _ => 1.0 / (DRAWS + 1) as f64,
    }
}

/// The share of all ways to swap whose sum reaches `bar`.
fn exact(contrasts: &[f64], bar: f64) -> f64 {
    let Some((first, rest)) = contrasts.split_first() else {
        return 1.0;
    };
    // The first never swaps: the other half are mirror images with the same sum but for the sign. From
    // one way to the next a single pair swaps, in the order of a Gray code.
    let mut signed = rest.to_vec();
    let mut sum: f64 = first + rest.iter().sum::<f64>();
    let ways = 1_u64 << rest.len();
    let mut reached = u64::from(sum.abs() >= bar);
    for way in 1..ways {
        let swapped = &mut signed[way.trailing_zeros() as usize];
        sum -= 2.0 * *swapped;
        *swapped = -*swapped;
        reached += u64::from(sum.abs() >= bar);
    }
    reached as f64 / ways as f64
}

/// The same from random ways. What was observed is one of them, so that p is never 0 and never too
/// small on average.
fn drawn(contrasts: &[f64], bar: f64, stream: &mut Stream) -> f64 {
    let mut reached = 1;
    for _ in 0..DRAWS {
        let mut sum = 0.0;
        for chunk in contrasts.chunks(64) {
            let mut coins = stream.bits();
            for contrast in chunk {
                sum += if coins & 1 == 0 { *contrast } else { -contrast };
                coins >>= 1;
            }
        }
        reached += u64::from(sum.abs() >= bar);
    }
    reached as f64 / (DRAWS + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(contrasts: &[f64]) -> f64 {
        p_value(contrasts, &mut Stream::named(&[1], &[]))
    }

    #[test]
    fn p_by_hand() {
        assert_eq!(p(&[]), 1.0);
        assert_eq!(p(&[5.0]), 1.0);
        assert_eq!(p(&[1.0, 1.0, 1.0]), 2.0 / 8.0);
        // Sums 1+2+-3 and their mirror images: 6, 0, 2, 4; as far as 0: all.
        assert_eq!(p(&[1.0, 2.0, -3.0]), 1.0);
        // 4 is observed; 4 and 6 are as far.
        assert_eq!(p(&[-1.0, 2.0, 3.0]), 0.5);
        assert_eq!(p(&[0.0; 8]), 1.0);
    }

    #[test]
    fn rounding_does_not_decide() {
        // 0.1 + 0.2 is not 0.3, yet these sums are equal by meaning.
        assert_eq!(p(&[0.1, 0.2, -0.3]), p(&[1.0, 2.0, -3.0]));
    }

    #[test]
    fn all_on_one_side_has_the_smallest_p() {
        for pairs in 1..=EXACT_PAIRS {
            let contrasts: Vec<f64> = (1..=pairs).map(|c| c as f64).collect();
            assert_eq!(p(&contrasts), smallest_p(pairs), "{pairs} pairs");
        }
        assert_eq!(p(&[1.0; 40]), smallest_p(40));
    }

    #[test]
    fn drawn_agrees_with_exact() {
        let contrasts: Vec<f64> = (0..16).map(|c| f64::from(c * 7 % 16) - 5.0).collect();
        let bar = contrasts.iter().sum::<f64>().abs() - 1e-9;
        let (exact, drawn) = (
            exact(&contrasts, bar),
            drawn(&contrasts, bar, &mut Stream::named(&[3], &[])),
        );
        // Five standard deviations of a share of 65535 draws.
        let margin = 5.0 * (exact * (1.0 - exact) / DRAWS as f64).sqrt();
        assert!((exact - drawn).abs() < margin, "{exact} {drawn}");
        assert!((0.05..0.5).contains(&exact), "{exact} tells something");
    }
}
