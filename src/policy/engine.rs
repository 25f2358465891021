// SPDX-License-Identifier: GPL-2.0-only
//! The policy as a dispatcher uses it: limits, balancer and history in one, a call per tick.
//!
//! All state that a decision depends on is in the observation when [`Engine::tick`] returns, so a
//! recorded observation, given to a new [`Balancer`] with the same limits, decides the same.

use super::balance::{Balancer, Decisions};
use super::compile::Limits;
use super::history::History;
use super::locality::view::{Step, View};
use super::observation::{Observation, Shape};

/// See the module.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    balancer: Balancer,
    history: History,
    decisions: Decisions,
}

impl Engine {
    /// For up to `tasks` tasks; more are no error, but take memory during a tick.
    pub fn new(limits: Limits, shape: Shape, tasks: usize) -> Self {
        let nodes = shape.nodes();
        let history = History::new(&shape);
        let mut balancer = Balancer::new(shape, tasks);
        balancer.spare_bystanders(limits.no_bystanders);
        Self {
            limits,
            history,
            balancer,
            decisions: Decisions {
                moves: Vec::with_capacity(tasks.min(4096)),
                verdicts: Vec::with_capacity(2 * nodes * nodes),
            },
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn shape(&self) -> &Shape {
        self.balancer.shape()
    }

    /// A tick with nothing to decide by: time passes for earlier moves.
    pub fn skip(&mut self, obs: &mut Observation) {
        obs.tasks.clear();
        self.history.review(obs);
    }

    /// Judge earlier moves, then decide. `obs.held` is filled in.
    pub fn tick(&mut self, obs: &mut Observation) -> &Decisions {
        self.tick_with(obs, None)
    }

    /// The same, knowing where memory lies (R8). What it decides depends on `view`, too.
    pub fn tick_with(&mut self, obs: &mut Observation, view: Option<&View>) -> &Decisions {
        self.history.review(obs);
        self.balancer
            .decide_with(obs, view, &self.limits.run_time, &mut self.decisions);
        self.history.remember(&self.decisions);
        &self.decisions
    }

    /// What the last tick decided.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// What locality decided in this tick is carried out, too: it is judged like the balancer's moves.
    pub fn remember_steps(&mut self, steps: &[Step]) {
        self.history.remember_steps(steps);
    }
}
