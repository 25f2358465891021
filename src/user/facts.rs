// SPDX-License-Identifier: GPL-2.0-only
//! What is asked about single tasks, because nobody tells: whether one still runs, how long it has run, which
//! CPUs it may use, whose thread it is.
//!
//! Who asks is the thread that places all tasks. So an answer must never wait for a task that waits to be placed: none
//! may take a lock that such a one can have. Hence the running kernel is asked with a BPF program (`bpf_facts`), and
//! nothing is read in /proc.

use super::cpu_set::CpuSet;

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs, or waits for a CPU.
    Runnable,
    Asleep,
    /// It has left for a policy that is not scheduled here.
    Elsewhere,
    /// Its parent has not heard of that yet.
    Ended,
}

/// What [`Facts::ask`] tells of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub state: State,
    /// The CPU that it is on or was on last, by the kernel's id.
    pub cpu: u32,
    /// CPU time since its birth, as of its last tick if it runs.
    pub ran_ns: u64,
    /// Its process.
    pub process: i32,
    /// The process that has forked it; of a thread that is not the first of its process that process. Another one when
    /// its parent has ended.
    pub parent: i32,
}

/// Tasks that [`Facts::ask`] takes at once.
pub const ASKED_AT_ONCE: usize = 64;

/// See the module. `tid` is a thread's id.
pub trait Facts {
    /// What `seen` is afterwards: of each of `tids`, of which there are at most [`ASKED_AT_ONCE`], in their order.
    /// `None`: it is gone.
    fn ask(&mut self, tids: &[i32], seen: &mut Vec<Option<Seen>>);
    /// One question about one task.
    fn ask_one(&mut self, tid: i32) -> Option<Seen>;
    /// The CPUs that its affinity names, and maybe some that are offline; `set` has room for all. `false`: it is gone.
    fn affinity(&mut self, tid: i32, set: &mut CpuSet) -> bool;
}
