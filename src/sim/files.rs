// SPDX-License-Identifier: GPL-2.0-only
//! The files of `simulate`: nothing is written over what is read, or over what is written besides, and what cannot be
//! written is known before the run.
//!
//! Files are compared by their [`Place`]. Standard input and output are files as well when the shell has made them so,
//! and standard output is always written: the table goes there. Of a pipe what is written twice comes out
//! mixed. What is neither file nor pipe, such as a terminal or /dev/null, loses nothing by being named twice.

use std::path::Path;

use anyhow::Result;

use super::args::SimulateArgs;
use super::source::Source;
use crate::cli::UsageError;
use crate::machine::describe;
use crate::output::{self, is_dash};
use crate::place::Place;

const STDIN: &str = "/dev/stdin";
const STDOUT: &str = "/dev/stdout";

/// Refuse command lines that would lose a file.
///
/// # Errors
/// A file is to be written that cannot be, or is read or written besides; both as they are named there.
pub(super) fn check(args: &SimulateArgs) -> Result<()> {
    let machine = match &args.machine.machine {
        Some(describe::Source::File(path)) => Some(path.as_path()),
        Some(describe::Source::Stdin) => Some(Path::new(STDIN)),
        Some(describe::Source::Preset(_) | describe::Source::Compact(_)) | None => None,
    };
    let workload = match &args.workload {
        Source::File(path) | Source::Trace(path) if is_dash(path) => Some(Path::new(STDIN)),
        Source::File(path) | Source::Trace(path) => Some(path.as_path()),
        Source::BuiltIn(_) => None,
    };
    // What is only read may be named as often as one likes.
    let taken = [machine, workload, Some(Path::new(STDOUT))];
    let taken = taken.into_iter().flatten();
    let mut taken: Vec<(Place, &Path)> = taken
        .filter_map(|path| Some((Place::of(path)?, path)))
        .collect();
    let outputs = [&args.trace, &args.svg].into_iter().flatten();
    for path in outputs.clone().filter(|path| !is_dash(path)) {
        let Some(place) = Place::of(path) else {
            continue;
        };
        if let Some((_, other)) = taken.iter().find(|(other, _)| *other == place) {
            let (kind, lost) = match place {
                Place::Pipe(..) => ("pipe", "what is written to it would be mixed"),
                Place::File(..) | Place::Name(_) => ("file", "would be overwritten"),
            };
            let what = match (path.display(), shown(other)) {
                (name, other) if name.to_string() == other => {
                    format!("{name} is named twice, and {lost}")
                }
                (name, other) => format!("{name} is the same {kind} as {other}, and {lost}"),
            };
            return Err(UsageError::new(what).into());
        }
        taken.push((place, path));
    }
    // A long run would have been for nothing.
    for path in outputs {
        output::check(path)?;
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    match path.to_str() {
        Some(STDIN) => "standard input".into(),
        Some(STDOUT) => "standard output".into(),
        _ => path.display().to_string(),
    }
}
