// SPDX-License-Identifier: GPL-2.0-only
//! Tasks on each node over time.
//!
//! Nobody knows beforehand how long a run takes. So spans are short at first, and when there are too many
//! of them every two become one: a run of any length ends with a plot's worth of them.

use serde::Serialize;

use super::clock::Time;

/// So many spans are one too many.
const MOST: usize = 64;
/// The first spans' length.
const SHORTEST_NS: Time = 1_000_000;

/// See the module. What is left of the last span is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Occupancy {
    pub span_ns: Time,
    /// By node, then by span: tasks that ran or waited on average, in thousandths.
    pub nodes: Vec<Vec<u32>>,
    /// By node: the integral of tasks over time at the end of the last span.
    #[serde(skip)]
    until: Vec<u64>,
}

impl Occupancy {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            span_ns: SHORTEST_NS,
            nodes: vec![Vec::with_capacity(MOST); nodes],
            until: vec![0; nodes],
        }
    }

    /// A span ends; `integral` is each node's, in task-ns.
    pub(super) fn span_ends(&mut self, integral: impl Fn(usize) -> u64) {
        for (node, spans) in self.nodes.iter_mut().enumerate() {
            let total = integral(node);
            let task_ns = total - std::mem::replace(&mut self.until[node], total);
            let milli = u128::from(task_ns) * 1000 / u128::from(self.span_ns);
            spans.push(milli as u32);
        }
        if self.nodes.first().is_some_and(|spans| spans.len() == MOST) {
            self.span_ns *= 2;
            for spans in &mut self.nodes {
                let pairs = spans.chunks(2);
                *spans = pairs.map(|pair| pair.iter().sum::<u32>() / 2).collect();
            }
        }
    }

    /// The most tasks that a node had in a span, in thousandths.
    pub fn most(&self) -> u32 {
        let all = self.nodes.iter().flatten().copied();
        all.max().unwrap_or(0)
    }

    /// A node's spans as bars, the highest for `most`.
    pub fn bars(&self, node: usize, most: u32) -> String {
        const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let height = |&milli: &u32| match milli {
            0 => 0,
            // Something is never shown as nothing.
            milli => (u64::from(milli) * 8 / u64::from(most.max(1))).clamp(1, 8) as usize,
        };
        self.nodes[node]
            .iter()
            .map(|milli| BARS[height(milli)])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One task all the time on node 0; on node 1 two in every other span.
    #[test]
    fn spans_merge_and_keep_their_averages() {
        let mut occupancy = Occupancy::new(2);
        let (mut now, mut second) = (0, 0);
        for span in 0..200 {
            let length = occupancy.span_ns;
            now += length;
            second += if span % 2 == 0 { 2 * length } else { 0 };
            occupancy.span_ends(|node| [now, second][node]);
        }
        assert!(occupancy.nodes[0].len() < MOST);
        assert_eq!(occupancy.span_ns * occupancy.nodes[0].len() as u64, now);
        assert!(occupancy.nodes[0].iter().all(|&milli| milli == 1000));
        let all = occupancy.nodes[1]
            .iter()
            .map(|&milli| u64::from(milli) * occupancy.span_ns);
        assert_eq!(all.sum::<u64>(), second * 1000);
    }

    #[test]
    fn bars_are_of_one_scale() {
        let mut occupancy = Occupancy::new(2);
        for tasks in [0, 1, 4, 8] {
            let before = occupancy.until.clone();
            let span = occupancy.span_ns;
            occupancy.span_ends(|node| before[node] + tasks * span * node as u64);
        }
        assert_eq!(occupancy.most(), 8000);
        assert_eq!(occupancy.bars(0, 8000), "    ");
        assert_eq!(occupancy.bars(1, 8000), " ▁▄█");
        assert_eq!(occupancy.bars(1, 1_000_000), " ▁▁▁");
    }
}
