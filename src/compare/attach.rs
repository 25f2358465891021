// SPDX-License-Identifier: GPL-2.0-only
//! Putting an arm in charge, and EEVDF again.
//!
//! A scheduler is a child in a process group of its own that the kernel ends with this process. What it
//! prints goes to a file without a name; the end of it is part of every complaint about it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;

use super::evidence::{Statistics, Watched};
use super::in_charge;
use super::marked;
use super::process::tie;
use super::record::{Arm, Fact, InCharge};
use super::roots::Roots;
use super::stop::Stop;
use super::tail;

/// How long things may take; generous, because emulated and crowded machines are slow.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// From start to enabled.
    pub load: Duration,
    /// From the signal to the end, before the scheduler is killed.
    pub unload: Duration,
    /// From the end of the settle time to the first connection to its statistics: they are served a
    /// little after it is in charge.
    pub statistics: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            load: Duration::from_secs(120),
            unload: Duration::from_secs(60),
            statistics: Duration::from_secs(3),
        }
    }
}

/// How often the kernel is asked for its state.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How much of what a scheduler printed is looked at for the part that is shown.
const TAIL_BYTES: u64 = 16 << 10;

/// Why an arm is not in charge.
#[derive(Debug, Error)]
pub enum AttachError {
    /// Trying again can help.
    #[error("{0}")]
    Failed(String),
    /// The machine is not in a state in which anything can be compared.
    #[error("{0}")]
    Hopeless(String),
    #[error("interrupted")]
    Stopped,
}

/// An arm in charge.
pub struct Attached<'a> {
    roots: &'a Roots,
    patience: Patience,
    scheduler: Option<Scheduler>,
    /// Who was in charge after the settle time.
    pub identity: InCharge,
}

struct Scheduler {
    child: Child,
    log: File,
    start_s: f64,
    statistics: Fact<Statistics>,
}

impl<'a> Attached<'a> {
    /// Puts `arm` in charge and waits for `settle`.
    pub fn start(
        arm: &Arm,
        roots: &'a Roots,
        mark: &str,
        patience: Patience,
        settle: Duration,
        stop: &Stop,
    ) -> Result<Attached<'a>, AttachError> {
        let before = in_charge::look(roots);
        if !before.is_eevdf() {
            let who = match before.ops.is_empty() {
                true => format!("sched_ext is {}", before.state),
                false => format!("another scheduler is loaded: {}", before.ops),
            };
            return Err(AttachError::Hopeless(who));
        }
        let mut attached = Attached {
            roots,
            patience,
            scheduler: None,
            identity: before,
        };
        let ready = attached
            .load(arm, mark, stop)
            .and_then(|()| match stop.wait(settle) {
                true => Err(AttachError::Stopped),
                false => attached.identify(arm),
            });
        match ready {
            Ok(()) => Ok(attached),
            Err(error) => {
                attached.end()?;
                Err(error)
            }
        }
    }

    fn load(&mut self, arm: &Arm, mark: &str, stop: &Stop) -> Result<(), AttachError> {
        let Some((program, arguments)) = arm.argv.split_first() else {
            return Ok(());
        };
        if self.identity.state == in_charge::ABSENT {
            return Err(AttachError::Hopeless(format!(
                "{}: this kernel has no sched_ext: it needs Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT=y",
                arm.label
            )));
        }
        let began = Instant::now();
        let (child, log) = spawn(program, arguments, mark)
            .map_err(|error| AttachError::Failed(format!("cannot start {program}: {error}")))?;
        let scheduler = self.scheduler.insert(Scheduler {
            child,
            log,
            start_s: 0.0,
            statistics: Fact::NotAvailable("not asked yet".into()),
        });
        while !in_charge::look(self.roots).is_scheduler() {
            if let Ok(Some(status)) = scheduler.child.try_wait() {
                let why = format!("ended before it was in charge ({status})");
                return Err(AttachError::Failed(why + &scheduler.tail()));
            }
            if began.elapsed() > self.patience.load {
                let why = format!("not in charge after {:.0?}", self.patience.load);
                return Err(AttachError::Failed(why + &scheduler.tail()));
            }
            if stop.wait(LOOK_EVERY) {
                return Err(AttachError::Stopped);
            }
        }
        scheduler.start_s = began.elapsed().as_secs_f64();
        Ok(())
    }

    /// Notes who is in charge now, if it is whom we wanted.
    fn identify(&mut self, arm: &Arm) -> Result<(), AttachError> {
        self.identity = in_charge::look(self.roots);
        let right = match arm.argv.is_empty() {
            true => self.identity.is_eevdf(),
            false => self.identity.is_scheduler(),
        };
        if !right {
            let state = &self.identity.state;
            let tail = self.scheduler.as_ref().map(Scheduler::tail);
            let why = format!("sched_ext is {state} at the end of the settle time");
            return Err(AttachError::Failed(why + &tail.unwrap_or_default()));
        }
        if let Some(scheduler) = &mut self.scheduler {
            let began = Instant::now();
            scheduler.statistics = Statistics::connect(self.roots);
            while scheduler.statistics.known().is_none()
                && began.elapsed() < self.patience.statistics
            {
                std::thread::sleep(10 * LOOK_EVERY);
                scheduler.statistics = Statistics::connect(self.roots);
            }
        }
        Ok(())
    }

    /// Why what runs now does not count, if it does not.
    pub fn trouble(&mut self) -> Option<String> {
        if let Some(scheduler) = &mut self.scheduler
            && let Ok(Some(status)) = scheduler.child.try_wait()
        {
            let why = format!("the scheduler ended during the run ({status})");
            return Some(why + &scheduler.tail());
        }
        self.identity.change(&in_charge::look(self.roots))
    }

    /// The scheduler process, to be observed; none for EEVDF.
    pub fn watched(&mut self) -> Option<Watched<'_>> {
        self.scheduler.as_mut().map(|scheduler| Watched {
            pid: Pid::from_child(&scheduler.child),
            start_s: scheduler.start_s,
            statistics: &mut scheduler.statistics,
        })
    }

    /// Whether it serves statistics; none for EEVDF.
    pub fn has_statistics(&self) -> Option<bool> {
        let scheduler = self.scheduler.as_ref()?;
        Some(scheduler.statistics.known().is_some())
    }

    /// A doubt about who is in charge: its name has nothing of the program's.
    pub fn doubt(&self, arm: &Arm) -> Option<String> {
        let name = Path::new(arm.argv.first()?).file_name()?.to_str()?;
        let name = name.strip_prefix("scx_").unwrap_or(name);
        let ops = &self.identity.ops;
        (!ops.contains(name)).then(|| format!("{}: the kernel calls it {ops}", arm.label))
    }

    /// Ends the scheduler and waits until EEVDF is in charge. Returns what went wrong meanwhile and was
    /// overcome.
    pub fn end(&mut self) -> Result<Option<String>, AttachError> {
        let Some(mut scheduler) = self.scheduler.take() else {
            return Ok(None);
        };
        // The scheduler's server waits for its clients in some versions.
        scheduler.statistics = Fact::NotAvailable("ended".into());
        let note = scheduler.end(self.patience.unload);
        let began = Instant::now();
        while !in_charge::look(self.roots).is_eevdf() {
            if began.elapsed() > self.patience.unload {
                return Err(AttachError::Hopeless(format!(
                    "sched_ext is still {} after the end of the scheduler; SysRq-S (echo S > \
                     /proc/sysrq-trigger) ends any scheduler",
                    in_charge::look(self.roots).state
                )));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(note)
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        // Only a panic gets here with a scheduler; the keeper has the last word.
        let _ = self.end();
    }
}

fn spawn(program: &str, arguments: &[String], mark: &str) -> std::io::Result<(Child, File)> {
    let log = tempfile::tempfile()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env(marked::SCHEDULER, mark)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .process_group(0);
    tie(&mut command, Signal::TERM);
    Ok((command.spawn()?, log))
}

impl Scheduler {
    /// Ends it as a user would, and less politely in the end. Returns what went wrong.
    fn end(&mut self, patience: Duration) -> Option<String> {
        let group = Pid::from_child(&self.child);
        let mut note = None;
        for signal in [Signal::INT, Signal::TERM] {
            let _ = kill_process_group(group, signal);
            if self.ends_within(patience / 2) {
                return note;
            }
            note = Some(format!(
                "it did not end {patience:.0?} after a signal: killed"
            ));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        note
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        let began = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(None) if began.elapsed() < limit => std::thread::sleep(LOOK_EVERY),
                Ok(None) => return false,
                // A child that cannot be waited for is none of ours any more.
                Ok(Some(_)) | Err(_) => return true,
            }
        }
    }

    /// The end of what it printed, as the rest of a message.
    fn tail(&self) -> String {
        // Read at a place: the file's own offset is where the scheduler writes.
        let length = self.log.metadata().map_or(0, |file| file.len());
        let from = length.saturating_sub(TAIL_BYTES);
        let mut bytes = vec![0; (length - from) as usize];
        let read = self.log.read_exact_at(&mut bytes, from);
        let text = String::from_utf8_lossy(&bytes);
        match (read, tail::of(&text)) {
            (Ok(()), Some(said)) => format!("\nit said:\n{said}"),
            _ => "; it said nothing".into(),
        }
    }
}
