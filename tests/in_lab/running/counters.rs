// SPDX-License-Identifier: GPL-2.0-only
//! The contract's invariants: whatever happens to tasks, each is counted in exactly one place while
//! it runs or waits and nowhere afterwards, and its slot is given back.
//!
//! After every storm:
//!
//! - On the idle machine exactly one task is counted: the daemon, which runs while it answers. The
//!   driver is a real-time task, hence invisible. Other tasks run for moments, so the check looks
//!   until it finds that state; a counter that leaked never shows it.
//! - Counters below 0 would read as 0, so the check is repeated with a known load: a hog in each LLC.
//!   A counter that lost a task shows too little for ever.
//! - No newborn is counted when --newborn-ms has passed.
//! - As many slots are taken as the kernel counts threads.

use std::collections::BTreeMap;
use std::thread::sleep;

use scx_ballast::observe::Stats;

use crate::client::Client;
use crate::guest::{
    llcs, ms, must, node_of, nodes, online, secs, soak, thread_list, threads, within,
};
use crate::sched::with_shared;
use crate::tasks::{SCHED_EXT, Task, confine, set_policy, settle};

/// Wait until exactly `hogs` (by node id) and the daemon are counted, all of them as running.
#[track_caller]
fn wait_for_counts(client: &mut Client, hogs: &BTreeMap<u32, u64>) {
    let total = hogs.values().sum::<u64>() + 1;
    within(secs(1), || {
        let stats = client.top();
        let sum = |field: fn(&scx_ballast::observe::NodeStats) -> u64| {
            stats.nodes.values().map(field).sum::<u64>()
        };
        let placed = hogs.iter().all(|(id, n)| stats.nodes[id].running >= *n);
        let right = sum(|n| n.running) == total && sum(|n| n.committed) == total;
        match placed && right && sum(|n| n.waiting) == 0 {
            true => Ok(()),
            false => Err(format!(
                "{total} tasks run, {hogs:?} of them hogs: {:?}",
                stats.nodes
            )),
        }
    });
}

/// The invariants on an otherwise idle machine.
#[track_caller]
fn assert_true_counters() {
    let mut client = Client::connect();
    sleep(ms(1200));
    wait_for_counts(&mut client, &BTreeMap::new());
    {
        let nodes = nodes();
        let mut hogs = BTreeMap::new();
        let mut tasks = Vec::new();
        for llc in llcs() {
            let cpu = *llc.last().unwrap();
            *hogs.entry(nodes[node_of(&nodes, cpu)].id).or_insert(0) += 1;
            tasks.push(Task::hog([cpu]));
        }
        settle(&tasks);
        sleep(ms(1200));
        wait_for_counts(&mut client, &hogs);
    }
    within(secs(1), || {
        let (before, stats, after): (u64, Stats, u64) = (threads(), client.top(), threads());
        match before == after && stats.tasks_seen == before && stats.tasks_unseen == 0 {
            true => Ok(()),
            false => Err(format!(
                "{} slots and {} tasks without one for {before} to {after} threads: {}",
                stats.tasks_seen,
                stats.tasks_unseen,
                thread_list()
            )),
        }
    });
}

/// Random numbers that are the same each time (Knuth's MMIX generator).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// The check itself, before any storm: an idle machine.
#[test]
#[ignore = "runs in the lab"]
fn a_idle() {
    with_shared(|_| assert_true_counters());
}

/// Tasks that change their class while they run, wait and sleep.
#[test]
#[ignore = "runs in the lab"]
fn class_changes() {
    with_shared(|_| {
        // Few hogs: a real-time one takes a whole CPU.
        let mut tasks: Vec<Task> = (0..3).map(|_| Task::free_hog()).collect();
        tasks.extend((0..9).map(|i| Task::sleeper(ms(i))));
        let policies = [libc::SCHED_OTHER, libc::SCHED_FIFO, libc::SCHED_BATCH];
        let more = [libc::SCHED_RR, libc::SCHED_IDLE, SCHED_EXT];
        let policies = [policies, more].concat();
        let mut dice = Dice(1);
        for _ in 0..soak(300, 20_000) {
            let task = &tasks[dice.below(tasks.len())];
            set_policy(task.pid(), policies[dice.below(policies.len())]).unwrap();
            sleep(ms(dice.below(4) as u64));
        }
        // Half of them end in the class that they happen to be in, the others as ordinary tasks.
        for task in tasks.iter().step_by(2) {
            set_policy(task.pid(), libc::SCHED_OTHER).unwrap();
        }
        drop(tasks);
        assert_true_counters();
    });
}

/// Tasks that are told to run elsewhere while they run, wait and sleep.
#[test]
#[ignore = "runs in the lab"]
fn affinity_changes() {
    with_shared(|_| {
        let cpus: Vec<u32> = online().into_iter().collect();
        let mut tasks: Vec<Task> = (0..12).map(|_| Task::free_hog()).collect();
        tasks.extend((0..12).map(|i| Task::sleeper(ms(i))));
        let mut dice = Dice(2);
        for _ in 0..soak(300, 20_000) {
            let task = &tasks[dice.below(tasks.len())];
            let (first, len) = (dice.below(cpus.len()), 1 + dice.below(cpus.len()));
            let set = cpus.iter().cycle().skip(first).take(len).copied();
            confine(task.pid(), set).unwrap();
            sleep(ms(dice.below(4) as u64));
        }
        drop(tasks);
        assert_true_counters();
    });
}

/// SIGKILL of tasks that run, wait, sleep, and of newborns that have not run yet.
#[test]
#[ignore = "runs in the lab"]
fn kills() {
    with_shared(|_| {
        for _ in 0..soak(2, 50) {
            let cpus = online();
            let thrice = cpus.iter().chain(&cpus).chain(&cpus);
            let mut tasks: Vec<Task> = thrice.map(|_| Task::free_hog()).collect();
            tasks.extend(cpus.iter().map(|cpu| Task::hog([*cpu])));
            tasks.extend((0..8).map(|_| Task::sleeper(ms(5))));
            tasks.extend((0..8).map(|_| Task::sleeper(secs(1000))));
            sleep(ms(300));
            for task in &tasks {
                task.signal(libc::SIGKILL);
            }
            drop(tasks);
            let newborns: Vec<Task> = (0..50).map(|_| Task::free_hog()).collect();
            for task in &newborns {
                task.signal(libc::SIGKILL);
            }
        }
        assert_true_counters();
    });
}

/// Many short lives: processes, threads, and children that nobody has waited for yet (zombies).
#[test]
#[ignore = "runs in the lab"]
fn forks_and_exits() {
    with_shared(|_| {
        let seconds = soak(4, 120);
        must(&format!(
            "stress-ng --quiet --temp-path /tmp --fork 2 --pthread 1 --pthread-max 64 --zombie 1 \
             --zombie-max 32 --clone 1 --clone-max 32 --timeout {seconds}s"
        ));
        must("for i in {1..100}; do /bin/true & done; wait");
        assert_true_counters();
    });
}

/// Everything at once: messages, affinity, priorities, yields, timers, futexes.
#[test]
#[ignore = "runs in the lab"]
fn mixed_load() {
    with_shared(|_| {
        let seconds = soak(5, 300);
        must(&format!(
            "stress-ng --quiet --temp-path /tmp --affinity 4 --switch 2 --yield 2 --nice 1 --futex 1 \
             --schedpolicy 1 --timeout {seconds}s & \
             while kill -0 $! 2>/dev/null; do hackbench -g 2 -l 10 >/dev/null || exit 1; done; wait $!"
        ));
        assert_true_counters();
    });
}
