// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast --dispatcher user` becomes the program beside it only if that is of the same build.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use scx_ballast::cli::VERSION;
use scx_ballast::user::launch::{PROGRAM, check_build};

/// What `scx_ballast --dispatcher user` says, and its status, with this beside it.
fn launched(beside: Option<&str>) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("scx_ballast");
    fs::copy(env!("CARGO_BIN_EXE_scx_ballast"), &own).unwrap();
    if let Some(script) = beside {
        let other = folder.path().join(PROGRAM);
        fs::write(&other, script).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new(own).args(["--dispatcher", "user"]).output();
    let output = output.unwrap();
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
        (Some("no program\n".into()), "cannot be run"),
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
