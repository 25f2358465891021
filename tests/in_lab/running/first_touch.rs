// SPDX-License-Identifier: GPL-2.0-only
//! First touch: minor faults are credited to the node that the task ran on, also when it never stops.
//!
//! Nothing that the scheduler says shows them one by one, so BPF's own maps are read.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::guest::{ms, nodes, remark, within};
use crate::sched::with_own;
use crate::tasks::{Shared, Task, confine};

/// Pages that are touched at a time.
const PAGES: usize = 300;
const PAGE: usize = 4096;

/// What the toucher shall do, and has done.
#[derive(Default)]
struct Orders {
    wanted: AtomicU64,
    done: AtomicU64,
}

/// Touch new pages, each small one at a time.
fn touch() {
    let (rw, private) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: new memory of our own, written within its bounds and never given back.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), PAGES * PAGE, rw, private, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        libc::madvise(at, PAGES * PAGE, libc::MADV_NOHUGEPAGE);
        for page in 0..PAGES {
            at.cast::<u8>().add(page * PAGE).write_volatile(1);
        }
    }
}

/// Touch on order, and compute in between: no sleep.
fn toucher(orders: &Orders) -> ! {
    loop {
        if orders.wanted.load(Relaxed) > orders.done.load(Relaxed) {
            touch();
            orders.done.fetch_add(1, Relaxed);
        }
        std::hint::spin_loop();
    }
}

/// The map of the running scheduler with this name.
fn map(name: &str) -> MapHandle {
    let found = MapInfoIter::default().find(|info| info.name == OsStr::new(name));
    MapHandle::from_map_id(found.expect(name).id).unwrap()
}

fn value(map: &MapHandle, key: u32) -> Option<Vec<u8>> {
    map.lookup(&key.to_ne_bytes(), MapFlags::ANY).unwrap()
}

/// The slot of thread `pid`: the second word of a slot is the thread, the first is odd while it is free.
fn slot_of(pid: i32) -> u32 {
    let slots = map("slots");
    let word = |value: &[u8], i: usize| u32::from_ne_bytes(value[4 * i..][..4].try_into().unwrap());
    (0..slots.max_entries())
        .find(|slot| {
            let value = value(&slots, *slot).unwrap();
            word(&value, 1) == pid as u32 && word(&value, 0) % 2 == 0
        })
        .expect("a slot")
}

/// What thread `pid` is credited with, by dense node.
pub fn faults_of(pid: i32, nodes: usize) -> Vec<u64> {
    faults_in(slot_of(pid), nodes)
}

fn faults_in(slot: u32, nodes: usize) -> Vec<u64> {
    let table = map("faults");
    let words = (0..nodes as u32).map(|node| slot * nodes as u32 + node);
    words
        .map(|word| u64::from_ne_bytes(value(&table, word).unwrap().try_into().unwrap()))
        .collect()
}

#[test]
#[ignore = "runs in the lab"]
fn faults_are_credited_to_the_node_of_the_task() {
    // A turn is not over before the test is: one that never stops is seen by the tick alone.
    let flags = ["--max-tasks", "2048", "--slice-us", "1000000"];
    with_own(&flags, |_| {
        let nodes = nodes();
        if nodes.len() < 2 {
            return remark("skipped: one node");
        }
        let orders: &'static Orders = Shared::<Orders>::leak();
        let task = Task::fork(|| toucher(orders));
        let slot = slot_of(task.pid());
        let faults = || faults_in(slot, nodes.len());
        for (round, n) in [0, 1, 0].into_iter().enumerate() {
            confine(task.pid(), nodes[n].cpus.clone()).unwrap();
            // It has arrived when a tick has credited what it did before.
            within(ms(200), || match nodes[n].cpus.contains(&task.cpu()) {
                true => Ok(()),
                false => Err(format!("the task is on CPU {}", task.cpu())),
            });
            std::thread::sleep(ms(100));
            let before = faults();
            orders.wanted.store(round as u64 + 1, Relaxed);
            let after = within(ms(200), || match faults() {
                after if after[n] >= before[n] + PAGES as u64 => Ok(after),
                after => Err(format!("node {n}: {before:?}, {after:?}")),
            });
            for other in (0..nodes.len()).filter(|other| *other != n) {
                assert_eq!(after[other], before[other], "{before:?}, {after:?}");
            }
            assert!(
                after[n] < before[n] + 2 * PAGES as u64,
                "{before:?}, {after:?}"
            );
        }
        // The next owner of the slot begins anew. Somebody else may have given one back since.
        let old = faults();
        drop(task);
        let mut owners = Vec::new();
        within(ms(500), || {
            owners.push(Task::sleeper(ms(50)));
            let found = slot_of(owners[owners.len() - 1].pid());
            let now = faults();
            match found == slot && now.iter().sum::<u64>() < old.iter().sum::<u64>() / 2 {
                true => Ok(()),
                false => Err(format!("slot {found}, not {slot}: {now:?}")),
            }
        });
    });
}
