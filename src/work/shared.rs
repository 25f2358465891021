// SPDX-License-Identifier: GPL-2.0-only
//! Memory that a workload shares with the tasks that it starts, processes included.
//!
//! Forked children inherit the mapping. What a child execs has lost it, and gets it back from a file
//! descriptor ([`Shared::passable`], [`Shared::received`]). Such a file cannot change its size, so no
//! access to the mapping can fail later, whatever number a user passes as descriptor.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use anyhow::{Context, Result};

/// A type that can live in memory shared between processes.
///
/// # Safety
/// Bytes that are all zero are a valid value; all that changes is atomic; it has no pointers into
/// a process, no `Drop`, and an alignment of at most a page (4096).
pub unsafe trait Shareable: Sync {}

// SAFETY: atomics of one word.
unsafe impl Shareable for AtomicU16 {}

/// Name of the files, to be seen in /proc/PID/maps.
const NAME: &CStr = c"scx_ballast-work";
/// What keeps a file's size as it is.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Values in shared memory, all of them zero bytes at first. Children that are forked later see the
/// same values. The pages are there from the start, so that no task pays for them.
pub struct Shared<T: Shareable> {
    values: NonNull<T>,
    len: usize,
    /// The file behind it, if it can be passed on.
    file: Option<OwnedFd>,
}

// SAFETY: it owns its memory, which stays in place, and hands out shared references only; a
// `Shareable` is `Sync`.
unsafe impl<T: Shareable> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for Shared<T> {}

impl<T: Shareable> Shared<T> {
    /// `len` values, at least 1 of them.
    pub fn new(len: usize) -> Result<Arc<Shared<T>>> {
        let bytes = Self::bytes(len).context("too much shared memory asked for")?;
        let values = Self::map(bytes, libc::MAP_ANONYMOUS, -1)
            .with_context(|| format!("cannot map {bytes} bytes of shared memory"))?;
        Ok(Arc::new(Shared {
            values,
            len: len.max(1),
            file: None,
        }))
    }

    /// The same, for children that exec.
    pub fn passable(len: usize) -> Result<Arc<Shared<T>>> {
        let bytes = Self::bytes(len).context("too much shared memory asked for")?;
        let make = || -> io::Result<Shared<T>> {
            let file = sealed_file(bytes)?;
            Ok(Shared {
                values: Self::map(bytes, 0, file.as_raw_fd())?,
                len: len.max(1),
                file: Some(file),
            })
        };
        let shared = make().with_context(|| format!("cannot share {bytes} bytes of memory"))?;
        Ok(Arc::new(shared))
    }

    /// The number of the descriptor that [`Shared::received`] takes, in a child too.
    pub fn fd(&self) -> Option<RawFd> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Leaves the descriptor open when the calling process execs. A forked child may call it.
    pub fn keep_over_exec(&self) -> io::Result<()> {
        let fd = self.fd().ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: plain numbers.
        check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }).map(drop)
    }

    /// What another process made with [`Shared::passable`] and this `len`, from its descriptor. The
    /// descriptor itself is left alone.
    ///
    /// # Errors
    /// It is something else (EINVAL), or nothing.
    pub fn received(fd: RawFd, len: usize) -> io::Result<Shared<T>> {
        let bytes = Self::bytes(len).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: plain numbers. Other files than memory files have no seals.
        let seals = check(unsafe { libc::fcntl(fd, libc::F_GET_SEALS) })?;
        let mut stat = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: `stat` is a stat to write to, and valid as zero bytes.
        let stat = unsafe {
            check(libc::fstat(fd, stat.as_mut_ptr()))?;
            stat.assume_init()
        };
        if seals & SEALS != SEALS || usize::try_from(stat.st_size) != Ok(bytes) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(Shared {
            values: Self::map(bytes, 0, fd)?,
            len: len.max(1),
            file: None,
        })
    }

    fn bytes(len: usize) -> Option<usize> {
        let bytes = size_of::<T>().checked_mul(len.max(1))?;
        isize::try_from(bytes).is_ok().then_some(bytes)
    }

    /// A new mapping of `bytes` bytes of `fd`, or of anonymous memory.
    fn map(bytes: usize, flags: libc::c_int, fd: RawFd) -> io::Result<NonNull<T>> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE | flags,
                fd,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("memory at address 0"))
    }
}

/// A file in memory of `bytes` zero bytes, for good. It is closed on exec.
fn sealed_file(bytes: usize) -> io::Result<OwnedFd> {
    let size = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    let make = |flags| -> io::Result<OwnedFd> {
        // SAFETY: the name is a string; the descriptor is new and has no other owner.
        unsafe {
            let fd = libc::memfd_create(NAME.as_ptr(), flags);
            Ok(OwnedFd::from_raw_fd(check(fd)?))
        }
    };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let file = match make(flags | libc::MFD_NOEXEC_SEAL) {
        // Kernels before 6.3 do not know it; some later ones make no file without it.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => make(flags)?,
        file => file?,
    };
    // SAFETY: plain numbers.
    unsafe {
        check(libc::ftruncate(file.as_raw_fd(), size))?;
        check(libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS))?;
    }
    Ok(file)
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

impl<T: Shareable> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `len` values, page-aligned, valid as zero bytes by the contract
        // of `Shareable`, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr(), self.len) }
    }
}

impl<T: Shareable> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and no reference outlives `self`.
        unsafe { libc::munmap(self.values.as_ptr().cast(), size_of::<T>() * self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_is_received_is_what_was_passed() {
        let made = Shared::<AtomicU16>::passable(3000).unwrap();
        let fd = made.fd().unwrap();
        let received = Shared::<AtomicU16>::received(fd, 3000).unwrap();
        assert!(received.iter().all(|n| n.load(Ordering::Relaxed) == 0));
        made[2999].store(7, Ordering::Relaxed);
        assert_eq!(received[2999].load(Ordering::Relaxed), 7);
        made.keep_over_exec().unwrap();
    }

    #[test]
    fn nothing_else_is_received() {
        let made = Shared::<AtomicU16>::passable(3000).unwrap();
        let fd = made.fd().unwrap();
        let file = tempfile::tempfile().unwrap();
        let bad = |fd, len| Shared::<AtomicU16>::received(fd, len).is_err();
        assert!(bad(fd, 3001) && bad(fd, 1) && bad(fd, usize::MAX));
        assert!(bad(-1, 1) && bad(file.as_raw_fd(), 1));
        let anonymous = Shared::<AtomicU16>::new(1).unwrap();
        assert!(anonymous.fd().is_none() && anonymous.keep_over_exec().is_err());
    }
}
