// SPDX-License-Identifier: GPL-2.0-only
//! Run-time balancing: how many tasks move from which node to which, and which tasks.
//!
//! While some pair of nodes is not left alone, the pair with the largest excess, the nearest on a
//! tie, gives half of its excess (R3 one-limit: the whole excess is compared, and halved only when
//! it becomes a number of tasks). Where tasks wait on the one node and the other has no spare either,
//! the two are compared by weighted utilisation instead, and what moves is no more than what waits.
//! The tasks are chosen by [`candidates`](super::candidates).
//!
//! A pair has to be out of balance by the average over the interval *and* now: the average alone
//! still contains what the last tick has moved away, the moment alone is noise.
//!
//! Invariants: a decision depends on its arguments alone. No move makes the opposite excess. Nothing
//! is moved in both directions between two nodes in a tick, so nothing is ever swapped (R4). After
//! construction a tick takes no memory, as long as there are not more tasks than were foreseen.

use serde::{Deserialize, Serialize};

use super::candidates::Candidates;
use super::compile::{NodeLoad, PairLimits};
use super::limits::{Utilisation, excess};
use super::locality::view::View;
use super::observation::{NodeObs, Observation, Shape};
use super::placement::fork_llc;
use super::queue::PairQueue;

/// A task that shall move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    pub slot: u32,
    pub seq: u32,
    pub pid: i32,
    /// Dense nodes.
    pub from: u8,
    pub to: u8,
    /// Dense LLC of the new home.
    pub llc: u16,
    pub why: MoveWhy,
}

/// The rule behind a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveWhy {
    /// The excess is beyond the limit (R1 to R3).
    Excess,
    /// Neither node has spare, and weighted utilisation differs clearly.
    Utilisation,
}

/// What became of a pair of nodes that differ by 2 tasks or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// So many tasks move.
    Moved(u32),
    /// Left alone: the limit tolerates it (R1, R2).
    Tolerated,
    /// Left alone: it is over already, by what is counted now.
    Over,
    /// Left alone: earlier moves between the two did not last.
    Held,
    /// Left alone: no task that makes the load may move there (affinity, moved lately; R10).
    NoTask,
    /// Left for the next tick: this one's budget is spent.
    Budget,
}

/// A pair that was looked at, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The fuller node, and the other; dense.
    pub from: u8,
    pub to: u8,
    /// Excess over the interval and now, in tasks.
    pub excess: u64,
    pub excess_now: u64,
    /// Committed tasks over the interval.
    pub tasks: (u32, u32),
    pub outcome: Outcome,
}

/// What a tick has decided. Reused from tick to tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    pub moves: Vec<Move>,
    pub verdicts: Vec<Verdict>,
}

/// Moves per tick: at least this, and one for so many CPUs of the machine.
const MIN_BUDGET: u32 = 4;
const CPUS_PER_MOVE: u32 = 8;

/// How many tasks may move in one tick of a machine with `cpus` CPUs, whatever the reason: the balancer
/// and locality share it.
pub fn move_budget(cpus: u32) -> u32 {
    (cpus / CPUS_PER_MOVE).max(MIN_BUDGET)
}

/// The working memory of the balancer.
#[derive(Debug)]
pub struct Balancer {
    shape: Shape,
    budget: u32,
    /// Committed tasks over the interval and now, with this tick's moves carried out.
    average: Vec<u32>,
    now: Vec<u32>,
    llcs: Vec<u32>,
    /// By node: what its tasks weigh together over the interval, the same way.
    demand: Vec<u64>,
    /// By pair: nothing is moved between the two for now.
    held: Vec<bool>,
    queue: PairQueue,
    candidates: Candidates,
}

/// A pair that is out of balance.
#[derive(Debug, Clone, Copy)]
struct Gap {
    from: usize,
    to: usize,
    /// What may be moved at most.
    amount: Amount,
}

/// How much moves, without making the opposite excess.
#[derive(Debug, Clone, Copy)]
pub(super) enum Amount {
    /// So many tasks.
    Tasks(u32),
    /// Tasks of so much weight together, and at most so many.
    Weight(u64, u32),
}

/// Whether there is nothing that tasks would have to be looked at for: no node is full, and no two
/// differ by 2 tasks or more, over the interval or now. Nothing moves then under any rule set.
pub fn is_calm(obs: &Observation, shape: &Shape) -> bool {
    let count = |node: &NodeObs| node.committed_avg().max(node.committed_now());
    let full = |(node, weight): (&NodeObs, &u32)| count(node) >= *weight;
    let excess_of = |a: usize, b: usize, tasks: fn(&NodeObs) -> u32| {
        let (na, nb) = (&obs.nodes[a], &obs.nodes[b]);
        excess(tasks(na), shape.weight[a], tasks(nb), shape.weight[b])
    };
    let differ = |a: usize, b: usize| {
        excess_of(a, b, NodeObs::committed_avg) >= 2 || excess_of(a, b, NodeObs::committed_now) >= 2
    };
    let nodes = shape.nodes().min(obs.nodes.len());
    !obs.nodes.iter().zip(&shape.weight).any(full)
        && !(0..nodes).any(|a| (0..nodes).any(|b| differ(a, b)))
}

impl Balancer {
    /// For up to `tasks` tasks on the places of `shape`.
    pub fn new(shape: Shape, tasks: usize) -> Self {
        let nodes = shape.nodes();
        let cpus: u32 = shape.weight.iter().sum();
        Self {
            budget: move_budget(cpus),
            average: vec![0; nodes],
            now: vec![0; nodes],
            llcs: vec![0; shape.llc_weight.len()],
            demand: vec![0; nodes],
            held: vec![false; nodes * nodes],
            queue: PairQueue::new(&shape),
            candidates: Candidates::new(nodes, tasks),
            shape,
        }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether R10 holds, which it does unless this says otherwise: without it every task that ran is a
    /// candidate, however little it runs.
    pub fn spare_bystanders(&mut self, spare: bool) {
        self.candidates.spare_bystanders = spare;
    }

    /// Decide by `limits`, knowing nothing of memory; `out` is overwritten.
    pub fn decide(&mut self, obs: &Observation, limits: &PairLimits, out: &mut Decisions) {
        self.decide_with(obs, None, limits, out);
    }

    /// Decide by `limits`; `out` is overwritten. `view` says where memory lies: it changes which tasks
    /// move, not how many (R8).
    pub fn decide_with(
        &mut self,
        obs: &Observation,
        view: Option<&View>,
        limits: &PairLimits,
        out: &mut Decisions,
    ) {
        out.moves.clear();
        out.verdicts.clear();
        self.begin(obs);
        self.report_tolerated(limits, out);
        let mut budget = self.budget;
        // Taken out, so that it can look at the loads.
        let mut queue = std::mem::take(&mut self.queue);
        queue.begin(|a, b| self.gap_size(obs, limits, a, b));
        while let Some((from, to)) = queue.next() {
            // The numbers that it is decided by, before the moves change them.
            let verdict = self.verdict(from, to, Outcome::Over);
            let amount = self.amount(obs, limits, from, to);
            let (outcome, done) = self.settle((obs, view), &Gap { from, to, amount }, budget, out);
            budget -= done;
            out.verdicts.push(Verdict { outcome, ..verdict });
            let size = |a: usize, b: usize| self.gap_size(obs, limits, a, b);
            match done {
                0 => queue.close(from, to, size),
                _ => {
                    queue.close(to, from, size);
                    queue.changed(from, to, size);
                }
            }
        }
        self.queue = queue;
    }

    fn begin(&mut self, obs: &Observation) {
        for (node, seen) in obs.nodes.iter().enumerate().take(self.shape.nodes()) {
            self.average[node] = seen.committed_avg();
            self.now[node] = seen.committed_now();
            self.demand[node] = u64::from(seen.committed_avg()) * u64::from(seen.task_weight);
        }
        self.llcs.copy_from_slice(&obs.llcs);
        let nodes = self.shape.nodes();
        self.held.fill(false);
        for (from, to) in &obs.held {
            let (from, to) = (usize::from(*from), usize::from(*to));
            if from < nodes && to < nodes {
                self.held[from * nodes + to] = true;
            }
        }
        self.candidates.begin(obs, &self.shape);
    }

    fn load(&self, tasks: &[u32], node: usize) -> NodeLoad {
        NodeLoad {
            node,
            tasks: tasks[node],
            weight: self.shape.weight[node],
        }
    }

    fn excess(&self, tasks: &[u32], a: usize, b: usize) -> u64 {
        let weight = &self.shape.weight;
        excess(tasks[a], weight[a], tasks[b], weight[b])
    }

    /// Neither over the interval nor now has either of the two a CPU to spare.
    fn both_full(&self, a: usize, b: usize) -> bool {
        let full = |node: usize| self.average[node].min(self.now[node]) >= self.shape.weight[node];
        full(a) && full(b)
    }

    /// Pairs that differ by 2 or more and are left alone by the limit.
    fn report_tolerated(&self, limits: &PairLimits, out: &mut Decisions) {
        let nodes = self.shape.nodes();
        for (a, b) in (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b))) {
            let (load_a, load_b) = (self.load(&self.average, a), self.load(&self.average, b));
            if self.excess(&self.average, a, b) >= 2
                && !self.both_full(a, b)
                && limits.leaves_alone(load_a, load_b)
            {
                out.verdicts.push(self.verdict(a, b, Outcome::Tolerated));
            }
        }
    }

    /// The pair's excess by the average, unless the two are left alone.
    fn gap_size(
        &self,
        obs: &Observation,
        limits: &PairLimits,
        from: usize,
        to: usize,
    ) -> Option<u64> {
        let is_gap = if self.both_full(from, to) {
            self.waiting(from) > 0 && self.weight_to_move(obs, from, to).is_some()
        } else {
            let (a, b) = (self.load(&self.average, from), self.load(&self.average, to));
            !limits.leaves_alone(a, b)
        };
        is_gap.then(|| self.excess(&self.average, from, to))
    }

    /// What may be moved of a gap.
    fn amount(&self, obs: &Observation, limits: &PairLimits, from: usize, to: usize) -> Amount {
        if self.both_full(from, to) {
            let weight = self.weight_to_move(obs, from, to).unwrap_or(0);
            return Amount::Weight(weight, self.waiting(from));
        }
        let (a, b) = (self.load(&self.now, from), self.load(&self.now, to));
        let lasting = match limits.leaves_alone(a, b) {
            true => 0,
            false => {
                let (average, now) = (&self.average, &self.now);
                self.excess(average, from, to)
                    .min(self.excess(now, from, to))
            }
        };
        Amount::Tasks(self.tasks_to_move(lasting, from, to))
    }

    /// Tasks of a full node that wait, over the interval and now.
    fn waiting(&self, node: usize) -> u32 {
        let tasks = self.average[node].min(self.now[node]);
        tasks.saturating_sub(self.shape.weight[node])
    }

    /// Half of the excess, but not more than brings either node to its share of all tasks: with
    /// several nodes to fill, what is beyond that would only have to move on.
    fn tasks_to_move(&self, excess: u64, from: usize, to: usize) -> u32 {
        let sum = |values: &[u32]| values.iter().map(|&n| u64::from(n)).sum::<u64>();
        let (all, cpus) = (sum(&self.average), sum(&self.shape.weight).max(1));
        let share = |node: usize| all * u64::from(self.shape.weight[node]);
        let surplus = u64::from(self.average[from]).saturating_sub(share(from).div_ceil(cpus));
        let room = (share(to) / cpus).saturating_sub(self.average[to].into());
        match excess / 2 {
            0 => 0,
            half => half.min(surplus.min(room).max(1)) as u32,
        }
    }

    /// How much weight would even out two nodes without spare, if `from` is clearly busier than `to`
    /// would be with one task more: the comparison that fork placement makes.
    fn weight_to_move(&self, obs: &Observation, from: usize, to: usize) -> Option<u64> {
        let weight = &self.shape.weight;
        let one_more = u64::from(obs.nodes[to].task_weight);
        let here = Utilisation::of(self.demand[from], 1, weight[from]);
        let there = Utilisation::of(self.demand[to] + one_more, 1, weight[to]);
        if !here.is_clearly_above(there) {
            return None;
        }
        let more = u128::from(self.demand[from]) * u128::from(weight[to]);
        let less = u128::from(self.demand[to]) * u128::from(weight[from]);
        // Half of the excess of demand, which is twice this. Less than an average task is no gain.
        let half = more.saturating_sub(less) / u128::from(weight[from] + weight[to]);
        let half = half.min(u64::MAX.into()) as u64;
        (half >= u64::from(obs.nodes[from].task_weight)).then_some(half)
    }

    /// Move what the gap allows; returns the outcome and how many tasks moved.
    fn settle(
        &mut self,
        (obs, view): (&Observation, Option<&View>),
        gap: &Gap,
        budget: u32,
        out: &mut Decisions,
    ) -> (Outcome, u32) {
        let pair = (gap.from as u8, gap.to as u8);
        if self.held[gap.from * self.shape.nodes() + gap.to] {
            return (Outcome::Held, 0);
        }
        let (amount, why) = match gap.amount {
            Amount::Tasks(0) => return (Outcome::Over, 0),
            _ if budget == 0 => return (Outcome::Budget, 0),
            Amount::Tasks(tasks) => (Amount::Tasks(tasks.min(budget)), MoveWhy::Excess),
            Amount::Weight(weight, tasks) => (
                Amount::Weight(weight, tasks.min(budget)),
                MoveWhy::Utilisation,
            ),
        };
        let average_milli = obs.nodes[gap.from].running_milli;
        let chosen = self
            .candidates
            .choose(obs, view, (gap.from, gap.to), average_milli, amount);
        let done = chosen.len() as u32;
        for i in 0..chosen.len() {
            let task = &obs.tasks[self.candidates.chosen()[i] as usize];
            let llc = self.llc_for(gap.to);
            self.llcs[usize::from(llc)] += 1;
            let left = &mut self.llcs[usize::from(task.llc)];
            *left = left.saturating_sub(1);
            let weight = u64::from(task.weight);
            self.demand[gap.from] = self.demand[gap.from].saturating_sub(weight);
            self.demand[gap.to] += weight;
            out.moves.push(Move {
                slot: task.slot,
                seq: task.seq,
                pid: task.pid,
                from: pair.0,
                to: pair.1,
                llc,
                why,
            });
        }
        for tasks in [&mut self.average, &mut self.now] {
            tasks[gap.from] -= done.min(tasks[gap.from]);
            tasks[gap.to] += done;
        }
        match done {
            0 => (Outcome::NoTask, 0),
            done => (Outcome::Moved(done), done),
        }
    }

    /// The LLC of `node` that a new task would get.
    fn llc_for(&self, node: usize) -> u16 {
        let llcs = self.shape.llcs_of(node);
        let weight = &self.shape.llc_weight[llcs.clone()];
        let best = fork_llc(&self.llcs[llcs.clone()], weight, u64::MAX, usize::MAX);
        (llcs.start + best.unwrap_or(0) as usize) as u16
    }

    fn verdict(&self, from: usize, to: usize, outcome: Outcome) -> Verdict {
        Verdict {
            from: from as u8,
            to: to as u8,
            excess: self.excess(&self.average, from, to),
            excess_now: self.excess(&self.now, from, to),
            tasks: (self.average[from], self.average[to]),
            outcome,
        }
    }
}
