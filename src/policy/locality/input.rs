// SPDX-License-Identifier: GPL-2.0-only
//! What is fed to locality: samples of where pages lie, first-touch faults, memory policies.
//!
//! Numbers only, by dense node index, those without CPUs included. All of it can be written to a trace.

use serde::{Deserialize, Serialize};

/// What placed the memory of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPolicy {
    /// Nothing but first touch.
    #[default]
    Free,
    /// A node was preferred; other nodes are not excluded.
    Preferred,
    /// Bound to nodes.
    Bind,
    /// Spread over nodes on purpose.
    Interleave,
    /// Confined by cpuset.mems to a part of the nodes with memory.
    Cpuset,
}

impl MemoryPolicy {
    /// The memory is where it is by rule: no task of the process is off its node.
    pub fn places(self) -> bool {
        matches!(self, Self::Bind | Self::Interleave | Self::Cpuset)
    }
}

/// Pages on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePages {
    /// Of this process (or task) alone, or not known to be anything else.
    pub private: u32,
    /// In memory that several processes (or, of a task, several tasks) use.
    pub shared: u32,
}

/// One look at some of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub at_ms: u64,
    /// Addresses that were asked for.
    pub asked: u32,
    /// Answers, by node; those without a page are in none.
    pub pages: Vec<NodePages>,
}

/// Minor faults since the last time, by the node where the task ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstTouch {
    pub at_ms: u64,
    pub faults: Vec<u32>,
}
