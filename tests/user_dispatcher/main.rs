// SPDX-License-Identifier: GPL-2.0-only
//! The user dispatcher without BPF and without a kernel: what is queued is told to it, what it asks about tasks
//! is answered from a table ([`world`]).

mod balancing;
mod counting;
mod placing;
mod world;
