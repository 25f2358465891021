// SPDX-License-Identifier: GPL-2.0-only
//! A thread that watches where it runs.

use super::cpus;

/// Sees the calling thread change CPU and node.
pub struct Watch {
    pub cpu: u32,
    /// The kernel's id.
    pub node: u32,
    pub node_changes: u32,
}

impl Watch {
    /// Looks for the first time.
    pub fn begin() -> Watch {
        Watch {
            cpu: cpus::current(),
            node: cpus::current_node(),
            node_changes: 0,
        }
    }

    /// Looks again. Cheap while nothing changes: often enough, and no change is missed.
    pub fn look(&mut self) {
        let cpu = cpus::current();
        if cpu != self.cpu {
            let node = cpus::current_node();
            self.node_changes += u32::from(node != self.node);
            (self.cpu, self.node) = (cpu, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_node_is_a_change() {
        let mut watch = Watch::begin();
        watch.cpu = u32::MAX;
        watch.look();
        assert_eq!((watch.cpu == u32::MAX, watch.node_changes), (false, 0));
        (watch.cpu, watch.node) = (u32::MAX, u32::MAX);
        watch.look();
        assert_eq!(watch.node_changes, 1);
    }
}
