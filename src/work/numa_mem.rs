// SPDX-License-Identifier: GPL-2.0-only
//! `work numa-mem`: whether threads run where their memory is.
//!
//! P processes of T threads read and write every cache line of their memory, in rounds: memory that the
//! threads of a process share (`-P` of `perf bench numa mem`), memory of each thread alone (`-T` there), or
//! both. A scheduler that knows of memory runs threads on the node where their pages are, or the kernel
//! brings pages after them; one that does not leaves it to luck. While the threads work, the first thread
//! of each process looks every `--sample-ms` where they run and asks the kernel where their pages are
//! ([`pages`](super::pages)), which costs what `looking_ms` tells.
//!
//! The local share is that of all pairs of a thread and a page that it works on: those where the page is
//! on the node that the thread runs on, each pair as much as the thread has run
//! ([`numa_look`](super::numa_look)). A thread that waits or sleeps does not count meanwhile. With one node
//! it is 1. Who touches a page first decides where it is; by default that is the thread that owns it, or
//! its part of what is shared; where they do it can be chosen ([`numa_begin`](super::numa_begin)).
//!
//! A process is told only of pages that it has touched itself. Of memory that processes share
//! (`--shared-between-processes`) those count that it has come by in its rounds.
//!
//! Not measured is the memory of a thread's stack, code and page order, which is little. Pages on nodes
//! without CPUs are local to nobody. Convergence is per process, as in `perf bench numa mem`: all of its
//! threads on one node, wherever the memory is. With one thread per process, or one node, the first
//! look finds it.
//!
//! | key | what |
//! |---|---|
//! | `processes`, `threads`, `shared_mib`, `local_mib`, `shared_between_processes`, `first_touch`, `memory_on`, `start_on`, `policy`, `order`, `huge_pages`, `nodes` | what was run |
//! | `rounds` | that the slowest thread completed |
//! | `run_ms`, `wall_ms` | from the common start until the last thread was through; all, with making and touching memory |
//! | `mib_per_s` | memory read and written by all threads together per second of `run_ms` |
//! | `round_mib_per_s`, `round_mib_per_s_min` | of one thread in one round: median and slowest of all |
//! | `local_start`, `local_mean`, `local_end` | local share, 0 to 1: of the threads as they stand in the first look, of all their run time, of that before the last look |
//! | `local_5s`, ... | with `--report-at 5,...`: of the run time in the looks that were due in the second before that time; `not-available` if the run was shorter |
//! | `sampled_pages`, `absent_pages` | pages looked at, and those of them that had no node at the end |
//! | `moved_pages_share` | share of the pages, 0 to 1, that were ever seen on another node than at first |
//! | `sys_ms` | system time of all threads but the looking ones from the start on, as the kernel tells it |
//! | `samples`, `looking_ms` | looks of all processes, and the CPU time that they took |
//! | `converged_ms` | until the last process was first seen with all its threads on one node, or `never` |
//! | `settled_ms` | since when all processes were so until the end, or `never` |
//! | `one_node` | share of the looks, 0 to 1, that saw a process's threads on one node |
//! | `migrations`, `moved_threads` | changes of node of all threads; threads that had any |
//!
//! A local share that the kernel does not tell is `not-available`, and a line before the result says why;
//! so is the speed of a round if no thread completed one. With `-v` there are lines for every thread and
//! process, and for the first 1024 looks of each.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::cpus::NodeMap;
use super::crew::Crew;
use super::numa_begin::Beginning;
use super::numa_plan::Plan;
use super::numa_tally::{Left, ReportAt, Tally};
use super::numa_task::{Leader, Places, WorkerSlot};
use super::output::{NOT_AVAILABLE, Output, ResultLine};
use super::pages::Share;
use super::times::Times;
use super::{clock, memory};
use crate::cli::{self, UsageError};
use crate::memory::pages::page_size;

/// Flags of `work numa-mem`.
#[derive(Debug, Args)]
pub struct NumaMemArgs {
    #[command(flatten)]
    plan: Plan,

    /// How long threads work.
    #[arg(long, value_name = "SEC", default_value = "5", value_parser = cli::seconds())]
    seconds: Duration,
}

/// Most threads of all processes together; each leaves 35 KiB behind.
const MOST_WORKERS: usize = 4096;

/// Lets all threads work and sums up.
pub fn run(args: &NumaMemArgs, output: &mut Output) -> Result<ResultLine> {
    let plan = &args.plan;
    check(plan)?;
    memory::check(plan.total_mib())?;
    let nodes = NodeMap::detect()?;
    if let Some(policy) = plan.policy {
        policy.check(&nodes)?;
    }
    let places = Places::new(plan, nodes)?;
    let length = plan.rounds.is_none().then(|| clock::nanos(args.seconds));

    let begin = clock::now();
    let mut crew = Crew::processes()?;
    for process in 0..plan.processes as usize {
        let leader = Leader {
            beginning: Beginning::of(process, plan.memory_on, plan.start_on, &places.nodes)?,
            plan: plan.clone(),
            process,
            places: places.clone(),
            length,
        };
        crew.start(format!("process {process}"), move || leader.live())?;
    }
    let start = crew.open_for(&places.gate[0], plan.workers())?;
    crew.wait()?;
    let wall = clock::now() - begin;
    let found = Found::of(plan, &places, start)?;
    details(plan, &places, &found, output)?;
    Ok(found.result(plan, places.nodes.weights().len(), wall))
}

/// Refuses what makes no sense, whatever the machine.
fn check(plan: &Plan) -> Result<(), UsageError> {
    if plan.total_mib() == 0 {
        let text = "no memory to work on: give --shared-mib, --local-mib, or both";
        return Err(UsageError::new(text));
    }
    if plan.shared_between_processes && plan.shared_mib == 0 {
        let text = "--shared-between-processes is about --shared-mib, and that is 0";
        return Err(UsageError::new(text));
    }
    if plan.workers() > MOST_WORKERS {
        let (processes, threads) = (plan.processes, plan.threads);
        let text = format!(
            "{processes} processes of {threads} threads are more than {MOST_WORKERS} threads in all"
        );
        return Err(UsageError::new(text));
    }
    Ok(())
}

/// What processes and threads left behind, summed up.
struct Found {
    tallies: Vec<Tally>,
    /// Why the kernel does not tell where pages are.
    refused: Option<io::Error>,
    sampled_pages: u64,
    absent_pages: u64,
    known_pages: u64,
    moved_pages: u64,
    looking: u64,
    /// System time of all but the looking threads.
    system: u64,
    rounds: u64,
    round_times: Times,
    /// Nanoseconds from the start until the last thread was through.
    run: u64,
    /// MiB of all threads.
    done_mib: f64,
    migrations: u64,
    moved_threads: usize,
}

impl Found {
    fn of(plan: &Plan, places: &Places, start: u64) -> Result<Found> {
        let (left, workers) = (&places.left, &places.workers);
        let refused = left.iter().map(|left| left.refused.load(Relaxed) as i32);
        let sum = |of: fn(&Left) -> &AtomicU32| -> u64 {
            left.iter()
                .map(|left| u64::from(of(left).load(Relaxed)))
                .sum()
        };
        let changes = || workers.iter().map(|slot| slot.node_changes.load(Relaxed));
        let ends = workers.iter().map(|slot| slot.end.load(Relaxed));
        let rounds = workers.iter().map(|slot| slot.rounds.load(Relaxed));
        if let Some(thread) = workers
            .iter()
            .position(|slot| slot.first.load(Relaxed) == 0)
        {
            let (process, thread) = (
                thread / plan.threads as usize,
                thread % plan.threads as usize,
            );
            bail!("thread {thread} of process {process} left no trace");
        }
        Ok(Found {
            tallies: left.iter().map(|left| left.tally()).collect(),
            refused: refused
                .filter(|&number| number != 0)
                .map(io::Error::from_raw_os_error)
                .next(),
            sampled_pages: sum(|left| &left.pages),
            absent_pages: sum(|left| &left.absent),
            known_pages: sum(|left| &left.known),
            moved_pages: sum(|left| &left.moved),
            looking: left.iter().map(|left| left.looking.load(Relaxed)).sum(),
            system: left.iter().map(|left| left.system.load(Relaxed)).sum(),
            rounds: rounds.min().context("there was no thread")?,
            round_times: Times::of(workers.iter().map(|slot| &slot.round_times))?,
            run: ends
                .max()
                .context("there was no thread")?
                .saturating_sub(start),
            done_mib: workers.iter().map(done_mib).sum(),
            migrations: changes().map(u64::from).sum(),
            moved_threads: changes().filter(|&changes| changes > 0).count(),
        })
    }

    fn result(&self, plan: &Plan, nodes: usize, wall: u64) -> ResultLine {
        let round = |nanos: u64| {
            let mib = f64::from(plan.shared_mib) + f64::from(plan.local_mib);
            (nanos > 0).then(|| mib / (nanos as f64 / 1e9))
        };
        let samples: u64 = self
            .tallies
            .iter()
            .map(|tally| u64::from(tally.samples))
            .sum();
        let one_node: u64 = self
            .tallies
            .iter()
            .map(|tally| u64::from(tally.one_node))
            .sum();
        let known = self.refused.is_none();
        let count = |count: u64| known.then_some(count as f64);
        let moved = (known && self.known_pages > 0)
            .then(|| self.moved_pages as f64 / self.known_pages as f64);
        let line = ResultLine::new("numa-mem")
            .with("processes", plan.processes)
            .with("threads", plan.threads)
            .with("shared_mib", plan.shared_mib)
            .with("local_mib", plan.local_mib)
            .with(
                "shared_between_processes",
                if plan.shared_between_processes {
                    "yes"
                } else {
                    "no"
                },
            )
            .with("first_touch", name(&plan.first_touch))
            .with("memory_on", chosen(plan.memory_on))
            .with("start_on", chosen(plan.start_on))
            .with("policy", chosen(plan.policy))
            .with("order", name(&plan.order))
            .with("huge_pages", name(&plan.huge_pages))
            .with("nodes", nodes)
            .with("rounds", self.rounds)
            .with_rounded("run_ms", clock::as_millis(self.run), 1)
            .with_rounded("wall_ms", clock::as_millis(wall), 1)
            .with_rounded("mib_per_s", per_second(self.done_mib, self.run), 1)
            .with_measured("round_mib_per_s", round(self.round_times.at(0.5)), 1)
            .with_measured("round_mib_per_s_min", round(self.round_times.max()), 1)
            .with_measured("local_start", self.share(|tally| tally.local_start), 3)
            .with_measured("local_mean", self.share(|tally| tally.local), 3)
            .with_measured("local_end", self.share(|tally| tally.local_end), 3);
        self.with_windows(plan, line)
            .with("sampled_pages", self.sampled_pages)
            .with_measured("absent_pages", count(self.absent_pages), 0)
            .with_measured("moved_pages_share", moved, 3)
            .with_rounded("sys_ms", clock::as_millis(self.system), 1)
            .with("samples", samples)
            .with_rounded("looking_ms", clock::as_millis(self.looking), 1)
            .with(
                "converged_ms",
                millis_or_never(self.last(|tally| tally.converged)),
            )
            .with(
                "settled_ms",
                millis_or_never(self.last(|tally| tally.settled)),
            )
            .with_rounded("one_node", one_node as f64 / samples.max(1) as f64, 3)
            .with("migrations", self.migrations)
            .with("moved_threads", self.moved_threads)
    }

    /// The local share at each of the times that were asked for.
    fn with_windows(&self, plan: &Plan, line: ResultLine) -> ResultLine {
        let times = plan.report_at.iter().flat_map(ReportAt::times);
        times.enumerate().fold(line, |line, (window, time)| {
            let ran = self.run >= u64::from(time) * 1_000_000_000;
            let share = self.share(|tally| tally.windows[window]);
            line.with_measured(&format!("local_{time}s"), share.filter(|_| ran), 3)
        })
    }

    /// The local share of all processes together, those that run more counting more.
    fn share(&self, of: impl Fn(&Tally) -> Share) -> Option<f64> {
        let shares = self.tallies.iter().map(of);
        let all = shares.fold(Share::default(), Share::plus);
        all.value().filter(|_| self.refused.is_none())
    }

    /// The time of the last process; nothing unless all of them have one.
    fn last(&self, time: fn(&Tally) -> Option<u64>) -> Option<u64> {
        let times: Option<Vec<u64>> = self.tallies.iter().map(time).collect();
        times?.into_iter().max()
    }
}

/// What a thread read and wrote.
fn done_mib(slot: &WorkerSlot) -> f64 {
    slot.pages.load(Relaxed) as f64 * page_size() as f64 / f64::from(1 << 20)
}

fn per_second(value: f64, nanos: u64) -> f64 {
    value / (nanos.max(1) as f64 / 1e9)
}

fn millis_or_never(nanos: Option<u64>) -> String {
    match nanos {
        Some(nanos) => format!("{:.1}", clock::as_millis(nanos)),
        None => "never".to_owned(),
    }
}

/// What was asked for, or that nothing was.
fn chosen(choice: Option<impl ToString>) -> String {
    choice.map_or_else(|| "default".to_owned(), |choice| choice.to_string())
}

/// A value as the command line knows it.
fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The lines before the result.
fn details(plan: &Plan, places: &Places, found: &Found, output: &mut Output) -> Result<()> {
    for (process, left) in places.left.iter().enumerate() {
        for (at, sample) in left.kept().enumerate() {
            output.detail(|| format!("process {process} sample {at}: {}", sample_text(sample)))?;
        }
        let tally = &found.tallies[process];
        output.detail(|| {
            format!(
                "process {process}: local start {} mean {} end {} converged {} settled {} (ms) on one node in {} of {} samples",
                share_text(tally.local_start),
                share_text(tally.local),
                share_text(tally.local_end),
                millis_or_never(tally.converged),
                millis_or_never(tally.settled),
                tally.one_node,
                tally.samples
            )
        })?;
        for (thread, slot) in places.workers_of(plan, process).iter().enumerate() {
            output.detail(|| {
                format!(
                    "process {process} thread {thread}: node first {} last {} changes {} rounds {} MiB/s {:.1}",
                    slot.first.load(Relaxed).wrapping_sub(1),
                    slot.node(),
                    slot.node_changes.load(Relaxed),
                    slot.rounds.load(Relaxed),
                    per_second(done_mib(slot), found.run)
                )
            })?;
        }
    }
    match &found.refused {
        Some(why) => output.line(&format!("local share {NOT_AVAILABLE}: move_pages: {why}")),
        None => Ok(()),
    }
}

fn sample_text((at, local, nodes): (u64, Share, u32)) -> String {
    let local = share_text(local);
    format!(
        "{:.1} ms local {local} threads on {nodes} nodes",
        clock::as_millis(at)
    )
}

fn share_text(share: Share) -> String {
    let share = share.value();
    share.map_or_else(|| NOT_AVAILABLE.to_owned(), |share| format!("{share:.3}"))
}
