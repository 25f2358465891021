// SPDX-License-Identifier: GPL-2.0-only
//! Memory that a workload shares with the tasks that it starts, processes included.

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use anyhow::{Context, Result};

/// A type that can live in memory shared between processes.
///
/// # Safety
/// Bytes that are all zero are a valid value; all that changes is atomic; it has no pointers into
/// a process, no `Drop`, and an alignment of at most a page (4096).
pub unsafe trait Shareable: Sync {}

/// Values in anonymous shared memory, all of them zero bytes at first. Children that are forked
/// later see the same values. The pages are there from the start, so that no task pays for them.
pub struct Shared<T: Shareable> {
    values: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its memory, which stays in place, and hands out shared references only; a
// `Shareable` is `Sync`.
unsafe impl<T: Shareable> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for Shared<T> {}

impl<T: Shareable> Shared<T> {
    /// `len` values, at least 1 of them.
    pub fn new(len: usize) -> Result<Arc<Shared<T>>> {
        let len = len.max(1);
        let bytes = size_of::<T>().checked_mul(len);
        let bytes = bytes.context("too much shared memory asked for")?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error())
                .with_context(|| format!("cannot map {bytes} bytes of shared memory"));
        }
        let values = NonNull::new(memory.cast()).context("shared memory at address 0")?;
        Ok(Arc::new(Shared { values, len }))
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
        // SAFETY: the mapping was made by `new` with this length, and no reference outlives `self`.
        unsafe { libc::munmap(self.values.as_ptr().cast(), size_of::<T>() * self.len) };
    }
}
