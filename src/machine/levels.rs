// SPDX-License-Identifier: GPL-2.0-only
//! NUMA levels, scheduling domains and imb_numa_nr, as the kernel derives them.
//!
//! The kernel's own `sd->imb_numa_nr` is the reference; the sources are `sched_init_numa`,
//! `build_sched_domains` and `cpu_attach_domain` in kernel/sched/topology.c, read in Linux 6.12 and
//! 7.3. The arithmetic, which is the same in both:
//!
//! - Levels are the distinct distances between nodes *with CPUs*; a memory-only node makes none. A
//!   node's span at a level holds every node no farther from it than the level's distance, in its
//!   own row of the matrix. In a mesh the spans of two nodes overlap without being equal.
//! - A CPU's domains from the bottom: siblings (SMT), LLC (MC), node (PKG), node again (NODE, the
//!   level of the local distance), then one per wider level. Building stops at the first that holds
//!   every CPU, so a CPU in the middle of a line of nodes has fewer levels than one at its end.
//! - PKG is the CPUs of the *node*, whatever a package is (`cpu_cpu_mask`, since renamed
//!   `cpu_node_mask`). With several nodes in a package (SNC, NPS) x86 leaves PKG out and NODE, with
//!   the same span, takes its place: the numbers are the same, so PKG is always here.
//! - With n = span of PKG / span of the LLC, imb_numa_nr of PKG is span / 8 if n is 1, else n; at
//!   least 1. A wider domain has that times span / span of the first NUMA domain, at least times 1.
//!   All divisions are of integers and cut off. Domains inside the LLC have 0.
//! - Only then are domains removed: one of a single CPU, and one of the same span as the next lower.
//!   So is a distant one of a new span whose new CPUs reach all others on a lower level already, as
//!   can be when distances depend on the direction: they have no domain there to make a group of.
//!   So on a node of one LLC the MC domain, with its 0, outlives PKG, and what PKG had is seen on
//!   the NUMA domains alone.
//!
//! It is per CPU: with LLCs of different sizes in a node, n differs between its CPUs.
//!
//! Where this is simpler than the kernel:
//!
//! - An LLC ends at its node, as [`Machine`] has it. So it does in the kernel: x86 refuses to link
//!   caches across nodes, arm64 takes the node when it is smaller than the LLC. Where [`Machine`]
//!   takes a node as one LLC for want of caches, or because it has too many private ones, the kernel
//!   may have a domain per CPU or cluster there, and a larger number.
//! - Clusters (CLS: cores that share an L2 inside an LLC) are not modelled. They lie below the LLC
//!   and have 0; a chain read from a running kernel may hold one more domain there.
//! - Every online CPU takes part. Isolated CPUs (isolcpus, isolated cpuset partitions) have no
//!   domains in the kernel and are missing from the spans of the others.
//! - Distances are the firmware's. Newer kernels (7.3 does, 6.12 does not) average those between
//!   packages on two Intel models with three and more nodes per package (Granite Rapids, Clearwater
//!   Forest; `arch_sched_node_distance`), which merges levels and is not shown in sysfs.
//! - Beyond [`RECLAIM_DISTANCE`] the kernel also removes a domain of a single group of CPUs. x86 has 32
//!   there on AMD from Zen on, which sysfs does not show; it matters only for levels of 31 and 32 with
//!   distances that depend on the direction.
//! - Local distances that differ, or remote ones that equal them, give NODE domains of several nodes;
//!   see [`Levels::sane`].
//!
//! Virtual LLCs change nothing here, as the kernel knows nothing of them: the CPUs of the real one
//! count ([`Llc::cache_cpus`](super::Llc::cache_cpus)).

use super::{CpuIdx, Llc, Machine, Node, NodeIdx};
use std::collections::BTreeMap;

/// Beyond it the kernel neither spreads forks over a domain nor pulls wake-ups (`node_reclaim_distance`).
const RECLAIM_DISTANCE: u32 = 30;

/// A set of nodes with CPUs: bit `n` is the node of [`NodeIdx`] `n`.
pub type NodeSet = u64;

/// One distinct distance, and who is that near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaLevel {
    distance: u32,
    spans: Vec<NodeSet>,
}

impl NumaLevel {
    /// The distance, 10 to 255.
    pub fn distance(&self) -> u32 {
        self.distance
    }

    /// The nodes that `node` has within the distance. Empty for a node without CPUs, and where the
    /// firmware has a node farther from itself than this.
    pub fn span(&self, node: NodeIdx) -> NodeSet {
        self.spans.get(node.as_usize()).copied().unwrap_or(0)
    }
}

/// What kind of level a domain belongs to; in brackets the kernel's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DomainKind {
    /// The CPUs of a core (SMT).
    Smt,
    /// The CPUs that share an LLC, the real one (MC).
    Llc,
    /// The CPUs of the node (PKG).
    Pkg,
    /// The nodes at the local distance, which is the node alone (NODE).
    Node,
    /// The nodes within this distance (NUMA).
    Numa(u32),
}

/// A scheduling domain of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Domain {
    /// Its level.
    pub kind: DomainKind,
    /// Online CPUs in its span (`span_weight`), at least 1.
    pub weight: u32,
    /// Its `imb_numa_nr` in tasks; 0 up to the LLC, at least 1 above it.
    pub imb_numa_nr: u32,
    /// The kernel removes it, as it tells apart nothing that the domains below it do not.
    pub degenerate: bool,
}

/// The levels of a machine and the domains of its CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    numa: Vec<NumaLevel>,
    /// Distinct chains of domains; CPUs mostly share one.
    chains: Vec<Vec<Domain>>,
    /// By CPU, its place in `chains`.
    chain_of: Vec<u16>,
    /// By node with CPUs.
    node_limits: Vec<u32>,
}

impl Levels {
    /// The levels of `machine`.
    pub fn of(machine: &Machine) -> Self {
        let numa = numa_levels(machine);
        let mut places = BTreeMap::new();
        let mut chains = Vec::new();
        let chain_of = machine
            .cpus()
            .iter()
            .map(|cpu| {
                let smt = machine.cores()[cpu.core.as_usize()].cpus.len() as u32;
                let llc = cache_weight(&machine.llcs()[cpu.llc.as_usize()]);
                *places.entry((cpu.node, llc, smt)).or_insert_with(|| {
                    let node = &machine.nodes()[cpu.node.as_usize()];
                    chains.push(chain(machine, &numa, node, llc, smt));
                    (chains.len() - 1) as u16
                })
            })
            .collect();
        let limit = |node: &Node| node_limit(machine, node);
        Self {
            numa,
            chains,
            chain_of,
            node_limits: machine.cpu_nodes().iter().map(limit).collect(),
        }
    }

    /// The levels, nearest first. The first, of the local distance, is the node itself.
    pub fn numa_levels(&self) -> &[NumaLevel] {
        &self.numa
    }

    /// The domains of a CPU, bottom up, those that the kernel removes included.
    ///
    /// # Panics
    /// If the CPU is not of the machine.
    pub fn domains(&self, cpu: CpuIdx) -> &[Domain] {
        &self.chains[self.chain_of[cpu.as_usize()] as usize]
    }

    /// The domain of a CPU at a level, the number of which counts from 0 in
    /// [`Levels::numa_levels`]. At the first it is the one right above the LLC. `None` if a narrower
    /// domain holds every CPU already, so that the kernel has none.
    ///
    /// # Panics
    /// If the CPU is not of the machine.
    pub fn domain_at(&self, cpu: CpuIdx, level: usize) -> Option<&Domain> {
        let kind = match level {
            0 => DomainKind::Pkg,
            _ => DomainKind::Numa(self.numa.get(level)?.distance),
        };
        self.domains(cpu).iter().find(|domain| domain.kind == kind)
    }

    /// Up to how many running tasks a node counts as lightly loaded (rule R2): imb_numa_nr right
    /// above the LLC, which the node's CPUs have on their first NUMA level, too. At least 1.
    ///
    /// Wider levels may have more. So may the first that the kernel keeps, where the one before it
    /// adds nothing to this node and is removed; that is no number of the node's own.
    ///
    /// Where the node's CPUs disagree (LLCs of different sizes, or one with CPUs offline), what most
    /// of them have, the smaller number on a tie. A machine of one LLC has no such domain; the
    /// number is what it would have. 0 for a node without CPUs, which has no tasks.
    pub fn node_limit(&self, node: NodeIdx) -> u32 {
        self.node_limits.get(node.as_usize()).copied().unwrap_or(0)
    }

    /// Whether the spans of the local distance are equal or disjoint. If not, because firmware calls
    /// a remote node local in some pairs only, the kernel complains and builds no domains at all;
    /// the numbers here are then what each CPU would have on its own.
    pub fn sane(&self) -> bool {
        let spans = self.numa.first().map_or(&[][..], |level| &level.spans);
        let distinct = |a: &NodeSet, b: &NodeSet| a == b || a & b == 0;
        spans.iter().all(|a| spans.iter().all(|b| distinct(a, b)))
    }
}

/// Online CPUs of the real LLC.
fn cache_weight(llc: &Llc) -> u32 {
    llc.cache_cpus.len() as u32
}

fn numa_levels(machine: &Machine) -> Vec<NumaLevel> {
    let nodes = || machine.cpu_nodes().iter().map(|node| node.idx);
    let mut distances: Vec<u32> = nodes()
        .flat_map(|from| nodes().map(move |to| machine.distance(from, to)))
        .collect();
    distances.sort_unstable();
    distances.dedup();
    let span = |from: NodeIdx, distance: u32| {
        nodes()
            .filter(|&to| machine.distance(from, to) <= distance)
            .fold(0, |set, to| set | 1 << to.0)
    };
    distances
        .into_iter()
        .map(|distance| NumaLevel {
            distance,
            spans: nodes().map(|from| span(from, distance)).collect(),
        })
        .collect()
}

/// The nodes within the first `levels` levels of the node `at`.
///
/// The kernel adds what a lower domain has and a higher one lacks, as when firmware has a node
/// farther from itself than from others.
fn reach(numa: &[NumaLevel], at: usize, levels: usize) -> NodeSet {
    let spans = numa[..levels].iter().map(|level| level.spans[at]);
    spans.fold(1 << at, |nodes, span| nodes | span)
}

/// Is the domain of `at` on a level of the kernel's a single group? Groups are made of the domains
/// that its CPUs have on that level, and those that reach every node on a lower one have none.
fn single_group(numa: &[NumaLevel], at: usize, level: usize) -> bool {
    let news = reach(numa, at, level + 1) & !reach(numa, at, level);
    let nodes = numa[level].spans.len();
    let ended = |node: &usize| reach(numa, *node, level).count_ones() as usize == nodes;
    news != 0
        && (0..nodes)
            .filter(|node| news >> node & 1 == 1)
            .all(|node| ended(&node))
}

/// The domains of a CPU in `node` whose real LLC has `llc` CPUs and whose core has `smt`.
fn chain(machine: &Machine, numa: &[NumaLevel], node: &Node, llc: u32, smt: u32) -> Vec<Domain> {
    let mut spans = vec![
        (DomainKind::Smt, smt),
        (DomainKind::Llc, llc),
        (DomainKind::Pkg, node.weight()),
    ];
    for (at, level) in numa.iter().enumerate() {
        let nodes = reach(numa, node.idx.as_usize(), at + 1);
        let kind = match at {
            0 => DomainKind::Node,
            _ => DomainKind::Numa(level.distance),
        };
        spans.push((kind, weight_of(machine, nodes)));
    }
    let all = machine.cpus().len() as u32;
    if let Some(top) = spans.iter().position(|&(_, weight)| weight == all) {
        spans.truncate(top + 1);
    }

    let first_numa = spans
        .iter()
        .find(|(kind, _)| matches!(kind, DomainKind::Numa(_)))
        .map_or(node.weight(), |&(_, weight)| weight);
    let above_llc = imb_above_llc(node.weight(), llc);
    let pointless = |kind| match kind {
        DomainKind::Numa(distance) if distance > RECLAIM_DISTANCE => {
            let level = numa.iter().position(|level| level.distance == distance);
            level.is_some_and(|level| single_group(numa, node.idx.as_usize(), level))
        }
        _ => false,
    };
    let mut below = 0;
    let mut domains = Vec::with_capacity(spans.len());
    for (kind, weight) in spans {
        domains.push(Domain {
            kind,
            weight,
            imb_numa_nr: match kind {
                DomainKind::Smt | DomainKind::Llc => 0,
                _ => above_llc * (weight / first_numa).max(1),
            },
            degenerate: weight == 1 || weight == below || pointless(kind),
        });
        below = weight;
    }
    domains
}

/// imb_numa_nr of the domain of `span` CPUs right above an LLC of `llc` CPUs.
fn imb_above_llc(span: u32, llc: u32) -> u32 {
    match span / llc {
        1 => (span / 8).max(1),
        llcs => llcs.max(1),
    }
}

fn weight_of(machine: &Machine, nodes: NodeSet) -> u32 {
    machine
        .cpu_nodes()
        .iter()
        .filter(|node| nodes & 1 << node.idx.0 != 0)
        .map(Node::weight)
        .sum()
}

fn node_limit(machine: &Machine, node: &Node) -> u32 {
    let mut votes: BTreeMap<u32, u32> = BTreeMap::new();
    for llc in &machine.llcs()[node.llcs.start as usize..node.llcs.end as usize] {
        let imb = imb_above_llc(node.weight(), cache_weight(llc));
        *votes.entry(imb).or_default() += llc.weight();
    }
    // Of equal maxima max_by_key takes the last.
    let most = votes.into_iter().rev().max_by_key(|&(_, cpus)| cpus);
    most.map_or(0, |(imb, _)| imb)
}
