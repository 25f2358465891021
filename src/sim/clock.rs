// SPDX-License-Identifier: GPL-2.0-only
//! Time and what happens in it.
//!
//! Time is in whole nanoseconds from the start of a run. Events of the same moment happen in the order
//! in which they were announced, so a run never depends on how a heap breaks ties.
//!
//! What may change its time again and again is set for an owner, in place of the time that was set before:
//! nothing happens in vain.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::timers::{Key, Timers};

/// Nanoseconds since the run began.
pub type Time = u64;

/// What is to come, the soonest first.
#[derive(Debug)]
pub struct Events<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    timers: Timers,
    /// What happens at an owner's time.
    of_owner: fn(usize) -> E,
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
    fn key(&self) -> Key {
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

impl<E> Events<E> {
    /// Nothing is to come. There are so many owners, and `of_owner` is what happens at a time that is set for one.
    pub fn new(owners: usize, of_owner: fn(usize) -> E) -> Self {
        Self {
            heap: BinaryHeap::new(),
            timers: Timers::new(owners),
            of_owner,
            announced: 0,
            now: 0,
            happened: 0,
        }
    }

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
        let (at, seq) = self.next_key(at);
        self.heap.push(Reverse(Entry { at, seq, event }));
    }

    /// The owner's event happens at `at`, which is not in the past, and at no time that was set before.
    pub fn set(&mut self, owner: usize, at: Time) {
        let key = self.next_key(at);
        self.timers.set(owner, key);
    }

    /// The owner's event does not happen.
    pub fn cancel(&mut self, owner: usize) {
        self.timers.cancel(owner);
    }

    fn next_key(&mut self, at: Time) -> Key {
        assert!(at >= self.now, "an event for {at} at {}", self.now);
        self.announced += 1;
        (at, self.announced)
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Time> {
        let announced = self.heap.peek().map(|Reverse(entry)| entry.at);
        let set = self.timers.first().map(|((at, _), _)| at);
        announced.into_iter().chain(set).min()
    }

    /// Time goes on to the next event.
    pub fn advance(&mut self) -> Option<E> {
        let announced = self.heap.peek().map(|Reverse(entry)| entry.key());
        let (at, event) = match self.timers.first() {
            Some(((at, seq), owner)) if announced.is_none_or(|key| (at, seq) < key) => {
                self.timers.cancel(owner);
                (at, (self.of_owner)(owner))
            }
            _ => {
                let Reverse(entry) = self.heap.pop()?;
                (entry.at, entry.event)
            }
        };
        self.now = at;
        self.happened += 1;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_time_and_then_by_announcement() {
        let mut events = Events::new(3, |owner| ['0', '1', '2'][owner]);
        events.set(0, 3);
        events.set(2, 1);
        for (at, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (4, 'e')] {
            events.announce(at, name);
        }
        // Set anew, it comes after what was announced before.
        events.set(0, 5);
        events.set(1, 4);
        events.cancel(2);
        let order: String = std::iter::from_fn(|| events.advance()).collect();
        assert_eq!(order, "bde1ac0");
        assert_eq!((events.now(), events.happened()), (5, 7));
    }
}
