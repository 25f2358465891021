// SPDX-License-Identifier: GPL-2.0-only
//! Machines from text: what is understood, what is said of what is not, and that nothing panics.

use proptest::prelude::*;
use scx_ballast::machine::describe::{DescribeError, parse_text};
use scx_ballast::machine::{CpuIdx, DomainKind, Levels, Machine, NodeIdx, cpulist};

fn text(text: &str) -> Machine {
    parse_text(text).unwrap().build().unwrap()
}

/// The CPUs of each node in kernel notation, `memory` for none.
fn nodes(machine: &Machine) -> Vec<String> {
    machine
        .nodes()
        .iter()
        .map(|node| match node.memory_only {
            true => "memory".to_owned(),
            false => cpulist::format(machine.kernel_ids(&node.cpus)),
        })
        .collect()
}

fn llcs(machine: &Machine) -> Vec<String> {
    let list = |llc: &scx_ballast::machine::Llc| cpulist::format(machine.kernel_ids(&llc.cpus));
    machine.llcs().iter().map(list).collect()
}

fn cores(machine: &Machine) -> Vec<String> {
    let ids = |core: &scx_ballast::machine::Core| {
        let ids = core
            .cpus
            .iter()
            .map(|cpu| machine.cpus()[cpu.as_usize()].id);
        cpulist::format(ids)
    };
    machine.cores().iter().map(ids).collect()
}

/// The NUMA domains of a CPU, and that right above its LLC in front, as `distance:span:imb`.
fn numbers(machine: &Machine, cpu: u16) -> String {
    let levels = Levels::of(machine);
    let domains = levels.domains(CpuIdx(cpu)).iter().filter_map(|domain| {
        let name = match domain.kind {
            DomainKind::Pkg => "node".to_owned(),
            DomainKind::Numa(distance) => distance.to_string(),
            _ => return None,
        };
        Some(format!("{name}:{}:{}", domain.weight, domain.imb_numa_nr))
    });
    domains.collect::<Vec<_>>().join(" ")
}

const NUMACTL: &str = "\
available: 4 nodes (0-3)
node 0 cpus: 0 1 2 3
node 0 size: 65468 MB
node 0 free: 63069 MB
node 1 cpus: 4 5 6 7
node 1 size: 65536 MB
node 1 free: 63497 MB
node 2 cpus: 8 9 10 11
node 2 size: <not available>
node 3 cpus:
node 3 size: 131072 MB
node 3 free: 131000 MB
node distances:
node   0   1   2   3 
  0:  10  11  11  14 
  1:  11  10  12  14 
  2:  11  12  10  14 
  3:  14  14  14  10 
";

#[test]
fn numactl_tells_nodes_memory_and_distances() {
    let machine = text(NUMACTL);
    assert_eq!(nodes(&machine), ["0-3", "4-7", "8-11", "memory"]);
    assert_eq!(llcs(&machine), ["0-3", "4-7", "8-11"]);
    assert_eq!(machine.cores().len(), 12);
    let memory: Vec<_> = machine.nodes().iter().map(|node| node.memory_mib).collect();
    assert_eq!(memory, [Some(65468), Some(65536), None, Some(131072)]);
    assert_eq!(machine.distance(NodeIdx(1), NodeIdx(2)), 12);
    assert_eq!(machine.warnings().len(), 1);
    assert!(machine.warnings()[0].contains("each node is taken as one LLC"));
    // The node without CPUs makes no level.
    assert_eq!(numbers(&machine, 0), "node:4:1 11:12:1");
    assert_eq!(numbers(&machine, 4), "node:4:1 11:8:1 12:12:1");
}

#[test]
fn numactl_without_distances_is_warned_of() {
    let machine = text("node 0 cpus: 0\nnode 8 cpus: 5\nNo distance information available.\n");
    assert_eq!(machine.node_by_id(8).unwrap().cpus.len(), 1);
    assert!(machine.warnings()[1].contains("distances of node 0,8 are missing"));
}

/// Neither in the table nor from the command line.
#[test]
fn distances_that_no_firmware_tells_are_warned_of() {
    let near = text(&NUMACTL.replace("  0:  10  11  11  14", "  0:  20  10  11  14"));
    let warnings = near.warnings().join("\n");
    for why in [
        "the distance of node 0 to itself is not 10",
        "the distance from node 0 to node 1 is no more than 10",
        "the distance between nodes 0 and 1 depends on the direction",
    ] {
        assert!(warnings.contains(why), "{warnings}");
    }
    let short = Machine::describe("2 nodes x 4 cpus, distances 10,10/10,10", None).unwrap();
    assert!(short.warnings()[0].contains("(and 1 more) is no more than 10"));
    // With the mark that some editors begin a file with.
    assert_eq!(text(&format!("\u{feff}{NUMACTL}")).warnings().len(), 1);
}

const LSCPU: &str = "\
# The following is the parsable format, which can be fed to other
# programs. Each different item in every column has an unique ID
# starting usually from zero.
# CPU,Core,Socket,Node,,L1d,L1i,L2,L3
0,0,0,0,,0,0,0,0
1,1,0,0,,1,1,1,1
2,2,1,1,,2,2,2,2
3,3,1,1,,3,3,3,3
4,0,0,0,,0,0,0,0
5,1,0,0,,1,1,1,1
6,2,1,1,,2,2,2,2
7,3,1,1,,3,3,3,3
";

#[test]
fn lscpu_tells_nodes_caches_and_cores() {
    let machine = text(LSCPU);
    assert_eq!(nodes(&machine), ["0-1,4-5", "2-3,6-7"]);
    assert_eq!(llcs(&machine), ["0,4", "1,5", "2,6", "3,7"]);
    assert_eq!(cores(&machine), ["0,4", "1,5", "2,6", "3,7"]);
    assert_eq!(machine.llcs()[0].level, Some(3));
    assert_eq!(machine.warnings().len(), 1);
    assert!(machine.warnings()[0].contains("distances"));
    assert_eq!(numbers(&machine, 0), "node:4:2 20:8:2");
}

#[test]
fn lscpu_in_other_shapes() {
    // Without comments, caches joined; then with an empty column in front of single ones.
    let joined = text("0,0,0,0,0:0:0:0\n1,1,0,0,1:1:1:0\n");
    let single = text("0,0,0,0,,0,0,0,0\n1,1,0,0,,1,1,1,0\n");
    for machine in [joined, single] {
        assert_eq!(llcs(&machine), ["0-1"]);
        assert_eq!(machine.llcs()[0].level, Some(3));
        assert_eq!(cores(&machine), ["0", "1"]);
    }
    // A column of caches from older versions; L2 as the last; columns in another order.
    let old = text("# CPU,Node,Core,Socket,Cache\n0,0,0,0,0:0:0\n1,0,1,0,1:1:1\n");
    assert_eq!(llcs(&old), ["0", "1"]);
    assert_eq!(old.llcs()[0].level, Some(2));
    // An offline CPU, by its column or by being nowhere.
    let offline = text("# CPU,Core,Socket,Node,Online,L3\n0,0,0,0,Y,0\n1,1,0,0,N,0\n2,,,,,\n");
    assert_eq!(nodes(&offline), ["0"]);
    assert_eq!(offline.nr_cpu_ids(), 3);
    // 65 caches, each private to a core: too many to be LLCs, as for the running machine.
    let rows: String = (0..65)
        .map(|cpu| format!("{cpu},{cpu},0,0,,{cpu},{cpu},{cpu}\n"))
        .collect();
    let private = text(&rows);
    assert_eq!((private.llcs().len(), private.llcs()[0].level), (1, None));
    assert!(private.warnings()[0].contains("private to a core"));
    // One L3 across two nodes ends at each.
    let across = text("0,0,0,0,,0,0,0,0\n1,1,0,1,,1,1,1,0\n");
    assert_eq!(llcs(&across), ["0", "1"]);
    // No nodes, no caches, no cores: one of the first two, each CPU its own of the last.
    let bare = text("# CPU\n0\n1\n");
    assert_eq!((llcs(&bare).len(), bare.cores().len()), (1, 2));
    assert_eq!(bare.warnings().len(), 3);
}

#[test]
fn errors_name_the_line_and_what_is_there() {
    let numactl = |line: &str, instead: &str| NUMACTL.replace(line, instead);
    for (bad, line, found, expected) in [
        (String::new(), 1, "nothing", "numactl -H"),
        ("\n\nhello\n".into(), 3, "\"hello\"", "lscpu -p"),
        (
            "No NUMA available on this system".into(),
            1,
            "No NUMA",
            "with NUMA",
        ),
        (
            numactl("node 1 cpus: 4", "node 1 cpus: 3"),
            5,
            "CPU 3, which node 0 has",
            "once",
        ),
        (
            numactl("node 1 cpus: 4 5", "node 1 cpus: 4 x"),
            5,
            "\"x\"",
            "number of a CPU",
        ),
        (
            numactl("node 1 cpus: 4 5", "node 1 cpus: -4"),
            5,
            "\"-4\"",
            "number of a CPU",
        ),
        (
            numactl("node 1 cpus:", "node 0 cpus:"),
            5,
            "node 0 again",
            "once",
        ),
        (
            numactl("node 1 cpus:", "node 7 cpus:"),
            6,
            "node 1",
            "node 1 cpus:",
        ),
        (numactl("65536 MB", "lots"), 6, "\"lots\"", "65536 MB"),
        (
            numactl("available: 4", "available: 5"),
            1,
            "5 nodes announced, 4",
            "same",
        ),
        (
            numactl("  1:  11  10  12  14", "  1:  11  10"),
            16,
            "2 distance(s)",
            "4",
        ),
        (
            numactl("  1:  11  10", "  1:  1x  10"),
            16,
            "\"1x\"",
            "10 to 255",
        ),
        (
            numactl("  1:  11  10", "  1:  11  300"),
            16,
            "\"300\"",
            "10 to 255",
        ),
        (numactl("  2:", "  1:"), 17, "node 1 again", "once"),
        (
            numactl("node   0   1", "node   0   0"),
            14,
            "node 0 again",
            "once",
        ),
        (
            numactl("node distances:", "nodes"),
            13,
            "\"nodes\"",
            "distances",
        ),
        ("node 0 cpus:\n".into(), 2, "no CPU", "with CPUs"),
        ("available: 1 nodes (0)\n".into(), 2, "no node", "cpus:"),
        (LSCPU.replace("3,3,1,1,,", "3,3,1,"), 8, "7 value(s)", "9"),
        (
            LSCPU.replace("3,3,1,1,", "3,3,1,1,,"),
            8,
            "10 value(s)",
            "9",
        ),
        (
            LSCPU.replace("3,3,1,1,,3", "3,3,1,,,3"),
            8,
            "CPU 3 without a node",
            "each CPU",
        ),
        (
            LSCPU.replace("3,3,1,1,", "2,3,1,1,"),
            8,
            "CPU 2, as on line 7",
            "once",
        ),
        (
            LSCPU.replace("3,3,1,1,", "3,x,1,1,"),
            8,
            "\"x\"",
            "column CORE",
        ),
        (
            LSCPU.replace("3,3,1,1,,3,3,3,3", "3,3,1,1,,3,3,3,y"),
            8,
            "\"y\"",
            "column L3",
        ),
        (
            "# CPU,Core,Socket,Node\n".into(),
            2,
            "no online CPU",
            "one per CPU",
        ),
        ("0,0\n".into(), 1, "2 value(s)", "CPU,Core"),
    ] {
        let error = parse_text(&bad).unwrap_err();
        assert_eq!(error.line, line, "{error} in {bad}");
        assert!(error.found.contains(found), "{error}");
        assert!(error.expected.contains(expected), "{error}");
    }
}

#[test]
fn long_and_odd_words_are_cut_and_escaped_in_errors() {
    let error = parse_text(&format!("\u{1b}[31m{}", "é".repeat(500))).unwrap_err();
    assert!(
        error.found.len() < 200 && error.found.ends_with("..."),
        "{error}"
    );
    assert!(!error.to_string().contains('\u{1b}'));
}

#[test]
fn too_large_machines_name_the_limit() {
    let error = Machine::describe("65 nodes", None).unwrap_err();
    let DescribeError::Machine { source, .. } = error else {
        panic!("{error}");
    };
    assert!(source.to_string().contains("at most 64"), "{source}");
    let last = parse_text("node 0 cpus: 4294967295\n").unwrap().build();
    assert!(last.unwrap_err().to_string().contains("at most 4096"));
    let last = parse_text("4096,0,0,0\n").unwrap_err();
    assert!(last.to_string().contains("at most 4096"), "{last}");
}

/// Text that is likely to get far: words of both formats in random order, or a true text with bytes
/// replaced.
fn texts() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "available:",
        "node",
        "nodes",
        "cpus:",
        "size:",
        "free:",
        "MB",
        "distances:",
        "0:",
        "1:",
        "0",
        "1",
        "2",
        "10",
        "20",
        "4095",
        "4294967295",
        "99999999999",
        ",",
        "-",
        ":",
        "#",
        "\n",
        " ",
        "CPU",
        "Core",
        "Node",
        "L3",
        "L2",
        "Cache",
        "x",
        "llcs",
        "threads",
        "é",
        "\0",
        "<not available>",
        "No NUMA",
        "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n",
        "node distances:\nnode 0 1\n",
        "node 0 cpus: 0 1\n",
        "0,0,0,0,,0,0,0,0\n",
    ]);
    let words = prop::collection::vec(word, 0..40).prop_map(|words| words.join(" "));
    let tight = prop::collection::vec(
        prop::sample::select(vec![
            "0", "1", "7", ",", ",,", ":", "#", "\n", "x", "-", "node ",
        ]),
        0..60,
    )
    .prop_map(|words| words.concat());
    let damaged = (
        prop::sample::select(vec![NUMACTL, LSCPU]),
        any::<u16>(),
        any::<u16>(),
        ".{0,4}",
    )
        .prop_map(|(text, at, length, with)| {
            let start = at as usize % text.len();
            let end = (start + length as usize % 8).min(text.len());
            [&text[..start], &with, &text[end..]].concat()
        });
    prop_oneof![words, tight, damaged, ".*", "[0-9 xnodeslcpurtha,/*]{0,40}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_text_panics(text in texts()) {
        match parse_text(&text) {
            Ok(builder) => {
                if let Ok(machine) = builder.build() {
                    let levels = Levels::of(&machine);
                    for node in machine.cpu_nodes() {
                        prop_assert!(levels.node_limit(node.idx) >= 1);
                    }
                }
            }
            Err(error) => {
                prop_assert!(error.line >= 1 && error.line <= text.lines().count() + 1);
                prop_assert!(!error.found.is_empty() && !error.expected.is_empty());
            }
        }
    }

    #[test]
    fn no_argument_panics(text in texts()) {
        // As a file's name it is looked for at most.
        let _ = text.parse::<scx_ballast::machine::describe::Source>();
    }

    #[test]
    fn regular_machines_survive_both_formats(
        nodes in 1u32..5, llcs in 1u32..4, cores in 1u32..4, threads in 1u32..3,
    ) {
        let form = format!("{nodes} nodes x {llcs} llcs x {cores} cores x {threads} threads");
        let machine = Machine::describe(&form, None).unwrap();
        let rows: String = machine.cpus().iter().map(|cpu| {
            let (core, node, llc) = (cpu.core, cpu.node, cpu.llc);
            format!("{},{core},{node},{node},,{core},{core},{core},{llc}\n", cpu.id)
        }).collect();
        let lscpu = text(&rows);
        prop_assert_eq!(lscpu.cpus(), machine.cpus());
        prop_assert_eq!(lscpu.llcs(), machine.llcs());

        let mut listing = String::new();
        for node in machine.nodes() {
            let cpus: Vec<String> = machine.kernel_ids(&node.cpus).map(|id| id.to_string()).collect();
            listing += &format!("node {} cpus: {}\n", node.id, cpus.join(" "));
        }
        prop_assert_eq!(self::nodes(&text(&listing)), self::nodes(&machine));
    }
}
