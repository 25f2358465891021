// SPDX-License-Identifier: GPL-2.0-only
//! What running tasks ask of the nodes' memory.
//!
//! Each task in a phase that waits for memory asks the nodes where that is, in proportion. When what is
//! asked of a node changes, everybody who has memory there gets on differently from then on; who that is
//! is worked out once per moment, after all that happens in it.

/// What the task on one CPU asks for.
#[derive(Debug, Clone, Default)]
struct Asks {
    /// By node, in millionths of its memory.
    shares: Vec<(usize, u64)>,
    /// 0: nothing.
    intensity: u64,
    /// Its place in `asking`.
    at: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Demand {
    by_cpu: Vec<Asks>,
    /// CPUs whose tasks ask for anything, each with the nodes that they ask, bit n for node n: all of them are gone through
    /// for every change.
    asking: Vec<(u64, usize)>,
    /// By node, in millionths of a task that does nothing but wait for memory.
    by_node: Vec<u64>,
    /// Bit n: node n's demand has changed.
    changed: u64,
}

impl Demand {
    pub fn new(cpus: usize, nodes: usize) -> Self {
        Self {
            by_cpu: vec![Asks::default(); cpus],
            asking: Vec::new(),
            by_node: vec![0; nodes],
            changed: 0,
        }
    }

    pub fn by_node(&self) -> &[u64] {
        &self.by_node
    }

    pub fn intensity(&self, cpu: usize) -> u64 {
        self.by_cpu[cpu].intensity
    }

    pub fn shares(&self, cpu: usize) -> &[(usize, u64)] {
        &self.by_cpu[cpu].shares
    }

    /// The task on `cpu` waits for memory from now on; it did not before.
    pub fn begin(&mut self, cpu: usize, intensity: u64, shares: &[(usize, u64)]) {
        if intensity == 0 {
            return;
        }
        let asks = &mut self.by_cpu[cpu];
        assert_eq!(asks.intensity, 0, "CPU {cpu} is in two phases");
        asks.intensity = intensity;
        asks.shares.extend_from_slice(shares);
        asks.at = self.asking.len();
        let mut nodes = 0;
        for &(node, share) in shares {
            self.by_node[node] += part(intensity, share);
            nodes |= 1 << node;
        }
        self.asking.push((nodes, cpu));
        self.changed |= nodes;
    }

    /// ... no longer.
    pub fn end(&mut self, cpu: usize) {
        let asks = &mut self.by_cpu[cpu];
        if asks.intensity == 0 {
            return;
        }
        for &(node, share) in &asks.shares {
            self.by_node[node] -= part(asks.intensity, share);
        }
        asks.intensity = 0;
        asks.shares.clear();
        let at = asks.at;
        let (nodes, _) = self.asking.swap_remove(at);
        self.changed |= nodes;
        if let Some(&(_, moved)) = self.asking.get(at) {
            self.by_cpu[moved].at = at;
        }
    }

    /// CPUs whose tasks get on differently since this was last asked.
    pub fn affected(&mut self, into: &mut Vec<usize>) {
        let changed = std::mem::take(&mut self.changed);
        if changed == 0 {
            return;
        }
        let asking = self.asking.iter();
        into.extend(asking.filter_map(|&(nodes, cpu)| (nodes & changed != 0).then_some(cpu)));
    }

    /// Nobody asks for anything.
    pub fn is_none(&self) -> bool {
        self.asking.is_empty() && self.by_node.iter().all(|&demand| demand == 0)
    }
}

/// What a task asks of a node that has this share of its memory.
fn part(intensity: u64, share: u64) -> u64 {
    intensity * share / super::hardware::ONE
}

#[cfg(test)]
mod tests {
    use super::super::hardware::ONE;
    use super::*;

    #[test]
    fn what_is_asked_for_ends_with_the_phase() {
        let mut demand = Demand::new(4, 2);
        let mut affected = Vec::new();
        demand.begin(0, ONE / 2, &[(0, ONE)]);
        demand.begin(1, ONE, &[(0, ONE / 4), (1, ONE * 3 / 4)]);
        demand.begin(2, ONE, &[(1, ONE)]);
        assert_eq!(demand.by_node(), [ONE * 3 / 4, ONE * 7 / 4]);
        demand.affected(&mut affected);
        assert_eq!(affected, [0, 1, 2]);
        affected.clear();
        demand.end(0);
        demand.affected(&mut affected);
        assert_eq!(affected, [1], "2 has nothing on node 0");
        demand.end(1);
        demand.end(2);
        assert!(demand.is_none());
    }
}
