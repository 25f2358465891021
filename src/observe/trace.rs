// SPDX-License-Identifier: GPL-2.0-only
//! `--trace FILE`: decisions as JSON lines.
//!
//! A thread of its own writes, so that a slow disk never holds up a tick; when it cannot keep up,
//! records are left out and counted, in the file too. An error of the file ends the trace with a
//! warning and nothing else.
//!
//! Of ticks only those are written in which something moves or in which the outcome for some pair
//! of nodes is another one than in the tick before.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, Sender, bounded};

use crate::policy::balance::{Decisions, Outcome};
use crate::policy::observation::Observation;
use crate::policy::record::{ForkRecord, Header, Record, TickRecord};

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
        let file = File::create(path)
            .with_context(|| format!("cannot write the trace to {}", path.display()))?;
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
        })
    }

    /// What follows is on this machine, by these limits.
    pub fn begin(&mut self, header: Header) {
        self.outcomes.clear();
        self.send(Record::Header(header));
    }

    /// A fork placement.
    pub fn fork(&mut self, fork: ForkRecord) {
        self.send(Record::Fork(fork));
    }

    /// So many fork placements since the last header have not reached us.
    pub fn lost(&mut self, forks: u64) {
        if forks > 0 {
            self.send(Record::Lost { forks });
        }
    }

    /// A tick; written if it is worth it.
    pub fn tick(&mut self, observation: &Observation, decisions: &Decisions) {
        let outcomes = || {
            let verdicts = decisions.verdicts.iter();
            verdicts.map(|verdict| (verdict.from, verdict.to, verdict.outcome))
        };
        let same = outcomes().eq(self.outcomes.iter().copied());
        if decisions.moves.is_empty() && same {
            return;
        }
        self.outcomes.clear();
        self.outcomes.extend(outcomes());
        self.send(Record::Tick(TickRecord {
            observation: observation.clone(),
            decisions: decisions.clone(),
        }));
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

impl Drop for Trace {
    fn drop(&mut self) {
        drop(self.records.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}
