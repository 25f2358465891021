// SPDX-License-Identifier: GPL-2.0-only
//! What a tick decides by: evidence, preferences and timers of the tasks that are there, as a [`View`].
//!
//! Preferences follow the evidence here and nowhere else. Each unit of the tick is scored once, and its tasks share
//! the row, but for those of whose own memory something is known.

use super::super::evidence::{Evidence, Standing};
use super::super::preference::{Asked, choose};
use super::super::score;
use super::super::view::{TaskView, Unit, UnitView, View};
use super::{Ledger, Process, Timer};
use crate::policy::observation::{Observation, TaskObs};

/// The best node of a process leads by less, in permille: its memory is on several, and what is known of a task's
/// own goes first.
const MIXED_BELOW: u16 = 400;

impl Ledger {
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
            waits: state.timer.waits(now_ms),
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
    /// belong on a single node, or not clearly. There, when others of its process go by their own, nothing is known of one
    /// of whose own there is not.
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
        let is_clear = row.is_some_and(|row| lead(view, row) >= MIXED_BELOW);
        let belongs_together = preference.single().is_some() && is_clear;
        let pulls = belongs_together || !self.is_apart(task.tgid, now_ms);
        let shared = TaskView {
            unit: at,
            standing: process,
            row,
            nodes: if pulls { preference.nodes } else { 0 },
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
