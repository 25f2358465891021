// SPDX-License-Identifier: GPL-2.0-only
//! `--trace FILE`: decisions as JSON lines.
//!
//! A thread of its own writes, so that a slow disk never holds up a tick; when it cannot keep up,
//! records are left out and counted, in the file too. An error of the file ends the trace with a
//! warning and nothing else.
//!
//! Of ticks only those are written in which something moves, in which the outcome for some pair of nodes is
//! another one than in the tick before, or in which a task that runs stays where it is for another reason.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, bounded};

use crate::policy::balance::{Decisions, Outcome};
use crate::policy::locality::decide::MIN_BUSY;
use crate::policy::locality::record::{BroughtRecord, LocalityRecord};
use crate::policy::locality::view::{Stay, Steps, View};
use crate::policy::observation::Observation;
use crate::policy::record::{Header, Record, TickRecord};

/// Records that may wait to be written.
const BACKLOG: usize = 16_384;

/// The open trace. Dropping it writes what is left and closes the file.
pub struct Trace {
    records: Option<Sender<Record>>,
    writer: Option<JoinHandle<()>>,
    /// Left out since the last record that was not.
    lost: u64,
    /// Of the last tick, by pair of nodes.
    outcomes: Vec<(u8, u8, Outcome)>,
    /// Of the last tick with locality, by thread: why those that run stay.
    stays: Vec<(i32, Stay)>,
}

/// Write records until the last sender is gone.
fn write_all(file: File, records: &Receiver<Record>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    while let Ok(record) = records.recv() {
        serde_json::to_writer(&mut out, &record)?;
        out.write_all(b"\n")?;
        if records.is_empty() {
            out.flush()?;
        }
    }
    out.flush()
}

impl Trace {
    /// Begin a new trace in `path`, which is overwritten.
    pub fn create(path: &Path) -> Result<Self> {
        Self::write_to(path, File::create(path))
    }

    /// Go on with the trace in `path`; what was written stays.
    pub fn go_on(path: &Path) -> Result<Self> {
        Self::write_to(path, File::options().append(true).create(true).open(path))
    }

    fn write_to(path: &Path, file: io::Result<File>) -> Result<Self> {
        let file = file.with_context(|| format!("cannot write the trace to {}", path.display()))?;
        let (sender, receiver) = bounded(BACKLOG);
        let name = path.display().to_string();
        let writer = std::thread::spawn(move || {
            if let Err(err) = write_all(file, &receiver) {
                log::warn!("the trace ends here: {name}: {err}");
            }
        });
        Ok(Self {
            records: Some(sender),
            writer: Some(writer),
            lost: 0,
            outcomes: Vec::new(),
            stays: Vec::new(),
        })
    }

    /// What follows is on this machine, by these limits.
    pub fn begin(&mut self, header: Header) {
        self.outcomes.clear();
        self.stays.clear();
        self.send(Record::Header(header));
    }

    /// A fork placement, or the end of a task.
    pub fn task(&mut self, record: Record) {
        self.send(record);
    }

    /// Memory that has followed tasks.
    pub fn brought(&mut self, brought: BroughtRecord) {
        self.send(Record::Brought(brought));
    }

    /// So many fork placements since the last header have not reached us.
    pub fn lost(&mut self, forks: u64) {
        if forks > 0 {
            self.send(Record::Lost { forks });
        }
    }

    /// A tick; written if it is worth it. `located`: what locality knew and decided.
    pub fn tick(
        &mut self,
        observation: &Observation,
        decisions: &Decisions,
        located: Option<(&View, Option<&Steps>)>,
    ) {
        let steps = located.and_then(|(_, steps)| steps);
        let moves = !decisions.moves.is_empty() || steps.is_some_and(|s| !s.steps.is_empty());
        let other_outcomes = self.note_outcomes(decisions);
        let other_stays = steps.is_some_and(|steps| self.note_stays(observation, steps));
        if moves || other_outcomes || other_stays {
            self.send(Record::Tick(TickRecord {
                observation: observation.clone(),
                decisions: decisions.clone(),
                locality: located.map(|(view, steps)| LocalityRecord {
                    view: view.clone(),
                    steps: steps.cloned(),
                }),
            }));
        }
    }

    /// Remember the outcomes; whether they are others than before.
    fn note_outcomes(&mut self, decisions: &Decisions) -> bool {
        let verdicts = decisions.verdicts.iter();
        let outcomes = verdicts.map(|verdict| (verdict.from, verdict.to, verdict.outcome));
        replace(&mut self.outcomes, outcomes)
    }

    /// The same for the reasons to stay. Those that hardly run and those of whom nothing is known come and
    /// go, and are left out.
    fn note_stays(&mut self, observation: &Observation, steps: &Steps) -> bool {
        let task = |&(task, stay): &(u32, Stay)| (&observation.tasks[task as usize], stay);
        let stays = steps.stays.iter().map(task);
        let stays = stays.filter(|(task, stay)| task.busy >= MIN_BUSY && *stay != Stay::Unknown);
        replace(&mut self.stays, stays.map(|(task, stay)| (task.pid, stay)))
    }

    fn send(&mut self, record: Record) {
        let Some(records) = &self.records else { return };
        if self.lost > 0 && records.try_send(Record::Lost { forks: self.lost }).is_ok() {
            self.lost = 0;
        }
        if records.try_send(record).is_err() {
            self.lost += 1;
        }
    }
}

fn same<T: PartialEq>(mut new: impl Iterator<Item = T>, old: &[T]) -> bool {
    old.iter().all(|one| new.next().as_ref() == Some(one)) && new.next().is_none()
}

/// Replace what `old` holds; whether it was something else.
fn replace<T: PartialEq>(old: &mut Vec<T>, new: impl Iterator<Item = T> + Clone) -> bool {
    if same(new.clone(), old) {
        return false;
    }
    old.clear();
    old.extend(new);
    true
}

impl Drop for Trace {
    fn drop(&mut self) {
        drop(self.records.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}
