// SPDX-License-Identifier: GPL-2.0-only
//! Flags that change what is loaded, and kernels that lack something optional.

use crate::client::Client;
use crate::guest::{must, node_of, nodes, read, release, secs, within};
use crate::sched::{Sched, with_own};
use crate::tasks::{SCHED_EXT, Task, set_policy, settle};

fn running(client: &mut Client) -> u64 {
    client.top().nodes.values().map(|node| node.running).sum()
}

/// --partial: a SCHED_EXT task is scheduled by it, a SCHED_OTHER one is left alone and invisible.
#[test]
#[ignore = "runs in the lab"]
fn partial() {
    only_sched_ext_tasks(&["--partial"]);
}

/// With these flags, `--partial` among them.
pub fn only_sched_ext_tasks(flags: &[&str]) {
    with_own(flags, |_| {
        assert_eq!(read("/sys/kernel/sched_ext/switch_all"), "0");
        let mut client = Client::connect();
        let nodes = nodes();
        let tasks = [Task::free_hog(), Task::free_hog()];
        set_policy(tasks[0].pid(), SCHED_EXT).unwrap();
        settle(&tasks);
        assert!(tasks[0].is_ext());
        assert!(!tasks[1].is_ext());
        // The SCHED_EXT hog alone is counted; the daemon itself is not of this class either.
        within(secs(1), || match running(&mut client) {
            1 => Ok(()),
            n => Err(format!("{n} tasks are counted")),
        });
        // On a machine with one node this is where it runs already.
        let to = (node_of(&nodes, tasks[0].cpu()) + 1) % nodes.len();
        client.move_task(&tasks[0], &nodes, to);
        set_policy(tasks[0].pid(), libc::SCHED_OTHER).unwrap();
        within(secs(1), || match running(&mut client) {
            0 => Ok(()),
            n => Err(format!("{n} tasks are counted after the last has left")),
        });
    });
}

/// One idle mask for the machine, as kernels before 6.15 have it: there the kernel forbids all calls
/// for masks per node, so everything that looks for idle CPUs has to take the other way.
#[test]
#[ignore = "runs in the lab"]
fn global_idle_mask() {
    with_own(&["--global-idle-mask"], |sched| {
        exercise_idle_search(sched);
    });
}

/// The way that this kernel takes by itself, for comparison: per node from 6.15 on.
#[test]
#[ignore = "runs in the lab"]
fn default_idle_mask() {
    with_own(&[], |sched| {
        let flags = sched.log();
        let flags = flags
            .lines()
            .find_map(|line| line.split_once("ops flags: 0x"));
        let flags = u64::from_str_radix(flags.unwrap().1.trim(), 16).unwrap();
        // SCX_OPS_BUILTIN_IDLE_PER_NODE
        assert_eq!(flags & (1 << 6) != 0, release() >= (6, 15), "{flags:#x}");
        exercise_idle_search(sched);
    });
}

/// Wake-ups, forks, narrow affinity: every search for an idle CPU is done.
fn exercise_idle_search(sched: &mut Sched) {
    let mut client = Client::connect();
    let nodes = nodes();
    let narrow: Vec<Task> = nodes
        .iter()
        .map(|node| Task::hog(node.cpus.iter().copied().take(2)))
        .collect();
    must("hackbench -g 2 -l 20");
    must("for i in {1..30}; do (:) & done; wait");
    settle(&narrow);
    let stats = client.top();
    assert!(
        stats.idle_prev + stats.idle_llc + stats.idle_node > 0,
        "{stats:?}"
    );
    assert!(stats.fork_local > 0, "{stats:?}");
    assert!(stats.fork_remote > 0 || nodes.len() == 1, "{stats:?}");
    sched.assert_well();
}
