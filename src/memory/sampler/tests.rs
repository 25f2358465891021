// SPDX-License-Identifier: GPL-2.0-only
//! A look, with files in place of /proc and a function in place of the kernel.

use super::*;
use crate::policy::locality::input::NodePages;
use std::path::Path;

/// Nodes by address; what has none is absent.
struct Fake(fn(usize) -> i32);

impl AskNodes for Fake {
    fn ask(&mut self, _: i32, addresses: &[usize], status: &mut [i32]) -> io::Result<()> {
        for (status, &address) in status.iter_mut().zip(addresses) {
            *status = (self.0)(address);
        }
        Ok(())
    }
}

/// Kernel's nodes 0 and 8, both with memory.
fn sampler(root: &Path, nodes: fn(usize) -> i32) -> Sampler<Fake> {
    let nodes_with = MemoryNodes {
        ids: vec![0, 8],
        with_memory: Nodes::parse("0,8").unwrap(),
    };
    Sampler {
        page_size: 4096,
        ..Sampler::new(
            Proc::new(root),
            Fake(nodes),
            nodes_with,
            MemoryDevices::default(),
            Touches::none(4096),
            Rng::with_seed(1),
        )
    }
}

fn write(root: &Path, tgid: i32, files: &[(&str, &str)]) {
    let dir = root.join(tgid.to_string());
    std::fs::create_dir_all(&dir).unwrap();
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

/// 64 MiB of its own, 32 MiB of shared memory, and a program.
const MAPS: &str = "\
00400000-00500000 r-xp 00000000 fe:01 9 /bin/x
10000000-14000000 rw-p 00000000 00:00 0 
20000000-22000000 rw-s 00000000 00:01 5 /dev/zero (deleted)
";
const STATUS: &str =
    "VmSize: 99999 kB\nRssAnon: 65536 kB\nRssShmem: 32768 kB\nMems_allowed_list: 0-63\n";
const NUMA_MAPS: &str = "\
00400000 default file=/bin/x mapped=9 N0=9 kernelpagesize_kB=4
10000000 default anon=16384 N0=16384 kernelpagesize_kB=4
20000000 default file=/dev/zero\\040(deleted) dirty=8192 N8=8192 kernelpagesize_kB=4
";

#[test]
fn a_look_counts_pages_by_node_and_kind() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("status", STATUS), ("maps", MAPS), ("numa_maps", NUMA_MAPS)];
    write(dir.path(), 42, &files);
    let nodes = |address: usize| match address {
        // Of the private memory an eighth is on node 8, another eighth absent.
        0x1000_0000..0x1080_0000 => 8,
        0x1080_0000..0x1100_0000 => -libc::ENOENT,
        0x1100_0000..0x1400_0000 => 0,
        0x2000_0000..0x2200_0000 => 8,
        _ => panic!("{address:x} is not memory"),
    };
    let mut sampler = sampler(dir.path(), nodes);
    let look = sampler.look(42, (300, &[]), 5_000).unwrap();
    // 200 and 100; rounding may put one elsewhere.
    let on = |private, shared| NodePages { private, shared };
    assert_eq!(look.sample.pages, [on(150, 0), on(25, 100)]);
    assert_eq!((look.sample.at_ms, look.sample.asked), (5_000, 300));
    assert_eq!(look.resident, 98_304 / 4);
    assert_eq!((look.policy, look.group), (MemoryPolicy::Free, None));
}

#[test]
fn areas_take_turns_when_there_are_few_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let maps = "\
10000000-10001000 rw-p 00000000 00:00 0 
20000000-20001000 rw-p 00000000 00:00 0 
30000000-30001000 rw-p 00000000 00:00 0 
";
    write(
        dir.path(),
        1,
        &[("status", STATUS), ("maps", maps), ("numa_maps", "")],
    );
    let mut sampler = sampler(dir.path(), |address| match address {
        0x1000_0000 => 0,
        0x2000_0000 => 8,
        _ => -libc::ENOENT,
    });
    let mut seen = |at_ms| {
        let pages = sampler.look(1, (1, &[]), at_ms).unwrap().sample.pages;
        pages.iter().map(|node| node.private).collect::<Vec<_>>()
    };
    assert_eq!(seen(1), [1, 0]);
    assert_eq!(seen(2), [0, 1]);
    assert_eq!(seen(3), [0, 0]);
    assert_eq!(seen(4), [1, 0]);
}

#[test]
fn those_who_share_most_are_a_group() {
    let dir = tempfile::tempdir().unwrap();
    let mostly = "\
10000000-10800000 rw-p 00000000 00:00 0 
20000000-22000000 rw-s 00000000 00:01 5 /dev/zero (deleted)
";
    for (tgid, maps) in [(1, mostly), (2, mostly), (3, MAPS)] {
        write(
            dir.path(),
            tgid,
            &[("status", STATUS), ("maps", maps), ("numa_maps", "")],
        );
    }
    let mut sampler = sampler(dir.path(), |_| 0);
    let mut group = |tgid| sampler.look(tgid, (200, &[]), 1).unwrap().group;
    let first = group(1);
    assert!(first.is_some());
    assert_eq!(group(2), first);
    assert_eq!(group(3), None);
}

#[test]
fn the_policy_of_the_task_and_of_areas() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        1,
        &[("status", STATUS), ("maps", MAPS), ("numa_maps", NUMA_MAPS)],
    );
    let mut sampler = sampler(dir.path(), |_| 0);
    let mut policy = |at_ms| sampler.look(1, (10, &[]), at_ms).unwrap().policy;
    assert_eq!(policy(0), MemoryPolicy::Free);
    // Its areas are not read again before a minute is over...
    let bound = NUMA_MAPS.replace("10000000 default", "10000000 bind:8");
    write(dir.path(), 1, &[("numa_maps", &bound)]);
    assert_eq!(policy(59_000), MemoryPolicy::Free);
    assert_eq!(policy(60_000), MemoryPolicy::Bind);
    // ... but the task's at every look, and if it is another one, all of it.
    let all = NUMA_MAPS.replace("default", "interleave:0,8");
    write(dir.path(), 1, &[("numa_maps", &all)]);
    assert_eq!(policy(61_000), MemoryPolicy::Interleave);
    // Confined to one of the two nodes.
    let status = STATUS.replace("0-63", "8");
    write(
        dir.path(),
        1,
        &[("status", &status), ("numa_maps", NUMA_MAPS)],
    );
    assert_eq!(policy(62_000), MemoryPolicy::Cpuset);
}

#[test]
fn a_large_process_is_not_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let status = STATUS.replace("RssAnon: 65536", "RssAnon: 2097153");
    let bound = NUMA_MAPS.replace("10000000 default", "10000000 bind:8");
    write(
        dir.path(),
        1,
        &[("status", &status), ("maps", MAPS), ("numa_maps", &bound)],
    );
    let mut sampler = sampler(dir.path(), |_| 0);
    assert_eq!(
        sampler.look(1, (10, &[]), 0).unwrap().policy,
        MemoryPolicy::Free
    );
    // To bring it, it is; and what that has found is not forgotten.
    assert_eq!(sampler.movable(1, 0).unwrap(), []);
    assert_eq!(
        sampler.look(1, (10, &[]), 0).unwrap().policy,
        MemoryPolicy::Bind
    );
    assert_eq!(sampler.policy_has_changed(1), Ok(false));
    let status = STATUS.replace("RssAnon: 65536", "RssAnon: 16777217");
    write(
        dir.path(),
        2,
        &[
            ("status", &status),
            ("maps", MAPS),
            ("numa_maps", NUMA_MAPS),
        ],
    );
    assert_eq!(sampler.movable(2, 0).unwrap(), []);
}

#[test]
fn only_free_private_memory_is_movable() {
    let dir = tempfile::tempdir().unwrap();
    let maps = "\
10000000-14000000 rw-p 00000000 00:00 0 
15000000-15100000 rw-p 00000000 00:00 0 
20000000-22000000 rw-s 00000000 00:01 5 /dev/zero (deleted)
";
    let numa_maps = "\
10000000 default anon=16384 N0=16384 kernelpagesize_kB=4
15000000 bind:8 anon=256 N8=256 kernelpagesize_kB=4
20000000 default file=/dev/zero\\040(deleted) dirty=8192 N8=8192 kernelpagesize_kB=4
";
    let files = [("status", STATUS), ("maps", maps), ("numa_maps", numa_maps)];
    write(dir.path(), 1, &files);
    let mut sampler = sampler(dir.path(), |_| 0);
    assert_eq!(sampler.movable(1, 0).unwrap(), [(0x1000_0000, 0x1400_0000)]);
    assert_eq!(sampler.policy_has_changed(1), Ok(false));
    let bound = numa_maps.replace("default", "bind:8");
    write(dir.path(), 1, &[("numa_maps", &bound)]);
    assert_eq!(sampler.policy_has_changed(1), Ok(true));
    assert_eq!(sampler.movable(1, 0).unwrap(), []);
    // A cpuset has placed it.
    let status = STATUS.replace("0-63", "0");
    write(
        dir.path(),
        1,
        &[("status", &status), ("numa_maps", numa_maps)],
    );
    assert_eq!(sampler.movable(1, 0).unwrap(), []);
}

#[test]
fn who_is_gone_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("status", STATUS), ("maps", MAPS), ("numa_maps", NUMA_MAPS)];
    write(dir.path(), 1, &files);
    write(dir.path(), 2, &files);
    let mut sampler = sampler(dir.path(), |_| 0);
    sampler.look(1, (10, &[]), 0).unwrap();
    sampler.look(2, (10, &[]), 0).unwrap();
    std::fs::remove_dir_all(dir.path().join("1")).unwrap();
    assert_eq!(sampler.look(1, (10, &[]), 1), Err(Unseen::Gone));
    assert_eq!(sampler.known.keys().collect::<Vec<_>>(), [&2]);
    // Nobody asked about the other one for long.
    assert_eq!(sampler.look(1, (10, &[]), FORGET_MS + 1), Err(Unseen::Gone));
    assert!(sampler.known.is_empty());
    // A kernel thread has no memory.
    write(
        dir.path(),
        3,
        &[("status", "Name: kthreadd\n"), ("maps", "")],
    );
    assert_eq!(sampler.look(3, (10, &[]), 0), Err(Unseen::Gone));
}

#[test]
fn a_kernel_that_balances_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("status", STATUS), ("maps", MAPS), ("numa_maps", NUMA_MAPS)];
    write(dir.path(), 1, &files);
    let mut sampler = sampler(dir.path(), |_| 0);
    let mut look = |passes: u32, at_ms: u64| {
        let text = format!("ext.enabled : 1\nmm->numa_scan_seq : {passes}\n");
        // Another size, so that the map is read.
        let status = STATUS.replace("99999", &at_ms.to_string());
        write(dir.path(), 1, &[("sched", &text), ("status", &status)]);
        sampler.look(1, (10, &[]), at_ms).unwrap();
        sampler.kernel_balances()
    };
    assert_eq!(
        [look(3, 1), look(3, 2), look(4, 3), look(4, 4)],
        [false, false, true, true]
    );
}

#[test]
fn what_tasks_work_on_is_told_of_each_and_only_of_its_own_memory() {
    let dir = tempfile::tempdir().unwrap();
    let files = [("status", STATUS), ("maps", MAPS), ("numa_maps", NUMA_MAPS)];
    write(dir.path(), 42, &files);
    let nodes = |address: usize| match address {
        0x1000_0000..0x1200_0000 => 0,
        0x1200_0000..0x1400_0000 => 8,
        0x2000_0000..0x2200_0000 => 8,
        _ => panic!("{address:x} is not memory"),
    };
    let mut sampler = sampler(dir.path(), nodes);
    let (a, b) = ((5, 2), (6, 2));
    let touched = [
        (a, 0x1000_0008),
        (a, 0x1000_1010),
        (b, 0x13ff_ffff),
        // Both have it; program text; shared memory; nothing at all.
        (a, 0x1300_0000),
        (b, 0x1300_0fff),
        (b, 0x0040_0000),
        (a, 0x2000_0000),
        (b, 0x7fff_0000_0000),
    ];
    let look = sampler.look(42, (300, &touched), 5_000).unwrap();
    let found = look.tasks.iter().map(|(task, sample)| {
        let pages: Vec<u32> = sample.pages.iter().map(|node| node.private).collect();
        (*task, sample.at_ms, sample.asked, pages)
    });
    let found: Vec<_> = found.collect();
    assert_eq!(
        found,
        [(a, 5_000, 2, vec![2, 0]), (b, 5_000, 1, vec![0, 1])]
    );
    // The process's own sample is what it is without them.
    assert_eq!(look.sample.asked, 300);
    let answers: u32 = look
        .sample
        .pages
        .iter()
        .map(|on| on.private + on.shared)
        .sum();
    assert_eq!(answers, 300);
}
