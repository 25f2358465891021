// SPDX-License-Identifier: GPL-2.0-only
//! Which part of a process's memory is worked on from one node, though the process runs on several.
//!
//! Whose a page is nobody can tell from outside, but touches tell some of the pages that each task works on. In the
//! order of their addresses, touches of tasks on one node that no touch of another node's task comes between make a
//! *run*: what lies between them is taken for memory of that node's tasks as well. The stretch of a run with the most touches
//! on other nodes, less those that are near, becomes an [`Extent`] that may be brought when it has touches enough: so
//! what has come already is left out, wherever in the run it is. In memory that all tasks use alike runs come about by
//! chance, ever longer ones the more touches there are. Enough is what would not ([`enough`]), and [`LEAST_TOUCHES`].
//!
//! Invariants:
//! - between the first and the last page of an extent there is no touch of a task elsewhere or of one that has
//!   not settled, and no hole of more than [`WIDEST_PAGES`] between two touches; and it lies in one area;
//! - what was brought is left alone for [`REST_MS`], so that no page goes to and fro faster;
//! - after an extent was brought none is found in it until new touches tell otherwise.
//!
//! Addresses are page numbers. Integers only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ledger::TaskKey;

/// Touches that an extent has at least.
pub const LEAST_TOUCHES: usize = 8;
/// More are not asked for: where most touches are of one node's tasks, memory that all use belongs there anyway.
const MOST_ASKED: usize = 32;
/// Runs that chance makes of memory that all tasks use alike: one in so many looks at most.
const BY_CHANCE: u64 = 20;
/// Two touches with more pages between them are not of one run: 16 MiB of small pages.
pub const WIDEST_PAGES: u64 = 4096;
/// What was brought is left alone for so long: twice what threads take to settle.
pub const REST_MS: u64 = 10_000;
/// A touch tells nothing any more.
const OLD_MS: u64 = 60_000;
/// Pages that are remembered of a process; of more, the oldest are forgotten.
const MOST_TOUCHES: usize = 4096;

/// A page that a task was seen to work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    pub task: TaskKey,
    pub page: u64,
    /// Where it is.
    pub node: u16,
    /// The area that it is in, by its first page.
    pub area: u64,
}

/// Memory from page `start` up to page `end`, to be brought to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extent {
    pub start: u64,
    pub end: u64,
    pub to: u16,
}

impl Extent {
    pub fn pages(&self) -> u64 {
        self.end - self.start
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }
}

/// What touches say of a process now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finding {
    /// The one with the most touches elsewhere.
    pub extent: Option<Extent>,
    /// Pages touched by tasks that have settled, and how many of these are not on the node of their task.
    pub touched: u32,
    pub far: u32,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    task: TaskKey,
    node: u16,
    area: u64,
    at_ms: u64,
}

/// Touches of one process. See the module.
#[derive(Debug, Default)]
pub struct Extents {
    /// By page: who was seen there last.
    seen: BTreeMap<u64, Seen>,
    /// Within the last [`REST_MS`]; since one batch is brought in a tick, these are not many.
    brought: Vec<(Extent, u64)>,
}

/// Touches of tasks of one node with nothing between them.
#[derive(Debug, Clone, Copy)]
struct Run {
    to: u16,
    /// Touches that are enough there.
    asked: usize,
    area: u64,
    last: u64,
    /// The best stretch that ends at the last touch, and the best of all with touches enough.
    here: Stretch,
    best: Option<Stretch>,
}

/// Touches in a row.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: u64,
    last: u64,
    touches: usize,
    far: usize,
}

impl Extents {
    /// What a look has found.
    pub fn touched(&mut self, touched: &[Touched], at_ms: u64) {
        for &Touched {
            task,
            page,
            node,
            area,
        } in touched
        {
            let seen = Seen {
                task,
                node,
                area,
                at_ms,
            };
            self.seen.insert(page, seen);
        }
        let young = |seen: &Seen| at_ms.saturating_sub(seen.at_ms) <= OLD_MS;
        self.seen.retain(|_, seen| young(seen));
        if self.seen.len() > MOST_TOUCHES {
            let mut times: Vec<u64> = self.seen.values().map(|seen| seen.at_ms).collect();
            times.sort_unstable();
            let oldest = times[times.len() - MOST_TOUCHES];
            self.seen.retain(|_, seen| seen.at_ms >= oldest);
        }
    }

    /// An extent was gone through: its pages are where they were wanted, as far as it could be done.
    pub fn brought(&mut self, extent: Extent, now_ms: u64) {
        for (_, seen) in self.seen.range_mut(extent.start..extent.end) {
            seen.node = extent.to;
        }
        self.brought.push((extent, now_ms));
        let young = |at: u64| now_ms.saturating_sub(at) <= REST_MS;
        self.brought.retain(|&(_, at)| young(at));
    }

    /// The tasks that were seen on the extent, ascending, each with how much of what it was seen on that is, in permille.
    pub fn tasks_of(&self, extent: Extent) -> Vec<(TaskKey, u16)> {
        let mut tasks: BTreeMap<TaskKey, (u32, u32)> = BTreeMap::new();
        for (&page, seen) in &self.seen {
            let (inside, all) = tasks.entry(seen.task).or_default();
            *inside += u32::from(extent.overlaps(page, page + 1));
            *all += 1;
        }
        let permille = |(task, (inside, all))| (task, (inside * 1000 / all) as u16);
        let mut tasks: Vec<_> = tasks.into_iter().map(permille).collect();
        tasks.retain(|&(_, part)| part > 0);
        tasks
    }

    /// `node`: where a task has settled; `None`: nowhere yet, or it is gone.
    pub fn find(&self, now_ms: u64, node: impl Fn(TaskKey) -> Option<u16>) -> Finding {
        let mut finding = Finding::default();
        let mut by_node: BTreeMap<u16, u64> = BTreeMap::new();
        for seen in self.seen.values() {
            if let Some(to) = node(seen.task) {
                finding.touched += 1;
                finding.far += u32::from(seen.node != to);
                *by_node.entry(to).or_default() += 1;
            }
        }
        let all = self.seen.len() as u64;
        let asked = |to: u16| enough(by_node.get(&to).copied().unwrap_or(0), all);
        let mut best = 0;
        let mut run: Option<Run> = None;
        for (&page, seen) in &self.seen {
            // What rests ends a run, too.
            let to = node(seen.task).filter(|_| !self.rests(page, page + 1, now_ms));
            run = match (run, to) {
                (Some(run), Some(to)) if run.goes_on(to, seen.area, page) => {
                    Some(run.with(page, seen.node))
                }
                (ended, to) => {
                    self.consider(ended, now_ms, &mut best, &mut finding.extent);
                    to.map(|to| Run::new((to, asked(to)), seen.area, page, seen.node))
                }
            };
        }
        self.consider(run, now_ms, &mut best, &mut finding.extent);
        finding
    }

    /// Whether the run is an extent with more to win than the best one so far.
    fn consider(
        &self,
        run: Option<Run>,
        now_ms: u64,
        best: &mut usize,
        found: &mut Option<Extent>,
    ) {
        let Some((to, stretch)) = run.and_then(|run| Some((run.to, run.best?))) else {
            return;
        };
        if stretch.far <= *best {
            return;
        }
        let extent = Extent {
            start: stretch.first,
            end: stretch.last + 1,
            to,
        };
        if !self.rests(extent.start, extent.end, now_ms) {
            (*best, *found) = (stretch.far, Some(extent));
        }
    }

    /// Whether some of it was brought lately.
    fn rests(&self, start: u64, end: u64, now_ms: u64) -> bool {
        let lately = |at: u64| now_ms.saturating_sub(at) <= REST_MS;
        let mut brought = self.brought.iter();
        brought.any(|&(extent, at)| lately(at) && extent.overlaps(start, end))
    }
}

/// Touches of a run that chance does not make: of `all` touches in any order, `own` are of the node's tasks. The others end as
/// many runs, of which own / all goes on for one touch more.
fn enough(own: u64, all: u64) -> usize {
    const ONE: u64 = 1 << 20;
    let (mut runs, mut touches) = (all.saturating_sub(own) * ONE, 0);
    while runs * BY_CHANCE > ONE && touches < MOST_ASKED {
        runs = runs * own / all.max(1);
        touches += 1;
    }
    touches.max(LEAST_TOUCHES)
}

impl Run {
    fn new((to, asked): (u16, usize), area: u64, page: u64, node: u16) -> Self {
        let here = Stretch::new(page, node != to);
        Self {
            to,
            asked,
            area,
            last: page,
            here,
            best: None,
        }
    }

    fn goes_on(&self, to: u16, area: u64, page: u64) -> bool {
        self.to == to && self.area == area && page - self.last <= WIDEST_PAGES
    }

    /// A stretch that has nothing to win is not worth going on with: so the best of all is found in one pass.
    fn with(self, page: u64, node: u16) -> Self {
        let far = node != self.to;
        let here = match self.here.gain() > 0 {
            true => self.here.with(page, far),
            false => Stretch::new(page, far),
        };
        let most = self.best.map_or(0, |best| best.gain());
        let best = match here.touches >= self.asked && here.gain() > most {
            true => Some(here),
            false => self.best,
        };
        Self {
            last: page,
            here,
            best,
            ..self
        }
    }
}

impl Stretch {
    fn new(page: u64, far: bool) -> Self {
        Self {
            first: page,
            last: page,
            touches: 1,
            far: usize::from(far),
        }
    }

    fn with(self, page: u64, far: bool) -> Self {
        Self {
            last: page,
            touches: self.touches + 1,
            far: self.far + usize::from(far),
            ..self
        }
    }

    /// Touches that come near, less those that are.
    fn gain(&self) -> i64 {
        2 * self.far as i64 - self.touches as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn touch(task: u32, page: u64, node: u16) -> Touched {
        Touched {
            task: (task, 2),
            page,
            node,
            area: 0,
        }
    }

    /// Task n has settled on node n.
    fn own(task: TaskKey) -> Option<u16> {
        (task.0 < 8).then_some(task.0 as u16)
    }

    fn extent(start: u64, end: u64, to: u16) -> Option<Extent> {
        Some(Extent { start, end, to })
    }

    #[test]
    fn each_node_gets_what_its_tasks_work_on() {
        let mut extents = Extents::default();
        // Tasks 0 and 1 work on a half each of what lies on node 0.
        let touches: Vec<_> = (0..40)
            .map(|n| touch(u32::from(n >= 20), 100 + n * 10, 0))
            .collect();
        extents.touched(&touches, 0);
        let found = extents.find(0, own);
        assert_eq!(found.extent, extent(300, 491, 1));
        assert_eq!((found.touched, found.far), (40, 20));
        extents.brought(found.extent.unwrap(), 0);
        let found = extents.find(REST_MS + 1, own);
        assert_eq!((found.extent, found.far), (None, 0));
    }

    #[test]
    fn what_others_use_as_well_is_left_alone() {
        let mut extents = Extents::default();
        let touches: Vec<_> = (0..64).map(|n| touch(n as u32 % 2, n, 0)).collect();
        extents.touched(&touches, 0);
        let found = extents.find(0, own);
        assert_eq!((found.extent, found.far), (None, 32));
    }

    #[test]
    fn few_touches_and_wide_holes_and_other_areas_are_not_enough() {
        let find = |touches: Vec<Touched>| {
            let mut extents = Extents::default();
            extents.touched(&touches, 0);
            extents.find(0, own).extent
        };
        let at = |n: u64| touch(1, n * WIDEST_PAGES, 0);
        assert_eq!(find((0..7).map(at).collect()), None);
        assert_eq!(find((0..8).map(at).collect()), extent(0, 7 * 4096 + 1, 1));
        let further = |n: u64| touch(1, n * (WIDEST_PAGES + 1), 0);
        assert_eq!(find((0..8).map(further).collect()), None);
        let area = |n: u64| Touched {
            area: n / 4,
            ..at(n)
        };
        assert_eq!(find((0..8).map(area).collect()), None);
        // Half of it is there already.
        let half = |n: u64| touch(1, n, n as u16 % 2);
        assert_eq!(find((0..20).map(half).collect()), None);
    }

    #[test]
    fn a_run_is_as_long_as_chance_does_not_make_one() {
        // 8 * 2^-8 is less than 1/20, 2048 * 2^-16 as well; 10 * 0.9^n would be at n = 51.
        assert_eq!((enough(8, 16), enough(2048, 4096)), (8, 16));
        assert_eq!(enough(90, 100), 32);
        // Nobody else was there.
        assert_eq!((enough(8, 8), enough(0, 0)), (8, 8));
        assert_eq!(enough(1, 100), 8);
    }

    #[test]
    fn memory_of_all_is_not_brought_by_chance() {
        // Any order of 4096 touches by tasks of two nodes, half of the pages on either; repeatable.
        let mut state = 1_u64;
        let mut coin = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) & 1
        };
        let looks = 100;
        let brought = (0..looks).filter(|_| {
            let mut extents = Extents::default();
            let touches: Vec<_> = (0..4096)
                .map(|n| touch(coin() as u32, n, coin() as u16))
                .collect();
            extents.touched(&touches, 0);
            extents.find(0, own).extent.is_some()
        });
        assert!(brought.count() <= looks / 10);
    }

    #[test]
    fn what_has_come_already_is_left_out() {
        // Pages 20 to 39 and 60 to 79 are near, one of those between is as well.
        let near = |n: u64| (20..40).contains(&n) || (60..80).contains(&n) || n == 50;
        let touches: Vec<_> = (0..100).map(|n| touch(1, n, u16::from(near(n)))).collect();
        let mut extents = Extents::default();
        extents.touched(&touches, 0);
        let found = extents.find(0, own);
        assert_eq!((found.touched, found.far), (100, 59));
        let mut parts = Vec::new();
        while let Some(extent) = extents.find(0, own).extent {
            extents.brought(extent, 0);
            parts.push((extent.start, extent.end));
        }
        assert_eq!(parts, [(0, 20), (80, 100), (40, 60)]);
    }

    #[test]
    fn who_has_not_settled_is_in_nobodys_extent() {
        let mut extents = Extents::default();
        let touches: Vec<_> = (0..81)
            .map(|n| touch(if n == 40 { 9 } else { 1 }, n, 0))
            .collect();
        extents.touched(&touches, 0);
        let found = extents.find(0, own);
        assert_eq!((found.extent, found.touched), (extent(0, 40, 1), 80));
    }

    #[test]
    fn whose_memory_it_is_is_told() {
        let mut extents = Extents::default();
        // Task 1 works on 8 of its 12 pages there, task 2 elsewhere.
        let mine = (0..12).map(|n| touch(1, n, 0));
        let other = (20..30).map(|n| touch(2, n, 0));
        extents.touched(&mine.chain(other).collect::<Vec<_>>(), 0);
        let part = |start, end| Extent { start, end, to: 1 };
        assert_eq!(extents.tasks_of(part(4, 15)), [((1, 2), 666)]);
        let both = [((1, 2), 1000), ((2, 2), 1000)];
        assert_eq!(extents.tasks_of(part(0, 30)), both);
        assert_eq!(extents.tasks_of(part(12, 20)), []);
    }

    #[test]
    fn what_was_brought_rests() {
        let mut extents = Extents::default();
        extents.touched(&(0..10).map(|n| touch(1, n, 0)).collect::<Vec<_>>(), 0);
        extents.brought(extents.find(0, own).extent.unwrap(), 0);
        // Something has moved it back.
        let again: Vec<_> = (0..10).map(|n| touch(1, n, 0)).collect();
        extents.touched(&again, REST_MS);
        assert_eq!(extents.find(REST_MS, own).extent, None);
        assert_eq!(extents.find(REST_MS + 1, own).extent, extent(0, 10, 1));
    }

    #[test]
    fn what_rests_or_is_short_hides_nothing() {
        let far = |pages: std::ops::Range<u64>| pages.map(|n| touch(1, n, 0)).collect::<Vec<_>>();
        let mut extents = Extents::default();
        extents.touched(&far(0..10), 0);
        extents.brought(extents.find(0, own).extent.unwrap(), 0);
        // One was refused, and more is found behind it.
        extents.touched(&far(9..200), 1);
        assert_eq!(extents.find(1, own).extent, extent(10, 200, 1));
        // Six far ones, 21 near ones, and nine of twelve.
        let near = |n: u64| (6..27).contains(&n) || [30, 33, 36].contains(&n);
        let touches: Vec<_> = (0..39).map(|n| touch(1, n, u16::from(near(n)))).collect();
        let mut extents = Extents::default();
        extents.touched(&touches, 0);
        assert_eq!(extents.find(0, own).extent, extent(27, 39, 1));
    }

    #[test]
    fn old_touches_are_forgotten_and_so_are_those_too_many() {
        let mut extents = Extents::default();
        extents.touched(&(0..10).map(|n| touch(1, n, 0)).collect::<Vec<_>>(), 0);
        extents.touched(&[], OLD_MS);
        assert_eq!(extents.find(OLD_MS, own).touched, 10);
        extents.touched(&[], OLD_MS + 1);
        assert_eq!(extents.find(OLD_MS, own).touched, 0);
        for look in 0..10 {
            let touches: Vec<_> = (0..1000).map(|n| touch(1, look * 1000 + n, 0)).collect();
            extents.touched(&touches, look);
        }
        assert!((4000..=5000).contains(&extents.find(9, own).touched));
    }

    prop_compose! {
        fn any_touch()(task in 0_u32..10, page in 0_u64..200, node in 0_u16..4) -> Touched {
            Touched { area: page / 50, ..touch(task, page, node) }
        }
    }

    proptest! {
        #[test]
        fn extents_hold_what_they_promise_and_bringing_ends(
            touches in prop::collection::vec(any_touch(), 0..400),
        ) {
            let mut extents = Extents::default();
            extents.touched(&touches, 0);
            let last: BTreeMap<u64, Touched> = touches.iter().map(|t| (t.page, *t)).collect();
            let mut rounds = 0;
            // Most of an extent's touches are far before it is brought and near afterwards.
            let most_rounds = 200 / (LEAST_TOUCHES / 2 + 1);
            while let Some(extent) = extents.find(0, own).extent {
                let inside: Vec<_> = last.range(extent.start..extent.end).collect();
                prop_assert!(inside.len() >= LEAST_TOUCHES);
                prop_assert!(inside.iter().all(|(_, t)| own(t.task) == Some(extent.to)));
                prop_assert!(inside.iter().all(|(_, t)| t.area == inside[0].1.area));
                extents.brought(extent, 0);
                rounds += 1;
                prop_assert!(rounds <= most_rounds);
            }
            // Also when nothing rests any more.
            while let Some(extent) = extents.find(REST_MS + 1, own).extent {
                extents.brought(extent, REST_MS + 1);
                rounds += 1;
                prop_assert!(rounds <= most_rounds);
            }
        }
    }
}
