// SPDX-License-Identifier: GPL-2.0-only
//! Pages of a process brought to a node, a batch at a time.
//!
//! Each process has a list of areas still to go through, the hot ones first; a batch goes on where the last one
//! ended. Only private memory that no policy placed is on the list: move_pages(2) itself moves what is bound without
//! asking. What others have mapped as well the kernel refuses, since only MPOL_MF_MOVE is used. Nothing is brought
//! where there is hardly room, so that nobody's memory has to go for it.
//!
//! A list is made anew for another node or another part of the memory, after an end, and when the process's memory policy
//! has changed. For that all areas and their policies are read again, which takes long, so for parts it is done
//! every [`AREAS_MS`] at most.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;

use super::orders::{Brought, Unseen};
use super::pages;
use super::procfs::{Proc, why};
use super::sampler::{AskNodes, Sampler};
use super::scan;
use crate::policy::locality::extents::Extent;

/// Pages that are looked at for one that may be brought.
const LOOKS_PER_PAGE: u64 = 16;
/// At most so many pages are looked at in one call of the kernel.
const WINDOW: u64 = 4096;
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

/// From address to address.
type Range = (u64, u64);

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
    page_size: u64,
    huge_size: u64,
}

/// An address, and how many pages go with it: one, or those of a huge page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    address: u64,
    pages: u64,
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
            page_size,
            huge_size: huge.unwrap_or(512 * page_size).max(page_size),
        }
    }

    /// Bring up to so many pages of a process to the node `to`, whose kernel id is `node`; those of one part of its
    /// memory alone, if there is one.
    pub fn bring<A: AskNodes>(
        &mut self,
        sampler: &mut Sampler<A>,
        (tgid, to, node): (i32, u16, u32),
        (most, within): (u32, Option<Extent>),
        at_ms: u64,
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
        let pagemap = self.proc.open(tgid, "pagemap")?;
        self.fill(&mut job, tgid, node, &pagemap, room, &mut brought)?;
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
        let part = (part.start * self.page_size, part.end * self.page_size);
        let common = areas.ranges.iter().filter_map(|&area| common(area, part));
        let common = common.collect();
        self.areas.insert(tgid, areas);
        Ok(common)
    }

    /// Go through the list until `most` pages were tried, or far too many were looked at.
    fn fill(
        &self,
        job: &mut Job,
        tgid: i32,
        node: u32,
        pagemap: &File,
        most: u64,
        brought: &mut Brought,
    ) -> Result<(), Unseen> {
        let mut left = most;
        let mut looks = most * LOOKS_PER_PAGE;
        while let (true, Some(&(start, end))) = (left > 0 && looks > 0, job.ranges.front()) {
            let window = looks.min(WINDOW);
            let Ok(found) = scan::present(pagemap, start, end, window) else {
                // Gone meanwhile, the area or all of it.
                job.ranges.pop_front();
                continue;
            };
            let pieces = self.pieces(&found.regions);
            looks -= pieces
                .iter()
                .map(|piece| piece.pages)
                .sum::<u64>()
                .clamp(1, looks);
            let stopped = move_some(tgid, node, &pieces, (most, &mut left), brought)?;
            let up_to = stopped.unwrap_or(found.up_to);
            match job.ranges.front_mut() {
                Some(range) if up_to < end => range.0 = up_to,
                _ => drop(job.ranges.pop_front()),
            }
        }
        Ok(())
    }

    /// Every page, and of huge ones the first.
    fn pieces(&self, regions: &[scan::Region]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for region in regions {
            let size = match region.is_huge() {
                true => self.huge_size,
                false => self.page_size,
            };
            let mut address = region.start;
            while address < region.end {
                let next = ((address / size + 1) * size).min(region.end);
                pieces.push(Piece {
                    address,
                    pages: (next - address) / self.page_size,
                });
                address = next;
            }
        }
        pieces
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
        free.saturating_sub(kib(" MemTotal:") / RESERVE) * 1024 / self.page_size
    }
}

/// Bring those of the pieces that are elsewhere, as long as of `most` pages some are left; the address where it
/// stopped.
fn move_some(
    tgid: i32,
    node: u32,
    pieces: &[Piece],
    (most, left): (u64, &mut u64),
    brought: &mut Brought,
) -> Result<Option<u64>, Unseen> {
    let node = node as i32;
    let addresses: Vec<usize> = pieces.iter().map(|piece| piece.address as usize).collect();
    let mut status = vec![-libc::ENOENT; addresses.len()];
    pages::ask(tgid, &addresses, &mut status).map_err(|error| why(&error))?;
    let elsewhere = pieces.iter().zip(&status);
    let elsewhere = elsewhere.filter(|(_, at)| **at >= 0 && **at != node);
    let mut chosen: Vec<Piece> = Vec::new();
    let mut stopped = None;
    for (&piece, _) in elsewhere {
        if piece.pages > most {
            // No batch is large enough.
            count(&mut brought.refused, piece);
        } else if piece.pages > *left {
            // The first of the next batch.
            stopped = Some(piece.address);
            *left = 0;
            break;
        } else {
            *left -= piece.pages;
            chosen.push(piece);
        }
    }
    let addresses: Vec<usize> = chosen.iter().map(|piece| piece.address as usize).collect();
    let mut status = vec![-libc::ENOENT; addresses.len()];
    let nodes = vec![node; addresses.len()];
    match pages::bring(tgid, &addresses, &nodes, &mut status) {
        // Not all that it might have: what counts is where the pages are afterwards.
        Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {}
        tried => tried.map_err(|error| why(&error))?,
    }
    pages::ask(tgid, &addresses, &mut status).map_err(|error| why(&error))?;
    for (&piece, &at) in chosen.iter().zip(&status) {
        match at == node {
            true => count(&mut brought.moved, piece),
            false => count(&mut brought.refused, piece),
        }
    }
    Ok(stopped)
}

fn common(a: Range, b: Range) -> Option<Range> {
    let both = (a.0.max(b.0), a.1.min(b.1));
    (both.0 < both.1).then_some(both)
}

fn count(pages: &mut u32, piece: Piece) {
    *pages = pages.saturating_add(u32::try_from(piece.pages).unwrap_or(u32::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bringer(nodes: &std::path::Path) -> Bringer {
        let mut bringer = Bringer::new(Proc::new("/proc"), nodes);
        (bringer.page_size, bringer.huge_size) = (4096, 2 << 20);
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

    #[test]
    fn a_huge_page_is_one_piece() {
        let dir = tempfile::tempdir().unwrap();
        let bringer = bringer(dir.path());
        let small = scan::Region::new(0x1000, 0x3000, false);
        // Begins in the middle of one, and ends in the middle of another.
        let huge = scan::Region::new(0x2f_f000, 0x60_1000, true);
        let pieces = bringer.pieces(&[small, huge]);
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.address, piece.pages))
            .collect();
        assert_eq!(
            pieces,
            [
                (0x1000, 1),
                (0x2000, 1),
                (0x2f_f000, 257),
                (0x40_0000, 512),
                (0x60_0000, 1)
            ]
        );
    }
}
