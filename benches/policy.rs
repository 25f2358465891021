// SPDX-License-Identifier: GPL-2.0-only
//! What the policy costs by itself: a balancing tick, and a fork placement.
//!
//! The daemon calls [`Engine::tick`](scx_ballast::policy::engine::Engine::tick) every balance
//! interval (100 ms by default), so a tick has to be short beside that: the aim is less than 1 ms for
//! 10 000 tasks on 8 nodes, and a cost in proportion to the tasks. Fork placement is measured in its
//! Rust form; the kernel dispatcher evaluates the same rules in BPF.
//!
//! The same observation is decided again and again; a tick costs the same whether its moves are
//! carried out or not.

mod synthetic;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use scx_ballast::policy::placement::{ForkState, fork_llc, fork_node};
use synthetic::{CPUS, Scene, World};

const NODES: [usize; 3] = [2, 8, 64];
const TASKS: [usize; 3] = [1_000, 10_000, 100_000];

fn ticks(criterion: &mut Criterion) {
    for scene in Scene::ALL {
        let mut group = criterion.benchmark_group(format!("tick/{}", scene.name()));
        group.warm_up_time(Duration::from_millis(300));
        group.measurement_time(Duration::from_millis(1500));
        group.sample_size(20);
        for nodes in NODES {
            for tasks in TASKS {
                let mut world = World::new(nodes, tasks, scene);
                let mut engine = world.engine();
                // What is measured is what the name says.
                let moves = engine.tick(&mut world.obs).moves.len();
                let moving = matches!(scene, Scene::Uneven | Scene::Full);
                assert_eq!(moves > 0, moving, "{scene:?}, {nodes} nodes, {tasks} tasks");
                group.throughput(Throughput::Elements(tasks as u64));
                let id = BenchmarkId::new(format!("{nodes}-nodes"), tasks);
                group.bench_function(id, |bencher| {
                    bencher.iter(|| black_box(engine.tick(black_box(&mut world.obs)).moves.len()));
                });
            }
        }
        group.finish();
    }
}

fn forks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fork");
    group.warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_millis(1000));
    for nodes in NODES {
        let world = World::new(nodes, 0, Scene::Calm);
        let committed: Vec<u32> = (0..nodes as u32).map(|node| CPUS / 2 + node % 3).collect();
        let task_weight = vec![100; nodes];
        let state = ForkState {
            committed: &committed,
            weight: &world.shape.weight,
            task_weight: &task_weight,
            allowed: u64::MAX,
            order: &world.shape.order[1],
            usable: CPUS,
        };
        group.bench_function(BenchmarkId::new("node", nodes), |bencher| {
            bencher.iter(|| fork_node(black_box(&state), black_box(&world.limits.fork)));
        });
    }
    for llcs in [1, 4, 16] {
        let committed: Vec<u32> = (0..llcs).map(|llc| 4 + llc % 3).collect();
        let weight = vec![8; llcs as usize];
        group.bench_function(BenchmarkId::new("llc", llcs), |bencher| {
            bencher.iter(|| fork_llc(black_box(&committed), black_box(&weight), u64::MAX, 1));
        });
    }
    group.finish();
}

criterion_group!(policy, ticks, forks);
criterion_main!(policy);
