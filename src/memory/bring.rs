// SPDX-License-Identifier: GPL-2.0-only
//! Pages of a process brought to a node, in as many orders as it takes.
//!
//! Each process has a list of areas still to go through, the hot ones first; an order goes on where the last one
//! ended ([`moving`]). Only private memory that no policy placed is on the list: move_pages(2) itself moves what is bound without
//! asking. What others have mapped as well the kernel refuses, since only MPOL_MF_MOVE is used. Nothing is brought
//! where there is hardly room, so that nobody's memory has to go for it.
//!
//! A list is made anew for another node or another part of the memory, after an end, and when the process's memory policy
//! has changed. For that all areas and their policies are read again, which takes long, so for parts it is done
//! every [`AREAS_MS`] at most.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use super::orders::{Brought, Unseen};
use super::pages;
use super::procfs::Proc;
use super::sampler::{AskNodes, Sampler};
use crate::policy::locality::extents::Extent;
use moving::{Kernel, Moving, Pace, Range, Sizes};

mod moving;

/// One part in so many of a node's memory is left free.
const RESERVE: u64 = 32;
/// For so long a process's areas are taken for what they were, when parts of its memory are brought.
const AREAS_MS: u64 = 30_000;
/// A list that nobody went on with is forgotten after this time.
const FORGET_MS: u64 = 300_000;

/// What is still to be gone through.
#[derive(Debug)]
struct Job {
    to: u16,
    within: Option<Extent>,
    ranges: VecDeque<(u64, u64)>,
    at_ms: u64,
}

/// Areas of a process that may be brought, as they were.
#[derive(Debug)]
struct Areas {
    ranges: Vec<Range>,
    at_ms: u64,
}

/// See the module.
pub struct Bringer {
    proc: Proc,
    /// /sys/devices/system/node, except in tests.
    nodes: PathBuf,
    jobs: BTreeMap<i32, Job>,
    areas: BTreeMap<i32, Areas>,
    sizes: Sizes,
    pace: Pace,
}

impl Bringer {
    pub fn new(proc: Proc, nodes: impl Into<PathBuf>) -> Self {
        let page_size = pages::page_size() as u64;
        let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
        let huge = huge.ok().and_then(|text| text.trim().parse().ok());
        Self {
            proc,
            nodes: nodes.into(),
            jobs: BTreeMap::new(),
            areas: BTreeMap::new(),
            sizes: Sizes {
                page: page_size,
                huge: huge.unwrap_or(512 * page_size).max(page_size),
            },
            pace: Pace::default(),
        }
    }

    /// Bring up to so many pages of a process to the node `to`, whose kernel id is `node`; those of one part of its
    /// memory alone, if there is one. It ends sooner when `awaited`.
    pub fn bring<A: AskNodes>(
        &mut self,
        sampler: &mut Sampler<A>,
        (tgid, to, node): (i32, u16, u32),
        (most, within): (u32, Option<Extent>),
        (at_ms, awaited): (u64, &dyn Fn() -> bool),
    ) -> Result<Brought, Unseen> {
        let young = |then: u64| at_ms.saturating_sub(then) <= FORGET_MS;
        self.jobs.retain(|_, job| young(job.at_ms));
        self.areas.retain(|_, areas| young(areas.at_ms));
        let job = self.jobs.remove(&tgid);
        let job = job.filter(|job| (job.to, job.within) == (to, within));
        let mut job = match job {
            Some(job) if !sampler.policy_has_changed(tgid)? => job,
            _ => Job {
                to,
                within,
                ranges: self.ranges(sampler, tgid, within, at_ms)?,
                at_ms,
            },
        };
        job.at_ms = at_ms;
        let mut brought = Brought::default();
        let most = u64::from(most);
        let room = self.room(node).min(most);
        if room < most {
            brought.refused = u32::try_from(most - room).unwrap_or(u32::MAX);
        }
        let mut moving = Moving {
            memory: Kernel::new(tgid, self.proc.open(tgid, "pagemap")?),
            node: node as i32,
            most: room,
            sizes: self.sizes,
            pace: &mut self.pace,
            awaited,
        };
        moving.go(&mut job.ranges, &mut brought)?;
        brought.finished = job.ranges.is_empty();
        if !brought.finished {
            self.jobs.insert(tgid, job);
        }
        Ok(brought)
    }

    /// What of the process may be brought.
    fn ranges<A: AskNodes>(
        &mut self,
        sampler: &mut Sampler<A>,
        tgid: i32,
        within: Option<Extent>,
        at_ms: u64,
    ) -> Result<VecDeque<Range>, Unseen> {
        let Some(part) = within else {
            return Ok(sampler.movable(tgid, at_ms)?.into());
        };
        let young = |areas: &Areas| at_ms.saturating_sub(areas.at_ms) <= AREAS_MS;
        let areas = match self.areas.remove(&tgid).filter(young) {
            Some(areas) if !sampler.policy_has_changed(tgid)? => areas,
            _ => Areas {
                ranges: sampler.movable(tgid, at_ms)?,
                at_ms,
            },
        };
        let part = (part.start * self.sizes.page, part.end * self.sizes.page);
        let common = areas.ranges.iter().filter_map(|&area| common(area, part));
        let common = common.collect();
        self.areas.insert(tgid, areas);
        Ok(common)
    }

    /// Pages that a node has room for: free ones, and of files that were not used lately, less a reserve.
    fn room(&self, node: u32) -> u64 {
        let path = self.nodes.join(format!("node{node}/meminfo"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let kib = |key: &str| -> u64 {
            let value = text
                .lines()
                .find_map(|line| line.split_once(key))
                .and_then(|(_, value)| value.trim().strip_suffix(" kB"));
            value.and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        let free = kib(" MemFree:") + kib(" Inactive(file):");
        free.saturating_sub(kib(" MemTotal:") / RESERVE) * 1024 / self.sizes.page
    }
}

fn common(a: Range, b: Range) -> Option<Range> {
    let both = (a.0.max(b.0), a.1.min(b.1));
    (both.0 < both.1).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bringer(nodes: &std::path::Path) -> Bringer {
        let mut bringer = Bringer::new(Proc::new("/proc"), nodes);
        (bringer.sizes.page, bringer.sizes.huge) = (4096, 2 << 20);
        bringer
    }

    #[test]
    fn a_reserve_is_left() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("node1")).unwrap();
        let text = "Node 1 MemTotal:       320000 kB\nNode 1 MemFree:        10040 kB\n\
                    Node 1 Inactive(file):     20 kB\nNode 1 Inactive:     9999 kB\n";
        std::fs::write(dir.path().join("node1/meminfo"), text).unwrap();
        let bringer = bringer(dir.path());
        // 10060 less 10000 KiB.
        assert_eq!(bringer.room(1), 15);
        assert_eq!(bringer.room(0), 0);
    }

    #[test]
    fn a_part_of_an_area_is_what_both_have() {
        assert_eq!(common((10, 20), (15, 30)), Some((15, 20)));
        assert_eq!(common((10, 20), (5, 12)), Some((10, 12)));
        assert_eq!(common((10, 20), (20, 30)), None);
    }
}
