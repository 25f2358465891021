// SPDX-License-Identifier: GPL-2.0-only
//! The main loop: one thread, woken by a tick, a statistics request or a signal, never spinning.
//!
//! The daemon is not needed for scheduling: BPF goes on by itself while it is stopped, and the
//! kernel takes the machine back when it dies. Its memory is locked, so that it can still end the
//! scheduler in time when the machine is out of memory.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, bounded, never, select, tick};
use log::{debug, info, trace, warn};
use scx_stats::prelude::StatsServer;
use scx_utils::try_set_rlimit_infinity;

use crate::balancer::{self, Balancer};
use crate::cli::{LocalityMode, RunArgs, VERSION};
use crate::kernel::check;
use crate::kernel::load::{Locality, ObjectSpace, Scheduler, hotplug_seq};
use crate::kernel::stat;
use crate::locality::mode::Mode;
use crate::locked::lock_memory;
use crate::machine::Machine;
use crate::observe::{self, Answer, Reporter, Request, Trace};
use crate::signals;

/// How often the daemon looks whether the kernel has ended the scheduler.
const TICK: Duration = Duration::from_millis(100);

/// How a round under one load of the BPF half ended.
enum Ended {
    ByUser,
    Restart,
}

/// Log to stderr: plain lines, times only when asked for more.
pub fn init_logging(verbose: u8) -> Result<()> {
    let level = match verbose {
        0 => simplelog::LevelFilter::Info,
        1 => simplelog::LevelFilter::Debug,
        _ => simplelog::LevelFilter::Trace,
    };
    let config = simplelog::ConfigBuilder::new()
        .set_time_level(simplelog::LevelFilter::Off)
        .set_thread_level(simplelog::LevelFilter::Off)
        .set_target_level(simplelog::LevelFilter::Off)
        .set_location_level(simplelog::LevelFilter::Off)
        .build();
    simplelog::TermLogger::init(
        level,
        config,
        simplelog::TerminalMode::Stderr,
        if std::io::stderr().is_terminal() {
            simplelog::ColorChoice::Auto
        } else {
            simplelog::ColorChoice::Never
        },
    )
    .context("starting the log")?;
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, log_libbpf)));
    Ok(())
}

/// libbpf's messages; the two thousand lines that it calls debug only with -vv.
fn log_libbpf(level: libbpf_rs::PrintLevel, message: String) {
    // Said of every skeleton with struct_ops that is attached map by map, as ours is.
    const NOISE: &str = "BPF map skeleton link is uninitialized";
    let message = message.trim_end();
    match level {
        libbpf_rs::PrintLevel::Warn if !message.contains(NOISE) => warn!("{message}"),
        libbpf_rs::PrintLevel::Debug => trace!("{message}"),
        _ => debug!("{message}"),
    }
}

/// Ctrl-C and its like as messages. Installed first, so that a signal during start-up ends it too.
fn shutdowns() -> Result<Receiver<()>> {
    let (tx, rx) = bounded(1);
    signals::on_end(move || {
        let _ = tx.try_send(());
    })?;
    Ok(rx)
}

/// Say who starts, how, and on what.
pub fn announce(args: &RunArgs, machine: &Machine) {
    info!("scx_ballast {VERSION}");
    info!(
        "arguments: {}",
        std::env::args().skip(1).collect::<Vec<_>>().join(" ")
    );
    for warning in machine.warnings() {
        warn!("{warning}");
    }
    info!(
        "{} CPUs in {} NUMA nodes and {} LLCs, SMT {}{}",
        machine.cpus().len(),
        machine.nr_cpu_nodes(),
        machine.llcs().len(),
        if machine.smt() { "on" } else { "off" },
        if args.partial {
            ", SCHED_EXT tasks only"
        } else {
            ""
        }
    );
}

/// What outlives a round: the monitor of `--stats`, taken when the first server is up, and the trace.
struct Lasting {
    stats: Option<Duration>,
    trace: Option<RefCell<Trace>>,
}

/// Load once and serve until the user or the kernel ends it.
fn round(args: &RunArgs, shutdown: &Receiver<()>, lasting: &mut Lasting) -> Result<Ended> {
    let started = Instant::now();
    let seq = hotplug_seq();
    let machine = Machine::detect(args.virt_llc.map(|v| v.range()))?;
    announce(args, &machine);
    if shutdown.try_recv().is_ok() {
        return Ok(Ended::ByUser);
    }
    let limits = balancer::limits(args, &machine);
    let header = balancer::trace_header(&machine, &limits);
    let mut space = ObjectSpace::uninit();
    let mut balancer = Balancer::new(args, &machine, limits.clone())?;
    let locality = Locality {
        // Without ticks clients may still say where a process belongs.
        preferred: args.locality.locality != LocalityMode::Off && machine.nr_cpu_nodes() > 1,
        first_touch: balancer.locality().is_some(),
        touches: balancer
            .locality()
            .is_some_and(|on| on.mode() == Mode::Sampled),
    };
    let sched = Scheduler::load(args, &machine, &limits.fork, locality, seq, &mut space)?;
    let server = StatsServer::new(observe::server_data())
        .launch()
        .context("starting the statistics server")?;
    let (answers, requests) = server.channels();
    if let Some(interval) = lasting.stats.take() {
        observe::monitor_in_background(interval);
    }
    let mut reporter = Reporter::new(started.elapsed());
    lock_memory();
    info!(
        "enabled after {} ms; stays in the foreground, Ctrl-C ends it",
        started.elapsed().as_millis()
    );

    let trace = lasting.trace.as_ref();
    if let Some(trace) = trace {
        trace.borrow_mut().begin(header.clone());
    }
    let forks = trace
        .map(|trace| sched.forks(&header.shape, |record| trace.borrow_mut().task(record)))
        .transpose()?;
    let ticks = tick(TICK);
    let balance = balancer.interval().map_or_else(never, tick);
    let mut by_user = false;
    while !by_user && !sched.exited() {
        select! {
            recv(ticks) -> _ => {
                if let Some(forks) = &forks {
                    forks.consume().context("reading the trace buffer")?;
                }
            }
            recv(balance) -> _ => {
                let mut trace = trace.map(RefCell::borrow_mut);
                balancer.tick(&sched, &machine, trace.as_deref_mut())?;
            }
            recv(shutdown) -> _ => by_user = true,
            recv(requests) -> request => {
                let answer = match request.context("the statistics server is gone")? {
                    Request::Stats => reporter.report(&sched, &machine, &balancer).map(Box::new).map(Answer::Stats),
                    Request::Move { pid, node } => observe::move_task(&sched, &machine, pid, node)
                        .map(|()| Answer::Noted),
                    Request::Prefer { pid, node } => observe::prefer(&sched, &machine, pid, node)
                        .map(|()| Answer::Noted),
                };
                let answer = answer.unwrap_or_else(|err| Answer::Failed(format!("{err:#}")));
                answers.send(answer).context("the statistics server is gone")?;
            }
        }
    }
    if let (Some(forks), Some(trace)) = (&forks, trace) {
        forks.consume().context("reading the trace buffer")?;
        let seen = sched.observe(&machine)?;
        let lost = seen.events.get(stat::STAT_TRACE_LOST);
        trace.borrow_mut().lost(lost);
    }
    drop(forks);
    Ok(if sched.end()? && !by_user {
        Ended::Restart
    } else {
        Ended::ByUser
    })
}

/// `scx_ballast [FLAGS]`.
pub fn run(args: &RunArgs) -> Result<()> {
    init_logging(args.verbose)?;
    let shutdown = shutdowns()?;
    check::check()?;
    try_set_rlimit_infinity();
    let trace = args.trace.as_deref().map(Trace::create).transpose()?;
    let mut lasting = Lasting {
        stats: args.stats,
        trace: trace.map(RefCell::new),
    };
    while let Ended::Restart = round(args, &shutdown, &mut lasting)? {
        info!("the machine's CPUs have changed: loading again");
    }
    Ok(())
}
