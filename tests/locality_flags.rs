// SPDX-License-Identifier: GPL-2.0-only
//! Flags of locality that do not go together end the scheduler before it touches anything.

use std::process::Command;

#[test]
fn memory_cannot_follow_with_locality_off() {
    for mode in ["off", "first-touch"] {
        let output = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
            .args(["--migrate-memory", "--locality", mode])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.contains("--migrate-memory") && said.contains("--locality sampled"),
            "{said}"
        );
    }
}
