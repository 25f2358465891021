// SPDX-License-Identifier: GPL-2.0-only
//! Moves and swaps of a tick (R8 preferred-node, R4 no-spare-swap).
//!
//! A task that is off the nodes where it belongs goes there if the state after it is tolerated; the node
//! where it wins most comes first. If there is no place on any of them it changes places with a
//! task there (`swap`), or else goes where it is at least nearer to its memory. This is
//! `task_numa_migrate` of the kernel, in spirit. Every task that stays has a reason.
//!
//! Those that win most come first, of equal ones those of the same unit follow each other, so that a
//! group comes together before the next one begins.
//!
//! Invariants: a decision depends on its arguments alone. A move makes no state that the limits do not
//! tolerate, a swap changes no count. Each makes the sum of the tasks' scores larger by [`MIN_GAIN`] at
//! least, and a score is at most 1000: with constant evidence there are at most 1000 / [`MIN_GAIN`] of them
//! per task. A task is moved once in a tick, and not again while it rests. After construction a tick takes
//! no memory, as long as there are not more tasks than were foreseen.

use super::room::{Refused, Room};
use super::swap::{Context, Nobody, Partner, Wish, best_partner};
use super::view::{Stay, Step, Steps, View, Why};
use super::want::{Want, want_of};
use crate::policy::balance::{Move, move_budget};
use crate::policy::compile::Limits;
use crate::policy::observation::{Observation, Shape};

pub use super::swap::MIN_BUSY;
pub use super::want::MIN_GAIN;

/// Searches for somebody to swap with per tick: each looks at all tasks of a node.
const MAX_SEARCHES: u32 = 64;

/// A node where it would win enough.
#[derive(Debug, Clone, Copy)]
struct Target {
    to: usize,
    gain: i32,
    /// It belongs there; otherwise it is only nearer.
    is_home: bool,
}

/// The working memory of the decisions.
#[derive(Debug)]
pub struct Decider {
    room: Room,
    budget: u32,
    /// Tasks that could be swapped, sorted by node; `node_end[n]` is where node n's end.
    by_node: Vec<u32>,
    node_end: Vec<u32>,
    /// By subscript of the observation's tasks: moved in this tick.
    taken: Vec<bool>,
    wants: Vec<Want>,
    targets: Vec<Target>,
}

/// What is left of this tick's budget.
#[derive(Debug)]
struct Left {
    moves: u32,
    searches: u32,
}

impl Decider {
    /// For up to `tasks` tasks on the places of `shape`.
    pub fn new(shape: Shape, tasks: usize) -> Self {
        let nodes = shape.nodes();
        let cpus: u32 = shape.weight.iter().sum();
        Self {
            budget: move_budget(cpus),
            room: Room::new(shape),
            by_node: Vec::with_capacity(tasks),
            node_end: vec![0; nodes],
            taken: Vec::with_capacity(tasks),
            wants: Vec::with_capacity(tasks),
            targets: Vec::with_capacity(nodes),
        }
    }

    /// Nodes of the machine that it is for.
    pub fn nodes(&self) -> usize {
        self.room.shape().nodes()
    }

    /// Moves per tick, the balancer's counted.
    pub fn budget(&self) -> u32 {
        self.budget
    }

    /// Decide, after the balancer has decided `already`; `out` is overwritten.
    pub fn decide(
        &mut self,
        obs: &Observation,
        view: &View,
        limits: &Limits,
        already: &[Move],
        out: &mut Steps,
    ) {
        out.steps.clear();
        out.stays.clear();
        let on = Context { obs, view, limits };
        self.begin(&on, already);
        self.find_wants(&on, out);
        let mut left = Left {
            moves: self.budget.saturating_sub(already.len() as u32),
            searches: MAX_SEARCHES,
        };
        for at in 0..self.wants.len() {
            let want = self.wants[at];
            // Moved meanwhile, for another one's sake.
            if self.taken[want.task as usize] {
                continue;
            }
            if let Err(stay) = self.settle(&on, &want, &mut left, out) {
                out.stays.push((want.task, stay));
            }
        }
        // Some were content and have gone all the same, for another one's sake or the balance's.
        let taken = &self.taken;
        out.stays.retain(|&(task, _)| !taken[task as usize]);
    }

    fn node_of(&self, on: &Context<'_>, task: u32) -> Option<usize> {
        let llc = on.obs.tasks[task as usize].llc;
        let node = self.room.shape().llc_node.get(usize::from(llc));
        node.map(|&node| usize::from(node))
    }

    fn begin(&mut self, on: &Context<'_>, already: &[Move]) {
        let tasks = &on.obs.tasks;
        self.room.begin(on.obs);
        self.taken.clear();
        self.taken.resize(tasks.len(), false);
        for decided in already {
            if let Ok(at) = tasks.binary_search_by_key(&decided.slot, |task| task.slot) {
                self.taken[at] = true;
                self.room.already(&tasks[at], decided);
            }
        }
        self.sort_by_node(on);
    }

    /// Those that could be swapped, by node, in two passes.
    fn sort_by_node(&mut self, on: &Context<'_>) {
        let tasks = 0..on.obs.tasks.len() as u32;
        let node_of = |of: &Self, i: u32| match on.may_be_swapped(i) {
            true => of.node_of(on, i),
            false => None,
        };
        self.node_end.fill(0);
        for i in tasks.clone() {
            if let Some(node) = node_of(self, i) {
                self.node_end[node] += 1;
            }
        }
        let mut start = 0;
        for end in &mut self.node_end {
            start += std::mem::replace(end, start);
        }
        self.by_node.clear();
        self.by_node.resize(start as usize, 0);
        for i in tasks {
            if let Some(node) = node_of(self, i) {
                let end = &mut self.node_end[node];
                self.by_node[*end as usize] = i;
                *end += 1;
            }
        }
    }

    fn find_wants(&mut self, on: &Context<'_>, out: &mut Steps) {
        self.wants.clear();
        for task in 0..on.obs.tasks.len() as u32 {
            let from = self.node_of(on, task).ok_or(Stay::Unknown);
            let taken = self.taken[task as usize];
            let nodes = self.room.shape().nodes();
            match from.and_then(|from| want_of(on, task, from, (nodes, taken))) {
                Ok(want) => self.wants.push(want),
                Err(stay) => out.stays.push((task, stay)),
            }
        }
        self.wants
            .sort_unstable_by_key(|want| (std::cmp::Reverse(want.gain), want.unit, want.task));
    }

    /// Move it, swap it, or say why not.
    fn settle(
        &mut self,
        on: &Context<'_>,
        want: &Want,
        left: &mut Left,
        out: &mut Steps,
    ) -> Result<(), Stay> {
        if left.moves == 0 {
            return Err(Stay::Budget);
        }
        self.find_targets(on, want);
        if self.targets.is_empty() {
            return Err(Stay::Held);
        }
        let homes = self
            .targets
            .iter()
            .take_while(|target| target.is_home)
            .count();
        let refused = match self.try_to_move(on, want, 0..homes, out) {
            Ok(()) => {
                left.moves -= 1;
                return Ok(());
            }
            Err(refused) => refused,
        };
        let nobody = match self.try_to_swap(on, want, homes, left, out) {
            Ok(()) => return Ok(()),
            Err(nobody) => nobody,
        };
        if self
            .try_to_move(on, want, homes..self.targets.len(), out)
            .is_ok()
        {
            left.moves -= 1;
            return Ok(());
        }
        Err(match (nobody, refused) {
            (Some(stay), _) => stay,
            (None, Some(Refused::Full)) => Stay::Full,
            (None, Some(Refused::Imbalance)) => Stay::Imbalance,
            (None, None) => Stay::Held,
        })
    }

    /// Where it would win enough: where it belongs first, then by what it wins, the nearest on a tie.
    fn find_targets(&mut self, on: &Context<'_>, want: &Want) {
        let (task, view) = on.task(want.task);
        let from = want.from;
        self.targets.clear();
        for &to in &self.room.shape().order[usize::from(from)] {
            let gain = on.view.gain(&view, from.into(), to.into()).unwrap_or(0);
            let is_held = on.obs.held.contains(&(from, to));
            if task.nodes >> to & 1 == 1 && gain >= MIN_GAIN && !is_held {
                self.targets.push(Target {
                    to: to.into(),
                    gain,
                    is_home: view.nodes >> to & 1 == 1,
                });
            }
        }
        // In place, so that the order of equal ones stays: there are 64 at most.
        for end in 1..self.targets.len() {
            let key = |target: &Target| (target.is_home, target.gain);
            let mut at = end;
            while at > 0 && key(&self.targets[at - 1]) < key(&self.targets[at]) {
                self.targets.swap(at - 1, at);
                at -= 1;
            }
        }
    }

    /// To the first of these targets that has a place. The reason is the first one's.
    fn try_to_move(
        &mut self,
        on: &Context<'_>,
        want: &Want,
        targets: std::ops::Range<usize>,
        out: &mut Steps,
    ) -> Result<(), Option<Refused>> {
        let from = usize::from(want.from);
        let mut reason = None;
        for at in targets {
            let target = self.targets[at];
            match self.room.move_is_tolerated(from, target.to, on.limits) {
                Ok(()) => {
                    let task = &on.obs.tasks[want.task as usize];
                    let llc = self.room.carry_out(task, from, target.to);
                    let why = if target.is_home {
                        Why::Preferred
                    } else {
                        Why::Nearer
                    };
                    self.step(
                        on,
                        want.task,
                        (from, target.to),
                        llc,
                        (why, target.gain),
                        out,
                    );
                    return Ok(());
                }
                Err(refused) => reason = reason.or(Some(refused)),
            }
        }
        Err(reason)
    }

    /// With the best partner on the first of the nodes where it belongs that has one.
    fn try_to_swap(
        &mut self,
        on: &Context<'_>,
        want: &Want,
        homes: usize,
        left: &mut Left,
        out: &mut Steps,
    ) -> Result<(), Option<Stay>> {
        let mut stay = None;
        for at in 0..homes {
            if left.moves < 2 || left.searches == 0 {
                return Err(Some(Stay::Budget));
            }
            left.searches -= 1;
            let target = self.targets[at];
            let wish = Wish {
                task: want.task,
                from: want.from.into(),
                to: target.to,
                gain: target.gain,
            };
            match best_partner(on, &self.room, &wish, self.there(target.to)) {
                Ok(partner) => {
                    self.swap(on, &wish, partner, out);
                    left.moves -= 2;
                    return Ok(());
                }
                Err(Nobody::NoSpareSwap) => stay = Some(Stay::NoSpareSwap),
                Err(Nobody::Loss) => {}
            }
        }
        Err(stay)
    }

    /// Those of a node that could be swapped and were not moved.
    fn there(&self, node: usize) -> impl Iterator<Item = u32> + '_ {
        let start = match node {
            0 => 0,
            _ => self.node_end[node - 1],
        };
        let tasks = &self.by_node[start as usize..self.node_end[node] as usize];
        tasks.iter().copied().filter(|&i| !self.taken[i as usize])
    }

    fn swap(&mut self, on: &Context<'_>, wish: &Wish, partner: Partner, out: &mut Steps) {
        let (goes, comes) = (on.task(wish.task).0, on.task(partner.task).0);
        let (from, to) = (wish.from, wish.to);
        self.room.carry_out_swap(goes, comes, from, to);
        self.step(
            on,
            wish.task,
            (from, to),
            comes.llc,
            (Why::Swap, wish.gain),
            out,
        );
        let why = (Why::SwappedFor, partner.gain);
        self.step(on, partner.task, (to, from), goes.llc, why, out);
    }

    fn step(
        &mut self,
        on: &Context<'_>,
        i: u32,
        (from, to): (usize, usize),
        llc: u16,
        (why, gain): (Why, i32),
        out: &mut Steps,
    ) {
        let task = &on.obs.tasks[i as usize];
        self.taken[i as usize] = true;
        out.steps.push(Step {
            slot: task.slot,
            seq: task.seq,
            pid: task.pid,
            from: from as u8,
            to: to as u8,
            llc,
            why,
            gain,
        });
    }
}
