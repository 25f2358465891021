// SPDX-License-Identifier: GPL-2.0-only
//! The user dispatcher without BPF and without a kernel: what is queued is told to it, what it asks about tasks
//! is answered from a table.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use scx_ballast::machine::{Machine, MachineBuilder};
use scx_ballast::policy::compile::{ImbNumaNr, Limits, NodeShape, Thresholds};
use scx_ballast::policy::limits::tolerated;
use scx_ballast::policy::observation::Shape;
use scx_ballast::policy::record::{ExitRecord, FORMAT, Header, Record, Replay, TickRecord};
use scx_ballast::policy::rule_set::RuleSet;
use scx_ballast::user::dispatcher::{Dispatcher, Placed, Queued, Times};
use scx_ballast::user::facts::{CpuSet, Facts, Kin, Look, State};
use scx_ballast::user::places::Places;
use scx_ballast::user::tick::Balancing;

const MS: u64 = 1_000_000;
const TIMES: Times = Times {
    slice_ns: 5 * MS,
    slice_min_ns: MS,
    newborn_ns: 1000 * MS,
    newborn_work_ns: 5 * MS,
};

/// What the kernel knows of a task.
#[derive(Debug, Clone, Default)]
struct Truth {
    runnable: bool,
    /// It has left for another policy.
    elsewhere: bool,
    /// Its process, if that is not a process of its own, and who forked that.
    process: Option<i32>,
    parent: i32,
    /// It has ended, and its parent has not waited yet.
    ended: bool,
    cpu: u32,
    runtime_ns: u64,
    /// `None`: all.
    cpus: Option<Vec<u32>>,
    enq_cnt: u64,
    start_ts: u64,
    exec_ns: u64,
    /// A thread of the kernel; one about which only some things may be asked; one that has such a name.
    kernels: bool,
    worker: bool,
    named_worker: bool,
}

/// All tasks; how often it was asked.
#[derive(Debug, Clone, Default)]
struct Kernel {
    tasks: Rc<RefCell<BTreeMap<i32, Truth>>>,
    looks: Rc<Cell<u64>>,
    nr_cpus: u32,
}

impl Facts for Kernel {
    fn look(&mut self, tid: i32) -> Option<Look> {
        self.looks.set(self.looks.get() + 1);
        let tasks = self.tasks.borrow();
        let task = tasks.get(&tid).filter(|task| !task.ended)?;
        assert!(!task.worker, "the state of a worker");
        Some(Look {
            state: match (task.elsewhere, task.runnable) {
                (true, _) => State::Elsewhere,
                (false, true) => State::Runnable,
                (false, false) => State::Asleep,
            },
            cpu: task.cpu,
            ran_ns: task.runtime_ns / (10 * MS) * (10 * MS),
        })
    }

    fn runtime_ns(&mut self, tid: i32) -> Option<u64> {
        Some(self.tasks.borrow().get(&tid)?.runtime_ns)
    }

    fn affinity(&mut self, tid: i32, set: &mut CpuSet) -> bool {
        let tasks = self.tasks.borrow();
        let Some(task) = tasks.get(&tid) else {
            return false;
        };
        // The kernel refuses a set that has no room for all CPUs.
        assert!(set.room() >= self.nr_cpus as usize);
        let room = set.room();
        *set = match &task.cpus {
            Some(cpus) => CpuSet::of(cpus.iter().copied()),
            None => CpuSet::of(0..self.nr_cpus),
        };
        if set.room() < room {
            let mut larger = CpuSet::below(room);
            (0..self.nr_cpus)
                .filter(|&cpu| set.contains(cpu))
                .for_each(|cpu| larger.add(cpu));
            *set = larger;
        }
        true
    }

    fn kin(&mut self, tid: i32) -> Option<Kin> {
        let tasks = self.tasks.borrow();
        let task = tasks.get(&tid)?;
        assert!(!task.worker, "the process of a worker");
        Some(Kin {
            process: task.process.unwrap_or(tid),
            parent: task.process.unwrap_or(task.parent),
        })
    }

    fn is_kernels(&mut self, tid: i32) -> bool {
        self.tasks
            .borrow()
            .get(&tid)
            .is_none_or(|task| task.kernels)
    }
}

/// A machine under the user dispatcher.
struct World {
    machine: Machine,
    kernel: Kernel,
    limits: Limits,
    user: Dispatcher<Kernel>,
    now: u64,
}

fn limits(machine: &Machine) -> Limits {
    let thresholds = Thresholds {
        imbalance_min: None,
        imb_numa_nr: ImbNumaNr::Auto,
    };
    Limits::compile(RuleSet::Ballast, thresholds, &NodeShape::all(machine))
}

impl World {
    fn on(machine: Machine, slots: usize) -> Self {
        let kernel = Kernel {
            nr_cpus: machine.cpus().len() as u32,
            ..Kernel::default()
        };
        let limits = limits(&machine);
        let more = (slots, vec![1], true);
        let places = Places::new(&machine);
        let mut user = Dispatcher::new(places, limits.clone(), TIMES, kernel.clone(), more);
        user.settle();
        Self {
            machine,
            kernel,
            limits,
            user,
            now: 1000 * MS,
        }
    }

    /// Two nodes of 4 CPUs.
    fn small() -> Self {
        Self::on(MachineBuilder::uniform(2, 1, 4, 1).build().unwrap(), 100)
    }

    fn node(&self, cpu: u32) -> usize {
        self.machine.cpu_by_id(cpu).unwrap().node.as_usize()
    }

    fn with<T>(&self, pid: i32, change: impl FnOnce(&mut Truth) -> T) -> T {
        change(self.kernel.tasks.borrow_mut().entry(pid).or_default())
    }

    fn queued(&self, pid: i32, cpu: u32, woken: bool) -> Queued {
        self.with(pid, |task| {
            task.enq_cnt += 1;
            if woken {
                task.exec_ns = 0;
            }
            Queued {
                pid,
                cpu,
                nr_cpus_allowed: task
                    .cpus
                    .as_ref()
                    .map_or(self.kernel.nr_cpus, |c| c.len() as u32)
                    .into(),
                woken,
                start_ts: task.start_ts,
                stop_ts: task.start_ts + task.exec_ns,
                exec_runtime: task.exec_ns,
                weight: 100,
                enq_cnt: task.enq_cnt,
                named_worker: task.worker || task.named_worker,
            }
        })
    }

    fn place(&mut self, queued: &Queued) -> Placed {
        self.user.begin(self.now);
        let placed = self.user.place(queued, self.now);
        self.with(queued.pid, |task| {
            task.runnable = true;
            task.cpu = placed.cpu;
            task.start_ts = self.now;
        });
        self.user.audit().unwrap();
        placed
    }

    /// A task of a parent on CPU `parent` is born; returns its CPU.
    fn fork(&mut self, pid: i32, parent: u32) -> u32 {
        let queued = self.queued(pid, parent, false);
        self.place(&queued).cpu
    }

    fn sleep(&mut self, pid: i32) {
        self.with(pid, |task| task.runnable = false);
    }

    fn wake(&mut self, pid: i32) -> Placed {
        let cpu = self.with(pid, |task| task.cpu);
        let queued = self.queued(pid, cpu, true);
        self.place(&queued)
    }

    /// Its slice is over after `ran` ns on its CPU.
    fn slice_over(&mut self, pid: i32, ran: u64) -> Placed {
        let cpu = self.with(pid, |task| {
            task.exec_ns += ran;
            task.runtime_ns += ran;
            task.cpu
        });
        let queued = self.queued(pid, cpu, false);
        self.place(&queued)
    }

    fn later(&mut self, ns: u64) {
        self.now += ns;
    }

    fn header(&self) -> Header {
        Header {
            format: FORMAT,
            version: "test".into(),
            node_ids: vec![0, 1],
            shape: Shape::of(&self.machine),
            limits: self.limits.clone(),
        }
    }
}

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

#[test]
fn an_imbalance_is_evened_out_by_wishes_and_replays() {
    let mut world = World::small();
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    for pid in 10..14 {
        let cpu = pid as u32 - 10;
        world.with(pid, |task| task.cpu = cpu);
        world.wake(pid);
    }
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
    let mut world = World::small();
    let mut balancing = Balancing::new(&Shape::of(&world.machine), &world.limits, 100);
    for pid in 10..14 {
        let cpu = pid as u32 - 10;
        world.with(pid, |task| task.cpu = cpu);
        world.wake(pid);
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
        [end(ended_at, 20, 7 * MS, 2), end(world.now, 21, 30 * MS, 0),],
        "who has left for another policy has not ended"
    );
    assert_eq!(world.user.tasks_known(), 2);
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
