// SPDX-License-Identifier: GPL-2.0-only
//! Where the memory of other processes lies, and bringing it elsewhere.
//!
//! The policy (`policy::locality`) says whom to look at and what to bring; this is what does it, in a
//! thread of its own, because reading a process's maps takes memory and time that a tick has not.
//! Orders go in, reports come out, both through bounded channels: nobody waits for this thread.

mod orders;

pub use orders::{Brought, Look, Order, Report, Unseen};

/// TEMPORARY until the memory thread is merged.
pub struct MemoryThread(crossbeam::channel::Receiver<Report>);
impl MemoryThread {
    pub fn start(_: Vec<u32>, _: u64) -> anyhow::Result<Self> {
        anyhow::bail!("not merged")
    }
    pub fn order(&self, _: Order) -> bool {
        false
    }
    pub fn reports(&self) -> &crossbeam::channel::Receiver<Report> {
        &self.0
    }
    pub fn cpu_time_us(&self) -> u64 {
        0
    }
}
