// SPDX-License-Identifier: GPL-2.0-only
//! Tasks that may not run everywhere.

use crate::client::Client;
use crate::guest::{must, node_of, nodes, remark, secs, soak};
use crate::sched::with_shared;
use crate::tasks::{Task, settle, shares};

/// A node-wide mask is no reason to leave the node's shared queues (scx#1678, #2014): twice as many
/// hogs as CPUs share the node evenly, and hardly any is put in the queue of a single CPU.
#[test]
#[ignore = "runs in the lab"]
fn a_node_wide_mask_stays_in_the_nodes_queues() {
    with_shared(|_| {
        let (nodes, mut client) = (nodes(), Client::connect());
        let last = nodes.len() - 1;
        let node = &nodes[last];
        let twice = node.cpus.iter().chain(&node.cpus);
        let tasks: Vec<Task> = twice.map(|_| Task::hog(node.cpus.clone())).collect();
        settle(&tasks);
        client.top();
        let shares = shares(&tasks, secs(4));
        let stats = client.top();
        assert!(tasks.iter().all(|task| node_of(&nodes, task.cpu()) == last));
        remark(&format!(
            "queued: llc {} cpu {}",
            stats.queued_llc, stats.queued_cpu
        ));
        // Kernel threads with odd masks may use CPU queues for a moment.
        assert!(stats.queued_llc > 100, "{stats:?}");
        assert!(stats.queued_cpu * 20 < stats.queued_llc, "{stats:?}");
        // Half a CPU each. LLCs share among themselves alone, pulls even them out: 20 %.
        assert!(
            shares.iter().all(|share| (0.4..0.6).contains(share)),
            "{shares:?}"
        );
    });
}

/// 100 tasks that change their affinity all the time (scx#869, #1064) beside wake-ups: nobody
/// stalls, the scheduler is not thrown out ("CPU not allowed", scx#2825).
#[test]
#[ignore = "runs in the lab"]
fn affinity_changes_under_load() {
    with_shared(|_| {
        let seconds = soak(6, 300);
        must(&format!(
            "stress-ng --quiet --temp-path /tmp --affinity 12 --switch 2 --timeout {seconds}s & \
             while kill -0 $! 2>/dev/null; do hackbench -s 64 -g 1 -l 20 >/dev/null || exit 1; done; wait $!"
        ));
    });
}
