// SPDX-License-Identifier: GPL-2.0-only
//! Where output goes: standard output, and files that users name.
//!
//! Invariants: who closes a pipe, as `head` does, has read enough, and every command then ends quietly with status 0;
//! nothing panics for it, as `print!` would. A file that cannot be written is known before work begins, and is not
//! touched by finding out.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use clap::builder::{PathBufValueParser, TypedValueParser};
use rustix::fs::{Access, access};
use thiserror::Error;

/// Standard output is closed. No failure: see [`cli::exit_code`](crate::cli::exit_code).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nobody reads standard output any more")]
pub struct NobodyReads;

/// What it means that standard output could not be written.
pub fn refused(error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::BrokenPipe => NobodyReads.into(),
        _ => Error::new(error).context("cannot write to standard output"),
    }
}

/// Write all of `text` to standard output.
///
/// # Errors
/// It cannot be written, or nobody reads it.
pub fn write(text: impl AsRef<[u8]>) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_ref());
    written.and_then(|()| stdout.flush()).map_err(refused)
}

/// The same, and the end of a line.
///
/// # Errors
/// As [`write`].
pub fn print(text: &str) -> Result<()> {
    write(format!("{text}\n"))
}

/// `-`, which is standard output where that can be had.
pub fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}

/// For flags that name a file, and cannot have standard output for it.
pub fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match is_dash(&path) {
        true => Err("standard output cannot be had here: name a file (./- for one of this name)"),
        false => Ok(path),
    })
}

/// A file that can be written.
#[derive(Debug)]
pub struct Writable<T> {
    /// It was there before.
    pub existed: bool,
    /// What `look` found of it.
    pub found: T,
}

/// Whether `path` can be written. `look` sees the file while it is there: one that is made to find out goes again.
/// `None`: it can, and is no regular file.
///
/// # Errors
/// It cannot.
pub fn probe<T>(path: &Path, look: impl FnOnce(&Metadata) -> T) -> io::Result<Option<Writable<T>>> {
    let existed = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        // Opening a pipe would wait for its reader.
        Ok(found) if !found.is_file() => {
            access(path, Access::WRITE_OK)?;
            return Ok(None);
        }
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    let mut open = OpenOptions::new();
    let opened = open
        .write(true)
        .create(!existed)
        .truncate(false)
        .open(path)?;
    let found = look(&opened.metadata()?);
    if !existed {
        // The file itself where the name is a link to it.
        fs::remove_file(path.canonicalize()?)?;
    }
    Ok(Some(Writable { existed, found }))
}

/// Whether a file that is to be written at the end can be; `-` can.
///
/// # Errors
/// It cannot.
pub fn check(path: &Path) -> Result<()> {
    if is_dash(path) {
        return Ok(());
    }
    let probed = probe(path, |_| ());
    probed.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_told_from_a_full_disk() {
        let closed = refused(ErrorKind::BrokenPipe.into());
        assert!(closed.context("what was done").is::<NobodyReads>());
        let full = refused(ErrorKind::StorageFull.into());
        assert!(!full.is::<NobodyReads>());
        assert!(format!("{full:#}").starts_with("cannot write to standard output: "));
    }

    #[test]
    fn finding_out_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("old"), "text").unwrap();
        std::os::unix::fs::symlink("later", at("link")).unwrap();
        let size = |path: &Path| probe(path, Metadata::len).unwrap();
        let old = size(&at("old")).unwrap();
        assert_eq!((old.existed, old.found), (true, 4));
        for new in ["new", "link"] {
            let new = size(&at(new)).unwrap();
            assert_eq!((new.existed, new.found), (false, 0));
        }
        assert!(size(Path::new("/dev/null")).is_none());
        assert!(probe(dir.path(), |_| ()).is_err() && check(&at("no/file")).is_err());
        check(Path::new("-")).unwrap();
        assert_eq!(fs::read_to_string(at("old")).unwrap(), "text");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
