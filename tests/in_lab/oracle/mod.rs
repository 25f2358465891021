// SPDX-License-Identifier: GPL-2.0-only
//! The running kernel's scheduling domains against ours.
//!
//! The kernel is right by definition. For every online CPU the whole chain is compared, as it is
//! after the kernel has removed degenerate domains: how many, of what kind, how wide, and
//! imb_numa_nr. `tests/lab/oracle` runs this on many machines, and shows the chains if asked to.

mod kernel;

use std::fmt;

use scx_ballast::machine::{self, DomainKind, Levels, Machine, cpulist};

use crate::guest::online;
use crate::sched::with_none;
use kernel::Kind;

/// What both sides say of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fact {
    kind: Kind,
    weight: u32,
    imb_numa_nr: u32,
}

impl From<&kernel::Domain> for Fact {
    fn from(domain: &kernel::Domain) -> Self {
        Self {
            kind: domain.kind,
            weight: domain.weight,
            imb_numa_nr: domain.imb_numa_nr,
        }
    }
}

impl From<&machine::Domain> for Fact {
    fn from(domain: &machine::Domain) -> Self {
        Self {
            kind: match domain.kind {
                DomainKind::Smt => Kind::Smt,
                DomainKind::Llc => Kind::Llc,
                DomainKind::Pkg | DomainKind::Node => Kind::Node,
                DomainKind::Numa(_) => Kind::Numa,
            },
            weight: domain.weight,
            imb_numa_nr: domain.imb_numa_nr,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            weight,
            imb_numa_nr,
        } = self;
        write!(f, "{kind:?} weight {weight} imb_numa_nr {imb_numa_nr}")
    }
}

/// The domains of some CPUs that have the same ones: the kernel's, and what we expect.
struct Case {
    cpus: Vec<u32>,
    kernel: Vec<kernel::Domain>,
    ours: Vec<Fact>,
}

impl Case {
    fn agree(&self) -> bool {
        self.kernel
            .iter()
            .map(Fact::from)
            .eq(self.ours.iter().copied())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.agree() {
            true => "",
            false => " DIFFER",
        };
        let cpus = cpulist::format(self.cpus.iter().copied());
        writeln!(f, "CPUs {cpus}{verdict}")?;
        for domain in &self.kernel {
            writeln!(f, "  kernel  {domain}")?;
        }
        for fact in &self.ours {
            writeln!(f, "  ours    {fact}")?;
        }
        Ok(())
    }
}

#[test]
#[ignore = "runs in the lab"]
fn the_kernel_has_the_same_domains() {
    with_none(|| {
        let machine = Machine::detect(None).unwrap();
        let levels = Levels::of(&machine);
        let mut cases: Vec<Case> = Vec::new();
        for (id, kernel) in kernel::domains(&online()) {
            let cpu = machine.cpu_by_id(id).unwrap();
            let ours = levels.domains(cpu.idx).iter();
            let ours: Vec<Fact> = ours.filter(|d| !d.degenerate).map(Fact::from).collect();
            match cases
                .iter_mut()
                .find(|case| case.kernel == kernel && case.ours == ours)
            {
                Some(case) => case.cpus.push(id),
                None => cases.push(Case {
                    cpus: vec![id],
                    kernel,
                    ours,
                }),
            }
        }
        let all: String = cases.iter().map(Case::to_string).collect();
        println!("\n{all}");
        let wrong: Vec<&Case> = cases.iter().filter(|case| !case.agree()).collect();
        assert!(
            wrong.is_empty(),
            "{} of {} kinds of CPUs have other domains, see above",
            wrong.len(),
            cases.len()
        );
    });
}
