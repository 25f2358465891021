// SPDX-License-Identifier: GPL-2.0-only
//! Machines that other sched_ext schedulers were reported to fail on (numbers of sched-ext/scx
//! unless another project is named), each as a sysfs tree.

#[path = "fixtures/sysfs.rs"]
mod sysfs;

use serde_json::json;
use std::time::{Duration, Instant};
use sysfs::{FakeSysfs, Place, cores, llcs, nodes, warnings};

/// sched_ext/sched_ext#69, #147: offline CPUs have no topology folder.
#[test]
fn offline_cpus_are_skipped() {
    let fake = FakeSysfs::uniform(2, 1, 8);
    fake.write("cpu/possible", "0-31");
    fake.write("cpu/offline", "16-31");
    for id in 16..32 {
        fake.offline_cpu(id);
    }
    let topology = fake.topology();
    assert_eq!(topology["cpus"], "0-15");
    assert_eq!(topology["nr_cpu_ids"], 32);
    assert_eq!(nodes(&topology), ["0-7", "8-15"]);
    assert_eq!(warnings(&topology), [""; 0]);
}

/// The same, with the offline CPUs still listed by their node and by the caches.
#[test]
fn offline_cpus_are_skipped_wherever_they_are_listed() {
    let fake = FakeSysfs::new("0-1,4", "0-7");
    for id in 0..8 {
        match id {
            0 | 1 | 4 => fake.cpu(
                id,
                Place {
                    package: 0,
                    core: id / 2,
                    siblings: Some(&format!("{}-{}", id & !1, id | 1)),
                },
            ),
            _ => fake.offline_cpu(id),
        }
        fake.cache(id, 3, "Unified", "0-7", None);
    }
    fake.nodes_of(1, 8);
    let topology = fake.topology();
    assert_eq!(llcs(&topology), ["0-1,4"]);
    assert_eq!(cores(&topology), ["0-1", "4"]);
    assert_eq!(topology["nr_cpu_ids"], 8);
}

/// #3718: `-smp 4,maxcpus=8`; more possible CPUs than online ones, and no folder for the others.
#[test]
fn more_possible_than_online_is_normal() {
    let fake = FakeSysfs::uniform(1, 1, 4);
    fake.write("cpu/possible", "0-7");
    let topology = fake.topology();
    assert_eq!(topology["cpus"], "0-3");
    assert_eq!(topology["nr_cpu_ids"], 8);
    assert_eq!(warnings(&topology), [""; 0]);
}

/// #280: SMT switched off leaves every second CPU.
#[test]
fn smt_off_leaves_gaps() {
    let fake = FakeSysfs::new("0,2,4,6", "0-7");
    for id in 0..8 {
        fake.offline_cpu(id);
    }
    for id in [0, 2, 4, 6] {
        fake.cpu(
            id,
            Place {
                package: 0,
                core: id / 2,
                siblings: Some(&id.to_string()),
            },
        );
        fake.cache(id, 3, "Unified", "0,2,4,6", Some(0));
    }
    fake.write("cpu/smt/active", "0");
    fake.write("node/online", "0");
    fake.node(0, "10", [0, 2, 4, 6]);
    let topology = fake.topology();
    assert_eq!(topology["smt"], false);
    assert_eq!(llcs(&topology), ["0,2,4,6"]);
    assert_eq!(cores(&topology), ["0", "2", "4", "6"]);
    assert_eq!(topology["nodes"][0]["weight"], 4);
}

/// #1397: 2 sockets of one core of 2 threads, both cores with id 0.
#[test]
fn core_ids_may_repeat_across_sockets() {
    for siblings in [true, false] {
        let fake = FakeSysfs::new("0-3", "0-3");
        for id in 0..4 {
            let list = if id < 2 { "0-1" } else { "2-3" };
            fake.cpu(
                id,
                Place {
                    package: id / 2,
                    core: 0,
                    siblings: siblings.then_some(list),
                },
            );
        }
        fake.nodes_of(1, 4);
        let topology = fake.topology();
        assert_eq!(
            cores(&topology),
            ["0-1", "2-3"],
            "with sibling lists: {siblings}"
        );
        assert_eq!(topology["smt"], true);
    }
}

/// Dies, too, count their cores from 0.
#[test]
fn core_ids_may_repeat_across_llcs() {
    for siblings in [true, false] {
        let fake = FakeSysfs::new("0-7", "0-7");
        for id in 0..8 {
            let pair = format!("{}-{}", id & !1, id | 1);
            fake.cpu(
                id,
                Place {
                    package: 0,
                    core: id / 2 % 2,
                    siblings: siblings.then_some(&pair),
                },
            );
            fake.cache(
                id,
                3,
                "Unified",
                if id < 4 { "0-3" } else { "4-7" },
                Some(id / 4),
            );
        }
        fake.nodes_of(1, 8);
        let topology = fake.topology();
        assert_eq!(llcs(&topology), ["0-3", "4-7"]);
        assert_eq!(
            cores(&topology),
            ["0-1", "2-3", "4-5", "6-7"],
            "with sibling lists: {siblings}"
        );
    }
}

/// #1032: no L3, so L2 is the last level.
#[test]
fn without_l3_the_llc_is_l2() {
    let fake = FakeSysfs::new("0-7", "0-7");
    for id in 0..8 {
        fake.cpu(
            id,
            Place {
                package: 0,
                core: id,
                siblings: None,
            },
        );
        fake.cache(id, 1, "Data", &id.to_string(), Some(id));
        fake.cache(
            id,
            2,
            "Unified",
            if id < 4 { "0-3" } else { "4-7" },
            Some(id / 4),
        );
    }
    fake.nodes_of(1, 8);
    let topology = fake.topology();
    assert_eq!(llcs(&topology), ["0-3", "4-7"]);
    assert_eq!(topology["nodes"][0]["llcs"][0]["level"], 2);
    assert_eq!(warnings(&topology), [""; 0]);
}

/// #733: caches without `id` files; index folders not in the order of levels.
#[test]
fn caches_need_no_ids() {
    let fake = FakeSysfs::new("0-3", "0-3");
    for id in 0..4 {
        fake.cpu(
            id,
            Place {
                package: 0,
                core: id,
                siblings: None,
            },
        );
        fake.cache(
            id,
            3,
            "Unified",
            if id % 2 == 0 { "0,2" } else { "1,3" },
            None,
        );
        fake.cache(id, 2, "Unified", &id.to_string(), None);
        fake.write(format!("cpu/cpu{id}/cache/index0/level"), 4);
        fake.write(format!("cpu/cpu{id}/cache/index0/type"), "Instruction");
        fake.write(format!("cpu/cpu{id}/cache/index0/shared_cpu_list"), id);
    }
    fake.nodes_of(1, 4);
    let topology = fake.topology();
    assert_eq!(llcs(&topology), ["0,2", "1,3"]);
    assert_eq!(topology["nodes"][0]["llcs"][1]["level"], 3);
}

/// QEMU's AMD models give every CPU an L3 id of its own while they share one by shared_cpu_list;
/// and the other way round.
#[test]
fn shared_cpu_list_decides_against_ids() {
    let own_ids = FakeSysfs::uniform(2, 1, 4);
    for id in 0..8 {
        own_ids.write(format!("cpu/cpu{id}/cache/index3/id"), id);
    }
    assert_eq!(llcs(&own_ids.topology()), ["0-3", "4-7"]);

    let one_id = FakeSysfs::uniform(1, 2, 4);
    for id in 0..8 {
        one_id.write(format!("cpu/cpu{id}/cache/index3/id"), 0);
    }
    let topology = one_id.topology();
    assert_eq!(llcs(&topology), ["0-3", "4-7"]);
    assert_eq!(warnings(&topology), [""; 0]);
}

/// #195: no cache information.
#[test]
fn without_caches_a_node_is_an_llc() {
    let fake = FakeSysfs::new("0-7", "0-7");
    for id in 0..8 {
        fake.cpu(
            id,
            Place {
                package: id / 4,
                core: id,
                siblings: None,
            },
        );
    }
    fake.nodes_of(2, 4);
    let topology = fake.topology();
    assert_eq!(llcs(&topology), ["0-3", "4-7"]);
    assert_eq!(topology["nodes"][0]["llcs"][0]["level"], json!(null));
    assert_eq!(warnings(&topology).len(), 1);
    assert!(warnings(&topology)[0].contains("each node is taken as one LLC"));
}

/// #275: no folder of nodes, and no caches.
#[test]
fn without_nodes_there_is_one() {
    let fake = FakeSysfs::new("0-3", "0-3");
    for id in 0..4 {
        fake.cpu(
            id,
            Place {
                package: id / 2,
                core: id % 2,
                siblings: None,
            },
        );
    }
    let topology = fake.topology();
    assert_eq!(nodes(&topology), ["0-3"]);
    assert_eq!(llcs(&topology), ["0-3"]);
    assert_eq!(cores(&topology), ["0", "1", "2", "3"]);
    assert_eq!(topology["nodes"][0]["memory_mib"], json!(null));
    assert_eq!(topology["nodes"][0]["distances"], json!([10]));
    assert_eq!(warnings(&topology).len(), 1);
}

/// #2325, #2988, #3611, #3636: memory without CPUs (CXL, Grace), with an id in the middle.
#[test]
fn a_node_without_cpus_takes_part_in_nothing() {
    let fake = FakeSysfs::uniform(2, 1, 4);
    fake.write("node/online", "0-2");
    fake.write("node/node0/distance", "10 30 21");
    fake.write("node/node1/distance", "30 10 40");
    fake.write("node/node1/cpulist", "");
    fake.node(2, "21 40 10", 4..8);
    let topology = fake.topology();
    assert_eq!(nodes(&topology), ["0-3", "4-7", ""]);
    let last = &topology["nodes"][2];
    assert_eq!((&last["id"], &last["weight"]), (&json!(1), &json!(0)));
    assert_eq!(
        (&last["memory_only"], &last["llcs"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(last["memory_mib"], 1024);
    assert_eq!(last["distances"], json!([30, 40, 10]));
    assert_eq!(last["nearest_first"], json!([0, 2]));
    assert_eq!(topology["nodes"][0]["distances"], json!([10, 21, 30]));
    assert_eq!(topology["nodes"][1]["nearest_first"], json!([2, 0]));
    let text = fake.run(&["topology"]).stdout;
    assert!(
        String::from_utf8(text)
            .unwrap()
            .contains("not scheduled on")
    );
}

/// #3634, #2951: masks that end in front of, at and behind the boundary of a word.
#[test]
fn masks_of_every_size_are_complete() {
    for cpus in [63, 64, 65, 512, 513] {
        // 513 CPUs are more than one LLC may have.
        let half = cpus / 2;
        let all = format!("0-{}", cpus - 1);
        let fake = FakeSysfs::new(&all, &all);
        for id in 0..cpus {
            fake.cpu(
                id,
                Place {
                    package: 0,
                    core: id,
                    siblings: None,
                },
            );
            let shared = if id < half {
                format!("0-{}", half - 1)
            } else {
                format!("{half}-{}", cpus - 1)
            };
            fake.cache(id, 3, "Unified", &shared, None);
        }
        fake.nodes_of(1, cpus);
        let topology = fake.topology();
        assert_eq!(topology["cpus"], all);
        assert_eq!(topology["nr_cpu_ids"], cpus);
        assert_eq!(topology["nodes"][0]["weight"], cpus);
        let expected = [format!("0-{}", half - 1), format!("{half}-{}", cpus - 1)];
        assert_eq!(llcs(&topology), expected);
    }
}

/// #3340, #3725: 1024 CPUs start up in a second; here with room for an unoptimised build.
#[test]
fn a_thousand_cpus_are_read_in_time() {
    let fake = FakeSysfs::uniform(16, 1, 64);
    let start = Instant::now();
    let topology = fake.topology();
    let elapsed = start.elapsed();
    assert_eq!(topology["cpus"], "0-1023");
    assert_eq!(llcs(&topology).len(), 16);
    assert_eq!(topology["nodes"][15]["cpus"], "960-1023");
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
}
