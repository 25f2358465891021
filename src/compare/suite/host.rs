// SPDX-License-Identifier: GPL-2.0-only
//! What suites ask of a machine: its numbers, the programs and files on it, and its limits.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::machine::Machine;

/// Names of the numbers that expressions can use everywhere; [`Host::number`] has their values.
pub const VALUES: [&str; 9] = [
    "cpus",
    "cpus_per_node",
    "cores",
    "half",
    "llcs",
    "memory_mib",
    "memory_per_node_mib",
    "nodes",
    "threads_per_core",
];

/// A machine as suites see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Online CPUs.
    pub cpus: u64,
    /// Nodes with CPUs.
    pub nodes: u64,
    /// CPUs of the smallest such node.
    pub cpus_per_node: u64,
    pub cores: u64,
    pub llcs: u64,
    /// Of all nodes; none where a node does not tell.
    pub memory_mib: Option<u64>,
    /// How many open files a process may ask for.
    pub open_files: u64,
    /// Where programs are looked for.
    pub path: Vec<PathBuf>,
    /// This program.
    pub scx_ballast: PathBuf,
}

impl Host {
    /// `machine`, with the programs, files and limits of where this program runs.
    ///
    /// # Errors
    /// The kernel does not tell this program's path or its limits.
    pub fn here(machine: &Machine) -> io::Result<Host> {
        let memory: Option<Vec<u64>> = machine.nodes().iter().map(|node| node.memory_mib).collect();
        let weights = machine.cpu_nodes().iter().map(|node| node.weight());
        let path = std::env::var_os("PATH").unwrap_or_default();
        Ok(Host {
            cpus: machine.cpus().len() as u64,
            nodes: machine.nr_cpu_nodes() as u64,
            cpus_per_node: weights.min().unwrap_or(0).into(),
            cores: machine.cores().len() as u64,
            llcs: machine.llcs().len() as u64,
            memory_mib: memory.map(|memory| memory.iter().sum()),
            open_files: open_files()?,
            path: std::env::split_paths(&path).collect(),
            scx_ballast: std::env::current_exe()?,
        })
    }

    /// The value called `name`; none if it is not known, as memory can be, or no such name.
    pub fn number(&self, name: &str) -> Option<u64> {
        match name {
            "cpus" => Some(self.cpus),
            "cpus_per_node" => Some(self.cpus_per_node),
            "cores" => Some(self.cores),
            "half" => Some(self.cpus / 2),
            "llcs" => Some(self.llcs),
            "memory_mib" => self.memory_mib,
            "memory_per_node_mib" => self.memory_mib?.checked_div(self.nodes),
            "nodes" => Some(self.nodes),
            "threads_per_core" => self.cpus.checked_div(self.cores),
            _ => None,
        }
    }

    /// Whether a program is in PATH or, if `program` has a slash, there.
    pub(super) fn has_program(&self, program: &str) -> bool {
        let executable = |path: &Path| {
            let metadata = path.metadata();
            metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        match program.contains('/') {
            true => executable(Path::new(program)),
            false => {
                let program: &OsStr = program.as_ref();
                self.path.iter().any(|dir| executable(&dir.join(program)))
            }
        }
    }
}

/// How far `ulimit -n` can be raised: root may go up to what the kernel allows any process.
fn open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one rlimit to the place that is given.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(limit.rlim_max);
    }
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open");
    let most = most.ok().and_then(|text| text.trim().parse().ok());
    Ok(most.unwrap_or(limit.rlim_max))
}
