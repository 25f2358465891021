// SPDX-License-Identifier: GPL-2.0-only
//! Waiting for each other through a word of shared memory, across processes and threads alike.
//!
//! Nothing here allocates: a forked child may use all of it.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::clock;
use super::shared::Shareable;

/// Sleeps until woken, unless `word` is not `value` any more. May return for no reason.
fn wait(word: &AtomicU32, value: u32) -> io::Result<()> {
    // SAFETY: `word` is an aligned u32 that outlives the call; no time-out is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            std::ptr::null::<libc::timespec>(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // The value changed in the meantime, or a signal came.
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(()),
        error => Err(error),
    }
}

/// Wakes at most `tasks` of those that wait on `word`.
fn wake(word: &AtomicU32, tasks: i32) -> io::Result<()> {
    // SAFETY: `word` is an aligned u32; the kernel only takes its address.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, tasks) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// One message at a time from one task to another; on a cache line of its own.
#[repr(align(64))]
pub struct Mailbox {
    full: AtomicU32,
}

// SAFETY: one atomic word, empty when it is zero.
unsafe impl Shareable for Mailbox {}

impl Mailbox {
    /// Puts a message in and wakes the receiver.
    pub fn put(&self) -> io::Result<()> {
        self.full.store(1, Ordering::Release);
        wake(&self.full, 1)
    }

    /// Takes the message out, and sleeps until there is one.
    pub fn take(&self) -> io::Result<()> {
        while self.full.swap(0, Ordering::Acquire) == 0 {
            wait(&self.full, 0)?;
        }
        Ok(())
    }
}

/// Where tasks gather before they start together.
#[repr(align(64))]
pub struct Gate {
    open: AtomicU32,
    arrived: AtomicU32,
    opened_at: AtomicU64,
}

// SAFETY: three atomic words, closed and empty when they are zero.
unsafe impl Shareable for Gate {}

impl Gate {
    /// Arrives, sleeps until the gate is open, and tells when it was opened ([`clock::now`]).
    pub fn pass(&self) -> io::Result<u64> {
        self.arrived.fetch_add(1, Ordering::Release);
        while self.open.load(Ordering::Acquire) == 0 {
            wait(&self.open, 0)?;
        }
        Ok(self.opened_at.load(Ordering::Relaxed))
    }

    /// When it was opened; `None` while it is closed.
    pub fn opened(&self) -> Option<u64> {
        let open = self.open.load(Ordering::Acquire) != 0;
        open.then(|| self.opened_at.load(Ordering::Relaxed))
    }

    /// How many tasks have arrived.
    pub fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Acquire) as usize
    }

    /// Opens the gate for good, and tells when.
    pub fn open(&self) -> io::Result<u64> {
        let now = clock::now();
        self.opened_at.store(now, Ordering::Relaxed);
        self.open.store(1, Ordering::Release);
        wake(&self.open, i32::MAX)?;
        Ok(now)
    }
}

/// Where a fixed number of tasks wait for each other, again and again.
#[repr(align(64))]
pub struct Barrier {
    arrived: AtomicU32,
    /// How often all of them were there.
    round: AtomicU32,
}

// SAFETY: two atomic words, nobody there when they are zero.
unsafe impl Shareable for Barrier {}

impl Barrier {
    /// Arrives, and sleeps until all `tasks` have.
    pub fn wait(&self, tasks: u32) -> io::Result<()> {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == tasks {
            // Before the others are let go: they may arrive again at once.
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return wake(&self.round, i32::MAX);
        }
        while self.round.load(Ordering::Acquire) == round {
            wait(&self.round, round)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::Shared;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn nobody_passes_a_barrier_before_the_last_has_come() {
        const TASKS: u32 = 3;
        let barrier = Shared::<Barrier>::new(1).unwrap();
        let count = Arc::new(AtomicU32::new(0));
        let task = || {
            let (barrier, count) = (Arc::clone(&barrier), Arc::clone(&count));
            std::thread::spawn(move || {
                for round in 1..=200 {
                    count.fetch_add(1, Ordering::SeqCst);
                    barrier[0].wait(TASKS).unwrap();
                    assert!(count.load(Ordering::SeqCst) >= round * TASKS);
                    barrier[0].wait(TASKS).unwrap();
                }
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(|_| task()).collect();
        for task in tasks {
            task.join().unwrap();
        }
        assert_eq!(count.load(Ordering::SeqCst), 200 * TASKS);
    }
}
