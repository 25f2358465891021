// SPDX-License-Identifier: GPL-2.0-only
//! The files of sysfs that describe a machine.
//!
//! Each function is one file. A file that is missing is no error (`None`): kernels without NUMA,
//! virtual machines without caches and offline CPUs lack some. A file that holds something else
//! than the kernel writes there is one.

use super::{MachineError, cpulist};
use std::fs;
use std::io::{self, ErrorKind};
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

    /// Online nodes, `node/online` or else the folders `node/nodeN`, ascending: the order of the
    /// columns in the distance files. `None` without NUMA.
    pub(super) fn online_nodes(&self) -> Result<Option<Vec<u32>>, MachineError> {
        let folder = self.root.join("node");
        let nodes = match read_list(&folder.join("online"))? {
            Some(nodes) => nodes,
            None => numbered(&folder, "node"),
        };
        Ok(Some(nodes).filter(|nodes| !nodes.is_empty()))
    }

    /// CPUs of a node, `node/nodeN/cpulist` or else the links `node/nodeN/cpuN`.
    pub(super) fn node_cpus(&self, node: u32) -> Result<Vec<u32>, MachineError> {
        let folder = self.root.join(format!("node/node{node}"));
        match read_list(&folder.join("cpulist"))? {
            Some(cpus) => Ok(cpus),
            None => Ok(numbered(&folder, "cpu")),
        }
    }

    /// Memory of a node in MiB, rounded down, from the `MemTotal` (in KiB) of `node/nodeN/meminfo`.
    pub(super) fn node_memory_mib(&self, node: u32) -> Option<u64> {
        let text = read_if_there(&self.root.join(format!("node/node{node}/meminfo"))).ok()??;
        let line = text.lines().find(|line| line.contains("MemTotal:"))?;
        let kib: u64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
        Some(kib / 1024)
    }

    /// Distances from a node to each online node, ascending by id, `node/nodeN/distance`; none if the
    /// file is missing.
    pub(super) fn node_distances(&self, node: u32) -> Result<Vec<u32>, MachineError> {
        let path = self.root.join(format!("node/node{node}/distance"));
        let text = read_if_there(&path)?.unwrap_or_default();
        let distances = text.split_whitespace().map(|word| word.parse());
        distances
            .collect::<Result<_, _>>()
            .map_err(|_| unexpected(&path, &text, "a row of distances"))
    }

    /// CPUs of the same core, `cpu/cpuN/topology/thread_siblings_list` or its newer name.
    pub(super) fn siblings(&self, cpu: u32) -> Result<Option<Vec<u32>>, MachineError> {
        let folder = self.root.join(format!("cpu/cpu{cpu}/topology"));
        match read_list(&folder.join("core_cpus_list"))? {
            Some(cpus) => Ok(Some(cpus)),
            None => read_list(&folder.join("thread_siblings_list")),
        }
    }

    /// `physical_package_id` and `core_id` of a CPU; the package counts as 0 if it is not told.
    pub(super) fn package_and_core(&self, cpu: u32) -> Result<Option<(i64, i64)>, MachineError> {
        let folder = self.root.join(format!("cpu/cpu{cpu}/topology"));
        let package = read_number(&folder.join("physical_package_id"))?;
        let core = read_number(&folder.join("core_id"))?;
        Ok(core.map(|core| (package.unwrap_or(0), core)))
    }

    /// How strong a CPU is, in whatever unit: `cpu/cpuN/cpu_capacity`, else its highest frequency.
    pub(super) fn capacity(&self, cpu: u32) -> Result<Option<u64>, MachineError> {
        let folder = self.root.join(format!("cpu/cpu{cpu}"));
        let capacity = match read_number(&folder.join("cpu_capacity"))? {
            None => read_number(&folder.join("cpufreq/cpuinfo_max_freq"))?,
            capacity => capacity,
        };
        Ok(capacity.and_then(|capacity| u64::try_from(capacity).ok()))
    }

    /// The highest level of cache, among `cpu/cpuN/cache/index*`, that says who shares it.
    ///
    /// Caches of the first level and instruction caches are passed over: a core's private L1 is
    /// nothing to queue tasks by. Where an index has no `level` file its number stands in for it.
    pub(super) fn last_cache(&self, cpu: u32) -> Result<Option<LastCache>, MachineError> {
        let folder = self.root.join(format!("cpu/cpu{cpu}/cache"));
        let mut caches: Vec<(u8, PathBuf)> = Vec::new();
        for index in numbered(&folder, "index") {
            let path = folder.join(format!("index{index}"));
            let level = match read_number(&path.join("level"))? {
                Some(level) => level,
                None => index.into(),
            };
            let level = u8::try_from(level).unwrap_or(0);
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

/// The numbers N of the entries `prefixN` of a folder, ascending; none if there is no such folder.
fn numbered(folder: &Path, prefix: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let number = |entry: io::Result<fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        name.to_str()?.strip_prefix(prefix)?.parse().ok()
    };
    let mut numbers: Vec<u32> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

fn read_list(path: &Path) -> Result<Option<Vec<u32>>, MachineError> {
    match read_if_there(path)? {
        Some(text) => parse_list(path, &text).map(Some),
        None => Ok(None),
    }
}

fn parse_list(path: &Path, text: &str) -> Result<Vec<u32>, MachineError> {
    cpulist::parse(text).ok_or_else(|| unexpected(path, text, "a list of ids such as 0-3,8"))
}

fn read_number(path: &Path) -> Result<Option<i64>, MachineError> {
    let parse = |text: String| {
        text.trim()
            .parse()
            .map_err(|_| unexpected(path, &text, "a number"))
    };
    read_if_there(path)?.map(parse).transpose()
}

fn unexpected(path: &Path, text: &str, wanted: &'static str) -> MachineError {
    MachineError::Parse {
        path: path.to_owned(),
        text: text.trim().to_owned(),
        wanted,
    }
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
