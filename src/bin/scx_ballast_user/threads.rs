// SPDX-License-Identifier: GPL-2.0-only
//! The threads beside the one that places tasks.
//!
//! All are started before BPF is attached: from then on the main thread may not have new memory. Those that
//! do something for it (statistics, trace, signals) are real-time tasks. An ordinary one would be placed by the
//! main thread, and while it waited for that it could hold the lock of the allocator, for which the main thread
//! would then wait.
//!
//! The beat, the bell and the visitor are ordinary tasks, because being queued or given to a CPU is what they are
//! for.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::{Builder, sleep};
use std::time::Duration;

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, bounded};
use log::warn;
use scx_ballast::user::cpu_set::CpuSet;

/// Its policy; libc does not know it yet.
const SCHED_EXT: i32 = 7;
/// Of prctl(); libc does not know it yet.
const PR_SET_IO_FLUSHER: libc::c_int = 57;
/// CPUs that may wait for a visit.
const VISITS: usize = 64;
/// Set for the program that this one becomes when it has to load again.
pub const AGAIN: &str = "SCX_BALLAST_AGAIN";

/// Change the class of the calling thread.
fn set_policy(policy: i32) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: i32::from(policy == libc::SCHED_FIFO),
    };
    // SAFETY: a struct on the stack.
    match unsafe { libc::sched_setscheduler(0, policy, &param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// From now on this thread, and those that it starts, are real-time tasks. A failure is a warning.
pub fn be_real_time() {
    if let Err(err) = set_policy(libc::SCHED_FIFO) {
        warn!("helper threads cannot be real-time tasks ({err}): statistics may delay scheduling");
    }
}

/// From now on this thread is one that sched_ext schedules.
pub fn be_ordinary(partial: bool) -> Result<()> {
    set_policy(if partial {
        SCHED_EXT
    } else {
        libc::SCHED_OTHER
    })
    .context("becoming an ordinary task")
}

/// Reclaiming memory on behalf of this thread never waits for I/O, which might need tasks that only this thread
/// can place.
pub fn never_wait_for_io() {
    let (on, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: a flag of this thread.
    let done = unsafe { libc::prctl(PR_SET_IO_FLUSHER, on, none, none, none) };
    if done != 0 {
        warn!(
            "PR_SET_IO_FLUSHER: {}; memory pressure may delay scheduling",
            io::Error::last_os_error()
        );
    }
}

/// A thread that is an ordinary task with no file of BPF's: it could not end without being placed, so when all are
/// killed it would keep the scheduler loaded that nobody serves. Returns when it is so, with its id.
fn start_ordinary(name: &str, partial: bool, body: impl FnOnce() + Send + 'static) -> Result<i32> {
    let (sender, receiver) = bounded::<Result<i32>>(1);
    let run = move || {
        // SAFETY: this thread gets a copy of the file table, as it is before BPF is loaded.
        let unshared = match unsafe { libc::unshare(libc::CLONE_FILES) } {
            0 => be_ordinary(partial),
            _ => Err(io::Error::last_os_error()).context("a file table of its own"),
        };
        // SAFETY: takes nothing.
        let own = unsafe { libc::gettid() };
        let _ = sender.send(unshared.map(|()| own));
        body();
    };
    let thread = Builder::new().name(name.into()).spawn(run);
    thread.with_context(|| format!("starting the {name}"))?;
    let ready = receiver.recv().context("it has ended");
    ready
        .flatten()
        .with_context(|| format!("starting the {name}"))
}

/// A thread that wakes up every `beat`, which makes BPF call for the main thread.
pub fn start_beat(beat: Duration, partial: bool) -> Result<()> {
    start_ordinary("beat", partial, move || {
        loop {
            sleep(beat);
        }
    })
    .map(drop)
}

/// A thread that sleeps for ever; returns its id. See `Serving::ring`.
pub fn start_bell(partial: bool) -> Result<i32> {
    start_ordinary("bell", partial, || {
        loop {
            std::thread::park();
        }
    })
}

/// A thread that goes to each CPU that it is sent. There it waits behind the task that runs, which makes BPF queue
/// that task when its slice ends; alone it would go on for ever and could not be moved.
pub fn start_visitor(partial: bool) -> Result<Sender<u32>> {
    let (sender, receiver) = bounded::<u32>(VISITS);
    start_ordinary("visitor", partial, move || {
        for cpu in receiver {
            let _ = CpuSet::of([cpu]).confine_this_thread();
        }
    })?;
    Ok(sender)
}

/// A thread that can begin this program again, which the main thread cannot: the filter stays with it.
pub fn start_restarter() -> Result<Sender<()>> {
    let (sender, receiver): (Sender<()>, Receiver<()>) = bounded(1);
    let run = move || {
        if receiver.recv().is_ok() {
            let error = Command::new("/proc/self/exe")
                .args(std::env::args_os().skip(1))
                .env(AGAIN, "1")
                .exec();
            warn!("loading again: {error}");
            std::process::exit(1);
        }
    };
    let thread = Builder::new().name("restarter".into()).spawn(run);
    thread.context("starting the restarter")?;
    Ok(sender)
}

/// Ids of all threads of this process.
pub fn own_threads() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}
