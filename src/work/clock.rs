// SPDX-License-Identifier: GPL-2.0-only
//! Time in nanoseconds, sleeping and spinning.
//!
//! Nothing here allocates, locks or fails: a forked child may use all of it. A `u64` of
//! nanoseconds lasts 584 years, and the workloads' arguments keep sums far below that.

use std::mem::MaybeUninit;
use std::time::Duration;

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_time() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `time` is a timespec to write to. The call cannot fail for a clock that every kernel
    // has; if it did, `time` would still be initialised, as zero bytes are a timespec.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `duration` in nanoseconds, at most what a `u64` holds.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds as milliseconds.
pub fn as_millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Sleeps until [`now`] is at least `time`; signals that are handled do not cut it short.
pub fn sleep_until(time: u64) {
    let until = libc::timespec {
        tv_sec: (time / 1_000_000_000) as libc::time_t,
        tv_nsec: (time % 1_000_000_000) as libc::c_long,
    };
    loop {
        // SAFETY: `until` is a valid timespec; no remaining time is asked for.
        let error = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &until,
                std::ptr::null_mut(),
            )
        };
        if error != libc::EINTR {
            return;
        }
    }
}

/// Sleeps for `nanos`; not at all for 0.
pub fn sleep(nanos: u64) {
    if nanos > 0 {
        sleep_until(now() + nanos);
    }
}

/// Keeps the CPU busy until [`now`] is at least `time`.
pub fn spin_until(time: u64) {
    while now() < time {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_and_spinning_last_as_long_as_asked() {
        let start = now();
        sleep(2_000_000);
        assert!(now() >= start + 2_000_000);
        let busy = thread_cpu_time();
        spin_until(now() + 1_000_000);
        assert!(now() >= start + 3_000_000);
        assert!(thread_cpu_time() > busy);
    }

    #[test]
    fn durations_convert() {
        assert_eq!(nanos(Duration::from_millis(5)), 5_000_000);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
        assert_eq!(as_millis(1_500_000), 1.5);
    }
}
