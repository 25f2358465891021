// SPDX-License-Identifier: GPL-2.0-only
//! Memory of which every cache line is read and written, by one thread or several at once.
//!
//! Pages are not there before a thread touches them, so who touches first decides, with the process's
//! memory policy, on which node they are. Lines are taken as 64 bytes: where they are longer, they are
//! touched more than once.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;

use crate::memory::pages::page_size;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Words of a cache line.
const LINE_WORDS: usize = LINE / size_of::<u64>();

/// What is asked of the kernel about huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HugePages {
    /// As the machine is set.
    Default,
    /// Huge pages where they are possible.
    Advise,
    /// Small pages only.
    Avoid,
}

/// Who sees what is written to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// This process alone.
    Process,
    /// The processes that it forks later, too.
    Children,
}

/// Memory of this process, or of it and its children.
pub struct Arena {
    words: NonNull<AtomicU64>,
    len: usize,
    /// Words of a page.
    page: usize,
}

// SAFETY: it owns its memory, which stays in place, and hands out shared references to atomics only.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Memory of so many MiB, at least one, none of it touched yet.
    pub fn new(mib: u32, huge_pages: HugePages, reach: Reach) -> io::Result<Arena> {
        let bytes = mib.max(1) as usize * (1 << 20);
        let flags = match reach {
            Reach::Process => libc::MAP_PRIVATE,
            Reach::Children => libc::MAP_SHARED,
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let arena = Arena {
            words,
            len: bytes / size_of::<AtomicU64>(),
            page: page_size() / size_of::<AtomicU64>(),
        };
        arena.advise(huge_pages)?;
        Ok(arena)
    }

    fn advise(&self, huge_pages: HugePages) -> io::Result<()> {
        let advice = match huge_pages {
            HugePages::Default => return Ok(()),
            HugePages::Advise => libc::MADV_HUGEPAGE,
            HugePages::Avoid => libc::MADV_NOHUGEPAGE,
        };
        // SAFETY: the range is the mapping of `self`; neither advice changes what it holds.
        let result = unsafe { libc::madvise(self.words.as_ptr().cast(), self.bytes(), advice) };
        match (result, huge_pages) {
            // A kernel without huge pages avoids them anyway.
            (0, _) | (_, HugePages::Avoid) => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `len` words, page-aligned, valid whatever their bytes, and lives as
        // long as `self`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }

    pub fn start(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }

    pub fn bytes(&self) -> usize {
        self.len * size_of::<AtomicU64>()
    }

    /// How many pages it has.
    pub fn pages(&self) -> usize {
        self.len / self.page
    }

    /// Reads and writes every line of a page; a page that it has not leaves nothing to do.
    pub fn work_on(&self, page: usize) {
        let page = self.words().chunks_exact(self.page).nth(page);
        for line in page.unwrap_or_default().chunks_exact(LINE_WORDS) {
            // Not one indivisible step: other threads may write the same line, and what it holds in the
            // end does not matter.
            let value = line[0].load(Ordering::Relaxed);
            line[0].store(value.wrapping_mul(3).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Writes one word of each of the pages.
    pub fn touch(&self, pages: Range<usize>) {
        let all = self.words().chunks_exact(self.page);
        for page in all.skip(pages.start).take(pages.len()) {
            page[0].store(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no reference outlives `self`.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.bytes()) };
    }
}

/// The pages of part `part` of `parts` equal ones (up to one page).
pub fn part_of(pages: usize, part: usize, parts: usize) -> Range<usize> {
    let start = |part: usize| (part as u128 * pages as u128 / parts.max(1) as u128) as usize;
    start(part)..start(part + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_page_is_written() {
        let arena = Arena::new(1, HugePages::Avoid, Reach::Process).unwrap();
        assert_eq!(arena.pages() * page_size(), 1 << 20);
        arena.work_on(1);
        arena.work_on(arena.pages());
        let written = |word: &&AtomicU64| word.load(Ordering::Relaxed) != 0;
        assert_eq!(
            arena.words().iter().filter(written).count(),
            page_size() / LINE
        );
        assert!(!written(&&arena.words()[0]));
        assert!(written(&&arena.words()[page_size() / 8]));
    }

    #[test]
    fn touching_is_one_word_of_each_page() {
        let arena = Arena::new(1, HugePages::Default, Reach::Children).unwrap();
        arena.touch(3..5);
        let written = |word: &&AtomicU64| word.load(Ordering::Relaxed) != 0;
        assert_eq!(arena.words().iter().filter(written).count(), 2);
        assert!(written(&&arena.words()[4 * page_size() / 8]));
    }

    #[test]
    fn parts_cover_everything_once() {
        for (pages, parts) in [(10, 3), (2, 5), (0, 2), (256, 1)] {
            let all = (0..parts).flat_map(|part| part_of(pages, part, parts));
            assert!(all.eq(0..pages), "{pages} {parts}");
        }
    }
}
