// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with a suite, and where.

use std::io;
use std::ops::Range;

use thiserror::Error;

/// Why there is no suite.
#[derive(Debug, Error)]
pub enum SuiteError {
    #[error("there is no built-in suite {name:?}; there are {}", known.join(", "))]
    Unknown { name: String, known: Vec<String> },
    /// Its text says all; with a source it would be said twice.
    #[error("cannot read the suite {file}: {error}")]
    Read { file: String, error: io::Error },
    #[error("the suite {file} is larger than {most} bytes; is it one?")]
    TooLarge { file: String, most: u64 },
    #[error("{file}:{line}: {problem}")]
    Bad {
        file: String,
        /// From 1.
        line: usize,
        problem: Problem,
    },
}

/// What is wrong at a place of a suite file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// Not TOML, a key that is missing or not known, a value of another type.
    #[error("{0}")]
    Syntax(String),
    #[error("{0}: expected letters, digits, '.', '_' and '-'")]
    Name(String),
    #[error("{0} stands for two benchmarks of this suite: give one another name")]
    Duplicate(String),
    #[error("a suite without a benchmark")]
    Empty,
    #[error("{found} is no {kind} of this suite, {}", expected(known))]
    Reference {
        kind: &'static str,
        found: String,
        known: Vec<String>,
    },
    #[error("{found} is no value that is known here, expected one of {}", known.join(", "))]
    Value { found: String, known: Vec<String> },
    #[error("{0}")]
    Template(String),
    #[error("{text:?}: {why}")]
    Expression { text: String, why: String },
    #[error("{0}")]
    Pattern(String),
    #[error("{0} primary metrics, a suite may have {1}: with more, chance alone finds differences")]
    Primaries(usize, usize),
    #[error("{0}")]
    Contradiction(&'static str),
}

fn expected(known: &[String]) -> String {
    match known {
        [] => "which has none".into(),
        known => format!("expected one of {}", known.join(", ")),
    }
}

/// A problem and the bytes of the file that it is about.
pub(super) type At = (Range<usize>, Problem);

impl SuiteError {
    pub(super) fn at(file: &str, text: &str, (span, problem): At) -> Self {
        let before = text.as_bytes().iter().take(span.start);
        SuiteError::Bad {
            file: file.to_owned(),
            line: before.filter(|byte| **byte == b'\n').count() + 1,
            problem,
        }
    }
}
