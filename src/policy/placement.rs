// SPDX-License-Identifier: GPL-2.0-only
//! Where a new task goes.
//!
//! Two choices, one after the other: [`fork_node`] among the nodes that the task may use, then
//! [`fork_llc`] among that node's LLCs. Both see *committed* tasks, those that run or wait plus the
//! newborns that are still asleep (R6 asleep-counts), so that a burst of helpers that sleep before
//! they exec does not pile up where the first one went. Neither keeps any state: the first placement
//! of a task depends on the counters and on nothing else (R5 fresh-start).
//!
//! [`fork_node`] has two ways to judge, see [`Judge`]: by the state that the placement would make,
//! with the same predicate as at run time (R3 one-limit), or as the kernel generations do. It is told
//! limits and knows none.
//!
//! A load is compared as the fraction (c + 1) / w that it would be *with* the new task. The + 1
//! matters where weights differ: of 3 tasks on 8 CPUs and 1 task on 3, c / w chooses the second,
//! which then is the fuller one. Fractions are compared by cross-multiplication in 64 bits, where
//! no count or weight of 32 bits can overflow.
//!
//! Arrays are subscripted by dense index, and a bit of `allowed` stands for the same index; places
//! beyond the 64th or beyond the end of an array are never chosen. src/bpf/rules.h is the same in C.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::limits::{UNLIMITED, Utilisation, spare, tolerated};

/// Places for which a mask has a bit.
const MASK_BITS: usize = u64::BITS as usize;

/// What [`fork_node`] looks at to keep a task local.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judge {
    /// The state *with* the task on the parent's node must be tolerated against every allowed node.
    After,
    /// As the kernel generations: the difference in spare CPUs to the idlest node *before* placing,
    /// and the parent's node's count with the task.
    Before,
}

/// The numbers of fork placement, compiled from flags and machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkLimits {
    pub judge: Judge,
    /// Largest imbalance that keeps a task local, in tasks; [`UNLIMITED`]: not looked at.
    pub max_imbalance: u32,
    /// Most tasks that a node may have, with the new one, for a task to stay there; by node.
    pub max_running: Vec<u32>,
    /// Whether the CPUs that the task may use on the node cap `max_running` (R2).
    pub cap_by_affinity: bool,
}

/// What is known of the nodes when a task is forked.
#[derive(Debug, Clone, Copy)]
pub struct ForkState<'a> {
    /// c: tasks counted to each node, sleeping newborns among them.
    pub committed: &'a [u32],
    /// w: online CPUs of each node; a node of weight 0 is never chosen.
    pub weight: &'a [u32],
    /// Average weight of the tasks that run on each node, 100 being nice 0; looked at only when no
    /// allowed node has spare.
    pub task_weight: &'a [u32],
    /// Bit n is set if the task may run on some CPU of node n.
    pub allowed: u64,
    /// The nodes to look at, the parent's first, then nearest first
    /// ([`Machine::nearest_first`](crate::machine::Machine::nearest_first)). On a tie the earlier one
    /// wins: local first, then the nearest. A node that is not in it is not chosen.
    pub order: &'a [u8],
    /// CPUs of the parent's node that the task may use.
    pub usable: u32,
}

/// Why a new task went where it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkWhy {
    /// No other node would carry less with it.
    Least,
    /// Another node would carry less, but the limit tolerates the task on its parent's (R1, R2).
    Tolerated,
    /// No allowed node has spare, and the parent's is not clearly busier than the least utilised.
    FullLocal,
    /// No allowed node has spare: the least utilised.
    Full,
}

/// Where a new task goes, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkChoice {
    pub node: u32,
    pub why: ForkWhy,
}

/// The node for a new task, or `None` if no node can be chosen.
pub fn fork_node(state: &ForkState<'_>, limits: &ForkLimits) -> Option<ForkChoice> {
    let local = state.order.first().map(|&n| usize::from(n));
    let here = local.and_then(|at| state.load(at));
    let mut least: Option<(u32, Load)> = None;
    let mut idlest: Option<(u32, Load)> = None;
    let mut coolest: Option<(u32, Utilisation)> = None;
    let mut stays = here.is_some();

    for &node in state.order {
        let at = usize::from(node);
        let Some(load) = state.load(at) else { continue };
        if least.is_none_or(|(_, best)| load.is_below(best)) {
            least = Some((node.into(), load));
        }
        if idlest.is_none_or(|(_, best)| load.spare() > best.spare()) {
            idlest = Some((node.into(), load));
        }
        let utilisation = state.utilisation(at, load);
        if coolest.is_none_or(|(_, best)| utilisation.is_below(best)) {
            coolest = Some((node.into(), utilisation));
        }
        if let (Judge::After, Some(here)) = (limits.judge, here)
            && local != Some(at)
        {
            let most = limits.running_at(local, state.usable);
            stays &= tolerated(
                here.tasks as u32,
                here.weight as u32,
                load.tasks as u32 - 1,
                load.weight as u32,
                most,
                limits.max_imbalance,
            );
        }
    }

    let (least, idlest, coolest) = (least?, idlest?, coolest?);
    if idlest.1.spare() == 0 {
        return Some(fork_full(state, here.zip(local), coolest));
    }
    let best = match limits.judge {
        Judge::After => least.0,
        Judge::Before => idlest.0,
    };
    if let (Judge::Before, Some(here)) = (limits.judge, here) {
        let imbalance = idlest.1.spare() - here.spare();
        stays = (limits.max_imbalance == UNLIMITED || imbalance <= u64::from(limits.max_imbalance))
            && here.tasks <= limits.running_at(local, state.usable).into();
    }
    Some(match local {
        Some(local) if stays && best as usize != local => ForkChoice {
            node: local as u32,
            why: ForkWhy::Tolerated,
        },
        _ => ForkChoice {
            node: best,
            why: ForkWhy::Least,
        },
    })
}

/// No allowed node has spare: the least utilised, local unless that is clearly busier.
fn fork_full(
    state: &ForkState<'_>,
    here: Option<(Load, usize)>,
    (coolest, least): (u32, Utilisation),
) -> ForkChoice {
    if let Some((load, local)) = here
        && !state.utilisation(local, load).is_clearly_above(least)
    {
        return ForkChoice {
            node: local as u32,
            why: ForkWhy::FullLocal,
        };
    }
    ForkChoice {
        node: coolest,
        why: ForkWhy::Full,
    }
}

impl ForkState<'_> {
    fn load(&self, at: usize) -> Option<Load> {
        load_with_one_more(self.committed, self.weight, self.allowed, at)
    }

    /// With the new task, which is taken as one of the node's average.
    fn utilisation(&self, at: usize, load: Load) -> Utilisation {
        let task_weight = self.task_weight.get(at).copied().unwrap_or(0);
        Utilisation::of(load.tasks, task_weight, load.weight as u32)
    }
}

impl ForkLimits {
    /// Most tasks on the parent's node, of whose CPUs the task may use `usable`.
    fn running_at(&self, local: Option<usize>, usable: u32) -> u32 {
        let most = local.and_then(|at| self.max_running.get(at)).copied();
        let most = most.unwrap_or(0);
        if self.cap_by_affinity {
            most.min(usable)
        } else {
            most
        }
    }
}

/// The nodes on which a woken task may take an idle CPU when its own has none, in the order in which to
/// look. None while its own has spare: then a CPU there is about to be free. src/bpf/wake.bpf.h has the same
/// in C (`idle_elsewhere`).
///
/// `spare_on`: CPUs that the committed tasks of a node leave free. `order`: the nodes nearest first, the
/// task's own first. `allowed`: bit n is set if the task may run on some CPU of node n.
pub fn spill_nodes<'a>(
    spare_on: impl Fn(usize) -> u32 + 'a,
    order: &'a [u8],
    allowed: u64,
) -> impl Iterator<Item = usize> + 'a {
    let (own, others) = order.split_first().map_or((None, order), |(own, others)| {
        (Some(usize::from(*own)), others)
    });
    let full = own.is_none_or(|own| spare_on(own) == 0);
    let others = if full { others } else { &[] };
    others
        .iter()
        .map(|&node| usize::from(node))
        .filter(move |&node| node < MASK_BITS && allowed >> node & 1 == 1 && spare_on(node) > 0)
}

/// The LLC for a new task inside the node that was chosen for it: that with most spare; when none
/// has spare, that with the smallest (c + 1) / w.
///
/// Subscripts, bits and the result are relative to the node's first LLC.
///
/// - `committed[l]`: c, tasks counted to LLC l, sleeping newborns among them.
/// - `weight[l]`: w, online CPUs of LLC l; an LLC of weight 0 is never chosen.
/// - `allowed`: bit l is set if the task may run on some CPU of LLC l.
/// - `first`: the LLC that wins a tie (the parent's, when the node is the parent's); among others
///   the lowest wins. Any value that is no LLC of the node means none is preferred.
///
/// `None` if no LLC can be chosen.
pub fn fork_llc(committed: &[u32], weight: &[u32], allowed: u64, first: usize) -> Option<u32> {
    let llcs = weight.len().min(MASK_BITS);
    let preferred = Some(first).filter(|&first| first < llcs);
    let mut best: Option<(usize, Load)> = None;
    for llc in preferred.into_iter().chain(0..llcs) {
        let Some(load) = load_with_one_more(committed, weight, allowed, llc) else {
            continue;
        };
        if best.is_none_or(|(_, least)| load.is_roomier(least)) {
            best = Some((llc, load));
        }
    }
    best.map(|(llc, _)| llc as u32)
}

/// What a place would carry with the new task: `tasks` on `weight` CPUs, `weight` not 0.
#[derive(Debug, Clone, Copy)]
struct Load {
    tasks: u64,
    weight: u64,
}

impl Load {
    /// tasks / weight is smaller than the other's.
    fn is_below(self, other: Load) -> bool {
        self.tasks * other.weight < other.tasks * self.weight
    }

    /// CPUs that are free before the new task is placed.
    fn spare(self) -> u64 {
        spare(self.weight as u32, self.tasks as u32 - 1).into()
    }

    /// More spare than the other, or, both having none, a smaller fraction.
    fn is_roomier(self, other: Load) -> bool {
        match self.spare().cmp(&other.spare()) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => self.spare() == 0 && self.is_below(other),
        }
    }
}

/// `None` if the place does not exist, is not allowed or has no CPU.
fn load_with_one_more(committed: &[u32], weight: &[u32], allowed: u64, at: usize) -> Option<Load> {
    if at >= MASK_BITS || allowed >> at & 1 == 0 {
        return None;
    }
    let weight = u64::from(*weight.get(at)?);
    // At most u32::MAX with the new one, so that it stays a count.
    let tasks = u64::from(committed.get(at)?.saturating_add(1));
    (weight > 0).then_some(Load { tasks, weight })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wakeup_leaves_its_node_only_when_that_is_full() {
        let spare = [0, 2, 0, 1];
        let on = |node: usize| spare[node];
        let nodes = |order: &[u8], allowed| spill_nodes(on, order, allowed).collect::<Vec<_>>();
        assert_eq!(nodes(&[0, 1, 2, 3], u64::MAX), [1, 3]);
        assert_eq!(nodes(&[0, 3, 2, 1], 0b0011), [1]);
        assert_eq!(nodes(&[1, 0, 2, 3], u64::MAX), [0; 0]);
    }
}
