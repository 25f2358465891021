// SPDX-License-Identifier: GPL-2.0-only
//! Where queued tasks go.

use scx_ballast::machine::MachineBuilder;
use scx_ballast::policy::limits::tolerated;
use scx_ballast::policy::record::{Record, Replay};
use scx_ballast::user::dispatcher::Queued;

use crate::world::{MS, World};

#[test]
fn a_burst_of_forks_that_sleep_is_spread_by_the_rule_and_replays() {
    for (tasks, llcs) in [(3, 1), (4, 1), (8, 1), (8, 2)] {
        let machine = MachineBuilder::uniform(2, llcs, 4, 1).build().unwrap();
        let mut world = World::on(machine, 100);
        let parent = world.fork(100, 0);
        let mut count = [0u32; 2];
        count[world.node(parent)] += 1;
        for pid in 0..tasks {
            world.later(MS);
            let cpu = world.fork(200 + pid, parent);
            count[world.node(cpu)] += 1;
            // It sleeps before the next one is born.
            world.sleep(200 + pid);
        }
        let weight = 4 * llcs;
        let most = world.limits.fork.max_running[0];
        let (more, less) = (count[0].max(count[1]), count[0].min(count[1]));
        assert!(
            tolerated(more, weight, less, weight, most, 2),
            "{tasks} tasks: {count:?}"
        );

        let mut replay = Replay::default();
        replay.check(Record::Header(world.header())).unwrap();
        for record in world.user.take_records() {
            replay.check(record).unwrap();
        }
        assert_eq!((replay.forks, replay.mismatches), (tasks as u64 + 1, 0));
    }
}

#[test]
fn a_woken_task_goes_to_its_cpu_its_llc_its_node_and_elsewhere_only_when_that_is_full() {
    let mut world = World::on(MachineBuilder::uniform(2, 2, 2, 1).build().unwrap(), 100);
    // CPUs 0-1 and 2-3 are the LLCs of node 0.
    world.with(50, |task| task.cpu = 0);
    assert_eq!(world.wake(50).cpu, 0);
    world.sleep(50);
    world.later(MS);
    // Somebody has its CPU for good.
    for (pid, cpu) in [(60, 0), (61, 1), (62, 2), (63, 3)] {
        world.with(pid, |task| {
            task.cpus = Some(vec![cpu]);
            task.cpu = cpu;
        });
        let next = world.wake(50).cpu;
        assert_eq!(next, cpu, "the nearest that is idle");
        world.sleep(50);
        world.later(MS);
        assert_eq!(world.wake(pid).cpu, cpu);
        world.later(MS);
    }
    let away = world.wake(50).cpu;
    assert_eq!(world.node(away), 1, "node 0 has no spare");
}

/// Nobody tells when a task falls asleep: it is looked at when its CPU is wanted, not sooner and not twice.
#[test]
fn looks_are_made_where_they_decide_something() {
    let mut world = World::small();
    for (pid, cpu) in [(10, 0), (11, 1), (12, 2), (13, 3)] {
        world.with(pid, |task| task.cpu = cpu);
        world.wake(pid);
    }
    assert_eq!(world.kernel.looks.get(), 0, "each CPU was empty");
    world.later(MS);
    world.sleep(10);
    // Its own CPU: one look finds that it sleeps there.
    world.with(20, |task| task.cpu = 0);
    assert_eq!(world.wake(20).cpu, 0);
    assert_eq!(world.kernel.looks.get(), 1);
    // Known a moment ago: nothing is asked, and it waits behind somebody.
    world.with(21, |task| task.cpu = 0);
    let before = world.kernel.looks.get();
    world.later(1000);
    world.wake(21);
    let asked = world.kernel.looks.get() - before;
    assert!(
        asked <= 3,
        "{asked} looks at three tasks that were not known a moment ago"
    );
}

#[test]
fn affinity_holds_and_is_asked_for_only_when_it_is_narrow() {
    let mut world = World::small();
    world.with(10, |task| task.cpus = Some(vec![5, 6]));
    for _ in 0..10 {
        let cpu = world.fork(10, 0);
        assert!([5, 6].contains(&cpu));
        world.with(10, |task| task.enq_cnt = 0);
        world.later(MS);
    }
    // Migration disabled: one CPU although its affinity names all. It stays.
    let mut world = World::on(MachineBuilder::uniform(2, 1, 80, 1).build().unwrap(), 100);
    let kept = Queued {
        nr_cpus_allowed: 1,
        ..world.queued(30, 3, true)
    };
    assert_eq!(world.place(&kept).cpu, 3);
    world.later(MS);
    let again = Queued {
        nr_cpus_allowed: 1,
        ..world.queued(30, 3, false)
    };
    assert_eq!(world.place(&again).cpu, 3);
}

#[test]
fn who_is_alone_stays_and_who_shares_a_cpu_goes_to_an_idle_one() {
    let mut world = World::small();
    world.with(10, |task| task.cpu = 1);
    world.wake(10);
    world.later(5 * MS);
    assert_eq!(world.slice_over(10, 5 * MS).cpu, 1);
    world.with(11, |task| task.cpus = Some(vec![1]));
    world.with(11, |task| task.cpu = 1);
    assert_eq!(world.wake(11).cpu, 1);
    world.later(5 * MS);
    let cpu = world.slice_over(10, 5 * MS).cpu;
    assert!(cpu != 1 && cpu < 4, "an idle CPU of its LLC, not {cpu}");
}

#[test]
fn virtual_time_bounds_credit_and_debt() {
    let mut world = World::small();
    world.with(10, |task| {
        task.cpu = 0;
        task.cpus = Some(vec![0]);
    });
    let first = world.wake(10).vtime;
    for _ in 0..100 {
        world.later(5 * MS);
        world.slice_over(10, 5 * MS);
    }
    // 500 ms later one that has never run is at most a slice ahead.
    world.with(11, |task| {
        task.cpu = 0;
        task.cpus = Some(vec![0]);
    });
    let late = world.wake(11).vtime;
    let hog = world.slice_over(10, 5 * MS).vtime;
    assert!(
        late > first + 400 * MS && late < hog,
        "{first} {late} {hog}"
    );
    assert!(hog - late <= 10 * MS, "{}", hog - late);
    // What it ran beyond its slice nobody else wanted.
    world.later(1000 * MS);
    let after = world.slice_over(10, 1000 * MS).vtime;
    let waker = world.slice_over(11, MS).vtime;
    assert!(after.saturating_sub(waker) < 1100 * MS);
}

/// BPF may let a task lie in the queue of a CPU that is asleep: that is woken.
#[test]
fn a_cpu_is_woken_while_a_task_that_it_was_given_does_not_come_back() {
    let mut world = World::small();
    world.with(10, |task| task.cpu = 2);
    world.wake(10);
    let overdue = |world: &mut World| {
        let mut cpus = Vec::new();
        world.user.overdue(world.now, |cpu| cpus.push(cpu));
        cpus
    };
    assert_eq!(overdue(&mut world), [0u32; 0]);
    world.later(20 * MS);
    assert_eq!(overdue(&mut world), [2]);
    assert_eq!(overdue(&mut world), [0u32; 0]);
    world.later(39 * MS);
    assert_eq!(overdue(&mut world), [0u32; 0]);
    world.later(MS);
    assert_eq!(overdue(&mut world), [2]);
    world.later(10 * MS);
    world.slice_over(10, 5 * MS);
    world.later(15 * MS);
    assert_eq!(overdue(&mut world), [0u32; 0], "it was given anew");
}

/// All of a burst is placed after its parent has begun to wait for it: it counts as at the time of the forks.
#[test]
fn a_parent_that_waits_already_counts_as_when_it_forked() {
    for (awake, asleep) in [(true, 0), (false, 1), (false, 4)] {
        let mut world = World::small();
        world.with(10, |task| (task.cpu, task.runtime_ns) = (0, MS));
        world.wake(10);
        for pid in 20..24 {
            world.later(MS);
            if !awake && 24 - pid <= asleep {
                world.sleep(10);
            }
            world.with(pid, |task| task.parent = 10);
            world.fork(pid, 0);
            world.sleep(pid);
        }
        let seen: Vec<_> = world
            .user
            .take_records()
            .filter_map(|record| match record {
                Record::Fork(fork) => Some((fork.committed, fork.node)),
                _ => None,
            })
            .collect();
        let least = [([1, 0], 1), ([1, 1], 0), ([2, 1], 1), ([2, 2], 0)];
        let least = least.map(|(committed, node)| (committed.to_vec(), node));
        assert_eq!(seen, least, "asleep at the last {asleep}");
    }
}

/// It comes from another policy, or is older than the scheduler: queued for the first time, and no child of the CPU's
/// task.
#[test]
fn who_has_run_before_is_not_new() {
    let mut world = World::small();
    for (pid, ran) in [(10, MS), (11, 0)] {
        world.with(pid, |task| task.runtime_ns = ran);
        world.fork(pid, 0);
        let forks = world.user.tally.fork_local + world.user.tally.fork_remote;
        assert_eq!(forks == 0, ran > 0);
    }
    assert_eq!(world.user.committed().iter().sum::<u32>(), 2);
}

/// Without a slot a task is placed where it was; threads of this process are, too, and are no load.
#[test]
fn who_is_not_counted_stays_where_it_was() {
    let mut world = World::on(MachineBuilder::uniform(2, 1, 4, 1).build().unwrap(), 1);
    world.with(10, |task| task.cpu = 4);
    world.wake(10);
    world.with(11, |task| task.cpu = 6);
    assert_eq!((world.wake(11).cpu, world.user.tally.unseen), (6, 1));
    world.with(1, |task| task.cpu = 7);
    assert_eq!(world.wake(1).cpu, 7);
    assert_eq!(world.user.committed(), [0, 1]);
}

#[test]
fn a_thread_id_that_is_used_again_is_a_new_task() {
    let mut world = World::small();
    world.fork(10, 0);
    world.later(MS);
    world.slice_over(10, 3 * MS);
    let forks = world.user.tally.fork_local + world.user.tally.fork_remote;
    world.kernel.tasks.borrow_mut().clear();
    world.fork(10, 0);
    let now = world.user.tally.fork_local + world.user.tally.fork_remote;
    assert_eq!(now, forks + 1);
}
