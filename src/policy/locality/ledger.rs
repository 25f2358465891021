// SPDX-License-Identifier: GPL-2.0-only
//! The state of locality between ticks: what is known of every process, where each unit belongs, and
//! when it may be tried again.
//!
//! A dispatcher feeds samples, faults and memory policies as they come, and asks for a [`View`](super::view::View) per tick
//! (`viewing`). What the tick has decided goes back with [`Ledger::remember`] (`timer`).
//!
//! R5 fresh-start: a unit begins with no preference and a clean timer. A task that is new has nothing
//! of its own: it shares its process's preference and timer. Rule sets without R5 hand a parent's timer
//! down, see [`Ledger::forked`].
//!
//! A unit whose node was full waits, twice as long each time, from [`FIRST_WAIT_MS`] to
//! [`LONGEST_WAIT_MS`]. The timer is clean again when one of its tasks got a place, when nobody was
//! refused, and when the preference changes.
//!
//! Processes and tasks are in order of their ids, so everything depends on what was fed alone. Taking in a
//! process, a task of known memory or a sample takes memory. Making a view and remembering what was
//! decided by it do not, as long as there are not more tasks than were foreseen ([`Ledger::reserve`]) and
//! no unit is seen for the first time.

use std::collections::BTreeMap;

use super::evidence::{Evidence, FirstTouch, MemoryPolicy, Sample, Standing};
use super::places::Places;
use super::preference::Preference;
use super::sampling::{Due, Schedule, stale_after_ms};
use super::score;
use super::view::Unit;
use crate::policy::observation::Shape;

use timer::Timer;
pub use timer::{FIRST_WAIT_MS, LONGEST_WAIT_MS};

mod timer;
mod viewing;

/// So long after one of its tasks went by its own memory the process as a whole does not pull at its tasks.
const APART_MS: u64 = 5_000;
/// No look counts as later than this.
const LATEST_MS: u64 = 10_000;

/// A task, told apart from others that had its slot.
pub type TaskKey = (u32, u32);

/// See [`Ledger::memory_of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOf {
    pub standing: Standing,
    pub policy: MemoryPolicy,
    /// When it was last looked at with success.
    pub sampled_ms: u64,
}

#[derive(Debug)]
struct Process {
    evidence: Evidence,
    schedule: Schedule,
    group: Option<u32>,
    /// How late the last look was: the budget was spent, or it did not run.
    late_ms: u32,
    /// When one of its tasks last belonged elsewhere than all of it, by its own memory.
    apart_ms: Option<u64>,
}

impl Process {
    /// After this time a sample is too old. Where the budget makes all looks late, evidence holds for longer, or
    /// the more processes there are, the less would be decided.
    fn stale_after_ms(&self) -> u64 {
        stale_after_ms(self.schedule.period_ms.saturating_add(self.late_ms))
    }
}

#[derive(Debug)]
struct Task {
    evidence: Evidence,
    preference: Preference,
}

#[derive(Debug, Clone, Copy, Default)]
struct UnitState {
    preference: Preference,
    timer: Timer,
    /// It was seen with more than one task.
    is_group: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Ledger {
    places: Places,
    shape: Shape,
    processes: BTreeMap<i32, Process>,
    tasks: BTreeMap<TaskKey, Task>,
    units: BTreeMap<Unit, UnitState>,
    /// Of the tick: the units that are active, in the order of the view, each with its tasks, ...
    active: Vec<(Unit, u32)>,
    /// ... its row of scores ...
    rows: Vec<Option<u32>>,
    /// ... and whether one of its tasks was refused.
    refused: Vec<bool>,
}

impl Ledger {
    pub fn new(places: Places, shape: Shape) -> Self {
        Self {
            places,
            shape,
            processes: BTreeMap::new(),
            tasks: BTreeMap::new(),
            units: BTreeMap::new(),
            active: Vec::new(),
            rows: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Foresee so many tasks in a tick.
    pub fn reserve(&mut self, tasks: usize) {
        self.active.reserve(tasks);
        self.rows.reserve(tasks);
        self.refused.reserve(tasks);
    }

    fn process(&mut self, tgid: i32) -> &mut Process {
        let nodes = self.places.nodes();
        self.processes.entry(tgid).or_insert_with(|| Process {
            evidence: Evidence::new(nodes),
            schedule: Schedule::fresh(),
            group: None,
            late_ms: 0,
            apart_ms: None,
        })
    }

    fn task(&mut self, key: TaskKey) -> &mut Task {
        let nodes = self.places.nodes();
        self.tasks.entry(key).or_insert_with(|| Task {
            evidence: Evidence::new(nodes),
            preference: Preference::default(),
        })
    }

    /// A process's memory was looked at, or it was tried: a sample without answers is one, too.
    pub fn sampled(&mut self, tgid: i32, sample: &Sample) {
        let process = self.process(tgid);
        process.late_ms = match process.schedule.next_ms {
            0 => 0,
            due => sample.at_ms.saturating_sub(due).min(LATEST_MS) as u32,
        };
        process.evidence.add_sample(sample);
        let standing = process
            .evidence
            .standing(sample.at_ms, process.stale_after_ms());
        let drift = process.evidence.drift();
        process.schedule.sampled(sample.at_ms, standing, drift);
    }

    /// Memory that is known to be one task's was looked at.
    pub fn sampled_task(&mut self, key: TaskKey, sample: &Sample) {
        self.task(key).evidence.add_sample(sample);
    }

    /// So many permille of what a task works on have been brought to a node.
    pub fn brought(&mut self, key: TaskKey, to: usize, permille: u16) {
        self.task(key).evidence.brought(to, permille);
    }

    /// A task took minor faults; they count for its process.
    pub fn touched(&mut self, tgid: i32, key: TaskKey, touch: &FirstTouch) {
        self.process(tgid).evidence.add_first_touch(touch);
        self.task(key).evidence.add_first_touch(touch);
    }

    /// What places the memory of a process.
    pub fn set_policy(&mut self, tgid: i32, policy: MemoryPolicy) {
        self.process(tgid).evidence.set_policy(policy);
    }

    /// What places the memory of one task.
    pub fn set_task_policy(&mut self, key: TaskKey, policy: MemoryPolicy) {
        self.task(key).evidence.set_policy(policy);
    }

    /// The process shares its memory, or for another reason belongs together, with others of `group`.
    pub fn set_group(&mut self, tgid: i32, group: Option<u32>) {
        self.process(tgid).group = group;
    }

    /// A process was forked. Under R5 that changes nothing; without it the timer is the parent's.
    pub fn forked(&mut self, tgid: i32, parent: i32, fresh_start: bool) {
        let timer = self
            .units
            .get(&self.unit_of(parent))
            .map(|state| state.timer);
        if let (false, Some(timer)) = (fresh_start, timer) {
            self.units.entry(self.unit_of(tgid)).or_default().timer = timer;
        }
    }

    /// Forget processes and tasks that are gone, and whom nobody belongs to any more.
    pub fn retain(&mut self, process: impl Fn(i32) -> bool, task: impl Fn(TaskKey) -> bool) {
        self.processes.retain(|&tgid, _| process(tgid));
        self.tasks.retain(|&key, _| task(key));
        let processes = &self.processes;
        self.units.retain(|unit, _| match *unit {
            Unit::Process(tgid) => process(tgid),
            Unit::Group(group) => processes.values().any(|one| one.group == Some(group)),
        });
    }

    fn unit_of(&self, tgid: i32) -> Unit {
        let group = self.processes.get(&tgid).and_then(|process| process.group);
        group.map_or(Unit::Process(tgid), Unit::Group)
    }

    fn standing(&self, tgid: i32, now_ms: u64) -> Standing {
        let process = self.processes.get(&tgid);
        process.map_or(Standing::Unknown, |process| {
            process.evidence.standing(now_ms, self.stale_ms(tgid))
        })
    }

    /// After this time a sample of the process is too old.
    fn stale_ms(&self, tgid: i32) -> u64 {
        let fresh = stale_after_ms(Schedule::fresh().period_ms);
        let process = self.processes.get(&tgid);
        process.map_or(fresh, Process::stale_after_ms)
    }

    /// Its tasks work on different memory, so that all of it says nothing of where one of them belongs.
    fn is_apart(&self, tgid: i32, now_ms: u64) -> bool {
        let process = self.processes.get(&tgid);
        let apart_ms = process.and_then(|process| process.apart_ms);
        apart_ms.is_some_and(|at| now_ms.saturating_sub(at) < APART_MS)
    }

    /// The nodes where the threads of a process belong, for its next one ([`super::fork`]); 0 if
    /// that is not known well enough to decide by, or its tasks work on different nodes.
    pub fn nodes_of(&self, tgid: i32, now_ms: u64) -> u64 {
        if self.is_apart(tgid, now_ms) {
            return 0;
        }
        let state = self.units.get(&self.unit_of(tgid));
        match (self.standing(tgid, now_ms), state) {
            (Standing::Known, Some(state)) => state.preference.nodes,
            _ => 0,
        }
    }

    /// All processes whose threads belong somewhere, ascending, with their nodes as of
    /// [`Ledger::nodes_of`].
    pub fn preferred(&self, now_ms: u64) -> impl Iterator<Item = (i32, u64)> + '_ {
        let nodes = move |&tgid: &i32| (tgid, self.nodes_of(tgid, now_ms));
        let all = self.processes.keys().map(nodes);
        all.filter(|&(_, nodes)| nodes != 0)
    }

    /// What is known of the memory of a process, in short; `None` if nothing ever was.
    pub fn memory_of(&self, tgid: i32, now_ms: u64) -> Option<MemoryOf> {
        let evidence = &self.processes.get(&tgid)?.evidence;
        Some(MemoryOf {
            standing: self.standing(tgid, now_ms),
            policy: evidence.policy(),
            sampled_ms: evidence.sampled_ms(),
        })
    }

    /// Add to `shares`, by node with CPUs, what part of a process's memory is local there, in permille; whether that is
    /// known.
    pub fn local_shares(&self, tgid: i32, shares: &mut Vec<u16>) -> bool {
        let Some(process) = self.processes.get(&tgid) else {
            return false;
        };
        let start = shares.len();
        shares.resize(start + self.shape.nodes(), 0);
        let is_known = score::local(&self.places, &process.evidence, &mut shares[start..]);
        if !is_known {
            shares.truncate(start);
        }
        is_known
    }

    /// What part of a process's memory is local on one node with CPUs, in permille; `None` if that is not known.
    pub fn local_share(&self, tgid: i32, node: usize) -> Option<u16> {
        let evidence = &self.processes.get(&tgid)?.evidence;
        score::local_at(&self.places, evidence, node)
    }

    /// When to look at a process's memory again, as [`Budget::take`](super::sampling::Budget::take) wants
    /// it. `busy`, `cost_us`: as there.
    pub fn due(&self, tgid: i32, now_ms: u64, busy: u32, cost_us: u32) -> Due {
        let schedule = self.processes.get(&tgid).map(|process| process.schedule);
        Due {
            tgid,
            schedule: schedule.unwrap_or(Schedule::fresh()),
            standing: self.standing(tgid, now_ms),
            busy,
            cost_us,
        }
    }
}
