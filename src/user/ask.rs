// SPDX-License-Identifier: GPL-2.0-only
//! Asking a program for its version when it may be any program: one that sleeps, or that prints without end.
//!
//! Invariants: it takes no longer than it was given, and no more than [`MOST`] bytes are read. When the answer is here,
//! the program has ended and is reaped. It runs in a process group of its own, which is killed if it does not end by
//! itself, so that what it has started ends too. It ends with this process.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;

use crate::compare::process::tie;

/// Bytes that are read of an answer.
pub const MOST: usize = 4096;
/// How often it is looked whether a program that says no more has ended.
const LOOK: Duration = Duration::from_millis(5);

/// There is no answer.
#[derive(Debug, Error)]
pub enum NoAnswer {
    #[error("cannot be run: {0}")]
    NotRun(#[source] io::Error),
    #[error("was asked for its version and has not ended after {} s", .0.as_secs_f32())]
    Late(Duration),
    #[error("was asked for its version and printed more than {MOST} bytes")]
    TooMuch,
    #[error("does not tell its version ({0})")]
    Failed(ExitStatus),
}

/// The first line that `program --version` prints.
///
/// # Errors
/// It cannot be run, fails, says too much, or has not ended after `limit`.
pub fn version(program: &Path, limit: Duration) -> Result<String, NoAnswer> {
    let until = Instant::now() + limit;
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    // Ctrl-C reaches this process's group alone.
    tie(&mut command, Signal::KILL);
    let mut child = command.spawn().map_err(NoAnswer::NotRun)?;
    let answer = hear(&mut child, until).map_err(|err| match err {
        NoAnswer::Late(_) => NoAnswer::Late(limit),
        other => other,
    });
    // Of one that has failed the number may be another's by now; any other is not reaped yet.
    if !matches!(answer, Ok(_) | Err(NoAnswer::Failed(_))) {
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
    }
    let said = answer?;
    let said = String::from_utf8_lossy(&said);
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}

/// All that it says until it ends.
fn hear(child: &mut Child, until: Instant) -> Result<Vec<u8>, NoAnswer> {
    let stdout = child.stdout.take();
    let said = stdout.map(|out| read(out, until)).transpose()?;
    loop {
        match child.try_wait().map_err(NoAnswer::NotRun)? {
            Some(status) if status.success() => return Ok(said.unwrap_or_default()),
            Some(status) => return Err(NoAnswer::Failed(status)),
            None if left(until).is_zero() => return Err(late()),
            None => sleep(LOOK.min(left(until))),
        }
    }
}

fn read(mut out: ChildStdout, until: Instant) -> Result<Vec<u8>, NoAnswer> {
    let mut said = Vec::new();
    let mut buffer = [0; MOST];
    loop {
        wait_for(&out, until)?;
        match out.read(&mut buffer) {
            Ok(0) => return Ok(said),
            Ok(n) => said.extend_from_slice(&buffer[..n]),
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(NoAnswer::NotRun(err)),
        }
        if said.len() > MOST {
            return Err(NoAnswer::TooMuch);
        }
    }
}

/// Until there is something to read, or nobody is left who could write.
fn wait_for(out: &ChildStdout, until: Instant) -> Result<(), NoAnswer> {
    loop {
        let left = left(until);
        if left.is_zero() {
            return Err(late());
        }
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(out, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(err) => return Err(NoAnswer::NotRun(err.into())),
        }
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// Whoever asked knows how long it was given.
fn late() -> NoAnswer {
    NoAnswer::Late(Duration::ZERO)
}
