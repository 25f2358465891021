// SPDX-License-Identifier: GPL-2.0-only
//! A run: the state of the simulated machine, and the loop over events.
//!
//! An event only changes who runs where. What follows from it is worked out at once: tasks that came to a CPU go
//! on with their programs ([`steps`](super::steps)). Before time goes on, everybody whose circumstances have
//! changed gets a new speed. So no function calls itself by way of a wake-up, and a moment in which
//! hundreds of tasks leave a barrier costs one look at each.
//!
//! Invariants, asserted in every run: counters equal what a recount finds, a task is in one place, runs only
//! where it may, and no task is forgotten (see [`audit`](super::audit)).

use std::collections::VecDeque;

use thiserror::Error;

use super::clock::{Events, Time};
use super::counters::Counters;
use super::demand::Demand;
use super::dispatcher::balance::Balancing;
use super::extras::Extras;
use super::hardware::{Hardware, ONE};
use super::idle::{CpuSet, IdleCpus};
use super::locality::Locality;
use super::occupancy::Occupancy;
use super::outcome::Tally;
use super::program::Plan;
use super::queue::Queue;
use super::steps::Meeting;
use super::still::Still;
use super::task::{Process, State, Task};
use crate::policy::compile::Limits;
use crate::policy::record::Record;

/// How the scheduler is set up.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Setup {
    pub limits: Limits,
    pub slice_ns: u64,
    pub slice_min_ns: u64,
    pub pull_delay_ns: u64,
    /// 0: no wakee is left behind its waker.
    pub sync_ns: u64,
    pub newborn_ns: u64,
    pub newborn_work_ns: u64,
    /// 0: never.
    pub balance_ns: u64,
    pub extras: Extras,
}

impl Setup {
    /// Forked tasks count where they sleep (R6).
    pub fn counts_newborns(&self) -> bool {
        self.newborn_ns > 0 && self.newborn_work_ns > 0
    }
}

/// Why a run came to no end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SimError {
    #[error("{}; waiting {waits}", stuck(*.live, *.spinning))]
    Stuck {
        live: usize,
        /// Those of them that are awake, and only spin.
        spinning: usize,
        waits: String,
    },
    #[error("{} not through after {seconds} simulated second{}, the limit that --limit-s sets{doing}{}",
            tasks(*.live), plural(*.seconds), asleep(.waits))]
    TooLong {
        live: usize,
        seconds: u64,
        /// What those do that wait for nobody: empty, or with what parts it from the rest of the sentence.
        doing: String,
        waits: String,
    },
    #[error("the last `mark end`{} comes before the first `mark begin`{} when this runs: there is no time between them to report",
            line(.lines.map(|(_, end)| end)), line(.lines.map(|(begin, _)| begin)))]
    Backwards {
        /// Of both in the file, if there is one: begin and end.
        lines: Option<(usize, usize)>,
    },
}

fn line(number: Option<usize>) -> String {
    number.map_or_else(String::new, |number| format!(" (line {number})"))
}

fn stuck(live: usize, spinning: usize) -> String {
    let them = if live == 1 { "it" } else { "them" };
    match (spinning, live - spinning) {
        (0, _) => format!("{} asleep and nobody is left to wake {them}", tasks(live)),
        (_, 0) => {
            let spin = if live == 1 { "spins" } else { "spin" };
            let all = plural(live as u64);
            format!("{live} task{all} {spin} and nobody is left to let {them} go on")
        }
        (_, asleep) => format!(
            "{} not through: {spinning} spin{}, {asleep} {} asleep, and nobody is left to let them go on",
            tasks(live),
            if spinning == 1 { "s" } else { "" },
            if asleep == 1 { "is" } else { "are" },
        ),
    }
}

/// `1 task is`, `2 tasks are`.
fn tasks(live: usize) -> String {
    let are = if live == 1 { "is" } else { "are" };
    format!("{live} task{} {are}", plural(live as u64))
}

fn plural(number: u64) -> &'static str {
    if number == 1 { "" } else { "s" }
}

fn asleep(waits: &str) -> String {
    match waits {
        "" => String::new(),
        waits => format!("; waiting {waits}"),
    }
}

/// What happens.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// The phase of the task on the CPU ends.
    Phase(usize),
    /// The slice of the task on the CPU ends, if it is the same one.
    Slice {
        cpu: usize,
        run: u32,
    },
    /// A tick of a CPU where somebody was left behind.
    Behind(usize),
    /// A sleep ends.
    Wake(usize),
    /// The task has been busy for long enough.
    Busy(usize),
    /// A tick of an LLC in which tasks wait.
    Sweep(usize),
    Balance,
    Audit,
    /// A span of the occupancy ends.
    Span,
}

/// A CPU.
#[derive(Debug, Clone, Default)]
pub(super) struct Cpu {
    pub task: Option<usize>,
    /// Who was left behind that one, and runs next.
    pub behind: Option<usize>,
    /// The next tick looks after them.
    pub watched: bool,
    /// Counts tasks that came here, to tell an old slice's end from a new one's.
    pub run: u32,
    /// Of the task's phase, in millionths.
    pub speed: u64,
    /// Up to when its work is accounted for.
    pub worked_until: Time,
    /// Up to when its time is charged.
    pub charged_until: Time,
    pub slice_ends: Time,
}

/// Counters are compared with the truth this often.
pub(super) const AUDIT_NS: Time = 100_000_000;

/// See the module.
pub struct World<'a> {
    pub(super) hw: &'a Hardware,
    pub(super) setup: &'a Setup,
    pub(super) plan: &'a Plan,
    /// The plan's sets of CPUs.
    pub(super) sets: Vec<CpuSet>,
    pub(super) events: Events<Event>,
    pub(super) random: fastrand::Rng,
    /// Of this run: all work, in millionths of what the programs say.
    pace: u64,
    pub(super) tasks: Vec<Task>,
    pub(super) processes: Vec<Process>,
    pub(super) cpus: Vec<Cpu>,
    pub(super) queues: Vec<Queue>,
    /// By node: tasks in its queues.
    pub(super) waiting: Vec<u32>,
    /// Makes places in queues unique.
    pub(super) queued: u64,
    pub(super) idle: IdleCpus,
    pub(super) counters: Counters,
    pub(super) demand: Demand,
    pub(super) meeting: Meeting,
    pub(super) balancing: Balancing,
    /// Not with `--locality off`, and on one node.
    pub(super) locality: Option<Locality>,
    pub(super) live: usize,
    /// CPUs that run a task.
    pub(super) busy: usize,
    /// Sleeps that end by themselves.
    pub(super) sleeping: usize,
    pub(super) still: Still,
    /// CPUs whose tasks have come to them or to the end of a phase.
    pub(super) fresh: VecDeque<usize>,
    /// CPUs whose speed has to be looked at.
    pub(super) stale: Vec<usize>,
    pub(super) shares: Vec<(usize, u64)>,
    /// How often a CPU's speed was worked out.
    pub(super) speeds: u64,
    pub(super) tally: Tally,
    pub(super) occupancy: Occupancy,
    /// Decisions, if they are wanted.
    pub(super) trace: Option<Vec<Record>>,
}

impl<'a> World<'a> {
    /// A machine where nothing runs yet. The same seed makes the same run.
    pub fn new(hw: &'a Hardware, setup: &'a Setup, plan: &'a Plan, seed: u64) -> Self {
        let cpus = hw.nr_cpus();
        let sets = plan.sets.iter();
        let mut random = fastrand::Rng::with_seed(seed);
        let span = hw.params.run_permille * 1000;
        let pace = ONE - span + random.u64(0..=2 * span);
        Self {
            hw,
            setup,
            plan,
            sets: sets
                .map(|set| CpuSet::of(cpus, set.iter().copied()))
                .collect(),
            events: Events::new(cpus, Event::Phase),
            random,
            pace,
            tasks: Vec::new(),
            processes: Vec::new(),
            cpus: vec![Cpu::default(); cpus],
            queues: (0..hw.nr_llcs()).map(|_| Queue::default()).collect(),
            waiting: vec![0; hw.nr_nodes()],
            queued: 0,
            idle: IdleCpus::all(hw),
            counters: Counters::new(hw, setup.newborn_ns),
            demand: Demand::new(cpus, hw.nr_nodes()),
            meeting: Meeting::new(plan),
            balancing: Balancing::new(hw, &setup.limits),
            locality: (setup.extras.locality.is_some() && hw.nr_nodes() > 1)
                .then(|| Locality::new(hw, setup.extras.bring_rate)),
            live: 0,
            busy: 0,
            sleeping: 0,
            still: Still::default(),
            fresh: VecDeque::new(),
            stale: Vec::new(),
            shares: Vec::new(),
            speeds: 0,
            tally: Tally::new(),
            occupancy: Occupancy::new(hw.nr_nodes()),
            trace: None,
        }
    }

    /// Keep all decisions.
    pub fn record(&mut self) {
        self.trace = Some(vec![self.trace_header()]);
    }

    pub(super) fn now(&self) -> Time {
        self.events.now()
    }

    /// Run the plan until all of its tasks are gone, for at most so long.
    ///
    /// # Errors
    /// They do not come to an end.
    ///
    /// # Panics
    /// When an invariant of the simulator is broken.
    pub fn run(&mut self, most_ns: Time) -> Result<(), SimError> {
        self.first_task();
        if self.has_ticks() {
            let interval = self.setup.balance_ns;
            let first = match self.hw.params.random_phase {
                true => self.random.u64(1..=interval),
                false => interval,
            };
            self.events.announce(first, Event::Balance);
        }
        self.events.announce(AUDIT_NS, Event::Audit);
        self.events.announce(self.occupancy.span_ns, Event::Span);
        self.settle();
        while self.live > 0 {
            if self.busy == 0 && self.sleeping == 0 && self.waiting.iter().all(|&n| n == 0) {
                return Err(self.stuck());
            }
            // Who sleeps has a wake-up to come, and nobody else is left when audits are not.
            let Some(event) = self.next_event() else {
                return Err(self.stuck());
            };
            if self.now() > most_ns {
                return Err(SimError::TooLong {
                    live: self.live,
                    seconds: most_ns / 1_000_000_000,
                    doing: super::stuck::doing(self),
                    waits: super::stuck::waits(self),
                });
            }
            self.happen(event);
            self.settle();
            // Who spins keeps a CPU busy. To look for them takes time, so no more often than audits.
            if matches!(event, Event::Audit) && super::stuck::all_wait(self) {
                return Err(self.stuck());
            }
        }
        self.audit();
        assert!(self.demand.is_none(), "nobody is left to ask for memory");
        if self.tally.is_backwards() {
            let lines = self.plan.names.marks;
            return Err(SimError::Backwards { lines });
        }
        Ok(())
    }

    fn stuck(&self) -> SimError {
        SimError::Stuck {
            live: self.live,
            spinning: super::stuck::spinning(self),
            waits: super::stuck::waits(self),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            event if self.leaves_out(event) => {}
            Event::Phase(cpu) => self.phase_ends(cpu),
            Event::Slice { cpu, run } if self.cpus[cpu].run == run => self.slice_ends(cpu),
            Event::Slice { .. } => {}
            Event::Busy(task) => self.stop_spinning(task),
            Event::Behind(cpu) => self.tick_behind(cpu),
            Event::Wake(task) => {
                self.make_up();
                self.sleeping -= 1;
                self.wake(task, None);
            }
            Event::Sweep(llc) => self.sweep(llc),
            Event::Balance => {
                self.balance();
                self.note_tick();
                let next = self.now() + self.setup.balance_ns;
                self.events.announce(next, Event::Balance);
            }
            Event::Span => {
                let (now, counters) = (self.now(), &self.counters);
                self.occupancy
                    .span_ends(|node| counters.integral_of(node, now));
                self.events
                    .announce(now + self.occupancy.span_ns, Event::Span);
            }
            Event::Audit => {
                self.audit();
                self.note_audit();
                self.events.announce(self.now() + AUDIT_NS, Event::Audit);
            }
        }
    }

    /// Who has come to a CPU or to the end of a phase goes on.
    fn settle(&mut self) {
        while let Some(cpu) = self.fresh.pop_front() {
            self.go_on(cpu);
        }
    }

    /// Time goes on to the next event. All that happens at one moment changes speeds once, at its end: at a
    /// tick hundreds of slices end, each of which changes what others get done.
    fn next_event(&mut self) -> Option<Event> {
        let now = self.now();
        if self.events.next_at().is_none_or(|at| at > now) {
            let mut stale = std::mem::take(&mut self.stale);
            self.demand.affected(&mut stale);
            for cpu in stale.drain(..) {
                self.refresh(cpu);
            }
            self.stale = stale;
        }
        self.events.advance()
    }

    /// The CPU's task may have another speed from now on, or another phase.
    fn refresh(&mut self, cpu: usize) {
        let Some(id) = self.cpus[cpu].task else {
            return;
        };
        if self.tasks[id].left.is_none() {
            return;
        }
        self.speeds += 1;
        let node = self.hw.place(cpu).node;
        let speed = self.hw.speed(
            node,
            self.idle.busy_on_core(self.hw, cpu),
            self.demand.intensity(cpu),
            self.demand.shares(cpu),
            self.demand.by_node(),
        );
        if speed == self.cpus[cpu].speed {
            return;
        }
        self.account_work(cpu);
        let at = &mut self.cpus[cpu];
        at.speed = speed;
        if self.tasks[id].spins {
            self.events.cancel(cpu);
            return;
        }
        let left = u128::from(self.tasks[id].left.unwrap_or(0));
        let takes = (left * u128::from(ONE)).div_ceil(u128::from(speed)) as u64;
        self.events.set(cpu, at.worked_until + takes);
    }

    /// What the CPU's task has got done in its phase since that was last looked at.
    pub(super) fn account_work(&mut self, cpu: usize) {
        let now = self.now();
        let at = &mut self.cpus[cpu];
        let Some(id) = at.task else { return };
        let elapsed = now.saturating_sub(at.worked_until);
        at.worked_until = at.worked_until.max(now);
        let task = &mut self.tasks[id];
        let Some(left) = task.left.filter(|_| !task.spins) else {
            return;
        };
        let done = (u128::from(elapsed) * u128::from(at.speed) / u128::from(ONE)) as u64;
        let done = done.min(left);
        task.left = Some(left - done);
        self.note_memory(cpu, id, done, elapsed);
    }

    /// The phase of the CPU's task is through, but for what was lost in rounding.
    fn phase_ends(&mut self, cpu: usize) {
        self.account_work(cpu);
        let Some(id) = self.cpus[cpu].task else {
            return;
        };
        self.end_phase(cpu, id);
        self.fresh.push_back(cpu);
    }

    /// Recount everything.
    pub(super) fn audit(&self) {
        let now = self.now();
        self.counters.audit(self.hw, &self.tasks, now);
        super::audit::places(self);
        let live = self.tasks.iter().filter(|task| task.is_alive()).count();
        assert_eq!(live, self.live, "tasks that are not through");
    }

    /// The set of CPUs that a task is confined to.
    pub(super) fn allowed(&self, task: usize) -> Option<&CpuSet> {
        self.tasks[task].confined.map(|set| &self.sets[set])
    }

    pub(super) fn may_use(&self, task: usize, cpu: usize) -> bool {
        self.allowed(task).is_none_or(|set| set.contains(cpu))
    }

    /// CPUs of a range that the task may use.
    pub(super) fn usable(&self, task: usize, range: std::ops::Range<usize>) -> u32 {
        let all = range.len() as u32;
        self.allowed(task).map_or(all, |set| set.count(range))
    }

    pub(super) fn state(&self, task: usize) -> State {
        self.tasks[task].state
    }

    /// A number up to so many permille more or less.
    pub(super) fn jittered(&mut self, work: u64) -> u64 {
        let work = match self.pace {
            ONE => work,
            pace => (u128::from(work) * u128::from(pace) / u128::from(ONE)) as u64,
        };
        let span = work / 1000 * self.hw.params.jitter_permille;
        match span {
            0 => work,
            span => work - span + self.random.u64(0..=2 * span),
        }
    }

    /// What the run came to, and its decisions if they were kept.
    pub fn finish(self, seed: u64) -> (super::outcome::Outcome, Vec<Record>) {
        let outcome = super::outcome::Outcome::of(&self, seed);
        (outcome, self.trace.unwrap_or_default())
    }
}
