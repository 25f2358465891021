// SPDX-License-Identifier: GPL-2.0-only
//! NUMA levels, domains and imb_numa_nr against numbers worked out by hand from the kernel's
//! arithmetic, and what always holds of them on random machines.

use proptest::prelude::*;
use scx_ballast::machine::{CpuDesc, CpuIdx, DomainKind, Levels, Machine, MachineBuilder, NodeIdx};

fn cpu(id: u32, node: u32, llc: u32, core: u32) -> CpuDesc {
    CpuDesc {
        id,
        node,
        llc,
        core,
        level: Some(3),
        little: false,
    }
}

fn uniform(nodes: u32, llcs: u32, cores: u32, threads: u32) -> Machine {
    MachineBuilder::uniform(nodes, llcs, cores, threads)
        .build()
        .unwrap()
}

/// Nodes of one LLC of `cpus` CPUs with this matrix of distances.
fn mesh<const N: usize>(cpus: u32, distances: [[u32; N]; N]) -> Machine {
    let mut builder = MachineBuilder::uniform(N as u32, 1, cpus, 1);
    for (from, row) in distances.into_iter().enumerate() {
        for (to, distance) in row.into_iter().enumerate() {
            builder.distance(from as u32, to as u32, distance);
        }
    }
    builder.build().unwrap()
}

/// All domains of a CPU as `kind:weight:imb`, the removed ones in brackets.
fn chain(levels: &Levels, cpu: u16) -> String {
    let domains = levels.domains(CpuIdx(cpu)).iter().map(|domain| {
        let kind = match domain.kind {
            DomainKind::Smt => "smt".to_owned(),
            DomainKind::Llc => "llc".to_owned(),
            DomainKind::Pkg => "pkg".to_owned(),
            DomainKind::Node => "node".to_owned(),
            DomainKind::Numa(distance) => distance.to_string(),
        };
        let text = format!("{kind}:{}:{}", domain.weight, domain.imb_numa_nr);
        match domain.degenerate {
            true => format!("({text})"),
            false => text,
        }
    });
    domains.collect::<Vec<_>>().join(" ")
}

/// Spans of a level, one set of nodes per node.
fn spans(levels: &Levels, level: usize, nodes: u16) -> Vec<u64> {
    let level = &levels.numa_levels()[level];
    (0..nodes).map(|node| level.span(NodeIdx(node))).collect()
}

fn distances(levels: &Levels) -> Vec<u32> {
    levels.numa_levels().iter().map(|l| l.distance()).collect()
}

/// One LLC per node: 4 / 8, 8 / 8, 16 / 8, at least 1. PKG goes, as it equals the LLC.
#[test]
fn one_llc_per_node_gives_an_eighth() {
    let levels = Levels::of(&uniform(2, 1, 4, 1));
    assert_eq!(
        chain(&levels, 0),
        "(smt:1:0) llc:4:0 (pkg:4:1) (node:4:1) 20:8:1"
    );
    let levels = Levels::of(&uniform(2, 1, 8, 1));
    assert_eq!(
        chain(&levels, 15),
        "(smt:1:0) llc:8:0 (pkg:8:1) (node:8:1) 20:16:1"
    );
    let levels = Levels::of(&uniform(2, 1, 16, 1));
    assert_eq!(
        chain(&levels, 31),
        "(smt:1:0) llc:16:0 (pkg:16:2) (node:16:2) 20:32:2"
    );
    assert_eq!(levels.node_limit(NodeIdx(1)), 2);
    // 23 / 8 is cut off.
    assert_eq!(Levels::of(&uniform(2, 1, 23, 1)).node_limit(NodeIdx(0)), 2);
}

/// 2x8llc4: 8 / 2 = 4 LLCs. Here PKG is wider than the LLC and stays.
#[test]
fn several_llcs_give_their_number() {
    let levels = Levels::of(&uniform(2, 4, 2, 1));
    assert_eq!(
        chain(&levels, 3),
        "(smt:1:0) llc:2:0 pkg:8:4 (node:8:4) 20:16:4"
    );
    assert_eq!(levels.node_limit(NodeIdx(0)), 4);
}

/// Siblings make a domain of their own and count as CPUs: 32 / 8 = 4.
#[test]
fn siblings_count_as_cpus() {
    let levels = Levels::of(&uniform(2, 1, 16, 2));
    assert_eq!(
        chain(&levels, 0),
        "smt:2:0 llc:32:0 (pkg:32:4) (node:32:4) 20:64:4"
    );
    // An LLC that is one core: 4 of them in a node, and MC equals SMT.
    let levels = Levels::of(&uniform(2, 4, 1, 8));
    assert_eq!(
        chain(&levels, 0),
        "smt:8:0 (llc:8:0) pkg:32:4 (node:32:4) 20:64:4"
    );
}

/// Nodes of one CPU: everything inside them goes, 1 / 8 is raised to 1.
#[test]
fn nodes_of_one_cpu_keep_the_numa_domain_alone() {
    let levels = Levels::of(&uniform(2, 1, 1, 1));
    assert_eq!(
        chain(&levels, 1),
        "(smt:1:0) (llc:1:0) (pkg:1:1) (node:1:1) 20:2:1"
    );
}

/// Building stops where a domain holds every CPU.
#[test]
fn one_node_has_no_numa_domain() {
    let levels = Levels::of(&uniform(1, 1, 16, 2));
    assert_eq!(chain(&levels, 0), "smt:2:0 llc:32:0");
    // No domain above the LLC; the limit is what there would be, 32 / 8.
    assert_eq!(levels.node_limit(NodeIdx(0)), 4);
    assert_eq!(levels.domain_at(CpuIdx(0), 0), None);
    assert_eq!(distances(&levels), [10]);

    let levels = Levels::of(&uniform(1, 2, 8, 1));
    assert_eq!(chain(&levels, 0), "(smt:1:0) llc:8:0 pkg:16:2");

    let levels = Levels::of(&uniform(1, 1, 1, 1));
    assert_eq!(chain(&levels, 0), "(smt:1:0)");
    assert_eq!(levels.node_limit(NodeIdx(0)), 1);
}

/// 4x4 of the lab, the distances of x3750-4n-64: two near neighbours and a far node each. The spans
/// at 11 overlap and are all different. First NUMA span 12: factors 12 / 12 and 16 / 12, so 1.
#[test]
fn a_ring_has_overlapping_spans() {
    let machine = mesh(
        4,
        [
            [10, 11, 11, 12],
            [11, 10, 12, 11],
            [11, 12, 10, 11],
            [12, 11, 11, 10],
        ],
    );
    let levels = Levels::of(&machine);
    assert_eq!(distances(&levels), [10, 11, 12]);
    assert_eq!(spans(&levels, 0, 4), [0b0001, 0b0010, 0b0100, 0b1000]);
    assert_eq!(spans(&levels, 1, 4), [0b0111, 0b1011, 0b1101, 0b1110]);
    assert_eq!(spans(&levels, 2, 4), [0b1111; 4]);
    for cpu in [0, 5, 15] {
        assert_eq!(
            chain(&levels, cpu),
            "(smt:1:0) llc:4:0 (pkg:4:1) (node:4:1) 11:12:1 12:16:1"
        );
    }
    assert!(levels.sane());
}

/// A line of four nodes of 16 CPUs: 16 / 8 = 2. The ends see one neighbour first (span 32), the
/// middle two (span 48) and everything one level earlier, where their chains end. Factors at the
/// ends: 32 / 32 = 1, 48 / 32 = 1, 64 / 32 = 2; in the middle 48 / 48 and 64 / 48, so 1.
#[test]
fn in_a_line_ends_and_middle_differ() {
    let machine = mesh(
        16,
        [
            [10, 20, 30, 40],
            [20, 10, 20, 30],
            [30, 20, 10, 20],
            [40, 30, 20, 10],
        ],
    );
    let levels = Levels::of(&machine);
    assert_eq!(spans(&levels, 1, 4), [0b0011, 0b0111, 0b1110, 0b1100]);
    let inside = "(smt:1:0) llc:16:0 (pkg:16:2) (node:16:2)";
    let end = format!("{inside} 20:32:2 30:48:2 40:64:4");
    let middle = format!("{inside} 20:48:2 30:64:2");
    for (node, expected) in [&end, &middle, &middle, &end].into_iter().enumerate() {
        assert_eq!(chain(&levels, node as u16 * 16), *expected);
    }
    assert_eq!(levels.domain_at(CpuIdx(16), 3), None);
    assert_eq!(levels.domain_at(CpuIdx(0), 3).unwrap().imb_numa_nr, 4);
}

/// Eight nodes of 8 CPUs in two sockets of four: 12 inside a socket, 32 outside. 8 / 8 = 1; first
/// NUMA span 32, so 64 / 32 = 2 on top.
#[test]
fn eight_nodes_in_two_sockets() {
    let distance = |a: usize, b: usize| match (a == b, a / 4 == b / 4) {
        (true, _) => 10,
        (_, true) => 12,
        _ => 32,
    };
    let matrix: [[u32; 8]; 8] = std::array::from_fn(|a| std::array::from_fn(|b| distance(a, b)));
    let levels = Levels::of(&mesh(8, matrix));
    assert_eq!(
        chain(&levels, 63),
        "(smt:1:0) llc:8:0 (pkg:8:1) (node:8:1) 12:32:1 32:64:2"
    );
}

/// Eight nodes of 8 CPUs around a ring: three nodes within 16, all but the opposite one within 22.
/// First NUMA span 3 * 8 = 24; 56 / 24 = 2 and 64 / 24 = 2.
#[test]
fn eight_nodes_with_three_distances() {
    // Distance by the steps around the ring: 1 near, 2 and 3 farther, 4 farthest.
    let distance = |a: usize, b: usize| {
        let steps = a.abs_diff(b).min(8 - a.abs_diff(b));
        [10, 16, 22, 22, 28][steps]
    };
    let matrix: [[u32; 8]; 8] = std::array::from_fn(|a| std::array::from_fn(|b| distance(a, b)));
    let levels = Levels::of(&mesh(8, matrix));
    assert_eq!(
        chain(&levels, 0),
        "(smt:1:0) llc:8:0 (pkg:8:1) (node:8:1) 16:24:1 22:56:2 28:64:2"
    );
    assert_eq!(spans(&levels, 1, 8)[0], 0b1000_0011);
    assert_eq!(spans(&levels, 2, 8)[3], 0b0111_1111);
}

/// A level that adds nothing for some nodes: its domain there equals the one below and goes.
/// Nodes 0 and 1 are a pair at 15 and node 2 is 20 away from both: for node 2 nothing is at 15.
/// 8 / 8 = 1. Node 2's first NUMA domain is its own 8 CPUs, so the next has 24 / 8 = 3.
#[test]
fn a_level_without_news_is_removed_but_still_scales() {
    let levels = Levels::of(&mesh(8, [[10, 15, 20], [15, 10, 20], [20, 20, 10]]));
    let inside = "(smt:1:0) llc:8:0 (pkg:8:1) (node:8:1)";
    assert_eq!(chain(&levels, 0), format!("{inside} 15:16:1 20:24:1"));
    assert_eq!(chain(&levels, 16), format!("{inside} (15:8:1) 20:24:3"));
    assert_eq!(levels.node_limit(NodeIdx(2)), 1);
}

/// 3+5: 3 / 8 and 5 / 8, raised to 1. With 16 + 40 CPUs 2 and 5, per node.
#[test]
fn nodes_of_unequal_size_have_their_own_numbers() {
    let unequal = |first: u32, all: u32| {
        let mut builder = MachineBuilder::new();
        builder.node(0, None).node(1, None);
        for id in 0..all {
            builder.cpu(cpu(id, u32::from(id >= first), 0, id));
        }
        Levels::of(&builder.build().unwrap())
    };
    let levels = unequal(3, 8);
    assert_eq!(
        chain(&levels, 0),
        "(smt:1:0) llc:3:0 (pkg:3:1) (node:3:1) 20:8:1"
    );
    let levels = unequal(16, 56);
    assert_eq!([0, 1].map(|node| levels.node_limit(NodeIdx(node))), [2, 5]);
    assert_eq!(
        chain(&levels, 55),
        "(smt:1:0) llc:40:0 (pkg:40:5) (node:40:5) 20:56:5"
    );
}

/// LLCs of 8, 4 and 4 CPUs in a node of 16: 16 / 8 = 2 for half of the CPUs, 16 / 4 = 4 for the
/// others; a tie, and the smaller counts for the node. With LLCs of 12 and 4, 16 / 12 is 1, which is
/// taken for a single LLC: 16 / 8 = 2.
#[test]
fn llcs_of_unequal_size_give_each_cpu_its_own_number() {
    let with = |sizes: &[u32]| {
        let mut builder = MachineBuilder::new();
        let mut id = 0;
        for node in 0..2 {
            builder.node(node, None);
            for (llc, &size) in sizes.iter().enumerate() {
                for _ in 0..size {
                    builder.cpu(cpu(id, node, llc as u32, id));
                    id += 1;
                }
            }
        }
        Levels::of(&builder.build().unwrap())
    };
    let levels = with(&[8, 4, 4]);
    assert_eq!(
        chain(&levels, 0),
        "(smt:1:0) llc:8:0 pkg:16:2 (node:16:2) 20:32:2"
    );
    assert_eq!(
        chain(&levels, 15),
        "(smt:1:0) llc:4:0 pkg:16:4 (node:16:4) 20:32:4"
    );
    assert_eq!(levels.node_limit(NodeIdx(0)), 2);
    assert_eq!(with(&[4, 4, 4, 8, 4]).node_limit(NodeIdx(1)), 6);
    let levels = with(&[12, 4]);
    assert_eq!(levels.domain_at(CpuIdx(0), 0).unwrap().imb_numa_nr, 2);
    assert_eq!(levels.domain_at(CpuIdx(12), 0).unwrap().imb_numa_nr, 4);
}

/// A CPU offline in one of 8 LLCs of 16: 127 / 16 = 7 for most, 127 / 15 = 8 in the LLC itself.
#[test]
fn an_offline_cpu_costs_its_node_one() {
    let mut builder = MachineBuilder::new();
    for node in 0..2 {
        builder.node(node, None);
    }
    for id in (0..256).filter(|&id| id != 5) {
        builder.cpu(cpu(id, id / 128, id / 16, id));
    }
    let levels = Levels::of(&builder.build().unwrap());
    assert_eq!(levels.node_limit(NodeIdx(0)), 7);
    assert_eq!(levels.node_limit(NodeIdx(1)), 8);
    assert_eq!(levels.domain_at(CpuIdx(0), 0).unwrap().imb_numa_nr, 8);
    assert_eq!(levels.domain_at(CpuIdx(20), 0).unwrap().imb_numa_nr, 7);
}

/// A memory-only node between the others makes no level, whatever its distance.
#[test]
fn a_node_without_cpus_makes_no_level() {
    let mut builder = MachineBuilder::uniform(2, 1, 8, 1);
    builder.node(2, Some(65536));
    for (a, b) in [(0, 2), (2, 0), (1, 2), (2, 1)] {
        builder.distance(a, b, 14);
    }
    let levels = Levels::of(&builder.build().unwrap());
    assert_eq!(distances(&levels), [10, 20]);
    assert_eq!(
        chain(&levels, 0),
        "(smt:1:0) llc:8:0 (pkg:8:1) (node:8:1) 20:16:1"
    );
    assert_eq!(levels.numa_levels()[1].span(NodeIdx(2)), 0);
    assert_eq!(levels.node_limit(NodeIdx(2)), 0);
}

/// As many nodes as a set of them has bits: 4 / 8 is raised to 1, 256 / 256 = 1.
#[test]
fn sets_of_nodes_hold_the_largest_machine() {
    let levels = Levels::of(&uniform(64, 1, 4, 1));
    assert_eq!(spans(&levels, 0, 64)[63], 1 << 63);
    assert_eq!(spans(&levels, 1, 64), [u64::MAX; 64]);
    assert_eq!(
        chain(&levels, 255),
        "(smt:1:0) llc:4:0 (pkg:4:1) (node:4:1) 20:256:1"
    );
}

/// The kernel knows nothing of virtual LLCs.
#[test]
fn virtual_llcs_change_nothing() {
    for (llcs, cores) in [(1, 32), (4, 8), (3, 7)] {
        let mut builder = MachineBuilder::uniform(2, llcs, cores, 2);
        let whole = Levels::of(&builder.build().unwrap());
        let machine = builder.virt_llc(Some((2, 4))).build().unwrap();
        assert!(machine.llcs().iter().all(|llc| llc.is_virtual));
        let split = Levels::of(&machine);
        for cpu in 0..machine.cpus().len() as u16 {
            assert_eq!(split.domains(CpuIdx(cpu)), whole.domains(CpuIdx(cpu)));
        }
        assert_eq!(split.node_limit(NodeIdx(0)), whole.node_limit(NodeIdx(0)));
    }
}

/// Firmware oddities: a remote node at the local distance; a node farther from itself than 10.
#[test]
fn odd_local_distances() {
    // All local: NODE holds everything and there is no NUMA domain.
    let levels = Levels::of(&mesh(16, [[10, 10], [10, 10]]));
    assert!(levels.sane());
    assert_eq!(chain(&levels, 0), "(smt:1:0) llc:16:0 (pkg:16:2) node:32:4");
    // One way only: the kernel builds nothing.
    assert!(!Levels::of(&mesh(2, [[10, 10], [20, 10]])).sane());
    // Node 1 is 40 from itself, so that nothing is within 10 or 20 of it but what PKG adds.
    let levels = Levels::of(&mesh(8, [[10, 20], [30, 40]]));
    assert!(levels.sane());
    assert_eq!(distances(&levels), [10, 20, 30, 40]);
    assert_eq!(
        chain(&levels, 8),
        "(smt:1:0) llc:8:0 (pkg:8:1) (node:8:1) (20:8:1) 30:16:2"
    );
    assert_eq!(
        chain(&levels, 0),
        "(smt:1:0) llc:8:0 (pkg:8:1) (node:8:1) 20:16:1"
    );
}

/// Node 2 reaches all within 40, so it has no domain on the level of 50 to make a group of, and beyond
/// 30 the kernel has no use for a domain of one group. Seen on 6.12 and 7.3.
#[test]
fn a_distant_level_of_one_group_is_removed() {
    let far = Levels::of(&mesh(2, [[10, 20, 50], [20, 10, 50], [40, 40, 10]]));
    assert_eq!(
        chain(&far, 0),
        "(smt:1:0) llc:2:0 (pkg:2:1) (node:2:1) 20:4:1 (40:4:1) (50:6:1)"
    );
    assert_eq!(
        chain(&far, 4),
        "(smt:1:0) llc:2:0 (pkg:2:1) (node:2:1) (20:2:1) 40:6:3"
    );
    let near = Levels::of(&mesh(2, [[10, 15, 30], [15, 10, 30], [20, 20, 10]]));
    assert_eq!(
        chain(&near, 0),
        "(smt:1:0) llc:2:0 (pkg:2:1) (node:2:1) 15:4:1 (20:4:1) 30:6:1"
    );
}

prop_compose! {
    fn machines()(
        nodes in 1u32..9,
        cpus in prop::collection::vec((0u32..8, 0u32..4, 0u32..4), 1..80),
        rows in prop::collection::vec(11u32..32, 64),
        steps in 1u32..8,
        symmetric in any::<bool>(),
        virt_llc in prop::option::of(1usize..4),
    ) -> Machine {
        let mut builder = MachineBuilder::new();
        for node in 0..nodes {
            builder.node(node, None);
        }
        for (id, &(node, llc, core)) in cpus.iter().enumerate() {
            builder.cpu(cpu(id as u32, node % nodes, llc, core));
        }
        for from in 0..nodes {
            for to in (0..nodes).filter(|&to| to != from) {
                let (a, b) = match symmetric {
                    true => (from.min(to), from.max(to)),
                    false => (from, to),
                };
                // Few distinct distances.
                builder.distance(from, to, 11 + rows[(a * 8 + b) as usize] / steps * steps);
            }
        }
        builder.virt_llc(virt_llc.map(|min| (min, min + 2))).build().unwrap()
    }
}

proptest! {
    #[test]
    fn what_always_holds(machine in machines()) {
        let levels = Levels::of(&machine);
        let all = machine.cpus().len() as u32;
        prop_assert!(levels.sane());

        let numa = levels.numa_levels();
        prop_assert!(numa.is_sorted_by(|a, b| a.distance() < b.distance()));
        for node in machine.cpu_nodes() {
            let spans: Vec<u64> = numa.iter().map(|level| level.span(node.idx)).collect();
            prop_assert_eq!(spans[0], 1 << node.idx.0);
            prop_assert!(spans.is_sorted_by(|a, b| a & b == *a));
            prop_assert_eq!(spans.last().unwrap().count_ones() as usize, machine.nr_cpu_nodes());
            prop_assert!(levels.node_limit(node.idx) >= 1);
            prop_assert!(levels.node_limit(node.idx) <= node.weight());
        }
        for cpu in machine.cpus() {
            let domains = levels.domains(cpu.idx);
            let (last, below) = domains.split_last().unwrap();
            prop_assert_eq!(last.weight, all);
            prop_assert!(below.iter().all(|domain| domain.weight < all));
            prop_assert!(domains.is_sorted_by(|a, b| a.weight <= b.weight));
            prop_assert!(domains.is_sorted_by(|a, b| a.kind < b.kind));
            prop_assert!(domains.is_sorted_by(|a, b| a.imb_numa_nr <= b.imb_numa_nr));
            for domain in domains {
                let inside = matches!(domain.kind, DomainKind::Smt | DomainKind::Llc);
                prop_assert_eq!(domain.imb_numa_nr == 0, inside);
            }
            // What remains grows strictly and, with equal distances there and back, loses no span of
            // two CPUs and more.
            let kept: Vec<u32> = domains.iter().filter(|d| !d.degenerate).map(|d| d.weight).collect();
            prop_assert!(kept.is_sorted_by(|a, b| a < b));
            let mut weights: Vec<u32> = domains.iter().map(|d| d.weight).filter(|&w| w > 1).collect();
            weights.dedup();
            let nodes = || machine.cpu_nodes().iter().map(|node| node.idx);
            let equal = |a, b| machine.distance(a, b) == machine.distance(b, a);
            if nodes().all(|a| nodes().all(|b| equal(a, b))) {
                prop_assert_eq!(kept, weights);
            }
        }
        for node in machine.cpu_nodes() {
            let own = |cpu: &&scx_ballast::machine::Cpu| cpu.node == node.idx;
            let mut numbers = machine.cpus().iter().filter(own).map(|cpu| {
                levels.domain_at(cpu.idx, 0).map_or(levels.node_limit(node.idx), |d| d.imb_numa_nr)
            });
            prop_assert!(numbers.any(|number| number == levels.node_limit(node.idx)));
        }
    }
}
