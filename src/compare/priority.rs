// SPDX-License-Identifier: GPL-2.0-only
//! The driver as a real-time task.
//!
//! A comparison must neither be delayed by the load that it makes nor be a task that the scheduler under
//! test has to place. So its threads are of policy SCHED_FIFO, of the lowest priority, where they may;
//! what they start is ordinary again (SCHED_RESET_ON_FORK). They sleep nearly all the time.

/// Makes the calling thread an ordinary one again: reports can wait.
pub fn lower() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: as below. Only the privileged may take back the second flag, so it stays.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, &param) };
}

/// Makes the calling thread a real-time task. Without the right to do so nothing changes.
pub fn raise() {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: `param` is read; 0 is the calling thread. A refusal is no error.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) };
}
