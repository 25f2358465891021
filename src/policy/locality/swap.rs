// SPDX-License-Identifier: GPL-2.0-only
//! With whom a task changes places when there is none for it on its node (R4, R8).
//!
//! The other one has to be known: of a task whose memory is unknown it cannot be said that it loses
//! less. Together the two have to win by a margin. Discouraged are tasks of the same group and those that
//! are where they belong, by a sixteenth each; encouraged, by an eighth, are those that come to where
//! they belong. Only the choice between several is affected by the encouragement, so that every swap is
//! worth its margin by itself and the sum of all scores grows.
//!
//! R4 has no exception: two tasks of the same group, or two without a group, are not swapped while there
//! is spare, on either of the two nodes: which one is the destination depends on whose turn it is.

use super::evidence::Standing;
use super::room::Room;
use super::view::{TaskView, View};
use crate::policy::candidates::REST_MS;
use crate::policy::compile::Limits;
use crate::policy::observation::{Observation, TaskObs};

/// Two tasks have to win this much together, in permille of a task's memory: two moves for it.
pub const SWAP_MARGIN: i32 = 100;
/// Neither of two tasks runs so many times as much as the other: otherwise one of the nodes gets a load and gives
/// none, which is a move, and was refused as such (R3). Tasks that share CPUs with as many others run half of the time.
const SWAP_UNLIKE: u32 = 2;
/// A task that runs less, in thousandths of a CPU, is no load: nothing is won by moving it (R10).
pub const MIN_BUSY: u16 = 50;

/// All that is decided by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub obs: &'a Observation,
    pub view: &'a View,
    pub limits: &'a Limits,
}

impl<'a> Context<'a> {
    pub fn task(&self, i: u32) -> (&'a TaskObs, TaskView) {
        let view = self.view.tasks.get(i as usize).copied();
        (&self.obs.tasks[i as usize], view.unwrap_or_default())
    }

    /// Could this task be moved for another one's sake?
    pub fn may_be_swapped(&self, i: u32) -> bool {
        let (task, view) = self.task(i);
        view.standing == Standing::Known && task.busy >= MIN_BUSY && task.moved_ms >= REST_MS
    }
}

/// A task that wants to go and cannot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub task: u32,
    pub from: usize,
    pub to: usize,
    pub gain: i32,
}

/// With whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Partner {
    pub task: u32,
    /// What it wins itself; mostly negative.
    pub gain: i32,
}

/// Nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nobody {
    /// Nobody loses little enough.
    Loss,
    /// Somebody would, but R4 forbids it.
    NoSpareSwap,
}

/// The best of `there`, the tasks of the destination that were not moved in this tick.
pub(super) fn best_partner(
    on: &Context<'_>,
    room: &Room,
    wish: &Wish,
    there: impl Iterator<Item = u32>,
) -> Result<Partner, Nobody> {
    let mut best: Option<(i32, Partner)> = None;
    let mut forbidden = false;
    for other in there {
        let Some((worth, partner)) = weigh(on, room, wish, other) else {
            continue;
        };
        if best.is_some_and(|(most, _)| worth <= most) {
            continue;
        }
        if is_forbidden(on, room, wish, other) {
            forbidden = true;
            continue;
        }
        best = Some((worth, partner));
    }
    match best {
        Some((_, partner)) => Ok(partner),
        None if forbidden => Err(Nobody::NoSpareSwap),
        None => Err(Nobody::Loss),
    }
}

/// R4.
fn is_forbidden(on: &Context<'_>, room: &Room, wish: &Wish, other: u32) -> bool {
    let group = |i: u32| on.view.group_of(&on.task(i).1);
    on.limits.no_spare_swap
        && group(wish.task) == group(other)
        && (room.has_spare(wish.to) || room.has_spare(wish.from))
}

/// Do two tasks make the same load, more or less?
fn are_alike(a: u16, b: u16) -> bool {
    u32::from(a.max(b)) <= SWAP_UNLIKE * u32::from(a.min(b))
}

/// What the swap is worth, for the choice between several; `None` if it is not to be done.
fn weigh(on: &Context<'_>, room: &Room, wish: &Wish, other: u32) -> Option<(i32, Partner)> {
    let ((goes, goes_view), (comes, view)) = (on.task(wish.task), on.task(other));
    if other == wish.task || !on.may_be_swapped(other) || comes.nodes >> wish.from & 1 == 0 {
        return None;
    }
    if !are_alike(goes.busy, comes.busy) {
        return None;
    }
    let gain = on.view.gain(&view, wish.to, wish.from)?;
    let is_home = |node: usize| view.nodes >> node & 1 == 1;
    let (mine, others) = (on.view.group_of(&goes_view), on.view.group_of(&view));
    let both = wish.gain + gain;
    let mut worth = both;
    if mine.is_some() && mine == others {
        worth -= both / 16;
    }
    if is_home(wish.to) {
        worth -= both / 16;
    }
    if worth < SWAP_MARGIN || !room.swap_is_tolerated(goes, comes, wish.from, wish.to) {
        return None;
    }
    if is_home(wish.from) {
        worth += both / 8;
    }
    Some((worth, Partner { task: other, gain }))
}
