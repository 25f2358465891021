// SPDX-License-Identifier: GPL-2.0-only
//! What a tick decides by beside the observation, and what it has decided.
//!
//! A [`View`] is the evidence at one moment, boiled down: whose memory is known, where each group
//! belongs, how well each node suits. It is filled by [`ledger`](super::ledger), and with the
//! observation it is all that [`decide`](super::decide) looks at, so a trace that has both can be
//! decided again.

use serde::{Deserialize, Serialize};

use super::evidence::Standing;

/// What is known of a task when it is decided about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Subscript of the unit that it belongs with in [`View::units`].
    pub unit: u32,
    pub standing: Standing,
    /// Row of [`View::scores`]: its own, or its unit's; `None` if there is nothing.
    pub row: Option<u32>,
    /// Bit n: it belongs on node n. 0: nowhere in particular.
    pub nodes: u64,
}

/// What shares a preference and a timer (R5): the threads of a process, or a group of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// By process id.
    Process(i32),
    /// By a number of the dispatcher's, for example a cgroup's.
    Group(u32),
}

/// A unit when it is decided about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitView {
    pub unit: Unit,
    /// It is a group in the sense of R4: not a single task by itself.
    pub is_group: bool,
    /// Its node was full, and it is not time to try again.
    pub waits: bool,
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The dispatcher's clock, in ms.
    pub at_ms: u64,
    /// Parallel to the observation's tasks. Those that are missing are unknown.
    pub tasks: Vec<TaskView>,
    pub units: Vec<UnitView>,
    /// Nodes with CPUs.
    pub nodes: u32,
    /// By row, then by node: 0 to 1000.
    pub scores: Vec<u16>,
}

impl View {
    /// How well each node suits the task; `None` if nothing is known.
    pub fn scores_of(&self, task: &TaskView) -> Option<&[u16]> {
        let (row, nodes) = (task.row? as usize, self.nodes as usize);
        self.scores.get(row * nodes..(row + 1) * nodes)
    }

    /// What the task would win by going from one node to another, in permille of its memory.
    pub fn gain(&self, task: &TaskView, from: usize, to: usize) -> Option<i32> {
        let scores = self.scores_of(task)?;
        Some(i32::from(*scores.get(to)?) - i32::from(*scores.get(from)?))
    }

    /// R4's group of a task: `None` if it has none.
    pub(super) fn group_of(&self, task: &TaskView) -> Option<Unit> {
        let unit = self.units.get(task.unit as usize)?;
        unit.is_group.then_some(unit.unit)
    }
}

/// The rule behind a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// To where its memory is; the state after it is tolerated (R8).
    Preferred,
    /// Nearer to its memory, because there was no place for it where that is (R8).
    Nearer,
    /// In exchange with a task that loses less (R8, R4).
    Swap,
    /// The other one of a swap.
    SwappedFor,
}

/// A task that shall move for its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub slot: u32,
    pub seq: u32,
    pub pid: i32,
    /// Dense nodes.
    pub from: u8,
    pub to: u8,
    /// Dense LLC of the new home.
    pub llc: u16,
    pub why: Why,
    /// What it wins by it, in permille of its memory; negative for most that are swapped for another.
    pub gain: i32,
}

/// Why a task stays where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stay {
    /// Nothing is known of its memory.
    Unknown,
    /// First touch alone does not decide.
    FirstTouch,
    /// Too few samples, too old, or contradictory.
    Few,
    Stale,
    Unstable,
    /// Its memory was placed by a memory policy or a cpuset.
    Void,
    /// No node is clearly better.
    NoPreference,
    /// It is where it belongs.
    AtHome,
    /// It hardly runs: there is nothing to win (R10).
    Bystander,
    /// It may not use a CPU there.
    Affinity,
    /// It was moved lately.
    Resting,
    /// There is too little to win.
    TinyGain,
    /// Earlier moves between the nodes did not last.
    Held,
    /// Its node was full, and it is not time to try again.
    Waiting,
    /// This tick's budget is spent.
    Budget,
    /// The node is full, and nobody there loses little enough.
    Full,
    /// The limits do not tolerate the state after it (R1 to R3), and nobody there loses little enough.
    Imbalance,
    /// The only ones to swap with are of its own group, or have none like itself, and there is spare (R4).
    NoSpareSwap,
}

impl Stay {
    /// Something was in the way that may go away: try again later.
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Full | Self::Imbalance | Self::NoSpareSwap)
    }
}

/// What a tick has decided. Reused from tick to tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// The two of a swap follow each other.
    pub steps: Vec<Step>,
    /// Subscripts of the observation's tasks that stay, each with the reason.
    pub stays: Vec<(u32, Stay)>,
}

impl Steps {
    /// How many tasks stay for this reason.
    pub fn count(&self, reason: Stay) -> usize {
        self.stays
            .iter()
            .filter(|(_, stay)| *stay == reason)
            .count()
    }
}
