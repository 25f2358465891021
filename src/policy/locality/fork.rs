// SPDX-License-Identifier: GPL-2.0-only
//! Where a new thread goes whose process belongs somewhere (R5, R8).
//!
//! A new thread has no history of its own; it shares its process's preference. It goes to a node of
//! that preference if the limits of fork placement would keep it there, were its parent there: the
//! same predicate, the state after placing it, against every node that it may use. Otherwise it goes
//! where placement says without any of this. A new process has no preference, so for it nothing changes.

use serde::{Deserialize, Serialize};

use crate::policy::limits::spare;
use crate::policy::placement::{ForkChoice, ForkLimits, ForkState, ForkWhy, fork_node};

/// What preference had to do with a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HomeWhy {
    /// It goes where its process's memory is.
    Preferred,
    /// There is no preference, or the task may not run there.
    NoPreference,
    /// The limits do not tolerate it there.
    NotTolerated,
}

/// Where a new thread goes, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeChoice {
    pub node: u32,
    pub home: HomeWhy,
    /// As [`fork_node`] judged the node that was chosen.
    pub why: ForkWhy,
}

/// The node for a new thread.
///
/// - `nodes`: bit n is set if its process belongs on node n; 0: nowhere in particular.
/// - `order`: by node, all nodes, nearest first.
/// - `usable`: by node, its CPUs that the task may use.
///
/// `None` if no node can be chosen.
pub fn fork_home(
    state: &ForkState<'_>,
    limits: &ForkLimits,
    nodes: u64,
    order: &[Vec<u8>],
    usable: &[u32],
) -> Option<HomeChoice> {
    let plain = fork_node(state, limits)?;
    let choice = |chosen: ForkChoice, home| HomeChoice {
        node: chosen.node,
        home,
        why: chosen.why,
    };
    let among = ForkState {
        allowed: state.allowed & nodes,
        ..*state
    };
    let Some(wanted) = fork_node(&among, limits) else {
        return Some(choice(plain, HomeWhy::NoPreference));
    };
    let home = match as_if_forked_there(state, limits, wanted.node as usize, order, usable) {
        Some(there) => choice(there, HomeWhy::Preferred),
        None => choice(plain, HomeWhy::NotTolerated),
    };
    Some(home)
}

/// What placement says of a task whose parent is on `node`, if that is to stay there.
fn as_if_forked_there(
    state: &ForkState<'_>,
    limits: &ForkLimits,
    node: usize,
    order: &[Vec<u8>],
    usable: &[u32],
) -> Option<ForkChoice> {
    let moved = ForkState {
        order: order.get(node)?,
        usable: usable.get(node).copied().unwrap_or(0),
        ..*state
    };
    let (weight, committed) = (*state.weight.get(node)?, *state.committed.get(node)?);
    fork_node(&moved, limits)
        .filter(|choice| choice.node as usize == node && spare(weight, committed) > 0)
}
