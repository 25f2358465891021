// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that come and go under load, with a monitor attached (scx#725, #751, #406, #3434): the
//! kernel ends the scheduler with the restart code, and the same process loads it again.

use std::fs;
use std::process::{Command, Stdio};

use crate::client::Client;
use crate::guest::{ms, nodes, online, remark, secs, soak, within};
use crate::sched::{Sched, binary, with_own};
use crate::tasks::Task;

fn set_online(cpu: u32, on: bool) {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(path, if on { "1" } else { "0" }).unwrap();
}

/// What the scheduler says about the machine is what the machine is.
#[track_caller]
fn assert_knows_the_machine(sched: &mut Sched) {
    let known = within(secs(1), || {
        // The socket is away for a moment while the scheduler loads again.
        let stats = std::panic::catch_unwind(|| Client::connect().top());
        stats.map_err(|_| "no statistics".to_string())
    });
    let found: Vec<(u32, u64)> = known.nodes.iter().map(|(id, n)| (*id, n.cpus)).collect();
    let real: Vec<(u32, u64)> = nodes()
        .iter()
        .map(|n| (n.id, n.cpus.len() as u64))
        .collect();
    assert_eq!(found, real);
    sched.assert_well();
}

#[test]
#[ignore = "runs in the lab"]
fn under_load_with_a_monitor() {
    with_own(&[], |sched| {
        let mut monitor = Command::new(binary())
            .args(["--monitor", "1"])
            .stdin(Stdio::null())
            .stdout(fs::File::create("/tmp/monitor").unwrap())
            .spawn()
            .unwrap();
        let load: Vec<Task> = online().iter().map(|_| Task::sleeper(ms(1))).collect();
        let busy = Task::free_hog();
        let mut messages = Command::new("bash")
            .args(["-c", "while :; do hackbench -g 1 -l 20 >/dev/null; done"])
            .spawn()
            .unwrap();

        let cpu = *online().last().unwrap();
        let pid = sched.pid();
        let mut loads = 1;
        for _ in 0..soak(2, 50) {
            for on in [false, true] {
                set_online(cpu, on);
                loads += 1;
                sched.wait_until_ready(loads);
                assert_knows_the_machine(sched);
            }
        }
        // Faster than it can load: how often it restarts then is its own affair.
        for on in [false, true, false, true] {
            set_online(cpu, on);
            std::thread::sleep(ms(300));
        }
        within(secs(10), || match crate::guest::state() {
            state if state == "enabled" => Ok(()),
            state => Err(format!("{state}:\n{}", sched.log())),
        });
        sched.wait_until_ready(loads + 1);
        assert_knows_the_machine(sched);
        assert_eq!(sched.pid(), pid);

        let _ = messages.kill();
        let _ = messages.wait();
        drop((load, busy));
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
