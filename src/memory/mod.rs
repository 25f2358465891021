// SPDX-License-Identifier: GPL-2.0-only
//! Where the memory of other processes lies, and bringing it elsewhere.
//!
//! The policy (`policy::locality`) says whom to look at and what to bring; this is what does it, in a
//! thread of its own, because reading a process's maps takes memory and time that a tick has not.
//! Orders go in, reports come out, both through bounded channels: nobody waits for this thread.

mod orders;

pub use orders::{Brought, Look, Order, Report, Unseen};
