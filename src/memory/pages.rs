// SPDX-License-Identifier: GPL-2.0-only
//! On which nodes pages of memory are, and pages brought to another one: move_pages(2), of any process.
//!
//! Without target nodes it moves nothing. For memory of one's own it needs no privileges, for that of others
//! the right to trace them. A page is any page of the system's base size, so a huge page counts as many as it
//! is made of. Addresses are numbers here: they are given to the kernel, and never followed.
//!
//! Pages are sampled one from each of many parts of equal size, and where in its part is random: every
//! n-th page would always be on the same node when memory is interleaved over n nodes.

use std::io;

use fastrand::Rng;
use libc::{c_int, c_long, c_ulong, c_void, pid_t};

/// The process that asks.
pub const OWN: pid_t = 0;

/// Move only what no other process has mapped.
const MPOL_MF_MOVE: c_int = 1 << 1;

/// Size of a page that addresses are sampled in.
pub fn page_size() -> usize {
    // SAFETY: a plain number. Every system has pages; 4096 is for one that does not tell.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// The numbers of at most `limit` of `pages` pages, at least one of any: all of them, or an even sample.
pub fn sample(pages: usize, limit: usize, rng: &mut Rng) -> Vec<usize> {
    let parts = limit.max(1).min(pages);
    let start = |part: usize| (part as u128 * pages as u128 / parts as u128) as usize;
    (0..parts)
        .map(|part| rng.usize(start(part)..start(part + 1)))
        .collect()
}

/// Asks where pages are now. `status` gets a node, or a negative error of that page: it was never touched,
/// is swapped out, or in between.
///
/// # Errors
/// The kernel has no NUMA support (ENOSYS), a sandbox refuses the question, the process is gone (ESRCH) or
/// has no memory (EINVAL), or it is not for us to look at (EPERM).
pub fn ask(pid: pid_t, addresses: &[usize], status: &mut [c_int]) -> io::Result<()> {
    move_pages(pid, addresses, None, status).map(drop)
}

/// Brings pages to nodes, as far as the kernel does it; whether it did so with all that it took on. Then a node in `status`
/// is where the page is now, and an error that of taking it on, which another page of the same large one may have
/// done. Otherwise `status` says nothing.
///
/// # Errors
/// As [`ask`], or that process may not have memory on such a node (EACCES).
pub fn bring(
    pid: pid_t,
    addresses: &[usize],
    nodes: &[c_int],
    status: &mut [c_int],
) -> io::Result<bool> {
    assert_eq!(addresses.len(), nodes.len());
    Ok(move_pages(pid, addresses, Some(nodes), status)? == 0)
}

fn move_pages(
    pid: pid_t,
    addresses: &[usize],
    nodes: Option<&[c_int]>,
    status: &mut [c_int],
) -> io::Result<c_long> {
    assert_eq!(addresses.len(), status.len());
    let nodes = nodes.map_or(std::ptr::null(), |nodes| nodes.as_ptr());
    // SAFETY: all of them have the same length, or there are no nodes; the kernel only writes to `status`, and
    // takes addresses as numbers. The contents of memory stay the same when it moves.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            addresses.len() as c_ulong,
            addresses.as_ptr().cast::<*const c_void>(),
            nodes,
            status.as_mut_ptr(),
            if nodes.is_null() { 0 } else { MPOL_MF_MOVE },
        )
    };
    // A positive number is of pages that stayed.
    match result {
        -1 => Err(io::Error::last_os_error()),
        stayed => Ok(stayed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_even_and_without_rhythm() {
        let mut rng = Rng::with_seed(1);
        assert_eq!(sample(5, 5, &mut rng), [0, 1, 2, 3, 4]);
        assert_eq!(sample(5, 100, &mut rng), [0, 1, 2, 3, 4]);
        assert!(sample(0, 100, &mut rng).is_empty());
        assert_eq!(sample(100, 0, &mut rng).len(), 1);
        let pages = sample(1 << 20, 1024, &mut rng);
        for (part, page) in pages.iter().enumerate() {
            assert_eq!(page / 1024, part);
        }
        let odd = pages.iter().filter(|page| *page % 2 == 1).count();
        assert!((400..624).contains(&odd), "{odd}");
    }

    #[test]
    fn a_process_that_is_not_there_has_no_pages() {
        let error = ask(i32::MAX, &[4096], &mut [0]).unwrap_err();
        let expected = [libc::ESRCH, libc::ENOSYS, libc::EPERM];
        assert!(expected.contains(&error.raw_os_error().unwrap()), "{error}");
    }
}
