// SPDX-License-Identifier: GPL-2.0-only
//! Who is counted where, as far as is known.
//!
//! A task that was given to a CPU is counted there until it is queued again or a look finds it asleep or gone;
//! a newborn that sleeps is counted in its LLC until it is too old (R6). [`Counts::count_as`] alone changes
//! the counters and the word of the task that says in which it is.

use super::places::Places;
use super::tasks::{Counted, Table};

/// A newborn that sleeps.
#[derive(Debug, Clone, Copy)]
struct Asleep {
    slot: u32,
    seq: u32,
    until: u64,
}

#[derive(Debug)]
pub struct Counts {
    /// By CPU: who was given to it, the earliest first.
    on: Vec<Vec<u32>>,
    /// By LLC: tasks that run or wait, and newborns asleep.
    running: Vec<u32>,
    newborn: Vec<u32>,
    asleep: Vec<Asleep>,
    /// None of them is too old before.
    next_until: u64,
}

impl Counts {
    pub fn new(places: &Places) -> Self {
        let llcs = places.shape.llc_weight.len();
        Self {
            on: (0..places.nr_cpus())
                .map(|_| Vec::with_capacity(64))
                .collect(),
            running: vec![0; llcs],
            newborn: vec![0; llcs],
            asleep: Vec::with_capacity(1024),
            next_until: u64::MAX,
        }
    }

    /// The task is counted as `to` from now on. A newborn is so until `until`.
    pub fn count_as(
        &mut self,
        (places, tasks): (&Places, &mut Table),
        slot: u32,
        to: Counted,
        until: u64,
    ) {
        let task = tasks.get_mut(slot);
        let from = std::mem::replace(&mut task.counted, to);
        if from == to {
            return;
        }
        match from {
            Counted::None => {}
            Counted::On(cpu) => {
                self.on[cpu].retain(|&other| other != slot);
                self.running[places.place(cpu).llc] -= 1;
            }
            Counted::Newborn(llc) => {
                self.newborn[llc] -= 1;
                self.asleep.retain(|one| one.slot != slot);
            }
        }
        match to {
            Counted::None => {}
            Counted::On(cpu) => {
                self.on[cpu].push(slot);
                self.running[places.place(cpu).llc] += 1;
                (task.cpu, task.llc) = (cpu, places.place(cpu).llc);
            }
            Counted::Newborn(llc) => {
                self.newborn[llc] += 1;
                let seq = task.seq;
                self.asleep.push(Asleep { slot, seq, until });
                self.next_until = self.next_until.min(until);
            }
        }
    }

    /// Newborns grow old in their sleep.
    pub fn age(&mut self, places: &Places, tasks: &mut Table, now: u64) {
        if now < self.next_until {
            return;
        }
        let mut i = 0;
        while let Some(&one) = self.asleep.get(i) {
            if one.until > now {
                i += 1;
            } else {
                debug_assert_eq!(tasks.get(one.slot).seq, one.seq);
                tasks.get_mut(one.slot).born_at = None;
                self.count_as((places, tasks), one.slot, Counted::None, 0);
            }
        }
        let left = self.asleep.iter().map(|one| one.until);
        self.next_until = left.min().unwrap_or(u64::MAX);
    }

    /// Who was given to a CPU.
    pub fn on(&self, cpu: usize) -> &[u32] {
        &self.on[cpu]
    }

    pub fn running_in(&self, llc: usize) -> u32 {
        self.running[llc]
    }

    /// c of an LLC.
    pub fn committed_in(&self, llc: usize) -> u32 {
        self.running[llc] + self.newborn[llc]
    }

    fn sum(places: &Places, node: usize, of: &[u32]) -> u32 {
        of[places.shape.llcs_of(node)].iter().sum()
    }

    pub fn running_on(&self, places: &Places, node: usize) -> u32 {
        Self::sum(places, node, &self.running)
    }

    pub fn newborns_on(&self, places: &Places, node: usize) -> u32 {
        Self::sum(places, node, &self.newborn)
    }

    /// c of a node.
    pub fn committed_on(&self, places: &Places, node: usize) -> u32 {
        self.running_on(places, node) + self.newborns_on(places, node)
    }

    /// Count again by what the tasks say of themselves.
    ///
    /// # Errors
    /// The first difference.
    pub fn audit(&self, places: &Places, tasks: &Table) -> Result<(), String> {
        let mut running = vec![0; self.running.len()];
        let mut newborn = vec![0; self.newborn.len()];
        for (slot, task) in tasks.iter() {
            match task.counted {
                Counted::None => {}
                Counted::On(cpu) => {
                    running[places.place(cpu).llc] += 1;
                    if self.on[cpu].iter().filter(|&&other| other == slot).count() != 1 {
                        return Err(format!("task {} is not once on CPU {cpu}", task.pid));
                    }
                }
                Counted::Newborn(llc) => newborn[llc] += 1,
            }
        }
        let on: usize = self.on.iter().map(Vec::len).sum();
        let counted: u32 = running.iter().sum();
        if running != self.running || newborn != self.newborn || on != counted as usize {
            return Err(format!(
                "counted {:?} and {:?}, are {running:?} and {newborn:?}",
                self.running, self.newborn
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineBuilder;

    #[test]
    fn a_task_is_in_one_counter_and_a_newborn_grows_old() {
        let machine = MachineBuilder::uniform(2, 2, 2, 1).build().unwrap();
        let places = Places::new(&machine);
        let mut tasks = Table::new(4);
        let mut counts = Counts::new(&places);
        let (a, b) = (tasks.add(10).unwrap(), tasks.add(11).unwrap());
        let count = |counts: &mut Counts, tasks: &mut Table, slot, to, until| {
            counts.count_as((&places, tasks), slot, to, until);
            counts.audit(&places, tasks).unwrap();
        };
        count(&mut counts, &mut tasks, a, Counted::On(3), 0);
        count(&mut counts, &mut tasks, a, Counted::On(3), 0);
        count(&mut counts, &mut tasks, b, Counted::On(7), 0);
        assert_eq!(counts.running_on(&places, 0), 1);
        assert_eq!((counts.running_in(1), counts.running_in(3)), (1, 1));
        assert_eq!((tasks.get(b).cpu, tasks.get(b).llc), (7, 3));
        count(&mut counts, &mut tasks, a, Counted::Newborn(1), 500);
        count(&mut counts, &mut tasks, b, Counted::Newborn(1), 400);
        assert_eq!((counts.committed_in(1), counts.running_in(1)), (2, 0));
        counts.age(&places, &mut tasks, 399);
        assert_eq!(counts.newborns_on(&places, 0), 2);
        counts.age(&places, &mut tasks, 400);
        assert_eq!(counts.newborns_on(&places, 0), 1);
        assert_eq!(tasks.get(b).counted, Counted::None);
        // One that woke in time is not aged.
        count(&mut counts, &mut tasks, a, Counted::On(0), 0);
        counts.age(&places, &mut tasks, 1000);
        assert_eq!(tasks.get(a).counted, Counted::On(0));
        counts.audit(&places, &tasks).unwrap();
    }
}
