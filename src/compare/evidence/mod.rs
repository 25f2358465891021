// SPDX-License-Identifier: GPL-2.0-only
//! What is seen during a run besides what the benchmark says of itself.
//!
//! An [`Observer`] is made before the command and finished after it; what it reports is growth in
//! between. What a kernel does not offer is `not available` with the reason.
//!
//! Under a sched_ext scheduler some counters are there and mean nothing: `numa_pte_updates`,
//! `numa_huge_pte_updates`, `numa_hint_faults`, `numa_hint_faults_local` and `numa_pages_migrated` of
//! /proc/vmstat are made by the fair class' page scanner, which does not run for sched_ext tasks, and
//! stay near zero. `numa_hit`, `numa_miss`, `numa_local`, `numa_foreign` and `pgmigrate_*` are valid.

mod counters;
pub mod environment;
mod migrations;
mod node_use;
mod scheduler;

pub use counters::{pressure, schedstat, vmstat};
pub use migrations::MigrationCounter;
pub use scheduler::{Statistics, cpu_time};

use std::collections::BTreeMap;

use rustix::process::Pid;

use super::process::Done;
use super::record::{Evidence, Fact, InCharge, Migrations, Schedstat, SchedulerUse};
use super::roots::Roots;
use node_use::Sampler;

/// The kernel's id of a node with CPUs -> its online CPUs.
pub type Nodes = BTreeMap<u32, Vec<u32>>;

/// The scheduler process of an arm, as it is observed.
pub struct Watched<'a> {
    pub pid: Pid,
    /// From start to enabled.
    pub start_s: f64,
    pub statistics: &'a mut Fact<Statistics>,
}

/// Counters at the beginning of a run, and what samples during it.
pub struct Observer<'a> {
    roots: &'a Roots,
    vmstat: Fact<BTreeMap<String, u64>>,
    schedstat: Fact<Schedstat>,
    pressure: Fact<BTreeMap<String, u64>>,
    counter: &'a Fact<MigrationCounter>,
    migrations: Fact<Migrations>,
    scheduler: Option<(Watched<'a>, Fact<f64>)>,
    sampler: Fact<Sampler>,
}

impl<'a> Observer<'a> {
    pub fn start(
        roots: &'a Roots,
        nodes: &Nodes,
        counter: &'a Fact<MigrationCounter>,
        scheduler: Option<Watched<'a>>,
    ) -> Observer<'a> {
        // The scheduler's first answer sets its counters back; it may take a while, so it is first.
        let scheduler = scheduler.map(|watched| {
            if let Fact::Known(statistics) = watched.statistics
                && let Fact::NotAvailable(why) = statistics.ask()
            {
                *watched.statistics = Fact::NotAvailable(why);
            }
            let cpu = cpu_time(watched.pid);
            (watched, cpu)
        });
        Observer {
            sampler: Sampler::start(roots, nodes),
            vmstat: vmstat(roots),
            schedstat: schedstat(roots),
            pressure: pressure(roots),
            migrations: read_migrations(counter),
            roots,
            counter,
            scheduler,
        }
    }

    /// The evidence of the run that `done` is the end of, with `in_charge` in charge.
    pub fn finish(self, done: &Done, in_charge: InCharge) -> Evidence {
        let migrations = growth(self.migrations, read_migrations(self.counter), |a, b| {
            Some(Migrations {
                all: b.all.checked_sub(a.all)?,
                cross_node: b.cross_node.checked_sub(a.cross_node)?,
            })
        });
        Evidence {
            wall_s: done.wall_s,
            user_s: done.user_s,
            sys_s: done.sys_s,
            in_charge,
            vmstat: growth(self.vmstat, vmstat(self.roots), each_growth),
            schedstat: growth(
                self.schedstat,
                schedstat(self.roots),
                counters::schedstat_growth,
            ),
            pressure: growth(self.pressure, pressure(self.roots), each_growth),
            node_use: match self.sampler {
                Fact::Known(sampler) => sampler.finish(),
                Fact::NotAvailable(why) => Fact::NotAvailable(why),
            },
            migrations,
            scheduler: match self.scheduler {
                None => Fact::NotAvailable("EEVDF is part of the kernel".into()),
                Some((watched, before)) => scheduler_use(self.roots, watched, before),
            },
        }
    }
}

fn scheduler_use(roots: &Roots, watched: Watched<'_>, before: Fact<f64>) -> Fact<SchedulerUse> {
    let cpu = growth(before, cpu_time(watched.pid), |a, b| Some(b - a));
    let statistics = match watched.statistics {
        Fact::Known(statistics) => statistics.ask(),
        Fact::NotAvailable(why) => Fact::NotAvailable(why.clone()),
    };
    match cpu {
        Fact::NotAvailable(why) => Fact::NotAvailable(why),
        Fact::Known(cpu_s) => Fact::Known(SchedulerUse {
            cpu_s,
            rss_bytes: scheduler::rss(roots, watched.pid),
            start_s: watched.start_s,
            statistics,
        }),
    }
}

fn read_migrations(counter: &Fact<MigrationCounter>) -> Fact<Migrations> {
    match counter {
        Fact::Known(counter) => counter.read(),
        Fact::NotAvailable(why) => Fact::NotAvailable(why.clone()),
    }
}

/// What happened between two readings; `None` of `between` is a counter that went backwards.
fn growth<T>(
    before: Fact<T>,
    after: Fact<T>,
    between: impl FnOnce(&T, &T) -> Option<T>,
) -> Fact<T> {
    match (before, after) {
        (Fact::Known(before), Fact::Known(after)) => match between(&before, &after) {
            Some(grown) => Fact::Known(grown),
            None => Fact::NotAvailable("a counter went backwards during the run".into()),
        },
        (Fact::NotAvailable(why), _) | (_, Fact::NotAvailable(why)) => Fact::NotAvailable(why),
    }
}

/// Growth of each counter that is in both.
fn each_growth(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> Option<BTreeMap<String, u64>> {
    let both = after.iter().filter(|(name, _)| before.contains_key(*name));
    both.map(|(name, now)| Some((name.clone(), now.checked_sub(before[name])?)))
        .collect()
}
