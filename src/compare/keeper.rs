// SPDX-License-Identifier: GPL-2.0-only
//! The keeper: a small process beside a comparison that cleans up after it, however it ended.
//!
//! It holds the reading end of a pipe whose writing end only the comparison has. When the comparison
//! ends, by itself, by a panic or by SIGKILL, the kernel closes the pipe, and the keeper
//!
//! 1. kills what is left of a benchmark,
//! 2. ends the scheduler, by SIGTERM first, and
//! 3. sets `kernel.numa_balancing` to what it was.
//!
//! That is the only place where the setting is restored, so that the path that is needed after SIGKILL
//! is the one that is used every day. The keeper is in a process group of its own and ignores the
//! signals that a terminal sends.

use std::fs;
use std::io::{self, PipeWriter, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::Signal;

use super::marked;

/// How long a scheduler may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The command line of a keeper; an internal matter.
#[derive(Debug, Clone, Args)]
pub struct KeeperArgs {
    /// The mark of the comparison's processes.
    #[arg(long)]
    mark: String,
    /// A file and what it is to hold at the end.
    #[arg(long, num_args = 2, value_names = ["FILE", "VALUE"])]
    restore: Option<Vec<String>>,
}

/// The comparison's end of the pipe; dropping it lets the keeper do its work and waits for it.
#[derive(Debug)]
pub struct Keeper {
    child: Child,
    /// Taken when it is over.
    pipe: Option<PipeWriter>,
}

impl Keeper {
    /// Starts a keeper. `program` is this program; `restore` is a file and what it holds now.
    pub fn start(program: &Path, mark: &str, restore: Option<(&Path, &str)>) -> Result<Keeper> {
        let (read, write) = io::pipe().context("cannot make a pipe")?;
        let mut command = Command::new(program);
        command.args(["compare", "keeper", "--mark", mark]);
        if let Some((path, value)) = restore {
            command.arg("--restore").arg(path).arg(value);
        }
        let child = command
            .stdin(read)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Keeper {
            child,
            pipe: Some(write),
        })
    }

    /// Whether it still watches.
    pub fn is_there(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Everything is as it was before.
    ///
    /// # Errors
    /// It is not; the keeper has said on stderr what.
    pub fn finish(mut self) -> Result<()> {
        self.close()
    }

    fn close(&mut self) -> Result<()> {
        let Some(pipe) = self.pipe.take() else {
            return Ok(());
        };
        drop(pipe);
        let status = self.child.wait().context("waiting for the keeper")?;
        match status.success() {
            true => Ok(()),
            false => bail!("the machine may not be as it was before (the keeper: {status})"),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // An error was said by the keeper itself.
        let _ = self.close();
    }
}

/// The life of a keeper.
///
/// # Errors
/// Something could not be cleaned up.
pub fn run(args: &KeeperArgs) -> Result<()> {
    ignore_signals();
    // Nothing is ever sent: this returns when the comparison is gone.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    let benchmarks_gone = marked::kill_all(marked::BENCHMARK, &args.mark);
    let scheduler_gone = end_scheduler(&args.mark);
    if let Some([path, value]) = args.restore.as_deref() {
        restore(&PathBuf::from(path), value)?;
    }
    match (benchmarks_gone, scheduler_gone) {
        (true, true) => Ok(()),
        (false, _) => bail!("processes of a benchmark cannot be killed"),
        (_, false) => bail!("a scheduler cannot be killed"),
    }
}

fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: no handler is installed, the signals are ignored from here on.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

fn end_scheduler(mark: &str) -> bool {
    let began = Instant::now();
    marked::signal(marked::SCHEDULER, mark, Signal::TERM);
    while began.elapsed() < PATIENCE {
        if marked::find(marked::SCHEDULER, mark).is_empty() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    marked::kill_all(marked::SCHEDULER, mark)
}

/// Writes `value`, unless it is there already.
fn restore(path: &Path, value: &str) -> Result<()> {
    let now = fs::read_to_string(path).unwrap_or_default();
    if now.trim() == value {
        return Ok(());
    }
    fs::write(path, value).with_context(|| format!("cannot set {} back to {value}", path.display()))
}
