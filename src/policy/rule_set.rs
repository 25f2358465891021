// SPDX-License-Identifier: GPL-2.0-only
//! The rule sets as data: `ballast`, and node-level models of what kernel generations did.
//!
//! For each of fork, run time and moves to a preferred node a set says what it compares with which
//! number; [`Limits`](super::compile::Limits) are those numbers on a machine. Nothing else in the
//! crate knows a rule set.
//!
//! The generations are simplified, to be compared with each other and with `ballast`:
//!
//! - The kernel compares groups, which on wider levels are several nodes; here each node is a group.
//! - It counts `sum_nr_running` and idle CPUs of the fair class; here both are counts of committed
//!   tasks, so that all sets see the same state. R6 to R10 hold under every set.
//! - At run time it compares idle CPUs or task counts, by kind of domain; here it is [`excess`]. The
//!   two agree on nodes of equal size that have spare.
//! - Its load-based comparisons where nobody has spare are those of `ballast` (weighted utilisation).
//! - Where memory lies (`numa_preferred_nid`) overrides the kernel's fork placement; here it does not.
//! - `none` is v5.5, the last without tolerance. Its moves to a preferred node compare loads, which
//!   is taken as a difference of at most 1.
//!
//! Sources: documents 000 and 002, and `adjust_numa_imbalance()`, `allow_numa_imbalance()`,
//! `find_idlest_group()` (6.x: `sched_balance_find_dst_group()`), `calculate_imbalance()` and
//! `task_numa_find_cpu()` in kernel/sched/fair.c of those releases.
//!
//! [`excess`]: super::limits::excess

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::placement::Judge;

/// A rule set by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleSet {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "v5.6")]
    V5_6,
    #[serde(rename = "v5.11")]
    V5_11,
    #[serde(rename = "v5.18")]
    V5_18,
    #[serde(rename = "v6.0")]
    V6_0,
    #[serde(rename = "ballast")]
    Ballast,
}

/// A number of tasks on a node, before the machine is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// 0: the comparison never holds.
    Never,
    /// NUMA_IMBALANCE_MIN, as a count.
    ImbalanceMin,
    /// All CPUs of the node.
    Cpus,
    /// A quarter of the node's CPUs.
    QuarterOfNode,
    /// A quarter of the CPUs of all nodes.
    QuarterOfMachine,
    /// imb_numa_nr as v5.18 had it: a quarter of the node's CPUs if it is one LLC, else its LLCs.
    ImbNumaNrQuarter,
    /// imb_numa_nr as v6.0 and later have it (R2).
    ImbNumaNr,
}

/// A size of an imbalance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Imbalance {
    /// NUMA_IMBALANCE_MIN (R1).
    Min,
    /// Only what no move could improve: 1.
    One,
    /// Not looked at.
    Any,
}

/// Whose count is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    Busier,
    Lighter,
}

/// A new task stays on its parent's node while ...
#[derive(Debug, Clone, Copy)]
pub(super) struct ForkRule {
    pub judge: Judge,
    /// ... the imbalance is at most this, and ...
    pub imbalance: Imbalance,
    /// ... the node has, with the task, at most so many.
    pub count: Count,
    /// Capped at the CPUs of the node that the task may use.
    pub cap_by_affinity: bool,
}

/// Two nodes are left alone while ...
#[derive(Debug, Clone, Copy)]
pub(super) struct PairRule {
    /// ... the excess, halved first or whole, is at most this, and ...
    pub imbalance: Imbalance,
    pub halved: bool,
    /// ... this side, with one more task or as it is, has at most so many.
    pub side: Side,
    pub one_more: bool,
    pub count: Count,
}

/// Everything that tells one set from another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub fork: ForkRule,
    /// Judged before a move.
    pub run_time: PairRule,
    /// Judged by the state after the move, the destination being the busier side.
    pub preferred: PairRule,
    /// R4: no swaps inside a group while the destination has spare.
    pub no_spare_swap: bool,
    /// R5: a new task has no retry timer and no locality history.
    pub fresh_start: bool,
}

const ONLY_ONE: PairRule = PairRule {
    imbalance: Imbalance::One,
    halved: false,
    side: Side::Busier,
    one_more: false,
    count: Count::Never,
};

/// [`tolerated`](super::limits::tolerated), for the fuller node.
const PREDICATE: PairRule = PairRule {
    imbalance: Imbalance::Min,
    halved: false,
    side: Side::Busier,
    one_more: false,
    count: Count::ImbNumaNr,
};

const NONE: Rules = Rules {
    fork: ForkRule {
        judge: Judge::Before,
        imbalance: Imbalance::Any,
        count: Count::Never,
        cap_by_affinity: false,
    },
    run_time: ONLY_ONE,
    preferred: ONLY_ONE,
    no_spare_swap: false,
    fresh_start: false,
};

const V5_6: Rules = Rules {
    fork: ForkRule {
        // Local has an idle CPU: with the task, at most as many tasks as CPUs.
        count: Count::Cpus,
        ..NONE.fork
    },
    run_time: PairRule {
        imbalance: Imbalance::Any,
        count: Count::ImbalanceMin,
        ..ONLY_ONE
    },
    // There the count of the source, after the move, is compared.
    preferred: PairRule {
        imbalance: Imbalance::Any,
        side: Side::Lighter,
        count: Count::ImbalanceMin,
        ..ONLY_ONE
    },
    ..NONE
};

const V5_11: Rules = Rules {
    fork: ForkRule {
        // running < a quarter: with the task, at most a quarter.
        count: Count::QuarterOfMachine,
        ..NONE.fork
    },
    run_time: PairRule {
        imbalance: Imbalance::Min,
        halved: true,
        one_more: true,
        count: Count::QuarterOfNode,
        ..ONLY_ONE
    },
    preferred: PairRule {
        imbalance: Imbalance::Min,
        one_more: true,
        count: Count::QuarterOfNode,
        ..ONLY_ONE
    },
    ..NONE
};

const V5_18: Rules = Rules {
    fork: ForkRule {
        count: Count::ImbNumaNrQuarter,
        ..NONE.fork
    },
    run_time: PairRule {
        imbalance: Imbalance::Min,
        halved: true,
        side: Side::Lighter,
        one_more: true,
        count: Count::ImbNumaNrQuarter,
    },
    preferred: PairRule {
        imbalance: Imbalance::Min,
        count: Count::ImbNumaNrQuarter,
        ..ONLY_ONE
    },
    ..NONE
};

const V6_0: Rules = Rules {
    fork: ForkRule {
        judge: Judge::Before,
        imbalance: Imbalance::Min,
        count: Count::ImbNumaNr,
        cap_by_affinity: true,
    },
    run_time: PairRule {
        imbalance: Imbalance::Min,
        halved: false,
        side: Side::Lighter,
        one_more: true,
        count: Count::ImbNumaNr,
    },
    preferred: PREDICATE,
    no_spare_swap: true,
    fresh_start: true,
};

const BALLAST: Rules = Rules {
    fork: ForkRule {
        judge: Judge::After,
        imbalance: Imbalance::Min,
        count: Count::ImbNumaNr,
        cap_by_affinity: true,
    },
    run_time: PREDICATE,
    preferred: PREDICATE,
    no_spare_swap: true,
    fresh_start: true,
};

fn is_min(imbalance: Imbalance, count: Count) -> bool {
    imbalance == Imbalance::Min || count == Count::ImbalanceMin
}

impl RuleSet {
    /// All sets, oldest first, ours last.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::V5_6,
        Self::V5_11,
        Self::V5_18,
        Self::V6_0,
        Self::Ballast,
    ];

    /// As `--rules` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::V5_6 => "v5.6",
            Self::V5_11 => "v5.11",
            Self::V5_18 => "v5.18",
            Self::V6_0 => "v6.0",
            Self::Ballast => "ballast",
        }
    }

    /// Whether some number of the set follows `--imb-numa-nr`.
    pub fn uses_imb_numa_nr(self) -> bool {
        let Rules {
            fork,
            run_time,
            preferred,
            ..
        } = self.rules();
        [fork.count, run_time.count, preferred.count]
            .iter()
            .any(|count| match count {
                Count::Never | Count::ImbalanceMin | Count::Cpus => false,
                Count::QuarterOfNode
                | Count::QuarterOfMachine
                | Count::ImbNumaNrQuarter
                | Count::ImbNumaNr => true,
            })
    }

    /// Whether some number of the set follows `--imbalance-min`.
    pub fn uses_imbalance_min(self) -> bool {
        let Rules {
            run_time,
            preferred,
            ..
        } = self.rules();
        let pairs = [run_time, preferred];
        let in_pairs = pairs.iter().any(|rule| is_min(rule.imbalance, rule.count));
        in_pairs || self.uses_imbalance_min_at_fork()
    }

    /// The same of where new tasks go.
    pub fn uses_imbalance_min_at_fork(self) -> bool {
        let fork = self.rules().fork;
        is_min(fork.imbalance, fork.count)
    }

    pub(super) const fn rules(self) -> Rules {
        match self {
            Self::None => NONE,
            Self::V5_6 => V5_6,
            Self::V5_11 => V5_11,
            Self::V5_18 => V5_18,
            Self::V6_0 => V6_0,
            Self::Ballast => BALLAST,
        }
    }
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RuleSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|set| set.name() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("there is no rule set '{text}'; there are {names}")
            })
    }
}
