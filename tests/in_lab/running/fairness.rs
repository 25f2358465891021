// SPDX-License-Identifier: GPL-2.0-only
//! Who gets how much of a CPU, and how soon.

use crate::guest::{llcs, ms, nodes, online, remark, secs, soak};
use crate::sched::with_shared;
use crate::tasks::{Task, settle, shares};
use crate::work::work;

fn last_cpu() -> u32 {
    *online().last().unwrap()
}

/// Nice 0 and nice 5 on one CPU: 1024 to 335. Both are pinned, so this is the CPU's own queue. The
/// error is that of the smaller share, the largest there is. Turns are 5 ms, so in 6 s chance moves
/// the shares by less than 1 %.
#[test]
#[ignore = "runs in the lab"]
fn nice_values_on_one_cpu() {
    with_shared(|_| {
        let cpu = last_cpu().to_string();
        let seconds = soak("6", "60");
        let report = work(&[
            "hogs",
            "--nice",
            "0,5",
            "--cpus",
            &cpu,
            "--seconds",
            seconds,
        ]);
        remark(&format!("error {} %", report.number("error")));
        assert!(report.number("error") <= 5.0, "{}", report.text());
    });
}

/// The same in the queue that the CPUs of a cache share: three hogs per CPU, a third of them nice 5.
/// Here turns of many tasks add up, and a CPU that is taken away by the driver or a kernel thread
/// for a moment takes it from whoever runs there: 10 %.
#[test]
#[ignore = "runs in the lab"]
fn nice_values_in_a_shared_queue() {
    with_shared(|_| {
        let llc = llcs().pop_last().unwrap();
        let nice = vec!["0,0,5"; llc.len()].join(",");
        let cpus: Vec<String> = llc.iter().map(u32::to_string).collect();
        let report = work(&[
            "hogs",
            "--nice",
            &nice,
            "--cpus",
            &cpus.join(","),
            "--seconds",
            "5",
        ]);
        remark(&format!("error {} %", report.number("error")));
        assert!(report.number("error") <= 10.0, "{}", report.text());
    });
}

/// A pinned sleeper beside a pinned hog (scx#1185, #1153, #755) runs within a few slices of 5 ms.
/// Most wake-ups wait for what is left of the hog's turn, which ends at a tick (4 ms): three slices
/// at the median, ten for each. What the timer itself is late in the lab is below that.
#[test]
#[ignore = "runs in the lab"]
fn a_pinned_sleeper_beside_a_hog() {
    with_shared(|_| {
        let cpu = last_cpu().to_string();
        let seconds = soak("4", "60");
        let mut args = vec!["wakeups", "--cpus", &cpu, "--pin", "--hogs", "1"];
        args.extend([
            "--sleepers",
            "1",
            "--period-us",
            "50000",
            "--seconds",
            seconds,
        ]);
        let report = work(&args);
        let (median, max) = (report.number("p50_us"), report.number("max_us"));
        remark(&format!("late {median} us, at most {max} us"));
        assert!(median <= 15_000.0, "{}", report.text());
        assert!(max <= 50_000.0, "{}", report.text());
    });
}

/// A task allowed on two CPUs, one of which a pinned hog keeps busy, gets the idle one: the whole of
/// it (work conservation with narrow affinity, R9).
#[test]
#[ignore = "runs in the lab"]
fn of_two_cpus_the_idle_one() {
    with_shared(|_| {
        for node in nodes().into_iter().filter(|node| node.cpus.len() > 1) {
            let cpus: Vec<u32> = node.cpus.iter().copied().take(2).collect();
            let tasks = [Task::hog([cpus[0]]), Task::hog(cpus.clone())];
            settle(&tasks);
            // Time to find the idle CPU: pull delay and a tick, or the end of a turn.
            std::thread::sleep(ms(50));
            let found = shares(&tasks, secs(2));
            remark(&format!("{:.2} {:.2}", found[0], found[1]));
            assert_eq!(tasks[1].cpu(), cpus[1]);
            // A CPU of its own each, but for what else runs there.
            assert!(found.iter().all(|share| *share > 0.85), "{found:?}");
        }
    });
}
