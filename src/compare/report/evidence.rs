// SPDX-License-Identifier: GPL-2.0-only
//! Evidence of many runs as one fact: a total over a total, or why there is none.
//!
//! Runs without a fact are left out of both totals and counted, so that nobody takes "not available" for 0.

use std::collections::{BTreeMap, BTreeSet};

use super::content::clean_brief;
use super::number;
use crate::compare::record::{Evidence, Fact, Run, SchedulerUse};

/// What can be said about a quantity over some runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Pooled {
    Known {
        value: f64,
        /// Runs that told it, of how many.
        known: usize,
        of: usize,
    },
    NotAvailable(String),
    NoRuns,
}

/// A quantity: how it is called, how it is written, and how a run tells it.
pub struct Quantity {
    pub name: &'static str,
    pub unit: &'static str,
    pub tell: fn(&Evidence) -> Fact<Share>,
}

/// A run's part of a quantity: the total is all `amount`s over all `over`s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    pub amount: f64,
    pub over: f64,
}

/// The unit of shares of a run's time.
const OF_TIME: &str = "% of time";
/// A share is of a window a little longer than the run. Beyond this it is no share of the run any more.
const MOST_OF_TIME: f64 = 102.0;

/// What the summary shows, in its order.
pub const QUANTITIES: [Quantity; 12] = [
    Quantity {
        name: "wall time",
        unit: "s per run",
        tell: |seen| per_run(seen.wall_s),
    },
    Quantity {
        name: "CPU time, user",
        unit: "s per run",
        tell: |seen| per_run(seen.user_s),
    },
    Quantity {
        name: "CPU time, system",
        unit: "s per run",
        tell: |seen| per_run(seen.sys_s),
    },
    Quantity {
        name: "migrations, cross-node",
        unit: "per s",
        tell: |seen| per_second(seen, &seen.migrations, |all| all.cross_node as f64),
    },
    Quantity {
        name: "migrations, all",
        unit: "per s",
        tell: |seen| per_second(seen, &seen.migrations, |all| all.all as f64),
    },
    Quantity {
        name: "turns on a CPU",
        unit: "per s",
        tell: |seen| per_second(seen, &seen.schedstat, |all| all.timeslices as f64),
    },
    Quantity {
        name: "tasks waiting for a CPU",
        unit: "on average",
        tell: |seen| per_second(seen, &seen.schedstat, |all| all.wait_ns as f64 / 1e9),
    },
    Quantity {
        name: "PSI cpu some",
        unit: OF_TIME,
        tell: |seen| pressure(seen, "cpu.some"),
    },
    Quantity {
        name: "PSI memory some",
        unit: OF_TIME,
        tell: |seen| pressure(seen, "memory.some"),
    },
    Quantity {
        name: "memory from the local node",
        unit: "% of pages",
        tell: local_memory,
    },
    Quantity {
        name: "scheduler: CPU time",
        unit: "% of one CPU",
        tell: |seen| per_second(seen, &seen.scheduler, |used| used.cpu_s * 100.0),
    },
    Quantity {
        name: "scheduler: memory",
        unit: "MiB",
        tell: |seen| seen.scheduler.and_then(resident),
    },
];

impl<T> Fact<T> {
    /// Goes on with what is known.
    pub fn and_then<U>(&self, go_on: impl FnOnce(&T) -> Fact<U>) -> Fact<U> {
        match self {
            Fact::Known(value) => go_on(value),
            Fact::NotAvailable(reason) => Fact::NotAvailable(reason.clone()),
        }
    }
}

fn per_run(amount: f64) -> Fact<Share> {
    Fact::Known(Share { amount, over: 1.0 })
}

/// Counters are read just before and just after a run. In a run this short, that is not nothing beside it.
const SHORTEST_S: f64 = 0.1;

/// `amount` over the time of the run.
fn over_time(seen: &Evidence, amount: f64) -> Fact<Share> {
    match seen.wall_s >= SHORTEST_S {
        true => Fact::Known(Share {
            amount,
            over: seen.wall_s,
        }),
        false => Fact::NotAvailable("a run of less than 0.1 s is too short for it".to_owned()),
    }
}

fn per_second<T>(seen: &Evidence, fact: &Fact<T>, amount: fn(&T) -> f64) -> Fact<Share> {
    fact.and_then(|known| over_time(seen, amount(known)))
}

fn pressure(seen: &Evidence, key: &str) -> Fact<Share> {
    seen.pressure.and_then(|stalls| match stalls.get(key) {
        Some(us) => over_time(seen, *us as f64 / 1e6 * 100.0),
        None => Fact::NotAvailable(format!("/proc/pressure tells no {key}")),
    })
}

/// Pages that came from the node of the CPU that asked for them.
fn local_memory(seen: &Evidence) -> Fact<Share> {
    seen.vmstat.and_then(|counters| {
        match (counters.get("numa_local"), counters.get("numa_other")) {
            (Some(local), Some(other)) => Fact::Known(Share {
                amount: *local as f64 * 100.0,
                over: *local as f64 + *other as f64,
            }),
            _ => Fact::NotAvailable("/proc/vmstat has no numa_local or numa_other".to_owned()),
        }
    })
}

fn resident(used: &SchedulerUse) -> Fact<Share> {
    used.rss_bytes
        .and_then(|bytes| per_run(*bytes as f64 / f64::from(1 << 20)))
}

/// `quantity` over `runs`.
pub fn pool<'a>(quantity: &Quantity, runs: impl IntoIterator<Item = &'a Run>) -> Pooled {
    let pooled = pool_with(runs, quantity.tell);
    match pooled {
        Pooled::Known { value, .. } if quantity.unit == OF_TIME && value > MOST_OF_TIME => {
            Pooled::NotAvailable(format!(
                "{} % of the time of the runs: they are too short for it",
                number::short(value)
            ))
        }
        pooled => pooled,
    }
}

fn pool_with<'a>(
    runs: impl IntoIterator<Item = &'a Run>,
    tell: impl Fn(&Evidence) -> Fact<Share>,
) -> Pooled {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut total, mut known, mut of) = (
        Share {
            amount: 0.0,
            over: 0.0,
        },
        0,
        0,
    );
    for run in runs {
        of += 1;
        match tell(&run.evidence) {
            Fact::Known(share) => {
                known += 1;
                total.amount += share.amount;
                total.over += share.over;
            }
            Fact::NotAvailable(reason) => *reasons.entry(clean_brief(&reason)).or_default() += 1,
        }
    }
    if of == 0 {
        return Pooled::NoRuns;
    }
    if known == 0 {
        let usual = reasons.into_iter().max_by_key(|(_, times)| *times);
        return Pooled::NotAvailable(usual.map_or(String::new(), |(reason, _)| reason));
    }
    match total.over > 0.0 {
        true => Pooled::Known {
            value: total.amount / total.over,
            known,
            of,
        },
        false => Pooled::NotAvailable("nothing happened that it could be a share of".to_owned()),
    }
}

impl Pooled {
    pub fn text(&self) -> String {
        match self {
            Pooled::Known { value, .. } => number::short(*value),
            Pooled::NotAvailable(_) => "not available".to_owned(),
            Pooled::NoRuns => "no run".to_owned(),
        }
    }

    /// More than all of the time.
    fn is_beyond_all(&self, unit: &str) -> bool {
        matches!(self, Pooled::Known { value, .. } if unit == OF_TIME && *value > 100.0)
    }

    /// What has to be said beside it; `unit` is the quantity's.
    pub fn remark(&self, unit: &str) -> Option<String> {
        match self {
            Pooled::Known { known, of, .. } if known < of => {
                Some(format!("known of {known} of {of} runs"))
            }
            Pooled::Known { .. } if self.is_beyond_all(unit) => Some(
                "above 100 as it is read just before and after the runs, a little longer than they took"
                    .to_owned(),
            ),
            Pooled::NotAvailable(reason) => Some(format!("not available: {reason}")),
            Pooled::Known { .. } | Pooled::NoRuns => None,
        }
    }
}

/// A counter of /proc/vmstat, per second.
pub fn vmstat<'a>(name: &str, runs: impl IntoIterator<Item = &'a Run>) -> Pooled {
    pool_with(runs, |seen| {
        seen.vmstat.and_then(|counters| match counters.get(name) {
            Some(count) => over_time(seen, *count as f64),
            None => Fact::NotAvailable(format!("/proc/vmstat has no {name}")),
        })
    })
}

/// Names of all counters of /proc/vmstat that any of `runs` has.
pub fn vmstat_names<'a>(runs: impl IntoIterator<Item = &'a Run>) -> BTreeSet<&'a str> {
    let counters = runs
        .into_iter()
        .filter_map(|run| run.evidence.vmstat.known());
    counters
        .flat_map(|counters| counters.keys().map(String::as_str))
        .collect()
}

/// Whether a counter of /proc/vmstat says nothing under sched_ext, because the kernel's NUMA balancing
/// drives it from hooks of the fair class alone.
pub fn is_meaningless_under_sched_ext(name: &str) -> bool {
    matches!(
        name,
        "numa_pte_updates"
            | "numa_huge_pte_updates"
            | "numa_hint_faults"
            | "numa_hint_faults_local"
            | "numa_pages_migrated"
    )
}

/// Busy share of each node over a run, by the kernel's id; none where it was not seen.
pub fn busy_by_node(run: &Run) -> Option<Vec<(u32, f64)>> {
    let seen = run.evidence.node_use.known()?;
    let nodes = seen.nodes.iter();
    Some(
        nodes
            .map(|(node, shares)| {
                let sum: f64 = shares.iter().map(|share| f64::from(*share)).sum();
                (*node, sum / shares.len().max(1) as f64)
            })
            .collect(),
    )
}

/// Tasks on the fullest node beyond those on the emptiest: of each repeat of `runs`.
pub fn spreads<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Vec<u32> {
    let repeats = runs.into_iter().flat_map(|run| &run.placement);
    repeats
        .filter_map(|nodes| Some(nodes.iter().max()? - nodes.iter().min()?))
        .collect()
}
