// SPDX-License-Identifier: GPL-2.0-only
//! What the user dispatcher asks the kernel about tasks, without the dispatcher: facts.bpf.c tells what /proc tells.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use scx_ballast::user::bpf_facts::BpfFacts;
use scx_ballast::user::cpu_set::CpuSet;
use scx_ballast::user::facts::{ASKED_AT_ONCE, Facts, Seen, State};

use crate::guest::{ms, online, parse_list, remark, secs, state, within};
use crate::sched::{SCHED_USER, binary, with_none};
use crate::tasks::{Task, confine, set_policy};

/// What /proc says of a thread, as far as it does not change while it sleeps.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    process: i32,
    parent: i32,
    cpus: BTreeSet<u32>,
}

fn status(tid: i32) -> Option<Told> {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    };
    let number = |name: &str| line(name)?.parse().ok();
    let process = number("Tgid:")?;
    Some(Told {
        process,
        parent: if process == tid {
            number("PPid:")?
        } else {
            process
        },
        cpus: parse_list(&line("Cpus_allowed_list:")?),
    })
}

fn runtime(tid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Ids of all threads.
fn everybody() -> Vec<i32> {
    let numbers = |path: String| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
    };
    let processes = numbers("/proc".to_owned());
    processes
        .flat_map(|pid| numbers(format!("/proc/{pid}/task")))
        .collect()
}

fn cpus_of(facts: &mut BpfFacts, tid: i32) -> Option<BTreeSet<u32>> {
    let online = online();
    let mut set = CpuSet::below(1024);
    facts.affinity(tid, &mut set).then(|| {
        let cpus = online.iter().copied().filter(|&cpu| set.contains(cpu));
        cpus.collect()
    })
}

/// Every thread of the machine, init and those of the kernel too.
#[test]
#[ignore = "runs in the lab"]
fn of_everybody_as_proc_tells() {
    with_none(|| {
        let mut facts = BpfFacts::load(false).unwrap();
        // One with threads of its own.
        let crew = Task::fork(|| {
            std::thread::spawn(|| sleep(secs(60)));
            sleep(secs(60));
        });
        let tids = within(secs(2), || match everybody() {
            tids if status_of_crew(&tids, crew.pid()) == 2 => Ok(tids),
            tids => Err(format!("{} threads", tids.len())),
        });
        let mut seen = Vec::new();
        let mut judged = 0;
        for some in tids.chunks(ASKED_AT_ONCE) {
            let before: Vec<_> = some.iter().map(|&tid| runtime(tid)).collect();
            facts.ask(some, &mut seen);
            assert_eq!(seen.len(), some.len());
            for ((&tid, &seen), before) in some.iter().zip(&seen).zip(before) {
                let told = status(tid).zip(before).zip(runtime(tid));
                let Some(((told, before), after)) = told else {
                    continue; // It has ended.
                };
                let seen = seen.unwrap_or_else(|| panic!("{tid} is gone, and is {told:?}"));
                let cpus = cpus_of(&mut facts, tid).unwrap_or_default();
                let (process, parent) = (seen.process, seen.parent);
                assert_eq!(
                    Told {
                        process,
                        parent,
                        cpus
                    },
                    told,
                    "thread {tid}"
                );
                let ran = before..=after;
                assert!(ran.contains(&seen.ran_ns), "thread {tid} {seen:?} {ran:?}");
                assert_eq!(facts.ask_one(tid).map(|one| one.process), Some(process));
                judged += 1;
            }
        }
        facts.check().unwrap();
        assert!(judged > 60, "{judged} threads");
        remark(&format!("{judged} threads"));
        assert_eq!(facts.ask_one(i32::MAX), None);
        assert!(!facts.affinity(i32::MAX, &mut CpuSet::below(1024)));
    });
}

fn status_of_crew(tids: &[i32], pid: i32) -> usize {
    let told = tids.iter().filter_map(|&tid| status(tid));
    told.filter(|told| told.process == pid).count()
}

/// Tasks in every state that matters.
#[test]
#[ignore = "runs in the lab"]
fn of_each_state() {
    with_none(|| {
        let mut facts = BpfFacts::load(false).unwrap();
        let mut partial = BpfFacts::load(true).unwrap();
        let cpu = *online().last().unwrap();
        let hog = Task::hog([cpu]);
        let sleeper = Task::sleeper(secs(60));
        let (stopped, fifo) = (Task::free_hog(), Task::sleeper(secs(60)));
        stopped.signal(libc::SIGSTOP);
        set_policy(fifo.pid(), libc::SCHED_FIFO).unwrap();
        confine(sleeper.pid(), [0]).unwrap();
        let ended = Task::fork(|| {
            let until = Instant::now() + ms(30);
            while Instant::now() < until {}
        });
        let wanted = [
            (&hog, State::Runnable),
            (&sleeper, State::Asleep),
            (&stopped, State::Asleep),
            (&fifo, State::Elsewhere),
            (&ended, State::Ended),
        ];
        let found = within(secs(2), || {
            let found = wanted.map(|(task, _)| facts.ask_one(task.pid()).unwrap());
            match found.map(|seen| seen.state) == wanted.map(|(_, state)| state) {
                true => Ok(found),
                false => Err(format!("{found:?}")),
            }
        });
        assert_eq!(
            (found[0].cpu, cpus_of(&mut facts, hog.pid())),
            (cpu, Some([cpu].into()))
        );
        assert!(found[4].ran_ns >= 20_000_000, "{:?}", found[4]);
        let own = std::process::id() as i32;
        assert!(found.iter().all(|seen| seen.parent == own), "{found:?}");
        // Nobody here has policy SCHED_EXT.
        let state = |seen: Option<Seen>| seen.unwrap().state;
        assert_eq!(state(partial.ask_one(hog.pid())), State::Elsewhere);
        let pid = ended.pid();
        ended.wait();
        assert_eq!(facts.ask_one(pid), None);
    });
}

/// No judgement: what a question costs, and what the files of /proc cost that say the same.
#[test]
#[ignore = "runs in the lab"]
fn cost() {
    with_none(|| {
        let mut facts = BpfFacts::load(false).unwrap();
        let sleeper = Task::sleeper(secs(60));
        let pid = sleeper.pid();
        let each = |times: u32, mut one: Box<dyn FnMut() + '_>| {
            (0..100).for_each(|_| one());
            let began = Instant::now();
            (0..times).for_each(|_| one());
            began.elapsed() / times
        };
        let one = each(5000, Box::new(|| assert!(facts.ask_one(pid).is_some())));
        let (many, mut seen) = (vec![pid; ASKED_AT_ONCE], Vec::new());
        let batch = each(1000, Box::new(|| facts.ask(&many, &mut seen)));
        let mut set = CpuSet::below(1024);
        let affinity = each(5000, Box::new(|| assert!(facts.affinity(pid, &mut set))));
        let mut buffer = [0; 2048];
        let mut file = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            let read = || {
                use std::io::Read;
                let mut file = fs::File::open(&path).unwrap();
                assert!(file.read(&mut buffer).unwrap() > 0);
            };
            each(2000, Box::new(read))
        };
        let (stat, status, schedstat) = (file("stat"), file("status"), file("schedstat"));
        let us = |time: Duration| format!("{:.1} us", time.as_secs_f64() * 1e6);
        remark(&format!(
            "one {}, {ASKED_AT_ONCE} at once {}, affinity {}; stat {}, status {}, schedstat {}",
            us(one),
            us(batch),
            us(affinity),
            us(stat),
            us(status),
            us(schedstat)
        ));
    });
}

/// In a PID namespace of its own the kernel's numbers are not those of this process.
#[test]
#[ignore = "runs in the lab"]
fn another_pid_namespace_is_refused() {
    with_none(|| {
        let mut command = Command::new("unshare");
        let command = command
            .args(["--pid", "--fork", "--mount-proc", "timeout", "60"])
            .arg(binary())
            .args(SCHED_USER);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("outside of containers"), "{text}");
        assert_eq!(state(), "disabled");
    });
}
