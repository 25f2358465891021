// SPDX-License-Identifier: GPL-2.0-only
//! The running kernel's own scheduling domains, as `domains.bpf.c` reads them.
//!
//! Invariant: what is handed out makes sense in itself. A span has as many CPUs as the kernel says,
//! holds its own CPU and the domain below, and the values of flags come from this kernel's BTF.

use std::collections::BTreeSet;
use std::fmt;
use std::mem::MaybeUninit;

use libbpf_rs::ProgramInput;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use scx_ballast::machine::cpulist;

use crate::guest::{parse_list, read};

mod skel {
    #![allow(clippy::all, dead_code, missing_docs, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/oracle_skel.rs"));
}
use skel::OracleSkelBuilder;
use skel::types::oracle_domain;

/// What a domain stands for, by its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The threads of a core.
    Smt,
    /// Cores that share a cache below the last one.
    Cluster,
    /// CPUs that share a last-level cache.
    Llc,
    /// CPUs with several last-level caches and no distance between them.
    Node,
    /// Several nodes.
    Numa,
}

/// A domain of one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The kernel's name, such as `MC`; empty in a kernel without names.
    pub name: String,
    pub kind: Kind,
    /// Counted before degenerate domains were removed.
    pub level: i32,
    pub flags: u32,
    pub weight: u32,
    pub imb_numa_nr: u32,
    /// Kernel ids of its CPUs.
    pub span: BTreeSet<u32>,
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = cpulist::format(self.span.iter().copied());
        write!(
            f,
            "{:?} weight {} imb_numa_nr {} ({}, level {}, flags {:#x}, CPUs {span})",
            self.kind, self.weight, self.imb_numa_nr, self.name, self.level, self.flags,
        )
    }
}

/// The flags that tell kinds apart. Their bits move when the kernel gets a new flag.
struct Flags {
    smt: u32,
    cluster: u32,
    llc: u32,
    numa: u32,
}

impl Flags {
    fn of_this_kernel() -> Self {
        let btf = Btf::from_vmlinux().unwrap();
        let enums: Vec<Enum<'_>> = btf.type_by_kind().collect();
        let value = |name: &str| {
            let mut members = enums.iter().flat_map(|list| list.iter());
            let member = members.find(|member| member.name.is_some_and(|found| found == name));
            let member = member.unwrap_or_else(|| panic!("this kernel's BTF has no {name}"));
            u32::try_from(member.value).unwrap()
        };
        Self {
            smt: value("SD_SHARE_CPUCAPACITY"),
            cluster: value("SD_CLUSTER"),
            llc: value("SD_SHARE_LLC"),
            numa: value("SD_NUMA"),
        }
    }

    fn kind(&self, flags: u32) -> Kind {
        let has = |flag| flags & flag != 0;
        match () {
            () if has(self.numa) => Kind::Numa,
            () if has(self.smt) => Kind::Smt,
            () if has(self.cluster) => Kind::Cluster,
            () if has(self.llc) => Kind::Llc,
            () => Kind::Node,
        }
    }
}

/// What the program's return values mean; see `enum oracle_result`.
const RESULTS: [&str; 5] = [
    "",
    "this kernel's BTF has no variable `runqueues`, so rq->sd cannot be reached",
    "the kernel knows no such CPU",
    "more domains than domains.bpf.c has room for",
    "a domain's span is not readable",
];

/// The domains of each of `cpus`, bottom up.
///
/// # Panics
/// When they cannot be read or contradict themselves, with the reason.
pub fn domains(cpus: &BTreeSet<u32>) -> Vec<(u32, Vec<Domain>)> {
    let flags = Flags::of_this_kernel();
    let mut space = MaybeUninit::uninit();
    let mut skel = OracleSkelBuilder::default().open(&mut space).unwrap();
    let possible = parse_list(&read("/sys/devices/system/cpu/possible"));
    let words = possible.last().unwrap() / 64 + 1;
    skel.maps.rodata_data.as_mut().unwrap().span_words = words;
    let mut skel = skel.load().unwrap();
    let read_cpu = |&cpu: &u32| {
        skel.maps.bss_data.as_mut().unwrap().cpu = cpu;
        let input = ProgramInput::default();
        let result = skel.progs.oracle_read.test_run(input).unwrap().return_value;
        assert_eq!(result, 0, "CPU {cpu}: {}", RESULTS[result as usize]);
        let bss = skel.maps.bss_data.as_ref().unwrap();
        let chain = &bss.chain[..bss.nr_domains as usize];
        let chain = chain.iter().map(|raw| domain(raw, words, &flags)).collect();
        check(cpu, &chain);
        (cpu, chain)
    };
    cpus.iter().map(read_cpu).collect()
}

fn domain(raw: &oracle_domain, words: u32, flags: &Flags) -> Domain {
    let name = raw.name.iter().map(|&c| c as u8).take_while(|&c| c != 0);
    let has = |cpu: &u32| raw.span[*cpu as usize / 64] >> (cpu % 64) & 1 == 1;
    Domain {
        name: String::from_utf8_lossy(&name.collect::<Vec<u8>>()).into_owned(),
        kind: flags.kind(raw.flags as u32),
        level: raw.level,
        flags: raw.flags as u32,
        weight: raw.span_weight,
        imb_numa_nr: raw.imb_numa_nr,
        span: (0..words * 64).filter(has).collect(),
    }
}

/// Has the right memory been read?
fn check(cpu: u32, chain: &Vec<Domain>) {
    let mut below = BTreeSet::from([cpu]);
    for domain in chain {
        assert_eq!(domain.span.len(), domain.weight as usize, "{domain}");
        assert!(domain.span.is_superset(&below), "{below:?} and {domain}");
        below.clone_from(&domain.span);
    }
}
