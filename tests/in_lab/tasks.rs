// SPDX-License-Identifier: GPL-2.0-only
//! Tasks with known habits, forked by the driver; none outlives its handle.

use std::hint::spin_loop;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::guest::{self, read};

/// The policy of tasks that ask for sched_ext; libc does not know it yet.
pub const SCHED_EXT: i32 = 7;

/// A child of the driver; killed when dropped.
pub struct Task {
    pid: i32,
    ended: bool,
}

/// What sets where a thread may run.
pub fn confine(pid: i32, cpus: impl IntoIterator<Item = u32>) -> io::Result<()> {
    // SAFETY: all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus {
        // SAFETY: below CPU_SETSIZE on every lab machine; the macro's function checks it.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: a set on the stack and its size.
    match unsafe { libc::sched_setaffinity(pid, size_of_val(&set), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Let `threads` run everywhere. Not with the daemon stopped: woken up again its threads run on
/// emulated CPUs that the host has forgotten, which looks like a load.
#[track_caller]
pub fn release(threads: impl IntoIterator<Item = i32>) {
    for pid in threads {
        confine(pid, guest::online()).unwrap();
    }
}

/// Change the scheduling class of a task; real-time ones get the lowest priority.
pub fn set_policy(pid: i32, policy: i32) -> io::Result<()> {
    let class = policy & !libc::SCHED_RESET_ON_FORK;
    let real_time = class == libc::SCHED_FIFO || class == libc::SCHED_RR;
    let param = libc::sched_param {
        sched_priority: i32::from(real_time),
    };
    // SAFETY: a struct on the stack.
    match unsafe { libc::sched_setscheduler(pid, policy, &param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// While this lives, the kernel's threads are real-time tasks, hence not counted: one that runs for a
/// moment rightly shifts other tasks.
///
/// Threads that are real-time tasks anyway keep out of this. sched_ext's own helper is one: made an
/// ordinary task, it is scheduled by the very scheduler that it is about to unload, and from then on
/// the kernel takes nothing from that scheduler's queues, so that it may wait there for ever.
pub struct Quiet(Vec<i32>);

impl Quiet {
    pub fn machine() -> Self {
        let mut threads = guest::kernel_threads();
        threads.retain(|pid| {
            // SAFETY: no memory is involved.
            let policy = unsafe { libc::sched_getscheduler(*pid) };
            policy == libc::SCHED_OTHER && set_policy(*pid, libc::SCHED_FIFO).is_ok()
        });
        Self(threads)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = set_policy(*pid, libc::SCHED_OTHER);
        }
    }
}

/// Memory that forked tasks share with the driver.
pub struct Shared<T>(std::marker::PhantomData<T>);

impl<T: Default> Shared<T> {
    /// A new `T` for the rest of the driver's life.
    pub fn leak() -> &'static T {
        let (read_write, shared) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new memory, page-aligned, large enough, never given back.
        unsafe {
            let size = size_of::<T>();
            let at = libc::mmap(std::ptr::null_mut(), size, read_write, shared, -1, 0);
            assert_ne!(at, libc::MAP_FAILED, "{}", io::Error::last_os_error());
            at.cast::<T>().write(T::default());
            &*at.cast()
        }
    }
}

/// The CPU that the calling thread runs on.
pub fn current_cpu() -> u32 {
    // SAFETY: takes nothing.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap()
}

/// CPU time of the calling thread.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a struct on the stack.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Compute until killed.
pub fn spin() -> ! {
    loop {
        spin_loop();
    }
}

impl Task {
    /// Fork a task that does `life` and ends. The driver has one thread, so the child may do
    /// anything.
    pub fn fork(life: impl FnOnce()) -> Self {
        // SAFETY: a process with a single thread.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", io::Error::last_os_error()),
            0 => {
                // SAFETY: plain numbers; the child ends with the driver.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let done = catch_unwind(AssertUnwindSafe(life));
                // SAFETY: ends the child without running anything of the driver.
                unsafe { libc::_exit(if done.is_ok() { 0 } else { 101 }) }
            }
            pid => Self { pid, ended: false },
        }
    }

    /// A task that computes on some of `cpus`, all the time.
    pub fn hog(cpus: impl IntoIterator<Item = u32>) -> Self {
        Self::fork(|| {
            confine(0, cpus).unwrap();
            spin()
        })
    }

    /// A hog without limits on where.
    pub fn free_hog() -> Self {
        Self::fork(|| spin())
    }

    /// A task that sleeps for `period`, hardly does anything, and sleeps again.
    pub fn sleeper(period: Duration) -> Self {
        Self::fork(move || {
            loop {
                std::thread::sleep(period);
            }
        })
    }

    /// A task that computes for `work` and sleeps for `pause`, again and again.
    pub fn periodic(work: Duration, pause: Duration) -> Self {
        Self::fork(move || {
            loop {
                let began = std::time::Instant::now();
                while began.elapsed() < work {}
                std::thread::sleep(pause);
            }
        })
    }

    /// A program of any kind, its output thrown away.
    pub fn exec(program: &str, args: &[&str]) -> Self {
        Self::fork(|| {
            let mut command = Command::new(program);
            let error = command.args(args).stdout(Stdio::null()).exec();
            panic!("{program}: {error}")
        })
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// CPU time so far, up to the last tick.
    pub fn cpu_time(&self) -> Duration {
        let text = read(format!("/proc/{}/schedstat", self.pid));
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }

    /// The CPU that it runs on, or ran on last.
    pub fn cpu(&self) -> u32 {
        let text = read(format!("/proc/{}/stat", self.pid));
        // Fields from the third on follow the name, which ends with the last parenthesis.
        let (_, rest) = text.rsplit_once(") ").unwrap();
        rest.split(' ').nth(36).unwrap().parse().unwrap()
    }

    /// Is it scheduled by sched_ext?
    pub fn is_ext(&self) -> bool {
        let text = read(format!("/proc/{}/sched", self.pid));
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("ext.enabled")).unwrap();
        line.ends_with('1')
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Wait for its end; the status as waitpid(2) gives it.
    pub fn wait(mut self) -> i32 {
        self.reap()
    }

    fn reap(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: our own child, and an int on the stack.
        let pid = unsafe { libc::waitpid(self.pid, &mut status, 0) };
        assert_eq!(pid, self.pid);
        self.ended = true;
        status
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(libc::SIGKILL);
            self.reap();
        }
    }
}

/// CPUs of all threads of a process.
pub fn thread_cpus(pid: i32) -> Vec<(i32, u32)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut cpus = Vec::new();
    for thread in threads {
        let name = thread.unwrap().file_name();
        let tid: i32 = name.to_str().unwrap().parse().unwrap();
        let stat = read(format!("/proc/{pid}/task/{tid}/stat"));
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        cpus.push((tid, rest.split(' ').nth(36).unwrap().parse().unwrap()));
    }
    cpus
}

/// CPU time that each of `tasks` gets while `span` passes, as a share of that time.
pub fn shares(tasks: &[Task], span: Duration) -> Vec<f64> {
    let now = || tasks.iter().map(Task::cpu_time).collect::<Vec<_>>();
    let began = std::time::Instant::now();
    let before = now();
    std::thread::sleep(span);
    let after = now();
    let span = began.elapsed().as_secs_f64();
    let pairs = before.iter().zip(&after);
    pairs
        .map(|(before, after)| after.saturating_sub(*before).as_secs_f64() / span)
        .collect()
}

/// Wait until every task has left the driver's code behind and runs where it may.
pub fn settle(tasks: &[Task]) {
    guest::within(guest::secs(1), || {
        let idle = tasks.iter().find(|task| task.cpu_time() < guest::ms(20));
        match idle {
            Some(task) => Err(format!("task {} has hardly run", task.pid)),
            None => Ok(()),
        }
    });
}

/// A process with `count` threads that all compute, each allowed on two neighbouring CPUs.
pub fn narrow_threads(count: usize) -> Task {
    let cpus: Vec<u32> = guest::online().into_iter().collect();
    let task = Task::fork(move || {
        // Not delayed by the threads that are there already; those are ordinary.
        set_policy(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK).unwrap();
        for i in 0..count {
            let pair = [i, i + 1].map(|at| cpus[at % cpus.len()]);
            let life = move || {
                confine(0, pair).unwrap();
                spin()
            };
            std::thread::Builder::new()
                .stack_size(1 << 16)
                .spawn(life)
                .unwrap();
        }
        loop {
            std::thread::park();
        }
    });
    // Making them is not what is tested.
    guest::within(guest::secs(8), || {
        let text = read(format!("/proc/{}/status", task.pid));
        match text.contains(&format!("Threads:\t{}\n", count + 1)) {
            true => Ok(()),
            false => Err(format!("not {count} threads:\n{text}")),
        }
    });
    task
}
