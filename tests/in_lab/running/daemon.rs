// SPDX-License-Identifier: GPL-2.0-only
//! The daemon is not needed for scheduling, and nothing that happens around it may hurt it.

use std::fs::File;
use std::process::Command;

use crate::client::Client;
use crate::guest::{must, online, remark, secs, soak, within};
use crate::sched::with_shared;
use crate::tasks::{Task, settle, shares};

/// SIGSTOP for 10 s (60 s in `make soak`) under load (scx#89, #255): every task goes on, none is
/// starved, messages arrive, and the daemon answers afterwards.
#[test]
#[ignore = "runs in the lab"]
fn stopped_under_load() {
    with_shared(|sched| {
        let cpus = online();
        let tasks: Vec<Task> = cpus.iter().chain(&cpus).map(|_| Task::free_hog()).collect();
        settle(&tasks);
        let rounds = "/tmp/rounds";
        let mut messages = Command::new("bash")
            .args([
                "-c",
                "while hackbench -s 64 -g 1 -l 10 >/dev/null; do echo; done",
            ])
            .stdout(File::create(rounds).unwrap())
            .spawn()
            .unwrap();
        sched.signal(libc::SIGSTOP);
        let before = read_rounds(rounds);
        for _ in 0..soak(2, 12) {
            // Half a CPU each is fair, and less what the messages take: a tenth is not starved.
            let found = shares(&tasks, secs(5));
            let least = found.iter().copied().fold(1.0, f64::min);
            assert!(least > 0.1, "{found:?}");
            remark(&format!("least {least:.2}"));
            assert_eq!(crate::guest::state(), "enabled");
        }
        // Forty tasks among so many hogs: how long a round takes is not what is tested.
        let more = within(secs(10), || match read_rounds(rounds) - before {
            0 => Err("the messages stalled".to_string()),
            more => Ok(more),
        });
        remark(&format!("{more} rounds of messages"));
        sched.signal(libc::SIGCONT);
        messages.kill().unwrap();
        messages.wait().unwrap();
        drop(tasks);
        Client::connect();
    });
}

/// A line for each round.
fn read_rounds(path: &str) -> usize {
    std::fs::read(path).unwrap().len()
}

/// Memory pressure: the daemon's memory is locked, so it never waits for a page (scx#1960, #678).
#[test]
#[ignore = "runs in the lab"]
fn memory_pressure() {
    with_shared(|_| {
        let mut client = Client::connect();
        let seconds = soak(8, 120);
        // Nearly all of the memory, touched again and again; what is cached of files has to go.
        must(&format!(
            "stress-ng --quiet --temp-path /tmp --vm 2 --vm-bytes 90% --vm-method zero-one --vm-keep \
             --oomable --timeout {seconds}s"
        ));
        let stats = client.top();
        assert_eq!(stats.daemon_major_faults, 0, "{stats:?}");
        remark(&format!("daemon's CPU time {} us", stats.daemon_cpu_us));
    });
}
