// SPDX-License-Identifier: GPL-2.0-only
//! Fork placement against brute force: every place is compared with every other in exact rational
//! arithmetic (by continued fractions, not by the cross-multiplication under test).

use proptest::prelude::*;
use scx_ballast::policy::placement::{fork_llc, fork_node, spare};
use std::cmp::Ordering;

/// a.0 / a.1 against b.0 / b.1, denominators not 0.
fn compare(a: (u64, u64), b: (u64, u64)) -> Ordering {
    let whole = (a.0 / a.1).cmp(&(b.0 / b.1));
    whole.then_with(|| match (a.0 % a.1, b.0 % b.1) {
        (0, 0) => Ordering::Equal,
        (0, _) => Ordering::Less,
        (_, 0) => Ordering::Greater,
        // x < y exactly if 1 / y < 1 / x.
        (x, y) => compare((b.1, y), (a.1, x)),
    })
}

/// The load of place `at` with one more task, if a task may go there.
fn load(committed: &[u32], weight: &[u32], allowed: u64, at: usize) -> Option<(u64, u64)> {
    let open = allowed & (1 << at) != 0 && weight[at] > 0;
    open.then(|| (u64::from(committed[at]) + 1, u64::from(weight[at])))
}

fn node_by_brute_force(c: &[u32], w: &[u32], allowed: u64, order: &[u8]) -> Option<u32> {
    let loads = |at: u8| load(c, w, allowed, at.into());
    let winner = order.iter().enumerate().find(|&(place, &node)| {
        let Some(own) = loads(node) else { return false };
        order.iter().enumerate().all(|(other_place, &other)| {
            loads(other).is_none_or(|others| match compare(own, others) {
                Ordering::Less => true,
                Ordering::Equal => place <= other_place,
                Ordering::Greater => false,
            })
        })
    });
    winner.map(|(_, &node)| node.into())
}

fn llc_by_brute_force(c: &[u32], w: &[u32], allowed: u64, first: usize) -> Option<u32> {
    let open: Vec<usize> = (0..w.len())
        .filter(|&at| load(c, w, allowed, at).is_some())
        .collect();
    let most_spare = open.iter().map(|&at| spare(w[at], c[at])).max()?;
    let is_best = |at: usize| match most_spare {
        0 => open.iter().all(|&other| {
            let loads = |at| load(c, w, allowed, at).unwrap();
            compare(loads(at), loads(other)) != Ordering::Greater
        }),
        most => spare(w[at], c[at]) == most,
    };
    let best: Vec<usize> = open.iter().copied().filter(|&at| is_best(at)).collect();
    let winner = best.iter().find(|&&at| at == first).or(best.first());
    winner.map(|&at| at as u32)
}

/// Counts and weights of up to 64 places: small ones (many ties), equal ones, huge ones.
fn places() -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
    let count = prop_oneof![6 => 0u32..12, 2 => 0u32..600, 1 => any::<u32>()];
    let weight = prop_oneof![1 => Just(0u32), 6 => 1u32..10, 2 => 1u32..600, 1 => any::<u32>()];
    let unequal = prop::collection::vec((count.clone(), weight), 1..=64);
    let equal = (prop::collection::vec(count, 1..=64), 1u32..64)
        .prop_map(|(counts, w)| counts.into_iter().map(|c| (c, w)).collect::<Vec<_>>());
    prop_oneof![unequal, equal].prop_map(|places| places.into_iter().unzip())
}

fn masks() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(u64::MAX),
        any::<u64>(),
        (0u32..64).prop_map(|bit| 1 << bit),
        Just(0)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn fork_node_is_the_first_least_loaded_of_the_order(
        ((c, w), order) in places().prop_flat_map(|places| {
            let nodes: Vec<u8> = (0..places.0.len() as u8).collect();
            (Just(places), Just(nodes).prop_shuffle())
        }),
        allowed in masks(),
        keep in 0usize..=64,
    ) {
        let order = &order[..keep.min(order.len())];
        prop_assert_eq!(fork_node(&c, &w, allowed, order), node_by_brute_force(&c, &w, allowed, order));
    }

    #[test]
    fn fork_llc_has_most_spare_or_is_least_loaded(
        (c, w) in places(),
        allowed in masks(),
        first in 0usize..70,
    ) {
        prop_assert_eq!(fork_llc(&c, &w, allowed, first), llc_by_brute_force(&c, &w, allowed, first));
    }

    /// A burst on an idle machine ends balanced: no node could give a task to another and both be
    /// nearer to the mean, whatever their sizes and whoever forks.
    #[test]
    fn a_burst_spreads_by_weight(
        w in prop::collection::vec(1u32..32, 2..=16),
        tasks in 1usize..200,
        parent in 0usize..16,
    ) {
        let mut order: Vec<u8> = (0..w.len() as u8).collect();
        order.rotate_left(parent % w.len());
        let mut c = vec![0u32; w.len()];
        for _ in 0..tasks {
            let node = fork_node(&c, &w, u64::MAX, &order).unwrap() as usize;
            c[node] += 1;
        }
        for a in 0..w.len() {
            for b in 0..w.len() {
                // What the fullest node holds was, when its last task came, no worse than anywhere else.
                prop_assert!(u64::from(c[a]) * u64::from(w[b]) <= (u64::from(c[b]) + 1) * u64::from(w[a]));
            }
        }
    }
}

#[test]
fn sixty_four_nodes_and_not_one_more() {
    let order: Vec<u8> = (0..=64).collect();
    let w = [4u32; 65];
    let mut c = [1u32; 65];
    c[63] = 0;
    c[64] = 0;
    assert_eq!(fork_node(&c, &w, u64::MAX, &order), Some(63));
    assert_eq!(fork_node(&c, &w, 1 << 63, &order), Some(63));
    assert_eq!(fork_node(&c, &w, 1 << 62, &order), Some(62));
    assert_eq!(fork_llc(&c, &w, u64::MAX, 64), Some(63));
    assert_eq!(fork_llc(&c[..64], &[4; 64], 1 << 63, 0), Some(63));
}
