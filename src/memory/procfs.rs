// SPDX-License-Identifier: GPL-2.0-only
//! Files of a process below /proc, and what it means that one cannot be read.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use super::orders::Unseen;

/// Where processes are looked up; /proc, except in tests.
#[derive(Debug, Clone)]
pub struct Proc {
    root: PathBuf,
}

impl Proc {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A file of a process.
    pub fn open(&self, tgid: i32, name: &str) -> Result<File, Unseen> {
        let path = self.root.join(tgid.to_string()).join(name);
        File::open(path).map_err(|error| why(&error))
    }

    /// The whole of a file of a process; `text` is overwritten.
    pub fn read(&self, tgid: i32, name: &str, text: &mut String) -> Result<(), Unseen> {
        text.clear();
        let mut file = self.open(tgid, name)?;
        let read = file.read_to_string(text);
        read.map(drop).map_err(|error| why(&error))
    }

    /// What one system call gets of the beginning of a file.
    pub fn read_start(
        &self,
        tgid: i32,
        name: &str,
        most: usize,
        text: &mut String,
    ) -> Result<(), Unseen> {
        text.clear();
        let mut bytes = vec![0; most];
        let length = self.open(tgid, name)?.read(&mut bytes);
        let length = length.map_err(|error| why(&error))?;
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        Ok(())
    }
}

/// A process that ends while it is looked at gives all sorts of errors; only a refusal is one.
pub fn why(error: &io::Error) -> Unseen {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Unseen::NotAllowed,
        _ => Unseen::Gone,
    }
}

/// What /proc/PID/status says about memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Resident memory that no file on a disk stands behind, in KiB; `None`: it has no memory at all.
    pub resident_kib: Option<u64>,
    /// Size of its address space, in KiB: changes when its map does, nearly always.
    pub virtual_kib: u64,
    /// Nodes that it may have memory on; `None` if the kernel does not tell.
    pub nodes: Option<Nodes>,
}

impl Status {
    pub fn parse(text: &str) -> Self {
        let mut status = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            let kib = || value.strip_suffix(" kB").and_then(|n| n.parse().ok());
            match key {
                "VmSize" => status.virtual_kib = kib().unwrap_or(0),
                "RssAnon" | "RssShmem" | "HugetlbPages" => {
                    status.resident_kib =
                        Some(status.resident_kib.unwrap_or(0) + kib().unwrap_or(0));
                }
                "Mems_allowed_list" => status.nodes = Nodes::parse(value),
                _ => {}
            }
        }
        status
    }
}

/// A set of nodes by the kernel's ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes(std::collections::BTreeSet<u32>);

impl Nodes {
    /// `0-3,8`. The kernel's largest id is below 1024.
    pub fn parse(list: &str) -> Option<Self> {
        let mut nodes = std::collections::BTreeSet::new();
        for part in list.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if last >= 1024 {
                return None;
            }
            nodes.extend(first..=last);
        }
        Some(Self(nodes))
    }

    pub fn contains_all(&self, others: &Self) -> bool {
        self.0.is_superset(&others.0)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_tells_size_and_nodes() {
        let text = "Name:\tcat\nVmSize:\t    9000 kB\nVmRSS:\t    1580 kB\nRssAnon:\t      88 kB\n\
                    RssFile:\t    1484 kB\nRssShmem:\t       8 kB\nHugetlbPages:\t       0 kB\n\
                    Mems_allowed:\t3\nMems_allowed_list:\t0-1,4\n";
        let status = Status::parse(text);
        assert_eq!(status.resident_kib, Some(96));
        assert_eq!(status.virtual_kib, 9000);
        assert_eq!(status.nodes, Nodes::parse("0,1,4"));
        // A kernel thread.
        let status = Status::parse("Name:\tkthreadd\nMems_allowed_list:\t0\n");
        assert_eq!(status.resident_kib, None);
    }

    #[test]
    fn lists_of_nodes() {
        assert_eq!(Nodes::parse("0-2,5").unwrap().count(), 4);
        assert_eq!(Nodes::parse("").unwrap().count(), 0);
        assert_eq!(Nodes::parse("a"), None);
        assert_eq!(Nodes::parse("0-4000000000"), None);
        let some = Nodes::parse("0-1").unwrap();
        assert!(Nodes::parse("0-3").unwrap().contains_all(&some));
        assert!(!Nodes::parse("1-3").unwrap().contains_all(&some));
    }

    #[test]
    fn what_cannot_be_read_is_gone_or_not_allowed() {
        let proc = Proc::new("/proc");
        let mut text = String::new();
        assert_eq!(proc.read(i32::MAX, "maps", &mut text), Err(Unseen::Gone));
        for refusal in [libc::EACCES, libc::EPERM] {
            let error = io::Error::from_raw_os_error(refusal);
            assert_eq!(why(&error), Unseen::NotAllowed);
        }
        assert_eq!(
            why(&io::Error::from_raw_os_error(libc::ESRCH)),
            Unseen::Gone
        );
        let own = std::process::id() as i32;
        proc.read_start(own, "maps", 1000, &mut text).unwrap();
        assert!(text.contains('-') && text.len() <= 1000);
    }
}
