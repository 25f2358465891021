// SPDX-License-Identifier: GPL-2.0-only
//! Random numbers that are the same on every machine and with every version of a crate.
//!
//! Each interval and each test has a stream of its own, named by what it is for: a further arm or
//! benchmark changes no other number.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A stream of random numbers.
pub struct Stream(Pcg64);

impl Stream {
    /// The stream that `names` name under the seeds of the plans.
    pub fn named(seeds: &[u64], names: &[&str]) -> Self {
        let mut hash = Fnv::default();
        for seed in seeds {
            hash.add(&seed.to_le_bytes());
        }
        for name in names {
            hash.add(&(name.len() as u64).to_le_bytes());
            hash.add(name.as_bytes());
        }
        Stream(Pcg64::seed_from_u64(hash.0))
    }

    /// One of `0..count`, all as likely up to 2^-32. `count` is at least 1 and fits into 32 bits.
    pub fn below(&mut self, count: usize) -> usize {
        ((u64::from(self.0.next_u32()) * count as u64) >> 32) as usize
    }

    /// 64 coins.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// FNV-1a with 64 bits; the standard library's hash may change with its version.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_names_alone() {
        let draws = |seed, names: &[&str]| {
            let mut stream = Stream::named(&[seed], names);
            (0..4).map(|_| stream.below(1000)).collect::<Vec<_>>()
        };
        // Pinned: a change of these numbers changes every published interval.
        assert_eq!(draws(1, &["a", "b"]), PINNED);
        assert_ne!(draws(2, &["a", "b"]), PINNED);
        assert_ne!(draws(1, &["ab", ""]), PINNED);
    }

    const PINNED: [usize; 4] = [562, 880, 83, 327];

    #[test]
    fn all_below_the_bound_are_as_likely() {
        let mut stream = Stream::named(&[7], &[]);
        let mut counts = [0; 12];
        for _ in 0..12_000 {
            counts[stream.below(12)] += 1;
        }
        // 1000 +- 5 standard deviations of 30.
        assert!(counts.iter().all(|count| (850..1150).contains(count)));
    }
}
