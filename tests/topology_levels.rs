// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast topology` with levels and imb_numa_nr: presets and short forms by hand, described
//! machines and the running one through the command.

#[path = "fixtures/sysfs.rs"]
mod sysfs;

use scx_ballast::machine::describe::presets;
use scx_ballast::machine::{CpuIdx, DomainKind, Levels, Machine, NodeIdx};
use serde_json::json;
use std::io::Write;
use std::process::{Command, Stdio};
use sysfs::FakeSysfs;

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

/// Each preset by hand. One LLC per node: CPUs of the node / 8. Several: their number. Wider levels:
/// times span / span of the first one.
#[test]
fn presets_have_the_numbers_worked_out_by_hand() {
    let by_hand = [
        // 40 / 8
        ("suse-2s-80", "node:40:5 20:80:5"),
        // 128 / 16 = 8 LLCs
        ("zen3-nps1", "node:128:8 32:256:8"),
        // 64 / 16 = 4 LLCs; 256 / 128 = 2 times that between the sockets
        ("zen3-nps2", "node:64:4 12:128:4 32:256:8"),
        // 32 / 16 = 2 LLCs; 256 / 128 = 2 times that
        ("zen3-nps4", "node:32:2 12:128:2 32:256:4"),
        // 32 / 8 = 4 cores, each with its cache
        ("power8-8n-256", "node:32:4 20:256:4"),
        // 16 / 8; 48 / 48 and 64 / 48
        ("x3750-4n-64", "node:16:2 11:48:2 12:64:2"),
        // 12 / 8
        ("ibm-2n-24", "node:12:1 21:24:1"),
        // 24 / 8
        ("suse-2s-48", "node:24:3 20:48:3"),
        // One LLC holds all: no domain above it
        ("uma-4", ""),
        // 64 / 8
        ("icl-2s-128", "node:64:8 20:128:8"),
    ];
    let ids: Vec<String> = presets()
        .unwrap()
        .into_iter()
        .map(|preset| preset.id)
        .collect();
    assert_eq!(ids, by_hand.map(|(id, _)| id));
    for (id, expected) in by_hand {
        let machine = Machine::describe(id, None).unwrap();
        for cpu in 0..machine.cpus().len() as u16 {
            assert_eq!(numbers(&machine, cpu), expected, "{id}, CPU {cpu}");
        }
        let levels = Levels::of(&machine);
        assert!(levels.sane());
        let node = expected.split([':', ' ']).nth(2).unwrap_or("1");
        for at in 0..machine.nr_cpu_nodes() as u16 {
            assert_eq!(levels.node_limit(NodeIdx(at)).to_string(), node, "{id}");
        }
    }
}

#[test]
fn presets_say_what_is_assumed() {
    let machine = Machine::describe("zen3-nps1", None).unwrap();
    assert_eq!(
        machine.warnings(),
        ["assumed of zen3-nps1, as its description does not tell: LLCs, distances"]
    );
    let memory = Machine::describe("x3750-4n-64", None).unwrap();
    assert_eq!(memory.nodes()[0].memory_mib, Some(65468));
}

#[test]
fn short_forms_are_machines() {
    let machine = Machine::describe("2 nodes x 8 llcs x 8 cores x 2 threads", None).unwrap();
    assert_eq!(machine.cpus().len(), 256);
    assert_eq!(numbers(&machine, 0), "node:128:8 20:256:8");
    assert_eq!(machine.cores()[1].cpus, [CpuIdx(2), CpuIdx(3)]);
    let machine = Machine::describe("2x16", None).unwrap();
    assert_eq!(numbers(&machine, 0), "node:16:2 20:32:2");
    let machine = Machine::describe("2 nodes x 4 cpus, distances 10,15/15,10", None).unwrap();
    assert_eq!(machine.distance(NodeIdx(0), NodeIdx(1)), 15);
}

#[test]
fn virtual_llcs_are_cut_in_described_machines() {
    let machine = Machine::describe("2x16", Some((4, 4))).unwrap();
    assert_eq!(machine.llcs().len(), 8);
    assert_eq!(numbers(&machine, 0), "node:16:2 20:32:2");
}

/// `scx_ballast topology --machine ARG`, fed with `input`: exit status, output, errors.
fn topology(args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
        .arg("topology")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let status = output.status.code().unwrap();
    (status, text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_shows_described_machines() {
    let (status, text, _) = topology(&["--machine", "zen3-nps4"], "");
    assert_eq!(status, 0);
    let expected = "
level  span  imb_numa_nr  of
 node    32            2  all
   12   128            2  all
   32   256            4  all

warning: assumed of zen3-nps4, as its description does not tell: LLCs, distances
";
    assert!(text.ends_with(expected), "{text}");

    let lscpu = "\
# CPU,Core,Socket,Node,,L1d,L1i,L2,L3
0,0,0,0,,0,0,0,0
1,1,0,0,,1,1,1,1
2,2,1,1,,2,2,2,2
3,3,1,1,,3,3,3,3
";
    let (status, text, _) = topology(&["--machine", "-", "--format", "json"], lscpu);
    assert_eq!(status, 0);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["nodes"][1]["cpus"], "2-3");
    assert_eq!(json["nodes"][1]["imb_numa_nr"], 2);
    assert_eq!(json["levels"][1]["spans"], json!(["0-1", "0-1"]));
    assert_eq!(json["levels"][1]["domains"][0]["imb_numa_nr"], 2);

    let file = tempfile::NamedTempFile::new().unwrap();
    let numactl = "\
node 0 cpus: 0 1 2 3
node 1 cpus: 4 5 6 7
node 2 cpus: 8 9 10 11
node distances:
node   0   1   2
  0:  10  11  11
  1:  11  10  12
  2:  11  12  10
";
    std::fs::write(file.path(), numactl).unwrap();
    let path = file.path().to_str().unwrap();
    let (status, text, _) = topology(&["--machine", path], "");
    assert_eq!(status, 0);
    assert!(
        text.contains("\n   11     8            1  nodes 1-2\n"),
        "{text}"
    );
}

#[test]
fn the_command_refuses_in_one_of_two_ways() {
    // No such machine: bad arguments.
    let (status, _, errors) = topology(&["--machine", "zen9"], "");
    assert_eq!(status, 2, "{errors}");
    assert!(
        errors.contains("\"zen9\"") && errors.contains("zen3-nps1"),
        "{errors}"
    );
    assert!(errors.contains("numactl -H"), "{errors}");
    let (status, _, errors) = topology(&["--machine", "2 nodes x 0 cpus"], "");
    assert_eq!(status, 2, "{errors}");
    assert!(errors.contains("\"0 cpus\""), "{errors}");

    // A text that is not understood: an error.
    let (status, _, errors) = topology(&["--machine", "-"], "node 0 cpus: 0\nnode 0 seize: 3\n");
    assert_eq!(status, 1, "{errors}");
    assert!(
        errors.starts_with("Error: standard input, line 2: found \"node 0 seize"),
        "{errors}"
    );
    let (status, _, errors) = topology(&["--machine", "/"], "");
    assert_eq!(status, 1, "{errors}");
    assert!(errors.starts_with("Error: cannot read /: "), "{errors}");
}

/// The running machine: a ring of four nodes of 4 LLCs of 2 CPUs, and a node of memory.
#[test]
fn the_command_shows_the_levels_of_the_running_machine() {
    let fake = FakeSysfs::uniform(4, 4, 2);
    fake.write("node/online", "0-4");
    for (node, row) in [
        "10 11 11 12 30",
        "11 10 12 11 30",
        "11 12 10 11 30",
        "12 11 11 10 30",
    ]
    .into_iter()
    .enumerate()
    {
        fake.write(format!("node/node{node}/distance"), row);
    }
    fake.node(4, "30 30 30 30 10", []);
    let topology = fake.topology();
    let level = |distance: u32, spans: [&str; 4], weight: u32, imb_numa_nr: u32| {
        json!({
            "distance": distance, "spans": spans, "domains": [{
                "cpus": "0-31", "weight": weight, "imb_numa_nr": imb_numa_nr, "degenerate": false,
            }],
        })
    };
    // 8 / 2 = 4 LLCs; 24 / 24 and 32 / 24.
    let expected = [
        level(10, ["0", "1", "2", "3"], 8, 4),
        level(11, ["0-2", "0-1,3", "0,2-3", "1-3"], 24, 4),
        level(12, ["0-3"; 4], 32, 4),
    ];
    assert_eq!(topology["levels"], json!(expected));
    let limits: Vec<_> = topology["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| &n["imb_numa_nr"])
        .collect();
    assert_eq!(limits, [4, 4, 4, 4, 0]);
    // Virtual LLCs are none to the kernel.
    let split = fake.topology_with(&["--virt-llc=1-1"]);
    assert_eq!(split["levels"], topology["levels"]);
}
