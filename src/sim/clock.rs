// SPDX-License-Identifier: GPL-2.0-only
//! Time and what happens in it.
//!
//! Time is in whole nanoseconds from the start of a run. Events of the same moment happen in the order
//! in which they were announced, so a run never depends on how a heap breaks ties.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Nanoseconds since the run began.
pub type Time = u64;

/// What is to come, the soonest first.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    announced: u64,
    now: Time,
    happened: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    seq: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.seq)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            announced: 0,
            now: 0,
            happened: 0,
        }
    }
}

impl<E> Events<E> {
    /// The time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events so far.
    pub fn happened(&self) -> u64 {
        self.happened
    }

    /// `event` happens at `at`, which is not in the past.
    pub fn announce(&mut self, at: Time, event: E) {
        assert!(at >= self.now, "an event for {at} at {}", self.now);
        let seq = self.announced;
        self.announced += 1;
        self.heap.push(Reverse(Entry { at, seq, event }));
    }

    /// Time goes on to the next event.
    pub fn advance(&mut self) -> Option<E> {
        let Reverse(entry) = self.heap.pop()?;
        self.now = entry.at;
        self.happened += 1;
        Some(entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_and_then_by_announcement() {
        let mut events = Events::default();
        for (at, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (4, 'e')] {
            events.announce(at, name);
        }
        let order: String = std::iter::from_fn(|| events.advance()).collect();
        assert_eq!(order, "bdeac");
        assert_eq!((events.now(), events.happened()), (5, 5));
    }
}
