// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with a description.

use super::preset;
use crate::machine::MachineError;
use std::fmt::{self, Display};
use thiserror::Error;

/// Why a description makes no machine.
#[derive(Debug, Error)]
pub enum DescribeError {
    /// Neither a preset nor a compact form nor a file.
    #[error("no machine and no file is called {name:?}\n{}", help())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The compact form is not one.
    #[error("{found}: expected {expected}, as in {}", super::compact::EXAMPLE)]
    Compact {
        /// What is there, in its own words.
        found: String,
        /// What should be there.
        expected: String,
    },
    /// The file, or standard input, could not be read.
    #[error("cannot read {name}")]
    Read {
        /// The file.
        name: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A line of the text is not understood.
    #[error("{name}, {error}")]
    Text {
        /// The file.
        name: String,
        /// The line and what is wrong with it.
        error: TextError,
    },
    /// It was understood, and no such machine can be.
    #[error("{name} describes no machine that scx_ballast could run on")]
    Machine {
        /// The file or the words.
        name: String,
        /// What is wrong with the machine.
        source: MachineError,
    },
    /// The table of presets in the program itself is wrong.
    #[error("preset {id}: {error}")]
    Preset {
        /// Which.
        id: String,
        /// What is wrong with it.
        error: String,
    },
}

/// A line that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: found {found}, expected {expected}")]
pub struct TextError {
    /// Counted from 1; one more than there are if something is missing at the end.
    pub line: usize,
    /// What is there.
    pub found: String,
    /// What should be there.
    pub expected: String,
}

impl TextError {
    pub(super) fn new(line: usize, found: impl Display, expected: impl Display) -> Self {
        Self {
            line,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }
}

/// The user's own text in an error: quoted, control characters escaped, no longer than a line.
pub(super) struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 60;
        match self.0.char_indices().nth(LONGEST) {
            Some((end, _)) => write!(f, "{:?}...", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// The forms of a description, and the presets with what they are.
pub fn help() -> String {
    let presets = preset::presets().unwrap_or_default();
    let width = presets.iter().map(|preset| preset.id.len()).max();
    let width = width.unwrap_or(0);
    let presets: String = presets
        .iter()
        .map(|preset| format!("\n  {:width$}  {}", preset.id, preset.description))
        .collect();
    format!(
        "A machine is one of:\n  \
         a short form, as {}\n  \
         a file (or - for standard input) with what `numactl -H` prints,\n  \
         or `lscpu -p=CPU,CORE,SOCKET,NODE,CACHE`\n\
         or one of these:{presets}",
        super::compact::EXAMPLE
    )
}
