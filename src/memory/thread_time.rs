// SPDX-License-Identifier: GPL-2.0-only
//! CPU time of the calling thread.

/// A moment in it.
#[derive(Debug, Clone, Copy)]
pub struct ThreadTime(u64);

impl ThreadTime {
    pub fn now() -> Self {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: a struct on the stack. Every kernel has this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Self(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Microseconds since then.
    pub fn elapsed_us(self) -> u32 {
        let us = (Self::now().0 - self.0) / 1000;
        u32::try_from(us).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_counts() {
        let start = ThreadTime::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(start.elapsed_us() < 15_000);
        while start.elapsed_us() < 20_000 {
            std::hint::spin_loop();
        }
    }
}
