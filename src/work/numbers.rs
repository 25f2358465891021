// SPDX-License-Identifier: GPL-2.0-only
//! Counts per node, and medians.

/// The rules' excess of node a over node b: max(0, 2 * (ca * wb - cb * wa) / (wa + wb)), integer
/// division; ca - cb on nodes of equal size, 0 when neither has CPUs.
///
/// `ca`, `cb`: tasks on the nodes; `wa`, `wb`: their CPUs.
pub fn excess(ca: u32, wa: u32, cb: u32, wb: u32) -> u64 {
    let more = u128::from(ca) * u128::from(wb);
    let less = u128::from(cb) * u128::from(wa);
    let weights = u128::from(wa) + u128::from(wb);
    let excess = (2 * more.saturating_sub(less)).checked_div(weights);
    excess.map_or(0, |excess| u64::try_from(excess).unwrap_or(u64::MAX))
}

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
    fn excess_is_the_difference_on_equal_nodes() {
        assert_eq!(excess(5, 8, 3, 8), 2);
        assert_eq!(excess(3, 8, 5, 8), 0);
        assert_eq!(excess(1, 8, 0, 8), 1);
    }

    #[test]
    fn excess_weighs_unequal_nodes() {
        // 3 tasks on 3 CPUs and 5 tasks on 5 are equally loaded.
        assert_eq!(excess(3, 3, 5, 5), 0);
        assert_eq!(excess(4, 3, 4, 5), 2);
        assert_eq!(excess(4, 5, 4, 3), 0);
    }

    #[test]
    fn excess_knows_nodes_without_cpus_and_large_numbers() {
        assert_eq!(excess(4, 8, 0, 0), 0);
        assert_eq!(excess(4, 0, 4, 0), 0);
        assert_eq!(excess(u32::MAX, 1, 0, 1), u64::from(u32::MAX));
        assert_eq!(excess(u32::MAX, 0, 0, u32::MAX), 2 * u64::from(u32::MAX));
    }

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
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
