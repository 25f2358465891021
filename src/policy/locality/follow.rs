// SPDX-License-Identifier: GPL-2.0-only
//! Memory follows: when pages of a process are brought to the node where its tasks run.
//!
//! Tasks go to their memory (R8), that is the rule. This is for those that do not: its node is full, they are not
//! allowed there, it is spread so that no node is theirs, or it is next door, where too little is won by going. When the
//! tasks of such a process have been stuck on one and the same node for a while, and less than three quarters of its
//! memory are there, memory is brought to them, within a purse of bytes per second, one order at a time on the whole machine. Whoever has most to win
//! comes first. The while is as long as bringing all of the memory takes ([`settling_ms`]): nobody knows how long tasks
//! will stay, and so what is brought in vain costs no more than what was lost by waiting.
//!
//! An order is of several batches: what is in the purse, but not more than is left of the stage (below), and at first
//! no more than one batch and as much again as has moved already, so that a process of whom nothing can be moved costs little.
//! Whoever carries it out stops after [`MOST_US`] if a look waits, else after [`MOST_ALONE_US`], and what was not tried
//! goes back into the purse.
//!
//! After an eighth of the memory the process is looked at again, and then whenever as much again has moved as all before
//! that helped: looks are dear, and at most half of what moved can be in vain. If its local share has not grown by a
//! quarter of what was moved, or the kernel refused most, it did not help (others use the pages, or something moves them
//! back): the process rests, twice as long each time, and is given up after [`MOST_ATTEMPTS`]. Only another share,
//! or another node of its tasks, makes it worth trying again. So with constant evidence bringing ends.
//!
//! To a process that runs on several nodes parts of its memory are brought, those that are worked on from one of them
//! ([`extents`](super::extents)). For memory that all of its tasks use alike it makes no difference which part of it is
//! where. While less than [`PARTS_BELOW`] of what its tasks touch is near it is looked at every [`LOOK_MS`], so that such
//! parts are found; ever more rarely while there are none. A part that the kernel refused more of than it moved counts as an attempt that did not help.
//!
//! Never brought is memory that was placed or preferred by a memory policy or a cpuset.
//!
//! Integers only, and what is decided depends on what was fed alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::{MemoryPolicy, Standing};
use super::extents::{Extent, Finding, LEAST_TOUCHES};

/// Tasks have been stuck on a node for at least so long before memory comes to them, however little it is: those who were
/// refused try again, and others make room.
pub const LEAST_SETTLING_MS: u64 = 1_000;
/// ... and for so long it comes, however much it is.
pub const MOST_SETTLING_MS: u64 = 5_000;
/// Bringing begins when less than this, in permille, is near, and ends when this is. What may still come without
/// bringing, by first touch, mostly does before tasks have settled.
pub const BEGIN_BELOW: u16 = 750;
pub const END_FROM: u16 = 900;
/// While less than this of what its tasks touch is near, a process on several nodes is looked at for parts to bring: of twenty
/// threads one may be all that is left.
pub const PARTS_BELOW: u16 = 950;
/// A process with fewer pages is not worth it.
pub const WORTH_PAGES: u64 = 256;
/// Attempts that did not help, after which there are no more.
pub const MOST_ATTEMPTS: u8 = 4;
/// After an attempt there is none for so long, at first.
pub const REST_MS: u64 = 30_000;
/// A process on several nodes that is far from what it works on is looked at so often.
pub const LOOK_MS: u64 = 1_000;
/// ... so many times; then half as often after as many more, and so on, so many times.
const LOOKS_IN_VAIN: u32 = 16;
const MOST_PAUSES: u32 = 6;
/// Part of the memory, in permille, after which it is first looked whether it helps.
const STAGE: u64 = 125;
/// The local share has grown by one part in so many of what was moved at least, or it did not help.
const HELPED: u64 = 4;
/// Refused pages that are enough to see that most are.
const MANY_REFUSED: u64 = 64;
/// The local share differs by so much, in permille: it is another situation.
const OTHER_SHARE: u16 = 100;
/// A report that has not come by then does not come, and a look is asked for again.
const LOST_MS: u64 = 10_000;
/// Pages of a batch: at least those of a huge page.
const LEAST_BATCH: u64 = 512;
const LARGEST_BATCH: u64 = 2048;
/// Batches of an order: with ticks of 100 ms more than can be moved in [`MOST_US`].
pub const MOST_BATCHES: u64 = 16;
/// An order is carried out for so long at most, in us of time, and the rest of it left, when a process is to be looked at.
pub const MOST_US: u64 = 50_000;
/// ... and when nobody is: by then tasks may be elsewhere.
pub const MOST_ALONE_US: u64 = 1_000_000;

/// A process at a tick. Those of whom no task was active are left out, and stay as they were.
#[derive(Debug, Clone, Copy)]
pub struct Resident<'a> {
    pub tgid: i32,
    pub standing: Standing,
    pub policy: MemoryPolicy,
    /// When it was last looked at.
    pub sampled_ms: u64,
    /// Bit n: some of its active tasks run on node n.
    pub nodes: u64,
    /// None of its tasks goes anywhere: refused where their memory is, not allowed there, near enough, or at home as far as
    /// that goes.
    pub stuck: bool,
    /// Pages that it has.
    pub pages: u64,
    /// By node with CPUs: what part of its memory is local there, in permille. Of memory next door tasks may be content
    /// with, but it can come nearer.
    pub shares: &'a [u16],
    /// If it runs on several nodes: what its tasks' touches tell.
    pub finding: Finding,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Up to so many pages to the node; of one part of the memory alone, if there is one.
    Bring {
        tgid: i32,
        to: u16,
        pages: u32,
        within: Option<Extent>,
    },
    /// To know whether it helped.
    Look { tgid: i32 },
}

/// What came of an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub moved: u32,
    pub refused: u32,
    /// The process has nothing more to bring.
    pub finished: bool,
}

impl Batch {
    fn tried(&self) -> u64 {
        u64::from(self.moved) + u64::from(self.refused)
    }
}

/// Memory on its way.
#[derive(Debug, Clone, Copy)]
struct Run {
    to: u16,
    within: Option<Extent>,
    /// The local share when the stage began, and what has come of it.
    local: u16,
    moved: u64,
    refused: u64,
    finished: bool,
    /// Pages that have moved since the run began, these included.
    moved_before: u64,
    /// When the last order was given. Orders and looks are carried out in turn, so any look ordered later, for whatever
    /// reason, sees what came of it.
    ordered_ms: u64,
    /// The stage is over, and a look was asked for then.
    asked_ms: Option<u64>,
}

/// What is remembered of a process.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    nodes: u64,
    /// Since when it has been there, and stuck by what is known of its memory.
    since_ms: u64,
    run: Option<Run>,
    rests_until_ms: u64,
    attempts: u8,
    /// When a look for touches was asked for, and how often since a part was found.
    asked_ms: u64,
    in_vain: u32,
    /// Local share and node of the last attempt.
    tried: (u16, u16),
}

/// Memory to be brought to a node, all of it or a part.
#[derive(Debug, Clone, Copy)]
struct Goal {
    to: u16,
    within: Option<Extent>,
}

/// How long the tasks of a process with so many pages have to have been on a node before memory comes to them.
/// `rate`: pages per second that may be brought.
pub fn settling_ms(pages: u64, rate: u64) -> u64 {
    let takes = pages.saturating_mul(1000) / rate.max(1);
    takes.clamp(LEAST_SETTLING_MS, MOST_SETTLING_MS)
}

/// Whether a task of a process on several nodes has settled on its node, where it has been for `stayed_ms` and could go nowhere for
/// `stuck_ms`. Threads of one process may be on their way to each other for a while, whatever their memory takes
/// (`settling_ms`, as [`settling_ms`] tells); those that go nowhere are not.
pub fn has_settled(stayed_ms: u64, stuck_ms: u64, settling_ms: u64) -> bool {
    stayed_ms >= MOST_SETTLING_MS || stuck_ms >= settling_ms
}

/// See the module.
#[derive(Debug)]
pub struct Follow {
    /// Pages per second.
    rate: u64,
    /// Thousandths of pages that may be brought now.
    purse: u64,
    filled_ms: u64,
    states: BTreeMap<i32, State>,
    under_way: Option<UnderWay>,
}

/// An order of which it is not known what came of it.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    tgid: i32,
    since_ms: u64,
    pages: u64,
}

impl Follow {
    /// `rate`: pages per second. The purse is empty at first.
    pub fn new(rate: u64, now_ms: u64) -> Self {
        Self {
            rate,
            purse: 0,
            filled_ms: now_ms,
            states: BTreeMap::new(),
            under_way: None,
        }
    }

    /// Pages per second that may be brought.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Pages of a batch.
    pub fn batch(&self) -> u64 {
        (self.rate / 8).clamp(LEAST_BATCH, LARGEST_BATCH)
    }

    /// Something was ordered, and it is not known what came of it.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Forget processes that are gone.
    pub fn retain(&mut self, alive: impl Fn(i32) -> bool) {
        self.states.retain(|&tgid, _| alive(tgid));
    }

    /// What to do now; `wishes` is overwritten.
    pub fn tick(&mut self, now_ms: u64, all: &[Resident<'_>], wishes: &mut Vec<Wish>) {
        wishes.clear();
        self.fill(now_ms);
        if self
            .under_way
            .is_some_and(|order| late(order.since_ms, now_ms))
        {
            self.under_way = None;
        }
        let mut best: Option<(u64, &Resident<'_>, Goal)> = None;
        for process in all {
            if let Some(goal) = self.follow(process, now_ms, wishes) {
                let gain = goal.gain(process);
                if best.is_none_or(|(most, ..)| gain > most) {
                    best = Some((gain, process, goal));
                }
            }
        }
        let batch = self.batch();
        let free = self.under_way.is_none() && self.purse >= batch * 1000;
        let (true, Some((_, process, goal))) = (free, best) else {
            return;
        };
        let Goal { to, within } = goal;
        let state = self.states.entry(process.tgid).or_default();
        let run = Run::new(goal, local(process, to));
        let run = state.run.get_or_insert(run);
        run.ordered_ms = now_ms;
        let most = run.left(process).min(batch + run.moved_before);
        let pages = most.clamp(batch, self.purse / 1000);
        let pages = pages.min(batch * MOST_BATCHES);
        self.purse -= pages * 1000;
        self.under_way = Some(UnderWay {
            tgid: process.tgid,
            since_ms: now_ms,
            pages,
        });
        wishes.push(Wish::Bring {
            tgid: process.tgid,
            to,
            pages: pages as u32,
            within,
        });
    }

    fn fill(&mut self, now_ms: u64) {
        let ms = now_ms.saturating_sub(self.filled_ms);
        let most = self.rate.max(self.batch()) * 1000;
        self.purse = self
            .purse
            .saturating_add(self.rate.saturating_mul(ms))
            .min(most);
        self.filled_ms = self.filled_ms.max(now_ms);
    }

    /// What memory of a process may be brought now, and where to.
    fn follow(
        &mut self,
        process: &Resident<'_>,
        now_ms: u64,
        wishes: &mut Vec<Wish>,
    ) -> Option<Goal> {
        let rate = self.rate;
        if process.policy != MemoryPolicy::Free || process.standing == Standing::Void {
            self.states.remove(&process.tgid);
            return None;
        }
        let state = self.states.entry(process.tgid).or_insert(State {
            nodes: process.nodes,
            since_ms: now_ms,
            ..State::default()
        });
        let may_go = !process.stuck || process.standing != Standing::Known;
        if state.nodes != process.nodes {
            state.nodes = process.nodes;
            state.since_ms = now_ms;
            state.run = None;
        } else if may_go && state.run.is_none() {
            state.since_ms = now_ms;
        }
        if process.nodes.count_ones() > 1 {
            return state.part(process, now_ms, wishes);
        }
        let to = process.nodes.trailing_zeros() as u16;
        if process.nodes == 0 || process.shares.len() <= usize::from(to) {
            return None;
        }
        let settling_ms = settling_ms(process.pages, rate);
        let goes_on = match state.run {
            Some(_) => state.go_on(process, to, now_ms, wishes),
            None => {
                now_ms.saturating_sub(state.since_ms) >= settling_ms
                    && state.may_begin(process, to, now_ms)
            }
        };
        goes_on.then_some(Goal { to, within: None })
    }

    /// What came of the order for a process; `None` if nothing did: it or its answer was lost, or the
    /// process is not for us to touch. Returns the part of its memory that is done with, if it was one.
    pub fn brought(&mut self, tgid: i32, now_ms: u64, batch: Option<Batch>) -> Option<Extent> {
        if let Some(order) = self.under_way.filter(|order| order.tgid == tgid) {
            self.under_way = None;
            let tried = batch.map_or(order.pages, |batch| batch.tried());
            self.purse += order.pages.saturating_sub(tried) * 1000;
        }
        let state = self.states.get_mut(&tgid)?;
        let run = state.run.as_mut()?;
        if let Some(batch) = batch {
            run.moved += u64::from(batch.moved);
            run.moved_before += u64::from(batch.moved);
            run.refused += u64::from(batch.refused);
            run.finished |= batch.finished;
        }
        let run = *run;
        let refuses = run.refused >= MANY_REFUSED && run.refused > 3 * run.moved;
        if batch.is_none() || refuses {
            state.give_up(run.local, run.to, now_ms);
            return run.within;
        }
        // All of a process is judged by a look; of a part it is known where it is.
        let part = run.within.filter(|_| run.finished)?;
        match run.refused > run.moved {
            true => state.give_up(run.local, run.to, now_ms),
            false => (state.run, state.attempts) = (None, 0),
        }
        Some(part)
    }
}

impl Goal {
    /// Pages to win, times thousand.
    fn gain(&self, process: &Resident<'_>) -> u64 {
        let far = 1000 - u64::from(local(process, self.to)).min(1000);
        match self.within {
            Some(part) => part.pages().saturating_mul(1000),
            None => far.saturating_mul(process.pages),
        }
    }
}

impl Run {
    fn new(Goal { to, within }: Goal, local: u16) -> Self {
        Self {
            to,
            within,
            local,
            moved: 0,
            refused: 0,
            finished: false,
            moved_before: 0,
            ordered_ms: 0,
            asked_ms: None,
        }
    }

    /// Pages of a stage: of a part that is all of it.
    fn stage(&self, process: &Resident<'_>) -> u64 {
        let first = process.pages.saturating_mul(STAGE) / 1000;
        let helped = self.moved_before - self.moved;
        self.within.map_or(first.max(helped), |part| part.pages())
    }

    /// ... that were not tried yet.
    fn left(&self, process: &Resident<'_>) -> u64 {
        self.stage(process)
            .saturating_sub(self.moved + self.refused)
    }
}

impl State {
    fn may_begin(&mut self, process: &Resident<'_>, to: u16, now_ms: u64) -> bool {
        let local = local(process, to);
        if self.attempts > 0 {
            let (share, node) = self.tried;
            if node != to || share.abs_diff(local) >= OTHER_SHARE {
                self.attempts = 0;
            }
        }
        process.pages >= WORTH_PAGES
            && local < BEGIN_BELOW
            && now_ms >= self.rests_until_ms
            && self.attempts < MOST_ATTEMPTS
    }

    /// The part of the memory of a process on several nodes that may be brought now.
    fn part(
        &mut self,
        process: &Resident<'_>,
        now_ms: u64,
        wishes: &mut Vec<Wish>,
    ) -> Option<Goal> {
        let goal = |part: Extent| Goal {
            to: part.to,
            within: Some(part),
        };
        if let Some(run) = self.run {
            self.in_vain = 0;
            return run.within.map(goal);
        }
        let rests = now_ms < self.rests_until_ms || self.attempts >= MOST_ATTEMPTS;
        if rests || process.pages < WORTH_PAGES {
            return None;
        }
        let Finding {
            extent,
            touched,
            far,
        } = process.finding;
        let near = 1000 * u64::from(touched.saturating_sub(far)) / u64::from(touched.max(1));
        let is_far = touched as usize >= LEAST_TOUCHES && near < PARTS_BELOW.into();
        let asked_ms = self.asked_ms.max(process.sampled_ms);
        let pause_ms = LOOK_MS << (self.in_vain / LOOKS_IN_VAIN).min(MOST_PAUSES);
        if is_far && now_ms.saturating_sub(asked_ms) >= pause_ms {
            self.asked_ms = now_ms;
            self.in_vain = self.in_vain.saturating_add(1);
            wishes.push(Wish::Look { tgid: process.tgid });
        }
        extent.map(goal)
    }

    /// Whether a run goes on with another batch. At the end of a stage it waits for a look and judges by that.
    fn go_on(
        &mut self,
        process: &Resident<'_>,
        to: u16,
        now_ms: u64,
        wishes: &mut Vec<Wish>,
    ) -> bool {
        let Some(run) = &mut self.run else {
            return false;
        };
        let Some(asked_ms) = run.asked_ms else {
            let tried = run.moved + run.refused;
            if tried < run.stage(process).max(LEAST_BATCH) && !run.finished {
                return matches!(process.standing, Standing::Known | Standing::Unstable);
            }
            run.asked_ms = Some(now_ms);
            if process.sampled_ms <= run.ordered_ms {
                wishes.push(Wish::Look { tgid: process.tgid });
            }
            return false;
        };
        if process.sampled_ms <= run.ordered_ms {
            if late(asked_ms, now_ms) {
                run.asked_ms = Some(now_ms);
                wishes.push(Wish::Look { tgid: process.tgid });
            }
            return false;
        }
        let local = local(process, to);
        let expected = run.moved.saturating_mul(1000) / process.pages.max(1);
        let grown = u64::from(local.saturating_sub(run.local));
        let helped = run.moved >= run.refused.max(1) && grown * HELPED >= expected;
        match helped {
            false => self.give_up(local, to, now_ms),
            true if local >= END_FROM || run.finished => self.end(local, to, now_ms),
            true => {
                let moved_before = run.moved_before;
                *run = Run {
                    moved_before,
                    ..Run::new(Goal { to, within: None }, local)
                };
            }
        }
        // The next order is the next tick's.
        false
    }

    /// All was brought that could be. If that was not enough to be near, it counts as an attempt.
    fn end(&mut self, local: u16, to: u16, now_ms: u64) {
        if local < BEGIN_BELOW {
            return self.give_up(local, to, now_ms);
        }
        self.run = None;
        self.attempts = 0;
        self.rests_until_ms = now_ms.saturating_add(REST_MS);
    }

    fn give_up(&mut self, local: u16, to: u16, now_ms: u64) {
        self.run = None;
        self.rests_until_ms = now_ms.saturating_add(REST_MS << self.attempts.min(MOST_ATTEMPTS));
        self.attempts = self.attempts.saturating_add(1);
        self.tried = (local, to);
    }
}

fn local(process: &Resident<'_>, to: u16) -> u16 {
    process.shares.get(usize::from(to)).copied().unwrap_or(0)
}

fn late(since_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(since_ms) >= LOST_MS
}

#[cfg(test)]
mod tests;
