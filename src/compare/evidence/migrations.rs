// SPDX-License-Identifier: GPL-2.0-only
//! Counting migrations: a BPF program on the tracepoint sched_migrate_task (src/bpf/migrations.bpf.c).
//!
//! A program instead of a perf event with a filter: one file descriptor whatever the number of CPUs, and
//! the nodes of a machine need not be ranges. It counts per CPU, is attached once for a whole
//! comparison, under every arm alike, and goes with the process.

use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};

use super::Nodes;
use crate::compare::record::{Fact, Migrations};

#[allow(clippy::all, missing_docs, unused, reason = "generated")]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/migrations_skel.rs"));
}
use skel::{MigrationsSkel, MigrationsSkelBuilder};

/// As NO_NODE in migrations.bpf.c.
const NO_NODE: u16 = 0xffff;

/// The attached program.
pub struct MigrationCounter {
    skel: MigrationsSkel<'static>,
    _link: Link,
}

impl MigrationCounter {
    pub fn attach(nodes: &Nodes) -> Fact<MigrationCounter> {
        // libbpf would say on stderr, at length, what the error says in a line.
        let print = libbpf_rs::set_print(None);
        let made = attach(nodes);
        libbpf_rs::set_print(print);
        made.map_or_else(
            |error| {
                let why = format!("counting migrations with BPF: {error:#}");
                Fact::NotAvailable(why.lines().collect::<Vec<_>>().join(" "))
            },
            Fact::Known,
        )
    }

    /// Migrations since it was attached.
    pub fn read(&self) -> Fact<Migrations> {
        let values = self.skel.maps.counts.lookup_percpu(&[0; 4], MapFlags::ANY);
        match values {
            Ok(Some(values)) => sum(&values).map_or_else(
                || Fact::NotAvailable("the counters of migrations have an odd size".into()),
                Fact::Known,
            ),
            Ok(None) => Fact::NotAvailable("the counters of migrations are gone".into()),
            Err(error) => Fact::NotAvailable(format!("reading migrations: {error}")),
        }
    }
}

fn attach(nodes: &Nodes) -> libbpf_rs::Result<MigrationCounter> {
    // Lives as long as the process, as does the one counter of a comparison.
    let space: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = MigrationsSkelBuilder::default().open(space)?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.node_of_cpu.fill(NO_NODE);
        for (&node, cpus) in nodes {
            for &cpu in cpus {
                if let Some(entry) = rodata.node_of_cpu.get_mut(cpu as usize) {
                    *entry = u16::try_from(node).unwrap_or(NO_NODE);
                }
            }
        }
    }
    let skel = open.load()?;
    let link = skel.progs.count_migration.attach()?;
    Ok(MigrationCounter { skel, _link: link })
}

/// The counters of all CPUs; `None` if they are not two numbers each.
fn sum(values: &[Vec<u8>]) -> Option<Migrations> {
    let mut sums = Migrations {
        all: 0,
        cross_node: 0,
    };
    for value in values {
        let (numbers, rest) = value.as_chunks::<8>();
        let (&[all, cross_node], []) = (numbers, rest) else {
            return None;
        };
        sums.all += u64::from_ne_bytes(all);
        sums.cross_node += u64::from_ne_bytes(cross_node);
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_cpus_are_summed() {
        let of = |all: u64, cross: u64| [all.to_ne_bytes(), cross.to_ne_bytes()].concat();
        let sums = sum(&[of(5, 1), of(7, 0)]).unwrap();
        assert_eq!((sums.all, sums.cross_node), (12, 1));
        assert_eq!(sum(&[vec![0; 12]]), None);
    }
}
