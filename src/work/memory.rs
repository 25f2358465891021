// SPDX-License-Identifier: GPL-2.0-only
//! How much memory a workload may ask for, before the kernel has to kill somebody for it.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

/// Refuses `needed` MiB if that is more than this machine, or the cgroup of this process, can give.
/// Nothing is refused where the kernel does not tell.
pub fn check(needed: u64) -> Result<()> {
    if let Some(available) = read("/proc/meminfo").and_then(|text| available_of(&text))
        && needed > available
    {
        bail!("{needed} MiB are asked for, and {available} MiB of memory are available here");
    }
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    if let Some(limit) = cgroup_limit(&groups, |path| read(path))
        && needed > limit
    {
        bail!("{needed} MiB are asked for, and the cgroup of this process may have {limit} MiB");
    }
    Ok(())
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// MemAvailable of /proc/meminfo, in MiB.
fn available_of(meminfo: &str) -> Option<u64> {
    let rest = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = rest.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib / 1024)
}

/// The smallest memory.max of the version 2 cgroup in /proc/self/cgroup and those above it, in MiB.
fn cgroup_limit(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(own);
    let above = own.ancestors().take_while(|path| path.starts_with(root));
    // A group without a limit says `max`.
    let limit = |path: &Path| read(&path.join("memory.max"))?.trim().parse::<u64>().ok();
    above.filter_map(limit).min().map(|bytes| bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read_from_meminfo() {
        let text = "MemTotal: 99 kB\nMemAvailable:   204800 kB\nSwapTotal: 0 kB\n";
        assert_eq!(available_of(text), Some(200));
        assert_eq!(available_of("MemTotal: 99 kB\n"), None);
        assert_eq!(available_of("MemAvailable: x kB\n"), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let read = |path: &Path| match path.to_str() {
            Some("/sys/fs/cgroup/a/b/memory.max") => Some("max\n".to_owned()),
            Some("/sys/fs/cgroup/a/memory.max") => Some("104857600\n".to_owned()),
            _ => None,
        };
        assert_eq!(cgroup_limit("1:cpu:/x\n0::/a/b\n", read), Some(100));
        assert_eq!(cgroup_limit("0::/\n", read), None);
        assert_eq!(cgroup_limit("1:memory:/a\n", read), None);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        check(1).unwrap();
        let error = check(u64::MAX).unwrap_err().to_string();
        assert!(error.contains("asked for"), "{error}");
    }
}
