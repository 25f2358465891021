// SPDX-License-Identifier: GPL-2.0-only
//! Locality in small, worked out by hand: who is moved, who is swapped, who waits, and why.

#[path = "policy_locality/world.rs"]
mod world;

use scx_ballast::policy::balance::{Balancer, Decisions, Move, MoveWhy};
use scx_ballast::policy::compile::Thresholds;
use scx_ballast::policy::locality::decide::Decider;
use scx_ballast::policy::locality::evidence::Standing;
use scx_ballast::policy::locality::evidence::{MemoryPolicy, NodePages, Sample};
use scx_ballast::policy::locality::fork::{HomeWhy, fork_home};
use scx_ballast::policy::locality::places::Places;
use scx_ballast::policy::locality::pull::{Pull, pull};
use scx_ballast::policy::locality::view::{Stay, Steps, Why};
use scx_ballast::policy::placement::{ForkState, ForkWhy};
use scx_ballast::policy::rule_set::RuleSet;
use world::{World, limits_of, shape_of, wide_open};

/// What each task does, in order of slots: moved for this reason, or stays for that.
fn fates(world: &mut World) -> Vec<Result<Why, Stay>> {
    let steps = world.tick();
    let moved = steps.steps.iter().map(|step| (step.slot, Ok(step.why)));
    let stays = steps.stays.iter().map(|&(task, stay)| (task, Err(stay)));
    let mut all: Vec<_> = moved.chain(stays).collect();
    all.sort_unstable_by_key(|fate| fate.0);
    all.into_iter().map(|fate| fate.1).collect()
}

/// Two threads of one process, each with its memory on the other's node.
fn crossed_threads(weights: &[u32]) -> World {
    let mut world = World::new(weights, Thresholds::default());
    let process = world.process(&[50, 50]);
    for node in 0..2 {
        let task = world.task(process, node);
        let mut pages = vec![0; 2];
        pages[1 - node] = 100;
        world.tasks[task].pages = Some(pages);
    }
    world
}

#[test]
fn threads_of_a_process_are_not_swapped_beside_spare() {
    // 1/1 on 2x8: with a thread more, (0, 2), excess 2 and 2 > imb_numa_nr 1.
    let fate = Err(Stay::NoSpareSwap);
    assert_eq!(fates(&mut crossed_threads(&[8, 8])), [fate, fate]);
    // Spare on one of the two is spare: node 1 of 2 CPUs has one, node 0 of 1 has none. Thread 0 may
    // even move: (0, 2) is excess 2 (2 * 1 - 0 * 2) / 3 = 1. Then there is a place for thread 1.
    let moved = Ok(Why::Preferred);
    assert_eq!(fates(&mut crossed_threads(&[1, 2])), [moved, moved]);
}

#[test]
fn threads_of_a_process_are_swapped_without_spare() {
    let mut world = crossed_threads(&[1, 1]);
    assert_eq!(fates(&mut world), [Ok(Why::Swap), Ok(Why::SwappedFor)]);
    assert_eq!(world.nodes_of(0), [1, 0]);
    assert_eq!(fates(&mut world), [Err(Stay::AtHome); 2]);
}

/// Two processes of so many threads each, every one on the wrong node.
fn crossed_processes(weight: u32, threads: usize) -> World {
    let mut world = World::new(&[weight, weight], Thresholds::default());
    for node in 0..2 {
        let mut pages = vec![0; 2];
        pages[1 - node] = 100;
        let process = world.process(&pages);
        (0..threads).for_each(|_| {
            world.task(process, node);
        });
    }
    world
}

#[test]
fn tasks_without_a_group_are_not_swapped_beside_spare() {
    let fate = Err(Stay::NoSpareSwap);
    assert_eq!(fates(&mut crossed_processes(8, 1)), [fate, fate]);
    // 2x16: imb_numa_nr 2. One goes, (0, 2), which is tolerated; then the other, (1, 1).
    let moved = Ok(Why::Preferred);
    assert_eq!(fates(&mut crossed_processes(16, 1)), [moved, moved]);
}

#[test]
fn different_groups_are_swapped_even_beside_spare() {
    let mut world = crossed_processes(8, 2);
    // 2/2 with a task more is 1/3, excess 2 at 3 > 1. R4 does not speak of different groups.
    let steps = world.tick().steps;
    let why: Vec<Why> = steps.iter().map(|step| step.why).collect();
    assert_eq!(
        why,
        [Why::Swap, Why::SwappedFor, Why::Swap, Why::SwappedFor]
    );
    assert_eq!(world.nodes_of(0), [1, 1]);
}

/// Two single tasks on full nodes: the first wins 1000 by a swap, the second is at home and has so
/// many of its 100 pages on the first one's node.
fn swap_for(pages: u32) -> Result<Why, Stay> {
    let mut world = World::new(&[1, 1], Thresholds::default());
    let (first, second) = (
        world.process(&[0, 100]),
        world.process(&[pages, 100 - pages]),
    );
    world.task(first, 0);
    world.task(second, 1);
    fates(&mut world)[0]
}

#[test]
fn a_swap_needs_a_margin() {
    // The second loses 940 - 60 = 880; together they win 120, less 120 / 16 = 7 for one who is at home.
    assert_eq!(swap_for(6), Ok(Why::Swap));
    // It loses 900: 100 - 6 = 94 are too little.
    assert_eq!(swap_for(5), Err(Stay::Full));
}

#[test]
fn nobody_is_swapped_on_a_guess() {
    // All that the second wins by it, but: by first touch alone, by too few pages, bound by itself.
    let swapped = |faults: &[u32], pages: &[u32], policy| {
        let mut world = World::new(&[1, 1], Thresholds::default());
        let (first, second) = (world.process(&[0, 100]), world.process(pages));
        world.processes[second].faults = faults.to_vec();
        world.task(first, 0);
        world.task(second, 1);
        world.ledger.set_task_policy((1, 2), policy);
        fates(&mut world)[0]
    };
    assert_eq!(swapped(&[100, 0], &[], MemoryPolicy::Free), Err(Stay::Full));
    assert_eq!(swapped(&[], &[10, 0], MemoryPolicy::Free), Err(Stay::Full));
    assert_eq!(swapped(&[], &[100, 0], MemoryPolicy::Bind), Err(Stay::Full));
    assert_eq!(swapped(&[], &[100, 0], MemoryPolicy::Free), Ok(Why::Swap));
}

#[test]
fn the_one_that_loses_least_is_swapped() {
    let mut world = World::new(&[1, 3], Thresholds::default());
    let first = world.process(&[0, 100]);
    world.task(first, 0);
    for pages in [[20, 80], [90, 10], [40, 60]] {
        let process = world.process(&pages);
        world.task(process, 1);
    }
    let steps = world.tick().steps;
    assert_eq!(
        steps.iter().map(|step| step.slot).collect::<Vec<_>>(),
        [0, 2]
    );
    // From 10 to 90 of 100 pages.
    assert_eq!(steps[1].gain, 800);
}

#[test]
fn a_swap_does_not_make_a_node_clearly_busier() {
    // Five tasks each on 4 CPUs, all of nice 0 but the first: 900 + 400 and 500. It wins, and none
    // there loses. But then node 1 would have 1300 against 500 and one average task of 260.
    let mut world = World::new(&[4, 4], Thresholds::default());
    let (heavy, rest) = (world.process(&[0, 100]), world.process(&[100, 0]));
    world.task(heavy, 0);
    world.tasks[0].weight = 900;
    (0..4).for_each(|_| {
        world.task(rest, 0);
    });
    (0..5).for_each(|_| {
        world.task(rest, 1);
    });
    let mut light = world.decide().1;
    light.stays.retain(|&(task, _)| task == 0);
    assert_eq!(light.stays, [(0, Stay::Full)]);
    world.tasks[0].weight = 100;
    assert_eq!(world.decide().1.steps[0].slot, 0);
}

#[test]
fn a_full_node_is_tried_again_after_a_while() {
    // Node 1 has two CPUs and two tasks that are bound there: nobody to swap with.
    let mut world = World::new(&[8, 2], Thresholds::default());
    let (waiting, bound) = (world.process(&[0, 100]), world.process(&[0, 100]));
    world.processes[bound].policy = MemoryPolicy::Bind;
    world.task(waiting, 0);
    (0..2).for_each(|_| {
        world.task(bound, 1);
    });
    let reasons: Vec<_> = (0..8).map(|_| fates(&mut world)[0].unwrap_err()).collect();
    // Tried at 0, waits 0.5 s; at 1, waits 1 s; at 2, waits 2 s; at 4, waits 4 s.
    use Stay::{Full, Waiting};
    assert_eq!(
        reasons,
        [Full, Full, Full, Waiting, Full, Waiting, Waiting, Waiting]
    );

    // R5: a thread that is new shares its process's timer, a process that is new has a clean one.
    world.task(waiting, 0);
    let newcomer = world.process(&[0, 100]);
    world.task(newcomer, 0);
    world.ledger.forked(newcomer as i32, waiting as i32, true);
    world
        .ledger
        .sampled(newcomer as i32, &world::sample(world.now_ms, &[0, 100]));
    world.ledger.forked(99, waiting as i32, false);
    world
        .processes
        .resize(100, world.processes[newcomer].clone());
    world
        .ledger
        .sampled(99, &world::sample(world.now_ms, &[0, 100]));
    world.task(99, 0);
    world.now_ms -= 1; // Within the wait, which ends at 8.
    let fate = fates(&mut world);
    assert_eq!(fate[3], Err(Stay::Waiting), "a new thread");
    assert_eq!(fate[4], Err(Stay::Full), "a new process");
    assert_eq!(fate[5], Err(Stay::Waiting), "a new process without R5");

    // When there is a place at last, one gets it, and its process's timer is clean again: the other
    // thread is tried at once, and so it is half a second later, the first wait.
    world.tasks[1].node = 0;
    world.now_ms += 60_000;
    let fate = fates(&mut world);
    assert_eq!((fate[0], fate[3]), (Ok(Why::Preferred), Err(Stay::Full)));
    assert_eq!(fates(&mut world)[3], Err(Stay::Full));
    world.now_ms -= 501;
    assert_eq!(fates(&mut world)[3], Err(Stay::Waiting));
    world.now_ms -= 499;
    assert_eq!(fates(&mut world)[3], Err(Stay::Full));
}

#[test]
fn who_was_moved_off_its_node_does_not_wait_for_those_who_were_refused_it() {
    // One of two threads is at home, where nobody else fits; so the other one waits.
    let mut world = World::new(&[2, 2], Thresholds::default());
    let (threads, bound) = (world.process(&[0, 100]), world.process(&[0, 100]));
    world.processes[bound].policy = MemoryPolicy::Bind;
    world.task(threads, 1);
    world.task(threads, 0);
    world.task(bound, 1);
    let full =
        |fate: &[Result<Why, Stay>]| (fate[0], fate[1]) == (Err(Stay::AtHome), Err(Stay::Full));
    // Tried at 0, 1, 2 and 4; waits until 8.
    let tried: Vec<_> = (0..6).filter(|_| full(&fates(&mut world))).collect();
    assert_eq!(tried, [0, 1, 2, 4]);
    // The balancer takes the first one away.
    (world.tasks[0].node, world.tasks[0].moved_at) = (0, Some(world.now_ms - 500));
    let fate = fates(&mut world);
    assert_eq!((fate[0], fate[1]), (Err(Stay::Resting), Err(Stay::Waiting)));
    assert_eq!(fates(&mut world)[0], Ok(Why::Preferred));
}

#[test]
fn memory_that_moves_is_followed_once_it_has_settled() {
    let mut world = World::new(&[16, 16], Thresholds::default());
    let process = world.process(&[100, 0]);
    world.task(process, 0);
    assert_eq!(fates(&mut world), [Err(Stay::AtHome)]);
    world.processes[process].pages = vec![0, 100];
    // The first sample contradicts the one before. After the second the samples held are 37 and 150
    // pages, 200 : 800, and the preference is 2 s old.
    assert_eq!(fates(&mut world), [Err(Stay::Unstable)]);
    assert_eq!(fates(&mut world), [Ok(Why::Preferred)]);
    assert_eq!(fates(&mut world), [Err(Stay::AtHome)]);
}

#[test]
fn a_little_noise_moves_nobody() {
    let mut world = World::new(&[16, 16], wide_open());
    let process = world.process(&[52, 48]);
    (0..2).for_each(|node| {
        world.task(process, node);
    });
    for tick in 0..20 {
        world.processes[process].pages = if tick % 2 == 0 {
            vec![52, 48]
        } else {
            vec![48, 52]
        };
        assert_eq!(fates(&mut world), [Err(Stay::NoPreference); 2]);
    }
}

#[test]
fn where_there_is_no_place_nearer_is_better() {
    // A line of three; node 0 with all the memory is full of somebody who is bound. From node 2 to 1:
    // half as near as at home.
    let line = Places::by_distance(3, 3, |a, b| 10 + 10 * a.abs_diff(b) as u32);
    let mut world = World::with_places(&[1, 2, 2], Thresholds::default(), line);
    let (far, bound) = (world.process(&[100, 0, 0]), world.process(&[100, 0, 0]));
    world.processes[bound].policy = MemoryPolicy::Bind;
    world.task(far, 2);
    world.task(bound, 0);
    let steps = world.tick().steps;
    assert_eq!(
        (steps[0].why, steps[0].to, steps[0].gain),
        (Why::Nearer, 1, 500)
    );
}

#[test]
fn who_shares_memory_comes_together() {
    // Each has 30 pages of its own on node 1, and both see the same 100 on node 0. Alone that is
    // 60 : 100 with shared pages counted half, 375 : 625, together 60 : 100 as well.
    let mut world = World::new(&[8, 8], wide_open());
    let pages = [
        NodePages {
            private: 0,
            shared: 100,
        },
        NodePages {
            private: 30,
            shared: 0,
        },
    ];
    for tgid in 0..2 {
        world.process(&[]);
        world.ledger.set_group(tgid, Some(7));
        for _ in 0..2 {
            world.ledger.sampled(
                tgid,
                &Sample {
                    at_ms: 10_000,
                    asked: 130,
                    pages: pages.to_vec(),
                },
            );
        }
        world.task(tgid as usize, 1);
    }
    let steps = world.tick().steps;
    assert_eq!(
        steps
            .iter()
            .map(|step| (step.to, step.gain))
            .collect::<Vec<_>>(),
        [(0, 250); 2]
    );
}

#[test]
fn a_tick_has_one_budget_for_balancer_and_locality() {
    // 32 CPUs: 4 moves.
    let mut world = World::new(&[16, 16], wide_open());
    let process = world.process(&[0, 100]);
    (0..10).for_each(|_| {
        world.task(process, 0);
    });
    let (obs, steps) = world.decide();
    assert_eq!((steps.steps.len(), steps.count(Stay::Budget)), (4, 6));
    let already = Move {
        slot: 0,
        seq: 2,
        pid: 1000,
        from: 0,
        to: 1,
        llc: 1,
        why: MoveWhy::Excess,
    };
    let mut decider = Decider::new(world.shape.clone(), 10);
    let mut fewer = Steps::default();
    decider.decide(&obs, &world.view, &world.limits, &[already], &mut fewer);
    assert_eq!((fewer.steps.len(), fewer.count(Stay::Budget)), (3, 6));
    assert!(fewer.steps.iter().all(|step| step.slot != 0));
}

#[test]
fn held_pairs_tired_and_idle_tasks_are_left_alone() {
    let mut world = World::new(&[16, 16], wide_open());
    let process = world.process(&[0, 100]);
    (0..4).for_each(|_| {
        world.task(process, 0);
    });
    world.tasks[0].busy = 49;
    world.tasks[1].moved_at = Some(world.now_ms - 999);
    world.tasks[2].nodes = 1;
    let (mut obs, steps) = world.decide();
    assert_eq!(
        steps.stays,
        [
            (0, Stay::Bystander),
            (1, Stay::Resting),
            (2, Stay::Affinity)
        ]
    );
    assert_eq!(steps.steps.len(), 1);
    obs.held.push((0, 1));
    let mut held = Steps::default();
    Decider::new(world.shape.clone(), 4).decide(&obs, &world.view, &world.limits, &[], &mut held);
    assert_eq!((held.steps.len(), held.count(Stay::Held)), (0, 1));
}

/// The node for a new thread on 2x16 (imb_numa_nr 2) whose parent runs on node 0.
fn fork(committed: [u32; 2], nodes: u64, allowed: u64) -> (u32, HomeWhy, ForkWhy) {
    let weights = [16, 16];
    let (shape, limits) = (
        shape_of(&weights),
        limits_of(&weights, RuleSet::Ballast, Thresholds::default()),
    );
    let state = ForkState {
        committed: &committed,
        weight: &weights,
        task_weight: &[100, 100],
        allowed,
        order: &shape.order[0],
        usable: 16,
    };
    let choice = fork_home(&state, &limits.fork, nodes, &shape.order, &[16, 16]).unwrap();
    (choice.node, choice.home, choice.why)
}

#[test]
fn a_new_thread_goes_to_its_process_s_memory() {
    use ForkWhy::{FullLocal, Least, Tolerated};
    use HomeWhy::{NoPreference, NotTolerated, Preferred};
    assert_eq!(fork([0, 0], 0b10, 3), (1, Preferred, Least));
    // With it (0, 2) or (1, 2): tolerated. (0, 3) is not, nor is (1, 3), which is more than 2 tasks.
    assert_eq!(fork([0, 1], 0b10, 3), (1, Preferred, Tolerated));
    assert_eq!(fork([0, 2], 0b10, 3), (0, NotTolerated, Least));
    assert_eq!(fork([1, 2], 0b10, 3), (0, NotTolerated, Least));
    // Nothing is known, or it may not run there.
    assert_eq!(fork([0, 1], 0, 3), (0, NoPreference, Least));
    assert_eq!(fork([0, 0], 0b10, 1), (0, NoPreference, Least));
    // A full node takes nobody for its memory.
    assert_eq!(fork([16, 16], 0b10, 3), (0, NotTolerated, FullLocal));
    // On both: as without any preference.
    assert_eq!(fork([1, 0], 0b11, 3), (0, Preferred, Tolerated));
}

#[test]
fn the_balancer_takes_those_first_that_are_off_their_node() {
    // 8 tasks on node 0 and none on node 1: 4 go. Two processes of 4: the memory of the first, which
    // the balancer would take last, is on node 1.
    let mut world = World::new(&[32, 32], Thresholds::default());
    let (off, home) = (world.process(&[0, 100]), world.process(&[100, 0]));
    for process in [off, home] {
        (0..4).for_each(|_| {
            world.task(process, 0);
        });
    }
    let (obs, _) = world.decide();
    let slots = |with: bool| {
        let mut decisions = Decisions::default();
        let view = with.then_some(&world.view);
        let limits = &world.limits.run_time;
        Balancer::new(world.shape.clone(), 8).decide_with(&obs, view, limits, &mut decisions);
        decisions
            .moves
            .iter()
            .map(|decided| decided.slot)
            .collect::<Vec<_>>()
    };
    assert_eq!(slots(false), [4, 5, 6, 7]);
    assert_eq!(slots(true), [0, 1, 2, 3]);
}

#[test]
fn the_balancer_splits_a_group_that_is_off_before_it_touches_one_at_home() {
    // 5 off their node do not fit into the 4 that go; the pair at home would.
    let mut world = World::new(&[32, 32], Thresholds::default());
    let (off, home) = (world.process(&[0, 100]), world.process(&[100, 0]));
    (0..5).for_each(|_| {
        world.task(off, 0);
    });
    (0..3).for_each(|_| {
        world.task(home, 0);
    });
    let (obs, _) = world.decide();
    let mut decisions = Decisions::default();
    let limits = &world.limits.run_time;
    Balancer::new(world.shape.clone(), 8).decide_with(
        &obs,
        Some(&world.view),
        limits,
        &mut decisions,
    );
    let slots: Vec<u32> = decisions.moves.iter().map(|decided| decided.slot).collect();
    assert_eq!(slots, [0, 1, 2, 3]);
}

/// 10 tasks on node 0, none on node 1, and their memory is on node 0.
#[test]
fn only_an_excess_that_has_lasted_moves_tasks_away_from_their_memory() {
    let moved = |standing: Option<Standing>, lasting: &[(u8, u8)]| {
        let mut world = World::new(&[32, 32], Thresholds::default());
        let home = world.process(&[100, 0]);
        (0..10).for_each(|_| {
            world.task(home, 0);
        });
        let (mut obs, _) = world.decide();
        obs.lasting = lasting.to_vec();
        if let Some(standing) = standing {
            let tasks = world.view.tasks.iter_mut();
            tasks.for_each(|task| task.standing = standing);
        }
        let mut decisions = Decisions::default();
        let (view, limits) = (Some(&world.view), &world.limits.run_time);
        Balancer::new(world.shape.clone(), 10).decide_with(&obs, view, limits, &mut decisions);
        decisions.moves.len()
    };
    assert_eq!(moved(None, &[]), 0);
    assert_eq!(moved(None, &[(1, 0)]), 0);
    // Half of 10, a share of the CPUs each.
    assert_eq!(moved(None, &[(0, 1)]), 5);
    // What may not decide does not keep anybody, either.
    assert_eq!(moved(Some(Standing::FirstTouch), &[]), 5);
    assert_eq!(moved(Some(Standing::Unstable), &[]), 5);
}

/// ... and of two nodes without spare the weights are evened out at once.
#[test]
fn where_tasks_wait_on_both_nodes_memory_keeps_nobody() {
    let mut world = World::new(&[4, 4], Thresholds::default());
    let home = world.process(&[100, 0]);
    (0..10).for_each(|_| {
        world.task(home, 0);
    });
    (0..4).for_each(|_| {
        world.task(home, 1);
    });
    let (obs, _) = world.decide();
    let mut decisions = Decisions::default();
    let (view, limits) = (Some(&world.view), &world.limits.run_time);
    Balancer::new(world.shape.clone(), 14).decide_with(&obs, view, limits, &mut decisions);
    let moves = decisions.moves.iter().filter(|one| one.from == 0);
    assert!(moves.count() > 0, "{decisions:?}");
}

#[test]
fn how_gladly_a_task_goes() {
    let mut world = World::new(&[16, 16, 16], Thresholds::default());
    let process = world.process(&[10, 60, 30]);
    world.task(process, 0);
    world.decide();
    let (view, task) = (&world.view, world.view.tasks[0]);
    assert_eq!(pull(view, &task, 0, 1), Pull::GoesHome);
    assert_eq!(pull(view, &task, 0, 2), Pull::Goes);
    assert_eq!(pull(view, &task, 1, 2), Pull::Stays);
    assert_eq!(pull(view, &task, 2, 0), Pull::Stays);
    // First touch counts an eighth: 500 / 8 = 62, 200 / 8 = 25.
    let mut world = World::new(&[16, 16, 16], Thresholds::default());
    let process = world.process(&[]);
    world.processes[process].faults = vec![100, 600, 300];
    world.task(process, 0);
    world.decide();
    let (view, task) = (&world.view, world.view.tasks[0]);
    assert_eq!(pull(view, &task, 0, 1), Pull::Goes);
    assert_eq!(pull(view, &task, 0, 2), Pull::Neutral);
    assert_eq!(pull(view, &task, 1, 0), Pull::Stays);
}
