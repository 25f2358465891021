// SPDX-License-Identifier: GPL-2.0-only
//! Who gets how much of a CPU, and how soon.

use std::thread::sleep;

use crate::client::Client;
use crate::guest::{llcs, ms, nodes, online, remark, secs, soak, undisturbed};
use crate::sched::with_shared;
use crate::tasks::{Quiet, Task, settle, shares};
use crate::work::work;

fn last_cpu() -> u32 {
    *online().last().unwrap()
}

/// Hogs of these nice values on these CPUs share them by weight, within `limit` percent of the
/// smallest share.
///
/// A turn lasts as long as the host keeps the emulated CPU to itself: the scheduler evens that out
/// with later turns, but not after the last one. When the hogs together got more CPU time than
/// there was, the measurement is void.
#[track_caller]
fn by_weight(nice: &[&str], cpus: &[u32], seconds: u32, limit: f64) {
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let (nice, list, length) = (nice.join(","), list.join(","), seconds.to_string());
    let args = [
        "hogs",
        "--nice",
        &nice,
        "--cpus",
        &list,
        "--seconds",
        &length,
    ];
    for _ in 0..5 {
        let report = work(&args);
        let (error, got) = (report.number("error"), report.number("cpu_ms"));
        remark(&format!("error {error} %"));
        if got > 1020.0 * f64::from(seconds) * cpus.len() as f64 {
            remark("(void)");
            continue;
        }
        assert!(error <= limit, "{}", report.text());
        return;
    }
    panic!("the host is too busy to measure shares");
}

/// Nice 0 and nice 5 on one CPU: 1024 to 335. Both are pinned, so this is the CPU's own queue. Turns
/// are 5 ms, so in 6 s chance moves the shares by less than 1 %.
#[test]
#[ignore = "runs in the lab"]
fn nice_values_on_one_cpu() {
    with_shared(|_| by_weight(&["0", "5"], &[last_cpu()], soak(6, 60), 5.0));
}

/// The same in the queue that the CPUs of a cache share: three hogs per CPU, a third of them nice 5.
/// Here turns of many tasks add up, and a CPU that is taken away by the driver or a kernel thread
/// for a moment takes it from whoever runs there: 10 %.
#[test]
#[ignore = "runs in the lab"]
fn nice_values_in_a_shared_queue() {
    with_shared(|_| {
        let cpus: Vec<u32> = llcs().pop_last().unwrap().into_iter().collect();
        let nice = ["0", "0", "5"].repeat(cpus.len());
        by_weight(&nice, &cpus, soak(5, 60), 10.0);
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

/// Of the ticks in a thousand that come between a wake-up and the waker's sleep; each is a wait when it ends the waker's slice.
/// 30 to 60 when it does not, 105 to 110 when it does.
const WAITS_PER_SECOND: f64 = 80.0;

/// A waker that sleeps right after its wake-ups keeps its wakee behind it: a tick between the two does not give the
/// CPU to somebody else, and the wakee neither waits in a queue nor is waited for.
#[test]
#[ignore = "runs in the lab"]
fn a_tick_leaves_a_waker_time_to_sleep() {
    with_shared(|_| {
        let mut client = Client::connect();
        let _quiet = Quiet::machine();
        sleep(secs(1));
        undisturbed(5, || {
            client.top();
            let report = work(&["pairs", "--loops", "6000"]);
            let stats = client.top();
            let seconds = report.number("wall_ms") / 1000.0;
            assert!(stats.sync > 6000, "{stats:?}");
            remark(&format!("{} waits in {seconds:.2} s;", stats.waits));
            match stats.waits as f64 / seconds {
                few if few < WAITS_PER_SECOND => Ok(()),
                many => Err(format!("{many:.0} waits a second")),
            }
        });
    });
}
