// SPDX-License-Identifier: GPL-2.0-only
//! What the memory thread is asked for, and what it answers.
//!
//! Nodes are dense indices of the machine, those without CPUs included. Times are the dispatcher's, in ms.

use crate::policy::locality::extents::{Extent, Touched};
use crate::policy::locality::follow::Batch;
use crate::policy::locality::input::{MemoryPolicy, Sample};
use crate::policy::locality::ledger::TaskKey;

/// A task, and what may be an address of memory that it works on.
pub type Touch = (TaskKey, u64);

/// What shall be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Look at some of a process's memory.
    Look {
        tgid: i32,
        /// At most so many addresses.
        addresses: u32,
        /// Of its tasks, to be looked at as well.
        touched: Vec<Touch>,
        at_ms: u64,
    },
    /// Bring up to so many of its pages to a node, as far as the time goes that an order may take; those of one part of its
    /// memory alone, if there is one.
    Bring {
        tgid: i32,
        to: u16,
        pages: u32,
        within: Option<Extent>,
        at_ms: u64,
    },
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub sample: Sample,
    /// Of what single tasks work on, and no other task was seen to.
    pub tasks: Vec<(TaskKey, Sample)>,
    /// ... page by page.
    pub touched: Vec<Touched>,
    pub policy: MemoryPolicy,
    /// Processes that share most of their memory have the same number.
    pub group: Option<u32>,
    /// Pages that the process has, of the base size.
    pub resident: u64,
}

/// Why nothing was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// There is no such process any more, or it has no memory (a kernel thread).
    Gone,
    /// We may not look: another user's process, and no CAP_SYS_PTRACE.
    NotAllowed,
}

/// What was brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Brought {
    pub moved: u32,
    /// Pages that the kernel did not move: in use, shared, gone, or no room.
    pub refused: u32,
    /// There was nothing more to bring.
    pub finished: bool,
}

impl Brought {
    /// As the policy counts it.
    pub fn batch(&self) -> Batch {
        Batch {
            moved: self.moved,
            refused: self.refused,
            finished: self.finished,
        }
    }
}

/// Add pages to a count of them.
pub fn count(counted: &mut u32, pages: u64) {
    *counted = counted.saturating_add(u32::try_from(pages).unwrap_or(u32::MAX));
}

/// The answer to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Looked {
        tgid: i32,
        at_ms: u64,
        /// CPU time that it took.
        cost_us: u32,
        found: Result<Look, Unseen>,
    },
    Brought {
        tgid: i32,
        to: u16,
        within: Option<Extent>,
        at_ms: u64,
        cost_us: u32,
        brought: Result<Brought, Unseen>,
    },
}
