// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the real scheduler under a real kernel: they run inside a lab machine, as root.
//!
//! `tests/lab/suite KERNEL MACHINE [FILTER...]` boots a machine and runs them there. Outside of the
//! lab they are ignored, and refuse to run when forced to: they load schedulers, take CPUs offline
//! and kill tasks.
//!
//! What always holds:
//!
//! - One test at a time, in the order of their names. Most share one loaded scheduler
//!   ([`sched::with_shared`]), because loading takes seconds in the lab; each finds it idle and
//!   true, and is followed by a check that it still runs and that the kernel has not complained. A
//!   test that fails takes the scheduler with it, so the next one gets a new one.
//! - The driver of the tests is a real-time task, so it is neither delayed by the load that it
//!   creates nor counted by the scheduler. What it starts is ordinary again.
//! - Every scheduler writes a trace of its decisions, and when it ends normally the policy has to decide
//!   all of them again, the same way ([`trace`]).
//! - Bounds on time are those of a real machine; [`guest::SLOW`] is what emulation is granted.
//! - With SCX_BALLAST_SOAK=1 (`make soak`) the same tests go on for longer.

mod client;
mod guest;
mod oracle;
mod rules;
mod sched;
mod tasks;
mod trace;
mod work;

/// With the scheduler that tests share.
mod running {
    mod affinity;
    mod balance;
    mod counters;
    mod daemon;
    mod fairness;
    mod first_touch;
    pub mod forks;
    mod locality;
    mod memory;
    mod moves;
    mod preferred;
    mod touches;
}

/// With schedulers that tests start themselves, or none.
mod starting {
    mod attach;
    mod compare;
    mod facts;
    mod hotplug;
    mod lifecycle;
    mod memory;
    mod modes;
    mod output;
    mod refusals;
    mod rules;
    mod user;
}
