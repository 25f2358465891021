// SPDX-License-Identifier: GPL-2.0-only
//! Preferred nodes (R5, R8): what BPF makes of them at wake-ups and when threads are started.
//!
//! The preference comes from a `prefer` request. The balancer and with it the daemon's own locality are
//! off, so that nothing else moves a task or has an opinion where it belongs.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;

use crate::client::Client;
use crate::guest::{Node, ms, node_of, nodes, remark, undisturbed, within};
use crate::rules::Rules;
use crate::sched::{Sched, with_own};
use crate::tasks::{Quiet, Shared, Task, confine, current_cpu, release, settle};

/// A waker of the lab is slow to sleep, and still one that keeps its word.
const FLAGS: [&str; 4] = ["--balance-interval-ms", "0", "--sync-us", "1000000"];

/// Run `test` with a scheduler of its own where there is another node to belong to.
#[track_caller]
fn with_nodes(test: impl FnOnce(&mut Sched, &[Node])) {
    let nodes = nodes();
    match nodes.len() {
        1 => with_own(&FLAGS, |_| remark("skipped: one node")),
        _ => with_own(&FLAGS, |sched| test(sched, &nodes)),
    }
}

/// A hog on CPU `i` of a node.
fn hog_on(node: &Node, i: usize) -> Task {
    Task::hog(node.cpus.iter().copied().skip(i).take(1))
}

/// As many hogs as it takes until `to` may not have one task more, with `others` on every other node;
/// `None` where the node is full before that.
fn crowd(rules: &Rules, to: usize, others: u32) -> Option<u32> {
    let cpus = rules.nodes[to].cpus.len() as u32;
    (0..cpus).find(|hogs| {
        let mut counts = vec![others; rules.nodes.len()];
        counts[to] = hogs + 1;
        !rules.tolerated(&counts)
    })
}

/// Wait until `task` has woken up on node `to`.
#[track_caller]
fn wait_for(task: &Task, nodes: &[Node], to: usize) {
    within(ms(100), || match node_of(nodes, task.cpu()) {
        node if node == to => Ok(()),
        node => Err(format!("task {} is on node {node}", task.pid())),
    });
}

#[test]
#[ignore = "runs in the lab"]
fn a_sleeper_wakes_where_it_belongs() {
    with_nodes(|_, nodes| {
        let mut client = Client::connect();
        let task = Task::sleeper(ms(20));
        sleep(ms(200));
        for _ in 0..3 {
            let to = (node_of(nodes, task.cpu()) + 1) % nodes.len();
            client.top();
            client.prefer(task.pid(), Some(nodes[to].id)).unwrap();
            wait_for(&task, nodes, to);
            let stats = client.top();
            assert!(stats.idle_preferred >= 1, "{stats:?}");
            for _ in 0..20 {
                sleep(ms(20));
                assert_eq!(node_of(nodes, task.cpu()), to, "{:?}", client.top());
            }
        }
        // Belonging nowhere, it stays where it is.
        let here = node_of(nodes, task.cpu());
        client.prefer(task.pid(), None).unwrap();
        client.top();
        sleep(ms(400));
        assert_eq!(node_of(nodes, task.cpu()), here);
        assert_eq!(client.top().idle_preferred, 0);
    });
}

#[test]
#[ignore = "runs in the lab"]
fn the_limits_come_first() {
    with_nodes(|_, nodes| {
        let (rules, mut client) = (Rules::ballast(), Client::connect());
        let _quiet = Quiet::machine();
        let task = Task::sleeper(ms(20));
        sleep(ms(200));
        let to = (node_of(nodes, task.cpu()) + 1) % nodes.len();
        // Too full also while somebody else runs on its own node, which there always is for moments.
        let Some(count) = crowd(&rules, to, 1) else {
            return remark("skipped: no node gets too full");
        };
        let hogs: Vec<Task> = (0..count as usize).map(|i| hog_on(&nodes[to], i)).collect();
        settle(&hogs);
        // Two of them at a time make room for it. This thread would be one each time,
        // since it looks when the task wakes up: where it makes things worse it does no harm.
        confine(0, nodes[to].cpus.clone()).unwrap();
        undisturbed(12, || {
            client.prefer(task.pid(), None).unwrap();
            let away = &nodes[(to + 1) % nodes.len()];
            confine(task.pid(), away.cpus.clone()).unwrap();
            wait_for(&task, nodes, (to + 1) % nodes.len());
            release([task.pid()]);
            client.prefer(task.pid(), Some(nodes[to].id)).unwrap();
            client.top();
            for _ in 0..40 {
                sleep(ms(20));
                if node_of(nodes, task.cpu()) == to {
                    return Err(format!("it came all the same: {:?}", client.top()));
                }
            }
            match client.top().idle_preferred {
                0 => Ok(()),
                n => Err(format!("{n} wake-ups where it belongs")),
            }
        });
        release([0]);
        // There was nothing else in its way.
        drop(hogs);
        wait_for(&task, nodes, to);
    });
}

/// What a parent and its children tell each other; CPUs are stored + 1.
#[derive(Default)]
struct Nursery {
    /// 1: start a thread; 2: fork a process.
    wanted: AtomicU64,
    birth: AtomicU64,
    /// Where the parent was just before.
    parent: AtomicU64,
}

impl Nursery {
    /// The life of the parent. It never sleeps of its own will, so that it stays off the node where it belongs.
    fn parent(&'static self) {
        let note = |place: &AtomicU64| place.store(u64::from(current_cpu()) + 1, Relaxed);
        loop {
            let wanted = self.wanted.swap(0, Relaxed);
            if wanted > 0 {
                note(&self.parent);
            }
            match wanted {
                1 => drop(std::thread::spawn(move || note(&self.birth))),
                // SAFETY: the child touches nothing but the shared memory and ends.
                2 => unsafe {
                    if libc::fork() == 0 {
                        note(&self.birth);
                        libc::_exit(0);
                    }
                },
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Nodes of parent and child.
    #[track_caller]
    fn bear(&self, wanted: u64, nodes: &[Node]) -> (usize, usize) {
        self.birth.store(0, Relaxed);
        self.wanted.store(wanted, Relaxed);
        let birth = within(ms(500), || match self.birth.load(Relaxed) {
            0 => Err("nobody was born".into()),
            cpu => Ok(cpu),
        });
        // Until it is gone it is counted.
        sleep(ms(100));
        let node = |cpu: u64| node_of(nodes, cpu as u32 - 1);
        (node(self.parent.load(Relaxed)), node(birth))
    }
}

const THREAD: u64 = 1;
const PROCESS: u64 = 2;

/// A parent on one node, whose process belongs on another, and as many hogs on each other node as there are
/// tasks on its own: what nobody prefers stays with its parent.
#[test]
#[ignore = "runs in the lab"]
fn threads_start_where_their_process_belongs() {
    with_nodes(|sched, nodes| {
        let (rules, mut client) = (Rules::ballast(), Client::connect());
        if !rules.equal_nodes() {
            return remark("skipped: nodes of unequal size");
        }
        let _quiet = Quiet::machine();
        let nursery: &'static Nursery = Shared::<Nursery>::leak();
        let parent = Task::fork(|| nursery.parent());
        settle(std::slice::from_ref(&parent));
        let home = node_of(nodes, parent.cpu());
        let to = (home + 1) % nodes.len();
        let elsewhere = (0..nodes.len()).filter(|n| *n != home);
        let mut hogs: Vec<Task> = elsewhere.map(|n| hog_on(&nodes[n], 0)).collect();
        settle(&hogs);
        // A parent that had to wait for a lock woke up where it belongs: it is brought back, and bears five anew.
        let mut births = |wanted: u64, expected: usize, why: &str| {
            undisturbed(10, || {
                confine(parent.pid(), nodes[home].cpus.clone()).unwrap();
                wait_for(&parent, nodes, home);
                release([parent.pid()]);
                client.top();
                sched.pause();
                sleep(ms(100));
                let born: Vec<_> = (0..5).map(|_| nursery.bear(wanted, nodes)).collect();
                sched.signal(libc::SIGCONT);
                let preferred = client.top().fork_preferred;
                if born.iter().any(|(from, _)| *from != home) {
                    return Err(format!("{why}: the parent went away: {born:?}"));
                }
                assert_eq!(born, [(home, expected); 5], "{why}");
                Ok(preferred)
            })
        };
        assert_eq!(births(THREAD, home, "no preference"), 0);
        let mut other = Client::connect();
        other.prefer(parent.pid(), Some(nodes[to].id)).unwrap();
        assert!(births(THREAD, to, "a thread") >= 5);
        assert_eq!(births(PROCESS, home, "a process has no preference"), 0);
        // Too many for one more there.
        let Some(count) = crowd(&rules, to, 1) else {
            return remark("no node gets too full");
        };
        hogs.extend((1..count as usize).map(|i| hog_on(&nodes[to], i)));
        settle(&hogs);
        assert_eq!(births(THREAD, home, "not tolerated"), 0);
    });
}

/// A waker elsewhere gets its wakee, unless that belongs where it is.
#[test]
#[ignore = "runs in the lab"]
fn a_sync_waker_takes_nobody_off_its_node() {
    with_nodes(|_, nodes| {
        let mut client = Client::connect();
        let _quiet = Quiet::machine();
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let cpus: BTreeSet<u32> = nodes[0].cpus.clone();
        let _waker = Task::fork(move || {
            confine(0, cpus).unwrap();
            loop {
                sleep(ms(5));
                here.write_all(&[1]).unwrap();
                here.read_exact(&mut [0]).unwrap();
            }
        });
        let wakee = Task::fork(move || {
            loop {
                there.read_exact(&mut [0]).unwrap();
                there.write_all(&[1]).unwrap();
            }
        });
        // It is taken when it belongs nowhere in particular.
        within(ms(200), || match node_of(nodes, wakee.cpu()) {
            0 => Ok(()),
            _ => Err(format!("{:?}", client.top())),
        });
        client.prefer(wakee.pid(), Some(nodes[1].id)).unwrap();
        wait_for(&wakee, nodes, 1);
        client.top();
        for _ in 0..40 {
            sleep(ms(10));
            assert_eq!(node_of(nodes, wakee.cpu()), 1, "{:?}", client.top());
        }
        client.prefer(wakee.pid(), None).unwrap();
        within(ms(200), || match node_of(nodes, wakee.cpu()) {
            0 => Ok(()),
            _ => Err(format!("{:?}", client.top())),
        });
    });
}

#[test]
#[ignore = "runs in the lab"]
fn impossible_preferences_are_refused() {
    let refused = |client: &mut Client, pid: i32, node: u32, why: &str| {
        let text = client.prefer(pid, Some(node)).expect_err("a refusal");
        assert!(text.contains(why), "{text}");
    };
    let node = nodes()[0].id;
    with_nodes(|_, _| {
        let mut client = Client::connect();
        refused(&mut client, 1, 63, "no node 63");
        refused(&mut client, -1, node, "no task -1");
    });
    with_own(&["--locality", "off"], |_| {
        let mut client = Client::connect();
        refused(&mut client, 1, node, "not looked at");
    });
}
