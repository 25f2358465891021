// SPDX-License-Identifier: GPL-2.0-only
//! The two CPUs of a pinned pair: given by number, or by how near they are to each other.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result};

use super::cpus::CpuSet;
use crate::machine::{Cpu, Machine};

/// What `--cpus` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairCpus {
    Given(TwoCpus),
    Near(Nearness),
}

/// The waker's CPU and the wakee's, which may be the same; kernel ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TwoCpus {
    pub waker: u32,
    pub wakee: u32,
}

/// What two CPUs share, and nothing nearer than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nearness {
    SameCpu,
    SameCore,
    SameLlc,
    SameNode,
    CrossNode,
}

impl Nearness {
    const ALL: [Nearness; 5] = [
        Nearness::SameCpu,
        Nearness::SameCore,
        Nearness::SameLlc,
        Nearness::SameNode,
        Nearness::CrossNode,
    ];

    fn name(self) -> &'static str {
        match self {
            Nearness::SameCpu => "same-cpu",
            Nearness::SameCore => "same-core",
            Nearness::SameLlc => "same-llc",
            Nearness::SameNode => "same-node",
            Nearness::CrossNode => "cross-node",
        }
    }

    fn between(a: &Cpu, b: &Cpu) -> Nearness {
        if a.idx == b.idx {
            Nearness::SameCpu
        } else if a.core == b.core {
            Nearness::SameCore
        } else if a.llc == b.llc {
            Nearness::SameLlc
        } else if a.node == b.node {
            Nearness::SameNode
        } else {
            Nearness::CrossNode
        }
    }

    /// The first two such CPUs that this process may use.
    fn find(self, machine: &Machine, allowed: &CpuSet) -> Option<TwoCpus> {
        let usable = || machine.cpus().iter().filter(|cpu| allowed.contains(cpu.id));
        usable().find_map(|waker| {
            let wakee = usable().find(|wakee| Nearness::between(waker, wakee) == self)?;
            Some(TwoCpus {
                waker: waker.id,
                wakee: wakee.id,
            })
        })
    }
}

impl PairCpus {
    /// The CPUs on this machine.
    ///
    /// # Errors
    /// The machine cannot be read, or has no two such CPUs for this process.
    pub fn resolve(self) -> Result<TwoCpus> {
        match self {
            PairCpus::Given(cpus) => Ok(cpus),
            PairCpus::Near(nearness) => nearness
                .find(&Machine::detect(None)?, &CpuSet::allowed()?)
                .with_context(|| {
                    format!(
                        "no CPUs for a pair '{}' among those that this process may use",
                        nearness.name()
                    )
                }),
        }
    }
}

impl FromStr for PairCpus {
    type Err = String;

    fn from_str(text: &str) -> Result<PairCpus, String> {
        if let Some(near) = Nearness::ALL.into_iter().find(|near| near.name() == text) {
            return Ok(PairCpus::Near(near));
        }
        let cpu = |text: &str| text.trim().parse().ok();
        let cpus = text.split_once(',').map(|(a, b)| (cpu(a), cpu(b)));
        match cpus {
            Some((Some(waker), Some(wakee))) => Ok(PairCpus::Given(TwoCpus { waker, wakee })),
            _ => Err(format!(
                "expected two CPUs, for example 0,1, or one of {}",
                Nearness::ALL.map(Nearness::name).join(", ")
            )),
        }
    }
}

impl fmt::Display for TwoCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.waker, self.wakee)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::describe::Source;

    #[test]
    fn two_cpus_are_two_numbers_or_a_word() {
        let given = |waker, wakee| Ok(PairCpus::Given(TwoCpus { waker, wakee }));
        assert_eq!("0,5".parse(), given(0, 5));
        assert_eq!("3,3".parse(), given(3, 3));
        assert_eq!("same-llc".parse(), Ok(PairCpus::Near(Nearness::SameLlc)));
        for text in ["", "0", "0,", "0,1,2", "a,b", "0-1", "-1,0", "same"] {
            assert!(text.parse::<PairCpus>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_word_means_that_and_nothing_nearer() {
        // CPUs of a short form are numbered node by node, LLC by LLC, threads of a core last.
        let machine = "2 nodes x 2 llcs x 2 cores x 2 threads"
            .parse::<Source>()
            .unwrap()
            .machine(None)
            .unwrap();
        let all: Vec<u32> = machine.cpus().iter().map(|cpu| cpu.id).collect();
        for near in Nearness::ALL {
            let found = near.find(&machine, &CpuSet::of(&all)).unwrap();
            let cpu = |id| machine.cpu_by_id(id).unwrap();
            assert_eq!(Nearness::between(cpu(found.waker), cpu(found.wakee)), near);
        }
        // One CPU of each node: nothing but those two.
        let node1 = machine.nodes()[1].cpus.start as usize;
        let few = CpuSet::of(&[machine.cpus()[0].id, machine.cpus()[node1].id]);
        assert!(Nearness::CrossNode.find(&machine, &few).is_some());
        assert!(Nearness::SameNode.find(&machine, &few).is_none());
    }
}
