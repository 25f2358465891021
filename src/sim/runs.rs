// SPDX-License-Identifier: GPL-2.0-only
//! Many runs side by side.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::clock::Time;
use super::hardware::Hardware;
use super::outcome::Outcome;
use super::program::Plan;
use super::world::{Setup, SimError, World};
use crate::policy::record::Record;

/// What is run.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    pub hw: &'a Hardware,
    pub setup: &'a Setup,
    pub plan: &'a Plan,
    /// Longest simulated time.
    pub most_ns: Time,
}

impl Job<'_> {
    /// One run.
    ///
    /// # Errors
    /// The plan does not come to its end.
    pub fn run(&self, seed: u64) -> Result<Outcome, SimError> {
        let mut world = World::new(self.hw, self.setup, self.plan, seed);
        world.run(self.most_ns)?;
        Ok(world.finish(seed).0)
    }

    /// One run, and its decisions as a trace.
    ///
    /// # Errors
    /// As [`Job::run`].
    pub fn run_recorded(&self, seed: u64) -> Result<(Outcome, Vec<Record>), SimError> {
        let mut world = World::new(self.hw, self.setup, self.plan, seed);
        world.record();
        world.run(self.most_ns)?;
        Ok(world.finish(seed))
    }

    /// Runs with the seeds `seed`, `seed` + 1 and so on, on as many threads as there are CPUs. The outcomes
    /// are in the order of the seeds, whoever was through first.
    ///
    /// # Errors
    /// Of the first seed that has one.
    pub fn run_many(&self, seed: u64, runs: u32) -> Result<Vec<Outcome>, SimError> {
        let one = |run: usize| self.run(seed.wrapping_add(run as u64));
        side_by_side(runs as usize, one).into_iter().collect()
    }
}

/// `f` of 0 to `count` - 1, in that order, worked out on as many threads as there are CPUs.
pub fn side_by_side<T: Send>(count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let done: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let done = Mutex::new(done);
    thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        break;
                    }
                    let one = f(at);
                    let mut all = done.lock().unwrap_or_else(PoisonError::into_inner);
                    all[at] = Some(one);
                }
            });
        }
    });
    let done = done.into_inner();
    let done = done.unwrap_or_else(PoisonError::into_inner);
    done.into_iter().flatten().collect()
}
