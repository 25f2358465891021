// SPDX-License-Identifier: GPL-2.0-only
//! R5 for units whose node was full: when they may be tried again.

use super::super::view::{Step, Steps, View, Why};
use super::Ledger;
use crate::policy::observation::Observation;

pub const FIRST_WAIT_MS: u64 = 500;
pub const LONGEST_WAIT_MS: u64 = 16_000;

/// Of a unit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timer {
    waits: u8,
    until_ms: u64,
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
        }
    }
}

impl Ledger {
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
