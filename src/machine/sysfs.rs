// SPDX-License-Identifier: GPL-2.0-only
//! The files of sysfs that scx_utils does not read, or reads differently.
//!
//! Each function is one file. A file that is missing is no error (`None`): kernels without NUMA,
//! virtual machines without caches and offline CPUs lack some. A file that holds something else
//! than the kernel writes there is one.

use super::{MachineError, cpulist};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The last cache of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastCache {
    /// Its level, 2 or more.
    pub level: u8,
    /// The CPUs that share it by shared_cpu_list, ascending; not empty.
    pub cpus: Vec<u32>,
}

/// The sysfs below some root.
#[derive(Debug, Clone)]
pub(super) struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The sysfs at `prefix`/sys; the running kernel's if `prefix` is empty.
    pub(super) fn below(prefix: &str) -> Self {
        Self {
            root: PathBuf::from(format!("{prefix}/sys/devices/system")),
        }
    }

    /// Online CPUs, `cpu/online`.
    pub(super) fn online_cpus(&self) -> Result<Vec<u32>, MachineError> {
        let path = self.root.join("cpu/online");
        let text = fs::read_to_string(&path).map_err(|source| MachineError::Read {
            path: path.clone(),
            source,
        })?;
        parse_list(&path, &text)
    }

    /// CPUs that may ever come online, `cpu/possible`.
    pub(super) fn possible_cpus(&self) -> Result<Option<Vec<u32>>, MachineError> {
        read_list(&self.root.join("cpu/possible"))
    }

    /// The ids in the names of the folders `cpu/cpuN`, in no order.
    pub(super) fn cpu_folders(&self) -> Result<Vec<u32>, MachineError> {
        let path = self.root.join("cpu");
        let read = |source| MachineError::Read {
            path: path.clone(),
            source,
        };
        let mut ids = Vec::new();
        for entry in fs::read_dir(&path).map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix("cpu"));
            ids.extend(id.and_then(|id| id.parse::<u32>().ok()));
        }
        Ok(ids)
    }

    /// Online nodes, `node/online`, ascending: the order of the columns in the distance files.
    pub(super) fn online_nodes(&self) -> Result<Option<Vec<u32>>, MachineError> {
        read_list(&self.root.join("node/online"))
    }

    /// Memory of a node in MiB, rounded down, from the `MemTotal` (in KiB) of `node/nodeN/meminfo`.
    pub(super) fn node_memory_mib(&self, node: u32) -> Option<u64> {
        let text = read_if_there(&self.root.join(format!("node/node{node}/meminfo"))).ok()??;
        let line = text.lines().find(|line| line.contains("MemTotal:"))?;
        let kib: u64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
        Some(kib / 1024)
    }

    /// CPUs of the same core, `cpu/cpuN/topology/thread_siblings_list` or its newer name.
    pub(super) fn siblings(&self, cpu: u32) -> Result<Option<Vec<u32>>, MachineError> {
        let folder = self.root.join(format!("cpu/cpu{cpu}/topology"));
        match read_list(&folder.join("core_cpus_list"))? {
            Some(cpus) => Ok(Some(cpus)),
            None => read_list(&folder.join("thread_siblings_list")),
        }
    }

    /// The highest level of cache, among `cpu/cpuN/cache/index*`, that says who shares it.
    ///
    /// Caches of the first level and instruction caches are passed over: a core's private L1 is
    /// nothing to queue tasks by. Where an index has no `level` file its number stands in for it.
    pub(super) fn last_cache(&self, cpu: u32) -> Result<Option<LastCache>, MachineError> {
        let folder = self.root.join(format!("cpu/cpu{cpu}/cache"));
        let Ok(entries) = fs::read_dir(&folder) else {
            return Ok(None);
        };
        let mut caches: Vec<(u8, PathBuf)> = Vec::new();
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(index) = name.and_then(|name| name.strip_prefix("index")) else {
                continue;
            };
            let level = read_if_there(&path.join("level"))?;
            let level = level
                .as_deref()
                .unwrap_or(index)
                .trim()
                .parse()
                .unwrap_or(0);
            if level >= 2 {
                caches.push((level, path));
            }
        }
        caches.sort_unstable_by(|a, b| b.cmp(a));
        for (level, path) in caches {
            let kind = read_if_there(&path.join("type"))?;
            if kind.is_some_and(|kind| kind.trim() == "Instruction") {
                continue;
            }
            match read_list(&path.join("shared_cpu_list"))? {
                Some(cpus) if !cpus.is_empty() => return Ok(Some(LastCache { level, cpus })),
                _ => {}
            }
        }
        Ok(None)
    }
}

fn read_list(path: &Path) -> Result<Option<Vec<u32>>, MachineError> {
    match read_if_there(path)? {
        Some(text) => parse_list(path, &text).map(Some),
        None => Ok(None),
    }
}

fn parse_list(path: &Path, text: &str) -> Result<Vec<u32>, MachineError> {
    cpulist::parse(text).ok_or_else(|| MachineError::Parse {
        path: path.to_owned(),
        text: text.trim().to_owned(),
        wanted: "a list of ids such as 0-3,8",
    })
}

fn read_if_there(path: &Path) -> Result<Option<String>, MachineError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(source) => Err(MachineError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}
