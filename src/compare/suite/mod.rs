// SPDX-License-Identifier: GPL-2.0-only
//! Suites: benchmarks as data.
//!
//! A suite is a TOML file, built in ([`Suite::builtin`]) or the user's own ([`Suite::read`]);
//! docs/suites.md describes the format. On a machine ([`Host`]) it resolves to the benchmarks that can
//! run there and, one line each, to those that cannot and what would help. What they print becomes
//! numbers in [`extract`].
//!
//! | module | concern |
//! |---|---|
//! | `file` | the file's shape |
//! | `check` | whether it makes sense, whatever the machine |
//! | `resolve` | from a suite to commands on a machine |
//! | `expr`, `template` | numbers and commands that depend on the machine |
//! | `host` | what is asked of a machine |
//! | `filter` | which benchmarks the user wants |
//! | `extract` | from output to numbers |
//!
//! What always holds of a suite: names of benchmarks are unique, patterns compile and have a group,
//! templates name nothing that is unknown, and no more than five primary metrics come out of it.

mod check;
mod error;
mod expr;
mod extract;
mod file;
mod filter;
mod host;
mod resolve;
mod template;

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use super::record::Metric;
use crate::text;
use expr::Expr;
use file::Need;
use template::Template;

pub use error::{Problem, SuiteError};
pub use extract::{ExtractError, extract, placement};
pub use filter::Filter;
pub use host::{Host, VALUES};
pub use resolve::Resolved;

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("builtin/", $name, ".toml")))),*]
    };
}

const BUILTIN: [(&str, &str); 11] = builtin![
    "quick",
    "hackbench",
    "schbench",
    "tbench",
    "stream",
    "autonuma",
    "locality",
    "nas",
    "sysbench",
    "stress-ng",
    "perf-sched",
];

/// The largest suite file, in bytes.
const LARGEST: u64 = 1 << 20;

/// A suite that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    pub name: String,
    /// One line for people.
    pub description: String,
    entries: Vec<Entry>,
}

/// A benchmark, or with a scale several.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    name: String,
    command: Template,
    needs: Vec<Need>,
    timeout_s: u64,
    bounds: Vec<(Bound, Expr)>,
    scale: Option<Scale>,
    /// Primary as they are at the scale's primary values.
    metrics: Vec<Metric>,
    placement: Option<String>,
}

/// What a machine is checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    LeastNodes,
    LeastCpus,
    LeastMemory,
    LeastOpenFiles,
    BelowNodes,
    BelowCpus,
    BelowMemory,
}

/// What makes several benchmarks of an entry.
#[derive(Debug, Clone, PartialEq)]
enum Scale {
    Words {
        name: String,
        words: Vec<String>,
        primary_at: Vec<String>,
    },
    Numbers {
        name: String,
        values: Values,
        primary_at: Vec<Expr>,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Values {
    List(Vec<Expr>),
    /// From, twice that, and so on up to the last one that is not larger than the second.
    Doubling(Expr, Expr),
}

impl Scale {
    fn name(&self) -> &str {
        match self {
            Scale::Words { name, .. } | Scale::Numbers { name, .. } => name,
        }
    }

    /// At how many values primary metrics are primary.
    fn primaries(&self) -> usize {
        match self {
            Scale::Words { primary_at, .. } => primary_at.len(),
            Scale::Numbers { primary_at, .. } => primary_at.len(),
        }
    }
}

impl Suite {
    /// The built-in suite `name`.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn builtin(name: &str) -> Result<Suite, SuiteError> {
        let text = BUILTIN.iter().find(|(other, _)| *other == name);
        let (_, text) = text.ok_or_else(|| SuiteError::Unknown {
            name: name.to_owned(),
            known: Suite::builtin_names().map(str::to_owned).collect(),
        })?;
        Suite::parse(&format!("built-in suite {name}"), text)
    }

    /// Names of the built-in suites, `quick` first.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// The suite in a file.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is no suite.
    pub fn read(path: &Path) -> Result<Suite, SuiteError> {
        let file = path.display().to_string();
        match File::open(path).and_then(|opened| text::read(opened, LARGEST)) {
            Ok(text) => Suite::parse(&file, &text),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(SuiteError::TooLarge {
                file,
                most: LARGEST,
            }),
            Err(error) => Err(SuiteError::Read { file, error }),
        }
    }

    /// The suite that `text` describes; errors call it `file`.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(file: &str, text: &str) -> Result<Suite, SuiteError> {
        check::suite(text).map_err(|at| SuiteError::at(file, text, at))
    }
}
