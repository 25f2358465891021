// SPDX-License-Identifier: GPL-2.0-only
//! `--dispatcher user`: every task passes through the other program. What it decides is checked by the replay of its
//! trace whenever it ends normally, as with the kernel dispatcher.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use scx_ballast::machine::Machine;

use crate::client::Client;
use crate::guest::{
    SLOW, ms, must, nodes, online, read, remark, secs, soak, state, thread_states, undisturbed,
    wait_for_state, within,
};
use crate::rules::Rules;
use crate::running::forks::uneven_bursts;
use crate::sched::{EXIT, SCHED_USER, Sched, binary, with_none, with_own};
use crate::starting::modes::only_sched_ext_tasks;
use crate::tasks::{Quiet, Task, confine, release, set_policy, settle, shares, spin};

/// Messages, twice as many hogs as CPUs, pinned sleepers beside hogs: everybody has his share, and it answers.
#[test]
#[ignore = "runs in the lab"]
fn schedules() {
    with_own(&SCHED_USER, |sched| {
        assert!(read("/sys/kernel/sched_ext/root/ops").starts_with("scx_ballast_user_"));
        let mut client = Client::connect();
        must("hackbench -g 2 -l 50");
        let cpus = online();
        let tasks: Vec<Task> = cpus.iter().chain(&cpus).map(|_| Task::free_hog()).collect();
        settle(&tasks);
        let found = shares(&tasks, secs(5));
        let least = found.iter().copied().fold(1.0, f64::min);
        assert!(least > 0.1, "{found:?}");
        remark(&format!("least {least:.2}"));
        let first = *cpus.first().unwrap();
        let pinned = Task::periodic(ms(1), ms(20));
        confine(pinned.pid(), [first]).unwrap();
        let before = pinned.cpu_time();
        sleep(secs(4));
        let ran = pinned.cpu_time() - before;
        assert!(ran > ms(20), "a pinned sleeper beside hogs ran for {ran:?}");
        drop((tasks, pinned));
        let stats = client.top();
        assert!(stats.fork_local + stats.fork_remote > 40, "{stats:?}");
        assert!(stats.idle_prev > 0 && stats.queued_cpu > 0, "{stats:?}");
        assert_eq!(stats.tasks_unseen, 0, "{stats:?}");
        sched.assert_well();
        remark(&format!("daemon's CPU time {} us", stats.daemon_cpu_us));
    });
}

/// The kernel dispatcher's bursts, judged as strictly.
#[test]
#[ignore = "runs in the lab"]
fn bursts_of_forks() {
    with_own(&SCHED_USER, |sched| {
        undisturbed(3, || {
            for tasks in [4, 8] {
                let (bad, judged) = uneven_bursts(sched, &Rules::ballast(), tasks, false);
                if bad.len() > 1 {
                    return Err(format!("uneven of {judged}:\n{}", bad.join("\n")));
                }
            }
            Ok(())
        });
    });
}

/// Where a core has two CPUs, tasks that wake up while whole cores are idle have one each.
#[test]
#[ignore = "runs in the lab"]
fn a_core_each() {
    let machine = Machine::detect(None).unwrap();
    if !machine.smt() {
        remark("skipped: a core has one CPU");
        return;
    }
    with_own(&SCHED_USER, |_| {
        let _quiet = Quiet::machine();
        let cores = machine.cores().len();
        let core = |cpu: u32| machine.cpu_by_id(cpu).unwrap().core;
        undisturbed(3, || {
            // Newborns of before are grown up.
            sleep(ms(1200));
            let life = || {
                sleep(ms(300));
                spin()
            };
            let tasks: Vec<Task> = (0..cores).map(|_| Task::fork(life)).collect();
            settle(&tasks);
            let cpus: Vec<u32> = tasks.iter().map(Task::cpu).collect();
            let used: BTreeSet<_> = cpus.iter().map(|&cpu| core(cpu)).collect();
            match used.len() == cores {
                true => Ok(()),
                false => Err(format!("{cores} tasks on CPUs {cpus:?}")),
            }
        });
    });
}

/// --virt-llc: LLCs of two cores, and each gets its part of a burst.
#[test]
#[ignore = "runs in the lab"]
fn virtual_llcs() {
    let machine = Machine::detect(Some((2, 2))).unwrap();
    let llcs = machine.llcs().len();
    let real = Machine::detect(None).unwrap().llcs().len();
    let flags = [&SCHED_USER[..], &["--virt-llc=2-2"]].concat();
    with_own(&flags, |sched| {
        undisturbed(3, || {
            sleep(ms(1200));
            let from = sched.trace().len();
            let sleepers: Vec<Task> = (0..llcs).map(|_| Task::sleeper(secs(1))).collect();
            let mine = |pid: i32| sleepers.iter().any(|task| task.pid() == pid);
            let forks = within(secs(1), || {
                let mut forks = sched.trace().forks(from);
                forks.retain(|fork| mine(fork.pid));
                match forks.len() == llcs {
                    true => Ok(forks),
                    false => Err(format!("{} of {llcs} forks are traced", forks.len())),
                }
            });
            let mut count = vec![0; llcs];
            forks.iter().for_each(|fork| count[fork.llc as usize] += 1);
            // The driver has a CPU of one of them.
            match count.iter().all(|&count| count <= 2)
                && count.iter().filter(|&&c| c == 0).count() <= 1
            {
                true => Ok(()),
                false => Err(format!("{count:?} forks in the LLCs")),
            }
        });
        remark(&format!("{llcs} LLCs of {real}"));
    });
}

/// What the simulator needs: who forked whom, when each ended, and about how long it ran. An end is seen within a
/// quarter of the balance interval, and CPU time of one that nobody had to wait for is that of a look before.
#[test]
#[ignore = "runs in the lab"]
fn a_trace_is_a_workload() {
    with_own(&SCHED_USER, |sched| {
        let late = ms(60);
        let parent = Task::fork(|| {
            let child = || {
                Task::fork(|| {
                    sleep(ms(50));
                    let until = Instant::now() + ms(300);
                    while Instant::now() < until {}
                })
            };
            let children = [child(), child()];
            children
                .into_iter()
                .for_each(|child| assert_eq!(child.wait(), 0));
        });
        let pid = parent.pid();
        assert_eq!(parent.wait(), 0);
        let (forks, ends) = within(secs(2), || {
            let forks = sched.trace().forks(0);
            let mine: Vec<_> = forks
                .into_iter()
                .filter(|fork| fork.parent == Some(pid))
                .collect();
            let mut ends = sched.trace().exits();
            ends.retain(|end| mine.iter().any(|fork| fork.pid == end.pid));
            match (mine.len(), ends.len()) {
                (2, 2) => Ok((mine, ends)),
                (forks, ends) => Err(format!("{forks} forks and {ends} ends of two children")),
            }
        });
        for end in ends {
            let born = forks.iter().find(|fork| fork.pid == end.pid).unwrap().at;
            let lived = Duration::from_nanos(end.at - born);
            assert!(lived >= ms(340) && lived < ms(350) * SLOW, "{lived:?}");
            let ran = Duration::from_nanos(end.run_ns);
            assert!(
                ran + late > ms(300) / 2 && ran < lived,
                "{ran:?} of {lived:?}"
            );
            assert!(end.sleeps >= 1, "{end:?}");
            remark(&format!(
                "lived {lived:?}, ran {ran:?}, slept {} times;",
                end.sleeps
            ));
        }
        let workload = format!("trace:{}", sched.trace().path());
        let binary = binary();
        let said = must(&format!(
            "{} simulate --machine '2 nodes x 4 cpus' --workload {workload} --runs 1 2>&1",
            binary.display()
        ));
        remark(said.lines().next().unwrap_or_default());
    });
}

/// --partial: as under the kernel dispatcher.
#[test]
#[ignore = "runs in the lab"]
fn partial() {
    only_sched_ext_tasks(&[&SCHED_USER[..], &["--partial"]].concat());
}

/// Hogs that were pinned to one node are evened out once they may go, each of them alone on its CPU.
#[test]
#[ignore = "runs in the lab"]
fn an_imbalance_is_evened_out() {
    with_own(&SCHED_USER, |_| {
        let rules = Rules::ballast();
        let first = nodes()[0].cpus.clone();
        if nodes().len() == 1 {
            remark("one node");
            return;
        }
        let _quiet = Quiet::machine();
        let hogs: Vec<Task> = first.iter().map(|_| Task::hog(first.clone())).collect();
        settle(&hogs);
        let mut client = Client::connect();
        sleep(secs(2));
        let pinned = client.top();
        assert_eq!(pinned.moved, 0, "{pinned:?}");
        release(hogs.iter().map(Task::pid));
        let counts = within(secs(2), || match rules.tasks_per_node(&hogs) {
            counts if rules.tolerated(&counts) => Ok(counts),
            counts => Err(format!("still {counts:?}")),
        });
        let stats = client.top();
        assert!(stats.moves_excess > 0 && stats.moved > 0, "{stats:?}");
        remark(&format!("{counts:?}, {} moves", stats.moved));
    });
}

/// SIGSTOP: nothing is scheduled that is queued, so the kernel's watchdog ends the scheduler and EEVDF takes over;
/// continued, the program says so and ends with status 1.
#[test]
#[ignore = "runs in the lab"]
fn stopped() {
    with_none(|| {
        let mut sched = Sched::start(&SCHED_USER);
        let load: Vec<Task> = online().iter().map(|_| Task::sleeper(ms(10))).collect();
        sleep(secs(1));
        sched.signal(libc::SIGSTOP);
        wait_for_state("disabled", secs(2));
        // They are somebody else's again.
        must("hackbench -g 1 -l 20");
        assert!(load.iter().all(|task| task.cpu_time() > ms(0)));
        sched.signal(libc::SIGCONT);
        let status = sched.wait(secs(2));
        let log = sched.log();
        assert_eq!(status.code(), Some(1), "{status}\n{log}");
        assert!(log.contains(EXIT) && log.contains("stall"), "{log}");
        assert!(!log.contains("panicked"), "{log}");
    });
}

/// Tasks that are queued twice, then leave sched_ext and end, all before they are placed. Linux 7.3 ignores an insert of a
/// task that has ended, and ends a scheduler that then takes the insert back.
#[test]
#[ignore = "runs in the lab"]
fn gone_before_they_are_placed() {
    with_own(&SCHED_USER, |sched| {
        for _ in 0..3 {
            sched.pause();
            let tasks: Vec<Task> = online().iter().map(|_| Task::fork(|| ())).collect();
            for task in &tasks {
                confine(task.pid(), online().into_iter().skip(1)).unwrap();
                set_policy(task.pid(), libc::SCHED_FIFO).unwrap();
            }
            within(ms(100), || {
                let states = tasks.iter().map(|task| thread_states(task.pid()));
                match states.collect::<String>() {
                    states if states.chars().all(|state| state == 'Z') => Ok(()),
                    states => Err(format!("not ended: {states}")),
                }
            });
            sched.signal(libc::SIGCONT);
            // It has carried out what was queued, of theirs and for others.
            must("hackbench -g 1 -l 5");
            sched.assert_well();
        }
    });
}

/// Many read all of /proc beside forks and programs that start and end. What it says of a task waits for locks that each of
/// the readers, and each task that starts or ends a program, has for moments, and in some of these its slice ends: who places
/// tasks must not wait for them.
#[test]
#[ignore = "runs in the lab"]
fn readers_of_proc() {
    let storm = |seconds: u64| {
        format!(
            "end=$((SECONDS + {seconds}))
             on() {{ [ $SECONDS -lt $end ]; }}
             read_all() {{ for d in /proc/[0-9]*; do read -r x <$d/stat; read -r x <$d/status; done 2>/dev/null; }}
             count() {{ k=0; while [ $k -lt 3000 ]; do k=$((k + 1)); done; }}
             for i in 1 2 3 4; do while on; do read_all; done & done
             for i in 1 2 3 4; do while on; do for j in 1 2 3 4 5 6; do count & done; wait; done & done
             for i in 1 2; do while on; do /bin/true; done & done
             wait"
        )
    };
    with_own(&SCHED_USER, |sched| {
        must(&storm(soak(30, 120)));
        sched.assert_well();
    });
}

#[test]
#[ignore = "runs in the lab"]
fn killed_under_load() {
    with_none(|| {
        let sched = Sched::start(&SCHED_USER);
        let mut load = Command::new("hackbench")
            .args(["-g", "2", "-l", "300"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        sleep(ms(500));
        sched.kill();
        assert!(load.wait().unwrap().success());
    });
}

/// Its memory is locked, and what it asks the kernel for does not wait for I/O.
#[test]
#[ignore = "runs in the lab"]
fn memory_pressure() {
    with_own(&SCHED_USER, |_| {
        let mut client = Client::connect();
        let seconds = soak(8, 120);
        must(&format!(
            "stress-ng --quiet --temp-path /tmp --vm 2 --vm-bytes 90% --vm-method zero-one --vm-keep \
             --oomable --timeout {seconds}s"
        ));
        let stats = client.top();
        assert_eq!(stats.daemon_major_faults, 0, "{stats:?}");
        remark(&format!("daemon's CPU time {} us", stats.daemon_cpu_us));
    });
}

/// A CPU goes and comes back: the same process loads again, although its main thread may have no new memory.
#[test]
#[ignore = "runs in the lab"]
fn hotplug() {
    with_own(&SCHED_USER, |sched| {
        let pid = sched.pid();
        let cpu = *online().last().unwrap();
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        for (loads, on) in [(2, "0"), (3, "1")] {
            fs::write(&path, on).unwrap();
            sched.wait_until_ready(loads);
            sched.assert_well();
        }
        assert_eq!(sched.pid(), pid);
    });
}

/// Flags that it could not follow: one line, status 2, nothing loaded.
#[test]
#[ignore = "runs in the lab"]
fn refusals() {
    with_none(|| {
        for flags in [["--locality", "sampled"], ["--pull-delay-us", "100"]] {
            let mut command = Command::new(binary());
            let output = command.args(SCHED_USER).args(flags).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(
                text.contains(flags[0]) && text.lines().count() == 1,
                "{text}"
            );
            assert_eq!(state(), "disabled");
        }
    });
}
