// SPDX-License-Identifier: GPL-2.0-only
//! The flags of `compare report`, and where a report goes.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::{Format, Style, source};
use crate::compare::analysis::{Analysis, analyse};
use crate::compare::record::Record;

/// Columns of a table that does not go to a terminal.
const COLUMNS: usize = 100;

/// Render the report of a comparison, or of the same comparison on several machines, again.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Results files, one for each machine, or JSON reports.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub look: Look,
}

/// What a report looks like and where it goes; for every command that ends in one.
#[derive(Debug, Clone, Args)]
pub struct Look {
    /// How to write the report.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Write the report to FILE instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Add minimum, maximum, spread, secondary effects and how to read them (table and Markdown).
    #[arg(long, short)]
    pub verbose: bool,
}

/// Reads the files, analyses them together, and writes the report.
pub fn run(args: &ReportArgs) -> Result<()> {
    let (mut names, mut machines) = (Vec::new(), Vec::new());
    for file in &args.files {
        for machine in source::read(file)? {
            names.push(machine.name);
            machines.push(machine.records);
        }
    }
    let analysis = analyse(&machines)?;
    args.look.write(&machines, &names, &analysis)
}

impl Look {
    fn style(&self) -> Style {
        Style {
            format: self.format,
            verbose: self.verbose,
            width: match self.output {
                Some(_) => COLUMNS,
                None => terminal_columns(),
            },
        }
    }

    /// Writes the report where it belongs.
    fn write(&self, machines: &[Vec<Record>], names: &[String], analysis: &Analysis) -> Result<()> {
        let text = super::render(self.style(), machines, names, analysis)?;
        match &self.output {
            Some(file) => unless_closed(fs::write(file, text))
                .with_context(|| format!("cannot write {}", file.display())),
            None => {
                let mut stdout = io::stdout().lock();
                let written = stdout
                    .write_all(text.as_bytes())
                    .and_then(|()| stdout.flush());
                unless_closed(written).context("cannot write to standard output")
            }
        }
    }
}

/// Who closes a pipe, as `head` does, has read enough; that is no failure of the report.
fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Between 80 and 120, whatever the terminal says.
fn terminal_columns() -> usize {
    match (io::stdout().is_terminal(), terminal_size::terminal_size()) {
        (true, Some((terminal_size::Width(columns), _))) => usize::from(columns).clamp(80, 120),
        _ => COLUMNS,
    }
}
