// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that come and go under load, with a monitor attached (scx#725, #751, #406, #3434): the
//! kernel ends the scheduler with the restart code, and the same process loads it again.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use scx_ballast::observe::Stats;

use crate::client::Client;
use crate::guest::{ms, nodes, online, remark, secs, soak, state, within};
use crate::sched::{Sched, binary, with_own};
use crate::tasks::Task;

fn set_online(cpu: u32, on: bool) {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(path, if on { "1" } else { "0" }).unwrap();
}

/// Brings a CPU back, whatever happens.
struct Restore(u32);

impl Drop for Restore {
    fn drop(&mut self) {
        set_online(self.0, true);
    }
}

/// Wait until what the scheduler says about the machine is what the machine is.
#[track_caller]
fn assert_knows_the_machine(sched: &mut Sched, limit: Duration) {
    within(limit, || {
        // The socket is away for a moment while the scheduler loads again.
        let answer = Client::try_connect().and_then(|mut client| client.ask("top", &[]));
        let stats: Stats = serde_json::from_value(answer?).expect("all statistics");
        let found: Vec<(u32, u64)> = stats.nodes.iter().map(|(id, n)| (*id, n.cpus)).collect();
        let nodes = nodes().into_iter();
        let real: Vec<(u32, u64)> = nodes.map(|n| (n.id, n.cpus.len() as u64)).collect();
        match found == real && state() == "enabled" {
            true => Ok(()),
            false => Err(format!(
                "CPUs per node: {real:?}, it says {found:?}\n{}",
                sched.log()
            )),
        }
    });
    sched.assert_well();
}

#[test]
#[ignore = "runs in the lab"]
fn under_load_with_a_monitor() {
    with_own(&[], |sched| {
        let mut monitor = Command::new(binary())
            .args(["--monitor", "0.5"])
            .stdin(Stdio::null())
            .stdout(fs::File::create("/tmp/monitor").unwrap())
            .spawn()
            .unwrap();
        let load: Vec<Task> = online().iter().map(|_| Task::sleeper(ms(1))).collect();
        let busy = Task::free_hog();
        let messages = Task::exec(
            "bash",
            &["-c", "while hackbench -g 1 -l 20 >/dev/null; do :; done"],
        );

        let cpu = *online().last().unwrap();
        let _restore = Restore(cpu);
        let pid = sched.pid();
        let mut loads = 1;
        for _ in 0..soak(1, 50) {
            for on in [false, true] {
                set_online(cpu, on);
                loads += 1;
                sched.wait_until_ready(loads);
                assert_knows_the_machine(sched, secs(1));
            }
        }
        // Faster than it can load: how often it restarts then is its own affair.
        for on in [false, true, false, true] {
            set_online(cpu, on);
            std::thread::sleep(ms(300));
        }
        assert_knows_the_machine(sched, secs(10));
        assert_eq!(sched.pid(), pid);

        drop((load, busy, messages));
        assert!(
            monitor.try_wait().unwrap().is_none(),
            "the monitor has ended"
        );
        let lines = || fs::read_to_string("/tmp/monitor").unwrap().lines().count();
        let before = lines();
        remark(&format!("{before} lines of monitor"));
        within(secs(2), || match lines() {
            now if now > before => Ok(()),
            _ => Err("the monitor prints nothing any more".to_string()),
        });
        monitor.kill().unwrap();
        monitor.wait().unwrap();
    });
}
