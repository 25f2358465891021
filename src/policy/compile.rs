// SPDX-License-Identifier: GPL-2.0-only
//! From a rule set, the user's thresholds and a machine to numbers.
//!
//! [`Limits`] is all that the dispatchers get of a rule set. It holds of every compiled limit that
//! max_running of a node is at most its CPUs, so that no tolerance ever applies to waiting tasks
//! (R9): with more tasks than CPUs on one node and a CPU to spare on another the excess is at least
//! 2, and the count is above the limit.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::limits::{UNLIMITED, excess};
use super::placement::ForkLimits;
use super::rule_set::{Count, ForkRule, Imbalance, PairRule, RuleSet, Side};
use crate::machine::{Levels, Machine};

/// The kernel's NUMA_IMBALANCE_MIN, in tasks (documents 000 and 002).
pub const NUMA_IMBALANCE_MIN: u32 = 2;

/// The user's thresholds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// `--imbalance-min`: instead of [`NUMA_IMBALANCE_MIN`], wherever the set uses it.
    pub imbalance_min: Option<u32>,
    /// `--imb-numa-nr`: instead of the set's imb_numa_nr, or its quarter of the CPUs.
    pub imb_numa_nr: ImbNumaNr,
}

/// How `imb_numa_nr` is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImbNumaNr {
    /// By the machine's topology, as the set says.
    #[default]
    Auto,
    /// So many tasks on every node.
    Tasks(u32),
    /// So many percent of a node's CPUs, at least 1 task.
    Percent(u32),
}

impl fmt::Display for ImbNumaNr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Tasks(n) => write!(f, "{n}"),
            Self::Percent(p) => write!(f, "{p}%"),
        }
    }
}

impl ImbNumaNr {
    /// What can be asked for: so many tasks, or such a share.
    pub const TASKS: RangeInclusive<u32> = 0..=4096;
    pub const PERCENT: RangeInclusive<u32> = 1..=100;
}

impl FromStr for ImbNumaNr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            let (tasks, least, most) = (
                Self::TASKS.end(),
                Self::PERCENT.start(),
                Self::PERCENT.end(),
            );
            format!(
                "expected auto, a number of tasks up to {tasks} or {least}% to {most}%, got '{text}'"
            )
        };
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| bad());
        match text.strip_suffix('%') {
            _ if text == "auto" => Ok(Self::Auto),
            Some(percent) => match number(percent)? {
                percent if Self::PERCENT.contains(&percent) => Ok(Self::Percent(percent)),
                _ => Err(bad()),
            },
            None => match number(text)? {
                tasks if Self::TASKS.contains(&tasks) => Ok(Self::Tasks(tasks)),
                _ => Err(bad()),
            },
        }
    }
}

/// What the rules need to know of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShape {
    /// w: online CPUs, at least 1.
    pub weight: u32,
    /// Last-level caches, real ones.
    pub llcs: u32,
    /// The kernel's imb_numa_nr of the node's CPUs at their first NUMA level.
    pub imb_numa_nr: u32,
}

impl NodeShape {
    /// The nodes of a machine that have CPUs, in dense order.
    pub fn all(machine: &Machine) -> Vec<Self> {
        let levels = Levels::of(machine);
        let nodes = machine.cpu_nodes().iter();
        nodes
            .map(|node| {
                let llcs = &machine.llcs()[node.llcs.start.into()..node.llcs.end.into()];
                // Virtual LLCs of one cache are neighbours and name the same CPUs.
                let real = llcs.chunk_by(|a, b| a.cache_cpus == b.cache_cpus);
                Self {
                    weight: node.weight(),
                    llcs: real.count() as u32,
                    imb_numa_nr: levels.node_limit(node.idx),
                }
            })
            .collect()
    }
}

/// When two nodes are left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairLimits {
    /// Whose count is compared.
    pub side: Side,
    /// Whether that side is taken with one more task.
    pub one_more: bool,
    /// By node: largest count of that side.
    pub max_running: Vec<u32>,
    /// Largest excess; [`UNLIMITED`]: not looked at. An excess of 1 is always left alone.
    pub max_imbalance: u32,
    /// Whether the excess is halved before it is compared.
    pub halved: bool,
}

/// A node and its tasks, as one side of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLoad {
    /// Dense index.
    pub node: usize,
    /// c: committed tasks.
    pub tasks: u32,
    /// w: CPUs.
    pub weight: u32,
}

impl PairLimits {
    /// Is the pair left alone? `a` is the fuller node.
    pub fn leaves_alone(&self, a: NodeLoad, b: NodeLoad) -> bool {
        let excess = excess(a.tasks, a.weight, b.tasks, b.weight);
        if excess <= 1 {
            return true;
        }
        let compared = if self.halved { excess / 2 } else { excess };
        let side = match self.side {
            Side::Busier => a,
            Side::Lighter => b,
        };
        let count = u64::from(side.tasks) + u64::from(self.one_more);
        let most = self.max_running.get(side.node).copied().unwrap_or(0);
        (self.max_imbalance == UNLIMITED || compared <= self.max_imbalance.into())
            && count <= most.into()
    }
}

/// A rule set on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub set: RuleSet,
    pub fork: ForkLimits,
    /// Judged before a move.
    pub run_time: PairLimits,
    /// Judged after a move to the preferred node, which is the fuller side then.
    pub preferred: PairLimits,
    /// R4 holds.
    pub no_spare_swap: bool,
    /// R5 holds.
    pub fresh_start: bool,
    /// R10 holds, as it does under every set. The simulator can leave it out; traces say so only then.
    #[serde(default = "holds", skip_serializing_if = "is_held")]
    pub no_bystanders: bool,
}

fn holds() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde wants it.
fn is_held(rule: &bool) -> bool {
    *rule
}

impl Limits {
    /// The numbers of `set` on `nodes`, which are those with CPUs in dense order.
    pub fn compile(set: RuleSet, thresholds: Thresholds, nodes: &[NodeShape]) -> Self {
        let rules = set.rules();
        let on = Compiler { thresholds, nodes };
        Self {
            set,
            fork: on.fork(rules.fork),
            run_time: on.pair(rules.run_time),
            preferred: on.pair(rules.preferred),
            no_spare_swap: rules.no_spare_swap,
            fresh_start: rules.fresh_start,
            no_bystanders: true,
        }
    }
}

struct Compiler<'a> {
    thresholds: Thresholds,
    nodes: &'a [NodeShape],
}

impl Compiler<'_> {
    fn fork(&self, rule: ForkRule) -> ForkLimits {
        ForkLimits {
            judge: rule.judge,
            max_imbalance: self.imbalance(rule.imbalance),
            max_running: self.counts(rule.count),
            cap_by_affinity: rule.cap_by_affinity,
        }
    }

    fn pair(&self, rule: PairRule) -> PairLimits {
        PairLimits {
            side: rule.side,
            one_more: rule.one_more,
            max_running: self.counts(rule.count),
            max_imbalance: self.imbalance(rule.imbalance),
            halved: rule.halved,
        }
    }

    fn imbalance_min(&self) -> u32 {
        self.thresholds.imbalance_min.unwrap_or(NUMA_IMBALANCE_MIN)
    }

    fn imbalance(&self, imbalance: Imbalance) -> u32 {
        match imbalance {
            Imbalance::Min => self.imbalance_min(),
            Imbalance::One => 1,
            Imbalance::Any => UNLIMITED,
        }
    }

    fn counts(&self, count: Count) -> Vec<u32> {
        let counts = self.nodes.iter().map(|node| self.count(count, node));
        counts
            .zip(self.nodes)
            .map(|(n, node)| n.min(node.weight))
            .collect()
    }

    fn count(&self, count: Count, node: &NodeShape) -> u32 {
        let by_topology = match count {
            Count::Never => return 0,
            Count::ImbalanceMin => return self.imbalance_min(),
            Count::Cpus => return node.weight,
            Count::QuarterOfNode => node.weight / 4,
            Count::QuarterOfMachine => self.nodes.iter().map(|n| n.weight).sum::<u32>() / 4,
            Count::ImbNumaNrQuarter if node.llcs <= 1 => node.weight / 4,
            Count::ImbNumaNrQuarter => node.llcs,
            Count::ImbNumaNr => node.imb_numa_nr,
        };
        match self.thresholds.imb_numa_nr {
            ImbNumaNr::Auto => by_topology,
            ImbNumaNr::Tasks(tasks) => tasks,
            ImbNumaNr::Percent(percent) => {
                let share = u64::from(node.weight) * u64::from(percent) / 100;
                (share as u32).max(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 x 16 CPUs, one LLC per node: imb_numa_nr is 16 / 8.
    const TWO_BY_16: [NodeShape; 2] = [NodeShape {
        weight: 16,
        llcs: 1,
        imb_numa_nr: 2,
    }; 2];
    /// 2 x 8 CPUs in 4 LLCs of 2.
    const LLC4: [NodeShape; 2] = [NodeShape {
        weight: 8,
        llcs: 4,
        imb_numa_nr: 4,
    }; 2];

    fn compile(set: RuleSet, nodes: &[NodeShape]) -> Limits {
        Limits::compile(set, Thresholds::default(), nodes)
    }

    fn load(node: usize, tasks: u32) -> NodeLoad {
        NodeLoad {
            node,
            tasks,
            weight: 16,
        }
    }

    #[test]
    fn fork_limits_of_the_generations() {
        let counts = |set, nodes: &[NodeShape]| compile(set, nodes).fork.max_running[0];
        // A quarter of both nodes: 32 / 4 and 16 / 4; of the node itself: 16 / 4; an eighth: 2.
        let expected = [
            (RuleSet::None, 0, 0),
            (RuleSet::V5_6, 16, 8),
            (RuleSet::V5_11, 8, 4),
            (RuleSet::V5_18, 4, 4),
            (RuleSet::V6_0, 2, 4),
            (RuleSet::Ballast, 2, 4),
        ];
        for (set, one_llc, four_llcs) in expected {
            assert_eq!(counts(set, &TWO_BY_16), one_llc, "{set} on 2x16");
            assert_eq!(counts(set, &LLC4), four_llcs, "{set} on 2x8llc4");
        }
    }

    #[test]
    fn run_time_of_the_generations() {
        // Busier and lighter counts on 2x16, and which sets leave them alone.
        let cases = [
            ((1, 0), [true; 6]),
            ((2, 0), [false, true, true, true, true, true]),
            // v5.6 and ballast: three run. v5.11: 3 + 1 <= 4, 3 / 2 <= 2. v6.0: 3 > 2.
            ((3, 0), [false, false, true, true, false, false]),
            // v5.11: 4 + 1 > 4. v5.18: 0 + 1 <= 4, 5 / 2 <= 2.
            ((5, 0), [false, false, false, true, false, false]),
            // v6.0 looks at the lighter: 1 + 1 <= 2. ballast at the busier: 3 > 2.
            ((3, 1), [false, false, true, true, true, false]),
            // v5.18: 3 + 1 <= 4. v6.0: 3 + 1 > 2.
            ((5, 3), [false, false, false, true, false, false]),
        ];
        for ((a, b), expected) in cases {
            for (set, expected) in RuleSet::ALL.into_iter().zip(expected) {
                let limits = compile(set, &TWO_BY_16).run_time;
                let alone = limits.leaves_alone(load(0, a), load(1, b));
                assert_eq!(alone, expected, "{set}: {a} and {b}");
            }
        }
    }

    #[test]
    fn thresholds_replace_the_numbers_of_any_set() {
        let with = |set, imbalance_min, imb_numa_nr| {
            let thresholds = Thresholds {
                imbalance_min,
                imb_numa_nr,
            };
            Limits::compile(set, thresholds, &TWO_BY_16)
        };
        let limits = with(RuleSet::Ballast, Some(3), ImbNumaNr::Tasks(7));
        assert_eq!(limits.fork.max_imbalance, 3);
        assert_eq!(limits.run_time.max_running, [7, 7]);
        let limits = with(RuleSet::V5_11, None, ImbNumaNr::Percent(50));
        assert_eq!(limits.run_time.max_running, [8, 8]);
        // 1 % of 16 is less than a task.
        let limits = with(RuleSet::V6_0, None, ImbNumaNr::Percent(1));
        assert_eq!(limits.fork.max_running, [1, 1]);
        let limits = with(RuleSet::V5_6, Some(5), ImbNumaNr::Auto);
        assert_eq!(limits.run_time.max_running, [5, 5]);
    }

    #[test]
    fn no_limit_exceeds_the_node() {
        let thresholds = Thresholds {
            imbalance_min: Some(100),
            imb_numa_nr: ImbNumaNr::Tasks(4096),
        };
        for set in RuleSet::ALL {
            let limits = Limits::compile(set, thresholds, &LLC4);
            for counts in [
                &limits.fork.max_running,
                &limits.run_time.max_running,
                &limits.preferred.max_running,
            ] {
                assert!(counts.iter().all(|&n| n <= 8), "{set}: {counts:?}");
            }
        }
    }

    #[test]
    fn imb_numa_nr_parses_and_prints() {
        for (text, value) in [
            ("auto", ImbNumaNr::Auto),
            ("0", ImbNumaNr::Tasks(0)),
            ("12", ImbNumaNr::Tasks(12)),
            ("25%", ImbNumaNr::Percent(25)),
        ] {
            assert_eq!(text.parse(), Ok(value));
            assert_eq!(value.to_string(), text);
        }
        for bad in ["", "%", "0%", "101%", "-1", "4097", "two", "1.5%"] {
            assert!(bad.parse::<ImbNumaNr>().is_err(), "{bad}");
        }
    }
}
