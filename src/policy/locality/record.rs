// SPDX-License-Identifier: GPL-2.0-only
//! What a tick knew of memory and decided by it, for a trace, and deciding it again.
//!
//! It is a part of the balancer's record of the same tick ([`policy::record`](crate::policy::record)), which has
//! the observation, and what the balancer has moved already. As there, a difference means that the version
//! is another one.

use serde::{Deserialize, Serialize};

use super::decide::Decider;
use super::extents::Extent;
use super::follow::Batch;
use super::view::{Steps, View};
use crate::policy::balance::Move;
use crate::policy::compile::Limits;
use crate::policy::mismatch;
use crate::policy::observation::Observation;

/// A batch of memory that was brought to tasks. Not decided again: it depends on what all looks before it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroughtRecord {
    /// When it was ordered, by the dispatcher's clock in ns, to the ms.
    pub at: u64,
    pub tgid: i32,
    /// Dense index of the node.
    pub to: u16,
    /// The part of the process's memory that it was for; `None`: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Extent>,
    /// `None`: the process was gone, or is not for us to touch.
    pub batch: Option<Batch>,
    /// CPU time of the memory thread.
    pub cost_us: u32,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalityRecord {
    pub view: View,
    /// `None`: nothing was decided by it but the balancer's order of candidates.
    pub steps: Option<Steps>,
}

impl LocalityRecord {
    /// Decide it again, by the limits of the trace's header. `decider` is for its machine.
    ///
    /// # Errors
    /// One sentence: the policy decides otherwise, or the record is of another machine.
    pub fn check(
        &self,
        seen: &Observation,
        already: &[Move],
        limits: &Limits,
        decider: &mut Decider,
    ) -> Result<(), String> {
        let nodes = seen.nodes.len();
        if self.view.nodes as usize != nodes || decider.nodes() != nodes {
            return Err(format!("locality at {}: not of this machine", seen.at));
        }
        let Some(recorded) = &self.steps else {
            return Ok(());
        };
        let mut steps = Steps::default();
        decider.decide(seen, &self.view, limits, already, &mut steps);
        match mismatch::steps(seen, recorded, &steps) {
            None => Ok(()),
            Some(differ) => Err(format!("locality at {}: {differ}", seen.at)),
        }
    }
}
