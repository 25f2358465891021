// SPDX-License-Identifier: GPL-2.0-only
//! A BPF array in this process' memory.
//!
//! BPF writes the same pages while we read them, so every access is a volatile copy of a whole
//! field or element: never a reference, which Rust may assume not to change.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// Plain data as the C side lays it out: any bit pattern is a value of it.
///
/// # Safety
/// Only for integers and `repr(C)` structs of them.
pub unsafe trait Shared: Copy {}

// SAFETY: bound from src/bpf/intf.h; all of them are repr(C) and made of integers.
unsafe impl Shared for super::intf::task_slot {}
// SAFETY: as above.
unsafe impl Shared for super::intf::llc_counters {}
// SAFETY: as above.
unsafe impl Shared for super::intf::cpu_ctx {}
// SAFETY: as above.
unsafe impl Shared for super::intf::fork_limits {}
// SAFETY: as above.
unsafe impl Shared for super::intf::touch_ring {}

// SAFETY: an integer.
unsafe impl Shared for u64 {}

/// A mapped array of `len` elements.
pub struct MappedArray<T: Shared> {
    base: NonNull<T>,
    len: usize,
    bytes: usize,
    _owns: PhantomData<T>,
}

// SAFETY: the mapping belongs to no thread, and all access is volatile.
unsafe impl<T: Shared> Send for MappedArray<T> {}

impl<T: Shared> MappedArray<T> {
    /// Map the array behind `map`, which must be mmapable and hold `len` elements of `T`.
    pub fn new(map: &impl AsFd, len: usize) -> io::Result<Self> {
        // The kernel rounds elements up to 8 bytes; ours are multiples of it.
        const { assert!(size_of::<T>().is_multiple_of(8)) };
        let bytes = len * size_of::<T>();
        // SAFETY: a new shared mapping of a file descriptor that we hold; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Self {
            base,
            len,
            bytes,
            _owns: PhantomData,
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Element `i` where it lies, for access to a single field; `None` beyond the end.
    pub fn at(&self, i: usize) -> Option<NonNull<T>> {
        // SAFETY: i is inside the mapping.
        (i < self.len).then(|| unsafe { self.base.add(i) })
    }

    /// A copy of element `i`. Its fields may be from different moments.
    pub fn get(&self, i: usize) -> Option<T> {
        // SAFETY: inside the mapping, aligned, and any bit pattern is a T.
        self.at(i).map(|p| unsafe { p.as_ptr().read_volatile() })
    }

    pub fn set(&self, i: usize, value: T) {
        if let Some(p) = self.at(i) {
            // SAFETY: inside the mapping and aligned.
            unsafe { p.as_ptr().write_volatile(value) }
        }
    }
}

impl<T: Shared> Drop for MappedArray<T> {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing refers to any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
