// SPDX-License-Identifier: GPL-2.0-only
//! Carrying out a plan: for each run attach, settle, look, run, look again, detach, write down.
//!
//! - A run that does not count is written down as such and repeated, up to [`TRIES`] times; then it is
//!   given up, and the comparison goes on. A pair of arm and benchmark that was given up has one try in
//!   each later block.
//! - An arm that cannot be put in charge from the start ends the comparison: most likely its flags are
//!   wrong, and hours of the other arms would be for nothing.
//! - Nothing of a run is left when the next begins.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::attach::{AttachError, Attached, Patience};
use super::catalogue::{self, Measured};
use super::evidence::environment::NUMA_BALANCING;
use super::evidence::{MigrationCounter, Nodes, Observer};
use super::keeper::Keeper;
use super::order::{self, Slot};
use super::process::{self, Done, End};
use super::progress::Progress;
use super::record::{Arm, Benchmark, Discarded, Evidence, Fact, Plan, Record, Run};
use super::results::Writer;
use super::roots::Roots;
use super::stop::Stop;
use super::{tail, utc};

/// How often a run is tried.
pub const TRIES: u32 = 3;

/// How carrying out a plan ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every run was made or given up.
    Complete { given_up: usize },
    /// The user wanted it.
    Stopped,
}

/// What all runs of a comparison share.
pub struct Runner<'a> {
    pub plan: &'a Plan,
    pub roots: &'a Roots,
    pub nodes: &'a Nodes,
    pub migrations: &'a Fact<MigrationCounter>,
    /// Of the comparison's processes.
    pub mark: &'a str,
    /// What `kernel.numa_balancing` was, if arms change it.
    pub numa_balancing: Option<String>,
    pub patience: Patience,
    pub stop: &'a Stop,
    pub keeper: &'a mut Keeper,
    /// Labels of arms that were found to serve no statistics; they are not waited for again.
    pub silent: BTreeSet<String>,
    /// Labels of arms whose doubt was told.
    pub doubted: BTreeSet<String>,
}

/// Why there is no run.
enum Failure {
    /// Try again.
    Again(String),
    /// The arm could not be put in charge.
    NotAttached(String),
    Stopped,
    /// No run is possible any more.
    Fatal(anyhow::Error),
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Failed(why) => Failure::NotAttached(why),
            AttachError::Hopeless(why) => Failure::Fatal(anyhow!(why)),
            AttachError::Stopped => Failure::Stopped,
        }
    }
}

/// What one try leaves.
struct Made {
    at: String,
    measured: Measured,
    evidence: Evidence,
}

impl Runner<'_> {
    /// Makes all runs of the plan that `records` do not have.
    pub fn run(&mut self, records: &[Record], writer: &mut Writer) -> Result<Outcome> {
        let plan = self.plan;
        let made = made(records);
        let all = order::all(
            plan.seed,
            plan.blocks,
            plan.arms.len(),
            plan.benchmarks.len(),
        );
        let missing = |slot: &&Slot| !made.contains(&key(slot));
        let todo: Vec<Slot> = all.iter().filter(missing).copied().collect();
        let mut left = vec![0; plan.benchmarks.len()];
        todo.iter().for_each(|slot| left[slot.benchmark] += 1);
        let mut progress = Progress::new(left, all.len() - todo.len());
        let mut works: BTreeSet<usize> = made.iter().map(|&(_, arm, _)| arm).collect();
        let mut given_up = BTreeSet::new();
        let mut count = 0;
        for slot in todo {
            progress.begin(&format!(
                "block {}, {} by {}",
                slot.block + 1,
                plan.benchmarks[slot.benchmark].name,
                plan.arms[slot.arm].label
            ));
            let pair = (slot.arm, slot.benchmark);
            let tries = if given_up.contains(&pair) { 1 } else { TRIES };
            match self.repeat(slot, tries, works.contains(&slot.arm), writer, &progress) {
                Ok(true) => {
                    works.insert(slot.arm);
                    given_up.remove(&pair);
                }
                Ok(false) => {
                    given_up.insert(pair);
                    count += 1;
                }
                Err(Failure::Stopped) => return Ok(Outcome::Stopped),
                Err(Failure::Fatal(error)) => return Err(error),
                Err(Failure::Again(why) | Failure::NotAttached(why)) => bail!(why),
            }
            progress.end(slot.benchmark);
        }
        progress.finish();
        Ok(Outcome::Complete { given_up: count })
    }

    /// Tries a run until it counts; false if it was given up.
    fn repeat(
        &mut self,
        slot: Slot,
        tries: u32,
        works: bool,
        writer: &mut Writer,
        progress: &Progress,
    ) -> Result<bool, Failure> {
        let fatal = |error| Failure::Fatal(anyhow::Error::new(error));
        let (arm, benchmark) = (
            &self.plan.arms[slot.arm],
            &self.plan.benchmarks[slot.benchmark],
        );
        for left in (0..tries).rev() {
            let at = utc::now();
            let (why, attached) = match self.once(arm, benchmark, progress) {
                Ok(made) => {
                    writer.append(&record(slot, made)).map_err(fatal)?;
                    return Ok(true);
                }
                Err(Failure::Again(why)) => (why, true),
                Err(Failure::NotAttached(why)) => (why, false),
                Err(other) => return Err(other),
            };
            let discarded = Discarded {
                block: slot.block,
                arm: slot.arm,
                benchmark: slot.benchmark,
                at,
                reason: why.clone(),
            };
            writer
                .append(&Record::Discarded(discarded))
                .map_err(fatal)?;
            if left == 0 && !attached && !works {
                let label = &arm.label;
                return Err(Failure::Fatal(anyhow!(
                    "{label} cannot be put in charge: {why}"
                )));
            }
            progress.note(&format!(
                "{} by {} does not count, {}: {why}",
                benchmark.name,
                arm.label,
                if left == 0 {
                    "and is given up"
                } else {
                    "it is repeated"
                }
            ));
        }
        Ok(false)
    }

    /// One attach, one execution, one detach.
    fn once(
        &mut self,
        arm: &Arm,
        benchmark: &Benchmark,
        progress: &Progress,
    ) -> Result<Made, Failure> {
        if self.stop.is_set() {
            return Err(Failure::Stopped);
        }
        if !self.keeper.is_there() {
            let why = "the process that restores the machine after a crash was killed";
            return Err(Failure::Fatal(anyhow!(why)));
        }
        let setting = self.set_numa_balancing(arm).map_err(Failure::Fatal)?;
        let settle = Duration::from_millis(self.plan.settle_ms);
        let mut patience = self.patience;
        if self.silent.contains(&arm.label) {
            patience.statistics = Duration::ZERO;
        }
        let mut attached =
            Attached::start(arm, self.roots, self.mark, patience, settle, self.stop)?;
        if attached.has_statistics() == Some(false) {
            self.silent.insert(arm.label.clone());
        }
        if let Some(doubt) = attached.doubt(arm)
            && self.doubted.insert(arm.label.clone())
        {
            progress.note(&doubt);
        }
        let made = self.measure(&mut attached, benchmark, setting.as_deref());
        let note = attached.end()?;
        if let Some(note) = note {
            progress.note(&format!("{}: {note}", arm.label));
        }
        made
    }

    fn measure(
        &self,
        attached: &mut Attached<'_>,
        benchmark: &Benchmark,
        setting: Option<&str>,
    ) -> Result<Made, Failure> {
        let at = utc::now();
        if let Some(why) = attached.trouble() {
            return Err(Failure::Again(why));
        }
        let identity = attached.identity.clone();
        let limit = Duration::from_secs(benchmark.timeout_s);
        let observer = Observer::start(self.roots, self.nodes, self.migrations, attached.watched());
        let done = process::run(&benchmark.command, self.mark, limit, self.stop)
            .map_err(Failure::Fatal)?;
        let evidence = observer.finish(&done, identity);
        if done.end == End::Stopped {
            return Err(Failure::Stopped);
        }
        // Before the benchmark's own troubles: they may well follow from this one.
        if let Some(why) = attached.trouble() {
            return Err(Failure::Again(why));
        }
        let now = self.roots.read(NUMA_BALANCING);
        if let (Some(wanted), Some(now)) = (setting, now.known())
            && wanted != now
        {
            let why = format!("kernel.numa_balancing was {wanted} and became {now}");
            return Err(Failure::Again(why));
        }
        judge(&done, limit).map_err(Failure::Again)?;
        let measured = catalogue::measure(benchmark, &done.stdout, &done.stderr);
        let measured =
            measured.map_err(|error| Failure::Again(format!("{error:#}{}", shown(&done))))?;
        Ok(Made {
            at,
            measured,
            evidence,
        })
    }

    /// What `kernel.numa_balancing` is during the run, if any arm changes it.
    fn set_numa_balancing(&self, arm: &Arm) -> Result<Option<String>> {
        let Some(original) = &self.numa_balancing else {
            return Ok(None);
        };
        let wanted = match arm.numa_balancing {
            None => original.as_str(),
            Some(true) => "1",
            Some(false) => "0",
        };
        let path = self.roots.path(NUMA_BALANCING);
        fs::write(&path, wanted)
            .with_context(|| format!("cannot set {} to {wanted}", path.display()))?;
        Ok(Some(wanted.to_string()))
    }
}

/// Block, arm and benchmark of a run: there is one of each.
pub type Key = (u32, usize, usize);

pub fn key(slot: &Slot) -> Key {
    (slot.block, slot.arm, slot.benchmark)
}

/// The runs that were made and count.
pub fn made(records: &[Record]) -> BTreeSet<Key> {
    records.iter().filter_map(key_of).collect()
}

/// The run that a record is of, if it counts.
fn key_of(record: &Record) -> Option<Key> {
    match record {
        Record::Run(run) => Some((run.block, run.arm, run.benchmark)),
        Record::Plan(_) | Record::Discarded(_) => None,
    }
}

fn record(slot: Slot, made: Made) -> Record {
    Record::Run(Box::new(Run {
        block: slot.block,
        position: slot.position,
        arm: slot.arm,
        benchmark: slot.benchmark,
        at: made.at,
        values: made.measured.values,
        placement: made.measured.placement,
        evidence: made.evidence,
    }))
}

/// Whether a command ended as a benchmark should.
fn judge(done: &Done, limit: Duration) -> Result<(), String> {
    let what = match done.end {
        End::Exited(status) if status.success() => return Ok(()),
        End::Exited(status) => format!("the benchmark failed ({status})"),
        End::TimedOut => format!("the benchmark took longer than {} s", limit.as_secs()),
        End::TooMuch => format!(
            "the benchmark printed more than {} bytes",
            process::MAX_OUTPUT
        ),
        End::Stopped => "interrupted".into(),
    };
    Err(what + &shown(done))
}

/// The end of what a benchmark printed, as the rest of a message.
fn shown(done: &Done) -> String {
    let both = [&done.stdout, &done.stderr].map(|text| tail::of(text));
    let both: Vec<String> = both.into_iter().flatten().collect();
    match tail::of(&both.join("\n")) {
        None => "; it printed nothing".into(),
        Some(printed) => format!("\nit printed:\n{printed}"),
    }
}
