// SPDX-License-Identifier: GPL-2.0-only
//! Finding what a comparison started, wherever it went: by a variable in the environment.
//!
//! Process groups and sessions can be left, parents can die; the environment goes with every fork and
//! exec unless a program clears it on purpose. The mark is unique for a comparison.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Around a benchmark.
pub const BENCHMARK: &str = "SCX_BALLAST_COMPARE_BENCHMARK";
/// Around a scheduler.
pub const SCHEDULER: &str = "SCX_BALLAST_COMPARE_SCHEDULER";

/// How often at most all processes are looked through, and how long between two looks.
const PASSES: usize = 200;
const BETWEEN: Duration = Duration::from_millis(10);

/// The processes whose environment has `name=value`; zombies have none any more.
pub fn find(name: &str, value: &str) -> Vec<Pid> {
    let mark = format!("{name}={value}");
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        // Gone, or somebody else's: both are none of ours.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|&byte| byte == 0)
            .any(|variable| variable == mark.as_bytes())
    })
    .filter_map(Pid::from_raw)
    .collect()
}

/// Sends `signal` to all of them, once.
pub fn signal(name: &str, value: &str, signal: Signal) {
    for pid in find(name, value) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills all of them and those that they start meanwhile; false if some are left all the same.
pub fn kill_all(name: &str, value: &str) -> bool {
    for _ in 0..PASSES {
        let found = find(name, value);
        if found.is_empty() {
            return true;
        }
        for pid in found {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(BETWEEN);
    }
    false
}
