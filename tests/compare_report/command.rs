// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast compare report` as a program: what it reads, and who reads it.

use std::fs;
use std::process::{Command, Stdio};

use crate::made::usual;

#[test]
fn whoever_closes_the_pipe_has_read_enough() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.jsonl");
    let lines: Vec<String> = usual().machines[0]
        .iter()
        .map(|record| serde_json::to_string(record).unwrap())
        .collect();
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    for format in ["table", "markdown", "json", "html"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
            .args(["compare", "report", "--format", format])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.success() && said.is_empty(),
            "{format}: {said}"
        );
    }
    // What cannot be written for another reason is an error still.
    let full = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
        .args(["compare", "report", "--output", "/dev/full"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(!full.status.success());
}

/// Devices have no end. Nothing is left of what was copied.
#[test]
fn what_has_no_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
        .args(["compare", "report", "/dev/zero"])
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(
        error.contains("/dev/zero is longer than 256 MiB"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // What was given is named, and no copy of it.
    let empty = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
        .args(["compare", "report", "/dev/null"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&empty.stderr);
    assert!(error.contains("/dev/null cannot be used"), "{error}");
}
