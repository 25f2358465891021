// SPDX-License-Identifier: GPL-2.0-only
//! Which areas were touched since the last look, whoever touched them (R7).
//!
//! The source is the kernel's idle page tracking: a page that is marked idle loses the mark when anything uses it,
//! through whatever mapping. At every look some of the sampled pages are marked, and at the next one it is asked
//! whether they still are, up to the first one of an area that is not. A page is two reads and a write, and then one read or
//! two, and that costs as much as 25 addresses of a look do. So it is at most [`MARKS`] pages, and none where there is but
//! one area and so no order. It is harmless: clearing the accessed bit of a page is noted for the kernel's own reclaim, nothing is unmapped, and no
//! process waits. It needs CAP_SYS_ADMIN and CONFIG_IDLE_PAGE_TRACKING. Without them nobody tells, and
//! areas take turns.
//!
//! What it cannot see: uses by devices, and uses of a page whose translation a CPU still remembers (the kernel does
//! not flush it), so a small area in constant use may look idle. "Touched" means since the last look, however
//! long ago that was. Somebody else who tracks idle pages at the same time is disturbed.
//!
//! Why not the others. Soft-dirty bits cost the process a fault for each page that it writes. "Referenced" of smaps
//! needs all accessed bits cleared and all pages gone through, and takes from reclaim what it goes by. DAMON has one
//! set of contexts for the whole machine, which is its administrator's, and a kernel thread for each.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// Pages of a process that are marked at a look.
const MARKS: usize = 48;

const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
const FLAGS: &str = "/proc/kpageflags";

/// Of /proc/PID/pagemap: the page is present, and its number.
const PRESENT: u64 = 1 << 63;
const PFN: u64 = (1 << 55) - 1;
/// Of /proc/kpageflags: only such pages can be marked; a huge page is marked at its first part.
const KPF_LRU: u64 = 1 << 5;
const KPF_COMPOUND_HEAD: u64 = 1 << 15;
const KPF_COMPOUND_TAIL: u64 = 1 << 16;
/// Parts of the largest page that is looked for, as a power of two: 1 GiB of 4 KiB.
const MAX_ORDER: u32 = 18;

/// What tells "recently touched" on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TouchSource {
    /// Idle page tracking.
    IdlePages,
    /// Nothing: areas take turns.
    None,
}

impl fmt::Display for TouchSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IdlePages => "idle page tracking",
            Self::None => "nothing (no idle page tracking, or not allowed): areas take turns",
        })
    }
}

/// A page that was marked idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Start of the area that it is a sample of.
    pub area: u64,
    address: u64,
    /// Its number then.
    pfn: u64,
    /// The page that carries the mark: itself, or the first part of the huge page.
    head: u64,
}

/// The files of idle page tracking.
#[derive(Debug)]
struct IdlePages {
    bitmap: File,
    flags: File,
}

/// See the module.
#[derive(Debug)]
pub struct Touches {
    idle: Option<IdlePages>,
    page_size: u64,
}

impl Touches {
    /// What this machine offers, and whether it can be used: with a page of our own.
    pub fn probe(page_size: u64) -> Self {
        let idle = IdlePages::open().ok().filter(|_| {
            let page = 0_u64;
            let own = File::open("/proc/self/pagemap");
            let entry = own.and_then(|file| entry_of(&file, &raw const page as u64, page_size));
            // Without CAP_SYS_ADMIN numbers of pages read as 0.
            entry.is_ok_and(|entry| entry.is_some_and(|pfn| pfn != 0))
        });
        Self { idle, page_size }
    }

    /// Nothing tells.
    #[cfg(test)]
    pub fn none(page_size: u64) -> Self {
        Self {
            idle: None,
            page_size,
        }
    }

    pub fn source(&self) -> TouchSource {
        match self.idle {
            Some(_) => TouchSource::IdlePages,
            None => TouchSource::None,
        }
    }

    /// Mark some pages of a process, given as address and start of the area, by area. `marks` is overwritten.
    pub fn mark(&self, pagemap: &File, pages: &[(u64, u64)], marks: &mut Vec<Mark>) {
        marks.clear();
        let Some(idle) = &self.idle else { return };
        for &(address, area) in to_mark(pages) {
            let Ok(Some(pfn)) = entry_of(pagemap, address, self.page_size) else {
                continue;
            };
            let Ok(Some(head)) = idle.head_of(pfn) else {
                continue;
            };
            if idle.mark(head).is_ok() {
                marks.push(Mark {
                    area,
                    address,
                    pfn,
                    head,
                });
            }
        }
    }

    /// The areas of pages that were touched since they were marked. Of pages that are no longer there nothing is
    /// known.
    pub fn touched(&self, pagemap: &File, marks: &[Mark]) -> Vec<u64> {
        let Some(idle) = &self.idle else {
            return Vec::new();
        };
        let same = |mark: &Mark| {
            let entry = entry_of(pagemap, mark.address, self.page_size);
            matches!(entry, Ok(Some(pfn)) if pfn == mark.pfn)
        };
        let touched = |mark: &Mark| matches!(idle.is_marked(mark.head), Ok(false)) && same(mark);
        let areas = marks.chunk_by(|a, b| a.area == b.area);
        // One page that was touched is enough.
        let areas = areas.filter(|area| area.iter().any(touched));
        areas.map(|area| area[0].area).collect()
    }
}

/// Which of the pages to mark, given by area: where there is one area alone it makes no difference what is found.
fn to_mark(pages: &[(u64, u64)]) -> impl Iterator<Item = &(u64, u64)> {
    let one = pages.windows(2).all(|two| two[0].1 == two[1].1);
    spread(pages, if one { 0 } else { MARKS })
}

/// At most `most` of them, evenly.
fn spread<T>(all: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = all.len().min(most);
    (0..count).map(move |i| &all[i * all.len() / count])
}

/// The number of the page at an address; 0 without the right to know.
fn entry_of(pagemap: &File, address: u64, page_size: u64) -> io::Result<Option<u64>> {
    let entry = word(pagemap, address / page_size)?;
    Ok((entry & PRESENT != 0).then_some(entry & PFN))
}

/// The `at`th word of a file of words.
fn word(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at * 8)?;
    Ok(u64::from_ne_bytes(bytes))
}

impl IdlePages {
    fn open() -> io::Result<Self> {
        Ok(Self {
            bitmap: OpenOptions::new().read(true).write(true).open(BITMAP)?,
            flags: File::open(FLAGS)?,
        })
    }

    /// The page that carries the mark of a page; `None` if nothing does.
    fn head_of(&self, pfn: u64) -> io::Result<Option<u64>> {
        if pfn == 0 {
            return Ok(None);
        }
        head_by(pfn, |pfn| word(&self.flags, pfn))
    }

    fn mark(&self, pfn: u64) -> io::Result<()> {
        let bits = 1_u64 << (pfn % 64);
        self.bitmap.write_all_at(&bits.to_ne_bytes(), pfn / 64 * 8)
    }

    fn is_marked(&self, pfn: u64) -> io::Result<bool> {
        Ok(word(&self.bitmap, pfn / 64)? >> (pfn % 64) & 1 == 1)
    }
}

/// The first part of the page that `pfn` is part of, if it can be marked. Pages are aligned to their size, and up
/// to the first part all are parts of the same.
fn head_by(pfn: u64, flags: impl Fn(u64) -> io::Result<u64>) -> io::Result<Option<u64>> {
    let own = flags(pfn)?;
    let markable = |flags: u64, pfn| (flags & KPF_LRU != 0).then_some(pfn);
    if own & KPF_COMPOUND_TAIL == 0 {
        return Ok(markable(own, pfn));
    }
    for order in 1..=MAX_ORDER {
        let first = pfn >> order << order;
        let found = flags(first)?;
        if found & KPF_COMPOUND_HEAD != 0 {
            return Ok(markable(found, first));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_spread() {
        let all: Vec<u32> = (0..10).collect();
        assert_eq!(
            spread(&all, 5).copied().collect::<Vec<_>>(),
            [0, 2, 4, 6, 8]
        );
        assert_eq!(spread(&all, 99).count(), 10);
        assert_eq!(spread(&all[..0], 5).count(), 0);
    }

    #[test]
    fn of_one_area_nothing_is_marked() {
        let pages = |areas: u64, each: u64| -> Vec<(u64, u64)> {
            let area = |area| (0..each).map(move |page| (area * 1000 + page, area));
            (0..areas).flat_map(area).collect()
        };
        let marked = |pages: &[(u64, u64)]| to_mark(pages).count();
        assert_eq!(marked(&pages(1, 200)), 0);
        assert_eq!(marked(&pages(2, 100)), MARKS);
        assert_eq!(marked(&pages(3, 1)), 3);
        assert_eq!(marked(&[]), 0);
    }

    #[test]
    fn the_first_part_of_a_huge_page_carries_the_mark() {
        // A page by itself, one of four parts from 8 on, one that is not on a list.
        let flags = |pfn: u64| {
            Ok(match pfn {
                8 => KPF_COMPOUND_HEAD | KPF_LRU,
                9..=11 => KPF_COMPOUND_TAIL,
                7 => 0,
                _ => KPF_LRU,
            })
        };
        assert_eq!(head_by(6, flags).unwrap(), Some(6));
        assert_eq!(head_by(8, flags).unwrap(), Some(8));
        assert_eq!(head_by(9, flags).unwrap(), Some(8));
        assert_eq!(head_by(11, flags).unwrap(), Some(8));
        assert_eq!(head_by(7, flags).unwrap(), None);
    }

    #[test]
    fn without_a_source_nothing_is_touched() {
        let nothing = Touches::none(4096);
        let mut marks = Vec::new();
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        nothing.mark(&pagemap, &[(4096, 4096)], &mut marks);
        assert!(marks.is_empty() && nothing.touched(&pagemap, &marks).is_empty());
        assert_eq!(nothing.source(), TouchSource::None);
    }

    /// With files in place of the kernel's: what is asked for is where the kernel has it.
    #[test]
    fn a_mark_that_is_gone_is_a_touch() {
        let file = || tempfile::tempfile().unwrap();
        let put = |file: &File, at: u64, word: u64| {
            file.write_all_at(&word.to_ne_bytes(), at * 8).unwrap();
        };
        let (pagemap, bitmap, flags) = (file(), file(), file());
        for (page, pfn) in [(10, 70), (11, 71), (12, 130)] {
            put(&pagemap, page, PRESENT | pfn);
            put(&flags, pfn, KPF_LRU);
        }
        put(&bitmap, 9, 0);
        let touches = Touches {
            idle: Some(IdlePages {
                bitmap: bitmap.try_clone().unwrap(),
                flags,
            }),
            page_size: 4096,
        };
        let mut marks = Vec::new();
        let pages = [(10 * 4096, 1), (11 * 4096, 2), (12 * 4096, 3)];
        touches.mark(&pagemap, &pages, &mut marks);
        assert_eq!(marks.len(), 3);
        // A file keeps the last word only, where the kernel adds to it.
        put(&bitmap, 1, 0b1100_0000);
        assert!(touches.touched(&pagemap, &marks).is_empty());
        put(&bitmap, 1, 0b0100_0000);
        put(&bitmap, 2, 0);
        assert_eq!(touches.touched(&pagemap, &marks), [2, 3]);
        // Another page is there now.
        put(&pagemap, 12, PRESENT | 140);
        assert_eq!(touches.touched(&pagemap, &marks), [2]);
    }
}
