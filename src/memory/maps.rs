// SPDX-License-Identifier: GPL-2.0-only
//! Which areas of a process are memory of its own, and which it shares: /proc/PID/maps.
//!
//! That file names areas without looking at their pages, so it costs about a microsecond an area however large
//! they are; smaps and numa_maps go through every page.
//!
//! Anonymous memory, heap and stacks are private; shared anonymous memory, shm, memfd and tmpfs are shared, and
//! known by device and inode. What a file on a disk stands behind is left out, program text and libraries
//! foremost: it is page cache, where it lies says nothing about whoever runs now. So is what cannot be accessed,
//! such as address space that a runtime has reserved.
//!
//! A tmpfs that only another mount namespace sees is taken for a disk, unless its files have the usual names.

use std::collections::BTreeSet;

/// What tells a shared mapping from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedId {
    pub device: (u32, u32),
    pub inode: u64,
}

/// An area of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// `None`: the process's own.
    pub shared: Option<SharedId>,
}

/// The devices of file systems that are memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryDevices(BTreeSet<(u32, u32)>);

impl MemoryDevices {
    /// Of /proc/self/mountinfo: `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELDS] - TYPE SOURCE OPTIONS`.
    pub fn parse(mountinfo: &str) -> Self {
        let device = |line: &str| {
            let (mount, kind) = line.split_once(" - ")?;
            let kind = kind.split(' ').next()?;
            if !["tmpfs", "ramfs", "hugetlbfs", "devtmpfs"].contains(&kind) {
                return None;
            }
            let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        Self(mountinfo.lines().filter_map(device).collect())
    }

    fn contains(&self, device: (u32, u32)) -> bool {
        self.0.contains(&device)
    }
}

/// Names of what is memory, whatever the device.
const MEMORY_NAMES: [&str; 6] = [
    "/dev/zero",
    "/dev/shm/",
    "/SYSV",
    "/memfd:",
    "/anon_hugepage",
    "[anon_shmem:",
];
/// Pages of the kernel's that every process sees.
const KERNEL_NAMES: [&str; 4] = ["[vdso]", "[vvar", "[vsyscall]", "[uprobes]"];

/// The areas of a process's map that are memory, in order.
pub fn parse<'a>(maps: &'a str, devices: &'a MemoryDevices) -> impl Iterator<Item = Mapping> + 'a {
    maps.lines().filter_map(|line| mapping(line, devices))
}

/// `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE    NAME`, numbers in hexadecimal but the inode.
fn mapping(line: &str, devices: &MemoryDevices) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let device = fields.nth(1)?;
    let inode: u64 = fields.next()?.parse().ok()?;
    let name = fields.next().unwrap_or("").trim_start();
    let accessible = permissions.bytes().take(3).any(|flag| flag != b'-');
    let of_kernel = KERNEL_NAMES.iter().any(|kernel| name.starts_with(kernel));
    if !accessible || of_kernel {
        return None;
    }
    let (start, end) = (hex(start)?, hex(end)?);
    let of = |shared| {
        Some(Mapping {
            start,
            end: end.max(start),
            shared,
        })
    };
    let named = MEMORY_NAMES.iter().any(|memory| name.starts_with(memory));
    match permissions.ends_with('s') {
        false if inode == 0 || name.starts_with("/anon_hugepage") => of(None),
        false => None,
        true => {
            let (major, minor) = device.split_once(':')?;
            let device = (hex(major)? as u32, hex(minor)? as u32);
            let is_memory = named || devices.contains(device);
            is_memory.then_some(())?;
            of(Some(SharedId { device, inode }))
        }
    }
}

pub(super) fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5622b7a00000-5622b7a08000 r-xp 00002000 fe:01 1234                       /usr/bin/cat
5622b7a0f000-5622b7a10000 rw-p 0000e000 fe:01 1234                       /usr/bin/cat
5622b8000000-5622b8021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 
7f0000021000-7f0004000000 ---p 00000000 00:00 0 
7f1000000000-7f1000200000 rw-s 00000000 00:01 77                         /dev/zero (deleted)
7f1100000000-7f1100200000 rw-p 00000000 00:0f 78                         /anon_hugepage (deleted)
7f1200000000-7f1200200000 rw-s 00000000 00:1b 5                          /run/my file
7f1300000000-7f1300200000 rw-s 00000000 fe:01 99                         /var/lib/db
7f1400000000-7f1400200000 rw-p 00000000 00:00 0                          [anon:arena]
7f1500000000-7f1500200000 rw-s 00000000 00:0e 9                          anon_inode:[perf_event]
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00100000-7ffc00104000 r--p 00000000 00:00 0                          [vvar]
7ffc00104000-7ffc00106000 r-xp 00000000 00:00 0                          [vdso]
broken
";

    #[test]
    fn memory_is_told_from_files() {
        let mountinfo = "22 1 254:1 / / rw - ext4 /dev/vda rw\n\
                         26 22 0:27 / /run rw,nosuid shared:5 - tmpfs tmpfs rw\n";
        let devices = MemoryDevices::parse(mountinfo);
        let found: Vec<_> = parse(MAPS, &devices)
            .map(|area| (area.start, area.shared.map(|id| (id.device, id.inode))))
            .collect();
        assert_eq!(
            found,
            [
                (0x5622_b800_0000, None),
                (0x7f00_0000_0000, None),
                (0x7f10_0000_0000, Some(((0, 1), 77))),
                (0x7f11_0000_0000, None),
                (0x7f12_0000_0000, Some(((0, 0x1b), 5))),
                (0x7f14_0000_0000, None),
                (0x7ffc_0000_0000, None),
            ]
        );
    }
}
