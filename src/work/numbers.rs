// SPDX-License-Identifier: GPL-2.0-only
//! Counts per node, and medians.

use crate::policy::compile::NUMA_IMBALANCE_MIN;
use crate::policy::limits::{excess, tolerated};

/// The largest excess of one node over another; most tasks minus fewest on nodes of equal size.
///
/// `counts[n]`, `weights[n]`: tasks on node n, and its CPUs. A node without either changes nothing.
pub fn spread(counts: &[u32], weights: &[u32]) -> u64 {
    let nodes = || counts.iter().zip(weights);
    nodes()
        .flat_map(|(&ca, &wa)| nodes().map(move |(&cb, &wb)| excess(ca, wa, cb, wb)))
        .max()
        .unwrap_or(0)
}

/// Whether the rules tolerate the state: no node has an excess of more than 1 over another, or of more
/// than NUMA_IMBALANCE_MIN while it has at most `limits[n]` tasks.
pub fn is_tolerated(counts: &[u32], weights: &[u32], limits: &[u32]) -> bool {
    let nodes = || counts.iter().zip(weights);
    nodes().zip(limits).all(|((&ca, &wa), &limit)| {
        nodes().all(|(&cb, &wb)| tolerated(ca, wa, cb, wb, limit, NUMA_IMBALANCE_MIN))
    })
}

/// The middle value, or the mean of the two middle ones; `None` of nothing. `values` are finite.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[upper]),
        _ => Some((sorted[upper - 1] + sorted[upper]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_over_all_pairs() {
        assert_eq!(spread(&[4, 4], &[8, 8]), 0);
        assert_eq!(spread(&[3, 5], &[8, 8]), 2);
        assert_eq!(spread(&[2, 1, 2, 3], &[4, 4, 4, 4]), 2);
        assert_eq!(spread(&[8, 0], &[8, 0]), 0);
        assert_eq!(spread(&[8], &[8]), 0);
        assert_eq!(spread(&[], &[]), 0);
    }

    #[test]
    fn two_more_are_tolerated_up_to_the_limit() {
        assert!(is_tolerated(&[2, 0], &[16, 16], &[2, 2]));
        assert!(!is_tolerated(&[2, 0], &[8, 8], &[1, 1]));
        assert!(!is_tolerated(&[0, 3], &[16, 16], &[4, 4]));
        assert!(is_tolerated(&[9, 8, 8], &[16; 3], &[0; 3]));
    }

    #[test]
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
