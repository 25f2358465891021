// SPDX-License-Identifier: GPL-2.0-only
//! Fork placements, and ends of tasks, as BPF traced them.
//!
//! BPF puts each into a ring buffer, without waking anybody; the daemon empties it every tick. Only
//! with `--trace`, otherwise BPF writes none.

use anyhow::{Context, Result};
use libbpf_rs::{RingBuffer, RingBufferBuilder};

use super::intf;
use super::load::Scheduler;
use crate::policy::locality::fork::HomeWhy;
use crate::policy::observation::Shape;
use crate::policy::placement::ForkWhy;
use crate::policy::record::{ExitRecord, ForkRecord, HomeRecord, Record};

/// An event of BPF's: integers only, so that any bytes are one.
trait Event: Copy {}
impl Event for intf::fork_event {}
impl Event for intf::exit_event {}

/// The event in `bytes`, unless they are too few.
fn event<E: Event>(bytes: &[u8]) -> Option<E> {
    if bytes.len() < size_of::<E>() {
        return None;
    }
    // SAFETY: long enough; any bit pattern is a value of a struct of integers.
    Some(unsafe { bytes.as_ptr().cast::<E>().read_unaligned() })
}

fn why(why: u32) -> ForkWhy {
    match why {
        intf::FORK_TOLERATED => ForkWhy::Tolerated,
        intf::FORK_FULL_LOCAL => ForkWhy::FullLocal,
        intf::FORK_FULL => ForkWhy::Full,
        _ => ForkWhy::Least,
    }
}

fn home_why(why: u32) -> HomeWhy {
    match why {
        intf::HOME_PREFERRED => HomeWhy::Preferred,
        intf::HOME_NOT_TOLERATED => HomeWhy::NotTolerated,
        _ => HomeWhy::NoPreference,
    }
}

/// What its process's preference had to do with it, if there is one.
fn home(event: &intf::fork_event, nodes: usize) -> Option<HomeRecord> {
    (event.prefers != 0).then(|| HomeRecord {
        prefers: event.prefers,
        usable: event.usable_on[..nodes].to_vec(),
        why: home_why(event.home),
    })
}

/// The record of an event; `None` if it names no node of the machine.
fn record(event: &intf::fork_event, shape: &Shape) -> Option<ForkRecord> {
    let nodes = shape.nodes();
    let node = event.node as usize;
    if node >= nodes {
        return None;
    }
    let llcs = shape.llcs_of(node).len();
    Some(ForkRecord {
        at: event.at,
        pid: event.pid,
        local: event.local,
        allowed: event.allowed,
        usable: event.usable,
        committed: event.committed[..nodes].to_vec(),
        task_weight: event.task_weight[..nodes].to_vec(),
        first: event.first,
        allowed_llcs: event.allowed_llcs,
        llc_committed: event.llc_committed[..llcs].to_vec(),
        node: event.node,
        why: why(event.why),
        llc: event.llc,
        parent: Some(event.parent),
        home: home(event, nodes),
    })
}

fn exit(event: &intf::exit_event) -> ExitRecord {
    ExitRecord {
        at: event.at,
        pid: event.pid,
        run_ns: event.runtime_ns,
        sleeps: event.sleeps,
    }
}

/// What stands in the buffer, told by its size; `None` if it makes no sense.
fn any(bytes: &[u8], shape: &Shape) -> Option<Record> {
    match bytes.len() {
        len if len < size_of::<intf::fork_event>() => {
            event(bytes).map(|event| Record::Exit(exit(&event)))
        }
        _ => event(bytes)
            .and_then(|event| record(&event, shape))
            .map(Record::Fork),
    }
}

impl Scheduler<'_> {
    /// The buffer of fork placements and ends of tasks; each call of [`RingBuffer::consume`] passes what has come to
    /// `take`.
    pub fn forks<'a>(
        &'a self,
        shape: &'a Shape,
        mut take: impl FnMut(Record) + 'a,
    ) -> Result<RingBuffer<'a>> {
        let mut builder = RingBufferBuilder::new();
        let pass_on = move |bytes: &[u8]| {
            if let Some(record) = any(bytes, shape) {
                take(record);
            }
            0
        };
        builder
            .add(&self.skel.maps.fork_events, pass_on)
            .context("opening the trace buffer")?;
        builder.build().context("mapping the trace buffer")
    }
}
