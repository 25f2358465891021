// SPDX-License-Identifier: GPL-2.0-only
//! What earlier moves came to, and backing off where they did not last.
//!
//! A move has lasted when its task is still on the node it was moved to a while later, or is gone.
//! It has not when something brought the task elsewhere (an idle CPU pulled it, its user confined
//! it), or when the balancer itself wants to move tasks the other way. Then nothing is moved between
//! these two nodes for a time that doubles with every such move, from 2 ticks to 64; moves that last
//! shorten it again.
//!
//! Time is counted in ticks, so a replay needs no clock. The result goes into the observation
//! (`held`), so that the record of a tick contains all that it was decided by.

use std::collections::VecDeque;

use super::balance::Decisions;
use super::locality::view::Step;
use super::observation::{Observation, Shape};

/// After so many ticks a move is judged to have lasted.
const REVIEW_TICKS: u64 = 10;
/// Moves that are remembered; older ones are forgotten first.
const REMEMBERED: usize = 1024;
/// The hold is 2^strikes ticks, for at most so many strikes.
const MAX_STRIKES: u8 = 6;

/// A move that was asked for.
#[derive(Debug, Clone, Copy)]
struct Past {
    tick: u64,
    slot: u32,
    seq: u32,
    from: u8,
    to: u8,
    /// It was seen where it was moved to.
    arrived: bool,
}

/// Two nodes, in either direction.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    strikes: u8,
    held_until: u64,
}

/// See the module.
#[derive(Debug)]
pub struct History {
    nodes: usize,
    llc_node: Vec<u8>,
    tick: u64,
    past: VecDeque<Past>,
    /// By the lower node times the number of nodes plus the higher.
    pairs: Vec<Pair>,
}

impl History {
    pub fn new(shape: &Shape) -> Self {
        let nodes = shape.nodes();
        Self {
            nodes,
            llc_node: shape.llc_node.clone(),
            tick: 0,
            past: VecDeque::with_capacity(REMEMBERED),
            pairs: vec![Pair::default(); nodes * nodes],
        }
    }

    fn pair(&mut self, a: u8, b: u8) -> &mut Pair {
        let (low, high) = (usize::from(a.min(b)), usize::from(a.max(b)));
        &mut self.pairs[low * self.nodes + high]
    }

    fn strike(&mut self, a: u8, b: u8) {
        let tick = self.tick;
        let pair = self.pair(a, b);
        pair.strikes = (pair.strikes + 1).min(MAX_STRIKES);
        pair.held_until = tick + (1 << pair.strikes);
    }

    fn lasted(&mut self, a: u8, b: u8) {
        let pair = self.pair(a, b);
        pair.strikes = pair.strikes.saturating_sub(1);
    }

    /// A new tick: judge what was moved before, and write down between which nodes nothing moves.
    pub fn review(&mut self, obs: &mut Observation) {
        self.tick += 1;
        for _ in 0..self.past.len() {
            let Some(mut past) = self.past.pop_front() else {
                break;
            };
            let node = self.node_of(obs, &past);
            past.arrived |= node == Some(past.to);
            match node {
                // Never carried out: no judgement. A task that waits in a long queue is seen late, when
                // it has run again; its wish was withdrawn long before.
                Some(node) if node == past.from && !past.arrived => {}
                Some(node) if node != past.to => self.strike(past.from, past.to),
                _ if self.tick >= past.tick + REVIEW_TICKS => self.lasted(past.from, past.to),
                _ => self.past.push_back(past),
            }
        }
        obs.held.clear();
        for a in 0..self.nodes as u8 {
            for b in 0..self.nodes as u8 {
                if a != b && self.pair(a, b).held_until > self.tick {
                    obs.held.push((a, b));
                }
            }
        }
    }

    /// Where the task is now; `None` if it did not run lately or is gone.
    fn node_of(&self, obs: &Observation, past: &Past) -> Option<u8> {
        let at = obs.tasks.binary_search_by_key(&past.slot, |task| task.slot);
        let task = obs.tasks.get(at.ok()?)?;
        let node = self.llc_node.get(usize::from(task.llc))?;
        (task.seq == past.seq).then_some(*node)
    }

    /// Remember what this tick decided.
    pub fn remember(&mut self, decisions: &Decisions) {
        for decided in &decisions.moves {
            let back = self.past.iter().any(|past| {
                past.from == decided.to && past.to == decided.from && past.tick < self.tick
            });
            if back && self.pair(decided.from, decided.to).held_until <= self.tick {
                self.strike(decided.from, decided.to);
            }
            self.push(decided.slot, decided.seq, (decided.from, decided.to));
        }
    }

    /// Remember what was moved for its memory. Tasks that cross in a swap, or go where others came
    /// from, are no sign that an earlier move was wrong.
    pub fn remember_steps(&mut self, steps: &[Step]) {
        for step in steps {
            self.push(step.slot, step.seq, (step.from, step.to));
        }
    }

    fn push(&mut self, slot: u32, seq: u32, (from, to): (u8, u8)) {
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(Past {
            tick: self.tick,
            slot,
            seq,
            from,
            to,
            arrived: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::balance::{Move, MoveWhy};
    use crate::policy::observation::TaskObs;

    fn shape() -> Shape {
        Shape {
            order: vec![vec![0, 1], vec![1, 0]],
            weight: vec![4, 4],
            first_llc: vec![0, 1],
            llc_weight: vec![4, 4],
            llc_node: vec![0, 1],
        }
    }

    /// Is the pair held after one task was moved from node 0 to 1 and seen on these nodes in the ticks
    /// that follow? `None`: it did not run.
    fn held_after(seen: &[Option<u16>]) -> bool {
        let mut history = History::new(&shape());
        let mut obs = Observation::for_shape(&shape(), 1);
        history.review(&mut obs);
        history.remember(&Decisions {
            moves: vec![Move {
                slot: 3,
                seq: 2,
                pid: 9,
                from: 0,
                to: 1,
                llc: 1,
                why: MoveWhy::Excess,
            }],
            verdicts: Vec::new(),
        });
        for llc in seen {
            obs.tasks.clear();
            obs.tasks.extend(llc.map(|llc| TaskObs {
                slot: 3,
                seq: 2,
                pid: 9,
                tgid: 9,
                llc,
                busy: 500,
                weight: 100,
                nodes: 3,
                moved_ms: 100,
            }));
            history.review(&mut obs);
        }
        !obs.held.is_empty()
    }

    #[test]
    fn a_move_that_was_taken_back_holds_the_pair() {
        assert!(held_after(&[Some(1), Some(0)]));
        assert!(held_after(&[None, Some(1), None, Some(0)]));
        assert!(!held_after(&[Some(1), Some(1)]));
    }

    /// It waited all the time, and its wish was withdrawn.
    #[test]
    fn a_move_that_was_never_carried_out_is_not_judged() {
        assert!(!held_after(&[Some(0)]));
        assert!(!held_after(&[None, Some(0)]));
        assert!(!held_after(&[None, None, Some(0), Some(0)]));
    }
}
