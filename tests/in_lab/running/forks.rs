// SPDX-License-Identifier: GPL-2.0-only
//! First placement: tasks that are forked in a row, wait for a moment and then run must be spread
//! evenly, nearly each time and not on average (R5, R6). That they sleep while the others are forked shows
//! whether sleeping newborns are counted: without that, nodes full of them look idle.
//!
//! Even means what the rules call tolerated, by this machine's own limit: no node has an excess of
//! more than 1 over another, or of 2 while it is lightly loaded. The forking task is counted
//! too, on its own node.
//!
//! "Each time" needs a machine without chance in it, so during a burst
//!
//! - the daemon is stopped, and the kernel's threads that are not bound to a CPU are real-time
//!   tasks: one that runs for a moment at the wrong moment rightly shifts a task to another node;
//! - the host may take an emulated CPU away for a while. A burst does not count when one of its tasks
//!   was no newborn by the definition (CPU time) for that reason, when it took too long altogether,
//!   or when a task was pulled to another node because its CPU did not come to run it (R9).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::guest::{Node, llcs, ms, node_of, remark, soak};
use crate::rules::Rules;
use crate::sched::{SHARED_FLAGS, Sched, with_own, with_shared};
use crate::tasks::{Quiet, Shared, Task, current_cpu, thread_time};

/// The tasks wake this long after the first was forked, one after the other.
const FIRST_WAKES: Duration = ms(250);
const BETWEEN: Duration = ms(3);
/// How long each computes after it woke: longer than it takes to wake all.
const SPIN: Duration = ms(60);
/// The last must be forked by then; well before the first wakes, and within --newborn-ms.
const FORKED: Duration = ms(200);
/// After more CPU time before its first sleep a task may not count as a newborn any more; the shared
/// scheduler's limit is 100 ms.
const NEWBORN: Duration = ms(80);

/// What a task leaves behind; CPUs are stored + 1.
#[derive(Default)]
struct Trace {
    birth: AtomicU64,
    slept_after: AtomicU64,
    first: AtomicU64,
}

#[derive(Default)]
struct Burst {
    tasks: [Trace; 32],
    /// Of the forking task.
    parent: AtomicU64,
    took: AtomicU64,
}

impl Trace {
    fn live(&self, wake: Instant, spin: Duration) {
        self.birth.store(u64::from(current_cpu()) + 1, Relaxed);
        self.slept_after
            .store(thread_time().as_nanos() as u64, Relaxed);
        std::thread::sleep(wake.saturating_duration_since(Instant::now()));
        self.first.store(u64::from(current_cpu()) + 1, Relaxed);
        let until = Instant::now() + spin;
        while Instant::now() < until {}
    }
}

impl Burst {
    /// The life of the forking task.
    fn run(&'static self, tasks: usize, threads: bool, spin: Duration) {
        let began = Instant::now();
        let wake = move |i: usize| began + FIRST_WAKES + BETWEEN * i as u32;
        let mut children = Vec::with_capacity(tasks);
        let mut handles = Vec::with_capacity(tasks);
        for (i, trace) in self.tasks.iter().enumerate().take(tasks) {
            if threads {
                handles.push(std::thread::spawn(move || trace.live(wake(i), spin)));
            } else {
                children.push(Task::fork(|| trace.live(wake(i), spin)));
            }
        }
        self.took.store(began.elapsed().as_nanos() as u64, Relaxed);
        self.parent.store(u64::from(current_cpu()) + 1, Relaxed);
        children
            .into_iter()
            .for_each(|child| assert_eq!(child.wait(), 0));
        handles
            .into_iter()
            .for_each(|handle| handle.join().unwrap());
    }

    /// Were all of its tasks newborns by the definition until the last was forked?
    fn counts(&self, tasks: usize) -> bool {
        let young = |trace: &Trace| trace.slept_after.load(Relaxed) < NEWBORN.as_nanos() as u64;
        self.tasks[..tasks].iter().all(young) && self.took.load(Relaxed) < FORKED.as_nanos() as u64
    }

    fn cpus(&self, tasks: usize, place: fn(&Trace) -> &AtomicU64) -> Vec<u32> {
        let traces = self.tasks[..tasks].iter();
        let cpu = |trace| {
            u32::try_from(place(trace).load(Relaxed))
                .unwrap()
                .checked_sub(1)
        };
        traces.map(|trace| cpu(trace).expect("a trace")).collect()
    }
}

/// What is wrong with a burst, if anything.
fn judge(burst: &Burst, tasks: usize, rules: &Rules) -> Option<String> {
    let parent = node_of(&rules.nodes, burst.parent.load(Relaxed) as u32 - 1);
    let birth_cpus = burst.cpus(tasks, |trace| &trace.birth);
    let births = rules.per_node(birth_cpus.clone());
    let mut with_parent = births.clone();
    with_parent[parent] += 1;
    let firsts = rules.per_node(burst.cpus(tasks, |trace| &trace.first));
    let mut with_waiting = firsts.clone();
    with_waiting[parent] += 1;
    // With more tasks than CPUs, a CPU that is idle for a moment rightly takes a waiting task of
    // another node (R9) before that one has run: births alone tell what fork decided then.
    let first_counts = tasks <= rules.cpus() as usize;
    // The parent waits when the tasks run, and may or may not have been a newborn itself.
    let firsts_good = rules.tolerated(&firsts) || rules.tolerated(&with_waiting);
    // Caches of equal size: none gets more than its part of its node's tasks.
    let fair = |node: &Node| {
        let llcs = llcs();
        let llcs = llcs.iter().filter(|llc| llc.is_subset(&node.cpus));
        let sizes: BTreeSet<usize> = llcs.clone().map(BTreeSet::len).collect();
        let most = with_parent[node_of(&rules.nodes, *node.cpus.first().unwrap())] as usize;
        let most = most.div_ceil(llcs.clone().count());
        let births =
            |llc: &BTreeSet<u32>| birth_cpus.iter().filter(|cpu| llc.contains(cpu)).count();
        sizes.len() > 1 || llcs.clone().all(|llc| births(llc) <= most)
    };
    let good = rules.similarly_full(&with_parent)
        && (!first_counts || firsts_good)
        && rules.nodes.iter().all(fair);
    (!good).then(|| {
        format!(
            "birth {births:?} first {firsts:?}, forked on node {parent}, births on CPUs {birth_cpus:?}"
        )
    })
}

fn bursts(tasks: usize, threads: bool) {
    with_shared(|sched| bursts_under(sched, &Rules::ballast(), tasks, threads));
}

fn bursts_under(sched: &mut Sched, rules: &Rules, tasks: usize, threads: bool) {
    let (bad, judged) = uneven_bursts(sched, rules, tasks, threads);
    // A task of somebody else that runs for the moment of one fork counts for its node, rightly, and
    // cannot always be seen afterwards: one burst in eight. EEVDF has five to eight uneven ones.
    assert!(bad.len() <= 1, "uneven of {judged}:\n{}", bad.join("\n"));
}

/// Those of so many bursts that are uneven. A scheduler that is needed for scheduling is not stopped.
pub fn uneven_bursts(
    sched: &mut Sched,
    rules: &Rules,
    tasks: usize,
    threads: bool,
) -> (Vec<String>, usize) {
    // What waits for a CPU may be pulled: do not let them wait, births alone are judged then.
    let spin = if tasks <= rules.cpus() as usize {
        SPIN
    } else {
        ms(0)
    };
    let wanted = soak(8, 100);
    let (mut judged, mut thrown_away, mut bad) = (0, 0, Vec::new());
    let _quiet = Quiet::machine();
    let mut client = Client::connect();
    // The daemon's thread for this connection is a newborn itself.
    std::thread::sleep(ms(1200));
    while judged < wanted {
        let burst: &'static Burst = Shared::<Burst>::leak();
        if !sched.is_needed() {
            sched.pause();
        }
        let status = Task::fork(|| burst.run(tasks, threads, spin)).wait();
        sched.signal(libc::SIGCONT);
        assert_eq!(status, 0);
        let pulled = client.top().pulled_remote;
        if burst.counts(tasks) && pulled == 0 {
            judged += 1;
            bad.extend(judge(burst, tasks, rules));
        } else {
            thrown_away += 1;
            assert!(
                thrown_away < 10 * wanted,
                "the host is too slow: {judged} judged"
            );
        }
    }
    remark(&format!(
        "{}/{judged} even, {thrown_away} thrown away",
        judged - bad.len()
    ));
    (bad, judged)
}

#[test]
#[ignore = "runs in the lab"]
fn bursts_of_4_processes() {
    bursts(4, false);
}

#[test]
#[ignore = "runs in the lab"]
fn bursts_of_8_processes() {
    bursts(8, false);
}

#[test]
#[ignore = "runs in the lab"]
fn bursts_of_16_processes() {
    bursts(16, false);
}

/// Threads are placed by the same rule.
#[test]
#[ignore = "runs in the lab"]
fn bursts_of_8_threads() {
    bursts(8, true);
}

/// Without tolerance, an excess of 1 is all that is left; where imb_numa_nr is 2 or more, three tasks
/// are placed otherwise than by the default rules.
#[test]
#[ignore = "runs in the lab"]
fn bursts_of_3_without_tolerance() {
    let args = [&SHARED_FLAGS[..], &["--imbalance-min", "0"]].concat();
    with_own(&args, |sched| {
        bursts_under(sched, &Rules::strict(), 3, false)
    });
}

/// The smallest burst that tolerance shows in.
#[test]
#[ignore = "runs in the lab"]
fn bursts_of_3_processes() {
    bursts(3, false);
}
