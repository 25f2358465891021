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

/// CPU time of another thread of this process, by the kernel's id of it; `None` once it has ended.
pub fn cpu_time_of(thread: libc::pid_t) -> Option<u64> {
    // How the kernel numbers these clocks (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED); libc has a name
    // for it that takes a pthread_t, which must not have ended.
    try_read((!thread << 3) | 6)
}

fn read(clock: libc::clockid_t) -> u64 {
    // No kernel lacks the clocks that are asked for here.
    try_read(clock).unwrap_or(0)
}

fn try_read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `time` is a timespec to write to, and valid as zero bytes.
    let (result, time) = unsafe {
        let result = libc::clock_gettime(clock, time.as_mut_ptr());
        (result, time.assume_init())
    };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Whose system time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All threads of this process, those that have ended included.
    Process,
    /// The calling thread.
    Thread,
}

/// Nanoseconds that the kernel has worked for a process or thread, as it tells two apart: on most
/// kernels by what a CPU was at when its tick came, which takes many ticks to be right.
pub fn system_time(whose: Whose) -> u64 {
    let who = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Thread => libc::RUSAGE_THREAD,
    };
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is an rusage to write to, and valid as zero bytes; both kinds are known to every
    // kernel.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_stime.tv_sec as u64 * 1_000_000_000 + usage.ru_stime.tv_usec as u64 * 1000
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
    fn other_threads_have_cpu_time_while_they_live() {
        // SAFETY: takes no arguments.
        let own = unsafe { libc::gettid() };
        let before = thread_cpu_time();
        let told = cpu_time_of(own).unwrap();
        assert!(before <= told && told <= thread_cpu_time());
        // SAFETY: as above.
        let gone = std::thread::spawn(|| unsafe { libc::gettid() });
        let gone = gone.join().unwrap();
        let end = now() + 10_000_000_000;
        while cpu_time_of(gone).is_some() {
            assert!(now() < end, "it has not ended");
        }
    }

    #[test]
    fn system_time_grows_with_system_calls() {
        let (process, thread) = (system_time(Whose::Process), system_time(Whose::Thread));
        let end = now() + 10_000_000_000;
        while system_time(Whose::Thread) == thread {
            assert!(now() < end, "there is none");
            sleep(1000);
        }
        assert!(system_time(Whose::Process) > process);
    }

    #[test]
    fn durations_convert() {
        assert_eq!(nanos(Duration::from_millis(5)), 5_000_000);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
        assert_eq!(as_millis(1_500_000), 1.5);
    }
}
