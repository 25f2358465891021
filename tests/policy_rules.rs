// SPDX-License-Identifier: GPL-2.0-only
//! What the rules promise together, on random machines of 2 to 64 nodes: that fork and run time agree
//! (R3), that balancing ends, that nothing is swapped (R4), that no tolerance applies to waiting
//! tasks (R9), and that bystanders stay where they are (R10).
//!
//! A machine here is nodes of equal or unequal size with hogs that may run anywhere. What the
//! balancer sees of it is exact: averages are what is.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scx_ballast::policy::balance::{Balancer, Decisions, Move, Outcome};
use scx_ballast::policy::compile::{ImbNumaNr, Limits, NodeLoad, NodeShape, Thresholds};
use scx_ballast::policy::limits::{excess, spare, tolerated};
use scx_ballast::policy::observation::{NodeObs, Observation, Shape, TaskObs};
use scx_ballast::policy::placement::{ForkState, fork_node};
use scx_ballast::policy::rule_set::RuleSet;

/// A machine of one LLC per node, and its hogs.
#[derive(Debug, Clone)]
struct World {
    shape: Shape,
    limits: Limits,
    /// By task: its node, its weight.
    tasks: Vec<(usize, u32)>,
}

impl World {
    fn new(weights: &[u32], set: RuleSet, thresholds: Thresholds) -> Self {
        let nodes = weights.len();
        let order = |n: usize| (0..nodes).map(|i| ((n + i) % nodes) as u8).collect();
        let shape = Shape {
            order: (0..nodes).map(order).collect(),
            weight: weights.to_vec(),
            first_llc: (0..nodes as u16).collect(),
            llc_weight: weights.to_vec(),
            llc_node: (0..nodes as u8).collect(),
        };
        let shapes: Vec<NodeShape> = weights
            .iter()
            .map(|&weight| NodeShape {
                weight,
                llcs: 1,
                imb_numa_nr: (weight / 8).max(1),
            })
            .collect();
        Self {
            shape,
            limits: Limits::compile(set, thresholds, &shapes),
            tasks: Vec::new(),
        }
    }

    fn nodes(&self) -> usize {
        self.shape.nodes()
    }

    fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.nodes()];
        for &(node, _) in &self.tasks {
            counts[node] += 1;
        }
        counts
    }

    fn task_weights(&self) -> Vec<u32> {
        let average = |n: usize| {
            let on = || self.tasks.iter().filter(|task| task.0 == n);
            let sum: u64 = on().map(|task| u64::from(task.1)).sum();
            sum.checked_div(on().count() as u64).unwrap_or(100) as u32
        };
        (0..self.nodes()).map(average).collect()
    }

    /// Place one more task of nice 0, forked on `parent`.
    fn fork(&mut self, parent: usize) {
        let committed = self.counts();
        let task_weight = self.task_weights();
        let state = ForkState {
            committed: &committed,
            weight: &self.shape.weight,
            task_weight: &task_weight,
            allowed: u64::MAX,
            order: &self.shape.order[parent],
            usable: self.shape.weight[parent],
        };
        let node = fork_node(&state, &self.limits.fork).unwrap().node;
        self.tasks.push((node as usize, 100));
    }

    fn observation(&self) -> Observation {
        let counts = self.counts();
        let task_weights = self.task_weights();
        let nodes = counts
            .iter()
            .zip(&task_weights)
            .map(|(&tasks, &task_weight)| NodeObs {
                running_milli: tasks * 1000,
                running: tasks,
                newborn: 0,
                task_weight,
            });
        let busy = |node: usize| {
            let share = self.shape.weight[node] * 1000 / counts[node];
            share.clamp(1, 1000) as u16
        };
        let tasks = self
            .tasks
            .iter()
            .enumerate()
            .map(|(i, &(node, weight))| TaskObs {
                slot: i as u32,
                seq: 2,
                pid: 1000 + i as i32,
                tgid: 1000 + i as i32,
                llc: node as u16,
                busy: busy(node),
                weight,
                nodes: u64::MAX,
                moved_ms: u32::MAX,
            });
        Observation {
            at: 0,
            nodes: nodes.collect(),
            llcs: counts.clone(),
            tasks: tasks.collect(),
            held: Vec::new(),
            lasting: Vec::new(),
        }
    }

    fn decide(&self) -> Decisions {
        let mut decisions = Decisions::default();
        let mut balancer = Balancer::new(self.shape.clone(), self.tasks.len());
        balancer.decide(&self.observation(), &self.limits.run_time, &mut decisions);
        decisions
    }

    fn carry_out(&mut self, moves: &[Move]) {
        for decided in moves {
            let task = &mut self.tasks[decided.slot as usize];
            assert_eq!(task.0, usize::from(decided.from), "{decided:?}");
            task.0 = usize::from(decided.to);
        }
    }

    /// Balance until nothing moves; the number of moves.
    fn settle(&mut self) -> usize {
        let mut total = 0;
        // A tick moves at least one task, and no task needs to move more than once.
        for _ in 0..=self.tasks.len() {
            let moves = self.decide().moves;
            if moves.is_empty() {
                return total;
            }
            total += moves.len();
            self.carry_out(&moves);
        }
        panic!("still moving after {total} moves: {:?}", self.counts());
    }

    /// Is the state tolerated for every pair with spare on one side, by the predicate itself?
    fn is_tolerated(&self) -> bool {
        let (counts, weight) = (self.counts(), &self.shape.weight);
        let pairs = || (0..self.nodes()).flat_map(|a| (0..self.nodes()).map(move |b| (a, b)));
        pairs().all(|(a, b)| {
            let full = spare(weight[a], counts[a]) + spare(weight[b], counts[b]) == 0;
            let limits = &self.limits.run_time;
            full || tolerated(
                counts[a],
                weight[a],
                counts[b],
                weight[b],
                limits.max_running[a],
                limits.max_imbalance,
            )
        })
    }
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        4 => (2usize..=4, 1u32..=32).prop_map(|(nodes, w)| vec![w; nodes]),
        4 => prop::collection::vec(1u32..=32, 2..=4),
        1 => (2usize..=64, 1u32..=16).prop_map(|(nodes, w)| vec![w; nodes]),
        1 => prop::collection::vec(1u32..=16, 2..=64),
    ]
}

fn thresholds() -> impl Strategy<Value = Thresholds> {
    let nr = prop_oneof![
        3 => Just(ImbNumaNr::Auto),
        1 => (0u32..12).prop_map(ImbNumaNr::Tasks),
        1 => (1u32..=100).prop_map(ImbNumaNr::Percent),
    ];
    (prop::option::weighted(0.3, 0u32..6), nr).prop_map(|(imbalance_min, imb_numa_nr)| Thresholds {
        imbalance_min,
        imb_numa_nr,
    })
}

fn sets() -> impl Strategy<Value = RuleSet> {
    prop::sample::select(RuleSet::ALL.to_vec())
}

/// Where tasks run at first, as fractions of the number of nodes.
fn crowd() -> impl Strategy<Value = Vec<u16>> {
    prop_oneof![
        prop::collection::vec(any::<u16>(), 0..80),
        // All on one node.
        (any::<u16>(), 0usize..80).prop_map(|(node, tasks)| vec![node; tasks]),
    ]
}

fn at(place: u16, nodes: usize) -> usize {
    (usize::from(place) * nodes) >> 16
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// R3: balancing ends, in a state that is tolerated, with at most two moves per task; and
    /// whatever is forked then, the balancer has nothing to do.
    #[test]
    fn forks_from_tolerated_states_stay_tolerated(
        weights in weights(),
        thresholds in thresholds(),
        crowd in crowd(),
        forks in prop::collection::vec(any::<u16>(), 0..60),
    ) {
        let mut world = World::new(&weights, RuleSet::Ballast, thresholds);
        let nodes = world.nodes();
        world.tasks = crowd.iter().map(|&place| (at(place, nodes), 100)).collect();
        let moves = world.settle();
        prop_assert!(moves <= 2 * crowd.len(), "{moves} moves of {} tasks", crowd.len());
        prop_assert!(world.is_tolerated(), "{:?} on {weights:?}", world.counts());
        for parent in forks {
            world.fork(at(parent, nodes));
            prop_assert!(world.is_tolerated(), "{:?} on {weights:?}", world.counts());
            let decisions = world.decide();
            prop_assert!(
                decisions.moves.is_empty(),
                "{:?} on {weights:?}: {decisions:?}", world.counts()
            );
        }
    }

    /// Under every set balancing ends, and what is left alone is what the set leaves alone.
    #[test]
    fn balancing_ends_under_every_set(
        weights in weights(),
        set in sets(),
        thresholds in thresholds(),
        crowd in crowd(),
    ) {
        let mut world = World::new(&weights, set, thresholds);
        let nodes = world.nodes();
        world.tasks = crowd.iter().map(|&place| (at(place, nodes), 100)).collect();
        world.settle();
        let reasons = world.decide().verdicts;
        prop_assert!(reasons.iter().all(|verdict| verdict.outcome == Outcome::Tolerated), "{reasons:?}");
    }

    /// With weights from nice 19 to nice -20: it ends, too.
    #[test]
    fn balancing_by_weight_ends(
        weights in prop::collection::vec(1u32..=4, 2..=6),
        crowd in prop::collection::vec(
            (any::<u16>(), prop::sample::select(vec![1u32, 15, 100, 305, 8872])), 10..60),
    ) {
        let mut world = World::new(&weights, RuleSet::Ballast, Thresholds::default());
        let nodes = world.nodes();
        world.tasks = crowd.iter().map(|&(place, weight)| (at(place, nodes), weight)).collect();
        let mut moves = 0;
        loop {
            let decisions = world.decide();
            if decisions.moves.is_empty() {
                break;
            }
            moves += decisions.moves.len();
            prop_assert!(moves <= 4 * crowd.len(), "still moving: {:?}", world.counts());
            world.carry_out(&decisions.moves);
        }
    }

    /// R4: in no tick do tasks cross between two nodes in both directions. And no move makes the
    /// opposite excess.
    #[test]
    fn nothing_is_swapped(weights in weights(), set in sets(), crowd in crowd()) {
        let mut world = World::new(&weights, set, Thresholds::default());
        let nodes = world.nodes();
        world.tasks = crowd.iter().map(|&place| (at(place, nodes), 100)).collect();
        let before = world.counts();
        let moves = world.decide().moves;
        for a in &moves {
            prop_assert!(!moves.iter().any(|b| a.from == b.to && a.to == b.from), "{moves:?}");
        }
        world.carry_out(&moves);
        let after = world.counts();
        let mut from = BTreeMap::new();
        for decided in &moves {
            from.insert((decided.from, decided.to), decided);
        }
        // With more nodes, one that has got tasks may end above one that went on giving.
        for &(a, b) in from.keys().filter(|_| nodes == 2) {
            let (a, b) = (usize::from(a), usize::from(b));
            let is_opposite = excess(after[b], weights[b], after[a], weights[a]) > 1;
            prop_assert!(!is_opposite, "{before:?} to {after:?} on {weights:?}");
        }
    }

    /// R9: whatever the thresholds, a node with waiting tasks is not tolerated beside one with spare.
    #[test]
    fn no_tolerance_for_waiting_tasks(
        (weights, thresholds) in (prop::collection::vec(1u32..=64, 2), thresholds()),
        more in 1u32..40,
        less in 1u32..64,
    ) {
        let world = World::new(&weights, RuleSet::Ballast, thresholds);
        let load = |node: usize, tasks| NodeLoad { node, tasks, weight: weights[node] };
        let waiting = load(0, weights[0] + more);
        let has_spare = load(1, weights[1].saturating_sub(less));
        prop_assert!(!world.limits.run_time.leaves_alone(waiting, has_spare));
        prop_assert!(!world.limits.preferred.leaves_alone(waiting, has_spare));
    }

    /// A larger threshold never tolerates less, in any set.
    #[test]
    fn thresholds_are_monotonic(
        weights in prop::collection::vec(1u32..=64, 2),
        set in sets(),
        a in 0u32..80, b in 0u32..80,
        nr in 0u32..20, min in 0u32..6,
        more_nr in 0u32..5, more_min in 0u32..5,
    ) {
        let with = |nr, min| {
            let thresholds = Thresholds {
                imbalance_min: Some(min),
                imb_numa_nr: ImbNumaNr::Tasks(nr),
            };
            World::new(&weights, set, thresholds).limits
        };
        let (low, high) = (with(nr, min), with(nr + more_nr, min + more_min));
        let load = |node: usize, tasks| NodeLoad { node, tasks, weight: weights[node] };
        for (low, high) in [(&low.run_time, &high.run_time), (&low.preferred, &high.preferred)] {
            let (a, b) = (load(0, a), load(1, b));
            prop_assert!(high.leaves_alone(a, b) || !low.leaves_alone(a, b));
        }
    }

    /// R10, affinity and rest: only tasks that make the load move, only where they may run, and
    /// only those that were not moved lately.
    #[test]
    fn bystanders_stay(
        hogs in 3usize..12,
        daemons in 0usize..40,
        pinned in prop::collection::vec(any::<bool>(), 12),
        moved in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut world = World::new(&[16, 16], RuleSet::Ballast, Thresholds::default());
        world.tasks = vec![(0, 100); hogs];
        let mut obs = world.observation();
        for i in 0..hogs {
            obs.tasks[i].nodes = if pinned[i] { 1 } else { 3 };
            obs.tasks[i].moved_ms = if moved[i] { 999 } else { 1000 };
        }
        // Daemons that are easy to move, and earlier in order of slots. They are no load.
        let daemon = |i: usize| TaskObs { slot: 1000 + i as u32, busy: 1, ..world.observation().tasks[0] };
        obs.tasks.extend((0..daemons).map(daemon));
        let mut decisions = Decisions::default();
        Balancer::new(world.shape.clone(), 0).decide(&obs, &world.limits.run_time, &mut decisions);
        let movable = (0..hogs).filter(|&i| !pinned[i] && !moved[i]).count();
        prop_assert_eq!(decisions.moves.len(), movable.min(hogs / 2).min(4));
        for decided in &decisions.moves {
            let hog = decided.slot as usize;
            prop_assert!(hog < hogs && !pinned[hog] && !moved[hog], "{decided:?}");
        }
    }
}

/// Groups of threads on node 0 of 2x16, as (process, threads); what moves, by process.
fn moved_by_process(groups: &[(i32, usize)]) -> BTreeMap<i32, usize> {
    let mut world = World::new(&[64, 64], RuleSet::Ballast, Thresholds::default());
    let threads = groups
        .iter()
        .flat_map(|&(tgid, n)| std::iter::repeat_n(tgid, n));
    let tgids: Vec<i32> = threads.collect();
    world.tasks = vec![(0, 100); tgids.len()];
    let mut obs = world.observation();
    for (task, tgid) in obs.tasks.iter_mut().zip(&tgids) {
        task.tgid = *tgid;
    }
    let mut decisions = Decisions::default();
    Balancer::new(world.shape.clone(), 0).decide(&obs, &world.limits.run_time, &mut decisions);
    let mut moved = BTreeMap::new();
    for decided in &decisions.moves {
        *moved.entry(tgids[decided.slot as usize]).or_default() += 1;
    }
    moved
}

#[test]
fn small_groups_stay_whole() {
    // 12 tasks, 6 to move: the group of 4 and one of the pairs, none of the 6 threads of process 1.
    let moved = moved_by_process(&[(1, 7), (2, 4), (3, 2), (4, 2)]);
    assert!(
        moved
            .iter()
            .all(|(&tgid, &n)| n == [7, 4, 2, 2][tgid as usize - 1]),
        "{moved:?}"
    );
    assert_eq!(moved.values().sum::<usize>(), 7);
}

#[test]
fn a_group_too_large_to_move_is_split() {
    assert_eq!(moved_by_process(&[(1, 12)]), [(1, 6)].into());
}

#[test]
fn the_nearest_of_equal_gaps_is_served_first() {
    // Node 1 has 2 tasks too many; 0 and 2 have the same room, and 2 is next in node 1's order.
    let mut world = World::new(&[8, 8, 8], RuleSet::Ballast, Thresholds::default());
    world.tasks = vec![(1, 100); 3];
    let moves = world.decide().moves;
    assert_eq!(
        moves.iter().map(|m| m.to).collect::<Vec<_>>(),
        [2, 0],
        "{moves:?}"
    );
}
