// SPDX-License-Identifier: GPL-2.0-only
//! What all commands have in common: help that cannot be written, standard input by `-`, and files that are something
//! else than what was asked for.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Output, Stdio};

const BALLAST: &str = env!("CARGO_BIN_EXE_scx_ballast");
const USER: &str = env!("CARGO_BIN_EXE_scx_ballast_user");

fn ballast(args: &[&str]) -> Output {
    let mut command = Command::new(BALLAST);
    command.args(args).output().expect("it starts")
}

/// With `input` on standard input.
fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(BALLAST)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(input).expect("it reads");
    drop(pipe);
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A script that keeps what `--help` prints wants to know that there was no room for it.
#[test]
fn help_that_cannot_be_written_is_an_error() {
    for (program, args) in [
        (BALLAST, &["--help"][..]),
        (BALLAST, &["-h"]),
        (BALLAST, &["--version"]),
        (BALLAST, &["simulate", "--help"]),
        (BALLAST, &["help", "replay"]),
        (USER, &["--help"]),
    ] {
        let with = |stdout: Stdio| {
            let mut command = Command::new(program);
            command.args(args).stdout(stdout).stderr(Stdio::piped());
            let child = command.spawn().expect("it starts");
            child.wait_with_output().expect("it ends")
        };
        let full = File::create("/dev/full").expect("a device");
        let output = with(full.into());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            said.starts_with("Error: cannot write standard output: "),
            "{said}"
        );
        let output = with(Stdio::piped());
        assert!(
            output.status.success() && !output.stdout.is_empty(),
            "{args:?}"
        );
        // Nobody reads on, as with `| head`.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = with(writer.into());
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
    let output = ballast(&["--no-such-flag"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

const TRACED: &[&str] = &[
    "simulate",
    "--machine",
    "2x4",
    "--workload",
    "fork-burst:4,spin_ms=20",
    "--trace",
    "-",
];

#[test]
fn a_trace_is_taken_from_standard_input() {
    let trace = ballast(TRACED).stdout;
    let output = fed(&["replay", "-"], &trace);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.starts_with("4 fork placements, "), "{said}");
    let run = ["simulate", "--machine", "2x4", "--workload", "trace:-"];
    let output = fed(&run, &trace);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.starts_with("trace:-; nodes 2"), "{said}");

    let output = fed(&["replay", "-"], b"");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("standard input is empty; expected what `scx_ballast --trace FILE`"),
        "{said}"
    );
}

/// A program, say, in place of what is expected.
#[test]
fn what_is_no_text_is_told_with_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    let path = file.to_str().expect("a name in UTF-8");
    let (of_file, of_trace) = (format!("file:{path}"), format!("trace:{path}"));
    std::fs::write(&file, b"one\ntw\xf8").expect("a file");
    for args in [
        &["simulate", "--machine", "2x4", "--workload", &of_file][..],
        &["topology", "--machine", path],
        &["compare", "eevdf", "ballast", "--suite", path],
    ] {
        let output = ballast(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        let why = format!("{path}: it is no text: byte 3 of line 2 is not UTF-8");
        assert!(said.contains(&why), "{args:?}: {said}");
    }
    std::fs::write(&file, b"\x7fELF\x02\xf8\n").expect("a file");
    for args in [
        &["replay", path][..],
        &["simulate", "--machine", "2x4", "--workload", &of_trace],
    ] {
        let said = text(&ballast(args).stderr);
        let why = format!("cannot read {path}: it is no text: byte 6 is not UTF-8");
        assert!(said.contains(&why), "{args:?}: {said}");
    }
}

/// The files of one command given to another.
#[test]
fn files_of_other_commands_are_told_apart() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    let path = file.to_str().expect("a name in UTF-8");
    let said = |args: &[&str], content: &[u8]| {
        std::fs::write(&file, content).expect("a file");
        let output = ballast(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        text(&output.stderr)
    };
    let report = ["compare", "report", path];
    let no_results = format!("{path} is no results file of `scx_ballast compare`: ");
    for (content, what) in [
        (
            &ballast(TRACED).stdout[..],
            "it is a trace, as --trace writes it; `scx_ballast replay`",
        ),
        (b"hello\n", "its first line is not JSON"),
        (
            b"{\"a\": 1}\n",
            "its first line is JSON, and no record of one",
        ),
    ] {
        let said = said(&report, content);
        assert!(said.contains(&format!("{no_results}{what}")), "{said}");
    }
    let said = said(&["replay", path], b"{\"record\": \"plan\"}\n");
    assert!(
        said.contains("line 1: not a record of a trace: ")
            && said.contains("; expected what `scx_ballast --trace FILE` writes"),
        "{said}"
    );
}
