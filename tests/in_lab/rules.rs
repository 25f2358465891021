// SPDX-License-Identifier: GPL-2.0-only
//! The default rule set on this machine, to judge what the scheduler did: which counts of tasks per
//! node are left alone, and how many moves others need.
//!
//! Counts are by node in the order of [`nodes`], which is the scheduler's own.

use std::thread::sleep;

use scx_ballast::machine::Machine;
use scx_ballast::policy::compile::{NUMA_IMBALANCE_MIN, NodeShape};
use scx_ballast::policy::limits::{Utilisation, excess, tolerated};

use crate::guest::{Node, ms, node_of, nodes, remark};
use crate::tasks::{Task, settle};

/// See the module.
pub struct Rules {
    pub nodes: Vec<Node>,
    weight: Vec<u32>,
    /// By node: up to how many tasks it is lightly loaded (R2).
    pub max_running: Vec<u32>,
    /// R1.
    max_imbalance: u32,
}

impl Rules {
    /// The rule set `ballast`.
    pub fn ballast() -> Self {
        let shapes = NodeShape::all(&Machine::detect(None).unwrap());
        let nodes = nodes();
        let weight: Vec<u32> = nodes.iter().map(|node| node.cpus.len() as u32).collect();
        assert!(shapes.iter().map(|shape| shape.weight).eq(weight.clone()));
        Self {
            nodes,
            weight,
            max_running: shapes.iter().map(|shape| shape.imb_numa_nr).collect(),
            max_imbalance: NUMA_IMBALANCE_MIN,
        }
    }

    /// The same without tolerance (`--imbalance-min 0`): an excess of 1 and no more.
    pub fn strict() -> Self {
        Self {
            max_imbalance: 0,
            ..Self::ballast()
        }
    }

    pub fn cpus(&self) -> u32 {
        self.weight.iter().sum()
    }

    /// Are all nodes of the same size?
    pub fn equal_nodes(&self) -> bool {
        self.weight.iter().all(|weight| *weight == self.weight[0])
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let nodes = self.nodes.len();
        (0..nodes).flat_map(move |a| (0..nodes).map(move |b| (a, b)))
    }

    /// Excess of node a over node b.
    pub fn excess(&self, counts: &[u32], a: usize, b: usize) -> u64 {
        excess(counts[a], self.weight[a], counts[b], self.weight[b])
    }

    fn pair_tolerated(&self, counts: &[u32], a: usize, b: usize) -> bool {
        let (w_a, w_b) = (self.weight[a], self.weight[b]);
        let most = self.max_running[a];
        tolerated(counts[a], w_a, counts[b], w_b, most, self.max_imbalance)
    }

    /// Is every pair of nodes left alone?
    pub fn tolerated(&self, counts: &[u32]) -> bool {
        self.pairs().all(|(a, b)| self.pair_tolerated(counts, a, b))
    }

    /// Without spare on either node utilisation is compared: is no node clearly busier than another
    /// would be with one task more?
    pub fn similarly_full(&self, counts: &[u32]) -> bool {
        let of = |node: usize, more: u32| {
            Utilisation::of(u64::from(counts[node] + more), 100, self.weight[node])
        };
        let full = |node: usize| counts[node] >= self.weight[node];
        self.pairs().all(|(a, b)| {
            let alike = full(a) && full(b) && !of(a, 0).is_clearly_above(of(b, 1));
            alike || self.pair_tolerated(counts, a, b)
        })
    }

    /// How many moves it takes until `counts` are tolerated: the fullest node gives half of its excess
    /// over the least full one (R3); where there are more than two, one task at a time, since each gets
    /// its share.
    pub fn moves_needed(&self, counts: &[u32]) -> u64 {
        let mut counts = counts.to_vec();
        let mut moves = 0;
        while !self.tolerated(&counts) {
            let worst = self
                .pairs()
                .max_by_key(|(a, b)| self.excess(&counts, *a, *b));
            let (a, b) = worst.unwrap();
            let half = match self.nodes.len() {
                2 => self.excess(&counts, a, b) as u32 / 2,
                _ => 1,
            };
            counts[a] -= half;
            counts[b] += half;
            moves += u64::from(half);
        }
        moves
    }

    /// How many of `cpus` are in each node.
    pub fn per_node(&self, cpus: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut counts = vec![0; self.nodes.len()];
        for cpu in cpus {
            counts[node_of(&self.nodes, cpu)] += 1;
        }
        counts
    }

    /// How many of `tasks` are on each node.
    pub fn tasks_per_node(&self, tasks: &[Task]) -> Vec<u32> {
        self.per_node(tasks.iter().map(Task::cpu))
    }

    /// Hogs that the first node can have without one of them waiting, for an imbalance: all CPUs but
    /// one, at most 4.
    pub fn room(&self) -> usize {
        (self.nodes[0].cpus.len() - 1).min(4)
    }

    /// `count` hogs that may use the first node alone.
    pub fn pinned_hogs(&self, count: usize) -> Vec<Task> {
        let cpus = &self.nodes[0].cpus;
        let hogs: Vec<Task> = (0..count).map(|_| Task::hog(cpus.clone())).collect();
        settle(&hogs);
        // Newborns of before are grown up.
        sleep(ms(1200));
        hogs
    }
}

/// Run `test` where there are two nodes, and the first has at least so many CPUs.
#[track_caller]
pub fn where_it_fits(least: usize, test: impl FnOnce(Rules)) {
    let rules = Rules::ballast();
    match rules.nodes.len() > 1 && rules.nodes[0].cpus.len() >= least {
        true => test(rules),
        false => remark("skipped: one node, or too small ones"),
    }
}
