// SPDX-License-Identifier: GPL-2.0-only
//! Wanted homes: what the daemon writes into a slot, BPF carries out.

use scx_ballast::observe::Stats;

use crate::client::Client;
use crate::guest::{ms, node_of, nodes, remark, undisturbed, within};
use crate::sched::{Sched, with_shared};
use crate::tasks::{Task, settle};

/// Run `test` where there is another node to move to.
#[track_caller]
fn with_two_nodes(test: impl FnOnce(&mut Sched)) {
    with_shared(|sched| match nodes().len() {
        1 => remark("skipped: one node"),
        _ => test(sched),
    });
}

/// So many wishes of ours were carried out; what the balancer asked for meanwhile, for whoever else ran
/// just then, may be counted too.
#[track_caller]
fn assert_moved(stats: &Stats, ours: u64) {
    let asked = stats.moves_excess + stats.moves_utilisation;
    assert!((ours..=ours + asked).contains(&stats.moved), "{stats:?}");
}

#[test]
#[ignore = "runs in the lab"]
fn a_running_task_moves_and_stays() {
    with_two_nodes(|_| {
        let (nodes, mut client) = (nodes(), Client::connect());
        let task = Task::free_hog();
        settle(std::slice::from_ref(&task));
        for _ in 0..3 {
            let to = (node_of(&nodes, task.cpu()) + 1) % nodes.len();
            let stats = client.move_task(&task, &nodes, to);
            assert_moved(&stats, 1);
            assert!(stats.node_migrations >= 1, "{stats:?}");
            // Nothing else may move a lone task on an idle machine.
            std::thread::sleep(ms(300));
            // Before the statistics, so that whatever brought it there is in those: to ask for them takes a CPU, maybe its own.
            let node = node_of(&nodes, task.cpu());
            let later = client.top();
            let pulled = stats.pulled_remote + later.pulled_remote > 0;
            assert!(node == to || pulled, "{later:?} after {stats:?}");
            assert_moved(&later, 0);
        }
    });
}

#[test]
#[ignore = "runs in the lab"]
fn a_sleeping_task_wakes_on_its_new_node() {
    with_two_nodes(|_| {
        let (nodes, mut client) = (nodes(), Client::connect());
        let task = Task::sleeper(ms(20));
        std::thread::sleep(ms(200));
        for _ in 0..3 {
            let to = (node_of(&nodes, task.cpu()) + 1) % nodes.len();
            assert_moved(&client.move_task(&task, &nodes, to), 1);
        }
    });
}

/// A task that waits in a queue goes at its next enqueue, at the latest when its next turn ends: one
/// that may use a CPU of two nodes each, both of them busy with two pinned hogs.
#[test]
#[ignore = "runs in the lab"]
fn a_waiting_task_moves() {
    with_two_nodes(|_| {
        let (nodes, mut client) = (nodes(), Client::connect());
        let cpus = [&nodes[0], &nodes[1]].map(|node| *node.cpus.last().unwrap());
        let hogs = [cpus, cpus].concat();
        let mut tasks: Vec<Task> = hogs.into_iter().map(|cpu| Task::hog([cpu])).collect();
        tasks.push(Task::hog(cpus));
        settle(&tasks);
        let task = &tasks[4];
        for _ in 0..3 {
            // Both CPUs may run it, and a turn taken there before the wish makes the wish void.
            undisturbed(3, || {
                let to = usize::from(node_of(&nodes, task.cpu()) == 0);
                let stats = client.move_task(task, &nodes, to);
                match stats.moved {
                    0 => Err(format!("not moved: {stats:?}")),
                    _ => {
                        assert_moved(&stats, 1);
                        Ok(())
                    }
                }
            });
        }
    });
}

/// A wish that cannot be carried out is refused with a sentence that says why.
#[test]
#[ignore = "runs in the lab"]
fn impossible_wishes_are_refused() {
    with_two_nodes(|_| {
        let (nodes, mut client) = (nodes(), Client::connect());
        let refused = |client: &mut Client, pid: i32, node: u32, why: &str| {
            let text = client
                .want(pid, node)
                .expect_err("this wish must be refused");
            assert!(text.contains(why), "{text}");
        };
        let task = Task::hog(nodes[0].cpus.clone());
        settle(std::slice::from_ref(&task));
        let other = nodes[nodes.len() - 1].id;
        refused(
            &mut client,
            task.pid(),
            other,
            "may not use any CPU of node",
        );
        refused(&mut client, task.pid(), 63, "no node 63");
        refused(&mut client, -1, other, "no task -1");
        let pid = task.pid();
        drop(task);
        // Its slot is given back when the kernel drops its last reference, after RCU.
        within(ms(500), || match client.want(pid, nodes[0].id) {
            Err(why) if why.contains(&format!("no task {pid}")) => Ok(()),
            other => Err(format!("the dead task {pid}: {other:?}")),
        });
        let text = client.ask("move", &[("pid", "x".into())]).unwrap_err();
        assert!(text.contains("'x' is not a number"), "{text}");
        assert_moved(&client.top(), 0);
    });
}
