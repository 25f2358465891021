// SPDX-License-Identifier: GPL-2.0-only
//! The tasks that a workload starts: forked processes or threads, behind one face.
//!
//! - A member never outlives the workload. Threads end with their process. Processes are killed and
//!   waited for when the crew is dropped, and by the kernel (PR_SET_PDEATHSIG) when the parent dies
//!   without getting there; for that they must be started by its main thread.
//! - The first member that fails fails the crew: [`Crew::wait`] returns at once instead of waiting
//!   for members that would wait for that one.
//! - Processes are plain forks of a process with a single thread, so that no lock can be held by a
//!   thread that the child does not have. Jobs should still keep to system calls and shared memory:
//!   what they allocate or print would be measured.
//! - A job may exec this program again, which then goes on with [`resume`]. PR_SET_PDEATHSIG outlives
//!   an exec, except of a program with privileges of its own, set-user-ID or capabilities; `resume`
//!   asks for it once more.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use super::clock;
use super::futex::Gate;

/// Exit status of a child whose error has no number.
const STATUS_OTHER: i32 = 254;
/// Exit status of a child that panicked.
const STATUS_PANIC: i32 = 255;

/// Processes or threads; processes unless asked otherwise.
#[derive(Debug, Clone, Copy, Args)]
pub struct CrewArgs {
    /// Start processes (the default).
    #[arg(long, overrides_with = "threads")]
    processes: bool,

    /// Start threads of one process.
    #[arg(long)]
    threads: bool,
}

impl CrewArgs {
    /// `processes` or `threads`.
    pub fn name(self) -> &'static str {
        match self.threads {
            true => "threads",
            false => "processes",
        }
    }

    /// An empty crew of that kind.
    pub fn crew(self) -> Result<Crew> {
        match self.threads {
            true => Ok(Crew::threads()),
            false => Crew::processes(),
        }
    }
}

/// Tasks that were started and not yet waited for.
pub struct Crew {
    /// What each member is called in errors, by number.
    names: Vec<String>,
    /// Members that have not ended.
    left: usize,
    kind: Kind,
}

enum Kind {
    Processes {
        /// Children that have not been waited for, with their members' numbers.
        children: Vec<(libc::pid_t, usize)>,
    },
    Threads {
        handles: Vec<JoinHandle<()>>,
        sender: Sender<End>,
        ends: Receiver<End>,
    },
}

/// How a member ended.
struct End {
    member: usize,
    result: Result<()>,
}

impl Crew {
    /// An empty crew of processes.
    pub fn processes() -> Result<Crew> {
        let tasks = std::fs::read_dir("/proc/self/task").context("cannot read /proc/self/task")?;
        match tasks.count() {
            1 => Ok(Crew::of(Kind::Processes {
                children: Vec::new(),
            })),
            n => bail!("processes can only be forked from a single thread, and there are {n}"),
        }
    }

    /// An empty crew of threads.
    pub fn threads() -> Crew {
        let (sender, ends) = channel();
        Crew::of(Kind::Threads {
            handles: Vec::new(),
            sender,
            ends,
        })
    }

    fn of(kind: Kind) -> Crew {
        Crew {
            names: Vec::new(),
            left: 0,
            kind,
        }
    }

    /// Starts a member; `name` is what errors call it.
    pub fn start<Job>(&mut self, name: impl Into<String>, job: Job) -> Result<()>
    where
        Job: FnOnce() -> io::Result<()> + Send + 'static,
    {
        let (name, member) = (name.into(), self.names.len());
        let started = match &mut self.kind {
            Kind::Processes { children } => fork(job).map(|pid| children.push((pid, member))),
            Kind::Threads {
                handles, sender, ..
            } => {
                let sender = sender.clone();
                let body = move || {
                    let result = catch_unwind(AssertUnwindSafe(job));
                    let result = result.unwrap_or_else(|panic| Err(panicked(&*panic)));
                    let result = result.map_err(anyhow::Error::from);
                    // Nobody listens any more once the crew has failed.
                    let _ = sender.send(End { member, result });
                };
                let spawned = std::thread::Builder::new().spawn(body);
                spawned.map(|handle| handles.push(handle))
            }
        };
        started.with_context(|| format!("cannot start {name}"))?;
        self.names.push(name);
        self.left += 1;
        Ok(())
    }

    /// Waits until every member is at `gate`, opens it, and tells when ([`clock::now`]).
    pub fn open(&mut self, gate: &Gate) -> Result<u64> {
        self.open_for(gate, self.names.len())
    }

    /// The same for `tasks` tasks: members, or what members started.
    pub fn open_for(&mut self, gate: &Gate, tasks: usize) -> Result<u64> {
        while gate.arrived() < tasks {
            if self.ended(false)? {
                bail!("a task ended before it began its work");
            }
            clock::sleep(500_000);
        }
        gate.open().context("cannot wake the tasks")
    }

    /// Whether every member has ended; does not wait.
    ///
    /// # Errors
    /// A member failed.
    pub fn all_ended(&mut self) -> Result<bool> {
        while self.left > 0 && self.ended(false)? {}
        Ok(self.left == 0)
    }

    /// Waits until every member has ended.
    ///
    /// # Errors
    /// A member failed; others may still be there, until the crew is dropped.
    pub fn wait(mut self) -> Result<()> {
        while self.left > 0 {
            self.ended(true)?;
        }
        if let Kind::Threads { handles, .. } = &mut self.kind {
            for handle in handles.drain(..) {
                // A panic has been reported as its member's end.
                let _ = handle.join();
            }
        }
        Ok(())
    }

    /// Takes note of one member that ended without error; false if there is none and `block` is
    /// false.
    fn ended(&mut self, block: bool) -> Result<bool> {
        let end = match &mut self.kind {
            Kind::Processes { children } => next_child(children, block)?,
            Kind::Threads { ends, .. } if block => Some(ends.recv()?),
            Kind::Threads { ends, .. } => match ends.try_recv() {
                Err(TryRecvError::Empty) => None,
                end => Some(end?),
            },
        };
        let Some(end) = end else {
            return Ok(false);
        };
        self.left -= 1;
        end.result
            .with_context(|| format!("{} failed", self.names[end.member]))?;
        Ok(true)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let Kind::Processes { children } = &self.kind else {
            return;
        };
        for &(pid, _) in children {
            // SAFETY: `pid` is a child that was not waited for, so that no other process has it.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        for &(pid, _) in children {
            // SAFETY: no status is asked for.
            while unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } == -1
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
    }
}

/// Forks a child that does `job` and nothing else.
fn fork(job: impl FnOnce() -> io::Result<()>) -> io::Result<libc::pid_t> {
    // SAFETY: takes no arguments.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the process had a single thread when the crew was made, and a crew of processes is
    // used by workloads that make no other; the child never returns from `child`.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => child(parent, job),
        pid => Ok(pid),
    }
}

/// The rest of the life of a member whose job was to exec this program: a job, as of
/// [`Crew::start`]. `parent` is the process that has the crew.
pub fn resume(parent: libc::pid_t, job: impl FnOnce() -> io::Result<()>) -> ! {
    child(parent, job)
}

/// The whole life of a child: its job, and an exit without any of the parent's clean-up.
fn child(parent: libc::pid_t, job: impl FnOnce() -> io::Result<()>) -> ! {
    // SAFETY: plain system calls. The second look at the parent is for one that died before the
    // kernel was told to care.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(STATUS_OTHER);
        }
    }
    let status = match catch_unwind(AssertUnwindSafe(job)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error
            .raw_os_error()
            .filter(|number| (1..STATUS_OTHER).contains(number))
            .unwrap_or(STATUS_OTHER),
        Err(_) => STATUS_PANIC,
    };
    // SAFETY: ends this process alone.
    unsafe { libc::_exit(status) }
}

/// The next of the `children` that ended; `None` if there is none and `block` is false.
fn next_child(children: &mut Vec<(libc::pid_t, usize)>, block: bool) -> Result<Option<End>> {
    let flags = if block { 0 } else { libc::WNOHANG };
    loop {
        let mut status = 0;
        // SAFETY: `status` is an int to write to.
        let pid = unsafe { libc::waitpid(-1, &mut status, flags) };
        if pid == 0 {
            return Ok(None);
        }
        if pid == -1 {
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error).context("cannot wait for the tasks"),
            }
        }
        // Others can have been inherited from whatever this process was before its exec.
        if let Some(at) = children.iter().position(|child| child.0 == pid) {
            let (_, member) = children.swap_remove(at);
            let result = meaning_of(status);
            return Ok(Some(End { member, result }));
        }
    }
}

/// What the wait status of a child says.
fn meaning_of(status: libc::c_int) -> Result<()> {
    if libc::WIFSIGNALED(status) {
        bail!("killed by signal {}", libc::WTERMSIG(status));
    }
    match libc::WEXITSTATUS(status) {
        0 => Ok(()),
        STATUS_PANIC => bail!("internal error"),
        STATUS_OTHER => bail!("lost its partner or parent"),
        number => Err(anyhow!(io::Error::from_raw_os_error(number))),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> io::Error {
    let text = panic.downcast_ref::<&str>().unwrap_or(&"internal error");
    io::Error::other(*text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_waited_for() {
        let mut crew = Crew::threads();
        for at in 0..3 {
            crew.start(format!("task {at}"), || Ok(())).unwrap();
        }
        while !crew.all_ended().unwrap() {
            std::thread::yield_now();
        }
        crew.wait().unwrap();
    }

    #[test]
    fn the_first_failure_ends_the_wait() {
        let mut crew = Crew::threads();
        crew.start("the idler", || {
            std::thread::park();
            Ok(())
        })
        .unwrap();
        crew.start("the loser", || {
            Err(io::Error::from_raw_os_error(libc::EACCES))
        })
        .unwrap();
        let error = format!("{:#}", crew.wait().unwrap_err());
        assert!(error.starts_with("the loser failed: "), "{error}");
    }

    #[test]
    fn wait_statuses_have_a_meaning() {
        assert!(meaning_of(0).is_ok());
        let text = |status| meaning_of(status).unwrap_err().to_string();
        assert_eq!(text(9), "killed by signal 9");
        assert!(text(libc::EPERM << 8).contains("not permitted"));
        assert_eq!(text(STATUS_PANIC << 8), "internal error");
    }
}
