// SPDX-License-Identifier: GPL-2.0-only
//! What placed the memory of a process: a memory policy, its cpuset, or nothing.
//!
//! /proc/PID/numa_maps names the policy of every area, and goes through all of its pages to do so, which takes
//! milliseconds for a gigabyte, holding the lock that mmap(2) needs. There is no cheaper way to see the policy that
//! mbind(2) gave to an area. The policy of a whole task (set_mempolicy(2), numactl) is in every line that has
//! none of its own, so the first lines tell it, and those are of program text: cheap.
//!
//! So the beginning is read at every look, and the whole rarely, see [`Reading::is_due`]. Not seen are policies that
//! other threads than the first have set for themselves, and those of the areas of processes beyond [`MOST_KIB`].

use super::maps::hex;
use super::procfs::{Nodes, Status};
use crate::policy::locality::input::MemoryPolicy;

/// The whole is not read for a look if more is resident: it would keep mmap(2) waiting for some ten milliseconds.
pub const MOST_KIB: u64 = 2 << 20;
/// Nor before bringing if this is: whoever has so much moved will not mind a tenth of a second.
pub const MOST_KIB_TO_BRING: u64 = 16 << 20;
/// At most this often, in ms, while the process stays as it is.
const EVERY_MS: u64 = 60_000;
/// It may take one part in so many of the time of a CPU; or of the second number when the process has grown.
const PART: u64 = 1000;
const PART_GROWN: u64 = 100;

/// An area's line of numa_maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    pub start: u64,
    pub policy: MemoryPolicy,
    /// Of the base size.
    pub pages: u64,
}

/// `START POLICY [KEY=VALUE...]`, and the name of a policy may have two words. `memory`: nodes that have any.
pub fn parse<'a>(
    numa_maps: &'a str,
    memory: &'a Nodes,
    page_size: u64,
) -> impl Iterator<Item = Line> + 'a {
    numa_maps.lines().filter_map(move |line| {
        let (start, rest) = line.split_once(' ')?;
        let (policy, rest) = split_policy(rest);
        let mut pages = 0;
        let mut page_kib = 0;
        for (key, value) in rest.split(' ').filter_map(|field| field.split_once('=')) {
            let is_node = key.starts_with('N') && key[1..].bytes().all(|c| c.is_ascii_digit());
            match value.parse::<u64>() {
                Ok(value) if is_node => pages += value,
                Ok(value) if key == "kernelpagesize_kB" => page_kib = value,
                _ => {}
            }
        }
        let of_base = (page_kib * 1024 / page_size).max(1);
        Some(Line {
            start: hex(start)?,
            policy: policy_of(policy, memory),
            pages: pages.saturating_mul(of_base),
        })
    })
}

/// Whether a text that may end anywhere has all of its first line's policy.
pub fn is_complete(beginning: &str) -> bool {
    let line = beginning.split_inclusive('\n').next().unwrap_or("");
    let Some((_, rest)) = line.split_once(' ') else {
        return false;
    };
    let (policy, _) = split_policy(rest);
    policy.len() < rest.len() || policy.ends_with('\n')
}

/// Policies whose names have two words.
const TWO_WORDS: [&str; 2] = ["weighted interleave", "prefer (many)"];

fn split_policy(rest: &str) -> (&str, &str) {
    let words = TWO_WORDS.iter().find(|words| rest.starts_with(**words));
    let begin = words.map_or(0, |words| words.len());
    let end = rest[begin..].find(' ').map_or(rest.len(), |at| begin + at);
    (&rest[..end], rest[end..].trim_start())
}

/// `bind=static:0-1`: a name, flags, nodes.
fn policy_of(text: &str, memory: &Nodes) -> MemoryPolicy {
    let (name, nodes) = text.split_once(':').unwrap_or((text, ""));
    let name = name.split('=').next().unwrap_or("");
    let nodes = Nodes::parse(nodes).unwrap_or_default();
    match name {
        "bind" | "interleave" | "weighted interleave"
            if nodes.count() == 1 && memory.count() == 1 =>
        {
            MemoryPolicy::Free
        }
        // Bound to whatever there is.
        "bind" if nodes.contains_all(memory) => MemoryPolicy::Free,
        "bind" => MemoryPolicy::Bind,
        "interleave" | "weighted interleave" if nodes.count() == 1 => MemoryPolicy::Bind,
        "interleave" | "weighted interleave" => MemoryPolicy::Interleave,
        "prefer" | "prefer (many)" if nodes.contains_all(memory) => MemoryPolicy::Free,
        "prefer" | "prefer (many)" => MemoryPolicy::Preferred,
        // `default`, `local`, and what a newer kernel may have.
        _ => MemoryPolicy::Free,
    }
}

/// The policy of most pages; `counts` tells which areas matter.
pub fn of_most(lines: impl Iterator<Item = Line>, counts: impl Fn(u64) -> bool) -> MemoryPolicy {
    use MemoryPolicy::{Bind, Free, Interleave, Preferred};
    let all = [Free, Preferred, Bind, Interleave];
    let mut pages = [0_u64; 4];
    for line in lines.filter(|line| counts(line.start)) {
        let at = all.iter().position(|policy| *policy == line.policy);
        pages[at.unwrap_or(0)] += line.pages;
    }
    let most = pages.iter().max().copied().unwrap_or(0);
    let at = pages.iter().position(|pages| *pages == most);
    all[at.unwrap_or(0)]
}

/// A cpuset that excludes nodes with memory places what no policy has placed.
pub fn with_cpuset(policy: MemoryPolicy, status: &Status, memory: &Nodes) -> MemoryPolicy {
    let confined = status
        .nodes
        .as_ref()
        .is_some_and(|nodes| !nodes.contains_all(memory));
    match policy.places() || !confined {
        true => policy,
        false => MemoryPolicy::Cpuset,
    }
}

/// What the last reading of a process's whole numa_maps has told.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub policy: MemoryPolicy,
    /// That of the first task, at the same time.
    pub of_task: MemoryPolicy,
    pub at_ms: u64,
    pub cost_us: u32,
    pub resident_kib: u64,
}

impl Reading {
    /// Whether it is time to read it again: something about the process has changed, or a minute is over, and
    /// neither costs too much.
    pub fn is_due(&self, of_task: MemoryPolicy, resident_kib: u64, now_ms: u64) -> bool {
        let age_ms = now_ms.saturating_sub(self.at_ms);
        let cost_us = u64::from(self.cost_us);
        let changed = of_task != self.of_task
            || resident_kib.abs_diff(self.resident_kib) > self.resident_kib / 4;
        match changed {
            true => age_ms >= cost_us * PART_GROWN / 1000,
            false => age_ms >= EVERY_MS.max(cost_us * PART / 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryPolicy::{Bind, Cpuset, Free, Interleave, Preferred};

    fn two() -> Nodes {
        Nodes::parse("0-1").unwrap()
    }

    #[test]
    fn names_of_policies() {
        let of = |text: &str| {
            let line = format!("7f00 {text} anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4\n");
            let memory = two();
            let lines: Vec<Line> = parse(&line, &memory, 4096).collect();
            assert_eq!(
                (lines.len(), lines[0].start, lines[0].pages),
                (1, 0x7f00, 3)
            );
            lines[0].policy
        };
        assert_eq!(of("default"), Free);
        assert_eq!(of("local"), Free);
        assert_eq!(of("bind:0"), Bind);
        assert_eq!(of("bind=static:1"), Bind);
        assert_eq!(of("bind:0-1"), Free);
        assert_eq!(of("interleave:0-1"), Interleave);
        assert_eq!(of("interleave:1"), Bind);
        assert_eq!(of("weighted interleave:0-1"), Interleave);
        assert_eq!(of("prefer:1"), Preferred);
        assert_eq!(of("prefer (many):0"), Preferred);
        assert_eq!(of("prefer=relative:1"), Preferred);
    }

    #[test]
    fn a_policy_that_is_cut_off_is_not_complete() {
        for text in [
            "",
            "7f00",
            "7f00 ",
            "7f00 bin",
            "7f00 bind:0-1,3",
            "7f00 prefer (many):0",
        ] {
            assert!(!is_complete(text), "{text}");
        }
        for text in [
            "7f00 default\n",
            "7f00 default file=/x",
            "7f00 prefer (many):0 a",
        ] {
            assert!(is_complete(text), "{text}");
        }
    }

    #[test]
    fn one_node_of_memory_is_no_choice() {
        let one = Nodes::parse("0").unwrap();
        for text in ["bind:0", "interleave:0", "prefer:0"] {
            assert_eq!(policy_of(text, &one), Free);
        }
    }

    #[test]
    fn the_policy_of_most_pages_counts() {
        let text = "\
400000 default file=/bin/x mapped=900 N0=900 kernelpagesize_kB=4
7f0000000000 bind:1 anon=600 N1=600 kernelpagesize_kB=4
7f1000000000 default anon=500 N0=500 kernelpagesize_kB=4
7f2000000000 interleave:0-1 file=/anon_hugepage\\040(deleted) huge anon=2 N0=1 N1=1 kernelpagesize_kB=2048
7ffc00000000 default stack
";
        let memory = two();
        let lines = || parse(text, &memory, 4096);
        // Huge pages count as what they are made of: 1024.
        assert_eq!(of_most(lines(), |start| start != 0x40_0000), Interleave);
        assert_eq!(
            of_most(lines(), |start| start < 0x7f20_0000_0000
                && start > 0x40_0000),
            Bind
        );
        assert_eq!(of_most(lines(), |_| false), Free);
    }

    #[test]
    fn a_cpuset_confines() {
        let status = |list| Status {
            nodes: Nodes::parse(list),
            ..Status::default()
        };
        assert_eq!(with_cpuset(Free, &status("0-1"), &two()), Free);
        assert_eq!(with_cpuset(Free, &status("1"), &two()), Cpuset);
        assert_eq!(with_cpuset(Preferred, &status("1"), &two()), Cpuset);
        assert_eq!(with_cpuset(Bind, &status("1"), &two()), Bind);
        // More nodes than have memory.
        assert_eq!(with_cpuset(Free, &status("0-7"), &two()), Free);
    }

    #[test]
    fn the_whole_is_read_rarely() {
        let reading = Reading {
            policy: Free,
            of_task: Free,
            at_ms: 1_000,
            cost_us: 10_000,
            resident_kib: 1000,
        };
        assert!(!reading.is_due(Free, 1250, 60_999));
        assert!(reading.is_due(Free, 1250, 61_000));
        // Grown by more than a quarter: 10 ms in a second are enough.
        assert!(!reading.is_due(Free, 1251, 1_999));
        assert!(reading.is_due(Free, 1251, 2_000));
        assert!(reading.is_due(Bind, 1000, 2_000));
        // 100 ms: a hundred seconds.
        let dear = Reading {
            cost_us: 100_000,
            ..reading
        };
        assert!(!dear.is_due(Free, 1000, 100_999));
        assert!(dear.is_due(Free, 1000, 101_000));
    }
}
