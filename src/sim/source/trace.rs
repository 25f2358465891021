// SPDX-License-Identifier: GPL-2.0-only
//! A trace as a workload: tasks arrive when they did, run as long as they did, and sleep the rest.
//!
//! A trace has, of each task that was forked under the scheduler, when, by whom, and on which nodes it might run; and
//! of those that have ended when, how much CPU time they had and how often they slept. A task's program is made of that:
//!
//! - Its children start at the same distance from its birth as in the trace.
//! - CPU time and sleeps are spread evenly over its life. When they really were is not in the trace.
//! - What is neither is sleep. Time in queues is in it, which the trace does not have by task, and the slack of timers,
//!   which is not added again.
//! - Who had not ended ran, until the trace ends, as the ticks that saw it say: by its average share of a CPU, and with a
//!   sleep in each of [`UNKNOWN_SLEEP_NS`] where that is not all of one. Who was in no tick sleeps.
//! - Tasks whose parent is not in the trace are started by a first task that does nothing else.
//!
//! Not in a trace, and so not in the workload: what tasks wait for (each keeps its own times, whoever it waited for
//! then), memory, priorities, affinity within a node, and everything that ran before the scheduler was loaded.

use std::collections::BTreeMap;

use crate::policy::record::{ExitRecord, ForkRecord, Record};
use crate::sim::hardware::Hardware;
use crate::sim::program::{Mark, Op, Plan};

/// A task of which only the share of CPU time is known sleeps once in so much of its life.
const UNKNOWN_SLEEP_NS: u64 = 100_000_000;
/// Shorter times are none.
const SHORTEST_NS: u64 = 1_000;
/// Going to sleep and waking up takes more CPU time than this on any machine.
const SLEEP_RUNS_NS: u64 = 100;

/// A workload, and what the trace did not have for it.
#[derive(Debug, Default)]
pub struct Traced {
    pub plan: Plan,
    pub tasks: u64,
    /// Of these: had not ended when the trace did.
    pub unended: u64,
    /// Of these: forked by somebody who is not in the trace.
    pub orphans: u64,
    /// Of these: might use only nodes that this machine has not, and use all.
    pub unconfined: u64,
    /// Placements that the trace says are missing.
    pub lost: u64,
    /// Headers: loads of the scheduler.
    pub loads: u64,
}

impl Traced {
    /// What the workload is made of, and what the trace did not have, in a line.
    pub fn note(&self) -> String {
        let Self {
            tasks,
            unended,
            orphans,
            unconfined,
            lost,
            loads,
            ..
        } = self;
        let mut note = format!(
            "{tasks} tasks; of {unended} CPU time is only what ticks saw, since they had not ended; \
             {orphans} have no parent in the trace and are started by a first task"
        );
        if *unconfined > 0 {
            note += &format!(
                "; {unconfined} may use only nodes that this machine does not have, and use all"
            );
        }
        if *lost > 0 {
            note += &format!("; {lost} forks or ends are missing");
        }
        if *loads > 1 {
            note += &format!("; {loads} loads of the scheduler count as one");
        }
        note + "; waiting counts as sleep, and nobody waits for anybody (docs/simulation.md)"
    }
}

/// What is known of a task.
struct Life {
    born: u64,
    /// `None`: not in the trace.
    parent: Option<usize>,
    allowed: u64,
    end: Option<ExitRecord>,
    /// Shares of a CPU in ticks, in thousandths: their sum and their number.
    busy: (u64, u64),
    children: Vec<usize>,
}

/// See the module.
///
/// # Errors
/// One sentence: there is nothing in the trace that could run.
pub fn plan(records: impl IntoIterator<Item = Record>, hw: &Hardware) -> Result<Traced, String> {
    let mut traced = Traced::default();
    let mut reader = Reader::default();
    for record in records {
        reader.take(record, &mut traced);
    }
    let Reader {
        lives,
        nodes,
        until,
        ..
    } = reader;
    let Some(first) = lives.first().map(|life| life.born) else {
        return Err(
            "no task was forked in this trace; expected what `scx_ballast --trace FILE` writes"
                .into(),
        );
    };
    traced.tasks = lives.len() as u64;
    traced.unended = lives.iter().filter(|life| life.end.is_none()).count() as u64;
    traced.orphans = lives.iter().filter(|life| life.parent.is_none()).count() as u64;
    let sets = Sets::new(hw, nodes);
    let homeless = |life: &&Life| sets.are_missing(life.allowed);
    traced.unconfined = lives.iter().filter(homeless).count() as u64;
    let plan = &mut traced.plan;
    // Programs in the order of the tasks, so that a child's number is known before it is written.
    for life in &lives {
        let confined = sets.of(life.allowed, plan);
        let mut ops = vec![Op::Mark(Mark::First)];
        ops.extend(confined.map(|set| Op::Confine(Some(set))));
        life.ops(&lives, until, &mut ops);
        plan.program(ops);
    }
    let mut root = Vec::new();
    let mut now = first;
    let orphans = lives
        .iter()
        .enumerate()
        .filter(|(_, life)| life.parent.is_none());
    for (program, life) in orphans {
        let wait = life.born.saturating_sub(now);
        if wait >= SHORTEST_NS {
            root.push(Op::Away(wait));
            now = life.born;
        }
        root.push(Op::Fork(program));
    }
    root.push(Op::WaitChildren);
    plan.root = plan.program(root);
    Ok(traced)
}

/// Collects lives from records, which are in the order of time but for what waited in the buffer.
#[derive(Default)]
struct Reader {
    lives: Vec<Life>,
    /// By thread id: who has it now.
    alive: BTreeMap<i32, usize>,
    /// Nodes of the traced machine.
    nodes: usize,
    /// Time of the last record.
    until: u64,
}

impl Reader {
    fn take(&mut self, record: Record, traced: &mut Traced) {
        match record {
            Record::Header(header) => {
                self.nodes = header.shape.nodes();
                traced.loads += 1;
            }
            Record::Lost { forks } => traced.lost = traced.lost.saturating_add(forks),
            Record::Brought(_) => {}
            Record::Fork(fork) => self.fork(&fork),
            Record::Exit(exit) => self.exit(exit),
            Record::Tick(tick) => {
                let seen = tick.observation;
                self.until = self.until.max(seen.at);
                for task in seen.tasks {
                    if let Some(&id) = self.alive.get(&task.pid) {
                        let (sum, ticks) = &mut self.lives[id].busy;
                        *sum += u64::from(task.busy);
                        *ticks += 1;
                    }
                }
            }
        }
    }

    fn fork(&mut self, fork: &ForkRecord) {
        self.until = self.until.max(fork.at);
        let parent = fork.parent.and_then(|pid| self.alive.get(&pid)).copied();
        let id = self.lives.len();
        if let Some(parent) = parent {
            self.lives[parent].children.push(id);
        }
        self.lives.push(Life {
            // A parent's clock may be a little ahead of its child's CPU.
            born: fork
                .at
                .max(parent.map_or(0, |parent| self.lives[parent].born)),
            parent,
            allowed: fork.allowed,
            end: None,
            busy: (0, 0),
            children: Vec::new(),
        });
        self.alive.insert(fork.pid, id);
    }

    fn exit(&mut self, exit: ExitRecord) {
        self.until = self.until.max(exit.at);
        if let Some(id) = self.alive.remove(&exit.pid) {
            self.lives[id].end = Some(exit);
        }
    }
}

impl Life {
    /// Life, CPU time and sleeps.
    fn measure(&self, until: u64) -> (u64, u64, u64) {
        if let Some(end) = &self.end {
            let life = end.at.saturating_sub(self.born).max(1);
            let run = end.run_ns.min(life);
            // Nobody sleeps oftener than this, whatever a file says.
            let most = (life / SHORTEST_NS).min(run / SLEEP_RUNS_NS);
            return (life, run, end.sleeps.min(most));
        }
        let life = until.saturating_sub(self.born).max(1);
        let (sum, ticks) = self.busy;
        let share = sum.checked_div(ticks).unwrap_or(0).min(1000);
        let run = (u128::from(life) * u128::from(share) / 1000) as u64;
        let sleeps = match share {
            // All of a CPU but for what ticks round away.
            990.. => 0,
            _ => life / UNKNOWN_SLEEP_NS + 1,
        };
        (life, run, sleeps)
    }

    /// Appends all that it does, since loops count from a program's beginning.
    fn ops(&self, lives: &[Life], until: u64, ops: &mut Vec<Op>) {
        let (life, run, sleeps) = self.measure(until);
        let mut at = 0;
        for &child in &self.children {
            let birth = (lives[child].born - self.born).clamp(at, life);
            stretch(ops, (at, birth), (life, run, sleeps));
            ops.push(Op::Fork(child));
            at = birth;
        }
        stretch(ops, (at, life), (life, run, sleeps));
    }
}

/// Life between two moments of it: its part of CPU time and sleeps, in turns.
fn stretch(ops: &mut Vec<Op>, (from, to): (u64, u64), (life, run, sleeps): (u64, u64, u64)) {
    let part = |all: u64, at: u64| (u128::from(all) * u128::from(at) / u128::from(life)) as u64;
    // What is left over in one stretch is in the next.
    let of = |all: u64| part(all, to) - part(all, from);
    let (runs, turns) = (of(run), of(sleeps));
    let asleep = (to - from).saturating_sub(runs);
    if turns == 0 {
        if runs > 0 {
            ops.push(Op::Compute(runs));
        }
        // It waited for a CPU, or its few sleeps are in other stretches; what follows comes as late as it did.
        if asleep >= SHORTEST_NS {
            ops.push(Op::Away(asleep));
        }
        return;
    }
    // It begins and ends awake.
    let each = runs / (turns + 1);
    let begin = ops.len();
    ops.extend([Op::Compute(each), Op::Away(asleep / turns)]);
    if turns > 1 {
        let times = turns.min(u64::from(u32::MAX)) as u32;
        ops.push(Op::Repeat { to: begin, times });
    }
    ops.push(Op::Compute(runs - each * turns));
}

/// Nodes that tasks may use, as sets of the plan.
struct Sets<'a> {
    hw: &'a Hardware,
    /// All nodes of the traced machine.
    all: u64,
}

impl<'a> Sets<'a> {
    fn new(hw: &'a Hardware, nodes: usize) -> Self {
        let all = (0..nodes.min(64)).fold(0, |mask, node| mask | 1 << node);
        Self { hw, all }
    }

    fn is_all(&self, allowed: u64) -> bool {
        allowed & self.all == self.all
    }

    /// The nodes of this machine among these.
    fn here(&self, allowed: u64) -> impl Iterator<Item = usize> {
        (0..self.hw.nr_nodes()).filter(move |&node| allowed >> node & 1 == 1)
    }

    /// Not all nodes, and none that this machine has.
    fn are_missing(&self, allowed: u64) -> bool {
        !self.is_all(allowed) && self.here(allowed).next().is_none()
    }

    /// The set for tasks that may use these nodes; `None` for who may use all, or none that this machine has.
    fn of(&self, allowed: u64, plan: &mut Plan) -> Option<usize> {
        if self.is_all(allowed) || self.are_missing(allowed) {
            return None;
        }
        let nodes = self.here(allowed);
        let cpus: Vec<usize> = nodes.flat_map(|node| self.hw.cpus_of_node(node)).collect();
        let at = plan.sets.iter().position(|set| *set == cpus);
        Some(at.unwrap_or_else(|| {
            plan.sets.push(cpus);
            plan.sets.len() - 1
        }))
    }
}
