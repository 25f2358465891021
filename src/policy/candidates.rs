// SPDX-License-Identifier: GPL-2.0-only
//! Which tasks of a node move (R10 no-bystanders).
//!
//! A candidate made the load: it had at least a quarter of what a counted task of its node had on
//! average. So of a node with hogs, sleepers and daemons only the hogs can move. It may use the
//! destination, and it was not moved lately.
//!
//! Small groups stay whole: as long as some group of threads fits into what may be moved, the
//! largest such group moves as one. Only when none fits is one split, the largest.
//!
//! Where it is known where memory lies ([`locality`](super::locality::pull)), tasks that get nearer to theirs
//! come first and those that are where they belong come last (R8): all that was said holds among
//! tasks of the same kind, and only when nobody of one kind is left does the next have its turn. Those of whom it is known
//! do not go at all until the excess has lasted (`Observation::lasting`); of two nodes without spare they do.
//!
//! Everything is in order of slots and process ids, so the choice depends on the observation alone.

use super::balance::Amount;
use super::locality::pull::{Pull, pull, resists};
use super::locality::view::View;
use super::observation::{Observation, Shape, TaskObs};

/// A task is left alone for so long after it was moved.
pub(super) const REST_MS: u32 = 1000;
/// Share of the average counted task's CPU time that makes a candidate: one in so many.
const SHARE: u64 = 4;

/// Threads of one process on the node that make its load, and go as gladly.
#[derive(Debug, Clone, Copy)]
struct Group {
    pull: Pull,
    /// Range of `pool`.
    start: u32,
    end: u32,
    /// All of them may move.
    whole: bool,
    taken: bool,
}

impl Group {
    fn size(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// The working memory of the choice.
#[derive(Debug)]
pub(super) struct Candidates {
    /// R10 holds.
    pub spare_bystanders: bool,
    /// Subscripts of the observation's tasks, sorted by node; `node_end[n]` is where node n's end.
    by_node: Vec<u32>,
    node_end: Vec<u32>,
    /// By node: CPU time of its tasks, in thousandths of a CPU.
    busy: Vec<u64>,
    /// By node: the nodes to which some task that makes its load may move, once that is known.
    reach: Vec<Option<u64>>,
    /// By subscript: chosen in this tick.
    taken: Vec<bool>,
    /// Those of one node that make its load, sorted by group.
    pool: Vec<u32>,
    groups: Vec<Group>,
    chosen: Vec<u32>,
}

impl Candidates {
    pub fn new(nodes: usize, tasks: usize) -> Self {
        Self {
            spare_bystanders: true,
            by_node: Vec::with_capacity(tasks),
            node_end: vec![0; nodes],
            busy: vec![0; nodes],
            reach: vec![None; nodes],
            taken: Vec::with_capacity(tasks),
            pool: Vec::with_capacity(tasks),
            groups: Vec::with_capacity(tasks),
            chosen: Vec::with_capacity(tasks),
        }
    }

    /// Sort the tasks by node, in two passes over them.
    pub fn begin(&mut self, obs: &Observation, shape: &Shape) {
        let node_of = |task: &TaskObs| shape.llc_node.get(usize::from(task.llc)).copied();
        self.node_end.fill(0);
        self.busy.fill(0);
        self.reach.fill(None);
        for task in &obs.tasks {
            if let Some(node) = node_of(task) {
                self.node_end[usize::from(node)] += 1;
                self.busy[usize::from(node)] += u64::from(task.busy);
            }
        }
        let mut start = 0;
        for end in &mut self.node_end {
            // For now where the node's tasks begin; the second pass moves it to their end.
            start += std::mem::replace(end, start);
        }
        self.by_node.clear();
        self.by_node.resize(start as usize, 0);
        for (i, task) in obs.tasks.iter().enumerate() {
            if let Some(node) = node_of(task) {
                let end = &mut self.node_end[usize::from(node)];
                self.by_node[*end as usize] = i as u32;
                *end += 1;
            }
        }
        self.taken.clear();
        self.taken.resize(obs.tasks.len(), false);
    }

    /// What the last [`Candidates::choose`] chose, as subscripts of the observation's tasks.
    pub fn chosen(&self) -> &[u32] {
        &self.chosen
    }

    /// Choose tasks to move from node `from` to node `to`, not more than `amount`. `running_milli` is
    /// how many tasks the node had on average, in thousandths. `view`: where memory lies, if that is known.
    pub fn choose(
        &mut self,
        obs: &Observation,
        view: Option<&View>,
        (from, to): (usize, usize),
        running_milli: u32,
        amount: Amount,
    ) -> &[u32] {
        self.chosen.clear();
        let reaches = |nodes: u64| nodes >> to & 1 == 1;
        if self.reach[from].is_some_and(|nodes| !reaches(nodes)) {
            return &self.chosen;
        }
        self.fill_pool(obs, from, running_milli);
        let may_reach = |nodes: u64, &i: &u32| nodes | destinations(&obs.tasks[i as usize]);
        let reach = self.pool.iter().fold(0, may_reach);
        self.reach[from] = Some(reach);
        if !reaches(reach) {
            return &self.chosen;
        }
        let known = |i: u32| Some((view?, view?.tasks.get(i as usize)?));
        let gladly =
            |i: u32| known(i).map_or(Pull::Neutral, |(view, task)| pull(view, task, from, to));
        match amount {
            Amount::Tasks(tasks) => {
                if !obs.lasting.contains(&(from as u8, to as u8)) {
                    let stays =
                        |i| known(i).is_some_and(|(view, task)| resists(view, task, from, to));
                    self.pool.retain(|&i| !stays(i));
                }
                self.find_groups(obs, to, gladly);
                self.choose_groups(obs, to, tasks as usize);
            }
            Amount::Weight(weight, tasks) => {
                self.choose_weight(obs, to, (weight, tasks as usize), gladly);
            }
        }
        for &i in &self.chosen {
            self.taken[i as usize] = true;
            self.busy[from] -= u64::from(obs.tasks[i as usize].busy);
            // With less time in all, tasks with less of it make the load.
            self.reach[from] = None;
        }
        &self.chosen
    }

    /// The tasks of a node that make its load.
    fn fill_pool(&mut self, obs: &Observation, node: usize, running_milli: u32) {
        let start = if node == 0 {
            0
        } else {
            self.node_end[node - 1]
        };
        let members = &self.by_node[start as usize..self.node_end[node] as usize];
        // busy >= (all busy / tasks) / SHARE, tasks being at least 1.
        let tasks_milli = u64::from(running_milli.max(1000));
        let all_milli = self.busy[node] * 1000;
        let spare_bystanders = self.spare_bystanders;
        let makes_load = |task: &TaskObs| {
            let much = u64::from(task.busy) * tasks_milli * SHARE >= all_milli;
            task.busy > 0 && (much || !spare_bystanders)
        };
        let taken = &self.taken;
        self.pool.clear();
        self.pool.extend(
            members
                .iter()
                .filter(|&&i| !taken[i as usize] && makes_load(&obs.tasks[i as usize])),
        );
    }

    fn find_groups(&mut self, obs: &Observation, to: usize, gladly: impl Fn(u32) -> Pull) {
        let task = |i: u32| &obs.tasks[i as usize];
        // Slots are unique, so the order is too.
        self.pool
            .sort_unstable_by_key(|&i| (task(i).tgid, gladly(i), task(i).slot));
        self.groups.clear();
        let mut start = 0;
        let alike = |&a: &u32, &b: &u32| task(a).tgid == task(b).tgid && gladly(a) == gladly(b);
        for members in self.pool.chunk_by(alike) {
            let end = start + members.len() as u32;
            self.groups.push(Group {
                pull: gladly(members[0]),
                start,
                end,
                whole: members.iter().all(|&i| may_move(task(i), to)),
                taken: false,
            });
            start = end;
        }
    }

    /// Of those that go as gladly whole groups first, the largest that fits each time; then one by one
    /// from the largest.
    fn choose_groups(&mut self, obs: &Observation, to: usize, tasks: usize) {
        // Of equal ones the youngest process, by id. What does not fit once never does: the room
        // only shrinks.
        self.groups.sort_unstable_by_key(|group| {
            std::cmp::Reverse((group.pull, group.size(), group.start))
        });
        for groups in self.groups.chunk_by_mut(|a, b| a.pull == b.pull) {
            for group in groups.iter_mut() {
                if group.whole && group.size() <= tasks - self.chosen.len() {
                    group.taken = true;
                    let range = group.start as usize..group.end as usize;
                    self.chosen.extend_from_slice(&self.pool[range]);
                }
            }
            for group in groups.iter().filter(|group| !group.taken) {
                let room = tasks - self.chosen.len();
                if room == 0 {
                    break;
                }
                let members = &self.pool[group.start as usize..group.end as usize];
                let movable = members
                    .iter()
                    .filter(|&&i| may_move(&obs.tasks[i as usize], to));
                self.chosen.extend(movable.take(room));
            }
        }
    }

    /// Heaviest first, so that few tasks move; never more than the weight that is left.
    fn choose_weight(
        &mut self,
        obs: &Observation,
        to: usize,
        (weight, most): (u64, usize),
        gladly: impl Fn(u32) -> Pull,
    ) {
        let task = |i: u32| &obs.tasks[i as usize];
        let first = |i: u32| std::cmp::Reverse((gladly(i), task(i).weight));
        self.pool
            .sort_unstable_by_key(|&i| (first(i), task(i).slot));
        let mut left = weight;
        for &i in &self.pool {
            if self.chosen.len() >= most {
                break;
            }
            let weight = u64::from(task(i).weight.max(1));
            if weight <= left && may_move(task(i), to) {
                left -= weight;
                self.chosen.push(i);
            }
        }
    }
}

/// The nodes that a task may move to, as a mask.
fn destinations(task: &TaskObs) -> u64 {
    match task.moved_ms >= REST_MS {
        true => task.nodes,
        false => 0,
    }
}

fn may_move(task: &TaskObs, to: usize) -> bool {
    destinations(task) >> to & 1 == 1
}
