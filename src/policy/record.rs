// SPDX-License-Identifier: GPL-2.0-only
//! A decision with all that it was decided by, and deciding it again.
//!
//! These are the lines of a trace (`--trace FILE`, one JSON object each). A trace begins with a
//! [`Header`]; what follows is checked against the last header before it. [`Replay`] gives every
//! recorded observation to the policy and compares the answers: a difference means that BPF and
//! Rust do not follow the same rules, or that the version is another one.

use serde::{Deserialize, Serialize};

use super::balance::{Balancer, Decisions};
use super::compile::Limits;
use super::consistent;
use super::locality::decide::Decider;
use super::locality::fork::{HomeChoice, HomeWhy, fork_home};
use super::locality::record::{BroughtRecord, LocalityRecord};
use super::mismatch;
use super::observation::{Observation, Shape};
use super::placement::{ForkState, ForkWhy, fork_llc};

/// Version of the format; counts up when a field changes its meaning or goes. What is added and may be
/// missing leaves it: older traces are read, and older versions tell the new decisions from their own.
pub const FORMAT: u32 = 1;

/// What holds for the lines that follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub format: u32,
    /// Version of the program that wrote it.
    pub version: String,
    /// Kernel ids of the nodes with CPUs, by dense index.
    pub node_ids: Vec<u32>,
    pub shape: Shape,
    pub limits: Limits,
}

/// The placement of a new task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkRecord {
    /// The dispatcher's clock, in ns.
    pub at: u64,
    pub pid: i32,
    /// Node of the parent.
    pub local: u32,
    /// As in [`ForkState`].
    pub allowed: u64,
    pub usable: u32,
    pub committed: Vec<u32>,
    pub task_weight: Vec<u32>,
    /// As the arguments of [`fork_llc`]: the chosen node's LLCs.
    pub first: u32,
    pub allowed_llcs: u64,
    pub llc_committed: Vec<u32>,
    /// The choice. The LLC is a dense index of the machine.
    pub node: u32,
    pub why: ForkWhy,
    pub llc: u32,
    /// Thread that forked it, for [`source`](crate::sim::source); nothing is decided by it. Missing in traces of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<i32>,
    /// Of a new thread whose process belongs somewhere; missing in traces of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<HomeRecord>,
}

/// What the preference of its process had to do with the placement of a new thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeRecord {
    /// As the arguments of [`fork_home`]: where the process belongs, and the CPUs of each node that the
    /// thread may use.
    pub prefers: u64,
    pub usable: Vec<u32>,
    pub why: HomeWhy,
}

/// The end of a task. Nothing is decided by it: it makes a trace a workload
/// ([`source`](crate::sim::source)). Traces of older versions have none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The dispatcher's clock, in ns. Under the user dispatcher when the end was seen.
    pub at: u64,
    pub pid: i32,
    /// CPU time of its life, and how often it went to sleep. Under the user dispatcher the CPU time that was known last.
    pub run_ns: u64,
    pub sleeps: u64,
}

/// A tick in which there was something to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickRecord {
    pub observation: Observation,
    pub decisions: Decisions,
    /// What was known of memory; nothing with `--locality off`, and in traces of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locality: Option<LocalityRecord>,
}

/// A line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    Header(Header),
    Fork(ForkRecord),
    Exit(ExitRecord),
    Tick(TickRecord),
    /// Memory that followed tasks.
    Brought(BroughtRecord),
    /// So many fork placements or ends of tasks are missing here: the buffer was full.
    Lost {
        forks: u64,
    },
}

/// Checks records, one after the other.
#[derive(Debug, Default)]
pub struct Replay {
    header: Option<(Header, Balancer, Decider)>,
    pub forks: u64,
    pub ticks: u64,
    pub moves: u64,
    /// Moves and swaps for the sake of memory, each task counted.
    pub steps: u64,
    /// Pages of memory that followed.
    pub pages: u64,
    pub lost: u64,
    pub mismatches: u64,
}

impl Replay {
    /// Decide the record again.
    ///
    /// # Errors
    /// One sentence: the policy decides otherwise (which is counted), or the record makes no sense.
    pub fn check(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Header(header) => return self.begin(header),
            Record::Lost { forks } => {
                self.lost = self.lost.saturating_add(forks);
                return Ok(());
            }
            Record::Exit(_) => return Ok(()),
            Record::Fork(_) => self.forks += 1,
            Record::Brought(brought) => self.brought(&brought),
            Record::Tick(ref tick) => {
                self.ticks += 1;
                self.moves += tick.decisions.moves.len() as u64;
                let located = tick.locality.as_ref();
                let steps = located.and_then(|located| located.steps.as_ref());
                self.steps += steps.map_or(0, |steps| steps.steps.len()) as u64;
            }
        }
        let Some((header, balancer, decider)) = &mut self.header else {
            return Err("there is no header before this line".into());
        };
        let checked = match &record {
            Record::Fork(fork) => check_fork(header, fork),
            Record::Tick(tick) => check_tick(header, (balancer, decider), tick),
            Record::Header(_) | Record::Exit(_) | Record::Brought(_) | Record::Lost { .. } => {
                Ok(())
            }
        };
        self.mismatches += u64::from(checked.is_err());
        checked
    }

    fn brought(&mut self, brought: &BroughtRecord) {
        self.pages += brought.batch.map_or(0, |batch| batch.moved.into());
    }

    fn begin(&mut self, header: Header) -> Result<(), String> {
        check_format(&header)?;
        consistent::check(&header)?;
        let mut balancer = Balancer::new(header.shape.clone(), 0);
        balancer.spare_bystanders(header.limits.no_bystanders);
        let decider = Decider::new(header.shape.clone(), 0);
        self.header = Some((header, balancer, decider));
        Ok(())
    }
}

/// Whether the records behind a header mean what they mean here.
///
/// # Errors
/// Both formats, in one sentence.
pub fn check_format(header: &Header) -> Result<(), String> {
    match header.format {
        FORMAT => Ok(()),
        other => Err(format!(
            "the trace has format {other}, this version reads format {FORMAT}"
        )),
    }
}

fn check_fork(header: &Header, fork: &ForkRecord) -> Result<(), String> {
    let shape = &header.shape;
    let order = shape
        .order
        .get(fork.local as usize)
        .ok_or_else(|| format!("there is no node {}", fork.local))?;
    let state = ForkState {
        committed: &fork.committed,
        weight: &shape.weight,
        task_weight: &fork.task_weight,
        allowed: fork.allowed,
        order,
        usable: fork.usable,
    };
    let home = fork.home.as_ref();
    let (prefers, usable) = home.map_or((0, &[][..]), |home| (home.prefers, &home.usable));
    let choice = fork_home(&state, &header.limits.fork, prefers, &shape.order, usable);
    let recorded = HomeChoice {
        node: fork.node,
        home: home.map_or(HomeWhy::NoPreference, |home| home.why),
        why: fork.why,
    };
    if choice != Some(recorded) {
        let differ = mismatch::fork_node(&recorded, choice.as_ref());
        return Err(format!("fork of {}: {differ}", fork.pid));
    }
    let llcs = shape.llcs_of(fork.node as usize);
    let weight = &shape.llc_weight[llcs.clone()];
    let first = fork.first as usize;
    let llc = fork_llc(&fork.llc_committed, weight, fork.allowed_llcs, first);
    let llc = llc.map(|llc| llcs.start as u32 + llc);
    if llc != Some(fork.llc) {
        let differ = mismatch::fork_llc(fork.llc, llc);
        return Err(format!("fork of {}: {differ}", fork.pid));
    }
    Ok(())
}

fn check_tick(
    header: &Header,
    (balancer, decider): (&mut Balancer, &mut Decider),
    tick: &TickRecord,
) -> Result<(), String> {
    let seen = &tick.observation;
    if seen.nodes.len() != header.shape.nodes() || seen.llcs.len() != header.shape.llc_weight.len()
    {
        return Err(format!("tick at {}: not of this machine", seen.at));
    }
    let mut decisions = Decisions::default();
    let view = tick.locality.as_ref().map(|located| &located.view);
    balancer.decide_with(seen, view, &header.limits.run_time, &mut decisions);
    if let Some(differ) = mismatch::decisions(&tick.decisions, &decisions) {
        return Err(format!("tick at {}: {differ}", seen.at));
    }
    match &tick.locality {
        Some(located) => located.check(seen, &decisions.moves, &header.limits, decider),
        None => Ok(()),
    }
}
