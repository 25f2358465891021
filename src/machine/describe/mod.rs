// SPDX-License-Identifier: GPL-2.0-only
//! Machines from words and text instead of from sysfs: for `--machine`.
//!
//! | form | module |
//! |---|---|
//! | a preset's name | `preset` |
//! | `2 nodes x 8 llcs x 8 cores x 2 threads` | `compact` |
//! | a file, or `-`, with what `numactl -H` prints | `numactl` |
//! | a file, or `-`, with what `lscpu -p` prints | `lscpu` |
//!
//! All of them end in a [`MachineBuilder`], so that what holds of a [`Machine`] holds of these. What
//! a form does not tell is filled with what is least special and becomes a warning. No text makes
//! any of this panic; a line that is not understood is an error that names it, what was found and
//! what was expected.

mod compact;
mod error;
mod lscpu;
mod numactl;
mod preset;

pub use compact::Compact;
pub use error::{DescribeError, TextError, help};
pub use preset::{Preset, presets};

use super::{Machine, MachineBuilder};
use crate::text;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Files beyond this are no description: 4096 CPUs take a quarter of a MiB.
const LARGEST_TEXT: u64 = 4 << 20;

/// Where a description is, or what it is; the value of `--machine`. Nothing is read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A machine of the program's own table.
    Preset(Box<Preset>),
    /// A regular machine.
    Compact(Compact),
    /// A text in a file.
    File(PathBuf),
    /// A text on standard input.
    Stdin,
}

impl FromStr for Source {
    type Err = DescribeError;

    /// A preset's name goes first, then a short form, then a file; `./NAME` always is a file.
    fn from_str(arg: &str) -> Result<Self, DescribeError> {
        let presets = presets().map_err(|error| DescribeError::Preset {
            id: "table".into(),
            error,
        })?;
        if let Some(preset) = presets.into_iter().find(|preset| preset.id == arg) {
            return Ok(Self::Preset(Box::new(preset)));
        }
        if arg == "-" {
            return Ok(Self::Stdin);
        }
        let compact = compact::parse(arg);
        match compact {
            Ok(compact) => Ok(Self::Compact(compact)),
            Err(_) if Path::new(arg).exists() => Ok(Self::File(arg.into())),
            Err(error) if compact::looks_like(arg) => Err(error),
            Err(_) => Err(DescribeError::Unknown {
                name: arg.to_owned(),
            }),
        }
    }
}

impl Source {
    /// The machine. `virt_llc` cuts its LLCs as [`Machine::detect`] does.
    ///
    /// # Errors
    /// The text cannot be read or understood, or describes no machine that can be.
    pub fn machine(&self, virt_llc: Option<(usize, usize)>) -> Result<Machine, DescribeError> {
        let (name, mut builder) = match self {
            Self::Preset(preset) => {
                let builder = preset.builder().map_err(|error| DescribeError::Preset {
                    id: preset.id.clone(),
                    error,
                })?;
                (preset.id.clone(), builder)
            }
            Self::Compact(compact) => ("the short form".to_owned(), compact.builder()),
            Self::File(path) => from_text(path.display().to_string(), File::open(path))?,
            Self::Stdin => from_text("standard input".to_owned(), Ok(io::stdin().lock()))?,
        };
        builder.virt_llc(virt_llc);
        builder
            .build()
            .map_err(|source| DescribeError::Machine { name, source })
    }
}

impl Machine {
    /// The machine that `arg` describes, as `--machine` takes it: a preset, a short form, a file or
    /// `-` for standard input. `virt_llc` cuts its LLCs as [`Machine::detect`] does.
    ///
    /// # Errors
    /// It is none of them; the text cannot be read or understood, or describes no machine that can
    /// be.
    pub fn describe(arg: &str, virt_llc: Option<(usize, usize)>) -> Result<Machine, DescribeError> {
        arg.parse::<Source>()?.machine(virt_llc)
    }
}

fn from_text(
    name: String,
    input: io::Result<impl Read>,
) -> Result<(String, MachineBuilder), DescribeError> {
    let text = match input.and_then(|input| text::read(input, LARGEST_TEXT)) {
        Ok(text) => text,
        Err(source) => return Err(DescribeError::Read { name, source }),
    };
    match parse_text(&text) {
        Ok(builder) => Ok((name, builder)),
        Err(error) => Err(DescribeError::Text { name, error }),
    }
}

/// The machine of a text, to be built. The first line that is not empty tells the form.
///
/// # Errors
/// A line is not understood or contradicts another, or one is missing.
pub fn parse_text(text: &str) -> Result<MachineBuilder, TextError> {
    // Some editors begin a file with a mark (BOM).
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = (1..).zip(text.lines().map(str::trim));
    match lines.into_iter().find(|(_, line)| !line.is_empty()) {
        Some((_, line)) if numactl::is_line(line) => numactl::parse(text),
        Some((_, line)) if lscpu::is_line(line) => lscpu::parse(text),
        Some((at, line)) => Err(TextError::new(at, error::Quoted(line), FORMS)),
        None => Err(TextError::new(1, "nothing", FORMS)),
    }
}

const FORMS: &str = "what `numactl -H` or `lscpu -p=CPU,CORE,SOCKET,NODE,CACHE` prints";
