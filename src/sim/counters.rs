// SPDX-License-Identifier: GPL-2.0-only
//! Who is counted where: the kernel dispatcher's counters, without its atomics.
//!
//! Tasks that run or wait are counted in their LLC, and newborns that sleep in buckets by the epoch of
//! their birth; a bucket that is too old reads as 0, so that a newborn grows old in its sleep without
//! any event (R6). [`Counters::audit`] counts again.

use super::clock::Time;
use super::hardware::Hardware;
use super::task::{Counted, Task};

/// As in src/bpf/intf.h.
const BUCKETS: u64 = 8;

/// An epoch and how many newborns of it sleep here.
type Bucket = (u64, u32);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Llc {
    running: u32,
    newborn: [Bucket; BUCKETS as usize],
}

/// See the module.
#[derive(Debug)]
pub struct Counters {
    /// Length of an epoch; 0: sleeping newborns are not counted.
    epoch_ns: u64,
    llcs: Vec<Llc>,
    /// By node: tasks that run or wait, and the integral of that over time in task-ns.
    running: Vec<u32>,
    integral: Vec<u64>,
    changed_at: Vec<Time>,
}

impl Counters {
    pub fn new(hw: &Hardware, newborn_ns: u64) -> Self {
        let nodes = hw.nr_nodes();
        Self {
            epoch_ns: newborn_ns / BUCKETS,
            llcs: vec![Llc::default(); hw.nr_llcs()],
            running: vec![0; nodes],
            integral: vec![0; nodes],
            changed_at: vec![0; nodes],
        }
    }

    /// The number of a moment's epoch, from 1 so that an empty bucket is of none.
    fn epoch(&self, at: Time) -> u64 {
        at.checked_div(self.epoch_ns).map_or(0, |epoch| epoch + 1)
    }

    fn is_young(&self, epoch: u64, now: Time) -> bool {
        self.epoch_ns > 0 && epoch > 0 && self.epoch(now) - epoch < BUCKETS
    }

    /// What a task is to be counted as that goes to sleep at `now`, last having run in `llc`.
    pub fn asleep(&self, task: &mut Task, now: Time, work_ns: u64) -> Counted {
        let Some(born) = task.born_at.filter(|_| self.epoch_ns > 0) else {
            return Counted::None;
        };
        if now - born < self.epoch_ns * BUCKETS && task.runtime_ns < work_ns {
            return Counted::Newborn(task.llc, self.epoch(born));
        }
        task.born_at = None;
        Counted::None
    }

    /// The task is counted as `to` from now on.
    pub fn count_as(&mut self, hw: &Hardware, task: &mut Task, to: Counted, now: Time) {
        let to = match to {
            // Too old by a hair: younger ones have its place already.
            Counted::Newborn(llc, epoch) if self.bucket(llc, epoch).0 > epoch => Counted::None,
            to => to,
        };
        let from = std::mem::replace(&mut task.counted, to);
        if from == to {
            return;
        }
        match from {
            Counted::None => {}
            Counted::Running(llc) => {
                let node = self.settle(hw, llc, now);
                self.llcs[llc].running -= 1;
                self.running[node] -= 1;
            }
            Counted::Newborn(llc, epoch) => {
                let bucket = self.bucket(llc, epoch);
                // Another epoch has taken the place: the newborn was too old to be counted.
                if bucket.0 == epoch {
                    bucket.1 -= 1;
                }
            }
        }
        match to {
            Counted::None => {}
            Counted::Running(llc) => {
                let node = self.settle(hw, llc, now);
                self.llcs[llc].running += 1;
                self.running[node] += 1;
            }
            Counted::Newborn(llc, epoch) => {
                let bucket = self.bucket(llc, epoch);
                *bucket = (epoch, if bucket.0 == epoch { bucket.1 + 1 } else { 1 });
            }
        }
    }

    fn bucket(&mut self, llc: usize, epoch: u64) -> &mut Bucket {
        &mut self.llcs[llc].newborn[(epoch % BUCKETS) as usize]
    }

    /// The integral of the LLC's node up to now; returns the node.
    fn settle(&mut self, hw: &Hardware, llc: usize, now: Time) -> usize {
        let node = hw.node_of_llc(llc);
        self.integral[node] = self.integral_of(node, now);
        self.changed_at[node] = now;
        node
    }

    /// Task-nanoseconds of running and waiting on a node up to now.
    pub fn integral_of(&self, node: usize, now: Time) -> u64 {
        self.integral[node] + u64::from(self.running[node]) * (now - self.changed_at[node])
    }

    pub fn running_in(&self, llc: usize) -> u32 {
        self.llcs[llc].running
    }

    pub fn running_on(&self, node: usize) -> u32 {
        self.running[node]
    }

    /// Newborns asleep in an LLC.
    pub fn newborns_in(&self, llc: usize, now: Time) -> u32 {
        let young = self.llcs[llc].newborn.iter();
        young
            .filter(|bucket| self.is_young(bucket.0, now))
            .map(|bucket| bucket.1)
            .sum()
    }

    /// c of an LLC.
    pub fn committed_in(&self, llc: usize, now: Time) -> u32 {
        self.running_in(llc) + self.newborns_in(llc, now)
    }

    /// c of a node.
    pub fn committed_on(&self, hw: &Hardware, node: usize, now: Time) -> u32 {
        let llcs = hw.shape.llcs_of(node);
        llcs.map(|llc| self.committed_in(llc, now)).sum()
    }

    /// Compare with what the tasks say of themselves.
    ///
    /// # Panics
    /// When the counters are wrong.
    pub fn audit(&self, hw: &Hardware, tasks: &[Task], now: Time) {
        let mut running = vec![0; self.llcs.len()];
        let mut newborn = vec![0; self.llcs.len()];
        for task in tasks {
            match task.counted {
                Counted::None => {}
                Counted::Running(llc) => running[llc] += 1,
                Counted::Newborn(llc, epoch) => {
                    newborn[llc] += u32::from(self.is_young(epoch, now));
                }
            }
        }
        let mut nodes = vec![0; hw.nr_nodes()];
        for (llc, &n) in running.iter().enumerate() {
            assert_eq!(n, self.running_in(llc), "tasks counted in LLC {llc}");
            assert_eq!(
                newborn[llc],
                self.newborns_in(llc, now),
                "newborns of LLC {llc}"
            );
            nodes[hw.node_of_llc(llc)] += n;
        }
        assert_eq!(nodes, self.running, "tasks counted on the nodes");
    }
}

#[cfg(test)]
mod tests {
    use super::super::hardware::Params;
    use super::*;
    use crate::machine::MachineBuilder;

    fn world() -> (Hardware, Counters, Task) {
        let machine = MachineBuilder::uniform(2, 1, 4, 1).build().unwrap();
        let hw = Hardware::new(&machine, Params::default());
        let counters = Counters::new(&hw, 800);
        let mut task = Task::new(0, None, 0, 1);
        task.born_at = Some(150);
        (hw, counters, task)
    }

    #[test]
    fn a_newborn_grows_old_in_its_sleep() {
        let (hw, mut counters, mut task) = world();
        let asleep = counters.asleep(&mut task, 160, 5);
        assert_eq!(asleep, Counted::Newborn(1, 2));
        counters.count_as(&hw, &mut task, asleep, 160);
        // Its epoch is 100 to 199, and eight are young.
        assert_eq!(counters.committed_on(&hw, 1, 899), 1);
        assert_eq!(counters.committed_on(&hw, 1, 900), 0);
        // Another of its bucket does not disturb it when it leaves.
        let mut other = Task::new(0, None, 0, 1);
        counters.count_as(&hw, &mut other, Counted::Newborn(1, 10), 950);
        counters.count_as(&hw, &mut task, Counted::Running(0), 960);
        assert_eq!(counters.newborns_in(1, 960), 1);
        counters.audit(&hw, &[task, other], 960);
    }

    #[test]
    fn who_has_worked_is_no_newborn() {
        let (_, counters, mut task) = world();
        task.runtime_ns = 5;
        assert_eq!(counters.asleep(&mut task, 160, 5), Counted::None);
        assert_eq!(task.born_at, None, "for good");
    }

    #[test]
    fn the_integral_is_tasks_times_time() {
        let (hw, mut counters, mut task) = world();
        counters.count_as(&hw, &mut task, Counted::Running(1), 100);
        assert_eq!(counters.integral_of(1, 250), 150);
        counters.count_as(&hw, &mut task, Counted::Running(0), 300);
        assert_eq!(counters.integral_of(1, 900), 200);
        assert_eq!(counters.integral_of(0, 900), 600);
    }
}
