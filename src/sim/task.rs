// SPDX-License-Identifier: GPL-2.0-only
//! A task of the simulated machine.

use super::clock::Time;
use super::memory::Memory;
use super::program::Whose;

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Until an event, a barrier, a channel or a child wakes it.
    Asleep,
    /// In an LLC's queue, at this place of it.
    Waiting {
        llc: usize,
        key: (i64, u64),
    },
    /// Left on this CPU behind its waker, whose turn it takes.
    Behind(usize),
    /// On a CPU.
    Running(usize),
    Gone,
}

/// In which counter a task is counted; the kernel dispatcher's counted-where word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    None,
    /// Runs or waits in this LLC.
    Running(usize),
    /// A newborn that sleeps, in this LLC, by the epoch of its birth.
    Newborn(usize, u64),
}

/// Nodes at the moments that the report is about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Places {
    pub birth: usize,
    pub first: Option<usize>,
    pub last: Option<usize>,
}

/// Tasks that share memory, by their leader's number.
#[derive(Debug)]
pub struct Process {
    /// Its first task.
    pub leader: usize,
    /// Tasks of it that are alive.
    pub threads: u32,
    pub memory: Memory,
    /// When that was last worked on.
    pub used_at: Time,
}

impl Process {
    pub fn new(leader: usize) -> Self {
        Self {
            leader,
            threads: 0,
            memory: Memory::default(),
            used_at: 0,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Task {
    pub program: usize,
    /// The operation that it is at.
    pub at: usize,
    /// Times that the loop around it was done.
    pub rounds: u32,
    /// Work that is left of the phase that it is in; `None`: it is in none.
    pub left: Option<u64>,
    /// It computes until the others come to its barrier.
    pub spins: bool,
    /// Subscript of the world's processes.
    pub process: usize,
    /// Its own, and which it uses.
    pub memory: Memory,
    pub used_at: Time,
    pub uses: Whose,
    pub parent: Option<usize>,
    pub children: u32,
    /// Set of the plan that it is confined to.
    pub confined: Option<usize>,
    /// Bit n: it may use a CPU of node n.
    pub nodes: u64,

    pub state: State,
    pub counted: Counted,
    /// Forked then, and has not grown up.
    pub born_at: Option<Time>,
    pub runtime_ns: u64,
    /// How often it went to sleep.
    pub sleeps: u64,
    /// Its runtime when the balancer last looked.
    pub seen_ns: u64,
    pub weight: u32,
    /// Virtual time, in that of the LLC `dom`.
    pub vtime: i64,
    pub dom: usize,
    pub last_cpu: usize,
    /// LLC where it last ran.
    pub llc: usize,
    pub queued_at: Time,
    /// When it was woken, until it runs.
    pub woken_at: Option<Time>,
    /// It woke another then and said that it was about to sleep (SYNC), and has not slept since.
    pub sync_at: Option<Time>,
    /// How long it ran on after such wake-ups so far.
    pub sync_lag: Time,
    /// LLC that it shall go to.
    pub wish: Option<usize>,
    pub moved_at: Option<Time>,

    pub places: Places,
    pub has_run: bool,
}

impl Task {
    /// One that exists but is nowhere yet.
    pub fn new(program: usize, parent: Option<usize>, cpu: usize, llc: usize) -> Self {
        Self {
            program,
            at: 0,
            rounds: 0,
            left: None,
            spins: false,
            process: 0,
            memory: Memory::default(),
            used_at: 0,
            uses: Whose::default(),
            parent,
            children: 0,
            confined: None,
            nodes: u64::MAX,
            state: State::Asleep,
            counted: Counted::None,
            born_at: None,
            runtime_ns: 0,
            sleeps: 0,
            seen_ns: 0,
            weight: 100,
            vtime: 0,
            dom: llc,
            last_cpu: cpu,
            llc,
            queued_at: 0,
            woken_at: None,
            sync_at: None,
            sync_lag: 0,
            wish: None,
            moved_at: None,
            places: Places::default(),
            has_run: false,
        }
    }

    /// It goes to sleep: how long after its first SYNC wake-up? One sample counts at most twice the limit.
    pub fn kept_word(&mut self, now: Time, limit: Time) {
        if let Some(at) = self.sync_at.take() {
            let lag = (now - at).min(2 * limit);
            self.sync_lag = (3 * self.sync_lag + lag) / 4;
        }
    }

    pub fn is_alive(&self) -> bool {
        self.state != State::Gone
    }
}
