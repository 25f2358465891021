// SPDX-License-Identifier: GPL-2.0-only
//! Memory policies of single pieces of memory, by mbind(2).
//!
//! They are written as the kernel writes them in numa_maps and in the options of tmpfs. The policy is that
//! of the memory, not of the threads: stacks and everything else are where they would be without it.

use std::fmt::{self, Display};
use std::io;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::arena::{Arena, HugePages, Reach};
use super::cpus::NodeMap;

/// Bits of a word of the kernel's node masks.
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// Where pages of memory go, whoever touches them. Nodes are the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// To this node, or nowhere.
    Bind(u32),
    /// To this node while it has room.
    Prefer(u32),
    /// To all nodes in turn.
    Interleave,
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let policy = match text.split_once(':') {
            None if text == "interleave" => Some(Policy::Interleave),
            Some(("bind", node)) => node.parse().ok().map(Policy::Bind),
            Some(("prefer", node)) => node.parse().ok().map(Policy::Prefer),
            _ => None,
        };
        policy.ok_or_else(|| "expected bind:NODE, prefer:NODE, or interleave".into())
    }
}

impl Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Bind(node) => write!(f, "bind:{node}"),
            Policy::Prefer(node) => write!(f, "prefer:{node}"),
            Policy::Interleave => f.write_str("interleave"),
        }
    }
}

impl Policy {
    /// Tries it on memory that nobody uses, so that what the kernel refuses is said in words.
    ///
    /// # Errors
    /// The node does not exist, or the kernel refuses.
    pub fn check(self, nodes: &NodeMap) -> Result<()> {
        if let Policy::Bind(node) | Policy::Prefer(node) = self
            && !nodes.ids().contains(&node)
        {
            let ids: Vec<String> = nodes.ids().iter().map(ToString::to_string).collect();
            bail!(
                "--policy: there is no node {node} here, only {}",
                ids.join(", ")
            );
        }
        let arena = Arena::new(1, HugePages::Default, Reach::Process)
            .context("cannot map memory to try a policy on")?;
        self.apply(&arena, nodes)
            .with_context(|| format!("cannot give memory the policy {self}: mbind"))
    }

    /// Gives it to memory that nobody has touched.
    pub fn apply(self, arena: &Arena, nodes: &NodeMap) -> io::Result<()> {
        let (mode, of) = match self {
            Policy::Bind(node) => (libc::MPOL_BIND, vec![node]),
            Policy::Prefer(node) => (libc::MPOL_PREFERRED, vec![node]),
            Policy::Interleave => (libc::MPOL_INTERLEAVE, nodes.ids().to_vec()),
        };
        let mask = mask(&of);
        // The kernel looks at one bit less than it is told of.
        let bits = mask.len() * WORD_BITS + 1;
        let flags: libc::c_uint = 0;
        // SAFETY: the range is the mapping of `arena`, whose contents no policy changes; `mask` has the
        // bits that are told.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                arena.start(),
                arena.bytes(),
                mode,
                mask.as_ptr(),
                bits as libc::c_ulong,
                flags,
            )
        };
        match result {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// A node mask, as long as its largest node needs.
fn mask(nodes: &[u32]) -> Vec<libc::c_ulong> {
    let most = nodes.iter().max().map_or(0, |&node| node as usize);
    let mut words = vec![0; most / WORD_BITS + 1];
    for &node in nodes {
        words[node as usize / WORD_BITS] |= 1 << (node as usize % WORD_BITS);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_written_as_they_are_read() {
        for text in ["bind:0", "prefer:12", "interleave"] {
            assert_eq!(text.parse::<Policy>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "bind",
            "bind:",
            "bind:x",
            "bind:-1",
            "interleave:0",
            "local",
        ] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }

    #[test]
    fn masks_hold_their_nodes() {
        assert_eq!(mask(&[0, 2]), [0b101]);
        assert_eq!(mask(&[1, 64]), [0b10, 1]);
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let nodes = NodeMap::detect().unwrap();
        let error = Policy::Bind(4000).check(&nodes).unwrap_err().to_string();
        assert!(
            error.starts_with("--policy: there is no node 4000"),
            "{error}"
        );
    }
}
