// SPDX-License-Identifier: GPL-2.0-only
//! Whether the limits tolerate what a move or a swap would make.
//!
//! There is no rule here: the comparisons are the compiled limits' and [`limits`](crate::policy::limits)'.
//! What is decided is which states they are asked about, so that the balancer has nothing to undo:
//!
//! - A full node takes nobody. Its tasks would wait, and no tolerance applies to waiting tasks (R9).
//! - The destination with the task has to be tolerated against every other node, by the limit for
//!   preferred nodes.
//! - No other node may become too full against the source without the task, by the limit at run time.
//!   One that is already is the balancer's business.
//! - A swap changes no counts. But tasks of different weight change what full nodes ask for, and no
//!   node may become clearly busier than another by that.
//!
//! As the balancer, it looks at the average over the interval and at this moment; both have to agree.

use crate::policy::balance::Move;
use crate::policy::compile::{Limits, NodeLoad, PairLimits};
use crate::policy::limits::{Utilisation, spare};
use crate::policy::observation::{Observation, Shape, TaskObs};
use crate::policy::placement::fork_llc;

/// Why a task may not go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Full,
    Imbalance,
}

/// The nodes as they are with this tick's moves carried out.
#[derive(Debug)]
pub(super) struct Room {
    shape: Shape,
    average: Vec<u32>,
    now: Vec<u32>,
    llcs: Vec<u32>,
    /// By node: average weight of a task, and what all weigh together.
    task_weight: Vec<u32>,
    demand: Vec<u64>,
}

impl Room {
    pub fn new(shape: Shape) -> Self {
        let nodes = shape.nodes();
        Self {
            average: vec![0; nodes],
            now: vec![0; nodes],
            llcs: vec![0; shape.llc_weight.len()],
            task_weight: vec![0; nodes],
            demand: vec![0; nodes],
            shape,
        }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    pub fn begin(&mut self, obs: &Observation) {
        for node in 0..self.shape.nodes() {
            let seen = obs.nodes.get(node).copied().unwrap_or_default();
            self.average[node] = seen.committed_avg();
            self.now[node] = seen.committed_now();
            self.task_weight[node] = seen.task_weight;
            self.demand[node] = u64::from(seen.committed_avg()) * u64::from(seen.task_weight);
        }
        for (llc, tasks) in self.llcs.iter_mut().enumerate() {
            *tasks = obs.llcs.get(llc).copied().unwrap_or(0);
        }
    }

    /// What the balancer has decided in this tick about a task.
    pub fn already(&mut self, task: &TaskObs, decided: &Move) {
        let (from, to) = (usize::from(decided.from), usize::from(decided.to));
        if from.max(to) < self.shape.nodes() {
            self.carry_weight(task.weight.into(), from, to);
            self.carry_count(from, to);
            self.carry_llc(task.llc, decided.llc);
        }
    }

    fn load(&self, tasks: &[u32], node: usize) -> NodeLoad {
        NodeLoad {
            node,
            tasks: tasks[node],
            weight: self.shape.weight[node],
        }
    }

    /// Has the node a CPU to spare, over the interval or now?
    pub fn has_spare(&self, node: usize) -> bool {
        let fewest = self.average[node].min(self.now[node]);
        spare(self.shape.weight[node], fewest) > 0
    }

    /// May a task go?
    pub fn move_is_tolerated(
        &self,
        from: usize,
        to: usize,
        limits: &Limits,
    ) -> Result<(), Refused> {
        let most = self.average[to].max(self.now[to]);
        if spare(self.shape.weight[to], most) == 0 {
            return Err(Refused::Full);
        }
        let tolerated = [&self.average, &self.now]
            .iter()
            .all(|tasks| self.is_tolerated_after(tasks, from, to, limits));
        tolerated.then_some(()).ok_or(Refused::Imbalance)
    }

    fn is_tolerated_after(&self, tasks: &[u32], from: usize, to: usize, limits: &Limits) -> bool {
        let after = |node: usize| {
            let mut load = self.load(tasks, node);
            load.tasks += u32::from(node == to);
            load.tasks = load.tasks.saturating_sub(u32::from(node == from));
            load
        };
        let left_alone = |limits: &PairLimits, a, b| limits.leaves_alone(a, b);
        (0..self.shape.nodes()).all(|node| {
            let destination = node == to || left_alone(&limits.preferred, after(to), after(node));
            let source = node == from
                || left_alone(&limits.run_time, after(node), after(from))
                || !left_alone(
                    &limits.run_time,
                    self.load(tasks, node),
                    self.load(tasks, from),
                );
            destination && source
        })
    }

    /// Would the full nodes still be left alone if these two changed places? The balancer compares them
    /// by weight where tasks wait and the other node has no spare either.
    pub fn swap_is_tolerated(
        &self,
        goes: &TaskObs,
        comes: &TaskObs,
        from: usize,
        to: usize,
    ) -> bool {
        if goes.weight == comes.weight {
            return true;
        }
        let (goes, comes) = (u64::from(goes.weight), u64::from(comes.weight));
        let before = |node: usize| self.demand[node];
        let after = |node: usize| match node {
            _ if node == from => self.demand[node].saturating_sub(goes) + comes,
            _ if node == to => self.demand[node].saturating_sub(comes) + goes,
            _ => self.demand[node],
        };
        let newly = |a: usize, b: usize| {
            a != b && self.is_clearly_above(after, a, b) && !self.is_clearly_above(before, a, b)
        };
        let mut nodes = 0..self.shape.nodes();
        nodes.all(|node| {
            ![(from, node), (node, from), (to, node), (node, to)]
                .iter()
                .any(|&(a, b)| newly(a, b))
        })
    }

    /// Tasks wait on a, b has no spare, and a would still be clearly busier if b had one more.
    fn is_clearly_above(&self, demand: impl Fn(usize) -> u64, a: usize, b: usize) -> bool {
        let waits = self.average[a].min(self.now[a]) > self.shape.weight[a];
        let one_more = u64::from(self.task_weight[b]);
        let here = Utilisation::of(demand(a), 1, self.shape.weight[a]);
        let there = Utilisation::of(demand(b) + one_more, 1, self.shape.weight[b]);
        waits && !self.has_spare(b) && here.is_clearly_above(there)
    }

    /// A task goes; returns the LLC that it gets.
    pub fn carry_out(&mut self, task: &TaskObs, from: usize, to: usize) -> u16 {
        self.carry_weight(task.weight.into(), from, to);
        self.carry_count(from, to);
        let llcs = self.shape.llcs_of(to);
        let weight = &self.shape.llc_weight[llcs.clone()];
        let best = fork_llc(&self.llcs[llcs.clone()], weight, u64::MAX, usize::MAX);
        let llc = llcs.start + best.unwrap_or(0) as usize;
        self.carry_llc(task.llc, llc as u16);
        llc as u16
    }

    /// Two tasks change places, each to the other's LLC.
    pub fn carry_out_swap(&mut self, goes: &TaskObs, comes: &TaskObs, from: usize, to: usize) {
        self.carry_weight(goes.weight.into(), from, to);
        self.carry_weight(comes.weight.into(), to, from);
    }

    fn carry_llc(&mut self, from: u16, to: u16) {
        if let Some(tasks) = self.llcs.get_mut(usize::from(from)) {
            *tasks = tasks.saturating_sub(1);
        }
        if let Some(tasks) = self.llcs.get_mut(usize::from(to)) {
            *tasks = tasks.saturating_add(1);
        }
    }

    fn carry_weight(&mut self, weight: u64, from: usize, to: usize) {
        self.demand[from] = self.demand[from].saturating_sub(weight);
        self.demand[to] += weight;
    }

    fn carry_count(&mut self, from: usize, to: usize) {
        for tasks in [&mut self.average, &mut self.now] {
            tasks[from] = tasks[from].saturating_sub(1);
            tasks[to] = tasks[to].saturating_add(1);
        }
    }
}
