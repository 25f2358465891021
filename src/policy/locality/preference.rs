// SPDX-License-Identifier: GPL-2.0-only
//! The nodes where a group of tasks belongs, by the score of its memory.
//!
//! A group that fits on a node belongs on one: that with the best score, if it is clearly the best. One
//! that is larger belongs on the fewest nodes that hold it, of those sets the one with the best
//! scores, and inside the set its tasks are left alone. One that needs every node belongs everywhere.
//!
//! Hysteresis: another choice has to be better by [`MARGIN`], and the last change has to be
//! [`DWELL_MS`] ago. Only a set that has become too small is changed at once. A group that has shrunk
//! gets fewer nodes when an eighth more than its tasks would still fit.
//!
//! The choice depends on evidence and sizes, never on where tasks run at the moment: what tasks do
//! about a preference cannot change it.

use serde::{Deserialize, Serialize};

use crate::machine::limits::MAX_NODES;

/// By so much, in permille, one choice has to be better than another.
pub const MARGIN: u32 = 60;
/// A preference is kept at least this long.
pub const DWELL_MS: u64 = 2_000;

/// Where a group belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preference {
    /// Bit n: node n is one of them. 0: nowhere in particular.
    pub nodes: u64,
    pub since_ms: u64,
}

impl Preference {
    /// Everything fits on this one node.
    pub fn single(self) -> Option<usize> {
        (self.nodes.count_ones() == 1).then(|| self.nodes.trailing_zeros() as usize)
    }
}

/// What a choice is made by.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// By node with CPUs, 0 to 1000.
    pub scores: &'a [u16],
    /// By node: its CPUs.
    pub weight: &'a [u32],
    /// By node: all nodes, nearest first.
    pub order: &'a [Vec<u8>],
    /// Tasks of the group.
    pub tasks: u32,
    pub now_ms: u64,
}

impl Asked<'_> {
    fn nodes(&self) -> usize {
        self.scores.len().min(self.weight.len()).min(64)
    }

    /// The sum of the scores of a set.
    fn score(&self, set: u64) -> u32 {
        members(set, self.nodes())
            .map(|n| u32::from(self.scores[n]))
            .sum()
    }

    fn holds(&self, set: u64, tasks: u32) -> bool {
        let cpus: u64 = members(set, self.nodes())
            .map(|n| u64::from(self.weight[n]))
            .sum();
        cpus >= tasks.into()
    }

    /// The node of most of the memory. What was chosen before stays ahead unless it is clearly behind
    /// and may change.
    fn first(&self, previous: u64, rested: bool) -> usize {
        let best = |set: u64| {
            let nodes = members(set, self.nodes());
            nodes.max_by_key(|&n| (self.scores[n], std::cmp::Reverse(n)))
        };
        let (of_all, before) = (best(u64::MAX).unwrap_or(0), best(previous));
        match before {
            Some(before) if !rested || !self.is_ahead(of_all, before) => before,
            _ => of_all,
        }
    }

    fn is_ahead(&self, a: usize, b: usize) -> bool {
        u32::from(self.scores[a]) >= u32::from(self.scores[b]) + MARGIN
    }

    /// How many nodes, `first` among them, hold so many tasks at least; all of them if even they do not.
    fn fewest(&self, first: usize, tasks: u32) -> usize {
        let nodes = self.nodes();
        let mut others = [0; MAX_NODES];
        let others = &mut others[..nodes];
        others.copy_from_slice(&self.weight[..nodes]);
        let mut cpus = u64::from(std::mem::take(&mut others[first]));
        others.sort_unstable_by(|a, b| b.cmp(a));
        let mut size = 1;
        // The last one is `first`, which is counted.
        for &weight in &others[..nodes - 1] {
            if cpus >= tasks.into() {
                break;
            }
            cpus += u64::from(weight);
            size += 1;
        }
        size
    }

    /// The set of `size` nodes, `first` among them, that holds the tasks and has the best scores: the
    /// best node that leaves a way to complete the set, then the next. Of equal ones the nearest to the
    /// first.
    fn best(&self, first: usize, size: usize) -> u64 {
        let all = self.nodes();
        let nearest = self.order.get(first).into_iter().flatten();
        let nearest = nearest.map(|&n| usize::from(n)).filter(|&n| n < all);
        let mut ranked = [(0, 0); MAX_NODES];
        let mut known = 0;
        for (place, (rank, node)) in ranked.iter_mut().zip(nearest.enumerate()) {
            *place = (node, rank);
            known += 1;
        }
        let ranked = &mut ranked[..known];
        ranked.sort_unstable_by_key(|&(n, rank)| {
            (n != first, std::cmp::Reverse(self.scores[n]), rank)
        });
        let mut set = 0_u64;
        for &(node, _) in ranked.iter() {
            if set.count_ones() as usize == size {
                break;
            }
            let with = set | 1 << node;
            let missing = size - with.count_ones() as usize;
            let completed = self.heaviest(with, missing, all);
            if size == all || self.holds(completed, self.tasks) {
                set = with;
            }
        }
        set
    }

    /// `set` with `missing` more of the nodes below `all`, those with most CPUs.
    fn heaviest(&self, mut set: u64, missing: usize, all: usize) -> u64 {
        for _ in 0..missing {
            let others = (0..all).filter(|n| set >> n & 1 == 0);
            let next = others.max_by_key(|&n| (self.weight[n], std::cmp::Reverse(n)));
            set |= next.map_or(0, |n| 1 << n);
        }
        set
    }
}

/// The preference that follows `previous`.
pub fn choose(previous: Preference, asked: &Asked<'_>) -> Preference {
    if asked.nodes() == 0 {
        return previous;
    }
    let was = previous.nodes.count_ones() as usize;
    let rested = was == 0 || asked.now_ms.saturating_sub(previous.since_ms) >= DWELL_MS;
    let first = asked.first(previous.nodes, rested);
    let needed = asked.fewest(first, asked.tasks);
    // Not smaller before it fits with room to spare.
    let with_room = asked.tasks.saturating_add(asked.tasks / 8);
    let too_early = !rested || asked.fewest(first, with_room) > needed;
    let size = if was > needed && too_early {
        was
    } else {
        needed
    };
    let best = asked.best(first, size);
    let fits = was == size && (asked.holds(previous.nodes, asked.tasks) || size == asked.nodes());
    let better = asked.score(best) >= asked.score(previous.nodes) + MARGIN;
    let nodes = match was {
        _ if size == 1 && was != 1 && !is_clear(asked, first) => previous.nodes,
        0 => best,
        _ if !fits || better && rested => best,
        _ if previous.nodes >> first & 1 == 0 => best,
        _ => previous.nodes,
    };
    match nodes == previous.nodes {
        true => previous,
        false => Preference {
            nodes,
            since_ms: asked.now_ms,
        },
    }
}

/// Whether a node is better than any other by the margin. Of a set of several it is not asked: nodes
/// that nothing tells apart have nothing to gain from each other, and no task is moved for that.
fn is_clear(asked: &Asked<'_>, node: usize) -> bool {
    (0..asked.nodes()).all(|other| other == node || asked.is_ahead(node, other))
}

fn members(set: u64, nodes: usize) -> impl Iterator<Item = usize> {
    (0..nodes).filter(move |n| set >> n & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(previous: Preference, scores: &[u16], weight: &[u32], tasks: u32, now_ms: u64) -> u64 {
        after(previous, scores, weight, tasks, now_ms).nodes
    }

    fn after(
        previous: Preference,
        scores: &[u16],
        weight: &[u32],
        tasks: u32,
        now_ms: u64,
    ) -> Preference {
        let nodes = weight.len();
        let row = |n: usize| (0..nodes).map(|i| ((n + i) % nodes) as u8).collect();
        let order: Vec<Vec<u8>> = (0..nodes).map(row).collect();
        let asked = Asked {
            scores,
            weight,
            order: &order,
            tasks,
            now_ms,
        };
        choose(previous, &asked)
    }

    const NONE: Preference = Preference {
        nodes: 0,
        since_ms: 0,
    };

    fn on(nodes: u64) -> Preference {
        Preference { nodes, since_ms: 0 }
    }

    #[test]
    fn a_group_that_fits_belongs_on_the_best_node() {
        assert_eq!(ask(NONE, &[200, 800], &[8, 8], 8, 0), 0b10);
        // 530 against 471 is a lead of 59, one too little.
        assert_eq!(ask(NONE, &[471, 530], &[8, 8], 8, 0), 0);
        assert_eq!(ask(NONE, &[470, 530], &[8, 8], 8, 0), 0b10);
    }

    #[test]
    fn a_larger_group_gets_the_fewest_nodes_that_hold_it() {
        assert_eq!(ask(NONE, &[100, 500, 300, 100], &[8; 4], 9, 0), 0b0110);
        // Memory on one node: with its neighbour, nearest first.
        assert_eq!(ask(NONE, &[0, 0, 1000, 0], &[8; 4], 9, 0), 0b1100);
        // The node of the memory is one of them, even if others would be fewer: 3 + 5 do not hold 9.
        assert_eq!(ask(NONE, &[900, 60, 40], &[3, 5, 5], 9, 0), 0b111);
        assert_eq!(ask(NONE, &[900, 60, 40], &[3, 5, 5], 4, 0), 0b011);
        // 5 + 5 hold 9, 5 + 3 do not, though the third has the better score.
        assert_eq!(ask(NONE, &[60, 900, 40], &[3, 5, 5], 9, 0), 0b110);
        assert_eq!(ask(NONE, &[60, 900, 40], &[3, 5, 5], 8, 0), 0b011);
        // More than the machine holds: everywhere.
        assert_eq!(ask(NONE, &[900, 60, 40], &[3, 5, 5], 99, 0), 0b111);
    }

    #[test]
    fn a_change_needs_a_margin_and_time() {
        // 529 against 470: 59.
        assert_eq!(ask(on(0b01), &[470, 529], &[8, 8], 4, 9_000), 0b01);
        assert_eq!(ask(on(0b01), &[470, 530], &[8, 8], 4, 9_000), 0b10);
        assert_eq!(ask(on(0b01), &[100, 900], &[8, 8], 4, 1_999), 0b01);
        assert_eq!(ask(on(0b01), &[100, 900], &[8, 8], 4, 2_000), 0b10);
        // The time of the change is remembered.
        assert_eq!(
            after(on(0b01), &[100, 900], &[8, 8], 4, 2_000).since_ms,
            2_000
        );
    }

    #[test]
    fn a_set_that_is_too_small_grows_at_once_and_shrinks_with_room() {
        assert_eq!(ask(on(0b01), &[900, 100, 0], &[8; 3], 9, 1), 0b011);
        assert_eq!(ask(on(0b01), &[900, 100], &[8; 2], 9, 1), 0b11);
        assert_eq!(ask(on(0b01), &[900, 100], &[8; 2], 99, 1), 0b11);
        // 8 would fit on one node, but 8 + 8 / 8 would not; 7 + 0 do.
        assert_eq!(ask(on(0b11), &[900, 100, 0], &[8; 3], 8, 9_000), 0b011);
        assert_eq!(ask(on(0b11), &[900, 100, 0], &[8; 3], 7, 9_000), 0b001);
        // And not before it has rested.
        assert_eq!(ask(on(0b11), &[900, 100, 0], &[8; 3], 7, 1_999), 0b011);
    }
}
