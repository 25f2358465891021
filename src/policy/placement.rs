// SPDX-License-Identifier: GPL-2.0-only
//! Where a new task goes: "Fork" of the rule set `ballast`.
//!
//! Two choices, one after the other: [`fork_node`] among the nodes that the task may use, then
//! [`fork_llc`] among that node's LLCs. Both see *committed* tasks, those that run or wait plus the
//! newborns that are still asleep (R6 asleep-counts), so that a burst of helpers that sleep before
//! they exec does not pile up where the first one went. Neither keeps any state: the first placement
//! of a task depends on the counters and on nothing else (R5 fresh-start).
//!
//! A load is compared as the fraction (c + 1) / w that it would be *with* the new task. The + 1
//! matters where weights differ: of 3 tasks on 8 CPUs and 1 task on 3, c / w chooses the second,
//! which then is the fuller one. Fractions are compared by cross-multiplication in 64 bits, where
//! no count or weight of 32 bits can overflow.
//!
//! Arrays are subscripted by dense index, and a bit of `allowed` stands for the same index; places
//! beyond the 64th or beyond the end of an array are never chosen.

use std::cmp::Ordering;

/// Places for which a mask has a bit.
const MASK_BITS: usize = u64::BITS as usize;

/// The rules' spare: CPUs that `committed` tasks leave free of `weight`, at least 0.
pub const fn spare(weight: u32, committed: u32) -> u32 {
    weight.saturating_sub(committed)
}

/// The node for a new task: of the `allowed` ones that with the smallest (c + 1) / w.
///
/// - `committed[n]`: c, tasks counted to node n, sleeping newborns among them.
/// - `weight[n]`: w, online CPUs of node n; a node of weight 0 is never chosen.
/// - `allowed`: bit n is set if the task may run on some CPU of node n.
/// - `order`: the nodes to look at, the parent's first, then nearest first
///   ([`Machine::nearest_first`](crate::machine::Machine::nearest_first)). On a tie the earlier one
///   wins: local first, then the nearest. A node that is not in it is not chosen.
///
/// `None` if no node can be chosen.
pub fn fork_node(committed: &[u32], weight: &[u32], allowed: u64, order: &[u8]) -> Option<u32> {
    let mut best: Option<(u32, Load)> = None;
    for &node in order {
        let Some(load) = load_with_one_more(committed, weight, allowed, node.into()) else {
            continue;
        };
        if best.is_none_or(|(_, least)| load.is_below(least)) {
            best = Some((node.into(), load));
        }
    }
    best.map(|(node, _)| node)
}

/// The LLC for a new task inside the node that was chosen for it: that with most spare; when none
/// has spare, that with the smallest (c + 1) / w.
///
/// Subscripts, bits and the result are relative to the node's first LLC.
///
/// - `committed[l]`: c, tasks counted to LLC l, sleeping newborns among them.
/// - `weight[l]`: w, online CPUs of LLC l; an LLC of weight 0 is never chosen.
/// - `allowed`: bit l is set if the task may run on some CPU of LLC l.
/// - `first`: the LLC that wins a tie (the parent's, when the node is the parent's); among others
///   the lowest wins. Any value that is no LLC of the node means none is preferred.
///
/// `None` if no LLC can be chosen.
pub fn fork_llc(committed: &[u32], weight: &[u32], allowed: u64, first: usize) -> Option<u32> {
    let llcs = weight.len().min(MASK_BITS);
    let preferred = Some(first).filter(|&first| first < llcs);
    let mut best: Option<(usize, Load)> = None;
    for llc in preferred.into_iter().chain(0..llcs) {
        let Some(load) = load_with_one_more(committed, weight, allowed, llc) else {
            continue;
        };
        if best.is_none_or(|(_, least)| load.is_roomier(least)) {
            best = Some((llc, load));
        }
    }
    best.map(|(llc, _)| llc as u32)
}

/// What a place would carry with the new task: `tasks` on `weight` CPUs, `weight` not 0.
#[derive(Debug, Clone, Copy)]
struct Load {
    tasks: u64,
    weight: u64,
}

impl Load {
    /// tasks / weight is smaller than the other's.
    fn is_below(self, other: Load) -> bool {
        self.tasks * other.weight < other.tasks * self.weight
    }

    /// CPUs that are free before the new task is placed.
    fn spare(self) -> u64 {
        (self.weight + 1).saturating_sub(self.tasks)
    }

    /// More spare than the other, or, both having none, a smaller fraction.
    fn is_roomier(self, other: Load) -> bool {
        match self.spare().cmp(&other.spare()) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => self.spare() == 0 && self.is_below(other),
        }
    }
}

/// `None` if the place does not exist, is not allowed or has no CPU.
fn load_with_one_more(committed: &[u32], weight: &[u32], allowed: u64, at: usize) -> Option<Load> {
    if at >= MASK_BITS || allowed >> at & 1 == 0 {
        return None;
    }
    let weight = u64::from(*weight.get(at)?);
    let tasks = u64::from(*committed.get(at)?) + 1;
    (weight > 0).then_some(Load { tasks, weight })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    #[test]
    fn an_idle_machine_keeps_the_task_local() {
        assert_eq!(fork_node(&[0, 0], &[8, 8], ALL, &[1, 0]), Some(1));
    }

    #[test]
    fn the_next_task_goes_where_there_are_fewer() {
        assert_eq!(fork_node(&[1, 0], &[8, 8], ALL, &[0, 1]), Some(1));
        assert_eq!(fork_node(&[1, 1], &[8, 8], ALL, &[0, 1]), Some(0));
    }

    #[test]
    fn a_tie_of_others_goes_to_the_nearest() {
        assert_eq!(
            fork_node(&[5, 1, 1, 1], &[4; 4], ALL, &[0, 2, 3, 1]),
            Some(2)
        );
    }

    #[test]
    fn unequal_nodes_are_compared_with_the_task_in_place() {
        // 3/8 > 1/3, but 4/8 < 2/3.
        assert_eq!(fork_node(&[3, 1], &[8, 3], ALL, &[1, 0]), Some(0));
        // 2/5 and 1/3 before, 3/5 and 2/3 after.
        assert_eq!(fork_node(&[1, 2], &[3, 5], ALL, &[0, 1]), Some(1));
    }

    #[test]
    fn only_allowed_nodes_with_cpus_in_the_order_are_chosen() {
        assert_eq!(fork_node(&[9, 0], &[8, 8], 0b01, &[0, 1]), Some(0));
        assert_eq!(fork_node(&[9, 0], &[8, 0], ALL, &[0, 1]), Some(0));
        assert_eq!(fork_node(&[9, 0], &[8, 8], ALL, &[0]), Some(0));
        assert_eq!(fork_node(&[0, 0], &[8, 8], 0, &[0, 1]), None);
        assert_eq!(fork_node(&[0, 0], &[0, 0], ALL, &[0, 1]), None);
        assert_eq!(fork_node(&[], &[], ALL, &[0, 1, 200]), None);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let most = u32::MAX;
        assert_eq!(
            fork_node(&[most, most], &[most, most - 1], ALL, &[1, 0]),
            Some(0)
        );
        assert_eq!(fork_llc(&[most, most], &[most - 1, most], ALL, 0), Some(1));
    }

    #[test]
    fn most_spare_wins_among_llcs() {
        // By (c + 1) / w the first would win: 1/3 < 12/16; by spare the second, 5 against 3.
        assert_eq!(fork_llc(&[0, 11], &[3, 16], ALL, 0), Some(1));
    }

    #[test]
    fn full_llcs_are_compared_with_the_task_in_place() {
        assert_eq!(fork_llc(&[4, 8, 4], &[4, 8, 3], ALL, 2), Some(1));
        assert_eq!(fork_llc(&[6, 9], &[4, 8], ALL, 0), Some(1));
    }

    #[test]
    fn the_preferred_llc_wins_ties_and_nothing_else() {
        assert_eq!(fork_llc(&[1, 1, 1], &[4; 3], ALL, 2), Some(2));
        assert_eq!(fork_llc(&[1, 1, 2], &[4; 3], ALL, 2), Some(0));
        assert_eq!(fork_llc(&[1, 1, 1], &[4; 3], 0b011, 2), Some(0));
        assert_eq!(fork_llc(&[1, 1, 1], &[4; 3], ALL, usize::MAX), Some(0));
        assert_eq!(fork_llc(&[0], &[0], ALL, 0), None);
    }

    #[test]
    fn spare_is_never_negative() {
        assert_eq!(spare(8, 3), 5);
        assert_eq!(spare(8, 9), 0);
    }
}
