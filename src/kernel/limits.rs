// SPDX-License-Identifier: GPL-2.0-only
//! The numbers of fork placement, handed to BPF.
//!
//! BPF reads each field whole, and any mixture of old and new numbers is a valid limit, so they may be
//! written while it runs.

use super::intf;
use super::mapped::MappedArray;
use crate::policy::limits::NICE_0_WEIGHT;
use crate::policy::placement::{ForkLimits, Judge};

/// What BPF reads; a task weight of nice 0 until a tick knows better.
fn for_bpf(limits: &ForkLimits) -> intf::fork_limits {
    let mut bpf = intf::fork_limits {
        judge: match limits.judge {
            Judge::After => intf::JUDGE_AFTER,
            Judge::Before => intf::JUDGE_BEFORE,
        },
        max_imbalance: limits.max_imbalance,
        cap_by_affinity: limits.cap_by_affinity.into(),
        ..Default::default()
    };
    bpf.task_weight.fill(NICE_0_WEIGHT);
    for (to, from) in bpf.max_running.iter_mut().zip(&limits.max_running) {
        *to = *from;
    }
    bpf
}

/// The limits as BPF has them.
pub(super) struct BpfLimits(MappedArray<intf::fork_limits>);

impl BpfLimits {
    /// Write `limits` to `map`, which has one element.
    pub fn new(map: MappedArray<intf::fork_limits>, limits: &ForkLimits) -> Self {
        map.set(0, for_bpf(limits));
        Self(map)
    }

    /// The average weight of the tasks that run on each node is now this.
    pub fn set_task_weights(&self, weights: impl Iterator<Item = u32>) {
        let Some(at) = self.0.at(0) else { return };
        for (node, weight) in weights.enumerate().take(intf::MAX_NODES as usize) {
            // SAFETY: inside the mapping and aligned; nobody else writes it.
            unsafe {
                let place = &raw mut (*at.as_ptr()).task_weight[node];
                if place.read_volatile() != weight {
                    place.write_volatile(weight);
                }
            }
        }
    }
}
