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
            said.starts_with("Error: cannot write to standard output: "),
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

/// Status 0 and not a word, as help has it; and a disk that is full is an error all the same.
#[test]
fn whoever_closes_the_pipe_has_read_enough() {
    let trace = ballast(TRACED).stdout;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("trace");
    std::fs::write(&file, trace).expect("a file");
    let file = file.to_str().expect("a name in UTF-8");
    let burst = [
        "simulate",
        "--machine",
        "2x4",
        "--workload",
        "fork-burst:4,spin_ms=20",
    ];
    for args in [
        &["topology", "--machine", "2x4"][..],
        &["rules", "--machine", "2x4"],
        &["replay", file],
        &burst,
        &[&burst[..], &["--sweep", "slice-us=1000..2000..1000"]].concat(),
        &[&burst[..], &["--svg", "-"]].concat(),
        TRACED,
        &[
            "work",
            "fork-burst",
            "--tasks",
            "2",
            "--spin-ms",
            "10",
            "-v",
        ],
        &["compare", "--list"],
        &["--help-stats"],
    ] {
        let to = |stdout: Stdio| {
            let mut command = Command::new(BALLAST);
            command.args(args).stdout(stdout).stderr(Stdio::piped());
            let child = command.spawn().expect("it starts");
            let output = child.wait_with_output().expect("it ends");
            (output.status.code(), text(&output.stderr))
        };
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(to(writer.into()), (Some(0), String::new()), "{args:?}");
        let full = File::create("/dev/full").expect("a device");
        let (status, said) = to(full.into());
        assert_eq!(status, Some(1), "{args:?}: {said}");
        let why = "Error: cannot write to standard output: ";
        assert!(said.starts_with(why), "{args:?}: {said}");
    }
}

/// No file of that name is made: it is standard output, or refused.
#[test]
fn a_dash_is_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    for args in [
        &["--trace", "-"][..],
        &["compare", "eevdf", "ballast", "--results", "-"],
        &["compare", "eevdf", "ballast", "--suite", "-", "--dry-run"],
    ] {
        let mut command = Command::new(BALLAST);
        let output = command.args(args).current_dir(dir.path()).output();
        let output = output.expect("it starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        let left = std::fs::read_dir(dir.path()).expect("a folder").count();
        assert_eq!(left, 0, "{args:?}");
    }
}

/// A trace has a record in each line, and what is wrong with one is told with the byte.
#[test]
fn what_is_wrong_in_a_trace_is_told_with_its_place() {
    let trace = text(&ballast(TRACED).stdout);
    let lines: Vec<&str> = trace.lines().collect();
    let with = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines[at] = line;
        fed(&["replay", "-"], (lines.join("\n") + "\n").as_bytes())
    };
    for (at, line, why) in [
        (1, "", "line 2: it is empty, and no record of a trace"),
        (
            2,
            "{\"kind\":\"fork\",\"at\":x}",
            "line 3: not a record of a trace: expected value (byte 21)",
        ),
        (
            0,
            "hello",
            "line 1: not a record of a trace: expected value (byte 1); expected what",
        ),
    ] {
        let output = with(at, line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
    // As editors of another system leave it.
    let crlf = trace.replace('\n', "\r\n");
    assert!(fed(&["replay", "-"], crlf.as_bytes()).status.success());
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
