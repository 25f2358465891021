// SPDX-License-Identifier: GPL-2.0-only
//! Whether the kernel's own NUMA balancing knows anything of sched_ext tasks.
//!
//! It unmaps parts of a task's memory in turn and sees by the faults who uses what; `mm->numa_scan_seq` of
//! /proc/PID/sched counts how often it has been through. That work is started by the tick of fair tasks alone, so
//! under sched_ext, as of 7.3, the count stands still and `numa_preferred_nid` means nothing. A kernel that changes this is
//! recognised by a count that has grown while the task was sched_ext's, and then its preferred node is worth asking for.

/// What /proc/PID/sched says of the first thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelScans {
    is_ext: bool,
    passes: u64,
}

impl KernelScans {
    /// Lines of `NAME : VALUE`; `None` if the kernel has no NUMA balancing.
    pub fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(key, _)| key.trim_end() == name);
            found.and_then(|(_, value)| value.trim().parse::<u64>().ok())
        };
        Some(Self {
            is_ext: value("ext.enabled") == Some(1),
            passes: value("mm->numa_scan_seq")?,
        })
    }

    /// Both times it was sched_ext's, and the kernel has been through its memory in between.
    pub fn shows_balancing_since(self, earlier: Self) -> bool {
        self.is_ext && earlier.is_ext && self.passes > earlier.passes
    }

    /// The kernel has been through so often.
    pub fn passes(self) -> u64 {
        self.passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scans(ext: u8, passes: u64) -> KernelScans {
        let text = format!(
            "cat (1, #threads: 1)\n-----\nprio   :    120\next.enabled       :    {ext}\n\
             mm->numa_scan_seq                 :         {passes}\nnuma_preferred_nid  :   -1\n"
        );
        KernelScans::parse(&text).unwrap()
    }

    #[test]
    fn only_a_count_that_grows_under_sched_ext_says_so() {
        assert!(scans(1, 4).shows_balancing_since(scans(1, 3)));
        assert!(!scans(1, 4).shows_balancing_since(scans(1, 4)));
        // Scanned before it became sched_ext's, or after.
        assert!(!scans(1, 4).shows_balancing_since(scans(0, 3)));
        assert!(!scans(0, 4).shows_balancing_since(scans(1, 3)));
        assert_eq!(KernelScans::parse("prio : 120\n"), None);
    }
}
