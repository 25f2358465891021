// SPDX-License-Identifier: GPL-2.0-only
//! Flags of locality that do not go together end the scheduler before it touches anything.

use std::process::Command;

/// What a scheduler with these flags says, which it must not load.
fn refused(flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
        .args(flags)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{flags:?}: {said}");
    assert!(said.contains("--migrate-memory"), "{flags:?}: {said}");
    said
}

#[test]
fn memory_cannot_follow_with_locality_off() {
    for mode in ["off", "first-touch"] {
        let said = refused(&["--migrate-memory", "--locality", mode]);
        assert!(said.contains("--locality sampled"), "{said}");
    }
}

#[test]
fn memory_cannot_follow_without_ticks() {
    let flags = ["--migrate-memory", "--balance-interval-ms", "0"];
    let said = refused(&flags);
    assert!(said.contains("--balance-interval-ms 0"), "{said}");
    // With the user dispatcher it never can.
    let said = refused(&[&flags[..], &["--dispatcher", "user"]].concat());
    assert!(said.contains("--dispatcher user"), "{said}");
}
