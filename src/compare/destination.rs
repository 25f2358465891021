// SPDX-License-Identifier: GPL-2.0-only
//! Whether a report can go where it is to go, and whether that would cost what it is made from.
//!
//! Looked at before hours are spent on the runs. Nothing that exists is changed, and what had to be
//! made for the look is gone afterwards.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::output;

/// Why a report cannot be written to a file.
#[derive(Debug, Error)]
pub enum DestinationError {
    #[error("{} is what the report is made from: -o would replace it by the report", path.display())]
    IsInput { path: PathBuf },
    #[error("{} holds the records of a comparison: -o would replace them by a report; name another file, or remove it", path.display())]
    HoldsRecords { path: PathBuf },
    #[error("the report cannot be written to {}: {error}", path.display())]
    NotWritable { path: PathBuf, error: io::Error },
}

/// Checks `output` for a report that is made from `inputs`.
///
/// # Errors
/// It cannot be written, is one of the inputs by whatever name, or holds records.
pub fn check(output: &Path, inputs: &[&Path]) -> Result<(), DestinationError> {
    // While it is there: an input that is not there yet would be this very file.
    let is_input = |own: &Metadata| inputs.iter().any(|input| is_same(input, own));
    let probed = output::probe(output, is_input);
    let probed = probed.map_err(|error| DestinationError::NotWritable {
        path: output.to_path_buf(),
        error,
    })?;
    let Some(file) = probed else {
        return Ok(());
    };
    let path = output.to_path_buf();
    match (file.found, file.existed && holds_records(output)) {
        (true, _) => Err(DestinationError::IsInput { path }),
        (_, true) => Err(DestinationError::HoldsRecords { path }),
        _ => Ok(()),
    }
}

fn is_same(path: &Path, other: &Metadata) -> bool {
    fs::metadata(path).is_ok_and(|own| (own.dev(), own.ino()) == (other.dev(), other.ino()))
}

/// Whether a file's first line is a record, or the beginning of one that was cut.
fn holds_records(path: &Path) -> bool {
    #[derive(serde::Deserialize)]
    #[allow(dead_code, reason = "that it is there is all")]
    struct Head {
        record: String,
    }
    /// Plans are far smaller.
    const LONGEST: u64 = 16 << 20;
    let mut line = Vec::new();
    let read = File::open(path)
        .and_then(|file| BufReader::new(file.take(LONGEST)).read_until(b'\n', &mut line));
    let begins = |line: &[u8]| {
        let text = line
            .iter()
            .copied()
            .filter(|byte| !byte.is_ascii_whitespace());
        text.take(10).eq(*br#"{"record":"#)
    };
    // One that cannot be read is not known to be anything else.
    read.is_err() || begins(&line) || serde_json::from_slice::<Head>(&line).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_a_report_is_made_from_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("q"), "something\n").unwrap();
        fs::hard_link(at("q"), at("hard")).unwrap();
        symlink("q", at("soft")).unwrap();
        symlink("later", at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for output in ["q", "hard", "soft", "folder/../q"] {
            let error = check(&at(output), &[&at("other"), &at("q")]).unwrap_err();
            assert!(matches!(error, DestinationError::IsInput { .. }), "{error}");
        }
        // Neither is there yet.
        for output in ["later", "dangling"] {
            let error = check(&at(output), &[&at("later")]).unwrap_err();
            assert!(matches!(error, DestinationError::IsInput { .. }), "{error}");
            check(&at(output), &[&at("q")]).unwrap();
        }
        assert!(!at("later").exists() && at("dangling").is_symlink());
        assert_eq!(fs::read_to_string(at("q")).unwrap(), "something\n");
    }

    #[test]
    fn records_are_kept_and_reports_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        for text in [
            "{\"record\":\"plan\",\"x\":1}\n",
            " { \"record\" : \"pl",
            "{\"x\":1,\"record\":\"plan\"}\n{}\n",
        ] {
            fs::write(&file, text).unwrap();
            let error = check(&file, &[]).unwrap_err();
            assert!(
                matches!(error, DestinationError::HoldsRecords { .. }),
                "{text}"
            );
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        for text in [
            "",
            "# Report\n",
            "{\"kind\":\"r\",\"machines\":[{\"record\":1}]}",
        ] {
            fs::write(&file, text).unwrap();
            check(&file, &[]).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_path_buf(), dir.path().join("no/file")] {
            let error = check(&path, &[]).unwrap_err();
            assert!(
                matches!(error, DestinationError::NotWritable { .. }),
                "{error}"
            );
        }
        check(Path::new("/dev/null"), &[Path::new("/dev/null")]).unwrap();
    }
}
