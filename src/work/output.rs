// SPDX-License-Identifier: GPL-2.0-only
//! What a workload prints: details for people, then one line for programs.

use std::fmt::{self, Display, Write as _};

use anyhow::Result;

use crate::output;

/// The value of a key that this machine does not let us measure.
pub const NOT_AVAILABLE: &str = "not-available";

/// Standard output, and whether details are wanted.
pub struct Output {
    verbose: bool,
}

impl Output {
    pub fn new(verbose: bool) -> Self {
        Output { verbose }
    }

    /// Prints `text` and ends the line.
    pub fn line(&mut self, text: &str) -> Result<()> {
        output::print(text)
    }

    /// Prints the line that `text` makes, if details are wanted.
    pub fn detail(&mut self, text: impl FnOnce() -> String) -> Result<()> {
        match self.verbose {
            true => self.line(&text()),
            false => Ok(()),
        }
    }
}

/// `result NAME KEY=VALUE ...`: what a workload found, in one line.
///
/// Values never contain white space; several values of one key are separated by commas. Keys are
/// added over time, never renamed or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultLine {
    text: String,
}

impl ResultLine {
    /// The line of the workload `name`, so far without values.
    pub fn new(name: &str) -> Self {
        ResultLine {
            text: format!("result {name}"),
        }
    }

    /// Adds `key=value`.
    pub fn with(mut self, key: &str, value: impl Display) -> Self {
        // Writing to a String cannot fail.
        let _ = write!(self.text, " {key}={value}");
        self
    }

    /// Adds `key=value` with `digits` digits behind the point.
    pub fn with_rounded(self, key: &str, value: f64, digits: usize) -> Self {
        self.with(key, format_args!("{value:.digits$}"))
    }

    /// The same for a value that may be missing.
    pub fn with_measured(self, key: &str, value: Option<f64>, digits: usize) -> Self {
        match value {
            Some(value) => self.with_rounded(key, value, digits),
            None => self.with(key, NOT_AVAILABLE),
        }
    }

    /// Adds `key=value,value,...`.
    pub fn with_list<T: Display>(self, key: &str, values: impl IntoIterator<Item = T>) -> Self {
        let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
        self.with(key, values.join(","))
    }
}

impl Display for ResultLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_keys_and_values() {
        let line = ResultLine::new("hogs")
            .with("cpus", "0-3")
            .with_rounded("error", 0.456, 1)
            .with_list("nice", [0, -5]);
        assert_eq!(line.to_string(), "result hogs cpus=0-3 error=0.5 nice=0,-5");
    }
}
