// SPDX-License-Identifier: GPL-2.0-only
//! The flags of `compare report`, and where a report goes.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::{Format, Style, source};
use crate::cli::UsageError;
use crate::compare::analysis::{Analysis, analyse};
use crate::compare::destination::{self, DestinationError};
use crate::compare::record::Record;
use crate::output;

/// What cannot be read twice, such as a pipe, has so many bytes at most: devices have no end.
const MOST_COPIED: u64 = 256 << 20;
/// Columns of a table that does not go to a terminal.
const COLUMNS: usize = 100;

/// Render the report of a comparison, or of the same comparison on several machines, again.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Results files, one for each machine, or JSON reports; - is standard input.
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
    /// Write the report to FILE instead of standard output, which - is.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Add minimum, maximum, spread, secondary effects and how to read them (table and Markdown).
    #[arg(long, short)]
    pub verbose: bool,
}

/// Reads the files, analyses them together, and writes the report.
pub fn run(args: &ReportArgs) -> Result<()> {
    if let Some(output) = args.look.file() {
        let inputs: Vec<&Path> = args.files.iter().map(|file| real(file)).collect();
        check_output(output, &inputs)?;
    }
    let (mut names, mut machines) = (Vec::new(), Vec::new());
    for file in &args.files {
        let kept = keep(file)?;
        let copy = kept.as_ref().map(name_of);
        let read = copy.as_deref().unwrap_or(real(file));
        let found = source::read(read);
        let found = match copy {
            Some(_) => found.with_context(|| format!("{} cannot be used", shown(file))),
            None => found,
        };
        for machine in found? {
            // What a copy is called says nothing.
            let is_own = Path::new(&machine.name) == read;
            names.push(if is_own { shown(file) } else { machine.name });
            machines.push(machine.records);
        }
    }
    let analysis = analyse(&machines)?;
    args.look.write(&machines, &names, &analysis)
}

/// Whether a report that is made from `inputs` can go to `output`.
pub fn check_output(output: &Path, inputs: &[&Path]) -> Result<()> {
    match destination::check(output, inputs) {
        Err(error @ DestinationError::NotWritable { .. }) => Err(error.into()),
        Err(error) => Err(UsageError::new(error).into()),
        Ok(()) => Ok(()),
    }
}

/// `-` is standard input.
fn real(file: &Path) -> &Path {
    match output::is_dash(file) {
        true => Path::new("/dev/stdin"),
        false => file,
    }
}

fn shown(file: &Path) -> String {
    match real(file) == Path::new("/dev/stdin") {
        true => "standard input".into(),
        false => file.display().to_string(),
    }
}

/// A copy of what can be read only once, such as a pipe; readers of files look several times. It has no name that could be
/// left behind.
fn keep(file: &Path) -> Result<Option<File>> {
    let file = real(file);
    let once = fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir());
    if !once {
        return Ok(None);
    }
    let mut copy = tempfile::tempfile().context("making a copy of a pipe")?;
    // Standard input itself: a socket has no name that could be opened.
    let from: Box<dyn Read> = match file == Path::new("/dev/stdin") {
        true => Box::new(io::stdin().lock()),
        false => {
            let opened = File::open(file);
            Box::new(opened.with_context(|| format!("cannot read {}", shown(file)))?)
        }
    };
    let copied = io::copy(&mut from.take(MOST_COPIED + 1), &mut copy);
    match copied.with_context(|| format!("cannot copy {}", shown(file)))? {
        0..=MOST_COPIED => Ok(Some(copy)),
        _ => bail!("{} is longer than {} MiB", shown(file), MOST_COPIED >> 20),
    }
}

/// What a file without a name can be opened by.
fn name_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

impl Look {
    /// `None`: standard output.
    pub fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| !output::is_dash(path))
    }

    fn style(&self) -> Style {
        Style {
            format: self.format,
            verbose: self.verbose,
            width: match self.file() {
                Some(_) => COLUMNS,
                None => terminal_columns(),
            },
        }
    }

    /// Writes the report where it belongs.
    fn write(&self, machines: &[Vec<Record>], names: &[String], analysis: &Analysis) -> Result<()> {
        let text = super::render(self.style(), machines, names, analysis)?;
        let Some(file) = self.file() else {
            return output::write(text);
        };
        match fs::write(file, text) {
            // A pipe by name, or /dev/stdout: whoever closes it has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.with_context(|| format!("cannot write {}", file.display())),
        }
    }
}

/// Between 80 and 120, whatever the terminal says.
fn terminal_columns() -> usize {
    match (io::stdout().is_terminal(), terminal_size::terminal_size()) {
        (true, Some((terminal_size::Width(columns), _))) => usize::from(columns).clamp(80, 120),
        _ => COLUMNS,
    }
}
