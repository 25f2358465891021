// SPDX-License-Identifier: GPL-2.0-only
//! What locality promises on random machines of 2 to 64 nodes: no swap that R4 forbids, moves only into
//! states that the limits tolerate, an end to moving while the evidence does not change, and nobody
//! moved on a guess.

#[path = "policy_locality/world.rs"]
mod world;

use proptest::prelude::*;
use scx_ballast::policy::balance::{Balancer, Decisions};
use scx_ballast::policy::compile::{ImbNumaNr, Thresholds};
use scx_ballast::policy::limits::{spare, tolerated};
use scx_ballast::policy::locality::decide::{Decider, MIN_GAIN};
use scx_ballast::policy::locality::evidence::MemoryPolicy;
use scx_ballast::policy::locality::record::LocalityRecord;
use scx_ballast::policy::locality::view::{Stay, Step, Why};
use scx_ballast::policy::rule_set::RuleSet;
use world::{World, limits_of, wide_open};

/// A task, as fractions of what there is.
#[derive(Debug, Clone)]
struct Seed {
    node: u16,
    process: u16,
    nodes: u64,
    busy: u16,
    own: Option<u16>,
}

fn seed() -> impl Strategy<Value = Seed> {
    let nodes = prop_oneof![4 => Just(u64::MAX), 1 => any::<u64>()];
    let busy = prop_oneof![6 => Just(1000_u16), 1 => 0..1000_u16];
    let own = prop::option::weighted(0.3, any::<u16>());
    (any::<u16>(), any::<u16>(), nodes, busy, own).prop_map(|(node, process, nodes, busy, own)| {
        Seed {
            node,
            process,
            nodes,
            busy,
            own,
        }
    })
}

/// Pages of a process: mostly on one node, or anyhow.
#[derive(Debug, Clone)]
enum Memory {
    Mostly(u16, u32),
    Anyhow(Vec<u32>),
}

fn memory() -> impl Strategy<Value = Memory> {
    prop_oneof![
        2 => (any::<u16>(), 0u32..100).prop_map(|(node, else_where)| Memory::Mostly(node, else_where)),
        1 => prop::collection::vec(0u32..200, 64).prop_map(Memory::Anyhow),
    ]
}

fn pages(memory: &Memory, nodes: usize) -> Vec<u32> {
    match memory {
        Memory::Mostly(node, else_where) => {
            let mut pages = vec![*else_where / nodes as u32; nodes];
            pages[at(*node, nodes)] += 200;
            pages
        }
        Memory::Anyhow(pages) => pages[..nodes].to_vec(),
    }
}

fn at(place: u16, count: usize) -> usize {
    (usize::from(place) * count) >> 16
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        4 => (2usize..=4, 1u32..=16).prop_map(|(nodes, w)| vec![w; nodes]),
        2 => prop::collection::vec(1u32..=16, 2..=4),
        1 => (5usize..=64, 1u32..=8).prop_map(|(nodes, w)| vec![w; nodes]),
        1 => prop::collection::vec(1u32..=8, 5..=64),
    ]
}

fn thresholds() -> impl Strategy<Value = Thresholds> {
    prop_oneof![
        2 => Just(Thresholds::default()),
        1 => Just(wide_open()),
        1 => (prop::option::of(0u32..6), 0u32..12).prop_map(|(imbalance_min, nr)| Thresholds {
            imbalance_min,
            imb_numa_nr: ImbNumaNr::Tasks(nr),
        }),
    ]
}

#[derive(Debug, Clone)]
struct Case {
    weights: Vec<u32>,
    thresholds: Thresholds,
    memory: Vec<Memory>,
    tasks: Vec<Seed>,
}

fn case() -> impl Strategy<Value = Case> {
    let memory = prop::collection::vec(memory(), 1..8);
    let tasks = prop::collection::vec(seed(), 0..60);
    (weights(), thresholds(), memory, tasks).prop_map(|(weights, thresholds, memory, tasks)| Case {
        weights,
        thresholds,
        memory,
        tasks,
    })
}

fn world(case: &Case) -> World {
    let mut world = World::new(&case.weights, case.thresholds);
    let nodes = world.nodes();
    for memory in &case.memory {
        world.process(&pages(memory, nodes));
    }
    for seed in &case.tasks {
        let node = at(seed.node, nodes);
        let task = world.task(at(seed.process, case.memory.len()), node);
        let task = &mut world.tasks[task];
        task.nodes = seed.nodes | 1 << node;
        task.busy = seed.busy;
        task.pages = seed.own.map(|own| pages(&Memory::Mostly(own, 0), nodes));
    }
    world
}

impl World {
    /// A tick of the balancer alone; the number of moves.
    fn balance(&mut self) -> usize {
        let mut decisions = Decisions::default();
        let mut balancer = Balancer::new(self.shape.clone(), self.tasks.len());
        balancer.decide(&self.observation(), &self.limits.run_time, &mut decisions);
        for decided in &decisions.moves {
            let task = &mut self.tasks[decided.slot as usize];
            task.node = usize::from(decided.to);
            task.moved_at = Some(self.now_ms);
        }
        decisions.moves.len()
    }

    /// Is node a, with these counts, left alone against node b, by the predicate itself?
    fn is_tolerated(&self, counts: &[u32], a: usize, b: usize) -> bool {
        let (weight, limits) = (&self.shape.weight, &self.limits.run_time);
        let most = (limits.max_running[a], limits.max_imbalance);
        tolerated(counts[a], weight[a], counts[b], weight[b], most.0, most.1)
    }

    fn has_spare(&self, counts: &[u32], node: usize) -> bool {
        spare(self.shape.weight[node], counts[node]) > 0
    }
}

/// Whether the two have the same R4 group, or none: by the world, not by the view.
fn are_alike(world: &World, a: &Step, b: &Step) -> bool {
    let process = |step: &Step| world.tasks[step.slot as usize].process;
    let is_group = |process: usize| world.nodes_of(process).len() > 1;
    let (a, b) = (process(a), process(b));
    a == b || !is_group(a) && !is_group(b)
}

/// Every step is allowed by the rules, one after the other.
fn check_steps(world: &World, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut counts = world.counts();
    let mut at = 0;
    while let Some(step) = steps.get(at) {
        let (from, to) = (usize::from(step.from), usize::from(step.to));
        if step.why == Why::Swap {
            let other = &steps[at + 1];
            let is_pair =
                other.why == Why::SwappedFor && other.from == step.to && other.to == step.from;
            prop_assert!(is_pair, "{step:?} {other:?}");
            prop_assert!(step.gain + other.gain >= MIN_GAIN, "{step:?} {other:?}");
            if are_alike(world, step, other) {
                let spare = world.has_spare(&counts, to) || world.has_spare(&counts, from);
                prop_assert!(!spare, "R4: {step:?} {other:?} {counts:?}");
            }
            at += 2;
            continue;
        }
        prop_assert!(step.gain >= MIN_GAIN, "{step:?}");
        prop_assert!(
            world.has_spare(&counts, to),
            "{step:?} to a full node: {counts:?}"
        );
        let before = counts.clone();
        counts[from] -= 1;
        counts[to] += 1;
        for a in 0..world.nodes() {
            for b in 0..world.nodes() {
                let was = world.is_tolerated(&before, a, b) && a != to;
                let is = world.is_tolerated(&counts, a, b);
                let concerned = a == to || b == from;
                prop_assert!(
                    is || !(was || a == to) || !concerned,
                    "{step:?}: {before:?} {counts:?}"
                );
            }
        }
        at += 1;
    }
    Ok(())
}

/// Tick until nothing has moved for longer than any timer runs; the number of steps.
fn settle(world: &mut World, balance: bool) -> Result<usize, TestCaseError> {
    // A step wins 60 of 1000 at least; a swap of two, 100.
    let bound = world.tasks.len() * 1000 / MIN_GAIN as usize;
    let (mut steps, mut quiet) = (0, 0);
    while quiet < 20 {
        let moved = if balance { world.balance() } else { 0 };
        let decided = world.tick().steps;
        steps += decided.len();
        quiet = if moved + decided.len() == 0 {
            quiet + 1
        } else {
            0
        };
        prop_assert!(steps <= 2 * bound, "still moving after {steps} steps");
    }
    Ok(steps)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    /// R4 and the limits hold for every step of every tick, tasks stay within their affinity and move
    /// once, and each tick makes the sum of the scores larger.
    #[test]
    fn steps_keep_the_rules(case in case()) {
        let mut world = world(&case);
        for _ in 0..8 {
            let (obs, decided) = world.decide();
            check_steps(&world, &decided.steps)?;
            let mut slots: Vec<u32> = decided.steps.iter().map(|step| step.slot).collect();
            slots.sort_unstable();
            slots.dedup();
            prop_assert_eq!(slots.len(), decided.steps.len());
            prop_assert_eq!(slots.len() + decided.stays.len(), world.tasks.len());
            let cpus: u32 = case.weights.iter().sum();
            prop_assert!(decided.steps.len() as u32 <= (cpus / 8).max(4));
            for step in &decided.steps {
                prop_assert!(world.tasks[step.slot as usize].busy >= 50);
            }
            world.ledger.remember(&obs, &world.view.clone(), &decided);
            world.carry_out(&decided.steps);
            world.now_ms += world::TICK_MS;
        }
    }

    /// With evidence that does not change moving ends, with and without the balancer.
    #[test]
    fn moving_ends(case in case(), balance in any::<bool>()) {
        let mut world = world(&case);
        for task in &mut world.tasks {
            task.nodes = u64::MAX;
            task.busy = 1000;
        }
        settle(&mut world, balance)?;
        if balance {
            let counts = world.counts();
            for (a, b) in (0..world.nodes()).flat_map(|a| (0..world.nodes()).map(move |b| (a, b))) {
                let full = !world.has_spare(&counts, a) && !world.has_spare(&counts, b);
                prop_assert!(full || world.is_tolerated(&counts, a, b), "{counts:?}");
            }
        }
    }

    /// Under every set moving ends, and no node is made to wait for its memory's sake.
    #[test]
    fn moving_ends_under_every_set(case in case(), set in prop::sample::select(RuleSet::ALL.to_vec())) {
        let mut world = world(&case);
        world.limits = limits_of(&case.weights, set, case.thresholds);
        let before = world.counts();
        settle(&mut world, false)?;
        for (node, (&was, &is)) in before.iter().zip(&world.counts()).enumerate() {
            prop_assert!(is <= was.max(case.weights[node]), "{before:?} {:?}", world.counts());
        }
    }

    /// From a state that is tolerated locality makes none that the balancer would touch (R3).
    #[test]
    fn the_balancer_has_nothing_to_undo(case in case()) {
        let mut world = world(&case);
        for task in &mut world.tasks {
            (task.nodes, task.busy) = (u64::MAX, 1000);
        }
        while world.balance() > 0 {
            world.now_ms += world::TICK_MS;
        }
        world.now_ms = 10_000;
        world.tasks.iter_mut().for_each(|task| task.moved_at = None);
        for _ in 0..6 {
            world.tick();
            prop_assert_eq!(world.balance(), 0, "{:?}", world.counts());
        }
    }

    /// The same input, the same output: from a used decider, a new one, and what a trace would hold.
    #[test]
    fn decisions_repeat(case in case()) {
        let (mut one, mut other) = (world(&case), world(&case));
        for _ in 0..4 {
            let (obs, decided) = one.decide();
            prop_assert_eq!(&other.decide().1, &decided);
            let record = LocalityRecord {
                view: one.view.clone(),
                steps: Some(decided),
            };
            let text = serde_json::to_string(&record).unwrap();
            let again: LocalityRecord = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&again, &record);
            let mut decider = Decider::new(one.shape.clone(), 0);
            prop_assert_eq!(again.check(&obs, &[], &one.limits, &mut decider), Ok(()));
            one.tick();
            other.tick();
        }
    }

    /// A process that was placed by a memory policy is moved neither for itself nor for another, and
    /// its new threads are placed without preference.
    #[test]
    fn void_evidence_moves_nobody(case in case(), void in 0usize..8) {
        let mut world = world(&case);
        let policies = [MemoryPolicy::Bind, MemoryPolicy::Interleave, MemoryPolicy::Cpuset];
        let void = void % world.processes.len();
        world.processes[void].policy = policies[void % 3];
        for _ in 0..6 {
            for step in world.tick().steps {
                prop_assert!(world.tasks[step.slot as usize].process != void, "{step:?}");
            }
            prop_assert_eq!(world.ledger.nodes_of(void as i32, world.now_ms - world::TICK_MS), 0);
        }
    }

    /// First touch alone moves nobody, however many faults there are.
    #[test]
    fn first_touch_alone_decides_nothing(case in case(), faults in 0u32..1_000_000) {
        let mut world = world(&case);
        for process in &mut world.processes {
            process.faults = process.pages.iter().map(|&n| n.saturating_mul(faults)).collect();
            process.pages.clear();
        }
        world.tasks.iter_mut().for_each(|task| task.pages = None);
        for _ in 0..6 {
            let decided = world.tick();
            prop_assert!(decided.steps.is_empty(), "{:?}", decided.steps);
        }
    }

    /// One group per node that just fits, thrown together anyhow on a balanced machine: each ends on
    /// its own node, with nothing but swaps.
    #[test]
    fn groups_that_fit_come_together(
        nodes in 2usize..=8, size in 2u32..=8, room in 0u32..4, order in any::<u64>(),
    ) {
        let mut world = World::new(&vec![size + room; nodes], Thresholds::default());
        let mut places: Vec<usize> = (0..nodes * size as usize).map(|i| i % nodes).collect();
        shuffle(&mut places, order);
        for (i, node) in places.into_iter().enumerate() {
            if i % size as usize == 0 {
                let mut pages = vec![10; nodes];
                // Not the order of the nodes.
                pages[(i / size as usize + 1) % nodes] = 200;
                world.process(&pages);
            }
            world.task(i / size as usize, node);
        }
        settle(&mut world, true)?;
        for process in 0..nodes {
            let home = (process + 1) % nodes;
            prop_assert!(world.nodes_of(process).iter().all(|&node| node == home), "{:?}", world.tasks);
        }
    }

    /// A group alone on a machine whose limits tolerate it ends on its node as a whole.
    #[test]
    fn a_group_gathers_where_the_limits_let_it(
        weights in prop::collection::vec(1u32..=16, 2..=6),
        home in any::<u16>(),
        tasks in prop::collection::vec(any::<u16>(), 1..=16),
    ) {
        let mut world = World::new(&weights, wide_open());
        let (nodes, home) = (weights.len(), at(home, weights.len()));
        let mut pages = vec![0; nodes];
        pages[home] = 100;
        world.process(&pages);
        for &place in tasks.iter().take(weights[home] as usize) {
            world.task(0, at(place, nodes));
        }
        settle(&mut world, false)?;
        prop_assert!(world.nodes_of(0).iter().all(|&node| node == home), "{:?}", world.nodes_of(0));
    }

    /// A group that no node holds stays spread: those inside the nodes that hold it do not move.
    #[test]
    fn a_larger_group_stays_spread(
        nodes in 2usize..=6, more in 1u32..=8, places in prop::collection::vec(any::<u16>(), 16),
    ) {
        let mut world = World::new(&vec![8; nodes], wide_open());
        let mut pages = vec![0; nodes];
        pages[0] = 100;
        world.process(&pages);
        let places: Vec<usize> = places[..8 + more as usize].iter().map(|&p| at(p, nodes)).collect();
        for &node in &places {
            world.task(0, node);
        }
        settle(&mut world, false)?;
        // 9 to 16 tasks: nodes 0 and 1, nearest first.
        for (task, &was) in world.tasks.iter().zip(&places) {
            prop_assert!(was > 1 || task.node == was, "{:?} was on {was}", task);
        }
        prop_assert!(world.counts()[0] <= 8.max(places.iter().filter(|&&n| n == 0).count() as u32));
    }
}

fn shuffle(places: &mut [usize], seed: u64) {
    let mut state = seed | 1;
    for end in (1..places.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        places.swap(end, (state >> 33) as usize % (end + 1));
    }
}

/// Without R4, swaps inside a group happen beside spare: so the property above does look at something.
#[test]
fn without_r4_a_group_is_swapped_beside_spare() {
    let mut world = World::new(&[8, 8], Thresholds::default());
    world.process(&[50, 50]);
    for node in 0..2 {
        let task = world.task(0, node);
        let mut pages = vec![0; 2];
        pages[1 - node] = 100;
        world.tasks[task].pages = Some(pages);
    }
    let (_, decided) = world.decide();
    assert!(decided.steps.is_empty(), "{decided:?}");
    assert_eq!(decided.count(Stay::NoSpareSwap), 2);
    world.limits.no_spare_swap = false;
    let steps = world.decide().1.steps;
    assert_eq!(
        steps.iter().map(|step| step.why).collect::<Vec<_>>(),
        [Why::Swap, Why::SwappedFor]
    );
}

/// Two of different processes may change places beside spare, but only if both make a load: a hog for who hardly runs
/// would be a move.
#[test]
fn a_hog_is_not_swapped_for_who_hardly_runs() {
    for (busy, swapped) in [(1000, true), (500, true), (499, false), (77, false)] {
        let mut world = World::new(&[8, 8], Thresholds::default());
        let here = world.process(&[0, 100]);
        let there = world.process(&[100, 0]);
        world.task(here, 0);
        let other = world.task(there, 1);
        world.tasks[other].busy = busy;
        // A thread that sleeps makes a group of a process.
        for (process, node) in [(here, 0), (there, 1)] {
            let sleeper = world.task(process, node);
            world.tasks[sleeper].busy = 0;
        }
        // Another one each, at home, so that a move is not tolerated.
        for (node, pages) in [[100, 0], [0, 100]].iter().enumerate() {
            let at_home = world.process(pages);
            world.task(at_home, node);
        }
        let (_, decided) = world.decide();
        let swaps = decided.steps.iter().filter(|step| step.why == Why::Swap);
        assert_eq!(swaps.count() > 0, swapped, "{busy}: {decided:?}");
    }
}
