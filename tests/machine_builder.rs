// SPDX-License-Identifier: GPL-2.0-only
//! What always holds of a machine, on random ones; what the builder refuses; and agreement with
//! scx_utils on the machine that the test runs on.

use proptest::prelude::*;
use scx_ballast::machine::{CpuDesc, Machine, MachineBuilder, MachineError};
use std::collections::BTreeSet;

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

/// The invariants of the module comment of `machine`.
fn check(machine: &Machine, descs: &[CpuDesc]) {
    let (nodes, llcs, cores, cpus) = (
        machine.nodes(),
        machine.llcs(),
        machine.cores(),
        machine.cpus(),
    );
    assert!(
        nodes
            .iter()
            .enumerate()
            .all(|(at, node)| node.idx.as_usize() == at)
    );
    assert!(
        llcs.iter()
            .enumerate()
            .all(|(at, llc)| llc.idx.as_usize() == at)
    );
    assert!(
        cores
            .iter()
            .enumerate()
            .all(|(at, core)| core.idx.as_usize() == at)
    );
    assert!(
        cpus.iter()
            .enumerate()
            .all(|(at, cpu)| cpu.idx.as_usize() == at)
    );

    // Nodes with CPUs first, both kinds by id; their ranges follow each other.
    assert!(nodes.is_sorted_by_key(|node| (node.memory_only, node.id)));
    assert_eq!(
        machine.cpu_nodes().len(),
        nodes.iter().filter(|node| !node.memory_only).count()
    );
    let mut ends = (0, 0, 0);
    for node in nodes {
        assert_eq!((node.llcs.start, node.cores.start, node.cpus.start), ends);
        ends = (node.llcs.end, node.cores.end, node.cpus.end);
        assert_eq!(node.memory_only, node.weight() == 0);
        assert_eq!(node.memory_only, node.llcs.is_empty());
        for llc in &llcs[node.llcs.start as usize..node.llcs.end as usize] {
            assert_eq!(llc.node, node.idx);
        }
    }
    assert_eq!(
        ends,
        (llcs.len() as u16, cores.len() as u16, cpus.len() as u16)
    );

    // LLCs follow each other, each with its CPUs by kernel id and its cores.
    let mut ends = (0, 0);
    for llc in llcs {
        assert_eq!((llc.cores.start, llc.cpus.start), ends);
        ends = (llc.cores.end, llc.cpus.end);
        assert!(llc.weight() > 0);
        assert_eq!(llc.is_virtual, llc.cache_cpus != llc.cpus);
        assert!(machine.kernel_ids(&llc.cpus).is_sorted());
        for cpu in &cpus[llc.cpus.start as usize..llc.cpus.end as usize] {
            assert_eq!((cpu.llc, cpu.node), (llc.idx, llc.node));
            assert!(llc.cores.contains(&cpu.core.0));
            assert!(cores[cpu.core.as_usize()].cpus.contains(&cpu.idx));
        }
    }
    let in_cores: usize = cores.iter().map(|core| core.cpus.len()).sum();
    assert_eq!(in_cores, cpus.len());

    // Every CPU is there, and shares exactly what it was said to share.
    assert_eq!(cpus.len(), descs.len());
    for a in descs {
        let one = machine.cpu_by_id(a.id).unwrap();
        assert_eq!(nodes[one.node.as_usize()].id, a.node);
        for b in descs {
            let other = machine.cpu_by_id(b.id).unwrap();
            let same_llc = (a.node, a.llc) == (b.node, b.llc);
            let same_core = same_llc && a.core == b.core;
            assert_eq!(one.core == other.core, same_core);
            let cut = llcs[one.llc.as_usize()].is_virtual;
            assert!(cut || (one.llc == other.llc) == same_llc);
            let cache = &llcs[one.llc.as_usize()].cache_cpus;
            assert_eq!(cache.contains(&other.idx.0), same_llc);
        }
    }

    // Orders hold every node with CPUs once, the node itself first.
    for node in nodes {
        let order = machine.nearest_first(node.idx);
        assert_eq!(
            order.iter().collect::<BTreeSet<_>>().len(),
            machine.nr_cpu_nodes()
        );
        assert!(
            order
                .iter()
                .all(|other| other.as_usize() < machine.nr_cpu_nodes())
        );
        assert!(node.memory_only || order[0] == node.idx);
        let others = &order[usize::from(!node.memory_only)..];
        assert!(others.is_sorted_by_key(|&other| machine.distance(node.idx, other)));
    }
}

fn machines() -> impl Strategy<Value = (MachineBuilder, Vec<CpuDesc>)> {
    let node = prop::sample::select(vec![0u32, 1, 3, 8, 252]);
    let places = prop::collection::btree_map(0u32..200, (node, 0u32..4, 0u32..6), 1..60);
    let distances = prop::collection::vec(10u32..=255, 25);
    let virt = prop::option::of((1usize..4, 0usize..4).prop_map(|(min, more)| (min, min + more)));
    (places, distances, virt).prop_map(|(places, distances, virt)| {
        let mut builder = MachineBuilder::new();
        let nodes = [252, 3, 0, 8, 1];
        for (row, from) in nodes.into_iter().enumerate() {
            builder.node(from, None);
            for (column, to) in nodes.into_iter().enumerate() {
                builder.distance(from, to, distances[row * 5 + column]);
            }
        }
        let place = |(id, (node, llc, core))| cpu(id, node, llc, core);
        let descs: Vec<CpuDesc> = places.into_iter().map(place).collect();
        for desc in descs.iter().rev() {
            builder.cpu(*desc);
        }
        builder.virt_llc(virt);
        (builder, descs)
    })
}

proptest! {
    #[test]
    fn invariants_hold((builder, descs) in machines()) {
        check(&builder.build().unwrap(), &descs);
    }
}

#[test]
fn llcs_and_cores_are_numbered_by_their_lowest_cpu() {
    let mut builder = MachineBuilder::new();
    builder.node(4, None).node(2, Some(2048)).node(3, Some(1));
    // Node 4: the LLC with key 9 holds CPU 0; node 2: two cores that interleave.
    for desc in [
        cpu(5, 4, 1, 0),
        cpu(0, 4, 9, 0),
        cpu(7, 2, 0, 1),
        cpu(1, 2, 0, 1),
        cpu(3, 2, 0, 0),
        cpu(9, 2, 0, 0),
    ] {
        builder.cpu(desc);
    }
    builder.distance(2, 4, 17);
    let machine = builder.build().unwrap();

    let nodes: Vec<_> = machine
        .nodes()
        .iter()
        .map(|node| (node.id, node.weight(), node.memory_only))
        .collect();
    assert_eq!(nodes, [(2, 4, false), (4, 2, false), (3, 0, true)]);
    let cpus: Vec<_> = machine
        .cpus()
        .iter()
        .map(|cpu| (cpu.id, cpu.core.0, cpu.llc.0))
        .collect();
    assert_eq!(
        cpus,
        [
            (1, 0, 0),
            (3, 1, 0),
            (7, 0, 0),
            (9, 1, 0),
            (0, 2, 1),
            (5, 3, 2)
        ]
    );
    assert_eq!(machine.nr_cpu_ids(), 10);
    assert!(machine.smt());
    assert_eq!(machine.node_by_id(3).unwrap().memory_mib, Some(1));
    let [two, four, three] = [0, 1, 2].map(|at: usize| machine.nodes()[at].idx);
    assert_eq!(machine.distance(two, four), 17);
    assert_eq!(machine.distance(four, two), 20);
    assert_eq!(machine.distance(three, three), 10);
}

#[test]
fn a_uniform_machine_is_what_it_says() {
    let machine = MachineBuilder::uniform(4, 3, 2, 2).build().unwrap();
    assert_eq!((machine.nodes().len(), machine.llcs().len()), (4, 12));
    assert_eq!((machine.cores().len(), machine.cpus().len()), (24, 48));
    assert_eq!(machine.nodes()[3].cpus, 36..48);
    assert_eq!(machine.llcs()[11].cores, 22..24);
    assert!(!MachineBuilder::uniform(1, 1, 4, 1).build().unwrap().smt());
}

fn refusal(describe: impl FnOnce(&mut MachineBuilder) -> &mut MachineBuilder) -> String {
    let mut builder = MachineBuilder::uniform(2, 1, 2, 1);
    describe(&mut builder).build().unwrap_err().to_string()
}

#[test]
fn contradictions_are_refused() {
    assert!(matches!(
        MachineBuilder::new().build(),
        Err(MachineError::NoCpus)
    ));
    assert_eq!(
        refusal(|b| b.cpu(cpu(1, 0, 0, 0))),
        "CPU 1 is described twice"
    );
    assert_eq!(refusal(|b| b.node(1, None)), "node 1 is described twice");
    assert_eq!(
        refusal(|b| b.cpu(cpu(9, 5, 0, 0))),
        "node 5 is used but not described"
    );
    assert_eq!(
        refusal(|b| b.distance(0, 7, 20)),
        "node 7 is used but not described"
    );
    assert_eq!(
        refusal(|b| b.nr_cpu_ids(3)),
        "CPU 3 does not exist: CPU ids end at 2"
    );
    assert_eq!(
        refusal(|b| b.distance(0, 1, 9)),
        "distance 9 from node 0 to node 1: need 10 to 255"
    );
    assert_eq!(
        refusal(|b| b.distance(1, 0, 256)),
        "distance 256 from node 1 to node 0: need 10 to 255"
    );
    assert_eq!(
        refusal(|b| b.virt_llc(Some((4, 2)))),
        "virtual LLCs of 4 to 2 cores: need 1 <= minimum <= maximum"
    );
}

#[test]
fn limits_are_exact() {
    let build = |nodes, llcs, cores| MachineBuilder::uniform(nodes, llcs, cores, 1).build();
    for (most, more, named) in [
        ((64, 1, 1), (65, 1, 1), "65 nodes, but"),
        ((1, 64, 1), (1, 65, 1), "65 LLCs in node 0, but"),
        ((16, 64, 1), (41, 25, 1), "1025 LLCs, but"),
        (
            (1, 1, 512),
            (1, 1, 513),
            "513 CPUs in the LLC of CPU 0, but",
        ),
        ((64, 16, 4), (64, 16, 5), "5120 possible CPU ids, but"),
    ] {
        assert!(build(most.0, most.1, most.2).is_ok(), "{most:?}");
        let refusal = build(more.0, more.1, more.2).unwrap_err().to_string();
        assert!(refusal.starts_with(named), "{refusal}");
    }
    let mut split = MachineBuilder::uniform(1, 1, 1024, 1);
    assert_eq!(
        split.virt_llc(Some((16, 16))).build().unwrap().llcs().len(),
        64
    );
    let refusal = split
        .virt_llc(Some((15, 15)))
        .build()
        .unwrap_err()
        .to_string();
    assert!(
        refusal.ends_with("a --virt-llc of more cores makes fewer"),
        "{refusal}"
    );
}

/// Where the ids in sysfs mean what they should, scx_utils sees the same nodes, CPUs and cores.
/// LLCs are not compared: those are told apart in another way on purpose.
#[test]
fn scx_utils_sees_the_same_machine() {
    let machine = Machine::detect(None).unwrap();
    let theirs = scx_utils::Topology::new().unwrap();
    let their_nodes: BTreeSet<(usize, Vec<usize>)> = theirs
        .nodes
        .values()
        .map(|node| (node.id, node.all_cpus.keys().copied().collect()))
        .collect();
    let our_nodes = machine.nodes().iter().map(|node| {
        let mut cpus: Vec<usize> = machine
            .kernel_ids(&node.cpus)
            .map(|id| id as usize)
            .collect();
        cpus.sort_unstable();
        (node.id as usize, cpus)
    });
    assert_eq!(our_nodes.collect::<BTreeSet<_>>(), their_nodes);
    assert_eq!(machine.cores().len(), theirs.all_cores.len());
    assert!(machine.nr_cpu_ids() >= *scx_utils::NR_CPU_IDS);
}
