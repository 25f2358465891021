// SPDX-License-Identifier: GPL-2.0-only
//! The results file: one JSON record a line, appended as a comparison goes on.
//!
//! The first record is the [`Plan`]; it fixes arms, benchmarks, order and environment. Then comes a
//! [`Run`] for each run that counts and a [`Discarded`] for each that did not. A file that ends early,
//! in the middle of a line even, is a comparison that can be resumed. Keys are added over time, never
//! renamed or removed; [`FORMAT`] grows when a reader must know better.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Version of the file's format.
pub const FORMAT: u32 = 1;

/// One line of a results file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    Plan(Box<Plan>),
    Run(Box<Run>),
    Discarded(Discarded),
}

/// A comparison: all that is decided before its first run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub format: u32,
    /// Version of the scx_ballast that compared.
    pub version: String,
    /// When, in UTC as RFC 3339 has it: 2026-11-30T12:00:00Z.
    pub started: String,
    /// Decides the order of the arms in each block.
    pub seed: u64,
    pub blocks: u32,
    /// Time between attaching and running.
    pub settle_ms: u64,
    /// The first is the base that the others are compared with.
    pub arms: Vec<Arm>,
    pub benchmarks: Vec<Benchmark>,
    /// What the suites name and this machine cannot run.
    pub skipped: Vec<Skipped>,
    pub environment: Environment,
}

/// Who schedules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// As the user wrote it; unique among the arms (the second of a name gets `#2`).
    pub label: String,
    /// Program and arguments of a sched_ext scheduler; empty for EEVDF.
    pub argv: Vec<String>,
    /// What `kernel.numa_balancing` is set to for this arm; as the machine has it if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_balancing: Option<bool>,
    /// Index of the arm that this one is a copy of: the two differ by noise alone (A/A).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin_of: Option<usize>,
}

/// One thing to run, with the machine's numbers filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    pub suite: String,
    /// Unique among the benchmarks of a plan, such as `hackbench-process/8`.
    pub name: String,
    /// For `/bin/sh -c`.
    pub command: String,
    /// A run that takes longer has failed.
    pub timeout_s: u64,
    pub metrics: Vec<Metric>,
    /// Lines whose first group is a list of tasks per node, separated by commas or spaces, one for each
    /// repeat inside a run, as `work fork-burst` prints them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
}

/// A number that a benchmark prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Unique among the metrics of a benchmark.
    pub name: String,
    pub unit: String,
    pub better: Better,
    /// Declared before anything was measured as one that decides; at most 5 in a suite.
    #[serde(default)]
    pub primary: bool,
    pub mean: Mean,
    /// Regular expression over the lines of standard output and standard error; group 1 is the number.
    pub pattern: String,
    /// Which of several matches counts.
    #[serde(default)]
    pub pick: Pick,
    /// The number is multiplied by this.
    #[serde(default = "one")]
    pub scale: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Lower,
    Higher,
}

/// How values are averaged: times add up, rates do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mean {
    Arithmetic,
    Harmonic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    First,
    #[default]
    Last,
    Sum,
    Mean,
    Max,
}

/// A benchmark that this machine cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub suite: String,
    pub name: String,
    /// What is missing and how to get it, in one line.
    pub reason: String,
}

/// A run that counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// From 0.
    pub block: u32,
    /// The how manieth run of its block, from 0.
    pub position: u32,
    /// Index into the plan's arms.
    pub arm: usize,
    /// Index into the plan's benchmarks.
    pub benchmark: usize,
    /// When it began, as [`Plan::started`].
    pub at: String,
    /// By name of the metric. Every metric of the benchmark is there, or the run does not count.
    pub values: BTreeMap<String, f64>,
    /// Tasks per node, a list for each repeat inside the run; empty where the benchmark tells none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement: Vec<Vec<u32>>,
    pub evidence: Evidence,
}

/// A run that does not count; it was repeated or given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded {
    pub block: u32,
    pub arm: usize,
    pub benchmark: usize,
    pub at: String,
    /// The first line says it; what the scheduler or the benchmark printed may follow.
    pub reason: String,
}

/// Reads a map whose keys are numbers. JSON has them as text, which serde turns back by itself only
/// outside of tagged enums such as [`Record`].
fn by_number<'de, D, T>(from: D) -> Result<BTreeMap<u32, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let number = |(key, value): (String, T)| match key.parse() {
        Ok(number) => Ok((number, value)),
        Err(_) => Err(D::Error::custom(format!("'{key}' is not a number"))),
    };
    let map = BTreeMap::<String, T>::deserialize(from)?;
    map.into_iter().map(number).collect()
}

/// A fact, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    Known(T),
    NotAvailable(String),
}

impl<T> Fact<T> {
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            Fact::NotAvailable(_) => None,
        }
    }
}

/// What a comparison was made on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub host: Fact<String>,
    /// `uname -r` and `-v`.
    pub kernel: String,
    pub cpu_model: Fact<String>,
    /// CPUs online.
    pub cpus: u32,
    /// CPUs of each node with CPUs, as lists such as `0-7,16-23`, by the kernel's id.
    #[serde(deserialize_with = "by_number")]
    pub nodes: BTreeMap<u32, String>,
    pub memory_bytes: Fact<u64>,
    pub smt: Fact<String>,
    /// File in /sys/devices/system/cpu/vulnerabilities -> what it says.
    pub mitigations: Fact<BTreeMap<String, String>>,
    pub governor: Fact<String>,
    pub boot_line: Fact<String>,
    pub numa_balancing: Fact<String>,
    pub hypervisor: Fact<String>,
    pub transparent_hugepages: Fact<String>,
    /// 1-minute load average when the comparison began.
    pub load: Fact<f64>,
}

/// What was seen during a run, around the whole command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub wall_s: f64,
    /// CPU time of the command and all that it waited for.
    pub user_s: f64,
    pub sys_s: f64,
    pub in_charge: InCharge,
    /// Growth of the counters of /proc/vmstat that tell of NUMA and migration.
    pub vmstat: Fact<BTreeMap<String, u64>>,
    /// Growth, over all CPUs, of the cpu lines of /proc/schedstat.
    pub schedstat: Fact<Schedstat>,
    /// Growth of `total=` in /proc/pressure in us: `cpu.some`, `memory.full`, ...
    pub pressure: Fact<BTreeMap<String, u64>>,
    pub node_use: Fact<NodeUse>,
    pub migrations: Fact<Migrations>,
    /// Of the arm's scheduler process; not available for EEVDF.
    pub scheduler: Fact<SchedulerUse>,
}

/// Who schedules, as /sys/kernel/sched_ext tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InCharge {
    pub state: String,
    /// Name of the loaded scheduler; empty if none.
    pub ops: String,
    pub enable_seq: Fact<u64>,
    /// How often the kernel went around the scheduler (SCX_EV_BYPASS_ACTIVATE).
    pub bypasses: Fact<u64>,
}

/// Sums over CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedstat {
    pub run_ns: u64,
    pub wait_ns: u64,
    pub timeslices: u64,
}

/// CPU use of each node over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeUse {
    pub period_ms: u64,
    /// The kernel's id -> busy share of the node's CPUs in each period, 0 to 1.
    #[serde(deserialize_with = "by_number")]
    pub nodes: BTreeMap<u32, Vec<f32>>,
}

/// Tasks that went from one CPU to another (sched_migrate_task), of the whole machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrations {
    pub all: u64,
    pub cross_node: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedulerUse {
    /// CPU time of its process during the run.
    pub cpu_s: f64,
    pub rss_bytes: Fact<u64>,
    /// From start to enabled, as seen from outside.
    pub start_s: f64,
    /// What it counted during the run, where it answers as scx_stats do.
    pub statistics: Fact<serde_json::Value>,
}
