// SPDX-License-Identifier: GPL-2.0-only
//! The files of `simulate`: nothing is written over what is read, or over what is written besides.
//!
//! Files are compared by what they are, not by how they are spelled: by device and inode where they exist, else by
//! the folder that they would be made in, and their name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::args::SimulateArgs;
use super::source::Source;
use crate::cli::UsageError;
use crate::machine::describe;

/// Links that are followed to a file that does not exist: as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// What a name stands for.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// A file that exists: device and inode.
    File(u64, u64),
    /// One that would be made.
    Name(PathBuf),
}

impl Place {
    fn of(path: &Path) -> Self {
        if let Ok(file) = fs::metadata(path) {
            return Self::File(file.dev(), file.ino());
        }
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            // A link to nothing: what it names is what would be made.
            let Ok(target) = fs::read_link(&path) else {
                break;
            };
            path = folder(&path).join(target);
        }
        let name = path.file_name().unwrap_or_default();
        let canonical = folder(&path).canonicalize();
        Self::Name(canonical.map_or_else(|_| path.clone(), |folder| folder.join(name)))
    }
}

/// Where a file is.
fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.into(),
        _ => ".".into(),
    }
}

/// `-` is standard input or output, and no file.
fn is_file(path: &&PathBuf) -> bool {
    path.as_path() != Path::new("-")
}

/// Refuse command lines that would lose a file.
///
/// # Errors
/// A file is to be written that is read or written besides; as it is named there.
pub(super) fn check(args: &SimulateArgs) -> Result<()> {
    let machine = match &args.machine.machine {
        Some(describe::Source::File(path)) => Some(path),
        Some(
            describe::Source::Preset(_) | describe::Source::Compact(_) | describe::Source::Stdin,
        )
        | None => None,
    };
    let workload = match &args.workload {
        Source::File(path) | Source::Trace(path) => Some(path),
        Source::BuiltIn(_) => None,
    };
    // What is only read may be named as often as one likes.
    let inputs = [machine, workload].into_iter().flatten().filter(is_file);
    let mut taken: Vec<Place> = inputs.map(|path| Place::of(path)).collect();
    let outputs = [&args.trace, &args.svg].into_iter().flatten();
    for path in outputs.filter(is_file) {
        let place = Place::of(path);
        if taken.contains(&place) {
            let name = path.display();
            let what = format!("{name} is named twice, and would be overwritten");
            return Err(UsageError::new(what).into());
        }
        taken.push(place);
    }
    Ok(())
}
