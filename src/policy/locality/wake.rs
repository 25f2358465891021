// SPDX-License-Identifier: GPL-2.0-only
//! Whether a task that wakes up off its node may go there (R8).
//!
//! A task sleeps most of its life, and each wake-up is a chance to bring it home for nothing: no
//! running task is interrupted. The limits come first, as for a new task: the state with the task there
//! has to be tolerated against every other node that it may use. A full node takes nobody.
//!
//! Whether the node has an idle CPU is seen by the dispatcher, which asks about the nearest preferred
//! node first. src/bpf/rules.h is the same in C.

use crate::policy::limits::{spare, tolerated};
use crate::policy::placement::ForkLimits;

/// What is known of the nodes when a task wakes up.
#[derive(Debug, Clone, Copy)]
pub struct WakeState<'a> {
    /// c without the task: one that sleeps is counted nowhere, unless it is a newborn.
    pub committed: &'a [u32],
    /// w: online CPUs of each node.
    pub weight: &'a [u32],
    /// Bit n is set if the task may run on some CPU of node n.
    pub allowed: u64,
}

impl WakeState<'_> {
    /// c and w of a node that the task may use.
    fn node(&self, at: usize) -> Option<(u32, u32)> {
        let allowed = at < u64::BITS as usize && self.allowed >> at & 1 == 1;
        let known = self.committed.get(at).zip(self.weight.get(at));
        known.filter(|_| allowed).map(|(&c, &w)| (c, w))
    }
}

/// Would the state be tolerated with the task on node `to`? By the limits of fork placement, which SYNC
/// wake-ups across nodes follow too; the cap by affinity (R2) is for forks.
pub fn may_wake(state: &WakeState<'_>, limits: &ForkLimits, to: usize) -> bool {
    let Some((tasks, weight)) = state.node(to) else {
        return false;
    };
    let most = limits.max_running.get(to).copied().unwrap_or(0);
    spare(weight, tasks) > 0
        && (0..state.weight.len())
            .filter(|&other| other != to)
            .filter_map(|other| state.node(other))
            .filter(|&(_, w)| w > 0)
            .all(|(c, w)| tolerated(tasks + 1, weight, c, w, most, limits.max_imbalance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::placement::Judge;

    /// Two tasks of imbalance while a node has at most two.
    fn limits() -> ForkLimits {
        ForkLimits {
            judge: Judge::After,
            max_imbalance: 2,
            max_running: vec![2, 2, 2],
            cap_by_affinity: true,
        }
    }

    fn may(committed: &[u32], weight: &[u32], allowed: u64, to: usize) -> bool {
        let state = WakeState {
            committed,
            weight,
            allowed,
        };
        may_wake(&state, &limits(), to)
    }

    #[test]
    fn the_limit_is_asked_about_the_state_with_the_task() {
        assert!(may(&[1, 0], &[16, 16], 3, 0), "2 against 0, lightly loaded");
        assert!(!may(&[2, 0], &[16, 16], 3, 0), "3 against 0");
        assert!(
            !may(&[2, 1], &[16, 16], 3, 0),
            "3 against 1, no longer lightly"
        );
        assert!(
            may(&[2, 2], &[16, 16], 3, 0),
            "one more is always tolerated"
        );
    }

    #[test]
    fn every_allowed_node_counts_and_no_other() {
        assert!(!may(&[2, 2, 0], &[16, 16, 16], 7, 0));
        assert!(may(&[2, 2, 0], &[16, 16, 16], 3, 0));
        assert!(may(&[2, 2, 0], &[16, 16, 0], 7, 0), "a node without CPUs");
    }

    #[test]
    fn a_full_node_takes_nobody_and_neither_does_a_forbidden_one() {
        assert!(may(&[7, 8], &[8, 8], 3, 0));
        assert!(!may(&[8, 8], &[8, 8], 3, 0));
        assert!(!may(&[0, 0], &[8, 8], 2, 0));
        assert!(!may(&[0, 0], &[8, 8], 3, 2));
        assert!(!may(&[0, 0], &[8, 8], u64::MAX, 64));
    }
}
