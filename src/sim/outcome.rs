// SPDX-License-Identifier: GPL-2.0-only
//! What a run came to.

use serde::Serialize;

use super::clock::Time;
use super::hardware::ONE;
use super::latency::Latencies;
use super::occupancy::Occupancy;
use super::world::World;
use crate::policy::balance::{Decisions, MoveWhy, Outcome as Verdict};
use crate::policy::limits::excess;
use crate::policy::locality::view::{Steps, Why};
use crate::policy::placement::ForkWhy;

/// When the proper work began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Begin,
    End,
}

/// Fork placements by their reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Forks {
    pub least: u64,
    pub tolerated: u64,
    pub full_local: u64,
    pub full: u64,
    /// Of all of them: not on the parent's node.
    pub remote: u64,
}

/// What balancing decided, by rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Moves {
    pub excess: u64,
    pub utilisation: u64,
    /// Pairs of nodes that were left alone, counted at each tick.
    pub tolerated: u64,
    pub held: u64,
    pub no_task: u64,
}

/// Moves for the sake of memory (R8).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Located {
    pub preferred: u64,
    pub nearer: u64,
    /// Pairs of tasks.
    pub swaps: u64,
}

impl Located {
    /// Tasks that were moved.
    pub fn tasks(&self) -> u64 {
        self.preferred + self.nearer + 2 * self.swaps
    }
}

/// Counted while it runs.
#[derive(Debug)]
pub(super) struct Tally {
    begin: Option<Time>,
    end: Option<Time>,
    forks: Forks,
    moves: Moves,
    steps: Located,
    node_migrations: u64,
    llc_migrations: u64,
    pulls_node: u64,
    pulls_remote: u64,
    waits: u64,
    wait_ns: u64,
    wait_ns_max: u64,
    wakes: Latencies,
    /// Work in phases that wait for memory, and that part of it that was local.
    memory: u64,
    local: u128,
    /// Memory that was brought to tasks, in ns of touching it.
    brought: u64,
    pub ticks: u64,
    pub kicks: u64,
    /// Wakees that were left behind their wakers.
    pub syncs: u64,
    pub late_ns: Time,
}

impl Tally {
    pub fn new() -> Self {
        Self {
            begin: None,
            end: None,
            forks: Forks::default(),
            moves: Moves::default(),
            steps: Located::default(),
            node_migrations: 0,
            llc_migrations: 0,
            pulls_node: 0,
            pulls_remote: 0,
            waits: 0,
            wait_ns: 0,
            wait_ns_max: 0,
            wakes: Latencies::default(),
            memory: 0,
            local: 0,
            brought: 0,
            ticks: 0,
            kicks: 0,
            syncs: 0,
            late_ns: 0,
        }
    }

    /// From the first beginning to the last end.
    pub fn moment(&mut self, moment: Moment, now: Time) {
        match moment {
            Moment::Begin => self.begin = self.begin.or(Some(now)),
            Moment::End => self.end = Some(now),
        }
    }

    /// Nobody began before the last one ended: there is no time between the two.
    pub fn is_backwards(&self) -> bool {
        matches!((self.begin, self.end), (Some(begin), Some(end)) if end < begin)
    }

    pub fn forked(&mut self, why: ForkWhy, local: bool) {
        let forks = &mut self.forks;
        *match why {
            ForkWhy::Least => &mut forks.least,
            ForkWhy::Tolerated => &mut forks.tolerated,
            ForkWhy::FullLocal => &mut forks.full_local,
            ForkWhy::Full => &mut forks.full,
        } += 1;
        forks.remote += u64::from(!local);
    }

    pub fn decided(&mut self, decisions: &Decisions) {
        for one in &decisions.moves {
            match one.why {
                MoveWhy::Excess => self.moves.excess += 1,
                MoveWhy::Utilisation => self.moves.utilisation += 1,
            }
        }
        for verdict in &decisions.verdicts {
            match verdict.outcome {
                Verdict::Tolerated => self.moves.tolerated += 1,
                Verdict::Held => self.moves.held += 1,
                Verdict::NoTask => self.moves.no_task += 1,
                Verdict::Moved(_) | Verdict::Over | Verdict::Budget => {}
            }
        }
    }

    pub fn located(&mut self, steps: Option<&Steps>) {
        for step in steps.into_iter().flat_map(|steps| &steps.steps) {
            match step.why {
                Why::Preferred => self.steps.preferred += 1,
                Why::Nearer => self.steps.nearer += 1,
                Why::Swap => self.steps.swaps += 1,
                Why::SwappedFor => {}
            }
        }
    }

    pub fn migrated(&mut self, inside_node: bool) {
        match inside_node {
            true => self.llc_migrations += 1,
            false => self.node_migrations += 1,
        }
    }

    pub fn pulled(&mut self, inside_node: bool) {
        match inside_node {
            true => self.pulls_node += 1,
            false => self.pulls_remote += 1,
        }
    }

    pub fn waited(&mut self, ns: Time) {
        self.waits += 1;
        self.wait_ns += ns;
        self.wait_ns_max = self.wait_ns_max.max(ns);
    }

    /// A woken task runs after so long.
    pub fn woken(&mut self, ns: Time) {
        self.wakes.add(ns);
    }

    /// Work in a phase that waits for memory, of which a share in millionths is local.
    pub fn memory_work(&mut self, work: u64, local: u64) {
        self.memory += work;
        self.local += u128::from(work) * u128::from(local);
    }

    /// So much memory has gone to another node.
    pub fn brought(&mut self, work: u64) {
        self.brought += work;
    }
}

/// See the module. Counts are in the order of the nodes' ids.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    pub seed: u64,
    /// From when the first task began its proper work until the last had done it; without such, as
    /// `wall_ns`.
    pub run_ns: Time,
    /// From the start until the last task was gone.
    pub wall_ns: Time,
    /// Tasks that came to their proper work, by the node of their birth, of their first moment after
    /// their start-up, and of their end.
    pub birth: Vec<u32>,
    pub first: Vec<u32>,
    pub last: Vec<u32>,
    /// Largest excess of one node over another in these.
    pub birth_spread: u64,
    pub first_spread: u64,
    pub last_spread: u64,
    pub forks: Forks,
    pub moves: Moves,
    pub steps: Located,
    pub node_migrations: u64,
    pub llc_migrations: u64,
    pub pulls_node: u64,
    pub pulls_remote: u64,
    /// Wakees that were left behind their wakers (SYNC).
    pub syncs: u64,
    /// Turns of tasks in queues.
    pub waits: u64,
    pub wait_ns: u64,
    pub wait_ns_max: u64,
    /// From being woken to running, of 99 in 100 wake-ups at most, to a sixteenth; `None`: nobody was woken.
    pub wake_ns_p99: Option<u64>,
    /// Longest time that the first task of a queue waited beyond the pull delay beside an idle CPU.
    pub late_ns_max: u64,
    /// Share of work on memory that was local, in permille; `None`: there was no such work.
    pub local_permille: Option<u64>,
    /// Pages that went to another node.
    pub pages_moved: u64,
    pub ticks: u64,
    pub events: u64,
    /// How often a CPU's speed was worked out.
    pub speeds: u64,
    pub occupancy: Occupancy,
}

impl Outcome {
    pub(super) fn of(world: &World<'_>, seed: u64) -> Self {
        let tally = &world.tally;
        let wall_ns = world.now();
        let (birth, first, last) = counts(world);
        let weight = &world.hw.shape.weight;
        Self {
            seed,
            run_ns: match (tally.begin, tally.end) {
                (Some(begin), Some(end)) => end.saturating_sub(begin),
                _ => wall_ns,
            },
            wall_ns,
            birth_spread: spread(&birth, weight),
            first_spread: spread(&first, weight),
            last_spread: spread(&last, weight),
            birth,
            first,
            last,
            forks: tally.forks,
            moves: tally.moves,
            steps: tally.steps,
            node_migrations: tally.node_migrations,
            llc_migrations: tally.llc_migrations,
            pulls_node: tally.pulls_node,
            pulls_remote: tally.pulls_remote,
            syncs: tally.syncs,
            waits: tally.waits,
            wait_ns: tally.wait_ns,
            wait_ns_max: tally.wait_ns_max,
            wake_ns_p99: tally.wakes.quantile(990),
            late_ns_max: tally.late_ns,
            local_permille: local(tally),
            pages_moved: tally.brought / world.hw.params.page_ns.max(1),
            ticks: tally.ticks,
            events: world.events.happened(),
            speeds: world.speeds,
            occupancy: world.occupancy.clone(),
        }
    }
}

fn local(tally: &Tally) -> Option<u64> {
    let all = u128::from(tally.memory) * u128::from(ONE);
    (tally.local * 1000)
        .checked_div(all)
        .map(|share| share as u64)
}

/// Tasks by node of birth, first moment and end.
fn counts(world: &World<'_>) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let none = vec![0; world.hw.nr_nodes()];
    let mut counts = (none.clone(), none.clone(), none);
    for task in &world.tasks {
        let (Some(first), Some(last)) = (task.places.first, task.places.last) else {
            continue;
        };
        counts.0[task.places.birth] += 1;
        counts.1[first] += 1;
        counts.2[last] += 1;
    }
    counts
}

/// The largest excess of one node over another.
fn spread(counts: &[u32], weight: &[u32]) -> u64 {
    let nodes = || counts.iter().zip(weight);
    let pairs =
        nodes().flat_map(|(&ca, &wa)| nodes().map(move |(&cb, &wb)| excess(ca, wa, cb, wb)));
    pairs.max().unwrap_or(0)
}
