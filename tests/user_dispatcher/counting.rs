// SPDX-License-Identifier: GPL-2.0-only
//! Who is counted where, whatever happens.

use proptest::prelude::*;
use scx_ballast::machine::MachineBuilder;
use scx_ballast::policy::observation::Shape;
use scx_ballast::user::tick::Balancing;

use crate::world::{MS, World};

/// R6: newborns that sleep count, for a while, and unless they have worked.
#[test]
fn newborns_asleep_count_until_they_are_old_or_have_worked() {
    let mut world = World::small();
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    for pid in 10..12 {
        world.fork(pid, 0);
        world.later(MS);
        world.sleep(pid);
    }
    world.user.take_sample(&mut balancing, world.now);
    assert_eq!(world.user.committed(), [1, 1], "after a look at who sleeps");
    world.later(1000 * MS);
    world.user.begin(world.now);
    assert_eq!(world.user.committed(), [0, 0]);

    let mut world = World::small();
    world.fork(10, 0);
    world.with(10, |task| task.runtime_ns = 6 * MS);
    world.sleep(10);
    world.later(MS);
    let parent = world.fork(11, 0);
    assert_eq!(
        world.node(parent),
        0,
        "who has worked and sleeps is not in the way"
    );
}

/// A task that waits where it was given to still has the CPU where it was before; after a second it must have run.
#[test]
fn who_waits_is_counted_where_it_was_given_to() {
    let mut world = World::small();
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    world.fork(10, 0);
    world.later(MS);
    let child = world.fork(11, 0);
    assert_eq!(world.node(child), 1);
    world.with(11, |task| task.cpu = 0);
    world.later(MS);
    world.user.take_sample(&mut balancing, world.now);
    assert_eq!(world.user.committed(), [1, 1]);
    world.later(1000 * MS);
    world.user.take_sample(&mut balancing, world.now);
    assert_eq!(world.user.committed(), [2, 0], "BPF has put it there");
}

#[test]
fn sleepers_are_no_load_and_what_is_gone_is_forgotten() {
    let mut world = World::small();
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    for pid in 10..30 {
        world.with(pid, |task| task.cpu = 0);
        world.wake(pid);
        world.sleep(pid);
    }
    for _ in 0..20 {
        world.later(25 * MS);
        world.user.take_sample(&mut balancing, world.now);
    }
    assert_eq!(world.user.committed(), [0, 0]);
    assert_eq!(world.user.tasks_known(), 20);
    world.kernel.tasks.borrow_mut().clear();
    for _ in 0..20 {
        world.later(25 * MS);
        world.user.take_sample(&mut balancing, world.now);
    }
    assert_eq!(world.user.tasks_known(), 0);
}

/// A question is about as many tasks as it has room for, and a sample asks about so many, not more.
#[test]
fn many_tasks_are_asked_about_at_once() {
    let mut world = World::on(MachineBuilder::uniform(2, 1, 4, 1).build().unwrap(), 400);
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 400);
    for pid in 100..400 {
        world.with(pid, |task| {
            (task.cpu, task.cpus) = (pid as u32 % 8, Some(vec![pid as u32 % 8]))
        });
        world.wake(pid);
        world.sleep(pid);
    }
    world.later(25 * MS);
    let (looks, questions) = (world.kernel.looks.get(), world.kernel.questions.get());
    world.user.take_sample(&mut balancing, world.now);
    // And eight are checked one by one, of which some sleep.
    let looks = world.kernel.looks.get() - looks;
    let questions = world.kernel.questions.get() - questions;
    let checked = questions - 256 / 64;
    assert!(
        checked <= 8 && looks == 256 + checked,
        "{looks} in {questions}"
    );
    let counted: u32 = world.user.committed().iter().sum();
    assert_eq!(counted, 300 - 256);
    world.later(25 * MS);
    world.user.take_sample(&mut balancing, world.now);
    assert_eq!(world.user.committed(), [0, 0]);
}

/// One that is woken, has the CPU, and leaves for another policy.
#[test]
fn who_is_scheduled_elsewhere_is_no_load() {
    let mut world = World::small();
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    world.with(10, |task| task.cpu = 0);
    world.wake(10);
    assert_eq!(world.user.committed(), [1, 0]);
    world.with(10, |task| task.elsewhere = true);
    world.later(MS);
    world.user.take_sample(&mut balancing, world.now);
    assert_eq!(world.user.committed(), [0, 0]);
}

/// Its parent has not waited yet: it is no newborn asleep.
#[test]
fn who_has_ended_is_no_newborn() {
    let mut world = World::small();
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    world.fork(10, 0);
    world.later(MS);
    world.with(10, |task| (task.runnable, task.ended) = (false, true));
    world.user.take_sample(&mut balancing, world.now);
    assert_eq!(
        (world.user.committed(), world.user.tasks_known()),
        (vec![0, 0], 0)
    );
}

#[derive(Debug, Clone)]
enum Event {
    Fork(u32),
    Sleep(usize),
    Wake(usize),
    SliceOver(usize, u64),
    Confine(usize, Vec<u32>),
    End(usize),
    Later(u64),
    Sample,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..8u32).prop_map(Event::Fork),
        3 => (0..30usize).prop_map(Event::Sleep),
        3 => (0..30usize).prop_map(Event::Wake),
        3 => (0..30usize, 0..10 * MS).prop_map(|(task, ran)| Event::SliceOver(task, ran)),
        1 => (0..30usize, prop::collection::vec(0..8u32, 1..3)).prop_map(|(t, c)| Event::Confine(t, c)),
        1 => (0..30usize).prop_map(Event::End),
        2 => (0..400 * MS).prop_map(Event::Later),
        1 => Just(Event::Sample),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens: nobody is counted twice or is missing ([`World::place`] audits), no task is sent where
    /// it may not run, and after a look at all, who is counted as running does.
    #[test]
    fn counters_are_those_of_the_tasks(events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::on(MachineBuilder::uniform(2, 2, 2, 1).build().unwrap(), 24);
        let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 24);
        let mut alive: Vec<i32> = Vec::new();
        let mut next = 100;
        for event in events {
            let pick = |task: usize| alive.get(task % alive.len().max(1)).copied();
            match event {
                Event::Fork(cpu) => {
                    world.fork(next, cpu);
                    alive.push(next);
                    next += 1;
                }
                Event::Sleep(task) => {
                    if let Some(pid) = pick(task) {
                        world.sleep(pid);
                    }
                }
                Event::Wake(task) => {
                    if let Some(pid) = pick(task).filter(|&pid| !world.with(pid, |t| t.runnable)) {
                        let placed = world.wake(pid);
                        let cpus = world.with(pid, |t| t.cpus.clone());
                        let unseen = world.user.tally.unseen > 0;
                        prop_assert!(unseen || cpus.is_none_or(|cpus| cpus.contains(&placed.cpu)));
                    }
                }
                Event::SliceOver(task, ran) => {
                    if let Some(pid) = pick(task).filter(|&pid| world.with(pid, |t| t.runnable)) {
                        world.slice_over(pid, ran);
                    }
                }
                Event::Confine(task, mut cpus) => {
                    if let Some(pid) = pick(task) {
                        cpus.sort_unstable();
                        cpus.dedup();
                        world.with(pid, |t| t.cpus = Some(cpus));
                    }
                }
                Event::End(task) => {
                    if let Some(pid) = pick(task) {
                        world.kernel.tasks.borrow_mut().remove(&pid);
                        alive.retain(|&other| other != pid);
                    }
                }
                Event::Later(ns) => world.later(ns),
                Event::Sample => world.user.take_sample(&mut balancing, world.now),
            }
            world.user.audit().unwrap();
        }
        world.later(2000 * MS);
        world.user.begin(world.now);
        world.user.take_sample(&mut balancing, world.now);
        let counted: u32 = world.user.committed().iter().sum();
        let run = world.kernel.tasks.borrow().values().filter(|task| task.runnable).count();
        prop_assert!(counted as usize <= run, "{counted} are counted, {run} run");
        if world.user.tally.unseen == 0 {
            prop_assert_eq!(counted as usize, run);
        }
    }
}
