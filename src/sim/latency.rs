// SPDX-License-Identifier: GPL-2.0-only
//! How long woken tasks waited for a CPU: counts by duration, to a sixteenth of it.

/// Parts of each power of two.
const PARTS: u32 = 16;

/// See the module.
#[derive(Debug, Clone)]
pub struct Latencies {
    counts: Vec<u64>,
    all: u64,
}

/// The subscript of a duration: as it is up to 16, then a power of two and four more bits.
fn place(ns: u64) -> usize {
    match ns.checked_ilog2() {
        Some(power) if power >= 4 => {
            let part = (ns >> (power - 4)) as u32 - PARTS;
            ((power - 3) * PARTS + part) as usize
        }
        _ => ns as usize,
    }
}

/// The longest duration of a subscript.
fn longest(place: usize) -> u64 {
    let (power, part) = (place as u32 / PARTS, place as u32 % PARTS);
    match power {
        0 => place as u64,
        // Of the last place it is 2^64 less 1.
        _ => (u64::from(PARTS + part + 1) << (power - 1)).wrapping_sub(1),
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            counts: vec![0; place(u64::MAX) + 1],
            all: 0,
        }
    }
}

impl Latencies {
    pub fn add(&mut self, ns: u64) {
        self.counts[place(ns)] += 1;
        self.all += 1;
    }

    /// At least so many permille were not longer; `None`: there were none.
    pub fn quantile(&self, permille: u64) -> Option<u64> {
        let enough = (self.all * permille).div_ceil(1000).max(1);
        let mut before = 0;
        let place = self.counts.iter().position(|&count| {
            before += count;
            before >= enough
        });
        place.filter(|_| self.all > 0).map(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_is_all_that_is_lost() {
        for ns in (0..200).chain([4095, 4096, 1 << 40, u64::MAX - 1, u64::MAX]) {
            let most = longest(place(ns));
            assert!(most >= ns && most - ns <= ns / 16, "{ns}: {most}");
        }
    }

    #[test]
    fn quantiles_count_from_the_shortest() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(500), None);
        (0..100).for_each(|_| latencies.add(3));
        latencies.add(1_000_000);
        assert_eq!(latencies.quantile(500), Some(3));
        assert_eq!(latencies.quantile(990), Some(3));
        assert!(latencies.quantile(1000) >= Some(1_000_000));
    }
}
