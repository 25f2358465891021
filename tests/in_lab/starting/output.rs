// SPDX-License-Identifier: GPL-2.0-only
//! What it prints for users and their tools, spelled as sched_ext schedulers spell it.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};

use scx_ballast::observe::Stats;

use crate::guest::{must, secs, within};
use crate::sched::{Sched, binary, with_none, with_own};

fn print(flag: &str) -> String {
    must(&format!("{} {flag}", binary().display()))
}

/// `scx_NAME VERSION[-g<sha>[-dirty]] TRIPLE`
#[test]
#[ignore = "runs in the lab"]
fn version() {
    with_none(|| {
        let text = print("-V");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words.len(), 3, "{text}");
        assert_eq!(words[0], "scx_ballast");
        assert!(words[1].starts_with(env!("CARGO_PKG_VERSION")), "{text}");
        assert!(words[2].contains("-linux-"), "{text}");
        assert_eq!(text, print("--version"));
    });
}

/// --help-stats names and describes every number of an answer.
#[test]
#[ignore = "runs in the lab"]
fn statistics_are_described() {
    with_none(|| {
        let text = print("--help-stats");
        let mut stats = Stats::default();
        stats.nodes.insert(0, Default::default());
        let all = serde_json::to_value(&stats).unwrap();
        let top = all.as_object().unwrap().keys();
        let node = all["nodes"]["0"].as_object().unwrap().keys();
        for name in top.chain(node) {
            let mut lines = text.lines().filter(|line| line.contains(" : "));
            let named = lines.any(|line| line.split_whitespace().next() == Some(name));
            assert!(named, "{name} is not described:\n{text}");
        }
    });
}

/// What both --stats and --monitor print each time.
#[track_caller]
fn wait_for_reports(times: usize, text: impl Fn() -> String) {
    within(secs(times as u64 + 1), || {
        let text = text();
        let counts = [
            "node  0: cpus",
            "forks: local",
            "queued: llc",
            "migrations: llc",
        ];
        match counts.map(|part| text.matches(part).count()).iter().min() {
            Some(n) if *n >= times => Ok(()),
            n => Err(format!("{n:?} of {times} reports:\n{text}")),
        }
    });
}

#[test]
#[ignore = "runs in the lab"]
fn stats_flag() {
    with_own(&["--stats", "0.5"], |sched: &mut Sched| {
        wait_for_reports(3, || sched.log());
    });
}

/// --monitor waits for a scheduler, loads none itself, survives the end of the one it watched, and
/// goes on with the next.
#[test]
#[ignore = "runs in the lab"]
fn monitor_flag() {
    with_none(|| {
        let log = || fs::read_to_string("/tmp/monitor").unwrap();
        let file = File::create("/tmp/monitor").unwrap();
        let mut monitor: Child = Command::new(binary())
            .args(["--monitor", "0.5"])
            .stdin(Stdio::null())
            .stdout(file)
            .spawn()
            .unwrap();
        let sched = Sched::start(&[]);
        wait_for_reports(2, log);
        sched.end_with(libc::SIGINT);
        let seen = log().matches("forks: local").count();
        let sched = Sched::start(&[]);
        wait_for_reports(seen + 2, log);
        sched.end_with(libc::SIGINT);
        assert!(
            monitor.try_wait().unwrap().is_none(),
            "the monitor has ended"
        );
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(monitor.id() as i32, libc::SIGINT) };
        let status = within(secs(1), || {
            monitor
                .try_wait()
                .unwrap()
                .ok_or("the monitor ignores Ctrl-C".to_string())
        });
        assert!(status.success(), "{status}");
    });
}
