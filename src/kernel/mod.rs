// SPDX-License-Identifier: GPL-2.0-only
//! The kernel dispatcher's Rust half.
//!
//! [`check`] finds out whether this machine can run it and says in one line why not; [`load`] turns
//! a [`Machine`](crate::machine::Machine) and the flags into constants and attaches the BPF;
//! [`observe`] reads what BPF counted, without a system call per task or CPU; [`apply`] writes
//! wanted homes, [`locality`] preferred nodes, and reads faults.
//!
//! Invariant: Rust never touches a task. It writes a wish into the task's slot, and BPF carries it
//! out in its own callbacks or ignores it.

pub mod apply;
pub mod check;
pub mod forks;
mod intf;
mod limits;
pub mod load;
pub mod locality;
mod mapped;
pub mod observe;
pub mod tick;

/// Names of the event counters, as src/bpf/intf.h has them.
pub mod stat {
    pub use super::intf::{
        STAT_FORK_FULL, STAT_FORK_LOCAL, STAT_FORK_PREFERRED, STAT_FORK_REMOTE,
        STAT_FORK_TOLERATED, STAT_IDLE_LLC, STAT_IDLE_NODE, STAT_IDLE_PREFERRED, STAT_IDLE_PREV,
        STAT_IDLE_REMOTE, STAT_KEEP, STAT_KICK, STAT_KTHREAD, STAT_LLC_MIGRATION, STAT_MOVE,
        STAT_NODE_MIGRATION, STAT_PULL_LLC, STAT_PULL_NODE, STAT_PULL_REMOTE, STAT_QUEUE_CPU,
        STAT_QUEUE_LLC, STAT_SYNC, STAT_TRACE_LOST, STAT_UNSEEN, STAT_WAIT_NS, STAT_WAITS,
        STAT_WASTED_NS,
    };
}

mod skel {
    #![allow(clippy::all, dead_code, missing_docs, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/ballast_skel.rs"));
}
