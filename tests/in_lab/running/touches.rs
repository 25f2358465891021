// SPDX-License-Identifier: GPL-2.0-only
//! Touches: of a process whose threads each work on memory of their own, each thread goes to the node of its
//! own, although as much of the process's memory is on either node; or where it may not, its memory comes to it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use std::thread::sleep;

use scx_ballast::policy::locality::view::Why;

use crate::client::Client;
use crate::guest::{Node, ms, node_of, nodes, remark, secs, within};
use crate::sched::with_own;
use crate::tasks::{Quiet, Shared, Task, confine, release, thread_cpus};

/// Memory of a thread.
const WORDS: usize = (16 << 20) / 8;

/// All of a node may be full, so that nobody is refused.
const FLAGS: [&str; 6] = [
    "--locality",
    "sampled",
    "--look-budget-us",
    "500000",
    "--imb-numa-nr",
    "100%",
];

/// ... and memory may be moved.
const MIGRATING: [&str; 7] = {
    let [a, b, c, d, e, f] = FLAGS;
    [a, b, c, d, e, f, "--migrate-memory"]
};

/// What the threads tell.
#[derive(Default)]
struct Told {
    ids: [AtomicI32; 2],
    ready: AtomicU32,
}

/// Touch memory of one's own where `memory` is, and go over it for ever where `at` is.
fn work(told: &Told, number: usize, memory: BTreeSet<u32>, at: BTreeSet<u32>) -> ! {
    confine(0, memory).unwrap();
    let mut words = vec![1_u64; WORDS];
    confine(0, at).unwrap();
    // SAFETY: takes nothing.
    told.ids[number].store(unsafe { libc::gettid() }, Relaxed);
    told.ready.fetch_add(1, Relaxed);
    loop {
        for word in &mut words {
            *std::hint::black_box(word) += 1;
        }
    }
}

/// Thread n has its memory on node n and is confined to the other one.
fn crossed(nodes: &[Node]) -> (Task, [i32; 2]) {
    let told: &Told = Shared::leak();
    let cpus = [nodes[0].cpus.clone(), nodes[1].cpus.clone()];
    let task = Task::fork(move || {
        let [first, second] = cpus;
        let other = (second.clone(), first.clone());
        std::thread::spawn(move || work(told, 1, other.0, other.1));
        work(told, 0, first, second)
    });
    within(secs(10), || match told.ready.load(Relaxed) {
        2 => Ok(()),
        ready => Err(format!("{ready} of 2 threads are ready")),
    });
    let ids = [0, 1].map(|number: usize| told.ids[number].load(Relaxed));
    (task, ids)
}

/// The node of each thread.
fn places(nodes: &[Node], task: &Task, ids: [i32; 2]) -> Vec<usize> {
    let all = thread_cpus(task.pid());
    let cpu = |id| all.iter().find(|(tid, _)| *tid == id).unwrap().1;
    ids.iter().map(|&id| node_of(nodes, cpu(id))).collect()
}

#[test]
#[ignore = "runs in the lab"]
fn each_thread_goes_to_the_memory_that_it_works_on() {
    let nodes = nodes();
    with_own(&FLAGS, |sched| {
        let _quiet = Quiet::machine();
        if nodes.len() < 2 {
            return remark("skipped: one node");
        }
        let (task, ids) = crossed(&nodes);
        assert_eq!(places(&nodes, &task, ids), [1, 0]);
        let mut client = Client::connect();
        let mut looks = 0;
        within(secs(8), || {
            looks += client.top().locality["sampled"].looks;
            match looks {
                4.. => Ok(()),
                few => Err(format!("{few} looks")),
            }
        });
        let from = sched.trace().len();
        release(ids);
        within(secs(10), || match places(&nodes, &task, ids) {
            at if at == [0, 1] => Ok(()),
            at => Err(format!("its threads are on nodes {at:?}")),
        });
        sleep(ms(500));
        let steps = sched.trace().steps(from);
        remark(&format!("{steps:?}"));
        // One may have come there without us: by a wake-up, or pulled.
        assert!(steps.iter().any(|step| ids.contains(&step.pid)));
        for (node, id) in ids.into_iter().enumerate() {
            let Some(step) = steps.iter().rfind(|step| step.pid == id) else {
                continue;
            };
            assert!(matches!(
                step.why,
                Why::Preferred | Why::Swap | Why::SwappedFor
            ));
            assert_eq!(usize::from(step.to), node, "{step:?}");
            assert!(step.gain > 0, "{step:?}");
        }
    });
}

/// Threads that are kept where their memory is not: of a process on both nodes, each gets what it works on.
#[test]
#[ignore = "runs in the lab"]
fn memory_comes_to_the_thread_that_works_on_it() {
    let nodes = nodes();
    with_own(&MIGRATING, |sched| {
        let _quiet = Quiet::machine();
        if nodes.len() < 2 {
            return remark("skipped: one node");
        }
        let (task, ids) = crossed(&nodes);
        let mut client = Client::connect();
        let pages = 2 * (WORDS * 8 / 4096) as u64;
        let (mut brought, mut refused) = (0, 0);
        within(secs(6), || {
            let stats = client.top().locality.remove("sampled").unwrap();
            brought += stats.brought_pages;
            refused += stats.refused_pages;
            // Of each thread's at least a half: the ends are worked on and not between two touches.
            match brought * 2 >= pages {
                true => Ok(()),
                false => Err(format!(
                    "{brought} of {pages} pages came, {refused} did not"
                )),
            }
        });
        remark(&format!("{brought} of {pages} pages, {refused} refused"));
        assert_eq!(places(&nodes, &task, ids), [1, 0]);
        assert!(refused * 10 <= brought, "{brought} came, {refused} did not");
        // Parts, each to the other node than its thread's memory was on.
        let told = sched.trace().brought();
        assert!(told.iter().all(|one| one.tgid == task.pid()), "{told:?}");
        let parts = told.iter().filter_map(|one| one.within);
        assert_eq!(parts.clone().count(), told.len(), "{told:?}");
        let to: BTreeSet<u16> = parts.map(|part| part.to).collect();
        remark(&format!("{} batches to {to:?}", told.len()));
        // No page goes to and fro.
        assert!(brought <= pages * 5 / 4, "{brought} of {pages}");
    });
}
