// SPDX-License-Identifier: GPL-2.0-only
//! Where it cannot run, it says so in one line and ends: status 1, nothing loaded, no panic.
//!
//! Files are hidden by mounts in a mount namespace of the one process.

use std::process::{Command, Output};

use crate::guest::state;
use crate::sched::{binary, with_none, with_shared};

/// Run the scheduler where `setup` has been done.
fn run_where(setup: &str, args: &[&str]) -> Output {
    let script = format!("{{ {setup}; }} && exec \"$0\" \"$@\"");
    Command::new("unshare")
        .args(["--mount", "timeout", "60", "bash", "-c", &script])
        .arg(binary())
        .args(args)
        .current_dir("/tmp")
        .output()
        .unwrap()
}

/// One line on stderr that contains `why`, and status 1.
#[track_caller]
fn assert_refused(output: &Output, why: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}\n{text}", output.status);
    assert_eq!(text.lines().count(), 1, "not one line:\n{text}");
    assert!(text.starts_with("Error: ") && text.contains(why), "{text}");
}

#[track_caller]
fn refused_where(setup: &str, why: &str) {
    with_none(|| {
        assert_refused(&run_where(setup, &[]), why);
        assert_eq!(state(), "disabled");
    });
}

#[test]
#[ignore = "runs in the lab"]
fn a_second_instance() {
    with_shared(|_| {
        let why = "another sched_ext scheduler is running: scx_ballast_";
        assert_refused(&run_where(":", &[]), why);
    });
}

/// The binary is shown in a place that everybody may reach.
#[test]
#[ignore = "runs in the lab"]
fn not_root() {
    with_none(|| {
        let script = "touch /tmp/as-nobody && mount --bind \"$0\" /tmp/as-nobody && \
            exec setpriv --reuid 65534 --regid 65534 --clear-groups /tmp/as-nobody";
        let mut command = Command::new("unshare");
        let command = command
            .args(["--mount", "bash", "-c", script])
            .arg(binary());
        assert_refused(&command.output().unwrap(), "must run as root");
    });
}

#[test]
#[ignore = "runs in the lab"]
fn no_sched_ext() {
    // A kernel without it has BTF all the same.
    refused_where("mount -t tmpfs none /sys/kernel", "has no sched_ext");
}

#[test]
#[ignore = "runs in the lab"]
fn no_btf() {
    refused_where("mount -t tmpfs none /sys/kernel/btf", "has no BTF");
}

const OVER_BTF: &str = "mount --bind btf /sys/kernel/btf/vmlinux";

#[test]
#[ignore = "runs in the lab"]
fn btf_is_garbage() {
    let setup = format!("head -c 65536 /dev/urandom >btf; {OVER_BTF}");
    refused_where(&setup, "BTF at /sys/kernel/btf/vmlinux is unusable");
}

#[test]
#[ignore = "runs in the lab"]
fn btf_is_empty() {
    refused_where(
        &format!(": >btf; {OVER_BTF}"),
        "BTF at /sys/kernel/btf/vmlinux is unusable",
    );
}

#[test]
#[ignore = "runs in the lab"]
fn btf_is_truncated() {
    let setup = format!("head -c 500000 /sys/kernel/btf/vmlinux >btf; {OVER_BTF}");
    refused_where(&setup, "BTF at /sys/kernel/btf/vmlinux is unusable");
}

/// BTF that parses and is not this kernel's: that of a kernel without sched_ext, here one that
/// knows nothing at all. A header (magic, version 1, length 24), no type, one empty string.
#[test]
#[ignore = "runs in the lab"]
fn btf_of_another_kernel() {
    let bytes = r"\x9f\xeb\x01\x00\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00";
    let setup = format!("printf '{bytes}' >btf; {OVER_BTF}");
    refused_where(&setup, "BTF at /sys/kernel/btf/vmlinux is unusable");
}

/// A trace that cannot be written ends it before anything is loaded.
#[test]
#[ignore = "runs in the lab"]
fn trace_cannot_be_written() {
    with_none(|| {
        let output = run_where(":", &["--trace", "/proc/no/such/place"]);
        assert_refused(&output, "cannot write the trace to /proc/no/such/place");
        assert_eq!(state(), "disabled");
    });
}

/// Bad flags end with status 2 before anything is looked at.
#[test]
#[ignore = "runs in the lab"]
fn bad_flags() {
    with_none(|| {
        for args in [
            &["--no-such-flag"][..],
            &["--slice-us", "0"],
            &["--stats", "-1"],
            &["--rules", "v9.9"],
            &["--imb-numa-nr", "0%"],
            &["--balance-interval-ms", "5"],
            &["nonsense"],
        ] {
            let output = run_where(":", args);
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
            assert!(
                text.starts_with("error: ") && !text.contains("panicked"),
                "{text}"
            );
        }
    });
}
