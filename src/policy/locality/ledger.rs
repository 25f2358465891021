// SPDX-License-Identifier: GPL-2.0-only
//! The state of locality between ticks: what is known of every process, where each unit belongs, and
//! when it may be tried again.
//!
//! A dispatcher feeds samples, faults and memory policies as they come, and asks for a [`View`] per tick.
//! What the tick has decided goes back with [`Ledger::remember`].
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
//! process, a task of known memory or a sample takes memory. Making a [`View`] and remembering what was
//! decided by it do not, as long as there are not more tasks than were foreseen ([`Ledger::reserve`]) and
//! no unit is seen for the first time.

use std::collections::BTreeMap;

use super::evidence::{Evidence, FirstTouch, MemoryPolicy, Sample, Standing};
use super::places::Places;
use super::preference::{Asked, Preference, choose};
use super::sampling::{Due, Schedule, stale_after_ms};
use super::score;
use super::view::{Step, Steps, TaskView, Unit, UnitView, View, Why};
use crate::policy::observation::{Observation, Shape, TaskObs};

pub const FIRST_WAIT_MS: u64 = 500;
pub const LONGEST_WAIT_MS: u64 = 16_000;

/// The best node of a process leads by less, in permille: its memory is on several, and what is known of a task's
/// own goes first.
const MIXED_BELOW: u16 = 400;
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
struct Timer {
    waits: u8,
    until_ms: u64,
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

    /// The nodes where the threads of a process belong, for its next one ([`super::fork`]); 0 if
    /// that is not known well enough to decide by, or its tasks work on different nodes.
    pub fn nodes_of(&self, tgid: i32, now_ms: u64) -> u64 {
        let apart_ms = self
            .processes
            .get(&tgid)
            .and_then(|process| process.apart_ms);
        if apart_ms.is_some_and(|at| now_ms.saturating_sub(at) < APART_MS) {
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

    /// What is known at `now_ms` of the tasks of `obs`. Preferences follow the evidence. `view` is
    /// overwritten.
    pub fn view(&mut self, obs: &Observation, now_ms: u64, view: &mut View) {
        view.at_ms = now_ms;
        view.nodes = self.places.cpu_nodes() as u32;
        view.tasks.clear();
        view.units.clear();
        view.scores.clear();
        self.count_active(obs);
        self.rows.clear();
        for at in 0..self.active.len() {
            let (unit, tasks) = self.active[at];
            let row = self.view_unit(unit, tasks, now_ms, view);
            self.rows.push(row);
        }
        for task in &obs.tasks {
            let unit = self.unit_of(task.tgid);
            let Ok(at) = self.active.binary_search_by_key(&unit, |&(unit, _)| unit) else {
                continue;
            };
            let seen = self.view_task(task, at as u32, self.rows[at], now_ms, view);
            view.tasks.push(seen);
        }
    }

    /// The units of all tasks, each once, in their order.
    fn count_active(&mut self, obs: &Observation) {
        let mut active = std::mem::take(&mut self.active);
        active.clear();
        active.extend(obs.tasks.iter().map(|task| (self.unit_of(task.tgid), 1)));
        active.sort_unstable();
        active.dedup_by(|again, first| {
            let same = again.0 == first.0;
            first.1 += if same { again.1 } else { 0 };
            same
        });
        self.active = active;
    }

    /// Its row of scores, if there is one.
    fn view_unit(&mut self, unit: Unit, tasks: u32, now_ms: u64, view: &mut View) -> Option<u32> {
        let (row, known) = self.score_unit(unit, now_ms, view);
        let mut state = self.units.get(&unit).copied().unwrap_or_default();
        state.is_group |= tasks > 1 || matches!(unit, Unit::Group(_));
        if let (Some(row), true) = (row, known) {
            let asked = self.asked(view, row, tasks);
            let preference = choose(state.preference, &asked);
            if state.preference.nodes != 0 && preference != state.preference {
                state.timer = Timer::default();
            }
            state.preference = preference;
        }
        self.units.insert(unit, state);
        view.units.push(UnitView {
            unit,
            is_group: state.is_group,
            waits: state.timer.until_ms > now_ms,
        });
        row
    }

    /// Add a unit's row of scores; whether it is good enough to decide by.
    fn score_unit(&self, unit: Unit, now_ms: u64, view: &mut View) -> (Option<u32>, bool) {
        let process = |tgid: i32| self.processes.get(&tgid).map(|process| &process.evidence);
        match unit {
            Unit::Process(tgid) => {
                let standing = self.standing(tgid, now_ms);
                let row = process(tgid).and_then(|evidence| self.score(evidence, standing, view));
                (row, standing == Standing::Known)
            }
            Unit::Group(group) => {
                let of_group = |one: &(&i32, &Process)| one.1.group == Some(group);
                let known =
                    |one: &(&i32, &Process)| self.standing(*one.0, now_ms) == Standing::Known;
                let members = self.processes.iter().filter(of_group).filter(known);
                let evidence = members.map(|(_, process)| &process.evidence);
                let row = add_row(view, |scores| {
                    score::together(&self.places, evidence, scores)
                });
                (row, row.is_some())
            }
        }
    }

    fn score(&self, evidence: &Evidence, standing: Standing, view: &mut View) -> Option<u32> {
        add_row(view, |scores| match standing {
            Standing::Unknown | Standing::Void => false,
            Standing::FirstTouch => score::first_touch(&self.places, evidence, scores),
            _ => score::alone(&self.places, evidence, scores),
        })
    }

    fn asked<'a>(&'a self, view: &'a View, row: u32, tasks: u32) -> Asked<'a> {
        let (row, nodes) = (row as usize, view.nodes as usize);
        Asked {
            scores: &view.scores[row * nodes..(row + 1) * nodes],
            weight: &self.shape.weight,
            order: &self.shape.order,
            tasks,
            now_ms: view.at_ms,
        }
    }

    /// A task of the unit at `at`. What is known of its own memory counts where its unit does not
    /// belong on a single node, or not clearly.
    fn view_task(
        &mut self,
        task: &TaskObs,
        at: u32,
        row: Option<u32>,
        now_ms: u64,
        view: &mut View,
    ) -> TaskView {
        let preference = self.units[&view.units[at as usize].unit].preference;
        let process = self.standing(task.tgid, now_ms);
        let shared = TaskView {
            unit: at,
            standing: process,
            row,
            nodes: preference.nodes,
        };
        let stale_ms = self.stale_ms(task.tgid);
        let key = (task.slot, task.seq);
        let Some(own) = self.tasks.get(&key) else {
            return shared;
        };
        let standing = own.evidence.standing(now_ms, stale_ms);
        if standing == Standing::Void {
            return TaskView { standing, ..shared };
        }
        let is_clear = row.is_some_and(|row| lead(view, row) >= MIXED_BELOW);
        let belongs_together = preference.single().is_some() && is_clear;
        if process == Standing::Void || standing != Standing::Known || belongs_together {
            return shared;
        }
        let Some(row) = self.score(&own.evidence, standing, view) else {
            return shared;
        };
        let own = choose(own.preference, &self.asked(view, row, 1));
        self.task(key).preference = own;
        if own.nodes & !preference.nodes != 0 {
            self.process(task.tgid).apart_ms = Some(now_ms);
        }
        match own.nodes {
            // Its own memory says nothing; its unit's may.
            0 => shared,
            nodes => TaskView {
                unit: at,
                standing,
                row: Some(row),
                nodes,
            },
        }
    }

    /// What the tick decided by `view`: timers run, or are clean again.
    pub fn remember(&mut self, obs: &Observation, view: &View, steps: &Steps) {
        let unit_of = |i: usize| view.tasks.get(i).map(|task| task.unit as usize);
        let mut refused = std::mem::take(&mut self.refused);
        refused.clear();
        refused.resize(view.units.len(), false);
        for &(task, _) in steps.stays.iter().filter(|(_, stay)| stay.is_refusal()) {
            let unit = unit_of(task as usize).and_then(|unit| refused.get_mut(unit));
            unit.into_iter().for_each(|refused| *refused = true);
        }
        let got_a_place = |step: &&Step| matches!(step.why, Why::Preferred | Why::Swap);
        for step in steps.steps.iter().filter(got_a_place) {
            let at = obs.tasks.binary_search_by_key(&step.slot, |task| task.slot);
            let unit = at
                .ok()
                .and_then(unit_of)
                .and_then(|unit| refused.get_mut(unit));
            unit.into_iter().for_each(|refused| *refused = false);
        }
        // Of those that wait nobody was asked.
        let asked = view
            .units
            .iter()
            .zip(&refused)
            .filter(|(unit, _)| !unit.waits);
        for (unit, &refused) in asked {
            let Some(state) = self.units.get_mut(&unit.unit) else {
                continue;
            };
            state.timer = match refused {
                true => state.timer.again(view.at_ms),
                false => Timer::default(),
            };
        }
        self.refused = refused;
    }
}

impl Timer {
    fn again(self, now_ms: u64) -> Self {
        let wait_ms = (FIRST_WAIT_MS << self.waits.min(16)).min(LONGEST_WAIT_MS);
        Self {
            waits: self.waits.saturating_add(1),
            until_ms: now_ms + wait_ms,
        }
    }
}

/// By how much the best node of a row of scores leads.
fn lead(view: &View, row: u32) -> u16 {
    let nodes = view.nodes as usize;
    let (mut best, mut second) = (0, 0);
    for &score in view.scores.iter().skip(row as usize * nodes).take(nodes) {
        (best, second) = match score > best {
            true => (score, best),
            false => (best, second.max(score)),
        };
    }
    best - second
}

/// Add a row of scores, if there is something to fill in.
fn add_row(view: &mut View, fill: impl FnOnce(&mut [u16]) -> bool) -> Option<u32> {
    let (start, nodes) = (view.scores.len(), view.nodes as usize);
    view.scores.resize(start + nodes, 0);
    if fill(&mut view.scores[start..]) {
        return Some((start / nodes) as u32);
    }
    view.scores.truncate(start);
    None
}
