// SPDX-License-Identifier: GPL-2.0-only
//! Can this machine run the scheduler? Each "no" is one line that says what to do about it.
//!
//! Done before anything of scx_utils or libbpf is touched, because those panic, or print pages,
//! where a sentence is enough.

use std::fs;
use std::io;
use std::path::Path;

use thiserror::Error;

const SCHED_EXT: &str = "/sys/kernel/sched_ext";
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Why the scheduler cannot be loaded here.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CheckError {
    #[error(
        "scx_ballast must run as root: loading a scheduler needs CAP_BPF and CAP_SYS_ADMIN; try sudo"
    )]
    NotRoot,
    #[error(
        "this kernel ({kernel}) has no sched_ext: it needs Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT=y"
    )]
    NoSchedExt { kernel: String },
    #[error("this kernel ({kernel}) has no BTF at {BTF}: it needs CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf { kernel: String },
    #[error("the kernel's BTF at {BTF} is unusable: {reason}")]
    BadBtf { reason: String },
    #[error("another sched_ext scheduler is running: {ops}; stop it first")]
    AnotherScheduler { ops: String },
}

fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|s| s.trim().to_string())
        .unwrap_or_else(|_| "release unknown".into())
}

fn is_root() -> bool {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Name of the scheduler that is loaded, if one is.
pub fn running_scheduler() -> Option<String> {
    let state = fs::read_to_string(format!("{SCHED_EXT}/state")).ok()?;
    if state.trim() == "disabled" {
        return None;
    }
    let ops = fs::read_to_string(format!("{SCHED_EXT}/root/ops")).unwrap_or_default();
    let ops = ops.trim();
    Some(if ops.is_empty() {
        format!("its name is not known, its state is {}", state.trim())
    } else {
        ops.to_string()
    })
}

/// Does the kernel's BTF parse, and does it know sched_ext?
fn check_btf() -> Result<(), CheckError> {
    let bad = |reason: String| CheckError::BadBtf { reason };
    if let Err(err) = fs::metadata(BTF) {
        if err.kind() == io::ErrorKind::NotFound {
            return Err(CheckError::NoBtf {
                kernel: kernel_release(),
            });
        }
        return Err(bad(err.to_string()));
    }
    // libbpf would fall back to files under /boot, which are not what this kernel checks against.
    // It prints a line of its own about a file that it cannot parse; ours says the same, and more.
    let print = libbpf_rs::set_print(None);
    let btf = libbpf_rs::btf::Btf::from_path(BTF);
    libbpf_rs::set_print(print);
    let btf = btf.map_err(|e| bad(e.to_string()))?;
    for name in ["sched_ext_ops", "task_struct"] {
        if btf
            .type_by_name::<libbpf_rs::btf::types::Struct<'_>>(name)
            .is_none()
        {
            return Err(bad(format!("it has no struct {name}")));
        }
    }
    Ok(())
}

/// All checks, in the order in which their answers are useful to a user.
pub fn check() -> Result<(), CheckError> {
    if !Path::new(SCHED_EXT).exists() {
        return Err(CheckError::NoSchedExt {
            kernel: kernel_release(),
        });
    }
    if !is_root() {
        return Err(CheckError::NotRoot);
    }
    check_btf()?;
    match running_scheduler() {
        Some(ops) => Err(CheckError::AnotherScheduler { ops }),
        None => Ok(()),
    }
}
