// SPDX-License-Identifier: GPL-2.0-only
//! A machine under the user dispatcher, and a kernel that answers from a table.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use scx_ballast::machine::{Machine, MachineBuilder};
use scx_ballast::policy::compile::{ImbNumaNr, Limits, NodeShape, Thresholds};
use scx_ballast::policy::observation::Shape;
use scx_ballast::policy::record::{FORMAT, Header};
use scx_ballast::policy::rule_set::RuleSet;
use scx_ballast::user::cpu_set::CpuSet;
use scx_ballast::user::dispatcher::{Dispatcher, Placed, Queued, Times};
use scx_ballast::user::facts::{ASKED_AT_ONCE, Facts, Seen, State};
use scx_ballast::user::places::Places;

pub const MS: u64 = 1_000_000;
pub const TIMES: Times = Times {
    slice_ns: 5 * MS,
    slice_min_ns: MS,
    newborn_ns: 1000 * MS,
    newborn_work_ns: 5 * MS,
};

/// What the kernel knows of a task.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    pub runnable: bool,
    /// It has left for another policy.
    pub elsewhere: bool,
    /// Its process, if that is not a process of its own, and who forked that.
    pub process: Option<i32>,
    pub parent: i32,
    /// It has ended, and its parent has not waited yet.
    pub ended: bool,
    pub cpu: u32,
    pub runtime_ns: u64,
    /// `None`: all.
    pub cpus: Option<Vec<u32>>,
    pub enq_cnt: u64,
    pub start_ts: u64,
    pub exec_ns: u64,
}

/// All tasks; how often it was asked, and about how many.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    pub tasks: Rc<RefCell<BTreeMap<i32, Truth>>>,
    pub questions: Rc<Cell<u64>>,
    pub looks: Rc<Cell<u64>>,
    pub nr_cpus: u32,
}

impl Facts for Kernel {
    fn ask(&mut self, tids: &[i32], seen: &mut Vec<Option<Seen>>) {
        assert!(tids.len() <= ASKED_AT_ONCE);
        self.questions.set(self.questions.get() + 1);
        self.looks.set(self.looks.get() + tids.len() as u64);
        seen.clear();
        seen.extend(tids.iter().map(|&tid| self.ask_one(tid)));
    }

    fn ask_one(&mut self, tid: i32) -> Option<Seen> {
        let tasks = self.tasks.borrow();
        let task = tasks.get(&tid)?;
        Some(Seen {
            state: match () {
                () if task.ended => State::Ended,
                () if task.elsewhere => State::Elsewhere,
                () if task.runnable => State::Runnable,
                () => State::Asleep,
            },
            cpu: task.cpu,
            ran_ns: task.runtime_ns,
            process: task.process.unwrap_or(tid),
            parent: task.process.unwrap_or(task.parent),
        })
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
}

/// A machine under the user dispatcher.
pub struct World {
    pub machine: Machine,
    pub kernel: Kernel,
    pub limits: Limits,
    pub user: Dispatcher<Kernel>,
    pub now: u64,
}

pub fn limits(machine: &Machine) -> Limits {
    let thresholds = Thresholds {
        imbalance_min: None,
        imb_numa_nr: ImbNumaNr::Auto,
    };
    Limits::compile(RuleSet::Ballast, thresholds, &NodeShape::all(machine))
}

impl World {
    pub fn on(machine: Machine, slots: usize) -> Self {
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
    pub fn small() -> Self {
        Self::on(MachineBuilder::uniform(2, 1, 4, 1).build().unwrap(), 100)
    }

    pub fn node(&self, cpu: u32) -> usize {
        self.machine.cpu_by_id(cpu).unwrap().node.as_usize()
    }

    pub fn with<T>(&self, pid: i32, change: impl FnOnce(&mut Truth) -> T) -> T {
        change(self.kernel.tasks.borrow_mut().entry(pid).or_default())
    }

    pub fn queued(&self, pid: i32, cpu: u32, woken: bool) -> Queued {
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
            }
        })
    }

    pub fn place(&mut self, queued: &Queued) -> Placed {
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
    pub fn fork(&mut self, pid: i32, parent: u32) -> u32 {
        let queued = self.queued(pid, parent, false);
        self.place(&queued).cpu
    }

    pub fn sleep(&mut self, pid: i32) {
        self.with(pid, |task| task.runnable = false);
    }

    pub fn wake(&mut self, pid: i32) -> Placed {
        let cpu = self.with(pid, |task| task.cpu);
        let queued = self.queued(pid, cpu, true);
        self.place(&queued)
    }

    /// Its slice is over after `ran` ns on its CPU.
    pub fn slice_over(&mut self, pid: i32, ran: u64) -> Placed {
        let cpu = self.with(pid, |task| {
            task.exec_ns += ran;
            task.runtime_ns += ran;
            task.cpu
        });
        let queued = self.queued(pid, cpu, false);
        self.place(&queued)
    }

    pub fn later(&mut self, ns: u64) {
        self.now += ns;
    }

    pub fn header(&self) -> Header {
        Header {
            format: FORMAT,
            version: "test".into(),
            node_ids: vec![0, 1],
            shape: Shape::of(&self.machine),
            limits: self.limits.clone(),
        }
    }
}
