// SPDX-License-Identifier: GPL-2.0-only
//! Where a workload comes from: a built-in one by name, a file of the user's own, or a trace.

mod file;
mod lines;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow};

use super::hardware::Hardware;
use super::program::Plan;
use super::workload::Workload;

pub use file::parse;
pub use lines::FileError;

/// A workload as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    BuiltIn(Workload),
    /// `file:PATH`: programs in the format of [`file`].
    File(PathBuf),
}

impl Source {
    /// What is to run on the machine.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it should be; the message has the line.
    pub fn plan(&self, hw: &Hardware) -> Result<Plan> {
        match self {
            Self::BuiltIn(workload) => Ok(workload.plan()),
            Self::File(path) => {
                let text = read(path)?;
                parse(&text, hw).map_err(|error| anyhow!("{}, {error}", path.display()))
            }
        }
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(workload) => workload.fmt(f),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("file", "")) => Err("expected file:PATH".into()),
            Some(("file", path)) => Ok(Self::File(path.into())),
            _ => text.parse().map(Self::BuiltIn),
        }
    }
}

/// The other sources, for the long help.
pub fn help() -> &'static str {
    "  file:PATH  programs of your own (docs/simulation.md)\n"
}
