// SPDX-License-Identifier: GPL-2.0-only
//! Which areas of a process to look at first (R7 hot-first), and how many of its pages.
//!
//! An area is hot when *somebody* touched it lately: an [`Area`] has one time of touch and no place
//! to say whose it was, so a task's own history cannot decide what is looked at (document 004, where
//! that had left much memory of threads unexamined). Hot areas come first, the latest first. Areas
//! that nobody looked at for long come next, so that nothing stays unknown for ever, then the rest.
//!
//! Where no source tells touches (soft-dirty or referenced bits, idle page tracking, DAMON; each is
//! optional), every area is cold and they take turns.

use serde::{Deserialize, Serialize};

/// Touched within this time: hot. Two windows of the kernel's history, which is 4 s long.
pub const HOT_MS: u64 = 8_000;
/// Not looked at for this long: next after the hot ones.
pub const OVERDUE_MS: u64 = 60_000;
/// Of all addresses the hot areas get at least three in so many, as long as they have the pages.
const PARTS: u32 = 4;

/// A range of a process's memory, as its map has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    pub start: u64,
    pub pages: u64,
    /// When any task of any process last touched it, as far as is known.
    pub touched_ms: Option<u64>,
    /// When it was last looked at.
    pub sampled_ms: Option<u64>,
}

impl Area {
    fn is_hot(&self, now_ms: u64) -> bool {
        self.touched_ms
            .is_some_and(|at| now_ms.saturating_sub(at) <= HOT_MS)
    }

    fn is_overdue(&self, now_ms: u64) -> bool {
        self.sampled_ms
            .is_none_or(|at| now_ms.saturating_sub(at) > OVERDUE_MS)
    }
}

/// Put the areas in the order in which to look at them.
pub fn order(areas: &mut [Area], now_ms: u64) {
    areas.sort_unstable_by_key(|area| {
        let hot = area.is_hot(now_ms);
        let latest = match hot {
            true => now_ms.saturating_sub(area.touched_ms.unwrap_or(0)),
            false => 0,
        };
        let turn = area.sampled_ms.map_or(0, |at| at.saturating_add(1));
        (!hot, !area.is_overdue(now_ms), latest, turn, area.start)
    });
}

/// How many of `addresses` to take in each area: by size, the hot areas' share being three quarters.
/// No area gets more than its pages, and what one cannot use the next in order gets.
///
/// `areas` are in [`order`]; the result is parallel to them.
pub fn allot(areas: &[Area], addresses: u32, now_ms: u64) -> Vec<u32> {
    let hot = areas.iter().take_while(|area| area.is_hot(now_ms)).count();
    let (hot_areas, cold_areas) = areas.split_at(hot);
    let for_hot = match (hot, areas.len() - hot) {
        (0, _) => 0,
        (_, 0) => addresses,
        _ => addresses - addresses / PARTS,
    };
    let mut allotted = by_size(hot_areas, for_hot);
    allotted.extend(by_size(cold_areas, addresses - for_hot));
    let mut left = addresses - allotted.iter().sum::<u32>();
    for (given, area) in allotted.iter_mut().zip(areas) {
        let more = u64::from(left).min(area.pages - u64::from(*given)) as u32;
        *given += more;
        left -= more;
    }
    allotted
}

/// Each area's part. What rounding leaves over is spread: of many areas that are too small for an address each,
/// some get one, evenly and the first among them, and not the first all.
fn by_size(areas: &[Area], addresses: u32) -> Vec<u32> {
    let all: u128 = areas.iter().map(|area| u128::from(area.pages)).sum();
    let up_to = |pages: u128| (u128::from(addresses) * pages).div_ceil(all.max(1));
    let mut before: u128 = 0;
    let part = |area: &Area| {
        let after = before + u128::from(area.pages);
        let part = up_to(after) - up_to(before);
        before = after;
        part.min(area.pages.into()) as u32
    };
    areas.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, pages: u64, touched: Option<u64>, sampled: Option<u64>) -> Area {
        Area {
            start,
            pages,
            touched_ms: touched,
            sampled_ms: sampled,
        }
    }

    fn starts(mut areas: Vec<Area>, now_ms: u64) -> Vec<u64> {
        order(&mut areas, now_ms);
        areas.iter().map(|area| area.start).collect()
    }

    #[test]
    fn hot_areas_come_first_the_latest_first() {
        let areas = vec![
            area(1, 9, None, Some(99_000)),
            area(2, 9, Some(93_000), Some(99_000)),
            area(3, 9, Some(99_000), Some(99_500)),
            // Touched, but long ago.
            area(4, 9, Some(50_000), Some(98_000)),
        ];
        assert_eq!(starts(areas, 100_000), [3, 2, 4, 1]);
    }

    #[test]
    fn areas_take_turns_and_none_is_forgotten() {
        let areas = vec![
            area(1, 9, None, Some(95_000)),
            area(2, 9, None, Some(20_000)),
            area(3, 9, None, None),
            area(4, 9, None, Some(90_000)),
        ];
        // Never looked at, then 80 s ago, then by turn.
        assert_eq!(starts(areas, 100_000), [3, 2, 4, 1]);
    }

    #[test]
    fn hot_areas_get_three_quarters() {
        let areas = [
            area(1, 100, Some(10_000), None),
            area(2, 300, Some(9_000), None),
            area(3, 4000, None, None),
        ];
        // 150 by 100 : 300, which is 37.5 and 112.5; 50 for the cold one; the odd one to the first.
        assert_eq!(allot(&areas, 200, 10_000), [38, 112, 50]);
    }

    #[test]
    fn small_areas_share_what_is_too_little_for_all() {
        let areas: Vec<Area> = (0..1000).map(|at| area(at, 50, None, None)).collect();
        let allotted = allot(&areas, 400, 0);
        assert_eq!(allotted.iter().sum::<u32>(), 400);
        assert_eq!(allotted.iter().max(), Some(&1));
        // The first is one of them, so whoever waits longest has its turn.
        assert_eq!(allotted[..6], [1, 0, 1, 0, 0, 1]);
        let half: u32 = allotted[..500].iter().sum();
        assert_eq!(half, 200);
    }

    #[test]
    fn nobody_gets_more_than_its_pages() {
        let areas = [area(1, 10, Some(10_000), None), area(2, 1000, None, None)];
        assert_eq!(allot(&areas, 200, 10_000), [10, 190]);
        assert_eq!(allot(&areas[..1], 200, 10_000), [10]);
        assert_eq!(allot(&[], 200, 10_000), [0; 0]);
        assert_eq!(allot(&[area(1, 0, None, None)], 7, 0), [0]);
        let most = area(1, u64::MAX, Some(0), None);
        assert_eq!(
            allot(&[most, most], u32::MAX, 0)
                .iter()
                .map(|&n| u64::from(n))
                .sum::<u64>(),
            u64::from(u32::MAX)
        );
    }
}
