// SPDX-License-Identifier: GPL-2.0-only
//! Workers of the kernel.

use scx_ballast::policy::observation::Shape;
use scx_ballast::user::tick::Balancing;

use crate::world::{MS, World};

/// What /proc says of a worker of the kernel waits for a mutex that a task may have which is to be placed.
#[test]
fn nothing_is_asked_about_the_kernels_workers() {
    let mut world = World::small();
    // It was counted when it was no worker.
    world.with(10, |task| task.kernels = true);
    world.wake(10);
    assert_eq!(world.user.committed().iter().sum::<u32>(), 1);
    world.with(10, |task| task.worker = true);
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    for _ in 0..10 {
        world.later(25 * MS);
        assert_eq!(world.wake(10).cpu, 0);
        assert_eq!(world.user.committed()[0], 0);
        world.user.take_sample(&mut balancing, world.now);
        // Crowded elsewhere, so that tasks are asked about.
        for pid in 20..26 {
            world.with(pid, |task| (task.cpu, task.cpus) = (4, Some(vec![4])));
            world.wake(pid);
        }
        world.user.tick(&mut balancing, world.now, |_| ());
    }
    // Somebody is there, then everywhere in the LLC; one that may go nowhere else waits.
    world.with(11, |task| task.cpu = 0);
    assert_eq!(world.wake(11).cpu, 0);
    assert_eq!(world.wake(10).cpu, 1);
    world.with(10, |task| (task.cpu, task.cpus) = (0, Some(vec![0])));
    assert_eq!(world.wake(10).cpu, 0);
    // It is gone, and that is seen without such a question.
    let known = world.user.tasks_known();
    world.kernel.tasks.borrow_mut().remove(&10);
    for _ in 0..10 {
        world.user.take_sample(&mut balancing, world.now);
    }
    assert_eq!(world.user.tasks_known(), known - 1);
}

/// One that never ends its work owes for it like anybody else: who waits on its CPU has a turn.
#[test]
fn a_worker_pays_for_its_turns() {
    let mut world = World::small();
    world.with(10, |task| (task.kernels, task.worker) = (true, true));
    let first = world.wake(10);
    let later = (0..5)
        .map(|_| {
            world.later(5 * MS);
            world.slice_over(10, 5 * MS)
        })
        .last()
        .unwrap();
    assert_eq!(later.cpu, first.cpu);
    assert!(later.vtime >= first.vtime + 20 * MS, "{first:?} {later:?}");
}

/// The CPU that a worker was given to may have fallen asleep meanwhile; it is woken a few times, not for ever.
#[test]
fn a_workers_cpu_is_woken_again() {
    let mut world = World::small();
    world.with(10, |task| (task.kernels, task.worker) = (true, true));
    world.wake(10);
    let mut woken = Vec::new();
    for ms in 0..3000 {
        world.later(MS);
        world.user.overdue(world.now, |cpu| woken.push((ms, cpu)));
    }
    assert_eq!(woken.len(), 6, "{woken:?}");
    assert!(
        woken[0].0 < 25 && woken.iter().all(|&(_, cpu)| cpu == 0),
        "{woken:?}"
    );
}

/// A program that has given itself the name of a worker is treated like any other.
#[test]
fn a_name_alone_makes_no_worker() {
    let mut world = World::small();
    world.with(10, |task| task.named_worker = true);
    world.wake(10);
    assert_eq!(world.user.committed().iter().sum::<u32>(), 1);
}
