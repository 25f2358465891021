// SPDX-License-Identifier: GPL-2.0-only
//! Whether two names are one file, however they are spelled.
//!
//! Files are compared by device and inode where they exist, else by the folder that they would be made in, and their
//! name. Nothing is opened or made.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Links that are followed to a file that does not exist: as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// What a name stands for. Equal: writing to one writes over the other.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// A file that exists: device and inode.
    File(u64, u64),
    /// A pipe: the same.
    Pipe(u64, u64),
    /// One that would be made.
    Name(PathBuf),
}

impl Place {
    /// `None`: neither file nor pipe.
    pub fn of(path: &Path) -> Option<Self> {
        if let Ok(file) = fs::metadata(path) {
            return match file.file_type() {
                kind if kind.is_file() => Some(Self::File(file.dev(), file.ino())),
                kind if kind.is_fifo() => Some(Self::Pipe(file.dev(), file.ino())),
                _ => None,
            };
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
        let name = canonical.map_or_else(|_| path.clone(), |folder| folder.join(name));
        Some(Self::Name(name))
    }
}

/// Where a file is.
fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.into(),
        _ => ".".into(),
    }
}
