// SPDX-License-Identifier: GPL-2.0-only
//! A queued task comes in, a CPU, a slice and a place in its queue's order go out.
//!
//! What BPF hands up names the task and the CPU that it was on, and tells how long it has run. It does not tell
//! when a task falls asleep or ends. So what was given to a CPU is believed to be there until it comes
//! back or until a look (`look`) says otherwise.
//!
//! Nothing is held back here: BPF's part calls for this program before it serves the queue of the CPU that it
//! calls on, so a task that waited here would keep a CPU busy with asking for it. A task waits in the queue of
//! the CPU that it was given to, in the order of virtual time.

use super::counts::Counts;
use super::cpu_set::CpuSet;
use super::facts::{ASKED_AT_ONCE, Facts, Seen};
use super::look::LOOKS_AT_ONCE;
use super::places::Places;
use super::tally::Tally;
use super::tasks::{Counted, Table, Usable};
use crate::policy::compile::Limits;
use crate::policy::limits::NICE_0_WEIGHT;
use crate::policy::record::{ExitRecord, Record};
use crate::policy::turns::{charge, slice_among};

/// A task owes at most so many slices.
const MAX_DEBT_SLICES: i64 = 100;
/// Where the clocks of queues begin: before it is room for those who come late.
const CLOCK_START: i64 = 1 << 40;

/// A task as BPF queues it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    pub pid: i32,
    /// Where it was, by the kernel's id; of a new task, where its parent is.
    pub cpu: u32,
    /// How many CPUs it may use right now.
    pub nr_cpus_allowed: u64,
    /// It was asleep.
    pub woken: bool,
    /// Begin and end of its last turn; of a new task 0.
    pub start_ts: u64,
    pub stop_ts: u64,
    /// CPU time since it was woken, in ns.
    pub exec_runtime: u64,
    pub weight: u32,
    /// How often it was queued since it is known to BPF.
    pub enq_cnt: u64,
}

/// Where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// By the kernel's id.
    pub cpu: u32,
    pub slice_ns: u64,
    pub vtime: u64,
}

/// Times, in ns.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub slice_ns: u64,
    pub slice_min_ns: u64,
    pub newborn_ns: u64,
    pub newborn_work_ns: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Dispatcher<F> {
    pub(super) places: Places,
    pub(super) limits: Limits,
    pub(super) times: Times,
    pub(super) facts: F,
    pub(super) tasks: Table,
    pub(super) counts: Counts,
    /// By node: average weight of its tasks, for forks that find no spare.
    pub(super) task_weights: Vec<u32>,
    /// By CPU: virtual time of the latest task that its queue let run.
    clocks: Vec<i64>,
    /// Threads of this process, which are placed and not counted.
    own: Vec<i32>,
    /// Looks left, and where a search for an idle CPU begins.
    pub(super) looks: u32,
    pub(super) turn: usize,
    /// Tasks that are queued from now on and were not known are new; before, they are older than we are.
    settled: bool,
    /// Empty but while tasks are looked at (`look`): their slots and thread ids, and what is seen of them.
    pub(super) looked: Vec<u32>,
    pub(super) asked: Vec<i32>,
    pub(super) seen: Vec<Option<Seen>>,
    /// For the trace, if there is one.
    pub(super) records: Option<Vec<Record>>,
    pub tally: Tally,
}

impl<F: Facts> Dispatcher<F> {
    /// For `slots` tasks. `own`: the threads of this process. `trace`: fork placements are recorded.
    pub fn new(
        places: Places,
        limits: Limits,
        times: Times,
        facts: F,
        (slots, own, trace): (usize, Vec<i32>, bool),
    ) -> Self {
        Self {
            counts: Counts::new(&places),
            tasks: Table::new(slots),
            task_weights: vec![NICE_0_WEIGHT; places.shape.nodes()],
            clocks: vec![CLOCK_START; places.nr_cpus()],
            places,
            limits,
            times,
            facts,
            own,
            looks: LOOKS_AT_ONCE,
            turn: 0,
            settled: false,
            looked: Vec::with_capacity(1024),
            asked: Vec::with_capacity(ASKED_AT_ONCE),
            seen: Vec::with_capacity(ASKED_AT_ONCE),
            records: trace.then(|| Vec::with_capacity(1024)),
            tally: Tally::default(),
        }
    }

    /// This program has the CPU again.
    pub fn begin(&mut self, now: u64) {
        self.looks = LOOKS_AT_ONCE;
        self.counts.age(&self.places, &mut self.tasks, now);
    }

    /// Who is asked about tasks.
    pub fn facts(&mut self) -> &mut F {
        &mut self.facts
    }

    /// All that was queued while the scheduler was being loaded has been placed.
    pub fn settle(&mut self) {
        self.settled = true;
    }

    /// Count again ([`Counts::audit`]).
    ///
    /// # Errors
    /// The first difference.
    pub fn audit(&self) -> Result<(), String> {
        self.counts.audit(&self.places, &self.tasks)
    }

    /// c of each node, as far as is known.
    pub fn committed(&self) -> Vec<u32> {
        let nodes = 0..self.places.shape.nodes();
        nodes
            .map(|node| self.counts.committed_on(&self.places, node))
            .collect()
    }

    /// Tasks that have a slot.
    pub fn tasks_known(&self) -> usize {
        self.tasks.len()
    }

    /// The fork placements and ends of tasks since the last call.
    pub fn take_records(&mut self) -> impl Iterator<Item = Record> {
        self.records
            .iter_mut()
            .flat_map(|records| records.drain(..))
    }

    /// Place a task.
    pub fn place(&mut self, queued: &Queued, now: u64) -> Placed {
        let Some(prev) = self.places.by_id(queued.cpu) else {
            // A CPU that came after us: the kernel will end the scheduler.
            return self.as_it_is(queued);
        };
        if self.own.contains(&queued.pid) {
            return self.as_it_is(queued);
        }
        let (slot, is_new) = match self.slot_of(queued, now) {
            Some(found) => found,
            None => {
                self.tally.unseen += 1;
                return self.as_it_is(queued);
            }
        };
        let woken = queued.woken || is_new;
        self.charge(slot, queued);
        self.note_usable(slot, queued);
        let task = self.tasks.get_mut(slot);
        (task.known_at, task.active) = (now, true);
        task.sleeps += u64::from(queued.woken);
        let cpu = if is_new && self.settled && !queued.woken && self.has_not_run(queued) {
            self.tasks.get_mut(slot).born_at = Some(now);
            self.place_fork(slot, prev, now)
        } else if queued.woken {
            self.uncount(slot);
            self.place_wakeup(slot, prev, now)
        } else {
            self.uncount(slot);
            self.place_again(slot, prev, now)
        };
        self.give(slot, cpu, woken, now)
    }

    /// Where it was, for a slice.
    fn as_it_is(&self, queued: &Queued) -> Placed {
        let cpu = self.places.by_id(queued.cpu).unwrap_or(0);
        Placed {
            cpu: queued.cpu,
            slice_ns: self.times.slice_ns,
            vtime: self.clocks[cpu] as u64,
        }
    }

    /// Its slot, and whether it was not known before. A thread id is used again; a new task is queued for the
    /// first time.
    fn slot_of(&mut self, queued: &Queued, now: u64) -> Option<(u32, bool)> {
        if let Some(slot) = self.tasks.find(queued.pid) {
            if self.tasks.get(slot).enq_cnt < queued.enq_cnt {
                return Some((slot, false));
            }
            self.note_end(slot, now, None);
            self.forget(slot);
        }
        let slot = self.tasks.add(queued.pid)?;
        let dom = self.places.by_id(queued.cpu).unwrap_or(0);
        let task = self.tasks.get_mut(slot);
        task.dom = dom;
        task.vtime = self.clocks[dom];
        Some((slot, true))
    }

    /// A task that was not known has just been forked, unless it has run: under another policy, or before us.
    fn has_not_run(&mut self, queued: &Queued) -> bool {
        let ran = |seen: Seen| seen.ran_ns > 0;
        queued.enq_cnt <= 1 && !self.facts.ask_one(queued.pid).is_some_and(ran)
    }

    pub(super) fn uncount(&mut self, slot: u32) {
        self.count_as(slot, Counted::None);
    }

    pub(super) fn count_as(&mut self, slot: u32, to: Counted) {
        let until = match (to, self.tasks.get(slot).born_at) {
            (Counted::Newborn(_), Some(born)) => born.saturating_add(self.times.newborn_ns),
            _ => 0,
        };
        let all = (&self.places, &mut self.tasks);
        self.counts.count_as(all, slot, to, until);
    }

    /// The task has ended, at this time or since it was last looked at. `ran_ns`: its CPU time, if that is known.
    pub(super) fn note_end(&mut self, slot: u32, now: u64, ran_ns: Option<u64>) {
        let Some(records) = &mut self.records else {
            return;
        };
        let task = self.tasks.get(slot);
        let known = task
            .charged_ns
            .max(task.ran_ns)
            .max(task.seen_ns.unwrap_or(0));
        records.push(Record::Exit(ExitRecord {
            at: now,
            pid: task.pid,
            run_ns: ran_ns.unwrap_or(0).max(known),
            sleeps: task.sleeps,
        }));
    }

    /// The task is gone.
    pub(super) fn forget(&mut self, slot: u32) {
        self.uncount(slot);
        self.tasks.remove(slot);
    }

    /// What it has run since it was last queued.
    fn charge(&mut self, slot: u32, queued: &Queued) {
        let task = self.tasks.get_mut(slot);
        let again = !queued.woken && queued.exec_runtime >= task.exec_runtime;
        let used = match queued.start_ts != task.start_ts {
            true if again => queued.exec_runtime - task.exec_runtime,
            true => queued.stop_ts.saturating_sub(queued.start_ts),
            false => 0,
        };
        task.weight = queued.weight;
        task.enq_cnt = queued.enq_cnt;
        task.start_ts = queued.start_ts;
        task.exec_runtime = queued.exec_runtime;
        task.charged_ns += used;
        if used == 0 {
            return;
        }
        // The queue let it run at its virtual time. Beyond its slice it ran because nobody else wanted to, and
        // owes nothing for that.
        task.vtime += charge(used, task.weight);
        let alone = used.saturating_sub(task.slice_ns);
        let reached = task.vtime - charge(used - alone, task.weight);
        let clock = &mut self.clocks[task.dom];
        *clock = (*clock).max(reached);
    }

    /// Which CPUs it may use. BPF tells how many; when those are not all, the kernel is asked which.
    fn note_usable(&mut self, slot: u32, queued: &Queued) {
        let all = self.places.nr_cpu_ids() as u64;
        if queued.nr_cpus_allowed >= all {
            let nodes = self.places.shape.nodes();
            let task = self.tasks.get_mut(slot);
            task.usable = Usable::All;
            task.nodes = u64::MAX >> (64 - nodes.min(64));
            return;
        }
        self.ask_usable(slot, queued.nr_cpus_allowed, queued.cpu);
    }

    /// Ask the kernel which CPUs a task on `cpu` may use, of which BPF says that they are `allowed`.
    pub(super) fn ask_usable(&mut self, slot: u32, allowed: u64, cpu: u32) {
        let task = self.tasks.get_mut(slot);
        let pid = task.pid;
        let mut set = match std::mem::take(&mut task.usable) {
            Usable::Some(set) => set,
            Usable::All => CpuSet::below(self.places.nr_cpu_ids()),
        };
        let known = self.facts.affinity(pid, &mut set);
        let here = |places: &Places| {
            (0..places.nr_cpus())
                .filter(|&cpu| set.contains(places.place(cpu).id))
                .count()
        };
        let named = here(&self.places);
        // Fewer than its affinity names: it is kept where it is for a moment (migration disabled).
        if !known || named == 0 || (allowed == 1 && named > 1) {
            set.set_only(cpu);
        }
        let everywhere = known && named == self.places.nr_cpus() && allowed > 1;
        let nodes = (0..self.places.nr_cpus()).fold(0u64, |nodes, cpu| {
            let place = self.places.place(cpu);
            nodes | u64::from(set.contains(place.id)) << place.node
        });
        let task = self.tasks.get_mut(slot);
        task.nodes = nodes;
        task.usable = match everywhere {
            true => Usable::All,
            false => Usable::Some(set),
        };
    }

    /// Give the task to the CPU, and count it there.
    fn give(&mut self, slot: u32, cpu: usize, woken: bool, now: u64) -> Placed {
        let place = self.places.place(cpu);
        let (from, had_run) = (self.tasks.get(slot).llc, self.tasks.get(slot).start_ts > 0);
        if had_run && from != place.llc {
            let same_node = usize::from(self.places.shape.llc_node[from]) == place.node;
            self.tally.migrated(same_node);
        }
        self.count_as(slot, Counted::On(cpu));
        let running = self.counts.running_in(place.llc);
        let weight = self.places.shape.llc_weight[place.llc];
        let slices = (self.times.slice_ns, self.times.slice_min_ns);
        let slice_ns = slice_among(running, weight, slices);
        let clock = self.clocks[cpu];
        let slice = self.times.slice_ns as i64;
        let before = self.clocks[self.tasks.get(slot).dom];
        let task = self.tasks.get_mut(slot);
        if task.dom != cpu {
            task.vtime += clock - before;
            task.dom = cpu;
        }
        if woken {
            task.vtime = task.vtime.max(clock - slice);
        }
        task.vtime = task.vtime.min(clock + MAX_DEBT_SLICES * slice);
        task.slice_ns = slice_ns;
        (task.given_at, task.woken_at, task.woken) = (now, now, 0);
        Placed {
            cpu: place.id,
            slice_ns,
            vtime: task.vtime as u64,
        }
    }

    /// Nobody is there, as far as is known.
    pub(super) fn is_empty(&self, cpu: usize) -> bool {
        self.counts.on(cpu).is_empty()
    }

    pub(super) fn may_use(&self, slot: u32, cpu: usize) -> bool {
        self.tasks.get(slot).usable.has(self.places.place(cpu).id)
    }
}
