// SPDX-License-Identifier: GPL-2.0-only
//! Going through a list of address ranges and moving what is elsewhere, several batches in a row.
//!
//! Nothing can be done in the middle of a system call, and this thread has looks to take as well, so a call gets as many
//! pages as move in an eighth of the time that an order may take when somebody waits ([`MOST_US`]): few until it is known how
//! fast the machine is ([`Pace`]). They should not be fewer than needed either: for every call the kernel has all CPUs
//! empty their lists of pages.
//!
//! Invariants:
//! - each page of the list is tried once at most, call by call in order and in each call the last one first, and never
//!   more than was asked for;
//! - an order takes [`MOST_US`] while somebody waits, else [`MOST_ALONE_US`], and one call of the kernel at most, and always
//!   gets something done;
//! - what ends an order early is left on the list.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::time::Instant;

use super::super::orders::{Brought, Unseen};
use super::super::procfs::why;
use super::super::scan::{self, Found, Region};
use super::super::{orders, pages};
use crate::policy::locality::follow::{MOST_ALONE_US, MOST_US};

/// Pages that are looked at for one that may be brought.
const LOOKS_PER_PAGE: u64 = 16;
/// Pages of a call: at least those of two huge pages.
const LEAST_PACE: u64 = 1024;
const LARGEST_PACE: u64 = 4096;
/// So many pages are looked at in one go, though fewer are missing to those of a call.
const LEAST_WINDOW: u64 = 128;

/// From address to address.
pub type Range = (u64, u64);

/// What the kernel does with the memory of one process; a fake in tests.
pub trait Memory {
    /// At most `most` private pages from `start` to `end` that are there.
    fn present(&mut self, start: u64, end: u64, most: u64) -> io::Result<Found>;
    /// As [`pages::ask`].
    fn ask(&mut self, addresses: &[usize], status: &mut [i32]) -> io::Result<()>;
    /// As [`pages::bring`].
    fn bring(&mut self, addresses: &[usize], node: i32, status: &mut [i32]) -> io::Result<bool>;
    /// A clock, in us.
    fn now_us(&mut self) -> u64;
}

/// The kernel of this machine.
pub struct Kernel {
    tgid: i32,
    pagemap: File,
    began: Instant,
}

impl Kernel {
    pub fn new(tgid: i32, pagemap: File) -> Self {
        Self {
            tgid,
            pagemap,
            began: Instant::now(),
        }
    }
}

impl Memory for Kernel {
    fn present(&mut self, start: u64, end: u64, most: u64) -> io::Result<Found> {
        scan::present(&self.pagemap, start, end, most)
    }

    fn ask(&mut self, addresses: &[usize], status: &mut [i32]) -> io::Result<()> {
        pages::ask(self.tgid, addresses, status)
    }

    fn bring(&mut self, addresses: &[usize], node: i32, status: &mut [i32]) -> io::Result<bool> {
        let nodes = vec![node; addresses.len()];
        pages::bring(self.tgid, addresses, &nodes, status)
    }

    fn now_us(&mut self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }
}

/// Pages of a call of the kernel's, by how long the last ones took.
#[derive(Debug, Clone, Copy)]
pub struct Pace(u64);

impl Default for Pace {
    fn default() -> Self {
        Self(LEAST_PACE)
    }
}

impl Pace {
    /// So many pages were tried in one call.
    fn took(&mut self, pages: u64, us: u64) {
        let slow = us > MOST_US / 4;
        // A call with few of them says little about one with many.
        let fast = us < MOST_US / 16 && pages > self.0 / 2;
        self.0 = match (slow, fast) {
            (true, _) => self.0 / 2,
            (_, true) => self.0 * 2,
            _ => self.0,
        }
        .clamp(LEAST_PACE, LARGEST_PACE);
    }
}

/// An address, and how many pages go with it: one, or those of a huge page, which moves as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    address: u64,
    pages: u64,
}

/// What is left of an order.
#[derive(Debug, Clone, Copy)]
struct Left {
    /// Pages that may be tried, and looked at.
    pages: u64,
    looks: u64,
    began_us: u64,
}

impl Left {
    fn is_over(&self) -> bool {
        self.pages == 0 || self.looks == 0
    }
}

/// Sizes of pages, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub page: u64,
    pub huge: u64,
}

/// An order under way: up to `most` pages to the kernel's node `node`.
pub struct Moving<'a, M> {
    pub memory: M,
    pub node: i32,
    pub most: u64,
    pub sizes: Sizes,
    pub pace: &'a mut Pace,
    /// Whether somebody waits for the end.
    pub awaited: &'a dyn Fn() -> bool,
}

impl<M: Memory> Moving<'_, M> {
    /// Go through the list until all was tried that may be, far too much was looked at, or the time is over.
    pub fn go(
        &mut self,
        ranges: &mut VecDeque<Range>,
        brought: &mut Brought,
    ) -> Result<(), Unseen> {
        let mut left = Left {
            pages: self.most,
            looks: self.most.saturating_mul(LOOKS_PER_PAGE),
            began_us: self.memory.now_us(),
        };
        while !left.is_over() && !ranges.is_empty() {
            let mut chosen = self.gather(ranges, &mut left, brought)?;
            // Who goes upwards through this memory meanwhile waits once for the page where it comes upon the call,
            // and not behind it for one page after the other.
            chosen.reverse();
            if !chosen.is_empty() {
                self.move_all(&chosen, brought)?;
            }
            if self.time_is_over(&left) {
                break;
            }
        }
        Ok(())
    }

    fn time_is_over(&mut self, left: &Left) -> bool {
        let took_us = self.memory.now_us().saturating_sub(left.began_us);
        took_us >= MOST_ALONE_US || took_us >= MOST_US && (self.awaited)()
    }

    /// What is elsewhere, up to the pages of a call; the list goes on behind it.
    fn gather(
        &mut self,
        ranges: &mut VecDeque<Range>,
        left: &mut Left,
        brought: &mut Brought,
    ) -> Result<Vec<Piece>, Unseen> {
        let (mut chosen, mut sum) = (Vec::new(), 0);
        while let (true, false, Some(&(start, end))) =
            (sum < self.pace.0, left.is_over(), ranges.front())
        {
            let missing = (self.pace.0 - sum).min(left.pages);
            let window = missing.max(LEAST_WINDOW).min(left.looks);
            let Ok(found) = self.memory.present(start, end, window) else {
                // Gone meanwhile, the area or all of it.
                ranges.pop_front();
                continue;
            };
            let pieces = self.pieces(&found.regions);
            let count = pieces.iter().map(|piece| piece.pages).sum::<u64>();
            left.looks -= count.clamp(1, left.looks);
            let stopped = self.choose(&pieces, left, &mut chosen, brought)?;
            sum = chosen.iter().map(|piece: &Piece| piece.pages).sum();
            let seen = pieces.last().map_or(0, |piece| self.end(piece));
            let up_to = stopped.unwrap_or(found.up_to.max(seen));
            match ranges.front_mut() {
                Some(range) if up_to < end => range.0 = up_to,
                _ => drop(ranges.pop_front()),
            }
            if self.time_is_over(left) {
                break;
            }
        }
        Ok(chosen)
    }

    /// Add those of the pieces that are elsewhere; the address of the first one that is left for another order.
    fn choose(
        &mut self,
        pieces: &[Piece],
        left: &mut Left,
        chosen: &mut Vec<Piece>,
        brought: &mut Brought,
    ) -> Result<Option<u64>, Unseen> {
        let (addresses, mut status) = asked(pieces);
        let asked = self.memory.ask(&addresses, &mut status);
        asked.map_err(|error| why(&error))?;
        let elsewhere = pieces.iter().zip(&status);
        let elsewhere = elsewhere.filter(|(_, at)| **at >= 0 && **at != self.node);
        for (&piece, _) in elsewhere {
            if piece.pages > self.most {
                // No order is large enough.
                orders::count(&mut brought.refused, piece.pages);
            } else if piece.pages > left.pages {
                left.pages = 0;
                return Ok(Some(piece.address));
            } else {
                left.pages -= piece.pages;
                chosen.push(piece);
            }
        }
        Ok(None)
    }

    fn move_all(&mut self, chosen: &[Piece], brought: &mut Brought) -> Result<(), Unseen> {
        let began_us = self.memory.now_us();
        let (addresses, mut status) = asked(chosen);
        let all = match self.memory.bring(&addresses, self.node, &mut status) {
            // Not all that it might have: what counts is where the pages are afterwards.
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => false,
            tried => tried.map_err(|error| why(&error))?,
        };
        let tried = chosen.iter().map(|piece| piece.pages).sum();
        let took_us = self.memory.now_us().saturating_sub(began_us);
        self.pace.took(tried, took_us);
        if !all || status.iter().any(|&at| at != self.node) {
            let asked = self.memory.ask(&addresses, &mut status);
            asked.map_err(|error| why(&error))?;
        }
        for (piece, &at) in chosen.iter().zip(&status) {
            match at == self.node {
                true => orders::count(&mut brought.moved, piece.pages),
                false => orders::count(&mut brought.refused, piece.pages),
            }
        }
        Ok(())
    }

    /// Every page; of huge ones the first part, which stands for all of them, also where the region has not all.
    fn pieces(&self, regions: &[Region]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for region in regions {
            let size = match region.is_huge() {
                true => self.sizes.huge,
                false => self.sizes.page,
            };
            let addresses = (region.start / size * size..region.end).step_by(size as usize);
            pieces.extend(addresses.map(|address| Piece {
                address,
                pages: size / self.sizes.page,
            }));
        }
        pieces
    }

    fn end(&self, piece: &Piece) -> u64 {
        piece.address + piece.pages * self.sizes.page
    }
}

/// Addresses to ask about, and room for the answers.
fn asked(pieces: &[Piece]) -> (Vec<usize>, Vec<i32>) {
    let addresses = pieces.iter().map(|piece| piece.address as usize).collect();
    (addresses, vec![-libc::ENOENT; pieces.len()])
}

#[cfg(test)]
mod tests;
