// SPDX-License-Identifier: GPL-2.0-only
//! Tasks go on with their programs.

use std::collections::VecDeque;

use super::clock::Time;
use super::hardware::ONE;
use super::memory::Memory;
use super::outcome::Moment;
use super::program::{Channel, Mark, Op, Plan, Whose};
use super::task::{Counted, Process, State, Task};
use super::world::{Event, World};
use crate::policy::record::{ExitRecord, Record};

/// Where tasks wait for each other.
#[derive(Debug)]
pub(super) struct Meeting {
    /// By barrier: who sleeps or spins at it.
    pub barriers: Vec<Vec<usize>>,
    pub channels: Vec<Waiting>,
}

/// Who waits at a channel, and for what.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    messages: u32,
    pub readers: VecDeque<usize>,
    pub writers: VecDeque<usize>,
}

impl Meeting {
    pub fn new(plan: &Plan) -> Self {
        Self {
            barriers: vec![Vec::new(); plan.barriers.len()],
            channels: plan.channels.iter().map(|_| Waiting::default()).collect(),
        }
    }
}

/// What an operation comes to.
enum Step {
    /// At once the next one.
    Next,
    /// Work, on the CPU.
    Works,
    /// The task has left the CPU.
    Left,
}

impl World<'_> {
    /// The first task is there, on some CPU.
    pub(super) fn first_task(&mut self) {
        let cpu = self.random.usize(0..self.hw.nr_cpus());
        let llc = self.hw.place(cpu).llc;
        let mut task = Task::new(self.plan.root, None, cpu, llc);
        task.places.birth = self.hw.place(cpu).node;
        self.tasks.push(task);
        self.processes.push(Process {
            threads: 1,
            ..Process::new(0)
        });
        self.live += 1;
        self.start(cpu, 0);
    }

    /// The task on the CPU goes on until it has work, or leaves.
    pub(super) fn go_on(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].task else {
            return;
        };
        if self.tasks[id].left.is_some() {
            self.enter_phase(cpu, id);
            return;
        }
        loop {
            let task = &self.tasks[id];
            let Some(&op) = self.plan.programs[task.program].get(task.at) else {
                self.exit(cpu, id);
                return;
            };
            match self.step(cpu, id, op) {
                Step::Next => self.tasks[id].at += 1,
                Step::Works | Step::Left => return,
            }
        }
    }

    fn step(&mut self, cpu: usize, id: usize, op: Op) -> Step {
        match op {
            Op::Compute(work) | Op::Memory { work, .. } | Op::Touch { work, .. } => {
                let work = self.jittered(work);
                if work == 0 {
                    return Step::Next;
                }
                self.tasks[id].left = Some(work);
                self.enter_phase(cpu, id);
                return Step::Works;
            }
            Op::Sleep(ns) | Op::Away(ns) => {
                self.tasks[id].at += 1;
                let slack = match op {
                    Op::Sleep(_) => self.random.u64(0..=self.hw.params.timer_slack_ns),
                    _ => 0,
                };
                self.sleeping += 1;
                self.events
                    .announce(self.now().saturating_add(ns + slack), Event::Wake(id));
                self.sleep(cpu, id);
                return Step::Left;
            }
            Op::Busy(0) => {}
            Op::Busy(ns) => {
                let task = &mut self.tasks[id];
                (task.left, task.spins) = (Some(1), true);
                self.events.announce(self.now() + ns, Event::Busy(id));
                self.enter_phase(cpu, id);
                return Step::Works;
            }
            Op::Fork(program) => self.fork(cpu, id, program, false),
            Op::Thread(program) => self.fork(cpu, id, program, true),
            Op::Use(whose) => self.tasks[id].uses = whose,
            Op::Exec => {
                let task = &mut self.tasks[id];
                task.memory.clear();
                let process = &mut self.processes[task.process];
                process.memory.clear();
                debug_assert_eq!(process.threads, 1, "exec with other threads");
            }
            Op::Barrier(barrier) | Op::Spin(barrier) => {
                let here = self.meeting.barriers[barrier].len() as u32 + 1;
                if here == self.plan.barriers[barrier] {
                    self.open(barrier);
                    return Step::Next;
                }
                self.meeting.barriers[barrier].push(id);
                if matches!(op, Op::Spin(_)) {
                    let task = &mut self.tasks[id];
                    (task.left, task.spins) = (Some(1), true);
                    self.enter_phase(cpu, id);
                    return Step::Works;
                }
                self.tasks[id].at += 1;
                self.sleep(cpu, id);
                return Step::Left;
            }
            Op::Send(channel) => {
                let at = &mut self.meeting.channels[channel];
                let Channel { capacity, sync } = self.plan.channels[channel];
                if at.messages >= capacity {
                    at.writers.push_back(id);
                    self.sleep(cpu, id);
                    return Step::Left;
                }
                at.messages += 1;
                if let Some(reader) = at.readers.pop_front() {
                    self.wake(reader, sync.then_some(cpu));
                }
            }
            Op::Receive(channel) => {
                let at = &mut self.meeting.channels[channel];
                if at.messages == 0 {
                    at.readers.push_back(id);
                    self.sleep(cpu, id);
                    return Step::Left;
                }
                at.messages -= 1;
                if let Some(writer) = at.writers.pop_front() {
                    let sync = self.plan.channels[channel].sync;
                    self.wake(writer, sync.then_some(cpu));
                }
            }
            Op::WaitChildren if self.tasks[id].children > 0 => {
                self.sleep(cpu, id);
                return Step::Left;
            }
            Op::WaitChildren => {}
            Op::Confine(set) => {
                self.confine(id, set);
                if !self.may_use(id, cpu) {
                    self.tasks[id].at += 1;
                    self.leave(cpu, id);
                    self.start_behind(cpu);
                    self.place_wakeup(id, None);
                    self.dispatch(cpu);
                    return Step::Left;
                }
            }
            Op::Repeat { to, times } => {
                let task = &mut self.tasks[id];
                task.rounds += 1;
                if task.rounds < times {
                    task.at = to;
                    return self.step_again(cpu, id);
                }
                task.rounds = 0;
            }
            Op::Mark(mark) => self.mark(cpu, id, mark),
        }
        Step::Next
    }

    /// All have come to the barrier.
    fn open(&mut self, barrier: usize) {
        for id in std::mem::take(&mut self.meeting.barriers[barrier]) {
            match self.tasks[id].spins {
                true => self.stop_spinning(id),
                // By a futex.
                false => self.wake(id, None),
            }
        }
    }

    /// The task has spun for long enough.
    pub(super) fn stop_spinning(&mut self, id: usize) {
        let task = &mut self.tasks[id];
        task.spins = false;
        match task.state {
            State::Running(cpu) => {
                self.account_work(cpu);
                self.end_phase(cpu, id);
                self.fresh.push_back(cpu);
            }
            // It has lost its CPU, and goes on when it has one again.
            _ => (task.left, task.at) = (None, task.at + 1),
        }
    }

    /// The operation that a loop goes back to.
    fn step_again(&mut self, cpu: usize, id: usize) -> Step {
        let task = &self.tasks[id];
        match self.plan.programs[task.program].get(task.at).copied() {
            Some(op) => self.step(cpu, id, op),
            None => Step::Next,
        }
    }

    fn mark(&mut self, cpu: usize, id: usize, mark: Mark) {
        let moment = match mark {
            Mark::First => {
                self.tasks[id].places.first = Some(self.hw.place(cpu).node);
                return;
            }
            Mark::Begin => Moment::Begin,
            Mark::End => Moment::End,
        };
        self.tally.moment(moment, self.events.now());
    }

    /// The work that the task has left begins, or goes on, on the CPU.
    fn enter_phase(&mut self, cpu: usize, id: usize) {
        let node = self.hw.place(cpu).node;
        let mut shares = std::mem::take(&mut self.shares);
        let task = &self.tasks[id];
        match self.plan.programs[task.program][task.at] {
            Op::Memory { intensity, .. } => {
                self.memory_of(id).shares(node, &mut shares);
                self.demand.begin(cpu, intensity, &shares);
            }
            Op::Touch { intensity, .. } => self.demand.begin(cpu, intensity, &[(node, ONE)]),
            _ => {}
        }
        self.shares = shares;
        // So that the speed is a new one.
        self.cpus[cpu].speed = 0;
        self.stale.push(cpu);
    }

    /// The phase of the CPU's task is through.
    pub(super) fn end_phase(&mut self, cpu: usize, id: usize) {
        self.demand.end(cpu);
        let task = &mut self.tasks[id];
        task.left = None;
        task.at += 1;
    }

    /// What the task works on.
    fn memory_of(&self, id: usize) -> &Memory {
        let task = &self.tasks[id];
        match task.uses {
            Whose::Task => &task.memory,
            Whose::Process => &self.processes[task.process].memory,
        }
    }

    fn memory_of_mut(&mut self, id: usize) -> &mut Memory {
        let task = &mut self.tasks[id];
        match task.uses {
            Whose::Task => &mut task.memory,
            Whose::Process => &mut self.processes[task.process].memory,
        }
    }

    /// What the task works on is hot (R7).
    fn note_use(&mut self, id: usize) {
        let now = self.now();
        let task = &mut self.tasks[id];
        match task.uses {
            Whose::Task => task.used_at = now,
            Whose::Process => self.processes[task.process].used_at = now,
        }
    }

    /// The CPU's task has got so much done in so much time.
    pub(super) fn note_memory(&mut self, cpu: usize, id: usize, done: u64, elapsed: Time) {
        let node = self.hw.place(cpu).node;
        let task = &self.tasks[id];
        match self.plan.programs[task.program].get(task.at) {
            Some(Op::Touch { .. }) => {
                let nodes = self.hw.nr_nodes();
                self.memory_of_mut(id).touch(node, nodes, done);
                self.note_use(id);
            }
            Some(Op::Memory { .. }) => {
                let local = self.demand.shares(cpu).iter();
                let local = local.filter(|(at, _)| *at == node).map(|(_, share)| share);
                let local = local.sum();
                self.tally.memory_work(done, local);
                self.note_use(id);
                if self.setup.extras.page_rate > 0 && local < ONE {
                    self.pages_follow(node, id, (ONE - local, elapsed));
                }
            }
            _ => {}
        }
    }

    /// NUMA balancing of the kernel, as far as pages go: in so much time so many of the process's pages are
    /// scanned, its threads take turns, and what is found on another node than the task's comes to it.
    fn pages_follow(&mut self, node: usize, id: usize, (remote, elapsed): (u64, Time)) {
        let threads = u128::from(self.processes[self.tasks[id].process].threads.max(1));
        let pages_in = u128::from(self.setup.extras.page_rate) * u128::from(self.hw.params.page_ns);
        let scanned = pages_in * u128::from(elapsed) / 1_000_000_000 / threads;
        let found = scanned * u128::from(remote) / u128::from(ONE);
        let brought = self.memory_of_mut(id).bring(node, found as u64);
        self.tally.brought(brought);
    }

    /// The task sleeps; what wakes it is up to the caller. The CPU looks for another one.
    fn sleep(&mut self, cpu: usize, id: usize) {
        self.leave(cpu, id);
        let now = self.now();
        let task = &mut self.tasks[id];
        task.kept_word(now, self.setup.sync_ns);
        task.state = State::Asleep;
        task.sleeps += 1;
        let counted = self.counters.asleep(task, now, self.setup.newborn_work_ns);
        self.counters.count_as(self.hw, task, counted, now);
        self.dispatch(cpu);
    }

    fn exit(&mut self, cpu: usize, id: usize) {
        self.leave(cpu, id);
        let now: Time = self.now();
        let task = &mut self.tasks[id];
        task.state = State::Gone;
        task.places.last = Some(self.hw.place(cpu).node);
        task.memory.clear();
        let process = &mut self.processes[task.process];
        process.threads -= 1;
        if process.threads == 0 {
            process.memory.clear();
        }
        if let (Some(trace), Some(_)) = (&mut self.trace, task.parent) {
            trace.push(Record::Exit(ExitRecord {
                at: now,
                pid: id as i32,
                run_ns: task.runtime_ns,
                sleeps: task.sleeps,
            }));
        }
        self.counters.count_as(self.hw, task, Counted::None, now);
        self.live -= 1;
        self.start_behind(cpu);
        if let Some(parent) = self.tasks[id].parent {
            self.tasks[parent].children -= 1;
            let waits = &self.tasks[parent];
            let op = self.plan.programs[waits.program].get(waits.at);
            if waits.children == 0 && waits.state == State::Asleep && op == Some(&Op::WaitChildren)
            {
                // SYNC in the kernel, too, which the dispatcher does not believe of a task that is at its end.
                self.wake(parent, None);
            }
        }
        self.dispatch(cpu);
    }

    fn confine(&mut self, id: usize, set: Option<usize>) {
        let nodes = (0..self.hw.nr_nodes()).filter(|&node| {
            let range = self.hw.cpus_of_node(node);
            set.is_none_or(|set| self.sets[set].count(range) > 0)
        });
        let nodes = nodes.fold(0, |mask, node| mask | 1 << node);
        let task = &mut self.tasks[id];
        task.confined = set;
        task.nodes = nodes;
    }
}
