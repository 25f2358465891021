// SPDX-License-Identifier: GPL-2.0-only
//! How large a machine may be.
//!
//! The BPF half sizes its arrays from the machine, up to these limits, and keeps sets of nodes and
//! of a node's LLCs in one 64-bit word each. A machine beyond them is refused with an error that
//! names the limit; nothing is ever cut off silently.

/// Highest possible kernel CPU id + 1 (`nr_cpu_ids`).
pub const MAX_CPU_IDS: usize = 4096;
/// Nodes of a machine.
pub const MAX_NODES: usize = 64;
/// LLCs of a machine, virtual ones counted.
pub const MAX_LLCS: usize = 1024;
/// LLCs of one node, virtual ones counted.
pub const MAX_LLCS_PER_NODE: usize = 64;
/// CPUs of one LLC.
pub const MAX_CPUS_PER_LLC: usize = 512;

/// Distance of a node to itself, where the firmware says nothing (the kernel's `LOCAL_DISTANCE`).
pub const LOCAL_DISTANCE: u32 = 10;
/// Distance between two nodes, where the firmware says nothing (the kernel's `REMOTE_DISTANCE`).
pub const REMOTE_DISTANCE: u32 = 20;
/// Largest distance that firmware can express; the kernel keeps distances in a byte.
pub const MAX_DISTANCE: u32 = 255;
