// SPDX-License-Identifier: GPL-2.0-only
//! A tick takes no memory: the daemon has locked what it has, and must not wait for more while the
//! machine is short of it. Counted by an allocator of this test's own, by thread: the test harness has
//! threads of its own, which take memory when it suits them.

#[path = "../benches/synthetic/mod.rs"]
mod synthetic;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use scx_ballast::policy::engine::Engine;
use scx_ballast::policy::locality::decide::Decider;
use scx_ballast::policy::locality::evidence::{NodePages, Sample, Standing};
use scx_ballast::policy::locality::ledger::Ledger;
use scx_ballast::policy::locality::places::Places;
use scx_ballast::policy::locality::view::{Steps, TaskView, Unit, UnitView, View};
use scx_ballast::policy::observation::Observation;
use synthetic::{Scene, World};

struct Counting;

thread_local! {
    // Neither takes memory at its first use nor has anything to drop.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: everything is the system allocator's; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator during a tick, and moves that it decided.
fn tick(engine: &mut Engine, obs: &mut Observation) -> (u64, usize) {
    let before = CALLS.get();
    let moves = engine.tick(obs).moves.len();
    (CALLS.get() - before, moves)
}

#[test]
fn a_tick_takes_no_memory() {
    // It does count.
    let before = CALLS.get();
    drop(std::hint::black_box(vec![0u8; 100]));
    assert_eq!(CALLS.get() - before, 2);

    for scene in Scene::ALL {
        for (nodes, tasks) in [(2, 0), (2, 1), (2, 3000), (8, 3000), (64, 20_000)] {
            let name = format!("{}, {nodes} nodes, {tasks} tasks", scene.name());
            let mut world = World::new(nodes, tasks, scene);
            let mut engine = world.engine();
            let mut total = 0;
            // Enough for the history to be full, moves to be judged, and pairs to be held.
            for round in 0..40 {
                let (calls, moves) = tick(&mut engine, &mut world.obs);
                assert_eq!(calls, 0, "{name}, tick {round}");
                if round <= 20 {
                    total += moves;
                }
                if round == 20 {
                    // What was moved is found on yet another node, so that moves are struck.
                    let llcs = world.shape.llc_node.len() as u16;
                    for task in &mut world.obs.tasks {
                        task.llc = (task.llc + 1 + llcs / 2) % llcs;
                    }
                }
            }
            let moving = matches!(scene, Scene::Uneven | Scene::Full);
            if tasks >= 3000 {
                assert_eq!(total > 0, moving, "{name}");
            }
        }
    }

    // Time without a decision, and fewer or other tasks than before, are no reason either.
    let mut world = World::new(8, 1000, Scene::Uneven);
    let mut small = World::new(8, 500, Scene::Full);
    let mut engine = world.engine();
    for _ in 0..3 {
        assert_eq!(tick(&mut engine, &mut small.obs).0, 0);
        assert_eq!(tick(&mut engine, &mut world.obs).0, 0);
    }
    let before = CALLS.get();
    engine.skip(&mut world.obs);
    assert_eq!(CALLS.get(), before);

    locality_takes_no_memory();
    the_ledger_takes_no_memory();
}

/// Processes that are known are viewed and remembered without taking memory.
fn the_ledger_takes_no_memory() {
    for (nodes, tasks) in [(2, 3000), (64, 5000)] {
        let mut world = World::new(nodes, tasks, Scene::Calm);
        let places = Places::by_distance(nodes, nodes, |a, b| 10 + 10 * a.abs_diff(b) as u32);
        let mut ledger = Ledger::new(places, world.shape.clone());
        ledger.reserve(tasks);
        for task in &world.obs.tasks {
            if task.tgid % 7 == 0 {
                ledger.set_group(task.tgid, Some(1));
            }
            for at_ms in [1, 2] {
                let pages = |node| NodePages {
                    private: u32::from(node == task.tgid as usize % nodes) * 100,
                    shared: 3,
                };
                let pages = (0..nodes).map(pages).collect();
                let asked = 200;
                let sample = Sample {
                    at_ms,
                    asked,
                    pages,
                };
                ledger.sampled(task.tgid, &sample);
                ledger.sampled_task((task.slot, task.seq), &sample);
            }
        }
        let mut view = View {
            tasks: Vec::with_capacity(tasks),
            units: Vec::with_capacity(tasks),
            scores: Vec::with_capacity(tasks * nodes * 2),
            ..View::default()
        };
        let mut engine = world.engine();
        let mut decider = Decider::new(world.shape.clone(), tasks);
        let mut steps = Steps {
            steps: Vec::with_capacity(4096),
            stays: Vec::with_capacity(tasks),
        };
        let mut round = |now_ms| {
            let before = CALLS.get();
            ledger.view(&world.obs, now_ms, &mut view);
            let already = &engine.tick_with(&mut world.obs, Some(&view)).moves;
            decider.decide(&world.obs, &view, &world.limits, already, &mut steps);
            ledger.remember(&world.obs, &view, &steps);
            (CALLS.get() - before, steps.steps.len())
        };
        // At first sight its units are new.
        let (calls, mut decided) = round(10);
        assert!(calls > 0);
        for tick in 0..5 {
            let (calls, steps) = round(100 + tick);
            assert_eq!(calls, 0, "{nodes} nodes, tick {tick}");
            decided += steps;
        }
        assert!(decided > 0);
    }
}

/// Every process has its memory on some node; with it both the balancer and locality have to choose.
fn locality_takes_no_memory() {
    for scene in Scene::ALL {
        for (nodes, tasks) in [(2, 3000), (64, 20_000)] {
            let name = format!("{}, {nodes} nodes", scene.name());
            let mut world = World::new(nodes, tasks, scene);
            let view = view_of(&world, nodes);
            let mut engine = world.engine();
            let mut decider = Decider::new(world.shape.clone(), tasks);
            let mut steps = Steps {
                steps: Vec::with_capacity(4096),
                stays: Vec::with_capacity(tasks),
            };
            let before = CALLS.get();
            for _ in 0..3 {
                let already = &engine.tick_with(&mut world.obs, Some(&view)).moves;
                decider.decide(&world.obs, &view, &world.limits, already, &mut steps);
                engine.remember_steps(&steps.steps);
            }
            assert_eq!(CALLS.get(), before, "{name}");
            // There the balancer leaves something of the budget, for swaps.
            assert!(scene != Scene::Calm || !steps.steps.is_empty(), "{name}");
        }
    }
}

fn view_of(world: &World, nodes: usize) -> View {
    let mut view = View {
        nodes: nodes as u32,
        ..View::default()
    };
    for task in &world.obs.tasks {
        let unit = Unit::Process(task.tgid);
        let home = task.tgid as usize % nodes;
        if view.units.last().map(|last| last.unit) != Some(unit) {
            let score = |node| if node == home { 1000 } else { 0 };
            view.scores.extend((0..nodes).map(score));
            view.units.push(UnitView {
                unit,
                is_group: true,
                waits: false,
            });
        }
        let at = view.units.len() as u32 - 1;
        view.tasks.push(TaskView {
            unit: at,
            standing: Standing::Known,
            row: Some(at),
            nodes: 1 << home,
        });
    }
    view
}
