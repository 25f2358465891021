// SPDX-License-Identifier: GPL-2.0-only
//! Whether the numbers of a record can be true.
//!
//! A trace comes from a file, which may be damaged or written by hand. The rules add and multiply what an observation
//! says without a check of their own: what passes here does not overflow there, and no index is beyond its end. The
//! bounds are wide, far beyond what a machine can have, so that a counter that is a little off refuses no trace.
//! Whether the numbers of a header fit together is for [`consistent`], and whether the decisions do for
//! [`Replay`](super::record::Replay) to say.

use super::consistent;
use super::observation::{MOST_CPUS, NodeObs, Observation, Shape};
use super::record::{ForkRecord, Record};

/// Tasks that are counted anywhere: the rules' 64 bits are enough for these ([`Utilisation`](super::limits::Utilisation)).
/// Linux has 2^22 at most.
const MOST_TASKS: u32 = 1 << 24;
/// Weight of a task, or of several on average. sched_ext has none above 10 000.
const MOST_WEIGHT: u32 = 1 << 20;
/// A clock: 146 years in ns, and times can be added to it.
const MOST_AT: u64 = 1 << 62;

/// Nothing is above `most`.
fn all<T: Copy + Into<u64>>(what: &str, most: u64, numbers: &[T]) -> Result<(), String> {
    let large = numbers.iter().map(|&n| n.into()).find(|&n| n > most);
    match large {
        Some(n) => Err(format!("{what} is {n}, and cannot be above {most}")),
        None => Ok(()),
    }
}

/// The highest index of so many.
fn last(count: usize) -> u64 {
    count.saturating_sub(1) as u64
}

fn tasks(what: &str, numbers: &[u32]) -> Result<(), String> {
    all(what, MOST_TASKS.into(), numbers)
}

fn weights(what: &str, numbers: &[u32]) -> Result<(), String> {
    all(what, MOST_WEIGHT.into(), numbers)
}

/// Whether a record can be true. `shape`: that of the header before it; `None`: there is none, or it is one.
///
/// # Errors
/// The number that cannot be, in one sentence.
pub fn check(record: &Record, shape: Option<&Shape>) -> Result<(), String> {
    match record {
        Record::Header(header) => consistent::check(header),
        Record::Fork(fork) => check_fork(fork, shape),
        Record::Exit(exit) => all("at", MOST_AT, &[exit.at]),
        Record::Brought(brought) => all("at", MOST_AT, &[brought.at]),
        Record::Tick(tick) => {
            check_seen(&tick.observation, shape)?;
            let view = tick.locality.as_ref().map(|located| &located.view);
            view.map_or(Ok(()), |view| all("at_ms", MOST_AT, &[view.at_ms]))
        }
        Record::Lost { .. } => Ok(()),
    }
}

fn check_fork(fork: &ForkRecord, shape: Option<&Shape>) -> Result<(), String> {
    all("at", MOST_AT, &[fork.at])?;
    if let Some(shape) = shape {
        let (nodes, llcs) = (shape.nodes(), shape.llc_weight.len());
        all("local", last(nodes), &[fork.local])?;
        all("node", last(nodes), &[fork.node])?;
        all("llc", last(llcs), &[fork.llc])?;
    }
    all("usable", MOST_CPUS.into(), &[fork.usable])?;
    if let Some(home) = &fork.home {
        all("usable", MOST_CPUS.into(), &home.usable)?;
    }
    tasks("committed", &fork.committed)?;
    tasks("llc_committed", &fork.llc_committed)?;
    weights("task_weight", &fork.task_weight)
}

fn check_seen(seen: &Observation, shape: Option<&Shape>) -> Result<(), String> {
    all("at", MOST_AT, &[seen.at])?;
    for node in &seen.nodes {
        // Any average will do: it is in thousandths.
        let NodeObs {
            running_milli: _,
            running,
            newborn,
            task_weight,
        } = *node;
        tasks("running", &[running])?;
        tasks("newborn", &[newborn])?;
        weights("task_weight", &[task_weight])?;
    }
    tasks("llcs", &seen.llcs)?;
    let Some(shape) = shape else {
        return Ok(());
    };
    let last_llc = last(shape.llc_weight.len());
    for task in &seen.tasks {
        all("llc", last_llc, &[task.llc])?;
        weights("weight", &[task.weight])?;
    }
    Ok(())
}
