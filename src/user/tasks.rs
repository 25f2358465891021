// SPDX-License-Identifier: GPL-2.0-only
//! The tasks that the user dispatcher knows: a table of slots, found by thread id.
//!
//! A slot is a task from the first time it is queued until it is found to be gone. It takes no memory after the
//! beginning but for tasks that may not use all CPUs. When all slots are taken a new task has none: it is
//! placed all the same, and not counted.

use std::collections::HashMap;

use super::cpu_set::CpuSet;

/// In which counter a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counted {
    /// None: it sleeps, or is being placed.
    #[default]
    None,
    /// It was given to this CPU: it runs there or waits there, as far as is known.
    On(usize),
    /// A newborn that sleeps, having last run in this LLC (R6).
    Newborn(usize),
}

/// Which CPUs a task may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Usable {
    #[default]
    All,
    /// By the kernel's ids.
    Some(CpuSet),
}

impl Usable {
    /// The CPU with the kernel's id `id`.
    pub fn has(&self, id: u32) -> bool {
        match self {
            Self::All => true,
            Self::Some(set) => set.contains(id),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Task {
    /// Tells the owners of a slot apart; 0 before the first.
    pub seq: u32,
    pub pid: i32,
    /// Its process; 0 while it has not been asked for.
    pub tgid: i32,
    pub weight: u32,
    pub usable: Usable,
    /// Bit n is set if it may use some CPU of node n.
    pub nodes: u64,
    pub counted: Counted,
    /// Where it was given to last.
    pub cpu: usize,
    pub llc: usize,
    /// In the time of the queue of `dom`, a CPU.
    pub vtime: i64,
    pub dom: usize,
    /// When it was forked, until it is no newborn any more.
    pub born_at: Option<u64>,
    /// CPU time, as far as BPF has told; and when it was last looked at.
    pub charged_ns: u64,
    pub ran_ns: u64,
    /// How often it was woken.
    pub sleeps: u64,
    /// When it was last known to be runnable.
    pub known_at: u64,
    /// When it was given to its CPU; when that or this CPU's last waking for it was, and how often it was woken.
    pub given_at: u64,
    pub woken_at: u64,
    pub woken: u32,
    /// As BPF told when it was last queued.
    pub enq_cnt: u64,
    pub start_ts: u64,
    pub exec_runtime: u64,
    /// The slice of its last turn.
    pub slice_ns: u64,
    /// LLC where it shall go.
    pub wish: Option<u16>,
    pub moved_at: Option<u64>,
    /// It ran since the tasks were last observed.
    pub active: bool,
    /// CPU time when it was last observed; `None`: never.
    pub seen_ns: Option<u64>,
}

#[derive(Debug)]
pub struct Table {
    slots: Vec<Task>,
    by_pid: HashMap<i32, u32>,
    free: Vec<u32>,
    /// Slots below this were used.
    high: usize,
    /// Where [`Table::next_in_turn`] goes on.
    turn: usize,
}

impl Table {
    /// For so many tasks at one time.
    pub fn new(slots: usize) -> Self {
        Self {
            slots: vec![Task::default(); slots],
            by_pid: HashMap::with_capacity(slots),
            free: (0..slots as u32).rev().collect(),
            high: 0,
            turn: 0,
        }
    }

    pub fn find(&self, pid: i32) -> Option<u32> {
        self.by_pid.get(&pid).copied()
    }

    pub fn get(&self, slot: u32) -> &Task {
        &self.slots[slot as usize]
    }

    pub fn get_mut(&mut self, slot: u32) -> &mut Task {
        &mut self.slots[slot as usize]
    }

    /// A slot for the task `pid`, which has none; `None` when all are taken.
    pub fn add(&mut self, pid: i32) -> Option<u32> {
        let slot = self.free.pop()?;
        let task = &mut self.slots[slot as usize];
        *task = Task {
            seq: task.seq.wrapping_add(1).max(1),
            pid,
            ..Task::default()
        };
        self.by_pid.insert(pid, slot);
        self.high = self.high.max(slot as usize + 1);
        Some(slot)
    }

    /// The task is gone; it is in no counter any more.
    pub fn remove(&mut self, slot: u32) {
        let task = &mut self.slots[slot as usize];
        debug_assert_eq!(task.counted, Counted::None);
        if self.by_pid.remove(&task.pid).is_some() {
            task.pid = 0;
            task.usable = Usable::All;
            self.free.push(slot);
        }
    }

    /// The slot, if it still belongs to the task of that sequence count.
    pub fn current(&self, slot: u32, seq: u32) -> Option<&Task> {
        let task = self.slots.get(slot as usize)?;
        (task.seq == seq && task.pid != 0).then_some(task)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_pid.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots with their tasks, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Task)> {
        let slots = self.slots[..self.high].iter().enumerate();
        slots
            .filter(|(_, task)| task.pid != 0)
            .map(|(slot, task)| (slot as u32, task))
    }

    /// A task, another one each time, until all had their turn; looks at a few slots only.
    pub fn next_in_turn(&mut self) -> Option<u32> {
        for _ in 0..64 {
            self.turn = (self.turn + 1) % self.high.max(1);
            if self.slots.get(self.turn)?.pid != 0 {
                return Some(self.turn as u32);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_and_owners_told_apart() {
        let mut table = Table::new(2);
        let (a, b) = (table.add(10).unwrap(), table.add(11).unwrap());
        assert_eq!(table.add(12), None);
        assert_eq!((table.find(10), table.find(11)), (Some(a), Some(b)));
        let seq = table.get(a).seq;
        table.get_mut(a).vtime = 7;
        table.remove(a);
        table.remove(a);
        assert_eq!((table.find(10), table.len()), (None, 1));
        assert_eq!(table.add(12), Some(a));
        assert_eq!(table.get(a).vtime, 0);
        assert!(table.current(a, seq).is_none());
        assert!(table.current(a, table.get(a).seq).is_some());
        let pids: Vec<i32> = table.iter().map(|(_, task)| task.pid).collect();
        assert_eq!(pids, [12, 11]);
    }

    #[test]
    fn everybody_has_a_turn() {
        let mut table = Table::new(100);
        for pid in 1..=5 {
            table.add(pid);
        }
        let mut met = std::collections::BTreeSet::new();
        for _ in 0..20 {
            met.extend(table.next_in_turn().map(|slot| table.get(slot).pid));
        }
        assert_eq!(met.len(), 5);
    }
}
