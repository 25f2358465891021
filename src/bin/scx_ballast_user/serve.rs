// SPDX-License-Identifier: GPL-2.0-only
//! Load, place tasks until the end, and end.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use crossbeam::channel::{Receiver, Sender};
use libbpf_rs::OpenObject;
use log::info;
use scx_ballast::balancer::{limits, trace_header};
use scx_ballast::cli::RunArgs;
use scx_ballast::daemon::announce;
use scx_ballast::kernel::check::{CheckError, running_scheduler};
use scx_ballast::locked::lock_present;
use scx_ballast::machine::Machine;
use scx_ballast::observe::{self, Answer, Request, Tally, Trace};
use scx_ballast::policy::compile::Limits;
use scx_ballast::user::bpf_facts::BpfFacts;
use scx_ballast::user::dispatcher::{Dispatcher, Queued, Times};
use scx_ballast::user::ending::explain;
use scx_ballast::user::launch::{PROGRAM, check_machine};
use scx_ballast::user::places::Places;
use scx_ballast::user::report::Outside;
use scx_ballast::user::tick::{Balancing, SAMPLES};
use scx_stats::prelude::StatsServer;
use scx_utils::{scx_enums, try_set_rlimit_infinity};

use crate::bpf::{BpfScheduler, DispatchedTask, QueuedTask};
use crate::threads::{self, AGAIN};

/// Time between two samples when nothing is balanced.
const IDLE_BEAT: Duration = Duration::from_millis(100);
/// Tasks that are taken in one go before anything else is looked at.
const BATCH: usize = 512;
/// In the place of a task's turn: carry it out whatever has happened since. Where BPF's part knows of a later turn it
/// would insert the task and then take that back. Linux 7.3 (not 6.12) ignores an insert of a task that has ended, so that
/// there is nothing to take back, for which it ends the scheduler ("dispatch buffer underflow"). An old placement does
/// no harm: the kernel takes it for the task's present turn, in the queue of a CPU that BPF has just checked it may use,
/// and ignores the later one.
const ANY_TURN: u64 = u64::MAX;

/// The kernel's monotonic clock, in ns.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a struct on the stack. Every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The CPU that this thread runs on, by the kernel's id.
fn own_cpu() -> u32 {
    // SAFETY: takes nothing.
    unsafe { libc::sched_getcpu() }.max(0) as u32
}

/// Everything that BPF's part is served with. It is there before that is attached: from then on whoever becomes ready to
/// run waits for it.
struct Serving<'a> {
    args: &'a RunArgs,
    machine: &'a Machine,
    dispatcher: Dispatcher<BpfFacts>,
    balancing: Balancing,
    balanced: Tally,
    trace: Option<RefCell<Trace>>,
    /// Placements for which there was no room in the buffer.
    backlog: VecDeque<DispatchedTask>,
    /// CPUs to wake ([`Dispatcher::overdue`]): those of the last placements, as soon as these are carried out.
    wake: Vec<u32>,
    bell: i32,
    visits: Sender<u32>,
    beat_ns: u64,
    next_sample: u64,
    samples: u32,
    start_up: Duration,
    /// The bit of a wake-up in a queued task's flags.
    wakeup: u64,
}

impl Serving<'_> {
    /// One call of BPF for this program: place what is queued, and what else is due.
    fn cycle(&mut self, bpf: &mut BpfScheduler<'_>) -> Result<()> {
        let began = now();
        let own_cpu = own_cpu();
        // While it asks about a task it keeps its CPU (migration is disabled): when its slice ends there, BPF must know
        // that it has something to do, or that CPU may fall asleep and no other can take it.
        *bpf.nr_scheduled_mut() = 1;
        self.dispatcher.begin(began);
        self.empty_backlog(bpf);
        self.ring(bpf);
        for _ in 0..BATCH {
            match bpf.dequeue_task() {
                Ok(Some(task)) => self.place(bpf, &task, own_cpu),
                Ok(None) => break,
                Err(errno) => anyhow::bail!("reading the queued tasks: error {errno}"),
            }
        }
        if let Some(trace) = &self.trace {
            let mut trace = trace.borrow_mut();
            self.dispatcher
                .take_records()
                .for_each(|record| trace.task(record));
        }
        if began >= self.next_sample {
            self.next_sample = began + self.beat_ns;
            self.sample();
            let wake = &mut self.wake;
            self.dispatcher.overdue(now(), |cpu| wake.push(cpu));
        }
        self.dispatcher.facts().check()?;
        let pending = (self.backlog.len() + self.wake.len()) as u64;
        bpf.notify_complete(pending);
        Ok(())
    }

    fn place(&mut self, bpf: &mut BpfScheduler<'_>, task: &QueuedTask, own_cpu: u32) {
        let queued = Queued {
            pid: task.pid,
            cpu: task.cpu.max(0) as u32,
            nr_cpus_allowed: task.nr_cpus_allowed,
            woken: task.flags & self.wakeup != 0,
            start_ts: task.start_ts,
            stop_ts: task.stop_ts,
            exec_runtime: task.exec_runtime,
            weight: task.weight as u32,
            enq_cnt: task.enq_cnt,
        };
        let placed = self.dispatcher.place(&queued, now());
        // Its own CPU serves its queue when this program leaves it.
        if placed.cpu != own_cpu && !self.wake.contains(&placed.cpu) {
            self.wake.push(placed.cpu);
        }
        let task = DispatchedTask {
            cpu: placed.cpu as i32,
            slice_ns: placed.slice_ns,
            vtime: placed.vtime,
            enq_cnt: ANY_TURN,
            ..DispatchedTask::new(task)
        };
        self.dispatch(bpf, task);
    }

    fn dispatch(&mut self, bpf: &mut BpfScheduler<'_>, task: DispatchedTask) {
        if !self.backlog.is_empty() || bpf.dispatch_task(&task).is_err() {
            self.backlog.push_back(task);
        }
    }

    fn empty_backlog(&mut self, bpf: &mut BpfScheduler<'_>) {
        while let Some(task) = self.backlog.pop_front() {
            if bpf.dispatch_task(&task).is_err() {
                self.backlog.push_front(task);
                return;
            }
        }
    }

    /// Wake CPUs: BPF wakes the CPU that a task is given to, so a thread that always sleeps is given to it, of
    /// which there is nothing else to carry out.
    fn ring(&mut self, bpf: &mut BpfScheduler<'_>) {
        for cpu in std::mem::take(&mut self.wake) {
            let task = DispatchedTask {
                pid: self.bell,
                cpu: cpu as i32,
                flags: 0,
                slice_ns: self.args.policy.slice_us * 1000,
                vtime: 0,
                enq_cnt: ANY_TURN,
            };
            self.dispatch(bpf, task);
        }
    }

    /// Who runs? Every so often that is a tick of the balancer.
    fn sample(&mut self) {
        let began = Instant::now();
        self.samples += 1;
        if self.samples < SAMPLES || self.args.policy.balance_interval_ms == 0 {
            self.dispatcher.take_sample(&mut self.balancing, now());
            return;
        }
        self.samples = 0;
        let visits = &self.visits;
        let wanted = |cpu| _ = visits.try_send(cpu);
        let decided = self.dispatcher.tick(&mut self.balancing, now(), wanted);
        if !decided {
            self.balanced.count_calm(began.elapsed());
            return;
        }
        let (observation, decisions) = self.balancing.last();
        if let Some(trace) = &self.trace {
            trace.borrow_mut().tick(observation, decisions, None);
        }
        self.balanced.count(decisions, began.elapsed());
    }

    fn answer(&mut self, bpf: &mut BpfScheduler<'_>, request: Request) -> Answer {
        match request {
            Request::Stats => Answer::Stats(Box::new(self.dispatcher.report(
                &self.balancing,
                self.machine,
                &self.balanced,
                Outside {
                    now: now(),
                    start_up: self.start_up,
                    by_bpf: *bpf.nr_kernel_dispatches_mut(),
                },
            ))),
            Request::Move { pid, node } => {
                let visits = &self.visits;
                let wanted = |cpu| _ = visits.try_send(cpu);
                match self.dispatcher.want(self.machine, pid, node, wanted) {
                    Ok(()) => Answer::Noted,
                    Err(why) => Answer::Failed(why),
                }
            }
            Request::Prefer { .. } => {
                Answer::Failed("--dispatcher user does not follow where memory lies".into())
            }
        }
    }
}

/// Threads that serve, and the trace: everything that has to be there before BPF.
struct Helpers {
    server: StatsServer<Request, Answer>,
    trace: Option<Trace>,
    visits: Sender<u32>,
    restart: Sender<()>,
    beat: Duration,
    /// Thread id.
    bell: i32,
}

fn start_helpers(args: &RunArgs) -> Result<Helpers> {
    threads::be_real_time();
    let beat = match args.policy.balance_interval_ms {
        0 => IDLE_BEAT,
        ms => Duration::from_millis(ms) / SAMPLES,
    };
    let again = std::env::var_os(AGAIN).is_some();
    let trace = args.trace.as_deref().map(|path| match again {
        true => Trace::go_on(path),
        false => Trace::create(path),
    });
    let helpers = Helpers {
        server: StatsServer::new(observe::server_data())
            .launch()
            .context("starting the statistics server")?,
        trace: trace.transpose()?,
        visits: threads::start_visitor(args.partial)?,
        restart: threads::start_restarter()?,
        beat,
        bell: threads::start_bell(args.partial)?,
    };
    threads::start_beat(beat, args.partial)?;
    if let (Some(interval), false) = (args.stats, again) {
        observe::monitor_in_background(interval);
    }
    Ok(helpers)
}

/// What the loop needs, with all its memory. Nothing of BPF is loaded yet but `facts`. The statistics server stays with
/// `helpers`, whose owner keeps it to the end.
fn prepare<'a>(
    args: &'a RunArgs,
    machine: &'a Machine,
    limits: &Limits,
    helpers: &mut Helpers,
    facts: BpfFacts,
) -> Serving<'a> {
    let slots = args.max_tasks as usize;
    let times = Times {
        slice_ns: args.policy.slice_us * 1000,
        slice_min_ns: args.policy.slice_min_us.min(args.policy.slice_us) * 1000,
        newborn_ns: args.policy.newborn_ms * 1_000_000,
        newborn_work_ns: args.policy.newborn_work_us * 1000,
    };
    let mut trace = helpers.trace.take();
    if let Some(trace) = &mut trace {
        trace.begin(trace_header(machine, limits));
    }
    let places = Places::new(machine);
    // /proc is not read any more once BPF's part is loaded.
    let more = (slots, threads::own_threads(), trace.is_some());
    Serving {
        args,
        machine,
        balancing: Balancing::new(&places.shape, limits, slots),
        dispatcher: Dispatcher::new(places, limits.clone(), times, facts, more),
        balanced: Tally::default(),
        trace: trace.map(RefCell::new),
        backlog: VecDeque::with_capacity(1024),
        wake: Vec::with_capacity(1024),
        bell: helpers.bell,
        visits: helpers.visits.clone(),
        beat_ns: helpers.beat.as_nanos() as u64,
        next_sample: 0,
        samples: 0,
        start_up: Duration::ZERO,
        wakeup: scx_enums.SCX_ENQ_WAKEUP,
    }
}

/// `scx_ballast --dispatcher user [FLAGS]`.
pub fn run(args: &RunArgs) -> Result<()> {
    let started = Instant::now();
    let machine = Machine::detect(args.virt_llc.map(|v| v.range()))?;
    announce(args, &machine);
    check_machine(&machine)?;
    try_set_rlimit_infinity();
    let limits = limits(args, &machine);
    // The statistics server ends with them.
    let mut helpers = start_helpers(args)?;
    threads::never_wait_for_io();
    // What is mapped has to be so before the filter.
    let facts = BpfFacts::load(args.partial)?;
    let mut serving = prepare(args, &machine, &limits, &mut helpers, facts);
    let (answers, requests) = helpers.server.channels();
    // scx_rustland_core locks all memory after it has attached its part. What is there by now it then finds locked.
    lock_present();

    let mut space = MaybeUninit::uninit();
    let mut bpf = attach(args, &mut space)?;
    serving.start_up = started.elapsed();
    threads::be_ordinary(args.partial)?;
    serve(&mut serving, &mut bpf, &requests, &answers)?;
    end(serving, bpf, &helpers.restart)
}

/// Load BPF's part and attach it. From then on this thread gets no new memory from the kernel, and tasks wait for it.
fn attach<'a>(args: &RunArgs, space: &'a mut MaybeUninit<OpenObject>) -> Result<BpfScheduler<'a>> {
    BpfScheduler::init(
        space,
        args.libbpf.clone().into_bpf_open_opts(),
        args.exit_dump_len,
        args.partial,
        args.verbose > 1,
        false,
        false,
        args.policy.slice_us * 1000,
        PROGRAM,
    )
    .map_err(|err| match running_scheduler() {
        // Another one was quicker than our check.
        Some(ops) if !ops.starts_with(PROGRAM) => CheckError::AnotherScheduler { ops }.into(),
        _ => err,
    })
}

fn serve(
    serving: &mut Serving<'_>,
    bpf: &mut BpfScheduler<'_>,
    requests: &Receiver<Request>,
    answers: &Sender<Answer>,
) -> Result<()> {
    serving.cycle(bpf)?;
    serving.dispatcher.settle();
    info!(
        "enabled after {} ms; stays in the foreground, Ctrl-C ends it",
        serving.start_up.as_millis()
    );
    while !bpf.exited() {
        serving.cycle(bpf)?;
        if let Ok(request) = requests.try_recv() {
            let answer = serving.answer(bpf, request);
            answers
                .send(answer)
                .context("the statistics server is gone")?;
        }
    }
    Ok(())
}

/// Unload, say why, and load again if the kernel asks for it.
fn end(serving: Serving<'_>, mut bpf: BpfScheduler<'_>, restart: &Sender<()>) -> Result<()> {
    let info = bpf.shutdown_and_report();
    let again = info.as_ref().is_ok_and(|info| info.should_restart());
    // Restores what it has changed, and what is traced is written.
    drop((bpf, serving));
    info.map_err(|err| match explain(&err.to_string()) {
        Some(meaning) => anyhow!("{err}: {meaning}"),
        None => err,
    })?;
    if again {
        info!("the machine's CPUs have changed: loading again");
        restart.send(()).context("the restarter is gone")?;
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    Ok(())
}
