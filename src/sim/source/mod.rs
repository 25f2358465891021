// SPDX-License-Identifier: GPL-2.0-only
//! Where a workload comes from: a built-in one by name, a file of the user's own, or a trace.

mod file;
mod lines;
mod marks;
pub mod trace;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow};

use super::hardware::Hardware;
use super::program::Plan;
use super::workload::Workload;
use crate::output::is_dash;
use crate::policy::record::Record;
use crate::text;
use crate::trace_file::{self, name_of};

pub use file::parse;
pub use lines::FileError;

/// A workload as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    BuiltIn(Workload),
    /// `file:PATH`: programs in the format of [`file`]; `-` is standard input.
    File(PathBuf),
    /// `trace:PATH`: what `--trace` has recorded; `-` as above.
    Trace(PathBuf),
}

/// What is to run, and what whoever reads the result has to know of it.
#[derive(Debug)]
pub struct Loaded {
    pub plan: Plan,
    pub note: Option<String>,
}

impl Source {
    /// What is to run on the machine.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it should be; the message has the line.
    pub fn load(&self, hw: &Hardware) -> Result<Loaded> {
        let (plan, note) = match self {
            Self::BuiltIn(workload) => (workload.plan(hw), None),
            Self::File(path) => {
                let plan = parse(&read(path)?, hw);
                let plan = plan.map_err(|error| anyhow!("{}, {error}", name_of(path)))?;
                (plan, None)
            }
            Self::Trace(path) => {
                let traced = trace::plan(records(path)?, hw);
                let traced = traced.map_err(|why| anyhow!("{}: {why}", name_of(path)))?;
                let note = format!("{self}: {}", traced.note());
                (traced.plan, Some(note))
            }
        };
        Ok(Loaded { plan, note })
    }
}

/// The records of a trace.
fn records(path: &Path) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    trace_file::read(path, |_, record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

/// More is no workload that a person has written.
const LARGEST: u64 = 16 << 20;

fn read(path: &Path) -> Result<String> {
    let text = match is_dash(path) {
        true => text::read(std::io::stdin().lock(), LARGEST),
        false => File::open(path).and_then(|file| text::read(file, LARGEST)),
    };
    text.with_context(|| format!("cannot read {}", name_of(path)))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(workload) => workload.fmt(f),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Trace(path) => write!(f, "trace:{}", path.display()),
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((kind @ ("file" | "trace"), "")) => Err(format!("expected {kind}:PATH")),
            Some(("file", path)) => Ok(Self::File(path.into())),
            Some(("trace", path)) => Ok(Self::Trace(path.into())),
            _ => text.parse().map(Self::BuiltIn),
        }
    }
}

/// The other sources, for the long help.
pub fn help() -> &'static str {
    "  file:PATH   programs of your own (docs/simulation.md); - for standard input
  trace:PATH  tasks as `scx_ballast --trace PATH` recorded them; - for standard input\n"
}
