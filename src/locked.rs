// SPDX-License-Identifier: GPL-2.0-only
//! The daemon's memory stays in memory: under pressure it must not wait for a page, least of all for
//! the code that ends the scheduler.
//!
//! What was touched is locked, and what will be touched as soon as it is. Only as much as that: the maps
//! of BPF are mapped for their largest size. Code and constants are touched right now, all of them:
//! what has not run yet would come from a file whose pages the kernel is free to drop.

use std::io;

use log::{debug, warn};

/// Lock what this process has now and will have. A failure is a warning and changes nothing.
pub fn lock_memory() {
    // SAFETY: flags only; a failure leaves everything as it was.
    let done = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    if done != 0 {
        let err = io::Error::last_os_error();
        warn!("cannot lock memory ({err}): the daemon may stall under memory pressure");
        return;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, length) in maps.lines().filter_map(code_or_constants) {
        // SAFETY: reads pages of our own mappings in; it changes none and a wrong range is an error.
        let done = unsafe { libc::madvise(start as *mut _, length, libc::MADV_POPULATE_READ) };
        if done != 0 {
            debug!("reading our own code in: {}", io::Error::last_os_error());
        }
    }
}

/// Lock what this process has now, touched or not: all of it is in memory when this returns. For a program whose memory
/// is locked again while others wait for it: little is left to do then. A failure changes nothing; that lock tells of it.
pub fn lock_present() {
    // SAFETY: flags only; a failure leaves everything as it was.
    if unsafe { libc::mlockall(libc::MCL_CURRENT) } != 0 {
        debug!(
            "cannot lock memory before the scheduler is loaded: {}",
            io::Error::last_os_error()
        );
    }
}

/// Start and length of a mapping of a file that nobody here writes to, by its line in `maps`.
fn code_or_constants(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, flags) = (fields.next()?, fields.next()?);
    let of_a_file = fields.nth(3)?.starts_with('/');
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    (flags.starts_with("r-") && flags.ends_with('p') && of_a_file)
        .then(|| (start, end.saturating_sub(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_constants_are_told_from_the_rest() {
        let line = |flags| format!("55d0a000-55d0c000 {flags} 00001000 fe:00 42   /usr/bin/x y");
        assert_eq!(
            code_or_constants(&line("r-xp")),
            Some((0x55d0_a000, 0x2000))
        );
        assert_eq!(
            code_or_constants(&line("r--p")),
            Some((0x55d0_a000, 0x2000))
        );
        assert_eq!(code_or_constants(&line("rw-p")), None);
        assert_eq!(code_or_constants(&line("---p")), None);
        assert_eq!(code_or_constants(&line("r--s")), None);
        let stack = "7ffd1000-7ffd2000 r-xp 00000000 00:00 0                  [vdso]";
        assert_eq!(code_or_constants(stack), None);
        assert_eq!(code_or_constants("7ffd1000-7ffd2000 r--p 0 00:00 0"), None);
        assert_eq!(code_or_constants("nonsense"), None);
    }

    #[test]
    fn our_own_code_is_found() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let here = our_own_code_is_found as *const () as usize;
        let mut found = maps.lines().filter_map(code_or_constants);
        assert!(found.any(|(start, length)| (start..start + length).contains(&here)));
    }
}
