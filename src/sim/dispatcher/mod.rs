// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel dispatcher does, on the simulated machine; the rules are asked of [`policy`](crate::policy).
//!
//! | module | its twin in src/bpf |
//! |---|---|
//! | [`fork`] | place.bpf.h |
//! | [`wake`], [`sync`] | wake.bpf.h |
//! | [`run`] | main.bpf.c, queue.bpf.h |
//! | [`pull`] | pull.bpf.h |
//! | [`balance`] | none: the daemon's tick, src/kernel/tick.rs and src/balancer.rs |
//!
//! What is left out, besides what [`queue`](super::queue) says: kernel threads and other scheduling classes. A preferred node counts at fork and at wake-ups that find it idle, not when a full
//! node looks for help.

pub(super) mod balance;
mod fork;
mod pull;
mod run;
mod sync;
mod wake;
