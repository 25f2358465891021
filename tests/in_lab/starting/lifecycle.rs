// SPDX-License-Identifier: GPL-2.0-only
//! How it starts and how it ends.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::client::Client;
use crate::guest::{Kmsg, ms, remark, secs, soak, state, wait_for_state};
use crate::sched::{EXIT, READY, Sched, with_none};
use crate::tasks::narrow_threads;

/// Load and unload ten times, by Ctrl-C and SIGTERM in turn. [`Sched::end_with`] checks the rest.
#[test]
#[ignore = "runs in the lab"]
fn ten_times() {
    with_none(|| {
        let mut ends = Vec::new();
        for signal in [libc::SIGINT, libc::SIGTERM].repeat(5) {
            let mut sched = Sched::start(&[]);
            sched.assert_well();
            let log = sched.log();
            assert!(log.contains("stays in the foreground"), "{log}");
            let began = Instant::now();
            sched.end_with(signal);
            ends.push(began.elapsed().as_millis());
        }
        remark(&format!("ends took {ends:?} ms"));
    });
}

/// The end of its terminal ends it, but not under nohup(1).
#[test]
#[ignore = "runs in the lab"]
fn nohup_outlives_the_terminal() {
    with_none(|| {
        // SAFETY: no handler is installed; what is started finds the signal as it is here.
        let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let mut sched = Sched::start(&[]);
        // SAFETY: what it was.
        unsafe { libc::signal(libc::SIGHUP, before) };
        sched.signal(libc::SIGHUP);
        std::thread::sleep(secs(1));
        sched.assert_well();
        sched.end_with(libc::SIGTERM);
        Sched::start(&[]).end_with(libc::SIGHUP);
    });
}

/// A signal during start-up (scx#3724) ends it with nothing loaded, whenever it comes: before the
/// handler is there it is the signal that ends it, later it ends by itself.
#[test]
#[ignore = "runs in the lab"]
fn a_signal_during_start_up() {
    with_none(|| {
        for delay in [0, 50, 300, 1000, 2000, 3000] {
            let mut kmsg = Kmsg::from_now();
            let mut sched = Sched::spawn(&[]);
            std::thread::sleep(ms(delay));
            let ready = sched.log().contains(READY);
            sched.signal(libc::SIGTERM);
            // It ends when what it is doing is done: the load.
            let status = sched.wait(secs(3));
            let log = sched.log();
            assert!(
                status.code() == Some(0) || status.signal() == Some(libc::SIGTERM),
                "after {delay} ms: {status}\n{log}"
            );
            assert!(!log.contains("panicked"), "{log}");
            assert_eq!(state(), "disabled", "after {delay} ms");
            kmsg.assert_quiet();
            remark(&format!(
                "{delay} ms{}",
                if ready { " (ready)" } else { "" }
            ));
        }
    });
}

/// kill -9: the machine is back on its own scheduler, and what ran goes on to its end.
#[test]
#[ignore = "runs in the lab"]
fn killed_under_load() {
    with_none(|| {
        let mut sched = Sched::start(&[]);
        sched.assert_well();
        let mut load = Command::new("hackbench")
            .args(["-g", "4", "-l", "300"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(ms(500));
        assert!(load.try_wait().unwrap().is_none(), "the load is too short");
        sched.kill();
        assert!(load.wait().unwrap().success());
    });
}

/// Hundreds of threads (a thousand in `make soak`), each allowed on two CPUs (kernel commits 61debc251c1c and
/// 62dcbab8b0ef): the work of one dispatch is bounded, nothing stalls, and the machine is given back
/// within 5 s.
#[test]
#[ignore = "runs in the lab"]
fn a_crowd_of_narrow_threads() {
    with_none(|| {
        let mut sched = Sched::start(&[]);
        let count = soak(300, 1000);
        let load = narrow_threads(count);
        let mut client = Client::connect();
        std::thread::sleep(secs(3));
        let stats = client.top();
        let waiting: u64 = stats.nodes.values().map(|node| node.waiting).sum();
        remark(&format!("{waiting} waiting"));
        assert!(waiting > count as u64 * 9 / 10, "{stats:?}");
        sched.assert_well();
        let began = Instant::now();
        sched.signal(libc::SIGINT);
        wait_for_state("disabled", secs(5));
        remark(&format!(
            "unloaded after {:.1} s",
            began.elapsed().as_secs_f64()
        ));
        // What is left of the process shares the machine with the threads, under the kernel's own
        // scheduler; that is not what is tested here.
        drop(load);
        let status = sched.wait(secs(1));
        let log = sched.log();
        assert!(status.success() && log.contains(EXIT), "{status}\n{log}");
    });
}
