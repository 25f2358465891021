// SPDX-License-Identifier: GPL-2.0-only
//! What locality has done, counted since load.

use super::looks::Standings;
use crate::memory::{Brought, Unseen};
use crate::policy::locality::evidence::Standing;
use crate::policy::locality::ledger::Ledger;
use crate::policy::locality::view::{Stay, Steps, View, Why};
use crate::policy::observation::{Observation, Shape};

/// CPU time of tasks of known memory on a node, in us, and the part of it by how much of that memory is local there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    pub seen_us: u64,
    pub local_us: u64,
}

/// Totals, but for the standings, which are of the last tick that looked at tasks.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub preferred: u64,
    pub nearer: u64,
    pub swaps: u64,
    pub full: u64,
    pub imbalance: u64,
    pub no_spare_swap: u64,
    pub waiting: u64,
    pub looks: u64,
    /// Looks at what was gone or has no memory, and at what we may not look at.
    pub gone: u64,
    pub not_allowed: u64,
    /// CPU time of looks.
    pub look_us: u64,
    pub brought_pages: u64,
    pub refused_pages: u64,
    pub bring_us: u64,
    pub standings: Standings,
    /// By node with CPUs.
    pub shares: Vec<Share>,
}

/// No interval between two looks at the tasks counts for longer, in us.
const LONGEST_US: u64 = 2_000_000;

impl Counts {
    pub fn new(nodes: usize) -> Self {
        Self {
            shares: vec![Share::default(); nodes],
            ..Self::default()
        }
    }

    pub fn unseen(&mut self, why: Unseen) {
        match why {
            Unseen::Gone => self.gone += 1,
            Unseen::NotAllowed => self.not_allowed += 1,
        }
    }

    pub fn brought(&mut self, brought: &Brought) {
        self.brought_pages += u64::from(brought.moved);
        self.refused_pages += u64::from(brought.refused);
    }

    /// The decisions of a tick.
    pub fn steps(&mut self, steps: &Steps) {
        for step in &steps.steps {
            match step.why {
                Why::Preferred => self.preferred += 1,
                Why::Nearer => self.nearer += 1,
                Why::Swap => self.swaps += 1,
                Why::SwappedFor => {}
            }
        }
        for (_, stay) in &steps.stays {
            match stay {
                Stay::Full => self.full += 1,
                Stay::Imbalance => self.imbalance += 1,
                Stay::NoSpareSwap => self.no_spare_swap += 1,
                Stay::Waiting => self.waiting += 1,
                _ => {}
            }
        }
    }

    /// Where tasks were over the last `elapsed_us`, and what part of their processes' memory is local there, which
    /// `ledger` knows. Memory next door is near, and not local: what is counted compares with a page count.
    pub fn locations(
        &mut self,
        (obs, view): (&Observation, &View),
        shape: &Shape,
        ledger: &Ledger,
        elapsed_us: u64,
    ) {
        let elapsed_us = elapsed_us.min(LONGEST_US);
        for (task, seen) in obs.tasks.iter().zip(&view.tasks) {
            let Some(&node) = shape.llc_node.get(usize::from(task.llc)) else {
                continue;
            };
            let node = usize::from(node);
            if seen.standing != Standing::Known {
                continue;
            }
            let Some(local) = ledger.local_share(task.tgid, node) else {
                continue;
            };
            let ran_us = elapsed_us * u64::from(task.busy) / 1000;
            if let Some(share) = self.shares.get_mut(node) {
                share.seen_us += ran_us;
                share.local_us += ran_us * u64::from(local) / 1000;
            }
        }
    }
}
