// SPDX-License-Identifier: GPL-2.0-only
//! A tick of locality with all that it was decided by, for a trace, and deciding it again.
//!
//! As with the balancer's ticks ([`policy::record`](crate::policy::record)), a difference means that the
//! version is another one. No line of today's traces has this; a dispatcher that decides by locality
//! has to write it, and with the balancer's tick the view that it was given.

use serde::{Deserialize, Serialize};

use super::decide::Decider;
use super::view::{Steps, View};
use crate::policy::balance::Move;
use crate::policy::compile::Limits;
use crate::policy::observation::{Observation, Shape};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalityRecord {
    pub observation: Observation,
    pub view: View,
    /// What the balancer decided in the same tick.
    pub already: Vec<Move>,
    pub steps: Steps,
}

impl LocalityRecord {
    /// Decide it again, on the machine and by the limits of the trace's header.
    ///
    /// # Errors
    /// One sentence: the policy decides otherwise, or the record is of another machine.
    pub fn check(&self, shape: &Shape, limits: &Limits) -> Result<(), String> {
        let seen = &self.observation;
        let nodes = self.view.nodes as usize;
        if seen.nodes.len() != shape.nodes() || nodes != shape.nodes() {
            return Err(format!("locality at {}: not of this machine", seen.at));
        }
        let mut steps = Steps::default();
        let mut decider = Decider::new(shape.clone(), seen.tasks.len());
        decider.decide(seen, &self.view, limits, &self.already, &mut steps);
        match steps == self.steps {
            true => Ok(()),
            false => Err(format!(
                "locality at {}: recorded {:?}, the policy says {:?}",
                seen.at, self.steps.steps, steps.steps
            )),
        }
    }
}
