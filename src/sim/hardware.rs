// SPDX-License-Identifier: GPL-2.0-only
//! The modelled machine: places, and how fast a task gets on there.
//!
//! A phase of a task has a number of nanoseconds of work: what it would take alone on a core, with all
//! of its memory local and nobody else at it. A share of that, the phase's intensity, is waiting for
//! memory; the rest is the core's own work. Each part has its own factor:
//!
//! - The core's: with more than one busy CPU the core does [`Params::smt_percent`] of a lone CPU's work
//!   on each.
//! - The memory's: for each node that the task has memory on, the distance over 10 (so 20 takes twice as
//!   long), times how much more is asked of the node than it gives. A node gives what `imb_numa_nr` tasks
//!   that do nothing but wait for memory ask of it: the documents call that number an approximation of
//!   memory channels (R2).
//!
//! What is calibrated, and on what, is in docs/simulation.md. Times are units of this model, good for comparing rules
//! on one machine.
//!
//! All places are dense indices of the machine. Factors are in millionths.

use std::ops::Range;

use crate::machine::Machine;
use crate::policy::compile::NodeShape;
use crate::policy::locality::places::Places;
use crate::policy::observation::Shape;

/// A whole, in millionths.
pub const ONE: u64 = 1_000_000;

/// The model's parameters that are not of the machine itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Params {
    /// Period of the scheduler tick, which ends slices and looks after waiting tasks.
    pub tick_ns: u64,
    /// From the choice of a task until it gets on with its work.
    pub switch_ns: u64,
    /// What each of several busy CPUs of a core gets done, of what a lone one does.
    pub smt_percent: u64,
    /// Each phase's work is up to so many permille more or less than the program says.
    pub jitter_permille: u64,
    /// A sleep takes up to so much longer.
    pub timer_slack_ns: u64,
    /// All work of a run is up to so many permille more or less: no two runs of a machine are alike.
    pub run_permille: u64,
    /// The balancer's first tick comes at a random moment of its interval, not at its end.
    pub random_phase: bool,
    /// Work of touching a page for the first time: with 4 KiB, 2000 MiB/s.
    pub page_ns: u64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            tick_ns: 1_000_000,
            switch_ns: 2_000,
            smt_percent: 60,
            jitter_permille: 10,
            timer_slack_ns: 50_000,
            run_permille: 13,
            random_phase: true,
            page_ns: 1_953,
        }
    }
}

/// Where a CPU is.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub core: usize,
    pub llc: usize,
    pub node: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Hardware {
    pub params: Params,
    pub shape: Shape,
    /// As the rules want to know them.
    pub nodes: Vec<NodeShape>,
    /// Kernel ids of the nodes.
    pub node_ids: Vec<u32>,
    cpus: Vec<Place>,
    /// By core.
    siblings: Vec<Vec<usize>>,
    llc_cpus: Vec<Range<usize>>,
    node_cpus: Vec<Range<usize>>,
    /// For locality.
    pub places: Places,
    /// Row-major: from the node of the CPU to that of the memory.
    latency: Vec<u64>,
    /// By node: tasks that do nothing but wait for memory, in millionths.
    bandwidth: Vec<u64>,
    pub smt: bool,
}

fn wide(range: &Range<u16>) -> Range<usize> {
    range.start.into()..range.end.into()
}

impl Hardware {
    pub fn new(machine: &Machine, params: Params) -> Self {
        let nodes = machine.cpu_nodes();
        let distances = nodes.iter().flat_map(|from| {
            let to = nodes.iter();
            to.map(|to| u64::from(machine.distance(from.idx, to.idx)) * ONE / 10)
        });
        let shapes = NodeShape::all(machine);
        let place = |cpu: &crate::machine::Cpu| Place {
            core: cpu.core.as_usize(),
            llc: cpu.llc.as_usize(),
            node: cpu.node.as_usize(),
        };
        let cores = machine.cores().iter();
        Self {
            params,
            shape: Shape::of(machine),
            places: Places::of(machine),
            node_ids: nodes.iter().map(|node| node.id).collect(),
            cpus: machine.cpus().iter().map(place).collect(),
            siblings: cores
                .map(|core| core.cpus.iter().map(|cpu| cpu.as_usize()).collect())
                .collect(),
            llc_cpus: machine.llcs().iter().map(|llc| wide(&llc.cpus)).collect(),
            node_cpus: nodes.iter().map(|node| wide(&node.cpus)).collect(),
            latency: distances.collect(),
            bandwidth: shapes
                .iter()
                .map(|node| u64::from(node.imb_numa_nr.max(1)) * ONE)
                .collect(),
            nodes: shapes,
            smt: machine.smt(),
        }
    }

    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    pub fn nr_llcs(&self) -> usize {
        self.llc_cpus.len()
    }

    pub fn nr_nodes(&self) -> usize {
        self.node_cpus.len()
    }

    pub fn place(&self, cpu: usize) -> Place {
        self.cpus[cpu]
    }

    pub fn node_of_llc(&self, llc: usize) -> usize {
        self.shape.llc_node[llc].into()
    }

    pub fn cpus_of_llc(&self, llc: usize) -> Range<usize> {
        self.llc_cpus[llc].clone()
    }

    pub fn cpus_of_node(&self, node: usize) -> Range<usize> {
        self.node_cpus[node].clone()
    }

    /// The CPUs of a CPU's core, itself among them.
    pub fn siblings(&self, cpu: usize) -> &[usize] {
        &self.siblings[self.cpus[cpu].core]
    }

    /// The nodes in the order in which `node` looks for help, itself first.
    pub fn order(&self, node: usize) -> &[u8] {
        &self.shape.order[node]
    }

    /// The first tick after `now`.
    pub fn tick_after(&self, now: u64) -> u64 {
        (now / self.params.tick_ns + 1) * self.params.tick_ns
    }

    /// How much longer an access from one node to the memory of another takes than it would to local
    /// memory that nobody else uses, while so much is asked of that memory.
    fn memory_factor(&self, from: usize, to: usize, demand: u64) -> u64 {
        let latency = self.latency[from * self.nr_nodes() + to];
        let bandwidth = self.bandwidth[to];
        match demand > bandwidth {
            true => latency * demand / bandwidth,
            false => latency,
        }
    }

    /// What a task gets done per unit of time, in millionths; at least 1.
    ///
    /// `busy`: CPUs of its core that run a task, its own among them. `intensity`: share of its phase that
    /// waits for memory. `shares`: where that memory is. `demand`: by node, what is asked of it.
    pub fn speed(
        &self,
        node: usize,
        busy: usize,
        intensity: u64,
        shares: &[(usize, u64)],
        demand: &[u64],
    ) -> u64 {
        let core = match busy {
            0 | 1 => ONE,
            _ => ONE * 100 / self.params.smt_percent,
        };
        let waits = shares.iter().map(|&(to, share)| {
            let factor = self.memory_factor(node, to, demand[to]);
            share * factor / ONE
        });
        let waits: u64 = waits.sum();
        let per_work = ((ONE - intensity) * core + intensity * waits) / ONE;
        (ONE * ONE / per_work.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineBuilder;

    /// 2 nodes of 8 cores with 2 threads: imb_numa_nr is 2, the distance 20.
    fn hardware() -> Hardware {
        let machine = MachineBuilder::uniform(2, 1, 8, 2).build().unwrap();
        Hardware::new(&machine, Params::default())
    }

    #[test]
    fn each_factor_by_itself() {
        let hw = hardware();
        let idle = [0, 0];
        assert_eq!(hw.speed(0, 1, 0, &[], &idle), ONE);
        // 60 % for each of two siblings.
        assert_eq!(hw.speed(0, 2, 0, &[], &idle) / 1000, 600);
        // All memory at distance 20, and waiting for nothing else.
        assert_eq!(hw.speed(0, 1, ONE, &[(1, ONE)], &idle), ONE / 2);
        assert_eq!(hw.speed(0, 1, ONE, &[(0, ONE)], &idle), ONE);
        // Half of it: 1 / 1.5.
        let half = [(0, ONE / 2), (1, ONE / 2)];
        assert_eq!(hw.speed(0, 1, ONE, &half, &idle), 666_666);
        // Eight ask for what two can have.
        assert_eq!(hw.speed(0, 1, ONE, &[(0, ONE)], &[8 * ONE, 0]), ONE / 4);
        // Half of the phase waits four times as long: 0.5 + 2.
        assert_eq!(
            hw.speed(0, 1, ONE / 2, &[(0, ONE)], &[8 * ONE, 0]),
            ONE * 2 / 5
        );
    }

    #[test]
    fn ticks_are_the_same_for_all_and_never_now() {
        let hw = hardware();
        assert_eq!(hw.tick_after(0), 1_000_000);
        assert_eq!(hw.tick_after(999_999), 1_000_000);
        assert_eq!(hw.tick_after(1_000_000), 2_000_000);
    }
}
