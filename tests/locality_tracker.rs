// SPDX-License-Identifier: GPL-2.0-only
//! The daemon's side of locality, with a made-up memory thread and kernel: whom it looks at, when, what it
//! does with what is found, and that it does nothing that it need not.

#[path = "locality_tracker/world.rs"]
mod world;

use std::collections::BTreeMap;

use scx_ballast::locality::mode::Mode;
use scx_ballast::locality::tracker::CALM_MS;
use scx_ballast::memory::{Brought, Report, Unseen};
use scx_ballast::policy::compile::{ImbNumaNr, Thresholds};
use scx_ballast::policy::locality::evidence::{MemoryPolicy, Standing};
use scx_ballast::policy::locality::sampling::PURSE_S;
use scx_ballast::policy::locality::view::{Stay, Why};
use world::*;

/// One task on the wrong node, everything calm: it is looked at twice, goes once, and stays.
#[test]
fn a_task_goes_to_its_memory_in_calm_ticks() {
    let mut world = World::new(Mode::Sampled);
    world.memory.insert(20, on([200, 0]));
    let slot = world.task(20, 1);
    let steps = world.ticks(10);
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!((steps[0].from, steps[0].to), (1, 0));
    assert_eq!(steps[0].why, Why::Preferred);
    assert_eq!(world.node_of(slot), 0);
    assert_eq!(world.preferred(), [(20, 1)]);
    assert_eq!(world.tracker.counts.preferred, 1);
    assert_eq!(world.ticks(100), []);
    // At the start nothing was near its memory, from then on all.
    let shares = &world.tracker.counts.shares;
    assert_eq!(shares[0].local_us, shares[0].seen_us);
    assert_eq!(shares[1].local_us, 0);
    assert!(shares[0].seen_us > 9_000_000, "{shares:?}");
}

/// One goes after the other, so both have to be tolerated on a node.
fn tolerant() -> Thresholds {
    Thresholds {
        imb_numa_nr: ImbNumaNr::Tasks(8),
        ..Thresholds::default()
    }
}

/// Two threads, each on the node whose memory the other one works on; of their process's as much is on either.
#[test]
fn threads_go_to_the_memory_that_each_works_on() {
    let mut world = World::with(Mode::Sampled, tolerant());
    world.memory.insert(20, on([100, 100]));
    let slots = [world.task(20, 1), world.task(20, 0)];
    // Without touches nothing tells them apart.
    assert_eq!(world.ticks(30), []);
    for (node, &slot) in slots.iter().enumerate() {
        world.touches.insert(slot, (node as u64, 0));
    }
    let steps = world.ticks(80);
    let stays = slots.map(|slot| world.stay(slot));
    assert_eq!(steps.len(), 2, "{steps:?} {stays:?}");
    assert_eq!(slots.map(|slot| world.node_of(slot)), [0, 1]);
    assert_eq!(world.ticks(100), []);
}

/// The same in a process with somewhat more memory on one node; with most of it there its threads stay together.
#[test]
fn threads_are_apart_while_the_memory_of_their_process_is() {
    for (pages, places, preferred) in [
        ([130, 70], [0, 1], vec![]),
        ([150, 50], [0, 0], vec![(20, 1)]),
    ] {
        let mut world = World::with(Mode::Sampled, tolerant());
        world.memory.insert(20, on(pages));
        let slots = [world.task(20, 1), world.task(20, 1)];
        for (node, &slot) in slots.iter().enumerate() {
            world.touches.insert(slot, (node as u64, 0));
        }
        world.ticks(100);
        assert_eq!(slots.map(|slot| world.node_of(slot)), places, "{pages:?}");
        assert_eq!(world.preferred(), preferred, "{pages:?}");
    }
}

/// Of one who joins them and of whose own memory nothing is known, that of all is not taken for it.
#[test]
fn where_threads_are_apart_nobody_goes_by_the_memory_of_all() {
    let newcomer = |others: &[u64]| {
        let mut world = World::with(Mode::Sampled, tolerant());
        world.memory.insert(20, on([130, 70]));
        for &node in others {
            let slot = world.task(20, node as u16);
            world.touches.insert(slot, (node, 0));
        }
        world.ticks(100);
        let slot = world.task(20, 1);
        world.ticks(30);
        (world.node_of(slot), world.stay(slot))
    };
    assert_eq!(newcomer(&[0, 1]), (1, Some(Stay::NoPreference)));
    assert_eq!(newcomer(&[0]), (0, Some(Stay::AtHome)));
}

/// What is known and at home is looked at seldom, and so are the tasks.
#[test]
fn a_settled_machine_is_left_alone() {
    let mut world = World::new(Mode::Sampled);
    world.memory.insert(20, on([200, 0]));
    world.task(20, 0);
    world.ticks(20);
    assert_eq!(world.tracker.counts.standings.known, 1);
    world.seen = 0;
    world.looked.clear();
    world.ticks(600);
    // Once a second, and when a look was answered.
    let looks = world.looked[&20];
    let most = 60_000 / CALM_MS as u32 + looks;
    assert!(world.seen <= most + 1, "{} of {most}", world.seen);
    // 0.5 s, doubled each time: 1, 2, 4, 8, 16, 32 s.
    assert!((3..=7).contains(&looks), "{looks}");
}

/// Nobody is looked at who does not run, nor are we ourselves.
#[test]
fn sleepers_and_the_daemon_are_not_looked_at() {
    let mut world = World::new(Mode::Sampled);
    world.memory.insert(OWN, on([200, 0]));
    world.memory.insert(20, on([200, 0]));
    world.task(OWN, 1);
    let slot = world.task(20, 1);
    world.tasks[slot as usize].busy = 49;
    world.faults.insert(0, [0, 5000]);
    assert_eq!(world.ticks(50), []);
    assert_eq!(world.looked, BTreeMap::new());
    assert_eq!(world.seen, 5);
    assert_eq!(
        world.stay(0),
        Some(Stay::Unknown),
        "our faults count nothing"
    );
    world.tasks[slot as usize].busy = 50;
    assert_eq!(world.ticks(50).len(), 1);
    assert_eq!(world.looked.keys().collect::<Vec<_>>(), [&20]);
}

/// A process that has no memory, a kernel thread, is tried ever more rarely, and costs no extra ticks.
#[test]
fn what_cannot_be_seen_is_tried_ever_more_rarely() {
    let mut world = World::new(Mode::Sampled);
    world.task(30, 0);
    world.ticks(600);
    // 0.5 + 1 + 2 + ... + 32 s are a minute.
    assert!((6..=9).contains(&world.looked[&30]), "{:?}", world.looked);
    assert_eq!(u64::from(world.looked[&30]), world.tracker.counts.gone);
    assert!(world.seen < 85, "{}", world.seen);
}

/// A minute of 40 processes as unstable as can be, which are always due. `each` changes them every second.
fn a_restless_minute(cost_us: u32, each: impl Fn(&mut Memory)) -> World {
    let mut world = World::new(Mode::Sampled);
    for tgid in 20..60 {
        let memory = Memory {
            cost_us,
            ..on([100, 100])
        };
        world.memory.insert(tgid, memory);
        world.task(tgid, (tgid % 2) as u16);
    }
    for second in 0..60 {
        world.ticks(10);
        for memory in world.memory.values_mut() {
            memory.pages = if second % 2 == 0 { [200, 0] } else { [0, 200] };
            each(memory);
        }
    }
    world
}

/// Whatever processes cost, looking stays within its budget.
#[test]
fn looking_stays_within_its_budget() {
    let world = a_restless_minute(4_000, |_| ());
    let spent = world.tracker.counts.look_us;
    let budget = 60 * u64::from(BUDGET_US);
    assert!(
        spent <= budget + budget / 10 + 200_000,
        "{spent} of {budget}"
    );
    assert!(spent >= budget / 2, "{spent} of {budget}");
    assert_eq!(world.looked.len(), 40, "nobody is left out");
}

/// ... also when looks cost more and more, and nobody knew.
#[test]
fn looks_that_cost_more_than_thought_are_paid() {
    let world = a_restless_minute(300, |memory| memory.cost_us += memory.cost_us / 10);
    let (spent, budget) = (world.tracker.counts.look_us, 60 * u64::from(BUDGET_US));
    let purse = u64::from(BUDGET_US * PURSE_S);
    // Looks beyond the purse, which cost a tenth more than they are thought to.
    let dearest = world.memory[&20].cost_us;
    assert!(
        spent <= budget + purse + 2 * u64::from(dearest),
        "{spent} of {budget}, {dearest} at last"
    );
}

/// While no look can be paid, processes of unknown memory are no reason to go through all tasks.
#[test]
fn what_cannot_be_paid_makes_no_work() {
    let mut world = World::new(Mode::Sampled);
    for tgid in 20..60 {
        // Five seconds of the budget.
        let memory = Memory {
            cost_us: 5 * BUDGET_US,
            ..on([100, 100])
        };
        world.memory.insert(tgid, memory);
        world.task(tgid, (tgid % 2) as u16);
    }
    world.ticks(600);
    let looks: u32 = world.looked.values().sum();
    assert!((10..60).contains(&looks), "{looks}");
    // Once a second, and for each look and each answer.
    assert!(
        world.seen < 60 + 2 * looks + 10,
        "{} for {looks}",
        world.seen
    );
}

/// Two threads of a process, one on either node, the memory of all on node 0, with spare: one moves if that
/// is tolerated, and none is swapped (R4). Of two processes on each other's node of a full machine both go.
#[test]
fn swaps_are_counted_once_and_only_between_groups() {
    let mut world = World::new(Mode::Sampled);
    world.memory.insert(20, on([0, 200]));
    world.memory.insert(21, on([200, 0]));
    let (a, b) = (world.task(20, 0), world.task(21, 1));
    for tgid in 30..44 {
        world.memory.insert(tgid, on([100, 100]));
        world.task(tgid, (tgid % 2) as u16);
    }
    world.ticks(30);
    assert_eq!((world.node_of(a), world.node_of(b)), (1, 0));
    assert_eq!(world.tracker.counts.swaps, 1);
    assert_eq!(world.tracker.counts.preferred, 0);
}

/// Two who would have to be swapped beside spare are refused (R4), and asked again ever more rarely.
#[test]
fn those_who_were_refused_wait() {
    let mut world = World::new(Mode::Sampled);
    for (tgid, pages) in [(20, [0, 200]), (21, [200, 0])] {
        world.memory.insert(tgid, on(pages));
        world.task(tgid, u16::from(tgid == 21));
    }
    assert_eq!(world.ticks(300), []);
    let counts = &world.tracker.counts;
    let refused = counts.no_spare_swap + counts.imbalance;
    // 0.5 + 1 + 2 + 4 + 8 + 16 s: six times each, and the seventh may have begun.
    assert!((8..=16).contains(&refused), "{refused}");
    assert!(counts.waiting > 2 * refused, "{}", counts.waiting);
}

/// Memory that was placed by rule moves nobody, and is shown as such.
#[test]
fn bound_memory_moves_nobody() {
    let mut world = World::new(Mode::Sampled);
    for (tgid, policy) in [(20, MemoryPolicy::Bind), (21, MemoryPolicy::Interleave)] {
        let memory = Memory {
            policy,
            ..on([200, 0])
        };
        world.memory.insert(tgid, memory);
        world.task(tgid, 1);
    }
    assert_eq!(world.ticks(100), []);
    assert_eq!(world.tracker.counts.standings.void, 2);
    assert_eq!(world.preferred(), []);
    assert_eq!(world.stay(0), Some(Stay::Void));
    assert_eq!(
        world.looked.values().sum::<u32>(),
        2,
        "once, and in a minute again"
    );
}

/// Processes that share their memory are one group.
#[test]
fn the_group_that_was_found_is_used() {
    let mut world = World::new(Mode::Sampled);
    for tgid in [20, 21] {
        let memory = Memory {
            group: Some(7),
            ..on([200, 0])
        };
        world.memory.insert(tgid, memory);
        world.task(tgid, 0);
    }
    world.ticks(10);
    assert_eq!(world.tracker.view().units.len(), 1);
    assert_eq!(world.preferred(), [(20, 1), (21, 1)]);
}

/// Faults alone order, they decide nothing; in this mode nobody is asked anything.
#[test]
fn first_touch_decides_nothing() {
    let mut world = World::new(Mode::FirstTouch);
    world.memory.insert(20, on([200, 0]));
    let slot = world.task(20, 1);
    world.faults.insert(slot, [5000, 0]);
    world.ticks(30);
    assert!(world.looked.is_empty());
    assert_eq!(world.tracker.steps(), None);
    assert_eq!(world.tracker.view().tasks[0].standing, Standing::FirstTouch);
    let view = world.tracker.view();
    assert_eq!(view.gain(&view.tasks[0], 1, 0), Some(1000));
}

/// Faults that say the same as the first sample make it enough.
#[test]
fn faults_confirm_a_sample() {
    let first_known = |faults: [u64; 2]| {
        let mut world = World::new(Mode::Sampled);
        world.memory.insert(20, on([200, 0]));
        let slot = world.task(20, 1);
        world.faults.insert(slot, faults);
        (1..20).find(|_| !world.tick().is_empty())
    };
    let (confirmed, alone) = (first_known([500, 0]), first_known([0, 0]));
    assert_eq!(confirmed, Some(2));
    assert!(alone > confirmed, "{alone:?}");
}

/// A thread that takes no orders is asked again, one that does not answer is not asked all the time.
#[test]
fn a_slow_memory_thread_is_not_flooded() {
    let mut world = World::new(Mode::Sampled);
    world.memory.insert(20, on([200, 0]));
    world.task(20, 1);
    world.room = 0;
    world.ticks(20);
    assert!(world.looked.is_empty());
    world.room = usize::MAX;
    world.tick();
    world.ticks(10);
    assert!(world.looked[&20] >= 1);

    // Not answered: taken out of the queue each time.
    let mut silent = World::new(Mode::Sampled);
    silent.memory.insert(20, on([200, 0]));
    silent.task(20, 1);
    for _ in 0..90 {
        silent.tick();
        silent.orders.clear();
    }
    assert_eq!(silent.looked[&20], 1);
    for _ in 0..30 {
        silent.tick();
        silent.orders.clear();
    }
    assert_eq!(silent.looked[&20], 2, "it may have been lost");
}

/// A process whose number another one has got later begins anew.
#[test]
fn those_who_are_gone_are_forgotten() {
    let mut world = World::new(Mode::Sampled);
    world.memory.insert(20, on([200, 0]));
    world.task(20, 0);
    world.ticks(20);
    assert_eq!(world.preferred(), [(20, 1)]);
    let gone = std::mem::take(&mut world.tasks);
    world.ticks(70);
    world.tasks = gone;
    world.memory.clear();
    world.ticks(20);
    assert_eq!(world.preferred(), []);
    assert_eq!(world.stay(0), Some(Stay::Unknown));
}

/// Three processes that may not leave node 1 while their memory is on node 0. With `--migrate-memory` that of the
/// free one comes, after a while and not at once; that of the bound one and of the small one's other thread,
/// which runs on node 0, do not.
#[test]
fn memory_follows_those_who_cannot_go_to_it() {
    let world = |rate: Option<u64>| {
        let mut world = World::new(Mode::Sampled);
        if let Some(rate) = rate {
            world.tracker.bring_memory(rate);
        }
        world.memory.insert(20, on([200, 0]));
        let bound = Memory {
            policy: MemoryPolicy::Bind,
            ..on([200, 0])
        };
        world.memory.insert(21, bound);
        world.memory.insert(22, on([150, 50]));
        for (tgid, node) in [(20, 1), (21, 1), (22, 1), (22, 0)] {
            let slot = world.task(tgid, node);
            world.tasks[slot as usize].nodes = 1 << node;
        }
        world
    };
    // To bring 10000 pages takes 1.2 s at 8192 a second, so they settle for as long.
    let mut following = world(Some(8192));
    following.ticks(12);
    assert_eq!(following.tracker.counts.brought_pages, 0, "not settled yet");
    following.ticks(288);
    let pages = |world: &World, tgid: i32| world.memory[&tgid].pages;
    assert!(
        pages(&following, 20)[1] >= 180,
        "{:?}",
        pages(&following, 20)
    );
    assert_eq!(pages(&following, 21), [200, 0]);
    assert_eq!(pages(&following, 22), [150, 50]);
    let brought = following.tracker.counts.brought_pages;
    assert!((9_000..=RESIDENT).contains(&brought), "{brought}");
    // And it is at home there.
    assert_eq!(following.stay(0), Some(Stay::AtHome));

    let mut staying = world(None);
    staying.ticks(300);
    assert_eq!(pages(&staying, 20), [200, 0]);
    assert_eq!(staying.stay(0), Some(Stay::Affinity));
}

/// It is at home where seven tenths of its memory are, so it goes nowhere, and the rest comes. Where eight tenths are,
/// nothing does.
#[test]
fn the_rest_of_the_memory_comes_home() {
    let mut world = World::new(Mode::Sampled);
    world.tracker.bring_memory(8192);
    for (tgid, near) in [(20, 140), (21, 160)] {
        world.memory.insert(tgid, on([200 - near, near]));
        world.task(tgid, 1);
    }
    world.ticks(300);
    assert_eq!((world.node_of(0), world.node_of(1)), (1, 1));
    let near = |tgid: i32| world.memory[&tgid].pages[1];
    assert!(near(20) >= 180, "{}", near(20));
    assert_eq!(near(21), 160);
}

/// Of two threads on different nodes one works on memory of the other's node, and may not go there. That part comes, and
/// from that tick on, before any other look, it is known that the thread is at home.
#[test]
fn a_thread_is_near_the_part_that_came_at_once() {
    let mut world = World::new(Mode::Sampled);
    world.tracker.bring_memory(8192);
    world.memory.insert(20, on([100, 100]));
    for (node, first) in [(0, 1_000), (1, 2_000)] {
        let slot = world.task(20, node);
        world.tasks[slot as usize].nodes = 1 << node;
        world.touches.insert(slot, (0, 0));
        world.pages.insert(slot, first);
    }
    let (mut before, began_ms) = (None, world.now_ms);
    for _ in 0..200 {
        world.tick();
        if world.tracker.counts.brought_pages > 0 {
            let stays = [world.stay(0), world.stay(1)];
            assert_eq!(stays, [Some(Stay::AtHome); 2]);
            assert_eq!(before, Some(Stay::Affinity));
            // Bringing all of it takes 1.2 s; who may go elsewhere would have had to be there for 5.
            assert!(world.now_ms < began_ms + 5_000, "{}", world.now_ms);
            return;
        }
        before = world.stay(1);
    }
    panic!("nothing came");
}

#[test]
fn pages_that_were_brought_are_counted() {
    let mut world = World::new(Mode::Sampled);
    let brought = |brought| Report::Brought {
        tgid: 20,
        to: 0,
        within: None,
        at_ms: 7,
        cost_us: 5,
        brought,
    };
    world.tracker.report(brought(Ok(Brought {
        moved: 300,
        refused: 20,
        finished: false,
    })));
    world.tracker.report(brought(Err(Unseen::NotAllowed)));
    let counts = &world.tracker.counts;
    assert_eq!((counts.brought_pages, counts.refused_pages), (300, 20));
    assert_eq!((counts.not_allowed, counts.bring_us), (1, 10));
    let told: Vec<_> = world.tracker.take_brought().collect();
    let moved = told.iter().map(|one| one.batch.map(|batch| batch.moved));
    assert_eq!(moved.collect::<Vec<_>>(), [Some(300), None]);
    assert_eq!((told[0].at, told[0].cost_us), (7 * NS_PER_MS, 5));
    assert_eq!(world.tracker.take_brought().count(), 0);
    assert_eq!(world.shape.nodes(), 2);
}
