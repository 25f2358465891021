// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast --dispatcher user` becomes the program beside it only if that is of the same build.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use scx_ballast::cli::VERSION;
use scx_ballast::user::ask::{self, NoAnswer};
use scx_ballast::user::launch::{PROGRAM, check_build};

/// What `scx_ballast --dispatcher user` says, and its status, with this beside it.
fn launched(beside: Option<&str>) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("scx_ballast");
    fs::copy(env!("CARGO_BIN_EXE_scx_ballast"), &own).unwrap();
    if let Some(script) = beside {
        program(folder.path(), script);
    }
    launch(&own)
}

/// The program beside it.
fn program(folder: &Path, script: &str) -> PathBuf {
    let other = folder.join(PROGRAM);
    fs::write(&other, script).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    other
}

/// A child that another test has just forked may still hold a program open for writing.
fn launch(own: &Path) -> (String, Option<i32>) {
    let output = loop {
        match Command::new(own).args(["--dispatcher", "user"]).output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                sleep(Duration::from_millis(10));
            }
            output => break output.unwrap(),
        }
    };
    let said = String::from_utf8(output.stderr).unwrap();
    (said, output.status.code())
}

#[test]
fn another_build_is_refused_with_what_was_found() {
    let other = "scx_ballast_user 0.0.9-g01234567 x86_64-unknown-linux-gnu";
    for (beside, found) in [
        (Some(format!("#!/bin/sh\necho '{other}'\n")), other),
        (
            Some("#!/bin/sh\nexit 3\n".into()),
            "does not tell its version",
        ),
        (Some("no program\n".into()), "does not tell its version"),
        (None, "is missing"),
    ] {
        let (said, status) = launched(beside.as_deref());
        assert_eq!(status, Some(1), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(PROGRAM) && said.contains(found), "{said}");
        if found == other {
            assert!(
                said.contains(VERSION) && said.contains("make build"),
                "{said}"
            );
        }
    }
}

#[test]
fn what_cannot_be_run_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let other = program(folder.path(), "#!/no/such/interpreter\n");
    let said = check_build(&other).unwrap_err().to_string();
    assert!(
        said.contains("cannot be run") && said.contains("make build"),
        "{said}"
    );
}

/// The very version that this one says, and the real program: both are taken.
#[test]
fn the_same_build_is_taken() {
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{PROGRAM} {VERSION}'; else echo \"it got $*\" >&2; exit 7; fi\n"
    );
    let (said, status) = launched(Some(&script));
    assert_eq!((said.trim(), status), ("it got --dispatcher user", Some(7)));
    check_build(Path::new(env!("CARGO_BIN_EXE_scx_ballast_user"))).unwrap();
}

/// A copy of this very program under that name is of the same build, and still not what is wanted.
#[test]
fn another_program_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("scx_ballast");
    for copy in [&own, &folder.path().join(PROGRAM)] {
        fs::copy(env!("CARGO_BIN_EXE_scx_ballast"), copy).unwrap();
    }
    let (said, status) = launch(&own);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("is another program"), "{said}");
    assert!(!said.contains("another build"), "{said}");
    let found = format!("'scx_ballast {VERSION}'");
    assert!(said.contains(&found) && said.contains(PROGRAM), "{said}");

    let (said, _) = launched(Some("#!/bin/sh\nprintf 'a\\033[2Jb'\n"));
    assert!(said.contains("'a?[2Jb'"), "{said:?}");
}

/// It ends at once, whatever the program would print besides.
#[test]
fn a_program_that_prints_on_is_stopped() {
    let (said, status) = launched(Some("#!/bin/sh\nyes | head -c 100000000\nsleep 60\n"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("more than 4096 bytes"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Neither it nor what it has started is left behind, whether it is silent or has answered and stays.
#[test]
fn a_program_that_does_not_end_is_ended() {
    let limit = Duration::from_millis(300);
    for script in [
        "echo $$ >$0.pid; sleep 300",
        "echo $$ >$0.pid; exec >&-; sleep 300",
        "echo x; echo $$ >$0.pid; while :; do sleep 300; done",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let other = program(folder.path(), &format!("#!/bin/sh\n{script}\n"));
        let began = Instant::now();
        let said = ask::version(&other, limit).unwrap_err();
        assert!(began.elapsed() >= limit, "{script}");
        assert!(began.elapsed() < Duration::from_secs(60), "{script}");
        assert!(matches!(said, NoAnswer::Late(l) if l == limit), "{said}");
        assert!(said.to_string().contains("0.3 s"), "{said}");
        let Ok(group) = fs::read_to_string(folder.path().join(format!("{PROGRAM}.pid"))) else {
            continue; // so loaded a machine that it did not come so far
        };
        // Killed, but each ends when it gets a CPU.
        while members(group.trim()) > 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "{script}");
            sleep(Duration::from_millis(20));
        }
    }
}

/// Processes of a group that are not merely waiting to be reaped.
fn members(group: &str) -> usize {
    let stat = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    let stats = fs::read_dir("/proc").unwrap().flatten().filter_map(stat);
    let is_member = |stat: &String| {
        let mut words = stat.rsplit(')').next().unwrap().split_whitespace();
        words.next() != Some("Z") && words.nth(1) == Some(group)
    };
    stats.filter(is_member).count()
}
