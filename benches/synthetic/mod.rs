// SPDX-License-Identifier: GPL-2.0-only
//! Machines and observations made up for measuring the policy; also used by tests.
//!
//! A node has 4 LLCs of 8 CPUs. Tasks are spread over the nodes in proportion to what each node is
//! said to have committed. As many of them as that are hogs, the others hardly ran. They come in
//! processes of 1 to 8 threads, and may run anywhere unless said otherwise. Everything follows from
//! the arguments, so every run measures the same.

use scx_ballast::machine::MachineBuilder;
use scx_ballast::policy::compile::{Limits, NodeShape, Thresholds};
use scx_ballast::policy::engine::Engine;
use scx_ballast::policy::observation::{NodeObs, Observation, Shape, TaskObs};
use scx_ballast::policy::rule_set::RuleSet;

const LLCS: u32 = 4;
const CPUS_PER_LLC: u32 = 8;
/// CPUs of a node.
pub const CPUS: u32 = LLCS * CPUS_PER_LLC;

/// What a machine is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scene {
    /// Every node is half busy: nothing to do.
    Calm,
    /// One half of the nodes has twice the tasks that it has CPUs for, the other half is all but idle.
    Uneven,
    /// The same, but no task may leave its node: every pair is looked at in vain.
    Pinned,
    /// No node has a CPU to spare, every task is a hog, and one half of the nodes has twice the tasks
    /// of the other.
    Full,
}

impl Scene {
    pub const ALL: [Scene; 4] = [Scene::Calm, Scene::Uneven, Scene::Pinned, Scene::Full];

    pub fn name(self) -> &'static str {
        match self {
            Scene::Calm => "calm",
            Scene::Uneven => "uneven",
            Scene::Pinned => "pinned",
            Scene::Full => "full",
        }
    }

    /// Tasks that run or wait on a node, at least.
    fn committed(self, node: usize) -> u32 {
        match (self, node % 2) {
            (Scene::Calm, _) => CPUS / 2,
            (Scene::Uneven | Scene::Pinned, 0) => 2 * CPUS,
            (Scene::Uneven | Scene::Pinned, _) => 4,
            (Scene::Full, 0) => 4 * CPUS,
            (Scene::Full, _) => 2 * CPUS,
        }
    }
}

/// A machine, the limits of the default rules on it, and what was seen there.
pub struct World {
    pub shape: Shape,
    pub limits: Limits,
    pub obs: Observation,
}

impl World {
    /// `tasks` tasks that ran during the interval, on `nodes` nodes.
    pub fn new(nodes: usize, tasks: usize, scene: Scene) -> Self {
        let machine = MachineBuilder::uniform(nodes as u32, LLCS, CPUS_PER_LLC, 1)
            .build()
            .expect("a machine of equal nodes");
        let shape = Shape::of(&machine);
        let limits = Limits::compile(
            RuleSet::Ballast,
            Thresholds::default(),
            &NodeShape::all(&machine),
        );
        let mut obs = Observation::for_shape(&shape, tasks);
        let node_of = spread(nodes, tasks, scene);
        let mut committed: Vec<u32> = (0..nodes).map(|node| scene.committed(node)).collect();
        if scene == Scene::Full {
            for (node, committed) in committed.iter_mut().enumerate() {
                let here = node_of.iter().filter(|&&at| at == node).count();
                *committed = here.max(*committed as usize) as u32;
            }
        }
        for (seen, &committed) in obs.nodes.iter_mut().zip(&committed) {
            *seen = NodeObs {
                running_milli: committed * 1000,
                running: committed,
                newborn: 0,
                task_weight: 100,
            };
        }
        for (llc, count) in obs.llcs.iter_mut().enumerate() {
            *count = committed[llc / LLCS as usize] / LLCS;
        }
        fill_tasks(&mut obs, &node_of, &committed, scene);
        Self { shape, limits, obs }
    }

    /// An engine that foresees as many tasks as there are.
    pub fn engine(&self) -> Engine {
        Engine::new(
            self.limits.clone(),
            self.shape.clone(),
            self.obs.tasks.len(),
        )
    }
}

/// Numbers below 2^31 that look random: Knuth's MMIX generator, of which the upper bits are the
/// better ones.
fn random(seed: u64) -> impl Iterator<Item = u64> {
    let next = |state: &u64| {
        let product = state.wrapping_mul(6364136223846793005);
        Some(product.wrapping_add(1442695040888963407))
    };
    std::iter::successors(Some(seed), next)
        .skip(1)
        .map(|state| state >> 33)
}

/// The nodes of so many tasks.
fn spread(nodes: usize, tasks: usize, scene: Scene) -> Vec<usize> {
    let places = (0..nodes).flat_map(|node| vec![node; scene.committed(node) as usize]);
    let places: Vec<usize> = places.collect();
    let node = |bits: u64| places[bits as usize % places.len()];
    random(1).take(tasks).map(node).collect()
}

fn fill_tasks(obs: &mut Observation, node_of: &[usize], committed: &[u32], scene: Scene) {
    let mut hogs = committed.to_vec();
    let (mut tgid, mut left) = (0, 0);
    for ((slot, &node), bits) in node_of.iter().enumerate().zip(random(2)) {
        if left == 0 {
            (tgid, left) = (1000 + slot as i32, 1 + bits / 64 % 8);
        }
        left -= 1;
        let is_hog = hogs[node] > 0;
        hogs[node] -= u32::from(is_hog);
        obs.tasks.push(TaskObs {
            slot: slot as u32,
            seq: 2,
            pid: 1000 + slot as i32,
            tgid,
            llc: (node as u64 * u64::from(LLCS) + bits % u64::from(LLCS)) as u16,
            busy: match is_hog {
                true => (CPUS * 1000 / committed[node]).clamp(1, 1000) as u16,
                false => u16::from(bits / 8 % 4 == 0),
            },
            weight: 100,
            nodes: match scene {
                Scene::Pinned => 1 << node,
                _ => u64::MAX,
            },
            moved_ms: u32::MAX,
        });
    }
}
