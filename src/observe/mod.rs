// SPDX-License-Identifier: GPL-2.0-only
//! What people and tools see of a running scheduler: statistics, through the scx_stats server, and traces.
//!
//! The server's threads never touch the scheduler: they send a [`Request`] to the main loop and
//! pass its [`Answer`] on.

mod report;
mod stats;
mod tally;
mod trace;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use crossbeam::channel::{Receiver, Sender};
use scx_stats::prelude::*;
use serde_json::Value;

use crate::cli::RunArgs;
use crate::kernel::load::Scheduler;
use crate::machine::{Machine, NodeIdx};
use crate::output;
use crate::signals;

pub use report::{Reporter, own_cpu_time, own_major_faults};
pub use stats::{LocalStats, LocalityStats, NodeStats, Stats};
pub use tally::Tally;
pub use trace::Trace;

/// Where the server of every sched_ext scheduler listens.
const SOCKET: &str = "/var/run/scx/root/stats";

/// What a client may ask the main loop for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Stats,
    /// Move thread `pid` to the node with kernel id `node`.
    Move {
        pid: i32,
        node: u32,
    },
    /// The process of thread `pid` belongs on the node with kernel id `node`, or nowhere.
    Prefer {
        pid: i32,
        node: Option<u32>,
    },
}

/// The main loop's answer.
#[derive(Debug, Clone)]
pub enum Answer {
    Stats(Box<Stats>),
    /// A wish or a preference is written.
    Noted,
    Failed(String),
}

type Channels<'a> = (&'a Sender<Request>, &'a Receiver<Answer>);

fn ask(request: Request, (tx, rx): Channels<'_>) -> Result<Answer> {
    tx.send(request)?;
    match rx.recv()? {
        Answer::Failed(why) => bail!(why),
        answer => Ok(answer),
    }
}

fn ask_stats(channels: Channels<'_>) -> Result<Stats> {
    match ask(Request::Stats, channels)? {
        Answer::Stats(stats) => Ok(*stats),
        other => bail!("expected statistics, got {other:?}"),
    }
}

/// An argument of a request.
fn number<T: std::str::FromStr>(args: &BTreeMap<String, String>, key: &str) -> Result<T> {
    let text = args
        .get(key)
        .with_context(|| format!("'{key}' is missing"))?;
    text.parse()
        .map_err(|_| anyhow!("{key}: '{text}' is not a number"))
}

/// The targets that the server offers: `top` (the statistics) and, for experiments, `move` (a wanted
/// home) and `prefer` (where a process belongs, until locality finds out itself).
pub fn server_data() -> StatsServerData<Request, Answer> {
    let open_top: Box<dyn StatsOpener<Request, Answer>> = Box::new(|channels| {
        let mut last = ask_stats(channels)?;
        let read: Box<dyn StatsReader<Request, Answer>> = Box::new(move |_args, channels| {
            let now = ask_stats(channels)?;
            let change = now.since(&last);
            last = now;
            change.to_json()
        });
        Ok(read)
    });
    let open_move: Box<dyn StatsOpener<Request, Answer>> = Box::new(|_channels| {
        let read: Box<dyn StatsReader<Request, Answer>> = Box::new(|args, channels| {
            let request = Request::Move {
                pid: number(args, "pid")?,
                node: number(args, "node")?,
            };
            ask(request, channels).map(|_| Value::from("wanted"))
        });
        Ok(read)
    });
    let open_prefer: Box<dyn StatsOpener<Request, Answer>> = Box::new(|_channels| {
        let read: Box<dyn StatsReader<Request, Answer>> = Box::new(|args, channels| {
            let node = args.contains_key("node").then(|| number(args, "node"));
            let request = Request::Prefer {
                pid: number(args, "pid")?,
                node: node.transpose()?,
            };
            ask(request, channels).map(|_| Value::from("preferred"))
        });
        Ok(read)
    });
    StatsServerData::new()
        .add_meta(NodeStats::meta())
        .add_meta(LocalityStats::meta())
        .add_meta(LocalStats::meta())
        .add_meta(Stats::meta())
        .add_ops(
            "top",
            StatsOps {
                open: open_top,
                close: None,
            },
        )
        .add_ops(
            "move",
            StatsOps {
                open: open_move,
                close: None,
            },
        )
        .add_ops(
            "prefer",
            StatsOps {
                open: open_prefer,
                close: None,
            },
        )
}

/// The dense index of the node with kernel id `node`.
fn cpu_node(machine: &Machine, node: u32) -> Result<NodeIdx> {
    let found = machine.node_by_id(node).filter(|n| !n.memory_only);
    Ok(found
        .with_context(|| format!("there is no node {node} with CPUs"))?
        .idx)
}

/// Carry out a move request.
pub fn move_task(sched: &Scheduler<'_>, machine: &Machine, pid: i32, node: u32) -> Result<()> {
    Ok(sched.want(machine, pid, cpu_node(machine, node)?)?)
}

/// Carry out a prefer request.
pub fn prefer(sched: &Scheduler<'_>, machine: &Machine, pid: i32, node: Option<u32>) -> Result<()> {
    let node = node.map(|node| cpu_node(machine, node)).transpose()?;
    let bits = node.map_or(0, |node| 1 << node.0);
    Ok(sched.prefer_process(pid, bits)?)
}

/// `--help-stats`.
pub fn describe() -> Result<()> {
    let mut text = Vec::new();
    server_data().describe_meta(&mut text, None)?;
    output::write(text)
}

fn monitor(interval: Duration, stop: impl Fn() -> bool) -> Result<()> {
    let mut first = true;
    scx_utils::monitor_stats::<Stats>(&[], interval, stop, |stats| {
        // The first answer covers no time at all.
        if !std::mem::take(&mut first) {
            let mut text = Vec::new();
            stats.print(&mut text)?;
            output::write(text)?;
        }
        Ok(())
    })
}

/// `--stats SEC`: a thread that prints until the process ends.
pub fn monitor_in_background(interval: Duration) {
    std::thread::spawn(move || {
        if let Err(err) = monitor(interval, || false) {
            log::warn!("statistics have stopped: {err:#}");
        }
    });
}

/// `--monitor SEC`: watch a running scheduler until Ctrl-C; waits for one to start.
pub fn monitor_only(args: &RunArgs) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let stop_at_signal = stop.clone();
    signals::on_end(move || {
        // A second signal ends a monitor that is in the middle of a long interval.
        if stop_at_signal.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })?;
    if !Path::new(SOCKET).exists() {
        let _ = writeln!(
            std::io::stderr(),
            "no scx_ballast is running yet; waiting for one"
        );
    }
    monitor(args.monitor.unwrap_or(Duration::from_secs(1)), || {
        stop.load(Ordering::Relaxed)
    })
    .with_context(|| format!("reading statistics from {SOCKET} (root only)"))
}
