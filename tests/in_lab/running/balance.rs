// SPDX-License-Identifier: GPL-2.0-only
//! Balancing at run time: tasks are put on one node by their affinity, which is then lifted. What
//! follows is the balancer's work, and its moves are counted, so it can be held to the rules: it moves
//! what has to move and not more (R3), only tasks that make the load (R10), and then leaves the state alone.
//!
//! There are few enough tasks that none waits for a CPU, so that idle CPUs pull nothing. When the host
//! takes an emulated CPU away they may still; what was pulled may make one more move necessary each time.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Instant;

use scx_ballast::observe::Stats;

use crate::client::Client;
use crate::guest::{ms, node_of, remark, secs, soak, undisturbed, within};
use crate::rules::{Rules, where_it_fits};
use crate::sched::{Sched, with_shared};
use crate::tasks::{Quiet, Task, confine, release, settle, spin, thread_cpus};

/// Moves beyond those that are needed, for what other tasks do meanwhile.
const FEW: u64 = 2;

/// Wait until `tasks` are in a tolerated state; returns it.
#[track_caller]
fn wait_for_tolerance(rules: &Rules, tasks: &[Task]) -> Vec<u32> {
    within(secs(2), || match rules.tasks_per_node(tasks) {
        counts if rules.tolerated(&counts) => Ok(counts),
        counts => Err(format!("still {counts:?}")),
    })
}

/// Moves, and what else brings a task to another node.
fn all_moves(stats: &Stats) -> String {
    format!(
        "asked {} + {}, done {}, pulled {}, idle {}",
        stats.moves_excess,
        stats.moves_utilisation,
        stats.moved,
        stats.pulled_remote,
        stats.idle_remote
    )
}

/// What the balancer makes of an imbalance.
struct Story<'a> {
    rules: &'a Rules,
    sched: &'a Sched,
    client: Client,
    /// They make the load.
    hogs: Vec<Task>,
    /// Sleepers and a small daemon.
    others: Vec<Task>,
}

impl Story<'_> {
    fn all(&self) -> impl Iterator<Item = i32> {
        self.others.iter().chain(&self.hogs).map(Task::pid)
    }

    /// Pinned to the first node, nothing can be done, and that is said. Returns how many moves it
    /// will take.
    fn pin(&mut self) -> Result<u64, String> {
        let first = &self.rules.nodes[0].cpus;
        for pid in self.all() {
            confine(pid, first.clone()).unwrap();
        }
        // Moved lately, they would be left alone.
        sleep(ms(1500));
        let needed = self
            .rules
            .moves_needed(&self.rules.tasks_per_node(&self.hogs));
        assert!(needed > 0, "no imbalance on this machine");
        self.client.top();
        let from = self.sched.trace().len();
        sleep(ms(1500));
        let pinned = self.client.top();
        let ours: BTreeSet<i32> = self.all().collect();
        let moves = self.sched.trace().moves(from);
        let moved = moves.iter().find(|m| ours.contains(&m.pid));
        assert!(moved.is_none(), "{moved:?} is pinned: {pinned:?}");
        // Others run on the machine as well, and who of them is on that node may go.
        ensure(pinned.moves_excess + pinned.moved == 0, || {
            format!("somebody else was moved: {pinned:?}")
        })?;
        ensure(pinned.alone_no_task > 0, || {
            format!("the imbalance was not seen: {pinned:?}")
        })?;
        Ok(needed)
    }

    /// Set free, as many move as have to, and none of the others; then nothing moves any more.
    fn release(&mut self, needed: u64) -> Result<(), String> {
        let from = self.sched.trace().len();
        release(self.all());
        let began = Instant::now();
        let counts = wait_for_tolerance(self.rules, &self.hogs);
        let took = began.elapsed();
        sleep(ms(200));
        let stats = self.client.top();
        remark(&format!(
            "{} hogs, {counts:?} after {} ms, {needed} needed, {};",
            self.hogs.len(),
            took.as_millis(),
            all_moves(&stats)
        ));
        ensure(
            (needed..=needed + FEW + stats.pulled_remote).contains(&stats.moves_excess),
            || format!("{needed} moves needed: {stats:?}"),
        )?;

        // A tolerated state is left alone.
        sleep(secs(soak(10, 60)));
        let away = self
            .others
            .iter()
            .filter(|task| node_of(&self.rules.nodes, task.cpu()) != 0);
        // Before the statistics, so that whatever brought them there is in those.
        let away = away.count() as u64;
        let later = self.client.top();
        remark(&format!("then {}", all_moves(&later)));
        ensure(later.moves_excess <= later.pulled_remote, || {
            format!("moved on: {later:?}")
        })?;
        let tolerated = self.rules.tolerated(&self.rules.tasks_per_node(&self.hogs));
        ensure(tolerated || later.pulled_remote > 0, || {
            "not tolerated in the end".into()
        })?;

        let hog_pids: BTreeSet<i32> = self.hogs.iter().map(Task::pid).collect();
        let moves = self.sched.trace().moves(from);
        assert!(moves.len() as u64 >= needed, "{moves:?}");
        let bystander = moves.iter().find(|m| !hog_pids.contains(&m.pid));
        ensure(bystander.is_none(), || {
            format!("{bystander:?} is none of {hog_pids:?}")
        })?;
        let excuses = [&stats, &later].map(|s| s.idle_remote + s.pulled_remote);
        ensure(away <= excuses[0] + excuses[1], || {
            format!("{away} bystanders left")
        })
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    holds.then_some(()).ok_or_else(otherwise)
}

/// The whole story: pinned hogs stay where they are and are reported; set free, as many move as have
/// to, none of the sleepers and the small daemon beside them, and then nothing moves any more.
#[test]
#[ignore = "runs in the lab"]
fn an_induced_imbalance_is_evened_out_once() {
    with_shared(|sched| {
        where_it_fits(3, |rules| {
            let client = Client::connect();
            let _quiet = Quiet::machine();
            let sleepers = (0..20).map(|i| Task::sleeper(ms(100 + 10 * i)));
            let mut others: Vec<Task> = sleepers.collect();
            others.push(Task::periodic(ms(1), ms(99)));
            let mut story = Story {
                hogs: rules.pinned_hogs(rules.room()),
                rules: &rules,
                sched,
                client,
                others,
            };
            undisturbed(3, || {
                let needed = story.pin()?;
                story.release(needed)
            });
        });
    });
}

/// A process whose threads, two of them, compute on `cpus`.
fn two_threads(cpus: BTreeSet<u32>) -> Task {
    Task::fork(move || {
        confine(0, cpus).unwrap();
        std::thread::spawn(|| spin());
        spin()
    })
}

/// Of two processes with two threads each on one node, one moves, whole. When the balancer sees
/// something else run for a moment, so that the excess is 3, or only some of the four set free, it
/// moves one thread, which is right as well and shows nothing: then they are brought back.
#[test]
#[ignore = "runs in the lab"]
fn threads_of_a_process_move_together() {
    const ATTEMPTS: u32 = 5;
    with_shared(|sched| {
        where_it_fits(6, |rules| {
            let mut client = Client::connect();
            let _quiet = Quiet::machine();
            let first = rules.nodes[0].cpus.clone();
            let processes = [two_threads(first.clone()), two_threads(first.clone())];
            settle(&processes);
            let threads = || processes.iter().flat_map(|task| thread_cpus(task.pid()));
            let threads: Vec<i32> = threads().map(|(tid, _)| tid).collect();
            assert_eq!(threads.len(), 4);
            for attempt in 1..=ATTEMPTS {
                for tid in &threads {
                    confine(*tid, first.clone()).unwrap();
                }
                // Moved lately, they would be left alone.
                sleep(ms(1500));
                client.top();
                let from = sched.trace().len();
                release(threads.iter().copied());
                sleep(secs(1));
                let stats = client.top();
                let ticks = sched.trace().ticks(from);
                let moves: Vec<_> = ticks
                    .iter()
                    .flat_map(|tick| &tick.decisions.moves)
                    .collect();
                remark(&all_moves(&stats));
                if moves.len() != 2 || stats.pulled_remote > 0 {
                    continue;
                }
                let group = |pid: i32| {
                    let process = processes.iter();
                    let mut process = process
                        .filter(|task| thread_cpus(task.pid()).iter().any(|(tid, _)| *tid == pid));
                    process.next().map(Task::pid)
                };
                let same_tick = ticks.iter().any(|tick| tick.decisions.moves.len() == 2);
                if !same_tick {
                    continue;
                }
                assert_eq!(group(moves[0].pid), group(moves[1].pid), "{moves:?}");
                for task in &processes {
                    let cpus = thread_cpus(task.pid()).into_iter().map(|(_, cpu)| cpu);
                    let counts = rules.per_node(cpus);
                    assert!(counts.contains(&2), "split: {counts:?}, {moves:?}");
                }
                return remark(&format!("at attempt {attempt}"));
            }
            panic!("never two moves at once");
        });
    });
}

/// Three times as many hogs as CPUs, all of them on one node: in the end all nodes are about equally
/// crowded, after not many more moves than it takes, and it stays like that.
#[test]
#[ignore = "runs in the lab"]
fn an_overload_is_spread() {
    with_shared(|_| {
        where_it_fits(2, |rules| {
            let _quiet = Quiet::machine();
            undisturbed(3, || overload(&rules));
        });
    });
}

fn overload(rules: &Rules) -> Result<(), String> {
    let mut client = Client::connect();
    let hogs = rules.pinned_hogs(3 * rules.cpus() as usize);
    client.top();
    release(hogs.iter().map(Task::pid));
    let counted =
        |stats: &Stats| -> Vec<u32> { stats.nodes.values().map(|n| n.running as u32).collect() };
    let began = Instant::now();
    // The connection that asks is another one, so that this one's counters go on.
    let mut observer = Client::connect();
    let counts = within(secs(2), || match counted(&observer.top()) {
        counts if rules.similarly_full(&counts) => Ok(counts),
        counts => Err(format!("still {counts:?}")),
    });
    let took = began.elapsed();
    sleep(ms(500));
    let stats = client.top();
    remark(&format!(
        "{} hogs, {counts:?} after {} ms, {};",
        hogs.len(),
        took.as_millis(),
        all_moves(&stats)
    ));
    // What has to leave the first node, and a quarter more.
    let stay = hogs.len() * rules.nodes[0].cpus.len() / rules.cpus() as usize;
    let needed = (hogs.len() - stay) as u64;
    ensure(stats.moved <= needed + needed / 4 + FEW, || {
        format!("{needed} moves needed: {stats:?}")
    })?;

    sleep(secs(soak(5, 60)));
    let later = client.top();
    // Over these seconds, without the tasks that ran for a moment.
    let counts = later.nodes.values().map(|n| n.running_avg.round() as u32);
    let counts: Vec<u32> = counts.collect();
    remark(&format!("then {counts:?}, {}", all_moves(&later)));
    ensure(later.moved <= FEW, || format!("moved on: {later:?}"))?;
    ensure(rules.similarly_full(&counts), || {
        format!("{counts:?}: {later:?}")
    })
}
