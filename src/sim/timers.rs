// SPDX-License-Identifier: GPL-2.0-only
//! One event each for a number of owners, which may be set to another time or given up at any moment.
//!
//! A CPU's phase ends earlier or later whenever others change what they ask of the memory, mostly before it has ended: left in
//! the heap of all events, those ends that are no longer true would be nearly all that is in it.
//!
//! A binary heap whose entries know their places. Invariants:
//! - no entry is sooner than the one above it, at half its place;
//! - `places[owner]` is where the owner's entry is, if it has one.

use super::clock::Time;

/// Orders events, the least first: when, and announced as which one.
pub type Key = (Time, u64);

/// See the module.
#[derive(Debug)]
pub struct Timers {
    heap: Vec<(Key, usize)>,
    /// By owner.
    places: Vec<Option<usize>>,
}

impl Timers {
    /// Owners are 0 up to `owners`.
    pub fn new(owners: usize) -> Self {
        Self {
            heap: Vec::with_capacity(owners),
            places: vec![None; owners],
        }
    }

    /// The owner's event is at `key` from now on, in place of what was set before.
    pub fn set(&mut self, owner: usize, key: Key) {
        let place = match self.places[owner] {
            Some(place) => {
                self.heap[place].0 = key;
                place
            }
            None => {
                self.heap.push((key, owner));
                self.heap.len() - 1
            }
        };
        self.settle(place);
    }

    /// The owner has no event any more, if it had one.
    pub fn cancel(&mut self, owner: usize) {
        let Some(place) = self.places[owner].take() else {
            return;
        };
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.settle(place);
        }
    }

    /// The first one, and whose it is.
    pub fn first(&self) -> Option<(Key, usize)> {
        self.heap.first().copied()
    }

    /// The entry at this place is new there: it goes up or down to where it belongs.
    fn settle(&mut self, mut place: usize) {
        while place > 0 && self.heap[place].0 < self.heap[(place - 1) / 2].0 {
            place = self.exchange(place, (place - 1) / 2);
        }
        while let Some(below) = self.sooner_below(place) {
            place = self.exchange(place, below);
        }
        self.places[self.heap[place].1] = Some(place);
    }

    /// The sooner one of the two below, if it is sooner than the one at this place.
    fn sooner_below(&self, place: usize) -> Option<usize> {
        let below = [2 * place + 1, 2 * place + 2].into_iter();
        let below = below.filter(|&below| below < self.heap.len());
        let sooner = below.min_by_key(|&below| self.heap[below].0)?;
        (self.heap[sooner].0 < self.heap[place].0).then_some(sooner)
    }

    /// The entry at `place` goes to `other`, which is returned; the one there has its place now.
    fn exchange(&mut self, place: usize, other: usize) -> usize {
        self.heap.swap(place, other);
        self.places[self.heap[place].1] = Some(place);
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone, Copy)]
    enum Change {
        Set(usize, u64),
        Clear(usize),
        TakeFirst,
    }

    fn change() -> impl Strategy<Value = Change> {
        let owner = 0..12_usize;
        prop_oneof![
            3 => (owner.clone(), 0..9_u64).prop_map(|(owner, key)| Change::Set(owner, key)),
            1 => owner.prop_map(Change::Clear),
            1 => Just(Change::TakeFirst),
        ]
    }

    proptest! {
        /// As a map that is searched for its least.
        #[test]
        fn the_first_is_always_the_least(changes in prop::collection::vec(change(), 0..200)) {
            let (mut timers, mut truth) = (Timers::new(12), BTreeMap::new());
            for (nth, change) in (0..).zip(changes) {
                match change {
                    Change::Set(owner, key) => {
                        timers.set(owner, (key, nth));
                        truth.insert(owner, (key, nth));
                    }
                    Change::Clear(owner) => {
                        timers.cancel(owner);
                        truth.remove(&owner);
                    }
                    Change::TakeFirst => if let Some((_, owner)) = timers.first() {
                        timers.cancel(owner);
                        truth.remove(&owner);
                    }
                }
                let least = truth.iter().map(|(&owner, &key)| (key, owner)).min();
                prop_assert_eq!(timers.first(), least);
            }
        }
    }
}
