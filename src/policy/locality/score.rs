// SPDX-License-Identifier: GPL-2.0-only
//! Evidence becomes a score per node with CPUs, from 0 to 1000.
//!
//! A node's score is the part of the memory that is near to it: every page counts with its nearness
//! ([`places`](super::places)), 1000 for the node's own. It is what the kernel's `task_weight` and
//! `group_weight` are, one division at the end and no page counted twice.
//!
//! Whose memory counts how:
//!
//! - Of a task or a process alone, shared pages count half: others use them too and may move them.
//! - Of a group of processes, shared pages count whole, since the group is who shares them. Every
//!   member's sample has seen the same ones, so of each node the member that saw most counts, not the sum.
//! - What memory could be brought nearer, and what the statistics call local, is another question: there only a
//!   node's own memory counts ([`local`]).
//! - First touch makes a score of its own. It is only for ordering.

use super::evidence::Evidence;
use super::places::{NEAREST, Places};
use crate::machine::limits::MAX_NODES;

/// Fill in by node what part of the memory is near; `pages` says how much each node holds. `false` if
/// there is no memory at all.
fn fill(places: &Places, pages: impl Fn(usize) -> u64, scores: &mut [u16]) -> bool {
    let pages = |at: usize| u128::from(pages(at));
    let total: u128 = (0..places.nodes()).map(pages).sum();
    for (node, score) in scores.iter_mut().enumerate() {
        let nearness = places.nearness_from(node).iter().enumerate();
        let near: u128 = nearness
            .map(|(at, &near)| pages(at) * u128::from(near))
            .sum();
        *score = near.checked_div(total).unwrap_or(0) as u16;
    }
    total > 0
}

/// Of a task or a process by itself. `false` if nothing is known of it.
pub fn alone(places: &Places, evidence: &Evidence, scores: &mut [u16]) -> bool {
    let pages = |at: usize| {
        let held = evidence.held().get(at).copied().unwrap_or_default();
        2 * held.private + held.shared
    };
    fill(places, pages, scores)
}

/// By node what part of a process's memory is local there: as near as can be. `false` if nothing is known of it.
pub fn local(places: &Places, evidence: &Evidence, shares: &mut [u16]) -> bool {
    for (node, share) in shares.iter_mut().enumerate() {
        *share = local_at(places, evidence, node).unwrap_or(0);
    }
    places.nodes() > 0 && local_at(places, evidence, 0).is_some()
}

/// The same of one node; `None` if nothing is known.
pub fn local_at(places: &Places, evidence: &Evidence, node: usize) -> Option<u16> {
    let near = places.nearness_from(node);
    let (mut local, mut total) = (0_u128, 0_u128);
    for (at, held) in evidence.held().iter().enumerate() {
        let pages = u128::from(2 * held.private + held.shared);
        total += pages;
        if near.get(at) == Some(&NEAREST) {
            local += pages;
        }
    }
    (local * u128::from(NEAREST))
        .checked_div(total)
        .map(|share| share as u16)
}

/// Of a group of processes. `false` if nothing is known of any.
pub fn together<'a>(
    places: &Places,
    members: impl Iterator<Item = &'a Evidence>,
    scores: &mut [u16],
) -> bool {
    let (mut private, mut shared) = ([0_u64; MAX_NODES], [0_u64; MAX_NODES]);
    for member in members {
        let sums = private.iter_mut().zip(&mut shared);
        for (held, (private, shared)) in member.held().iter().zip(sums) {
            *private = private.saturating_add(held.private);
            *shared = held.shared.max(*shared);
        }
    }
    let pages = |at: usize| private[at].saturating_add(shared[at]);
    fill(places, pages, scores)
}

/// By first touch alone. `false` if there is none, or it was voided.
pub fn first_touch(places: &Places, evidence: &Evidence, scores: &mut [u16]) -> bool {
    let touched = evidence.touched();
    fill(places, |at| touched.get(at).copied().unwrap_or(0), scores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::locality::evidence::{FirstTouch, NodePages, Sample};

    fn evidence(pages: &[(u32, u32)]) -> Evidence {
        let mut evidence = Evidence::new(pages.len());
        let on = |&(private, shared): &(u32, u32)| NodePages { private, shared };
        evidence.add_sample(&Sample {
            at_ms: 0,
            asked: 1000,
            pages: pages.iter().map(on).collect(),
        });
        evidence
    }

    fn line(nodes: usize) -> Places {
        Places::by_distance(nodes, nodes, |a, b| 10 + 10 * a.abs_diff(b) as u32)
    }

    #[test]
    fn memory_next_door_is_near_and_not_local() {
        let (mut near, mut local_part) = ([0; 3], [0; 3]);
        let seen = evidence(&[(10, 0), (80, 20), (0, 0)]);
        assert!(alone(&line(3), &seen, &mut near));
        assert!(local(&line(3), &seen, &mut local_part));
        // 20 of 200 and half of 180; all is next door to the third.
        assert_eq!(near, [550, 950, 450]);
        assert_eq!(local_part, [100, 900, 0]);
        assert!(!local(&line(3), &Evidence::new(3), &mut local_part));
    }

    #[test]
    fn the_share_of_the_pages_where_all_are_equally_far() {
        let places = Places::by_distance(3, 3, |a, b| if a == b { 10 } else { 20 });
        let mut scores = [0; 3];
        assert!(alone(
            &places,
            &evidence(&[(50, 0), (30, 0), (20, 0)]),
            &mut scores
        ));
        assert_eq!(scores, [500, 300, 200]);
        assert!(!alone(&places, &Evidence::new(3), &mut scores));
        assert_eq!(scores, [0; 3]);
    }

    #[test]
    fn memory_next_door_counts_in_part() {
        // Half of the pages at either end of a line. Next door is half as near as at home, so the
        // middle gets 500 of 1000 from each side's half: 250 + 250, as much as the ends' own half.
        let mut scores = [0; 3];
        alone(
            &line(3),
            &evidence(&[(50, 0), (0, 0), (50, 0)]),
            &mut scores,
        );
        assert_eq!(scores, [500, 500, 500]);
        // A fifth in the middle: it has 200 + (400 + 400) / 2, the ends 400 + 200 / 2.
        alone(
            &line(3),
            &evidence(&[(40, 0), (20, 0), (40, 0)]),
            &mut scores,
        );
        assert_eq!(scores, [500, 600, 500]);
    }

    #[test]
    fn shared_memory_counts_half_alone_and_whole_together() {
        let places = line(2);
        let (a, b) = (evidence(&[(60, 0), (0, 80)]), evidence(&[(10, 0), (0, 90)]));
        let mut scores = [0; 2];
        // 60 : 80 / 2.
        alone(&places, &a, &mut scores);
        assert_eq!(scores, [600, 400]);
        // 60 + 10 : max(80, 90).
        together(&places, [&a, &b].into_iter(), &mut scores);
        assert_eq!(scores, [437, 562]);
    }

    #[test]
    fn first_touch_has_a_score_of_its_own() {
        let mut touched = evidence(&[(10, 0), (0, 0)]);
        let mut scores = [0; 2];
        assert!(!first_touch(&line(2), &touched, &mut scores));
        touched.add_first_touch(&FirstTouch {
            at_ms: 0,
            faults: vec![25, 75],
        });
        assert!(first_touch(&line(2), &touched, &mut scores));
        assert_eq!(scores, [250, 750]);
    }
}
