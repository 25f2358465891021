// SPDX-License-Identifier: GPL-2.0-only
//! Fork placement against brute force: every place is compared with every other, in exact rational
//! arithmetic (by continued fractions, not by the cross-multiplication under test), and a placement
//! against the sentences of the rules.

use proptest::prelude::*;
use scx_ballast::policy::limits::spare;
use scx_ballast::policy::placement::{
    ForkChoice, ForkLimits, ForkState, ForkWhy, Judge, fork_llc, fork_node,
};
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
    let open = at < 64 && allowed & (1 << at) != 0 && weight[at] > 0;
    open.then(|| (u64::from(committed[at]) + 1, u64::from(weight[at])))
}

/// The first of the order than which no place has less by `key`.
fn first_least(order: &[u8], key: impl Fn(usize) -> Option<(u64, u64)>) -> Option<u8> {
    order.iter().copied().find(|&node| {
        let Some(own) = key(node.into()) else {
            return false;
        };
        let mut others = order.iter().filter_map(|&other| key(other.into()));
        let least = others.clone().all(|other| compare(own, other).is_le());
        let first = others.find(|&other| compare(own, other).is_eq());
        least && first.is_some()
    })
}

/// The excess of a over b, with signs and in one fraction.
fn excess(ca: i128, wa: i128, cb: i128, wb: i128) -> i128 {
    (2 * (ca * wb - cb * wa)).div_euclid(wa + wb).max(0)
}

/// "Fork" of the rule set ballast, sentence by sentence.
fn node_by_the_text(state: &ForkState<'_>, limits: &ForkLimits) -> Option<ForkChoice> {
    let loads = |at: usize| load(state.committed, state.weight, state.allowed, at);
    let choice = |node: u8, why| {
        Some(ForkChoice {
            node: node.into(),
            why,
        })
    };
    let least = first_least(state.order, loads)?;
    let local = *state.order.first()?;
    let here = loads(local.into());
    let open = || {
        state
            .order
            .iter()
            .map(|&n| usize::from(n))
            .filter(|&n| loads(n).is_some())
    };
    if open().all(|n| spare(state.weight[n], state.committed[n]) == 0) {
        let demand = |n: usize| loads(n).map(|(c, w)| (c * u64::from(state.task_weight[n]), w));
        let coolest = first_least(state.order, demand)?;
        let (d, w) = demand(coolest.into())?;
        // Not more than 12 % above the coolest.
        if demand(local.into())
            .is_some_and(|here| compare((here.0 * 100, here.1), (d * 112, w)).is_le())
        {
            return choice(local, ForkWhy::FullLocal);
        }
        return choice(coolest, ForkWhy::Full);
    }
    let Some((tasks, weight)) = here else {
        return choice(least, ForkWhy::Least);
    };
    let most = limits.max_running[usize::from(local)].min(state.usable);
    let stays = open().filter(|&n| n != usize::from(local)).all(|n| {
        let (c, w) = (i128::from(state.committed[n]), i128::from(state.weight[n]));
        let excess = excess(tasks.into(), weight.into(), c, w);
        excess <= 1 || (excess <= limits.max_imbalance.into() && tasks <= most.into())
    });
    match stays && least != local {
        true => choice(local, ForkWhy::Tolerated),
        false => choice(least, ForkWhy::Least),
    }
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

/// Counts and weights of up to 64 places: small ones (many ties), equal ones, large ones.
fn places() -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
    let count = prop_oneof![6 => 0u32..12, 2 => 0u32..600, 1 => 0u32..(1 << 24)];
    let weight = prop_oneof![1 => Just(0u32), 6 => 1u32..10, 2 => 1u32..600, 1 => 1u32..=4096];
    let few = prop_oneof![4 => 1usize..6, 1 => 1usize..=64];
    let unequal =
        few.prop_flat_map(move |n| prop::collection::vec((count.clone(), weight.clone()), n));
    let equal = (prop::collection::vec(0u32..20, 1..=64), 1u32..64)
        .prop_map(|(counts, w)| counts.into_iter().map(|c| (c, w)).collect::<Vec<_>>());
    prop_oneof![unequal, equal].prop_map(|places| places.into_iter().unzip())
}

fn masks() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(u64::MAX),
        1 => any::<u64>(),
        1 => (0u32..64).prop_map(|bit| 1 << bit),
        1 => Just(0)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fork_node_is_what_the_rules_say(
        ((c, w), order) in places().prop_flat_map(|places| {
            let nodes: Vec<u8> = (0..places.0.len() as u8).collect();
            (Just(places), Just(nodes).prop_shuffle())
        }),
        allowed in masks(),
        task_weight in prop_oneof![
            Just(vec![100; 64]),
            prop::collection::vec(1u32..=10_000, 64),
        ],
        max_running in prop::collection::vec(0u32..12, 64),
        max_imbalance in 0u32..4,
        usable in prop_oneof![Just(u32::MAX), 0u32..6],
    ) {
        let state = ForkState {
            committed: &c,
            weight: &w,
            task_weight: &task_weight,
            allowed,
            order: &order,
            usable,
        };
        let limits = ForkLimits {
            judge: Judge::After,
            max_imbalance,
            max_running,
            cap_by_affinity: true,
        };
        prop_assert_eq!(fork_node(&state, &limits), node_by_the_text(&state, &limits));
    }

    #[test]
    fn fork_llc_has_most_spare_or_is_least_loaded(
        (c, w) in places(),
        allowed in masks(),
        first in 0usize..70,
    ) {
        prop_assert_eq!(fork_llc(&c, &w, allowed, first), llc_by_brute_force(&c, &w, allowed, first));
    }
}

/// Limits of a machine whose nodes tolerate `max_running` tasks and an imbalance of 2.
fn limits(judge: Judge, max_running: &[u32]) -> ForkLimits {
    ForkLimits {
        judge,
        max_imbalance: 2,
        max_running: max_running.to_vec(),
        cap_by_affinity: true,
    }
}

/// A state of nodes on which every task may run, forked on the first of `order`.
fn state<'a>(committed: &'a [u32], weight: &'a [u32], order: &'a [u8]) -> ForkState<'a> {
    ForkState {
        committed,
        weight,
        task_weight: &[100; 64],
        allowed: u64::MAX,
        order,
        usable: u32::MAX,
    }
}

fn chosen(state: &ForkState<'_>, limits: &ForkLimits) -> (u32, ForkWhy) {
    let choice = fork_node(state, limits).unwrap();
    (choice.node, choice.why)
}

#[test]
fn a_pair_stays_together_while_lightly_loaded() {
    // 2x16: imb_numa_nr 2. The second task stays with the first, the third goes.
    let limits = limits(Judge::After, &[2, 2]);
    let at = |c: &[u32; 2]| chosen(&state(c, &[16, 16], &[0, 1]), &limits);
    assert_eq!(at(&[0, 0]), (0, ForkWhy::Least));
    assert_eq!(at(&[1, 0]), (0, ForkWhy::Tolerated));
    assert_eq!(at(&[2, 0]), (1, ForkWhy::Least));
    // 2 + 1 tasks here, 2 there: an excess of 1 is always tolerated.
    assert_eq!(at(&[2, 2]), (0, ForkWhy::Least));
    assert_eq!(at(&[3, 2]), (1, ForkWhy::Least));
}

#[test]
fn affinity_caps_the_count() {
    let limits = limits(Judge::After, &[4, 4]);
    let mut narrow = state(&[1, 0], &[8, 8], &[0, 1]);
    assert_eq!(chosen(&narrow, &limits), (0, ForkWhy::Tolerated));
    // It may use one CPU there: two tasks are not lightly loaded.
    narrow.usable = 1;
    assert_eq!(chosen(&narrow, &limits), (1, ForkWhy::Least));
}

#[test]
fn a_pair_in_the_middle_of_a_mesh_is_compared_with_all() {
    // Tolerated against node 1 (excess 1), not against node 2 (excess 3).
    let limits = limits(Judge::After, &[1, 1, 1]);
    let at = chosen(&state(&[3, 3, 1], &[8, 8, 8], &[0, 1, 2]), &limits);
    assert_eq!(at, (2, ForkWhy::Least));
}

#[test]
fn full_nodes_are_compared_by_what_their_tasks_weigh() {
    let limits = limits(Judge::After, &[1, 1]);
    let mut full = state(&[9, 8], &[8, 8], &[0, 1]);
    // 10 against 9 is 11 % more.
    assert_eq!(chosen(&full, &limits), (0, ForkWhy::FullLocal));
    full.committed = &[10, 8];
    assert_eq!(chosen(&full, &limits), (1, ForkWhy::Full));
    // Tasks of nice 19 (weight 1) are worth less than fewer of nice 0.
    full.committed = &[20, 8];
    full.task_weight = &[1, 100];
    assert_eq!(chosen(&full, &limits), (0, ForkWhy::FullLocal));
}

#[test]
fn the_generations_look_at_spare_before() {
    let at = |c: &[u32; 2], limits: &ForkLimits| chosen(&state(c, &[16, 16], &[0, 1]), limits);
    let v6_0 = limits(Judge::Before, &[2, 2]);
    assert_eq!(at(&[1, 0], &v6_0), (0, ForkWhy::Tolerated));
    assert_eq!(at(&[2, 0], &v6_0), (1, ForkWhy::Least));
    // Like the kernel: stays when nobody has more spare.
    assert_eq!(at(&[2, 2], &v6_0), (0, ForkWhy::Least));
    let none = ForkLimits {
        max_imbalance: u32::MAX,
        max_running: vec![0, 0],
        ..v6_0
    };
    assert_eq!(at(&[1, 0], &none), (1, ForkWhy::Least));
}

#[test]
fn sixty_four_nodes_and_not_one_more() {
    let order: Vec<u8> = (0..=64).collect();
    let w = [4u32; 65];
    let mut c = [3u32; 65];
    c[63] = 0;
    c[64] = 0;
    let limits = limits(Judge::After, &[0; 65]);
    let mut wide = state(&c, &w, &order);
    wide.task_weight = &[100; 65];
    assert_eq!(
        fork_node(&wide, &limits).map(|choice| choice.node),
        Some(63)
    );
    wide.allowed = 1 << 62;
    assert_eq!(
        fork_node(&wide, &limits).map(|choice| choice.node),
        Some(62)
    );
}

#[test]
fn nothing_to_choose_from() {
    let limits = limits(Judge::After, &[1, 1]);
    let mut none = state(&[0, 0], &[0, 0], &[0, 1]);
    assert_eq!(fork_node(&none, &limits), None);
    none.weight = &[8, 8];
    none.allowed = 0;
    assert_eq!(fork_node(&none, &limits), None);
    assert_eq!(fork_llc(&[0], &[0], u64::MAX, 0), None);
}
