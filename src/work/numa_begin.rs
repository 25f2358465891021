// SPDX-License-Identifier: GPL-2.0-only
//! On which nodes the memory and the threads of a process of `work numa-mem` begin.
//!
//! Both are done by affinity alone. Who touches memory first is confined to the CPUs of the memory's node
//! meanwhile, so that it is plain first touch, with no policy that a scheduler or the kernel could see.
//! Threads are confined to the CPUs of theirs until the common start. From then on each may run wherever
//! it might before, and a scheduler is free to do what it thinks right.

use std::fmt::{self, Display};
use std::io;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::cpus::{CpuSet, NodeMap};

/// Which node a process gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeChoice {
    /// Every process this one; the kernel's id.
    Node(u32),
    /// The first process the first node, the second the next one, over and over.
    Each,
    /// The one after that.
    Next,
}

impl FromStr for NodeChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<NodeChoice, String> {
        match text {
            "each" => Ok(NodeChoice::Each),
            "next" => Ok(NodeChoice::Next),
            _ => text
                .parse()
                .map(NodeChoice::Node)
                .map_err(|_| "expected the number of a node, each, or next".into()),
        }
    }
}

impl Display for NodeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeChoice::Node(node) => write!(f, "{node}"),
            NodeChoice::Each => f.write_str("each"),
            NodeChoice::Next => f.write_str("next"),
        }
    }
}

impl NodeChoice {
    /// The node of process number `process`, as dense index: one that has CPUs which it may use.
    fn node(self, process: usize, nodes: &NodeMap) -> Result<usize> {
        let weights = nodes.weights();
        let usable: Vec<usize> = (0..weights.len()).filter(|&n| weights[n] > 0).collect();
        let turn = |at: usize| usable.get(at % usable.len().max(1)).copied();
        let node = match self {
            NodeChoice::Node(id) => usable.iter().copied().find(|&n| nodes.ids()[n] == id),
            NodeChoice::Each => turn(process),
            NodeChoice::Next => turn(process + 1),
        };
        match (node, self) {
            (Some(node), _) => Ok(node),
            (None, NodeChoice::Node(id)) => {
                bail!("node {id} has no CPU that this process may use")
            }
            (None, _) => bail!("this process may use no CPU"),
        }
    }
}

/// Where a process begins.
#[derive(Debug, Clone)]
pub struct Beginning {
    /// Where its threads may run from the common start on.
    free: CpuSet,
    /// Where memory is touched first.
    memory: Option<CpuSet>,
    /// Where threads wait for the start.
    threads: Option<CpuSet>,
}

impl Beginning {
    /// That of process number `process`; `None` leaves a choice to the scheduler.
    ///
    /// # Errors
    /// The node is not there, or has no CPU that may be used.
    pub fn of(
        process: usize,
        memory: Option<NodeChoice>,
        threads: Option<NodeChoice>,
        nodes: &NodeMap,
    ) -> Result<Beginning> {
        let cpus = |choice: NodeChoice| nodes.cpus_of(choice.node(process, nodes)?);
        let memory = memory.map(cpus).transpose().context("--memory-on")?;
        let threads = threads.map(cpus).transpose().context("--start-on")?;
        Ok(Beginning {
            free: CpuSet::allowed()?,
            memory,
            threads,
        })
    }

    /// Confines the calling thread for touching memory first.
    pub fn before_touching(&self) -> io::Result<()> {
        self.memory.as_ref().map_or(Ok(()), CpuSet::apply)
    }

    /// And for waiting for the start.
    pub fn before_start(&self) -> io::Result<()> {
        match (&self.threads, &self.memory) {
            (Some(threads), _) => threads.apply(),
            (None, Some(_)) => self.free.apply(),
            (None, None) => Ok(()),
        }
    }

    /// Lets it go.
    pub fn after_start(&self) -> io::Result<()> {
        match self.threads {
            Some(_) => self.free.apply(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn choices_are_written_as_they_are_read() {
        for text in ["0", "17", "each", "next"] {
            assert_eq!(text.parse::<NodeChoice>().unwrap().to_string(), text);
        }
        for text in ["", "-1", "all", "0,1"] {
            assert!(text.parse::<NodeChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn processes_take_turns_on_the_nodes_that_they_may_use() {
        let nodes = NodeMap::with_weights(&[(0, 4), (3, 0), (5, 4)]);
        let of = |choice: NodeChoice| {
            let node = |process| choice.node(process, &nodes).ok();
            [node(0), node(1), node(2)]
        };
        assert_eq!(of(NodeChoice::Each), [Some(0), Some(2), Some(0)]);
        assert_eq!(of(NodeChoice::Next), [Some(2), Some(0), Some(2)]);
        assert_eq!(of(NodeChoice::Node(5)), [Some(2); 3]);
        assert_eq!(of(NodeChoice::Node(3)), [None; 3]);
        assert_eq!(of(NodeChoice::Node(1)), [None; 3]);
    }

    /// The affinity that a thread has at each step.
    #[test]
    fn threads_are_confined_until_the_start_and_free_after_it() {
        in_a_thread(|| {
            let free = CpuSet::allowed().unwrap();
            let cpus: Vec<u32> = free.iter().collect();
            let one = |at: usize| CpuSet::of(&[cpus[at % cpus.len()]]);
            let steps = |memory: Option<CpuSet>, threads: Option<CpuSet>| {
                let free = free.clone();
                let beginning = Beginning {
                    free,
                    memory,
                    threads,
                };
                beginning.before_touching().unwrap();
                let touching = CpuSet::allowed().unwrap();
                beginning.before_start().unwrap();
                let waiting = CpuSet::allowed().unwrap();
                beginning.after_start().unwrap();
                assert_eq!(CpuSet::allowed().unwrap(), beginning.free);
                [touching, waiting]
            };
            assert_eq!(steps(Some(one(0)), Some(one(1))), [one(0), one(1)]);
            assert_eq!(steps(Some(one(0)), None), [one(0), free.clone()]);
            assert_eq!(steps(None, Some(one(1))), [free.clone(), one(1)]);
            assert_eq!(steps(None, None), [free.clone(), free]);
        });
    }
}
