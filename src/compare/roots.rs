// SPDX-License-Identifier: GPL-2.0-only
//! Where the kernel's files are: /proc, /sys and the socket of statistics, below a prefix that is
//! empty outside of tests. A file that cannot be read is a [`Fact`] too, with the reason.

use std::fs;
use std::path::{Path, PathBuf};

use super::record::Fact;

/// The root below which the kernel's files are looked for.
#[derive(Debug, Clone)]
pub struct Roots {
    prefix: PathBuf,
}

impl Roots {
    /// The running kernel's.
    pub fn system() -> Roots {
        Roots::below("/")
    }

    /// A tree of files that looks like the kernel's.
    pub fn below(prefix: impl Into<PathBuf>) -> Roots {
        Roots {
            prefix: prefix.into(),
        }
    }

    /// Whether this is the running kernel and not a tree of files.
    pub fn is_system(&self) -> bool {
        self.prefix == Path::new("/")
    }

    /// A path such as `proc/stat`.
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.prefix.join(below)
    }

    /// What a file says, without the white space around it.
    pub fn read(&self, below: impl AsRef<Path>) -> Fact<String> {
        let path = self.path(below);
        match fs::read(&path) {
            Ok(bytes) => Fact::Known(String::from_utf8_lossy(&bytes).trim().to_string()),
            Err(error) => Fact::NotAvailable(format!("{}: {error}", path.display())),
        }
    }
}

/// `fact` turned into something else; `reason` says why that cannot be done with what it is.
pub fn convert<T, U>(fact: Fact<T>, reason: &str, how: impl FnOnce(&T) -> Option<U>) -> Fact<U> {
    match fact {
        Fact::NotAvailable(why) => Fact::NotAvailable(why),
        Fact::Known(value) => match how(&value) {
            Some(made) => Fact::Known(made),
            None => Fact::NotAvailable(reason.to_string()),
        },
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// A tree of files, gone with the first of the two.
    pub fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let roots = Roots::below(dir.path());
        (dir, roots)
    }
}
