// SPDX-License-Identifier: GPL-2.0-only
//! The results file on disk.
//!
//! - A record is on the disk (fsync) before [`Writer::append`] returns, so that nothing but the run that
//!   was going on is lost, whatever happens.
//! - One writer at a time: the file is locked (flock) for as long as the writer lives.
//! - A last line without its line end was cut; it is ignored by readers and removed by who resumes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::record::{FORMAT, Plan, Record};

/// Why a results file cannot be used.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// Its text says all; with a source it would be said twice.
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: {error}; all runs before this one are in it, and once it can be written again, go on: scx_ballast compare --resume --results {}", path.display(), path.display())]
    Append { path: PathBuf, error: io::Error },
    #[error("{} exists: --resume continues it, --results names another", path.display())]
    Exists { path: PathBuf },
    #[error("{} is being written by another comparison", path.display())]
    Locked { path: PathBuf },
    #[error("{}:{line}: {why}", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        why: String,
    },
    #[error("{} is no results file of `scx_ballast compare`: {what}", path.display())]
    Other { path: PathBuf, what: &'static str },
    #[error("{} holds no plan: it is no results file, or was cut before its first record", path.display())]
    NoPlan { path: PathBuf },
}

/// All records of a file; the first is its plan.
pub fn read(path: &Path) -> Result<Vec<Record>, ResultsError> {
    let failed = |error| io_error(path, error);
    let mut text = Vec::new();
    File::open(path)
        .and_then(|mut file| file.read_to_end(&mut text))
        .map_err(failed)?;
    Ok(parse(path, &text)?.0)
}

/// The records in `text`, and how much of it is whole lines.
fn parse(path: &Path, text: &[u8]) -> Result<(Vec<Record>, u64), ResultsError> {
    let whole = text.iter().rposition(|&byte| byte == b'\n');
    let whole = whole.map_or(0, |at| at + 1);
    let mut records: Vec<Record> = Vec::new();
    for (index, line) in text[..whole].split_inclusive(|&b| b == b'\n').enumerate() {
        let bad = |why: String| ResultsError::Line {
            path: path.to_path_buf(),
            line: index + 1,
            why,
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        check_format(line).map_err(bad)?;
        if let Some(what) = records.is_empty().then(|| what_else(line)).flatten() {
            let path = path.to_path_buf();
            return Err(ResultsError::Other { path, what });
        }
        let record = serde_json::from_slice(line).map_err(|error| bad(error.to_string()))?;
        check(&record, &records).map_err(bad)?;
        records.push(record);
    }
    match records.is_empty() {
        true => Err(ResultsError::NoPlan {
            path: path.to_path_buf(),
        }),
        false => Ok((records, whole as u64)),
    }
}

/// What a file is that begins with this line, unless it may be a results file.
fn what_else(line: &[u8]) -> Option<&'static str> {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return Some("its first line is not JSON");
    };
    match (
        value.get("record"),
        value.get("kind").and_then(Value::as_str),
    ) {
        (Some(_), _) => None,
        (None, Some("header" | "fork" | "exit" | "tick" | "brought" | "lost")) => Some(
            "it is a trace, as --trace writes it; `scx_ballast replay` and `simulate --workload trace:FILE` read those",
        ),
        (None, _) => Some("its first line is JSON, and no record of one"),
    }
}

/// A newer format is told before anything of it is misunderstood.
fn check_format(line: &[u8]) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct Head {
        format: Option<u32>,
    }
    match serde_json::from_slice(line) {
        Ok(Head {
            format: Some(format),
        }) if format > FORMAT => Err(format!(
            "format {format} is newer than this program, which knows {FORMAT}: take a newer scx_ballast"
        )),
        _ => Ok(()),
    }
}

/// Whether `record` may follow the others.
fn check(record: &Record, before: &[Record]) -> Result<(), String> {
    let (arm, benchmark, block) = match record {
        Record::Plan(_) if before.is_empty() => return Ok(()),
        Record::Plan(_) => return Err("a second plan; a file holds one comparison".into()),
        Record::Run(run) => (run.arm, run.benchmark, run.block),
        Record::Discarded(run) => (run.arm, run.benchmark, run.block),
    };
    let Some(Record::Plan(plan)) = before.first() else {
        return Err("the first record of a results file is its plan".into());
    };
    let known = arm < plan.arms.len() && benchmark < plan.benchmarks.len() && block < plan.blocks;
    match known {
        true => Ok(()),
        false => Err(format!(
            "arm {arm}, benchmark {benchmark}, block {block}: not all of them are in the plan"
        )),
    }
}

/// A results file that is being written.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
}

/// Whether a new file can be made of that name; it is not there afterwards.
pub fn check_new(path: &Path) -> Result<(), ResultsError> {
    create_new(path)?;
    std::fs::remove_file(path).map_err(|error| io_error(path, error))
}

fn create_new(path: &Path) -> Result<File, ResultsError> {
    let opened = OpenOptions::new().append(true).create_new(true).open(path);
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => ResultsError::Exists {
            path: path.to_path_buf(),
        },
        _ => io_error(path, error),
    })
}

impl Writer {
    /// A new file that begins with `plan`.
    pub fn create(path: &Path, plan: &Plan) -> Result<Writer, ResultsError> {
        let mut writer = Writer::lock(create_new(path)?, path)?;
        if let Err(error) = writer.write(&Record::Plan(Box::new(plan.clone()))) {
            // Nobody can resume a file without a plan, and it would be in the way.
            let _ = std::fs::remove_file(path);
            return Err(io_error(path, error));
        }
        // The name is as durable as the content only if its folder was synced.
        if let Some(folder) = path.canonicalize().ok().as_deref().and_then(Path::parent) {
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(writer)
    }

    /// An old file and what it holds; a cut last line is taken away.
    pub fn resume(path: &Path) -> Result<(Writer, Vec<Record>), ResultsError> {
        let opened = OpenOptions::new().read(true).append(true).open(path);
        let writer = Writer::lock(opened.map_err(|error| io_error(path, error))?, path)?;
        let mut text = Vec::new();
        let mut file = &writer.file;
        file.read_to_end(&mut text)
            .map_err(|error| io_error(path, error))?;
        let (records, whole) = parse(path, &text)?;
        if whole < text.len() as u64 {
            writer
                .file
                .set_len(whole)
                .map_err(|error| io_error(path, error))?;
        }
        Ok((writer, records))
    }

    fn lock(file: File, path: &Path) -> Result<Writer, ResultsError> {
        match file.try_lock() {
            Ok(()) => Ok(Writer {
                file,
                path: path.to_path_buf(),
            }),
            Err(TryLockError::WouldBlock) => Err(ResultsError::Locked {
                path: path.to_path_buf(),
            }),
            Err(TryLockError::Error(error)) => Err(io_error(path, error)),
        }
    }

    /// Adds a record, for good.
    pub fn append(&mut self, record: &Record) -> Result<(), ResultsError> {
        self.write(record).map_err(|error| ResultsError::Append {
            path: self.path.clone(),
            error,
        })
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        (&self.file).write_all(&line)?;
        self.file.sync_data()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn io_error(path: &Path, error: io::Error) -> ResultsError {
    ResultsError::Io {
        path: path.to_path_buf(),
        error,
    }
}
