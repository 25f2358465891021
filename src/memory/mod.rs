// SPDX-License-Identifier: GPL-2.0-only
//! Where the memory of other processes lies, and bringing it elsewhere.
//!
//! The policy (`policy::locality`) says whom to look at and what to bring; this is what does it, in a
//! thread of its own, because reading a process's maps takes memory and time that a tick has not.
//! Orders go in, reports come out, both through bounded channels: nobody waits for this thread.
//!
//! | module | concern |
//! |---|---|
//! | `orders` | what is asked for, and the answers |
//! | `thread` | the thread and its queues |
//! | `sampler` | a look at a process |
//! | `known` | what is remembered of a process from look to look |
//! | `density` | how full areas are |
//! | `tally` | answers counted by node |
//! | `maps` | which areas are memory, private or shared |
//! | `policy` | what placed it: memory policies, cpusets |
//! | `touch` | what was touched lately |
//! | `touched` | what single tasks work on |
//! | `groups` | which processes share most of their memory |
//! | `bring` | pages brought to a node |
//! | [`pages`] | move_pages(2) |
//! | `scan` | PAGEMAP_SCAN: which pages are there |
//! | `procfs` | files of a process, and what it means that one cannot be read |
//! | `kernel_scans` | whether the kernel's NUMA balancing sees sched_ext tasks |
//! | `thread_time` | what it costs |
//!
//! Nothing here changes a process but `bring` (its pages' places) and `touch` (their accessed bits).

mod bring;
mod density;
mod groups;
mod kernel_scans;
mod known;
mod maps;
mod orders;
pub mod pages;
mod policy;
mod procfs;
mod sampler;
mod scan;
mod tally;
mod thread;
mod thread_time;
mod touch;
mod touched;

pub use kernel_scans::KernelScans;
pub use orders::{Brought, Look, Order, Report, Touch, Unseen};
pub use thread::MemoryThread;
pub use touch::TouchSource;
