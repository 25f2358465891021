// SPDX-License-Identifier: GPL-2.0-only
//! What the user dispatcher did, counted.

use crate::policy::placement::ForkWhy;

/// Totals since load; as the statistics of the same names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub unseen: u64,
    pub fork_local: u64,
    pub fork_remote: u64,
    pub fork_tolerated: u64,
    pub fork_full: u64,
    pub idle_prev: u64,
    pub idle_llc: u64,
    pub idle_node: u64,
    pub idle_remote: u64,
    /// No idle CPU was found.
    pub queued: u64,
    /// Slices that ended with nobody waiting there.
    pub kept: u64,
    /// Tasks whose slice ended and that went to an idle CPU, by how far.
    pub pulled_llc: u64,
    pub pulled_node: u64,
    pub pulled_remote: u64,
    pub moved: u64,
    pub llc_migrations: u64,
    pub node_migrations: u64,
    /// Questions about single tasks.
    pub looks: u64,
}

impl Tally {
    pub fn forked(&mut self, why: ForkWhy, local: bool) {
        match local {
            true => self.fork_local += 1,
            false => self.fork_remote += 1,
        }
        match why {
            ForkWhy::Least => {}
            ForkWhy::Tolerated => self.fork_tolerated += 1,
            ForkWhy::Full | ForkWhy::FullLocal => self.fork_full += 1,
        }
    }

    pub fn migrated(&mut self, same_node: bool) {
        match same_node {
            true => self.llc_migrations += 1,
            false => self.node_migrations += 1,
        }
    }
}
