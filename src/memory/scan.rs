// SPDX-License-Identifier: GPL-2.0-only
//! Which pages of an area are there: PAGEMAP_SCAN, which skips holes whole tables at a time.
//!
//! The kernel has it since 6.7, so wherever there is sched_ext. No privileges beyond those for pagemap.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PAGE_IS_HUGE: u64 = 1 << 6;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Arguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// _IOWR('f', 16, struct pm_scan_arg)
const PAGEMAP_SCAN: u64 = 3 << 30 | (size_of::<Arguments>() as u64) << 16 | (b'f' as u64) << 8 | 16;

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    categories: u64,
}

impl Region {
    #[cfg(test)]
    pub fn new(start: u64, end: u64, huge: bool) -> Self {
        Self {
            start,
            end,
            categories: u64::from(huge) * PAGE_IS_HUGE,
        }
    }

    /// Of huge pages.
    pub fn is_huge(&self) -> bool {
        self.categories & PAGE_IS_HUGE != 0
    }
}

/// Pages that are there, of a range.
#[derive(Debug, Default)]
pub struct Found {
    pub regions: Vec<Region>,
    /// The range was gone through up to here.
    pub up_to: u64,
}

/// Regions of one call: memory with holes is many of them.
const REGIONS: usize = 256;

/// At most `most` private pages from `start` to `end` that are there.
///
/// # Errors
/// The kernel does not have it, or the process is gone.
pub fn present(pagemap: &File, start: u64, end: u64, most: u64) -> io::Result<Found> {
    let mut regions = vec![Region::default(); REGIONS];
    let mut arguments = Arguments {
        size: size_of::<Arguments>() as u64,
        start,
        end,
        vec: regions.as_mut_ptr() as u64,
        vec_len: REGIONS as u64,
        max_pages: most,
        category_inverted: PAGE_IS_PFNZERO | PAGE_IS_FILE,
        category_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO | PAGE_IS_FILE,
        return_mask: PAGE_IS_PRESENT | PAGE_IS_HUGE,
        ..Arguments::default()
    };
    // SAFETY: the kernel writes to `arguments` and to at most `vec_len` regions at `vec`; both outlive the call.
    let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &mut arguments) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    regions.truncate(count);
    Ok(Found {
        regions,
        // It always goes on: a kernel that says nothing else has seen all.
        up_to: match arguments.walk_end {
            up_to if up_to > start => up_to,
            _ => end,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pages::page_size;

    #[test]
    fn pages_that_were_touched_are_found() {
        let size = page_size();
        let length = 64 << 20;
        let (flags, protection) = (
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            libc::PROT_READ | libc::PROT_WRITE,
        );
        // SAFETY: new memory, given back below; only touched inside.
        let start = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            libc::madvise(start, length, libc::MADV_NOHUGEPAGE);
            for page in [3, 4, 9000] {
                start.cast::<u8>().add(page * size).write_volatile(1);
            }
            // Reading finds the page of zeroes, which is nobody's.
            start.cast::<u8>().add(7 * size).read_volatile();
            start as u64
        };
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let page = |n: u64| start + n * size as u64;
        let all = present(&pagemap, start, start + length as u64, 100);
        match all {
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOTTY), "{error}"),
            Ok(found) => {
                let ranges = found
                    .regions
                    .iter()
                    .map(|region| (region.start, region.end));
                let expected = [(page(3), page(5)), (page(9000), page(9001))];
                assert_eq!(ranges.collect::<Vec<_>>(), expected);
                assert_eq!(found.up_to, start + length as u64);
                assert!(!found.regions[0].is_huge());
                let one = present(&pagemap, start, start + length as u64, 1).unwrap();
                assert_eq!(one.regions.len(), 1);
                assert_eq!(one.up_to, page(4));
            }
        }
        // SAFETY: from above, and nothing refers to it.
        unsafe { libc::munmap(start as *mut _, length) };
    }
}
