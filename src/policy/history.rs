// SPDX-License-Identifier: GPL-2.0-only
//! What earlier moves came to, and backing off where they did not last.
//!
//! A move has lasted when its task is still on the node it was moved to a while later, or is gone.
//! It has not when something brought the task elsewhere (an idle CPU pulled it, its user confined
//! it), or when the balancer itself wants to move tasks the other way. Then nothing is moved between
//! these two nodes for a time that doubles with every such move, from 2 ticks to 64; moves that last
//! shorten it again.
//!
//! How long an excess has lasted is counted here as well: short ones do not move tasks away from their memory.
//!
//! Time is counted in ticks, so a replay needs no clock. The results go into the observation
//! (`held`, `lasting`), so that the record of a tick contains all that it was decided by.

use std::collections::VecDeque;

use super::balance::{Decisions, Outcome};
use super::locality::view::Step;
use super::observation::{Observation, Shape};

/// After so many ticks a move is judged to have lasted.
const REVIEW_TICKS: u64 = 10;
/// Moves that are remembered; older ones are forgotten first.
const REMEMBERED: usize = 1024;
/// The hold is 2^strikes ticks, for at most so many strikes.
const MAX_STRIKES: u8 = 6;
/// An excess has lasted after so many ticks: 5 s of 100 ms, which is what tasks have to stay until memory follows them
/// ([`MOST_SETTLING_MS`](super::locality::follow::MOST_SETTLING_MS)), so that moving them is no worse than having them stay.
const LASTING_TICKS: u64 = 50;
/// ... and after so many when tasks wait on the fuller node: they cannot all be where their memory is.
const LASTING_WAIT_TICKS: u64 = 10;

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

/// An excess of one node over another: the first and the last of the ticks in a row that had it; 0: none.
#[derive(Debug, Clone, Copy, Default)]
struct Excess {
    since: u64,
    last: u64,
    /// The fuller node had more tasks than CPUs, the last time.
    waits: bool,
}

impl Excess {
    fn has_lasted(self, tick: u64) -> bool {
        let ticks = match self.waits {
            true => LASTING_WAIT_TICKS,
            false => LASTING_TICKS,
        };
        self.last > 0 && self.last + 1 == tick && tick >= self.since + ticks
    }
}

/// See the module.
#[derive(Debug)]
pub struct History {
    nodes: usize,
    /// CPUs of each node.
    weight: Vec<u32>,
    llc_node: Vec<u8>,
    tick: u64,
    past: VecDeque<Past>,
    /// By the lower node times the number of nodes plus the higher.
    pairs: Vec<Pair>,
    /// By the fuller node times the number of nodes plus the other.
    excesses: Vec<Excess>,
}

impl History {
    pub fn new(shape: &Shape) -> Self {
        let nodes = shape.nodes();
        Self {
            nodes,
            weight: shape.weight.clone(),
            llc_node: shape.llc_node.clone(),
            tick: 0,
            past: VecDeque::with_capacity(REMEMBERED),
            pairs: vec![Pair::default(); nodes * nodes],
            excesses: vec![Excess::default(); nodes * nodes],
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
        obs.lasting.clear();
        for a in 0..self.nodes as u8 {
            for b in 0..self.nodes as u8 {
                if a != b && self.pair(a, b).held_until > self.tick {
                    obs.held.push((a, b));
                }
                let excess = self.excesses[usize::from(a) * self.nodes + usize::from(b)];
                if excess.has_lasted(self.tick) {
                    obs.lasting.push((a, b));
                }
            }
        }
    }

    /// Where the average is beyond the limit there is an excess, also if it is over for a moment.
    fn count_excess(&mut self, decisions: &Decisions) {
        let tick = self.tick;
        let verdicts = decisions.verdicts.iter();
        for pair in verdicts.filter(|pair| pair.outcome != Outcome::Tolerated) {
            let at = usize::from(pair.from) * self.nodes + usize::from(pair.to);
            let excess = &mut self.excesses[at];
            if excess.last == 0 || excess.last + 1 < tick {
                excess.since = tick;
            }
            excess.last = tick;
            excess.waits = pair.tasks.0 > self.weight[usize::from(pair.from)];
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
        self.count_excess(decisions);
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
    use crate::policy::balance::{Move, MoveWhy, Verdict};
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

    fn excess(outcome: Outcome, tasks: u32) -> Decisions {
        let verdict = Verdict {
            from: 1,
            to: 0,
            excess: 3,
            excess_now: 3,
            tasks: (tasks, 1),
            outcome,
        };
        Decisions {
            moves: Vec::new(),
            verdicts: vec![verdict],
        }
    }

    /// Ticks with these outcomes and so many tasks on the fuller node, and whether the excess has lasted at each.
    fn lasting(outcomes: &[Option<Outcome>], tasks: u32) -> Vec<bool> {
        let mut history = History::new(&shape());
        let mut obs = Observation::for_shape(&shape(), 0);
        let mut one = |outcome: &Option<Outcome>| {
            history.review(&mut obs);
            if let Some(outcome) = outcome {
                history.remember(&excess(*outcome, tasks));
            }
            assert!(obs.lasting.iter().all(|&pair| pair == (1, 0)));
            !obs.lasting.is_empty()
        };
        outcomes.iter().map(&mut one).collect()
    }

    #[test]
    fn an_excess_lasts_after_fifty_ticks_in_a_row() {
        let ticks = LASTING_TICKS as usize;
        let nobody = Some(Outcome::NoTask);
        let found = lasting(&vec![nobody; ticks + 3], 4);
        assert_eq!(found.iter().filter(|lasts| **lasts).count(), 3);
        assert!(!found[ticks - 1] && found[ticks]);
        // For a moment it is over, or somebody else has moved.
        for other in [Outcome::Over, Outcome::Moved(1), Outcome::Held] {
            let mut outcomes = vec![nobody; ticks + 1];
            outcomes[7] = Some(other);
            assert!(lasting(&outcomes, 4)[ticks], "{other:?}");
        }
        // On average it was tolerated, or there was nothing to decide by: it begins anew.
        for other in [None, Some(Outcome::Tolerated)] {
            let mut outcomes = vec![nobody; ticks + 9];
            outcomes[7] = other;
            let found = lasting(&outcomes, 4);
            assert!(!found[ticks + 7] && found[ticks + 8], "{other:?}");
        }
    }

    /// 4 CPUs.
    #[test]
    fn an_excess_with_tasks_that_wait_lasts_sooner() {
        let ticks = LASTING_WAIT_TICKS as usize;
        let found = lasting(&vec![Some(Outcome::NoTask); ticks + 1], 5);
        assert!(!found[ticks - 1] && found[ticks]);
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
