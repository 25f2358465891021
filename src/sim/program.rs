// SPDX-License-Identifier: GPL-2.0-only
//! What tasks do: short programs of operations.
//!
//! A workload is a [`Plan`]: programs, what they meet at, and which of them begins. Operations that are
//! not work take no time; their cost is work beside them.

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// So many nanoseconds of work on the core alone.
    Compute(u64),
    /// Work of which `intensity` millionths wait for memory that was touched before.
    Memory { work: u64, intensity: u64 },
    /// The same on new memory, which is where the task runs then: first touch.
    Touch { work: u64, intensity: u64 },
    /// Compute for so many nanoseconds by the clock, however much that comes to.
    Busy(u64),
    /// Sleep for so many nanoseconds; the timer has slack.
    Sleep(u64),
    /// Sleep for just so many: what was measured has the slack in it already.
    Away(u64),
    /// Start a process with this program.
    Fork(usize),
    /// Start a thread of the own process with this program.
    Thread(usize),
    /// From here on memory is this one: what `Memory` works on and `Touch` adds to.
    Use(Whose),
    /// A new program: the memory is gone, the task stays. For the only thread of a process.
    Exec,
    /// Sleep until all have come here.
    Barrier(usize),
    /// Compute until all have come here: the same barriers, without sleep.
    Spin(usize),
    /// Put a message into a channel; sleep while it is full.
    Send(usize),
    /// Take one out; sleep while there is none.
    Receive(usize),
    /// Sleep until no child is left.
    WaitChildren,
    /// Use only the CPUs of this set of the plan; `None`: all again.
    Confine(Option<usize>),
    /// Go back to the operation `to`, until that was done `times` times in all. Loops do not nest.
    Repeat { to: usize, times: u32 },
    /// Something that the report wants to know.
    Mark(Mark),
}

impl Op {
    /// Start threads of the own process, one after the other.
    pub fn start_threads(programs: impl Iterator<Item = usize>, clone_ns: u64) -> Vec<Op> {
        let starts = programs.flat_map(|thread| [Op::Compute(clone_ns), Op::Thread(thread)]);
        starts.collect()
    }
}

/// Whose memory. A new task uses its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Whose {
    /// The task's own.
    #[default]
    Task,
    /// What all threads of its process share.
    Process,
}

/// Moments of a task that the report is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The first moment after its start-up: where is it?
    First,
    /// Its proper work begins.
    Begin,
    /// ... and ends.
    End,
}

/// Where tasks leave messages for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// Messages that it holds.
    pub capacity: u32,
    /// Who wakes another says that they are about to sleep, as the kernel does for users of pipes and
    /// sockets (SYNC). It does not for those of futexes, which mutexes and condition variables are made of.
    pub sync: bool,
}

/// A workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub programs: Vec<Vec<Op>>,
    /// By barrier: how many come to it.
    pub barriers: Vec<u32>,
    pub channels: Vec<Channel>,
    /// Sets of CPUs to be confined to, dense.
    pub sets: Vec<Vec<usize>>,
    /// The program of the first task.
    pub root: usize,
    /// What the user calls all these.
    pub names: PlanNames,
}

/// Names for messages, by number; who has none is called by the number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanNames {
    pub programs: Vec<Name>,
    pub barriers: Vec<Name>,
    pub channels: Vec<Name>,
    /// Lines of the first `mark begin` and the last `mark end`.
    pub marks: Option<(usize, usize)>,
}

/// A name, and the line of the file that declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    pub line: usize,
}

fn name_of(what: &str, names: &[Name], at: usize) -> String {
    match names.get(at) {
        Some(Name { text, line }) => format!("{what} '{text}' in line {line}"),
        None => format!("{what} {at}"),
    }
}

impl Plan {
    /// Adds a program; returns its number.
    pub fn program(&mut self, ops: Vec<Op>) -> usize {
        self.programs.push(ops);
        self.programs.len() - 1
    }

    pub fn barrier(&mut self, tasks: u32) -> usize {
        self.barriers.push(tasks);
        self.barriers.len() - 1
    }

    /// Adds a pipe or a socket.
    pub fn pipe(&mut self, capacity: u32) -> usize {
        self.channel(Channel {
            capacity,
            sync: true,
        })
    }

    /// Adds a channel.
    pub fn channel(&mut self, channel: Channel) -> usize {
        self.channels.push(channel);
        self.channels.len() - 1
    }

    pub(super) fn program_name(&self, at: usize) -> String {
        name_of("program", &self.names.programs, at)
    }

    pub(super) fn barrier_name(&self, at: usize) -> String {
        name_of("barrier", &self.names.barriers, at)
    }

    pub(super) fn channel_name(&self, at: usize) -> String {
        let what = match self.channels[at].sync {
            true => "pipe",
            false => "queue",
        };
        name_of(what, &self.names.channels, at)
    }

    /// The program of a parent that starts children at intervals of `fork_ns` of work, and waits for them.
    pub fn parent(&mut self, children: impl IntoIterator<Item = usize>, fork_ns: u64) -> usize {
        let starts = children
            .into_iter()
            .flat_map(|child| [Op::Compute(fork_ns), Op::Fork(child)]);
        let ops = starts.chain([Op::WaitChildren]).collect();
        self.program(ops)
    }
}
