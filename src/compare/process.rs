// SPDX-License-Identifier: GPL-2.0-only
//! Running a benchmark's command to its end, with all that it starts.
//!
//! The command is `/bin/sh -c COMMAND` in a process group of its own, dies with this process
//! (PR_SET_PDEATHSIG) and leaves nothing behind: when the shell has ended, by itself or because its
//! time is over, whatever it started and did not wait for is killed.
//!
//! Must be used by a thread that lives as long as the process: the kernel ends children when the
//! *thread* that forked them ends.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::marked;
use super::stop::{Stop, timespec};

/// The most that a benchmark may print, on each of its two outputs.
pub const MAX_OUTPUT: usize = 32 << 20;

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub end: End,
    pub wall_s: f64,
    /// CPU time of the command and all that it waited for.
    pub user_s: f64,
    pub sys_s: f64,
    pub stdout: String,
    pub stderr: String,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exited(ExitStatus),
    TimedOut,
    /// It printed more than [`MAX_OUTPUT`].
    TooMuch,
    /// The user wants to stop.
    Stopped,
}

/// Makes `command` end with this process: `signal` is what the kernel sends it. It has this process's
/// nice value, which SCHED_RESET_ON_FORK (see [`super::priority`]) would reset as well.
pub fn tie(command: &mut Command, signal: Signal) {
    let parent = rustix::process::getpid();
    let nice = rustix::process::getpriority_process(None).unwrap_or(0);
    let tied = move || {
        // A value below 0 may be refused; then it stays 0.
        let _ = rustix::process::setpriority_process(None, nice);
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // For a parent that died before the kernel was told to care.
        match rustix::process::getppid() == Some(parent) {
            true => Ok(()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: between fork and exec it makes three system calls and takes no memory.
    unsafe { command.pre_exec(tied) };
}

/// Runs `script` to its end, or for `limit`, or until `stop`.
///
/// # Errors
/// It cannot be started or waited for.
pub fn run(script: &str, mark: &str, limit: Duration, stop: &Stop) -> Result<Done> {
    let (out, out_end) = io::pipe().context("cannot make a pipe")?;
    let (err, err_end) = io::pipe().context("cannot make a pipe")?;
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script])
        .env(marked::BENCHMARK, mark)
        .stdin(Stdio::null())
        .stdout(out_end)
        .stderr(err_end)
        .process_group(0);
    tie(&mut command, Signal::KILL);
    let began = Instant::now();
    let child = command.spawn().context("cannot start /bin/sh")?;
    // The command holds the writing ends; they would keep the pipes open.
    drop(command);
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("cannot watch the benchmark");
    let mut outputs = [Capture::new(out)?, Capture::new(err)?];
    let watched = pidfd.and_then(|pidfd| watch(&pidfd, &mut outputs, began + limit, stop));
    let wall_s = began.elapsed().as_secs_f64();
    // The shell is not waited for yet, so the group's number is nobody else's.
    let _ = kill_process_group(pid, Signal::KILL);
    let (status, usage) = wait(pid)?;
    let clean = marked::kill_all(marked::BENCHMARK, mark);
    let end = watched?.unwrap_or(End::Exited(status));
    anyhow::ensure!(clean, "processes of the benchmark cannot be killed");
    for output in &mut outputs {
        output.drain()?;
    }
    let [stdout, stderr] = outputs.map(Capture::text);
    Ok(Done {
        end,
        wall_s,
        user_s: seconds(usage.ru_utime),
        sys_s: seconds(usage.ru_stime),
        stdout,
        stderr,
    })
}

/// Reads the outputs until the process has ended (`None`) or has to be ended for a reason.
fn watch(
    pidfd: &OwnedFd,
    outputs: &mut [Capture; 2],
    until: Instant,
    stop: &Stop,
) -> Result<Option<End>> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Some(End::TimedOut));
        }
        let [out, err] = &*outputs;
        let mut fds = vec![
            PollFd::new(pidfd, PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        let open = [out, err].into_iter().filter(|output| output.open);
        fds.extend(open.map(|output| PollFd::new(&output.pipe, PollFlags::IN)));
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the benchmark"),
        }
        let (ended, stopped) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        for output in outputs.iter_mut() {
            output.drain()?;
            if output.bytes.len() > MAX_OUTPUT {
                return Ok(Some(End::TooMuch));
            }
        }
        match (ended, stopped) {
            (true, _) => return Ok(None),
            (_, true) => return Ok(Some(End::Stopped)),
            _ => {}
        }
    }
}

/// Waits for a child that has ended or was killed.
fn wait(pid: Pid) -> Result<(ExitStatus, libc::rusage)> {
    let mut status = 0;
    // SAFETY: a structure of numbers, for which zeroes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both are to be written to; the child is ours and was not waited for.
        let got = unsafe { libc::wait4(pid.as_raw_pid(), &mut status, 0, &mut usage) };
        if got != -1 {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("waiting for the benchmark");
        }
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// One output of a command, so far.
struct Capture {
    pipe: PipeReader,
    open: bool,
    bytes: Vec<u8>,
}

impl Capture {
    fn new(pipe: PipeReader) -> Result<Capture> {
        rustix::io::ioctl_fionbio(&pipe, true).context("cannot make a pipe non-blocking")?;
        Ok(Capture {
            pipe,
            open: true,
            bytes: Vec::new(),
        })
    }

    /// Takes what is there, but not more than a little too much.
    fn drain(&mut self) -> Result<()> {
        let mut buffer = [0; 1 << 16];
        while self.open && self.bytes.len() <= MAX_OUTPUT {
            match self.pipe.read(&mut buffer) {
                Ok(0) => self.open = false,
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("reading what the benchmark prints"),
            }
        }
        Ok(())
    }

    fn text(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(script: &str, limit: Duration) -> Done {
        let mark = format!("test-{}-{script}", std::process::id());
        let done = run(script, &mark, limit, &Stop::new().unwrap()).unwrap();
        assert_eq!(marked::find(marked::BENCHMARK, &mark), []);
        done
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn outputs_status_and_times_are_told() {
        let done = go("echo out; echo err >&2; exit 3", LONG);
        assert!(matches!(done.end, End::Exited(status) if status.code() == Some(3)));
        assert_eq!((&*done.stdout, &*done.stderr), ("out\n", "err\n"));
        let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.2";
        let done = go(spin, LONG);
        assert!(done.user_s + done.sys_s > 0.01, "{done:?}");
        assert!(done.wall_s > done.user_s + 0.1, "{done:?}");
    }

    #[test]
    fn what_outlives_the_shell_is_killed() {
        let done = go("sleep 1000 & setsid sleep 1001 & echo x", LONG);
        assert_eq!(done.stdout, "x\n");
        assert!(done.wall_s < 30.0);
    }

    #[test]
    fn time_is_limited() {
        let done = go("echo x; sleep 1000", Duration::from_millis(200));
        assert_eq!(done.end, End::TimedOut);
        assert_eq!(done.stdout, "x\n");
    }

    #[test]
    fn output_is_limited() {
        assert_eq!(go("yes", LONG).end, End::TooMuch);
    }

    #[test]
    fn the_user_can_stop_it() {
        let stop = Stop::new().unwrap();
        let told = stop.clone();
        let teller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            told.set();
        });
        let done = run("sleep 1000", "test-stop", LONG, &stop).unwrap();
        teller.join().unwrap();
        assert_eq!(done.end, End::Stopped);
    }
}
