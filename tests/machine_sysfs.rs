// SPDX-License-Identifier: GPL-2.0-only
//! Machines whose sysfs is unusual: sparse ids, unequal distances, caches across nodes, virtual LLCs,
//! more than is supported, and nonsense.

#[path = "fixtures/sysfs.rs"]
mod sysfs;

use serde_json::json;
use sysfs::{FakeSysfs, Place, cores, llcs, nodes, warnings};

/// POWER numbers its nodes 0 and 8; rows of distances have a column per online node.
#[test]
fn node_ids_may_be_sparse() {
    let fake = FakeSysfs::new("0-5", "0-5");
    for id in 0..6 {
        fake.cpu(
            id,
            Place {
                package: id / 2,
                core: id,
                siblings: None,
            },
        );
        fake.cache(id, 3, "Unified", &format!("{}-{}", id & !1, id | 1), None);
    }
    fake.write("node/online", "0,8,255");
    fake.node(0, "10 21 22", 0..2);
    fake.node(8, "21 10 23", 2..4);
    fake.node(255, "22 23 10", 4..6);
    let topology = fake.topology();
    assert_eq!(topology["nodes"][2]["id"], 255);
    assert_eq!(topology["nodes"][2]["index"], 2);
    assert_eq!(topology["nodes"][1]["distances"], json!([21, 10, 23]));
    assert_eq!(topology["nodes"][2]["nearest_first"], json!([255, 0, 8]));
    assert_eq!(warnings(&topology), [""; 0]);
}

#[test]
fn short_rows_of_distances_are_completed() {
    let fake = FakeSysfs::uniform(3, 1, 1);
    fake.write("node/node0/distance", "10 31 32");
    fake.write("node/node1/distance", "31 10 33");
    fake.write("node/node2/distance", "0");
    let topology = fake.topology();
    assert_eq!(topology["nodes"][2]["distances"], json!([32, 33, 10]));
    assert_eq!(warnings(&topology).len(), 1);
    assert!(warnings(&topology)[0].contains("distances of node 2 are incomplete"));
}

#[test]
fn distances_may_depend_on_the_direction() {
    let fake = FakeSysfs::uniform(3, 1, 1);
    fake.write("node/node0/distance", "10 40 20");
    let topology = fake.topology();
    assert_eq!(topology["nodes"][0]["nearest_first"], json!([0, 2, 1]));
    assert_eq!(topology["nodes"][1]["nearest_first"], json!([1, 2, 0]));
    assert!(warnings(&topology)[0].contains("between nodes 0 and 1 depends on the direction"));
}

/// Sub-NUMA clustering: one L3 for the socket, two nodes in it.
#[test]
fn an_llc_ends_at_its_node() {
    let fake = FakeSysfs::uniform(2, 1, 4);
    for id in 0..8 {
        fake.write(format!("cpu/cpu{id}/cache/index3/shared_cpu_list"), "0-7");
    }
    assert_eq!(llcs(&fake.topology()), ["0-3", "4-7"]);
}

/// CPUs of a node that alternate with another's keep the order of their LLCs.
#[test]
fn interleaved_cpus_are_grouped() {
    let fake = FakeSysfs::new("0-7", "0-7");
    for id in 0..8 {
        fake.cpu(
            id,
            Place {
                package: id % 2,
                core: id % 4,
                siblings: Some(&format!("{},{}", id % 4, id % 4 + 4)),
            },
        );
        fake.cache(
            id,
            3,
            "Unified",
            if id % 2 == 0 { "0,2,4,6" } else { "1,3,5,7" },
            None,
        );
    }
    fake.write("node/online", "0-1");
    fake.node(0, "10 20", [0, 2, 4, 6]);
    fake.node(1, "20 10", [1, 3, 5, 7]);
    let topology = fake.topology();
    assert_eq!(llcs(&topology), ["0,2,4,6", "1,3,5,7"]);
    assert_eq!(cores(&topology), ["0,4", "2,6", "1,5", "3,7"]);
}

#[test]
fn cpus_in_no_node_are_not_lost() {
    let fake = FakeSysfs::uniform(2, 1, 2);
    fake.write("node/node1/cpulist", "2");
    let topology = fake.topology();
    assert_eq!(nodes(&topology), ["0-1,3", "2"]);
    assert!(warnings(&topology)[0].contains("CPUs 3 are online and in no node"));
}

#[test]
fn caches_that_are_shared_one_way_only_are_told() {
    let fake = FakeSysfs::uniform(1, 1, 4);
    fake.write("cpu/cpu3/cache/index3/shared_cpu_list", "3");
    let topology = fake.topology();
    assert_eq!(llcs(&topology), ["0-2", "3"]);

    fake.write("cpu/cpu0/cache/index3/shared_cpu_list", "0");
    let topology = fake.topology();
    assert_eq!(llcs(&topology), ["0-2", "3"]);
    assert!(warnings(&topology)[0].contains("caches of CPUs 1-2 are shared one way only"));
}

#[test]
fn virtual_llcs_keep_siblings_together() {
    let fake = FakeSysfs::new("0-15", "0-15");
    for id in 0..16 {
        let siblings = format!("{},{}", id % 8, id % 8 + 8);
        fake.cpu(
            id,
            Place {
                package: 0,
                core: id % 8,
                siblings: Some(&siblings),
            },
        );
        fake.cache(id, 3, "Unified", "0-15", Some(id));
    }
    fake.nodes_of(1, 16);
    let topology = fake.topology_with(&["--virt-llc=2-4"]);
    assert_eq!(
        llcs(&topology),
        ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    );
    assert_eq!(cores(&topology)[..2], ["0,8", "1,9"]);
    assert_eq!(topology["nodes"][0]["llcs"][0]["virtual"], true);
    assert_eq!(fake.topology()["nodes"][0]["llcs"][0]["virtual"], false);
}

#[test]
fn an_llc_too_large_can_be_split() {
    let fake = FakeSysfs::uniform(1, 1, 513);
    let refusal = fake.refusal();
    assert!(
        refusal.contains("513 CPUs in the LLC of CPU 0"),
        "{refusal}"
    );
    assert!(
        refusal.contains("at most 512; split it with --virt-llc"),
        "{refusal}"
    );
    assert_eq!(llcs(&fake.topology_with(&["--virt-llc=128-256"])).len(), 3);
}

#[test]
fn more_cpu_ids_than_supported_are_refused() {
    let fake = FakeSysfs::uniform(1, 1, 2);
    fake.write("cpu/possible", "0-4095");
    assert_eq!(fake.topology()["nr_cpu_ids"], 4096);
    fake.write("cpu/possible", "0-4096");
    assert!(
        fake.refusal()
            .contains("4097 possible CPU ids, but scx_ballast supports at most 4096")
    );
}

#[test]
fn more_nodes_than_supported_are_refused() {
    assert_eq!(
        FakeSysfs::uniform(64, 1, 1).topology()["nodes"][63]["id"],
        63
    );
    let refusal = FakeSysfs::uniform(65, 1, 1).refusal();
    assert!(
        refusal.contains("65 nodes, but scx_ballast supports at most 64"),
        "{refusal}"
    );
}

/// GPUs can bring many nodes of memory; the scheduler does without them.
#[test]
fn nodes_without_cpus_beyond_the_limit_are_left_out() {
    let fake = FakeSysfs::uniform(70, 1, 1);
    for id in 2..70 {
        fake.write(format!("node/node{id}/cpulist"), "");
    }
    fake.write("cpu/online", "0-1");
    let topology = fake.topology();
    assert_eq!(topology["nodes"].as_array().unwrap().len(), 64);
    assert_eq!(
        topology["nodes"][0]["distances"].as_array().unwrap().len(),
        64
    );
    assert!(warnings(&topology)[0].contains("nodes 64-69 have no CPUs and are left out"));
}

#[test]
fn more_llcs_than_supported_are_refused() {
    assert_eq!(llcs(&FakeSysfs::uniform(1, 64, 2).topology()).len(), 64);
    let refusal = FakeSysfs::uniform(1, 65, 2).refusal();
    assert!(
        refusal.contains("65 LLCs in node 0, but scx_ballast supports at most 64"),
        "{refusal}"
    );
}

/// Some server ARM machines tell of no cache beyond a core's own L2.
#[test]
fn too_many_private_caches_are_no_llcs() {
    let fake = FakeSysfs::new("0-79", "0-79");
    for id in 0..80 {
        fake.cpu(
            id,
            Place {
                package: 0,
                core: id,
                siblings: None,
            },
        );
        fake.cache(id, 2, "Unified", &id.to_string(), None);
    }
    fake.nodes_of(1, 80);
    let topology = fake.topology();
    assert_eq!(llcs(&topology), ["0-79"]);
    assert!(warnings(&topology)[0].contains("node 0 has 80 caches of the last level"));
    assert_eq!(llcs(&fake.topology_with(&["--virt-llc=8-8"])).len(), 10);
}

#[test]
fn nonsense_is_refused_in_one_line() {
    let offline = FakeSysfs::uniform(1, 1, 2);
    offline.write("cpu/online", "");
    assert!(offline.refusal().contains("no online CPU found"));

    let garbled = FakeSysfs::uniform(1, 1, 2);
    garbled.write("cpu/cpu1/cache/index3/shared_cpu_list", "all of them");
    let refusal = garbled.refusal();
    assert!(
        refusal.contains("shared_cpu_list holds \"all of them\", which is not a list"),
        "{refusal}"
    );
    assert_eq!(refusal.trim().lines().count(), 1, "{refusal}");

    let row = FakeSysfs::uniform(2, 1, 1);
    row.write("node/node1/distance", "near far");
    assert!(
        row.refusal()
            .contains("holds \"near far\", which is not a row of distances")
    );
}

#[test]
fn little_is_needed() {
    let fake = FakeSysfs::new("0-3", "0-3");
    assert_eq!(nodes(&fake.topology()), ["0-3"]);
    assert_eq!(cores(&fake.topology()), ["0", "1", "2", "3"]);

    // Folders alone say which nodes there are, which CPUs they have, which level a cache is.
    for path in [
        "node/node0/cpu0/x",
        "node/node0/cpu1/x",
        "node/node12/cpu2/x",
        "node/node3/x",
    ] {
        fake.write(path, "");
    }
    fake.write("cpu/cpu0/cache/index3/shared_cpu_list", "0-1");
    fake.write("cpu/cpu1/cache/index2/shared_cpu_list", "1");
    let topology = fake.topology();
    assert_eq!(nodes(&topology), ["0-1,3", "2", ""]);
    assert_eq!(topology["nodes"][1]["id"], 12);
    assert_eq!(topology["nodes"][1]["distances"], json!([20, 10, 20]));
    assert_eq!(llcs(&topology), ["0", "1", "3", "2"]);
}

#[test]
fn virtual_llcs_do_not_mix_big_and_little_cores() {
    let fake = FakeSysfs::uniform(1, 1, 8);
    for id in 0..8 {
        fake.write(
            format!("cpu/cpu{id}/cpu_capacity"),
            if id < 4 { 512 } else { 1024 },
        );
    }
    assert_eq!(
        llcs(&fake.topology_with(&["--virt-llc=3-8"])),
        ["4-7", "0-3"]
    );
    fake.write("cpu/cpu0/cpu_capacity", 1000);
    assert_eq!(
        llcs(&fake.topology_with(&["--virt-llc=3-3"])),
        ["0,4-7", "1-3"]
    );
}
