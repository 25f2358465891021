// SPDX-License-Identifier: GPL-2.0-only
//! Decisions of the balancer, counted by rule, and what its ticks cost.

use std::time::Duration;

use crate::policy::balance::{Decisions, MoveWhy, Outcome};

/// Totals since load.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub ticks: u64,
    pub tick_time: Duration,
    pub moves_excess: u64,
    pub moves_utilisation: u64,
    pub alone_tolerated: u64,
    pub alone_over: u64,
    pub alone_held: u64,
    pub alone_no_task: u64,
    pub alone_budget: u64,
}

impl Tally {
    /// A tick that took `time` and had nothing to decide.
    pub fn count_calm(&mut self, time: Duration) {
        self.ticks += 1;
        self.tick_time += time;
    }

    /// A tick that took `time` and decided this.
    pub fn count(&mut self, decisions: &Decisions, time: Duration) {
        self.ticks += 1;
        self.tick_time += time;
        for decided in &decisions.moves {
            match decided.why {
                MoveWhy::Excess => self.moves_excess += 1,
                MoveWhy::Utilisation => self.moves_utilisation += 1,
            }
        }
        for verdict in &decisions.verdicts {
            match verdict.outcome {
                Outcome::Moved(_) => {}
                Outcome::Tolerated => self.alone_tolerated += 1,
                Outcome::Over => self.alone_over += 1,
                Outcome::Held => self.alone_held += 1,
                Outcome::NoTask => self.alone_no_task += 1,
                Outcome::Budget => self.alone_budget += 1,
            }
        }
    }
}
