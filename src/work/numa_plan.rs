// SPDX-License-Identifier: GPL-2.0-only
//! What processes and threads of `work numa-mem` are told to do.

use clap::{Args, ValueEnum};
use fastrand::Rng;

use super::arena::HugePages;
use super::mempolicy::Policy;
use super::numa_begin::NodeChoice;
use super::numa_tally::ReportAt;

/// What processes and threads do; the same for all of them.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Processes to start.
    #[arg(long, value_name = "P", default_value_t = 2,
          value_parser = crate::ranged::u32_in(1..=1024))]
    pub processes: u32,

    /// Threads of each process.
    #[arg(long, value_name = "T", default_value_t = 2,
          value_parser = crate::ranged::u32_in(1..=4096))]
    pub threads: u32,

    /// Memory of each process that all of its threads work on.
    #[arg(long, value_name = "MIB", default_value_t = 32,
          value_parser = crate::ranged::u32_in(0..=1_048_576))]
    pub shared_mib: u32,

    /// Memory of each thread that it alone works on.
    #[arg(long, value_name = "MIB", default_value_t = 0,
          value_parser = crate::ranged::u32_in(0..=1_048_576))]
    pub local_mib: u32,

    /// --shared-mib is one piece of memory for the threads of all processes, not one for each process.
    #[arg(long)]
    pub shared_between_processes: bool,

    /// Who touches memory first and so decides on which node it is.
    #[arg(long, value_enum, default_value_t = FirstTouch::Threads)]
    pub first_touch: FirstTouch,

    /// Node that memory begins on: its number; each for the first process on the first node, the
    /// second on the next one and so on; next for the one after that. Who touches memory first is
    /// confined to that node's CPUs meanwhile. By default memory is where they happen to run.
    #[arg(long, value_name = "NODE")]
    pub memory_on: Option<NodeChoice>,

    /// Node that threads begin on, as for --memory-on. They are confined to its CPUs until the common
    /// start, and to nothing after it. By default they begin wherever the scheduler has them.
    #[arg(long, value_name = "NODE")]
    pub start_on: Option<NodeChoice>,

    /// Policy of the memory: bind:NODE, prefer:NODE, or interleave (over all nodes).
    #[arg(long, value_name = "POLICY", conflicts_with = "memory_on")]
    pub policy: Option<Policy>,

    /// In which order a thread works on pages.
    #[arg(long, value_enum, default_value_t = Order::Sequential)]
    pub order: Order,

    /// Huge pages: as the machine is set, wherever possible, or none.
    #[arg(long, value_enum, default_value_t = HugePages::Default)]
    pub huge_pages: HugePages,

    /// Rounds of each thread, instead of a time.
    #[arg(long, value_name = "N", conflicts_with = "seconds",
          value_parser = crate::ranged::u64_in(1..=1_000_000_000))]
    pub rounds: Option<u64>,

    /// Time between two looks at where threads and pages are.
    #[arg(long, value_name = "MSEC", default_value_t = 100,
          value_parser = crate::ranged::u64_in(1..=600_000))]
    pub sample_ms: u64,

    /// Tell the local share of the last second before these times, in seconds after the start.
    #[arg(long, value_name = "SEC,...")]
    pub report_at: Option<ReportAt>,

    /// How many pages of a process are looked at; an even sample if it has more.
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = crate::ranged::u32_in(1..=1_000_000))]
    pub sample_pages: u32,

    /// Seed of random orders and of the sample of pages.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Who touches memory first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FirstTouch {
    /// Each thread its own memory, and an equal part of what is shared.
    Threads,
    /// The process's first thread all of it, before it starts the others.
    Main,
}

/// The order of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Ascending, of shared memory from the thread's own part on.
    Sequential,
    /// Random, for each thread another one, the same in each round.
    Random,
}

impl Plan {
    /// Threads of all processes.
    pub fn workers(&self) -> usize {
        self.processes as usize * self.threads as usize
    }

    /// Memory of all processes.
    pub fn total_mib(&self) -> u64 {
        let (processes, threads) = (u64::from(self.processes), u64::from(self.threads));
        let shares = if self.shared_between_processes {
            1
        } else {
            processes
        };
        shares * u64::from(self.shared_mib) + processes * threads * u64::from(self.local_mib)
    }

    /// The part of the shared memory that a thread touches first and begins its rounds with, and of how
    /// many equal parts.
    pub fn own_part(&self, process: usize, thread: usize) -> (usize, usize) {
        let threads = self.threads as usize;
        match self.shared_between_processes {
            true => (process * threads + thread, self.workers()),
            false => (thread, threads),
        }
    }

    /// A generator for one purpose of one process.
    pub fn rng(&self, process: usize, purpose: usize) -> Rng {
        let mut all = Rng::with_seed(self.seed);
        let own = all.u64(..) ^ ((process as u64) << 32 | purpose as u64);
        Rng::with_seed(own)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: Plan,
        #[arg(long)]
        seconds: Option<u32>,
    }

    /// The plan of a command line, whose first word does not matter.
    pub fn plan(line: &str) -> Plan {
        Line::parse_from(line.split(' ')).plan
    }

    #[test]
    fn memory_is_of_processes_and_of_threads() {
        let line = "x --processes 3 --threads 4 --shared-mib 10 --local-mib 2";
        assert_eq!((plan(line).workers(), plan(line).total_mib()), (12, 3 * 18));
        let shared = plan(&format!("{line} --shared-between-processes"));
        assert_eq!(shared.total_mib(), 10 + 3 * 8);
        let most = Plan {
            processes: u32::MAX,
            threads: 4096,
            shared_mib: 0,
            local_mib: 1 << 20,
            ..plan(line)
        };
        assert_eq!(most.total_mib(), u64::from(u32::MAX) << 32);
    }

    #[test]
    fn parts_are_of_a_process_or_of_all() {
        let line = "x --processes 2 --threads 3";
        assert_eq!(plan(line).own_part(1, 2), (2, 3));
        let shared = plan(&format!("{line} --shared-between-processes"));
        assert_eq!(shared.own_part(0, 0), (0, 6));
        assert_eq!(shared.own_part(1, 2), (5, 6));
    }

    #[test]
    fn every_purpose_has_numbers_of_its_own() {
        let plan = plan("x");
        let first = |process, purpose| plan.rng(process, purpose).u64(..);
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(2, 1));
        assert_ne!(first(0, 0), first(0, 1));
    }
}
