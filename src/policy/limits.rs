// SPDX-License-Identifier: GPL-2.0-only
//! How much imbalance between two nodes is left alone.
//!
//! Two quantities and one comparison, used alike at fork and at run time (R3 one-limit):
//!
//! - [`excess`]: by how many tasks node a is fuller than node b, weighted by their CPUs;
//! - a limit, the pair (max_running, max_imbalance): an excess up to max_imbalance (R1) is left alone
//!   while a runs at most max_running tasks (R2);
//! - [`tolerated`]: the two together. An excess of 1 cannot be improved by moving a task, so it is
//!   always tolerated.
//!
//! Where nobody has a CPU to spare, counts no longer say who suffers, and nodes are compared by
//! weighted utilisation instead ([`Utilisation`]).
//!
//! Integers only. Counts may be any `u32`; no function here overflows.

/// How much busier, in percent, a node without spare may be before it is *clearly* busier. The
/// kernel's `imbalance_pct` is of the same size.
pub const CLEARLY_PERCENT: u64 = 12;

/// Weight of a task of nice 0, as sched_ext counts.
pub const NICE_0_WEIGHT: u32 = 100;

/// No limit on an imbalance, or on a count.
pub const UNLIMITED: u32 = u32::MAX;

/// The rules' spare: CPUs that `committed` tasks leave free of `weight`, at least 0.
pub const fn spare(weight: u32, committed: u32) -> u32 {
    weight.saturating_sub(committed)
}

/// The excess of node a over node b, in tasks: max(0, 2 (ca wb - cb wa) / (wa + wb)), rounded down.
/// It is ca - cb on nodes of equal size, and 0 when neither has CPUs.
///
/// `ca`, `cb`: tasks on the nodes; `wa`, `wb`: their CPUs.
pub const fn excess(ca: u32, wa: u32, cb: u32, wb: u32) -> u64 {
    let more = ca as u64 * wb as u64;
    let less = cb as u64 * wa as u64;
    let weights = wa as u64 + wb as u64;
    if more <= less || weights == 0 {
        return 0;
    }
    // 2 * difference / weights, without doubling the difference, which may need all 64 bits.
    let difference = more - less;
    difference / weights * 2 + difference % weights * 2 / weights
}

/// Is the state left alone, with node a as the fuller one of the pair?
///
/// `max_running`: R2's limit for node a; `max_imbalance`: R1's.
pub const fn tolerated(
    ca: u32,
    wa: u32,
    cb: u32,
    wb: u32,
    max_running: u32,
    max_imbalance: u32,
) -> bool {
    let excess = excess(ca, wa, cb, wb);
    excess <= 1 || (excess <= max_imbalance as u64 && ca <= max_running)
}

/// What the tasks of a node ask for: their number times their average weight, on so many CPUs.
///
/// Exact for any numbers. BPF has 64 bits for the same comparisons, which is enough for fewer than
/// 2^24 tasks (there can be 2^22), average weights up to 10 000 (sched_ext has no larger ones) and
/// 4096 CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utilisation {
    demand: u128,
    cpus: u128,
}

impl Utilisation {
    /// `tasks` of the average weight `task_weight` (100 is nice 0) on `cpus`, which is not 0. The product
    /// of the first two is below 2^64.
    pub const fn of(tasks: u64, task_weight: u32, cpus: u32) -> Self {
        Self {
            demand: tasks as u128 * task_weight as u128,
            cpus: cpus as u128,
        }
    }

    /// Less utilised than the other.
    pub const fn is_below(self, other: Self) -> bool {
        self.demand * other.cpus < other.demand * self.cpus
    }

    /// More than [`CLEARLY_PERCENT`] above the other.
    pub const fn is_clearly_above(self, other: Self) -> bool {
        self.demand * other.cpus * 100 > other.demand * self.cpus * (100 + CLEARLY_PERCENT as u128)
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
        // 2 * (4 * 5 - 4 * 3) / 8 = 2; the other way round there is none.
        assert_eq!(excess(4, 3, 4, 5), 2);
        assert_eq!(excess(4, 5, 4, 3), 0);
        // 2 * (3 * 8 - 7 * 2) / 10 = 2: a full node of 2 against one of 8 with one CPU to spare.
        assert_eq!(excess(3, 2, 7, 8), 2);
    }

    #[test]
    fn excess_knows_nodes_without_cpus_and_large_numbers() {
        assert_eq!(excess(4, 8, 0, 0), 0);
        assert_eq!(excess(4, 0, 4, 0), 0);
        assert_eq!(excess(u32::MAX, 1, 0, 1), u64::from(u32::MAX));
        assert_eq!(excess(u32::MAX, 0, 0, u32::MAX), 2 * u64::from(u32::MAX));
    }

    #[test]
    fn one_task_more_is_always_tolerated() {
        assert!(tolerated(1, 8, 0, 8, 0, 0));
        assert!(tolerated(9, 8, 8, 8, 0, 0));
        assert!(!tolerated(2, 8, 0, 8, 0, 0));
    }

    #[test]
    fn two_more_only_while_lightly_loaded() {
        // 2x16: imb_numa_nr 2. A pair on one node stays; three do not, nor do two against one more.
        assert!(tolerated(2, 16, 0, 16, 2, 2));
        assert!(!tolerated(3, 16, 0, 16, 2, 2));
        assert!(!tolerated(3, 16, 1, 16, 2, 2));
        // 2x8llc4: imb_numa_nr 4.
        assert!(tolerated(4, 8, 2, 8, 4, 2));
        assert!(!tolerated(5, 8, 3, 8, 4, 2));
    }

    #[test]
    fn clearly_busier_is_more_than_twelve_percent() {
        let of = |tasks| Utilisation::of(tasks, NICE_0_WEIGHT, 100);
        assert!(!of(112).is_clearly_above(of(100)));
        assert!(of(113).is_clearly_above(of(100)));
        assert!(of(99).is_below(of(100)));
    }

    #[test]
    fn weights_count_in_utilisation() {
        // One task of nice -5 (weight 305) asks for more than three of nice 0.
        let heavy = Utilisation::of(1, 305, 8);
        let light = Utilisation::of(3, 100, 8);
        assert!(light.is_below(heavy));
        // The largest numbers.
        let most = Utilisation::of(u64::from(u32::MAX) + 1, u32::MAX, u32::MAX);
        assert!(!most.is_below(most) && !most.is_clearly_above(most));
    }
}
