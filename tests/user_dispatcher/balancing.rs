// SPDX-License-Identifier: GPL-2.0-only
//! Ticks, and what is traced.

use scx_ballast::policy::observation::Shape;
use scx_ballast::policy::record::{ExitRecord, Record, Replay, TickRecord};
use scx_ballast::user::tick::Balancing;

use crate::world::{MS, World};

/// Tasks 10 to 13 run on CPUs 0 to 3, which are node 0.
fn four_on_one_node() -> (World, Balancing) {
    let mut world = World::small();
    let balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    for pid in 10..14 {
        let cpu = pid as u32 - 10;
        world.with(pid, |task| task.cpu = cpu);
        world.wake(pid);
    }
    (world, balancing)
}

#[test]
fn an_imbalance_is_evened_out_by_wishes_and_replays() {
    let (mut world, mut balancing) = four_on_one_node();
    let mut records = vec![Record::Header(world.header())];
    let mut visits = Vec::new();
    for _ in 0..5 {
        for _ in 0..4 {
            world.later(25 * MS);
            for pid in 10..14 {
                world.with(pid, |task| task.runtime_ns += 25 * MS);
            }
            world.user.take_sample(&mut balancing, world.now);
        }
        if world
            .user
            .tick(&mut balancing, world.now, |cpu| visits.push(cpu))
        {
            let (observation, decisions) = balancing.last();
            records.push(Record::Tick(TickRecord {
                observation: observation.clone(),
                decisions: decisions.clone(),
                locality: None,
            }));
            break;
        }
    }
    assert_eq!(
        visits.len(),
        2,
        "half of an excess of 4, each alone on its CPU"
    );
    let moved: Vec<i32> = (10..14)
        .filter(|&pid| {
            let cpu = world.slice_over(pid, 5 * MS).cpu;
            world.node(cpu) == 1
        })
        .collect();
    assert_eq!(moved.len(), 2, "{moved:?}");
    assert_eq!(world.user.tally.moved, 2);
    let mut replay = Replay::default();
    for record in records {
        replay.check(record).unwrap();
    }
    assert_eq!((replay.ticks, replay.moves, replay.mismatches), (1, 2, 0));
}

/// A change of affinity that was not told is seen before a move is decided.
#[test]
fn confined_hogs_are_not_asked_to_move() {
    let (mut world, mut balancing) = four_on_one_node();
    for pid in 10..14 {
        world.with(pid, |task| task.cpus = Some(vec![0, 1, 2, 3]));
    }
    for _ in 0..5 {
        world.later(100 * MS);
        for pid in 10..14 {
            world.with(pid, |task| task.runtime_ns += 100 * MS);
        }
        world
            .user
            .tick(&mut balancing, world.now, |_| panic!("a visit"));
        let (observation, decisions) = balancing.last();
        assert!(decisions.moves.is_empty(), "{decisions:?}");
        assert!(observation.tasks.iter().all(|task| task.nodes == 1));
    }
}

/// What makes a trace a workload: who forked whom, and when and how each ended.
#[test]
fn parents_and_ends_are_traced() {
    let mut world = World::small();
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    // A process 10 with a second thread 11 on the CPU where it forks.
    world.with(10, |task| (task.cpu, task.runtime_ns) = (0, MS));
    world.wake(10);
    world.later(MS);
    world.sleep(10);
    world.with(11, |task| {
        (task.cpu, task.runtime_ns, task.process) = (0, MS, Some(10))
    });
    world.wake(11);
    world.later(MS);
    world.with(20, |task| task.parent = 10);
    let child = world.fork(20, 0);
    world.with(21, |task| task.process = Some(20));
    world.fork(21, child);
    world.with(22, |task| task.parent = 77);
    world.fork(22, 0);
    let parents: Vec<_> = world
        .user
        .take_records()
        .filter_map(|record| match record {
            Record::Fork(fork) => Some((fork.pid, fork.parent)),
            _ => None,
        })
        .collect();
    // The thread that ran there; a thread's is one of its process; nobody knows the last.
    assert_eq!(parents, [(20, Some(11)), (21, Some(20)), (22, Some(77))]);

    // 20 sleeps twice, runs, and its parent waits late; 21 is gone at once, seen last after 35 ms.
    for pid in [20, 20] {
        world.later(MS);
        world.sleep(pid);
        world.wake(pid);
    }
    world.with(20, |task| (task.runtime_ns, task.ended) = (7 * MS, true));
    world.with(21, |task| task.runtime_ns = 35 * MS);
    world.later(25 * MS);
    world.user.take_sample(&mut balancing, world.now);
    let ended_at = world.now;
    world.kernel.tasks.borrow_mut().remove(&21);
    world.with(22, |task| task.elsewhere = true);
    world.later(25 * MS);
    world.user.take_sample(&mut balancing, world.now);
    let end = |at, pid, run_ns, sleeps| {
        Record::Exit(ExitRecord {
            at,
            pid,
            run_ns,
            sleeps,
        })
    };
    let ends: Vec<_> = world.user.take_records().collect();
    assert_eq!(
        ends,
        [end(ended_at, 20, 7 * MS, 2), end(world.now, 21, 35 * MS, 0),],
        "who has left for another policy has not ended"
    );
    assert_eq!(world.user.tasks_known(), 2);
}
