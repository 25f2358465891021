// SPDX-License-Identifier: GPL-2.0-only
//! The signals that end what runs: Ctrl-C, SIGTERM and SIGHUP.
//!
//! Invariant: who was started with SIGHUP ignored, as by nohup(1), outlives its terminal. An ignored SIGINT is not left
//! so: scripts' background jobs start with it, and `kill -INT` is how such scripts end a scheduler.

use std::{mem, ptr};

use anyhow::{Context, Result};

/// Calls `end` for each of the signals, in a thread of its own. Once per process.
///
/// # Errors
/// The handler cannot be installed, or there is one.
pub fn on_end(end: impl FnMut() + Send + 'static) -> Result<()> {
    let hangup = action_of(libc::SIGHUP);
    ctrlc::set_handler(end).context("installing the signal handler")?;
    if hangup.sa_sigaction == libc::SIG_IGN {
        set(libc::SIGHUP, &hangup);
    }
    Ok(())
}

/// What a signal does now.
fn action_of(signal: libc::c_int) -> libc::sigaction {
    // SAFETY: a structure of numbers and pointers, for which zeroes are valid: SIG_DFL.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: `action` is to be written to; nothing is changed.
    unsafe { libc::sigaction(signal, ptr::null(), &mut action) };
    action
}

fn set(signal: libc::c_int, action: &libc::sigaction) {
    // SAFETY: `action` is one that the kernel gave for this signal.
    unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
}

/// What the signals did when the program had no handler yet.
pub struct Before([(libc::c_int, libc::sigaction); 3]);

impl Before {
    pub fn found() -> Self {
        let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        Self(signals.map(|signal| (signal, action_of(signal))))
    }

    /// From now on they do it again, and [`on_end`] is told of none.
    pub fn restore(self) {
        for (signal, action) in &self.0 {
            set(*signal, action);
        }
    }
}
