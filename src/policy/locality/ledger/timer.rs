// SPDX-License-Identifier: GPL-2.0-only
//! R5 for units whose node was full: when they may be tried again. Who was moved since then was not among those who
//! were refused: for its sake the timer is clean.

use super::super::view::{Stay, Step, Steps, View, Why};
use super::Ledger;
use crate::policy::observation::Observation;

pub const FIRST_WAIT_MS: u64 = 500;
pub const LONGEST_WAIT_MS: u64 = 16_000;

/// Of a unit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timer {
    waits: u8,
    until_ms: u64,
    refused_ms: u64,
}

impl Timer {
    pub(super) fn waits(self, now_ms: u64) -> bool {
        self.until_ms > now_ms
    }

    fn again(self, now_ms: u64) -> Self {
        let wait_ms = (FIRST_WAIT_MS << self.waits.min(16)).min(LONGEST_WAIT_MS);
        Self {
            waits: self.waits.saturating_add(1),
            until_ms: now_ms + wait_ms,
            refused_ms: now_ms,
        }
    }
}

impl Ledger {
    /// Tasks that were moved off their node after others of their unit were refused one.
    fn clean_for_the_moved(&mut self, obs: &Observation, view: &View, steps: &Steps) {
        let waits = |&&(_, stay): &&(u32, Stay)| matches!(stay, Stay::Waiting | Stay::Resting);
        for &(at, _) in steps.stays.iter().filter(waits) {
            let at = at as usize;
            let (Some(task), Some(seen)) = (obs.tasks.get(at), view.tasks.get(at)) else {
                continue;
            };
            let unit = view.units.get(seen.unit as usize);
            let Some(state) = unit.and_then(|unit| self.units.get_mut(&unit.unit)) else {
                continue;
            };
            let moved_ms = view.at_ms.checked_sub(task.moved_ms.into());
            if moved_ms.is_some_and(|moved_ms| moved_ms > state.timer.refused_ms) {
                state.timer = Timer::default();
            }
        }
    }

    /// What the tick decided by `view`: timers run, or are clean again.
    pub fn remember(&mut self, obs: &Observation, view: &View, steps: &Steps) {
        self.clean_for_the_moved(obs, view, steps);
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
