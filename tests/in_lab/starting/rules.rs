// SPDX-License-Identifier: GPL-2.0-only
//! What flags make of the rules, and what happens to newborns and to pairs under them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use scx_ballast::observe::Stats;

use crate::client::Client;
use crate::guest::{ms, must, node_of, read, remark, secs, soak, within};
use crate::rules::{Rules, where_it_fits};
use crate::sched::{SHARED_FLAGS, Sched, binary, with_none, with_own};
use crate::tasks::{Quiet, Shared, Task, current_cpu, release};

/// `--balance-interval-ms 0`: an imbalance that the rules do not tolerate stays.
#[test]
#[ignore = "runs in the lab"]
fn no_balancing() {
    // Idle CPUs must not even it out instead.
    let args = ["--balance-interval-ms", "0", "--pull-delay-us", "1000000"];
    with_own(&args, |_| {
        where_it_fits(3, |rules| {
            let mut client = Client::connect();
            let _quiet = Quiet::machine();
            let hogs = rules.pinned_hogs(rules.room());
            let counts = rules.tasks_per_node(&hogs);
            assert!(!rules.tolerated(&counts), "{counts:?}");
            release(hogs.iter().map(Task::pid));
            client.top();
            sleep(secs(soak(3, 30)));
            let stats = client.top();
            let asked = stats.moves_excess + stats.moves_utilisation;
            assert_eq!(stats.ticks + asked + stats.moved, 0, "{stats:?}");
            let stayed = rules.tasks_per_node(&hogs) == counts;
            assert!(stayed || stats.pulled_remote > 0, "{stats:?}");
        });
    });
}

/// exec has no hook: a newborn stays one across it, with what it had run before, and keeps its place.
#[test]
#[ignore = "runs in the lab"]
fn a_newborn_stays_one_across_exec() {
    const TASKS: u64 = 5;
    // A load of newborns is one that the balancer would even out.
    let args = [
        "--newborn-ms",
        "30000",
        "--newborn-work-us",
        "5000000",
        "--balance-interval-ms",
        "0",
    ];
    with_own(&args, |_| {
        let rules = Rules::ballast();
        let mut client = Client::connect();
        let newborns = |stats: &Stats| -> Vec<u64> {
            let nodes = stats.nodes.values();
            nodes.map(|n| n.committed - n.running).collect()
        };
        let births: &'static [AtomicU64; TASKS as usize] = Shared::leak();
        let life = |birth: &'static AtomicU64| {
            move || {
                birth.store(current_cpu().into(), Relaxed);
                sleep(ms(100));
                use std::os::unix::process::CommandExt;
                let error = std::process::Command::new("sleep").arg("1000").exec();
                panic!("sleep: {error}")
            }
        };
        let tasks: Vec<Task> = births.iter().map(|birth| Task::fork(life(birth))).collect();
        within(secs(2), || {
            let asleep = |task: &&Task| {
                let stat = read(format!("/proc/{}/stat", task.pid()));
                stat.contains("(sleep) S ")
            };
            match tasks.iter().filter(asleep).count() as u64 {
                TASKS => Ok(()),
                n => Err(format!("{n} of {TASKS} sleep after exec")),
            }
        });
        sleep(ms(100));
        let places = rules.tasks_per_node(&tasks);
        let births = rules.per_node(births.iter().map(|cpu| cpu.load(Relaxed) as u32));
        let stats = client.top();
        let gone = births
            .iter()
            .zip(&places)
            .map(|(b, p)| b.saturating_sub(*p));
        // With all these newborns a small node has no spare, and wake-ups may look elsewhere.
        let excuse = stats.idle_remote + stats.pulled_remote;
        assert!(
            u64::from(gone.sum::<u32>()) <= excuse,
            "born {births:?}, after exec {places:?}: {stats:?}"
        );
        let with_them = newborns(&stats);
        drop(tasks);
        // Others that age meanwhile only add to the difference.
        within(secs(1), || {
            let without = newborns(&client.top());
            let fewer: Vec<u64> = with_them
                .iter()
                .zip(&without)
                .map(|(a, b)| a.saturating_sub(*b))
                .collect();
            match fewer.iter().zip(&places).all(|(f, p)| *f >= u64::from(*p)) {
                true => Ok(()),
                false => Err(format!(
                    "{places:?} slept; newborns {with_them:?}, then {without:?}"
                )),
            }
        });
        remark(&format!(
            "{with_them:?} newborns, {places:?} of them after exec"
        ));
    });
}

/// What a communicating pair leaves behind: the node of the child's birth and how many round trips
/// began with both on one node.
#[derive(Default)]
struct Pair {
    parent: AtomicU64,
    /// CPU + 1 of the child, at birth and now.
    birth: AtomicU64,
    child: AtomicU64,
    trips: AtomicU64,
    together: AtomicU64,
}

impl Pair {
    /// Ping-pong through two pipes for `span`.
    fn play(&'static self, rules: &Rules, span: Duration) {
        let pipe = || {
            let mut ends = [0; 2];
            // SAFETY: an array of two on the stack.
            assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
            ends
        };
        let ([ping_out, ping_in], [pong_out, pong_in]) = (pipe(), pipe());
        let byte = |end: i32, write: bool| {
            let mut byte = 0u8;
            let at = (&raw mut byte).cast();
            // SAFETY: one byte on the stack.
            let done = unsafe {
                match write {
                    true => libc::write(end, at, 1),
                    false => libc::read(end, at, 1),
                }
            };
            assert_eq!(done, 1);
        };
        let cpu = || u64::from(current_cpu()) + 1;
        self.parent.store(cpu(), Relaxed);
        let child = Task::fork(|| {
            self.birth.store(cpu(), Relaxed);
            loop {
                byte(ping_out, false);
                self.child.store(cpu(), Relaxed);
                byte(pong_in, true);
            }
        });
        let until = Instant::now() + span;
        while Instant::now() < until {
            byte(ping_in, true);
            byte(pong_out, false);
            let node = |cpu: u64| node_of(&rules.nodes, cpu as u32 - 1);
            let both = [cpu(), self.child.load(Relaxed)].map(node);
            self.trips.fetch_add(1, Relaxed);
            self.together
                .fetch_add(u64::from(both[0] == both[1]), Relaxed);
        }
        drop(child);
    }
}

/// Let pairs play, one after the other; returns how many children were born on their parent's node, and
/// the share of round trips with both on one node.
fn pairs(sched: &Sched, rules: &Rules) -> (u32, f64) {
    let mut client = Client::connect();
    let _quiet = Quiet::machine();
    sleep(ms(1200));
    let (mut local, mut trips, mut together) = (0, 0, 0);
    for _ in 0..PAIRS {
        let pair: &'static Pair = Shared::leak();
        // The daemon may balance, but neither run nor move anything at the moment of the fork.
        sched.pause();
        let player = Task::fork(|| pair.play(rules, ms(1000)));
        within(secs(1), || match pair.birth.load(Relaxed) {
            0 => Err("no child".to_string()),
            _ => Ok(()),
        });
        sched.signal(libc::SIGCONT);
        assert_eq!(player.wait(), 0);
        let node = |cpu: &AtomicU64| node_of(&rules.nodes, cpu.load(Relaxed) as u32 - 1);
        local += u32::from(node(&pair.parent) == node(&pair.birth));
        trips += pair.trips.load(Relaxed);
        together += pair.together.load(Relaxed);
    }
    let stats = client.top();
    let share = together as f64 / trips as f64;
    remark(&format!(
        "{local} of {PAIRS} born together, {trips} trips, {share:.2} of them together, {} moves, {} migrations",
        stats.moved, stats.node_migrations
    ));
    (local, share)
}

const PAIRS: u32 = 3;

/// A pair that communicates stays on one node while the node is lightly loaded (R1, R2).
#[test]
#[ignore = "runs in the lab"]
fn a_pair_stays_together() {
    let args = [&SHARED_FLAGS[..], &["--rules", "ballast"]].concat();
    with_own(&args, |sched| {
        let rules = Rules::ballast();
        if rules.nodes.len() < 2 || rules.max_running.iter().any(|most| *most < 2) {
            return remark("skipped: imb_numa_nr is 1");
        }
        let (local, share) = pairs(sched, &rules);
        assert!(local + 1 >= PAIRS && share > 0.8, "{local}, {share}");
    });
}

/// Without tolerance the child of a lone task is placed on another node. What becomes of the pair then
/// is not this rule's affair: while one of the two runs the other waits, so counts differ by 1.
#[test]
#[ignore = "runs in the lab"]
fn a_pair_is_split_without_tolerance() {
    let args = [&SHARED_FLAGS[..], &["--rules", "none"]].concat();
    with_own(&args, |sched| {
        let rules = Rules::ballast();
        match rules.nodes.len() > 1 && rules.equal_nodes() {
            true => assert!(pairs(sched, &rules).0 <= 1),
            false => remark("skipped: one node, or unequal ones"),
        }
    });
}

/// `rules` marks the set that is in force, on the machine that it runs on.
#[test]
#[ignore = "runs in the lab"]
fn the_chosen_set_is_marked() {
    with_none(|| {
        let text = must(&format!("{} rules --rules v6.0", binary().display()));
        let marked: Vec<&str> = text.lines().filter(|l| l.starts_with('*')).collect();
        assert!(!marked.is_empty(), "{text}");
        assert!(marked.iter().all(|l| l.starts_with("* v6.0 ")), "{text}");
        for (node, most) in Rules::ballast().max_running.iter().enumerate() {
            let limit = format!("the kernel's imb_numa_nr is {most}");
            assert!(text.contains(&limit), "node {node}: {limit}\n{text}");
        }
    });
}
