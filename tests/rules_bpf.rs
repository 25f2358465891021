// SPDX-License-Identifier: GPL-2.0-only
//! The rules in BPF's header, compiled for the host, against their Rust twins.
//!
//! One policy, two languages: on any state both must choose the same node and the same LLC.

use proptest::prelude::*;
use scx_ballast::policy::placement;

unsafe extern "C" {
    fn ballast_rule_fork_node(
        committed: *const u32,
        weight: *const u32,
        allowed: u64,
        order: *const u8,
        nr: u32,
    ) -> i32;
    fn ballast_rule_fork_llc(
        committed: *const u32,
        weight: *const u32,
        allowed: u64,
        nr: u32,
        first: u32,
    ) -> i32;
    fn ballast_rule_spare(weight: u32, committed: u32) -> u32;
}

/// A count that is usually near the weight, where the rules change their mind, and rarely extreme.
fn count() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0..20u32, 5 => 0..2000u32, 1 => Just(u32::MAX), 1 => any::<u32>()]
}

/// Nodes as (committed, weight), a mask, and which node is local.
fn state() -> impl Strategy<Value = (Vec<(u32, u32)>, u64, usize, Vec<u8>)> {
    (1usize..=64).prop_flat_map(|n| {
        (
            prop::collection::vec((count(), count()), n),
            prop_oneof![3 => Just(u64::MAX), 2 => any::<u64>()],
            0..n,
            Just((0..n as u8).collect::<Vec<_>>()).prop_shuffle(),
        )
    })
}

fn columns(state: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
    state.iter().copied().unzip()
}

proptest! {
    // A million states of each in the default run of the next issue; the smaller number here
    // already covers every branch many times over.
    #![proptest_config(ProptestConfig { cases: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn both_choose_the_same_node((nodes, allowed, _local, order) in state()) {
        let (committed, weight) = columns(&nodes);
        let rust = placement::fork_node(&committed, &weight, allowed, &order);
        // SAFETY: all three arrays have order.len() elements, and order holds indices below that.
        let c = unsafe {
            ballast_rule_fork_node(
                committed.as_ptr(), weight.as_ptr(), allowed, order.as_ptr(), order.len() as u32,
            )
        };
        prop_assert_eq!(rust.map_or(-1, |n| n as i32), c);
    }

    #[test]
    fn both_choose_the_same_llc((llcs, allowed, first, _order) in state()) {
        let (committed, weight) = columns(&llcs);
        let rust = placement::fork_llc(&committed, &weight, allowed, first);
        // SAFETY: both arrays have llcs.len() elements, at most 64.
        let c = unsafe {
            ballast_rule_fork_llc(
                committed.as_ptr(), weight.as_ptr(), allowed, llcs.len() as u32, first as u32,
            )
        };
        prop_assert_eq!(rust.map_or(-1, |n| n as i32), c);
    }

    #[test]
    fn both_see_the_same_spare(weight in count(), committed in count()) {
        // SAFETY: plain numbers.
        let c = unsafe { ballast_rule_spare(weight, committed) };
        prop_assert_eq!(placement::spare(weight, committed), c);
    }
}
