// SPDX-License-Identifier: GPL-2.0-only
//! A look at a process's memory: some addresses, and on which nodes their pages are.
//!
//! Its map gives areas, the policy ([`areas`]) their order and how many addresses each gets, the kernel the nodes.
//! Where the addresses lie in an area is random, one in each of as many equal parts. What has to be remembered
//! from look to look is here: when each area was sampled and touched, what was marked for the next time, the memory
//! policy that was found, and which processes share memory.
//!
//! A cgroup's memory.numa_stat would tell where the memory of a process that is alone in it lies without any
//! sampling, but reading it makes the kernel sum up the statistics of all CPUs first, it cannot tell hot from cold
//! nor shared from private, and a look costs hardly more. It is not read.

use std::collections::BTreeMap;
use std::io;

use fastrand::Rng;

use super::groups::Groups;
use super::maps::{self, Mapping, MemoryDevices, SharedId};
use super::orders::{Look, Unseen};
use super::pages;
use super::policy::{self, Reading};
use super::procfs::{Nodes, Proc, Status, why};
use super::thread_time::ThreadTime;
use super::touch::{Mark, TouchSource, Touches};
use crate::policy::locality::areas::{self, Area};
use crate::policy::locality::input::{MemoryPolicy, NodePages, Sample};

/// Enough of numa_maps for the line of program text, which has the policy of the task.
const BEGINNING: usize = 512;
/// Areas of a process that are remembered; of more only the largest are looked at.
const MOST_AREAS: usize = 4096;
/// Processes that were not looked at for so long are forgotten.
const FORGET_MS: u64 = 300_000;

/// Who tells the nodes of pages: the kernel, except in tests.
pub trait AskNodes {
    fn ask(&mut self, tgid: i32, addresses: &[usize], status: &mut [i32]) -> io::Result<()>;
}

/// move_pages(2).
pub struct Kernel;

impl AskNodes for Kernel {
    fn ask(&mut self, tgid: i32, addresses: &[usize], status: &mut [i32]) -> io::Result<()> {
        pages::ask(tgid, addresses, status)
    }
}

/// Where memory can be on this machine.
#[derive(Debug, Clone)]
pub struct MemoryNodes {
    /// The kernel's id by dense index.
    pub ids: Vec<u32>,
    /// Those that have memory.
    pub with_memory: Nodes,
}

impl MemoryNodes {
    fn dense(&self, id: i32) -> Option<usize> {
        let id = u32::try_from(id).ok()?;
        self.ids.iter().position(|&other| other == id)
    }
}

/// What is remembered of a process.
#[derive(Debug, Default)]
struct Known {
    /// By start.
    areas: BTreeMap<u64, Area>,
    marks: Vec<Mark>,
    reading: Option<Reading>,
    looked_ms: u64,
}

/// See the module.
pub struct Sampler<A> {
    proc: Proc,
    kernel: A,
    nodes: MemoryNodes,
    devices: MemoryDevices,
    touches: Touches,
    groups: Groups,
    known: BTreeMap<i32, Known>,
    swept_ms: u64,
    rng: Rng,
    page_size: u64,
    text: String,
}

/// The addresses of a look, and the area of each as an index.
#[derive(Default)]
struct Chosen {
    addresses: Vec<usize>,
    area: Vec<u32>,
}

impl<A: AskNodes> Sampler<A> {
    pub fn new(
        proc: Proc,
        kernel: A,
        nodes: MemoryNodes,
        devices: MemoryDevices,
        touches: Touches,
        rng: Rng,
    ) -> Self {
        Self {
            proc,
            kernel,
            nodes,
            devices,
            touches,
            groups: Groups::default(),
            known: BTreeMap::new(),
            swept_ms: 0,
            rng,
            page_size: pages::page_size() as u64,
            text: String::new(),
        }
    }

    /// Look at at most so many addresses of a process.
    pub fn look(&mut self, tgid: i32, addresses: u32, at_ms: u64) -> Result<Look, Unseen> {
        self.sweep(at_ms);
        let look = self.try_look(tgid, addresses, at_ms);
        if look == Err(Unseen::Gone) {
            self.forget(tgid);
        }
        look
    }

    fn try_look(&mut self, tgid: i32, addresses: u32, at_ms: u64) -> Result<Look, Unseen> {
        let status = self.status(tgid)?;
        let resident_kib = status.resident_kib.ok_or(Unseen::Gone)?;
        let mappings = self.mappings(tgid)?;
        let mut known = self.known.remove(&tgid).unwrap_or_default();
        let policy = self.policy(tgid, &status, &mappings, &mut known, at_ms)?;
        let sample = self.sample(tgid, &mappings, &mut known, addresses, at_ms)?;
        known.looked_ms = at_ms;
        self.known.insert(tgid, known);
        Ok(Look {
            sample,
            policy,
            group: self.groups.of(tgid),
            resident: resident_kib * 1024 / self.page_size,
        })
    }

    /// Private memory that no policy placed, hot areas first; nothing of a process whose memory was placed by rule, or
    /// that is too large to find out.
    pub fn movable(&mut self, tgid: i32, at_ms: u64) -> Result<Vec<(u64, u64)>, Unseen> {
        let status = self.status(tgid)?;
        let mappings = self.mappings(tgid)?;
        let mut known = self.known.remove(&tgid).unwrap_or_default();
        // As it is now, whenever it was last read.
        known.reading = None;
        let policy = self.policy(tgid, &status, &mappings, &mut known, at_ms);
        let mut areas = self.areas(&mappings, &known);
        let is_known = known.reading.is_some();
        self.known.insert(tgid, known);
        if policy? != MemoryPolicy::Free || !is_known {
            return Ok(Vec::new());
        }
        // The reading has left the whole of numa_maps behind.
        let lines = policy::parse(&self.text, &self.nodes.with_memory, self.page_size);
        let free: BTreeMap<u64, MemoryPolicy> =
            lines.map(|line| (line.start, line.policy)).collect();
        areas.retain(|area| {
            let is_free = free.get(&area.start) == Some(&MemoryPolicy::Free);
            is_free && shared_id(&mappings, area.start).is_none()
        });
        areas::order(&mut areas, at_ms);
        let range = |area: &Area| (area.start, area.start + area.pages * self.page_size);
        Ok(areas.iter().map(range).collect())
    }

    /// Whether the task has another memory policy than when its areas' were last read, or that is not known.
    pub fn policy_has_changed(&mut self, tgid: i32) -> Result<bool, Unseen> {
        let of_task = self.policy_of_task(tgid)?;
        let known = self.known.get(&tgid);
        let reading = known.and_then(|known| known.reading);
        Ok(reading.is_none_or(|reading| reading.of_task != of_task))
    }

    fn policy_of_task(&mut self, tgid: i32) -> Result<MemoryPolicy, Unseen> {
        self.proc
            .read_start(tgid, "numa_maps", BEGINNING, &mut self.text)?;
        let mut lines = policy::parse(&self.text, &self.nodes.with_memory, self.page_size);
        Ok(lines.next().map_or(MemoryPolicy::Free, |line| line.policy))
    }

    fn status(&mut self, tgid: i32) -> Result<Status, Unseen> {
        self.proc.read(tgid, "status", &mut self.text)?;
        Ok(Status::parse(&self.text))
    }

    /// The largest areas, in order of their addresses.
    fn mappings(&mut self, tgid: i32) -> Result<Vec<Mapping>, Unseen> {
        self.proc.read(tgid, "maps", &mut self.text)?;
        let mut found: Vec<Mapping> = maps::parse(&self.text, &self.devices).collect();
        if found.len() > MOST_AREAS {
            found.sort_unstable_by_key(|area| std::cmp::Reverse(area.end - area.start));
            found.truncate(MOST_AREAS);
            found.sort_unstable_by_key(|area| area.start);
        }
        Ok(found)
    }

    /// The memory policy: of the task at every look, of its areas rarely.
    fn policy(
        &mut self,
        tgid: i32,
        status: &Status,
        mappings: &[Mapping],
        known: &mut Known,
        at_ms: u64,
    ) -> Result<MemoryPolicy, Unseen> {
        let of_task = self.policy_of_task(tgid)?;
        let memory = &self.nodes.with_memory;
        let resident_kib = status.resident_kib.unwrap_or(0);
        let is_due = |reading: Reading| reading.is_due(of_task, resident_kib, at_ms);
        if resident_kib > policy::MOST_KIB {
            known.reading = None;
        } else if known.reading.is_none_or(is_due) {
            let clock = ThreadTime::now();
            self.proc.read(tgid, "numa_maps", &mut self.text)?;
            let lines = policy::parse(&self.text, memory, self.page_size);
            let policy = policy::of_most(lines, |start| contains(mappings, start));
            known.reading = Some(Reading {
                policy,
                of_task,
                at_ms,
                cost_us: clock.elapsed_us(),
                resident_kib,
            });
        }
        // Of another task policy the last reading knows nothing.
        let reading = known.reading.filter(|reading| reading.of_task == of_task);
        let policy = reading.map_or(of_task, |reading| reading.policy);
        Ok(policy::with_cpuset(policy, status, memory))
    }

    fn sample(
        &mut self,
        tgid: i32,
        mappings: &[Mapping],
        known: &mut Known,
        addresses: u32,
        at_ms: u64,
    ) -> Result<Sample, Unseen> {
        let pagemap = match self.touches.source() {
            TouchSource::None => None,
            TouchSource::IdlePages => self.proc.open(tgid, "pagemap").ok(),
        };
        let touched = pagemap
            .as_ref()
            .map(|pagemap| self.touches.touched(pagemap, &known.marks));
        for area in touched.into_iter().flatten() {
            let area = known.areas.get_mut(&area);
            area.into_iter()
                .for_each(|area| area.touched_ms = Some(at_ms));
        }
        let mut areas = self.areas(mappings, known);
        areas::order(&mut areas, at_ms);
        let chosen = self.choose(&mut areas, addresses, at_ms);
        let mut status = vec![-libc::ENOENT; chosen.addresses.len()];
        if !status.is_empty() {
            let asked = self.kernel.ask(tgid, &chosen.addresses, &mut status);
            asked.map_err(|error| why(&error))?;
        }
        let (pages, shares) = self.tally(mappings, &areas, &chosen, &status);
        self.groups.set(tgid, majority(&pages, &shares));
        if let Some(pagemap) = pagemap {
            let present = chosen.present(&areas, &status);
            self.touches.mark(&pagemap, &present, &mut known.marks);
        }
        known.areas = areas.into_iter().map(|area| (area.start, area)).collect();
        Ok(Sample {
            at_ms,
            asked: chosen.addresses.len() as u32,
            pages,
        })
    }

    /// The areas as the map has them now, with what is known of them.
    fn areas(&self, mappings: &[Mapping], known: &Known) -> Vec<Area> {
        let area = |mapping: &Mapping| {
            let before = known.areas.get(&mapping.start);
            Area {
                start: mapping.start,
                pages: (mapping.end - mapping.start) / self.page_size,
                touched_ms: before.and_then(|area| area.touched_ms),
                sampled_ms: before.and_then(|area| area.sampled_ms),
            }
        };
        mappings.iter().map(area).collect()
    }

    /// Addresses in the areas, which are in order of preference; those that get any are sampled now.
    fn choose(&mut self, areas: &mut [Area], addresses: u32, at_ms: u64) -> Chosen {
        let mut chosen = Chosen::default();
        let allotted = areas::allot(areas, addresses, at_ms);
        for (at, (area, count)) in areas.iter_mut().zip(allotted).enumerate() {
            if count == 0 {
                continue;
            }
            area.sampled_ms = Some(at_ms);
            let pages = usize::try_from(area.pages).unwrap_or(usize::MAX);
            for page in pages::sample(pages, count as usize, &mut self.rng) {
                let address = area.start + page as u64 * self.page_size;
                chosen.addresses.push(address as usize);
                chosen.area.push(at as u32);
            }
        }
        chosen
    }

    /// Pages by node, and how many of each shared mapping.
    fn tally(
        &self,
        mappings: &[Mapping],
        areas: &[Area],
        chosen: &Chosen,
        status: &[i32],
    ) -> (Vec<NodePages>, BTreeMap<SharedId, u32>) {
        let mut by_node = vec![NodePages::default(); self.nodes.ids.len()];
        let mut shares = BTreeMap::new();
        for (&node, &area) in status.iter().zip(&chosen.area) {
            let Some(node) = self.nodes.dense(node) else {
                continue;
            };
            match shared_id(mappings, areas[area as usize].start) {
                None => by_node[node].private += 1,
                Some(id) => {
                    by_node[node].shared += 1;
                    *shares.entry(id).or_default() += 1;
                }
            }
        }
        (by_node, shares)
    }

    fn forget(&mut self, tgid: i32) {
        self.known.remove(&tgid);
        self.groups.set(tgid, None);
    }

    /// Forget whom nobody asked about for long, now and then.
    fn sweep(&mut self, at_ms: u64) {
        if at_ms.saturating_sub(self.swept_ms) < FORGET_MS / 10 {
            return;
        }
        self.swept_ms = at_ms;
        let old = |known: &Known| at_ms.saturating_sub(known.looked_ms) > FORGET_MS;
        let forgotten: Vec<i32> = self
            .known
            .iter()
            .filter(|(_, known)| old(known))
            .map(|(&tgid, _)| tgid)
            .collect();
        forgotten.into_iter().for_each(|tgid| self.forget(tgid));
    }
}

impl Chosen {
    /// Addresses that have a page, each with the start of its area.
    fn present(&self, areas: &[Area], status: &[i32]) -> Vec<(u64, u64)> {
        let all = self.addresses.iter().zip(&self.area).zip(status);
        all.filter(|(_, status)| **status >= 0)
            .map(|((&address, &area), _)| (address as u64, areas[area as usize].start))
            .collect()
    }
}

/// The shared mapping that more than half of the pages are in.
fn majority(pages: &[NodePages], shares: &BTreeMap<SharedId, u32>) -> Option<SharedId> {
    let all: u32 = pages.iter().map(|node| node.private + node.shared).sum();
    let (&id, &most) = shares.iter().max_by_key(|(_, count)| **count)?;
    (most > all / 2).then_some(id)
}

fn at(mappings: &[Mapping], start: u64) -> Option<&Mapping> {
    let at = mappings.binary_search_by_key(&start, |mapping| mapping.start);
    at.ok().map(|at| &mappings[at])
}

fn contains(mappings: &[Mapping], start: u64) -> bool {
    at(mappings, start).is_some()
}

fn shared_id(mappings: &[Mapping], start: u64) -> Option<SharedId> {
    at(mappings, start).and_then(|mapping| mapping.shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Nodes by address; what has none is absent.
    struct Fake(fn(usize) -> i32);

    impl AskNodes for Fake {
        fn ask(&mut self, _: i32, addresses: &[usize], status: &mut [i32]) -> io::Result<()> {
            for (status, &address) in status.iter_mut().zip(addresses) {
                *status = (self.0)(address);
            }
            Ok(())
        }
    }

    /// Kernel's nodes 0 and 8, both with memory.
    fn sampler(root: &Path, nodes: fn(usize) -> i32) -> Sampler<Fake> {
        let nodes_with = MemoryNodes {
            ids: vec![0, 8],
            with_memory: Nodes::parse("0,8").unwrap(),
        };
        Sampler {
            page_size: 4096,
            ..Sampler::new(
                Proc::new(root),
                Fake(nodes),
                nodes_with,
                MemoryDevices::default(),
                Touches::none(4096),
                Rng::with_seed(1),
            )
        }
    }

    fn write(root: &Path, tgid: i32, files: &[(&str, &str)]) {
        let dir = root.join(tgid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        for (name, text) in files {
            std::fs::write(dir.join(name), text).unwrap();
        }
    }

    /// 64 MiB of its own, 32 MiB of shared memory, and a program.
    const MAPS: &str = "\
00400000-00500000 r-xp 00000000 fe:01 9 /bin/x
10000000-14000000 rw-p 00000000 00:00 0 
20000000-22000000 rw-s 00000000 00:01 5 /dev/zero (deleted)
";
    const STATUS: &str =
        "VmSize: 99999 kB\nRssAnon: 65536 kB\nRssShmem: 32768 kB\nMems_allowed_list: 0-63\n";
    const NUMA_MAPS: &str = "\
00400000 default file=/bin/x mapped=9 N0=9 kernelpagesize_kB=4
10000000 default anon=16384 N0=16384 kernelpagesize_kB=4
20000000 default file=/dev/zero\\040(deleted) dirty=8192 N8=8192 kernelpagesize_kB=4
";

    #[test]
    fn a_look_counts_pages_by_node_and_kind() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("status", STATUS), ("maps", MAPS), ("numa_maps", NUMA_MAPS)];
        write(dir.path(), 42, &files);
        let nodes = |address: usize| match address {
            // Of the private memory an eighth is on node 8, another eighth absent.
            0x1000_0000..0x1080_0000 => 8,
            0x1080_0000..0x1100_0000 => -libc::ENOENT,
            0x1100_0000..0x1400_0000 => 0,
            0x2000_0000..0x2200_0000 => 8,
            _ => panic!("{address:x} is not memory"),
        };
        let mut sampler = sampler(dir.path(), nodes);
        let look = sampler.look(42, 300, 5_000).unwrap();
        // 200 and 100; rounding may put one elsewhere.
        let on = |private, shared| NodePages { private, shared };
        assert_eq!(look.sample.pages, [on(150, 0), on(25, 100)]);
        assert_eq!((look.sample.at_ms, look.sample.asked), (5_000, 300));
        assert_eq!(look.resident, 98_304 / 4);
        assert_eq!((look.policy, look.group), (MemoryPolicy::Free, None));
    }

    #[test]
    fn areas_take_turns_when_there_are_few_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let maps = "\
10000000-10001000 rw-p 00000000 00:00 0 
20000000-20001000 rw-p 00000000 00:00 0 
30000000-30001000 rw-p 00000000 00:00 0 
";
        write(
            dir.path(),
            1,
            &[("status", STATUS), ("maps", maps), ("numa_maps", "")],
        );
        let mut sampler = sampler(dir.path(), |address| match address {
            0x1000_0000 => 0,
            0x2000_0000 => 8,
            _ => -libc::ENOENT,
        });
        let mut seen = |at_ms| {
            let pages = sampler.look(1, 1, at_ms).unwrap().sample.pages;
            pages.iter().map(|node| node.private).collect::<Vec<_>>()
        };
        assert_eq!(seen(1), [1, 0]);
        assert_eq!(seen(2), [0, 1]);
        assert_eq!(seen(3), [0, 0]);
        assert_eq!(seen(4), [1, 0]);
    }

    #[test]
    fn those_who_share_most_are_a_group() {
        let dir = tempfile::tempdir().unwrap();
        let mostly = "\
10000000-10800000 rw-p 00000000 00:00 0 
20000000-22000000 rw-s 00000000 00:01 5 /dev/zero (deleted)
";
        for (tgid, maps) in [(1, mostly), (2, mostly), (3, MAPS)] {
            write(
                dir.path(),
                tgid,
                &[("status", STATUS), ("maps", maps), ("numa_maps", "")],
            );
        }
        let mut sampler = sampler(dir.path(), |_| 0);
        let mut group = |tgid| sampler.look(tgid, 200, 1).unwrap().group;
        let first = group(1);
        assert!(first.is_some());
        assert_eq!(group(2), first);
        assert_eq!(group(3), None);
    }

    #[test]
    fn the_policy_of_the_task_and_of_areas() {
        let dir = tempfile::tempdir().unwrap();
        write(
            dir.path(),
            1,
            &[("status", STATUS), ("maps", MAPS), ("numa_maps", NUMA_MAPS)],
        );
        let mut sampler = sampler(dir.path(), |_| 0);
        let mut policy = |at_ms| sampler.look(1, 10, at_ms).unwrap().policy;
        assert_eq!(policy(0), MemoryPolicy::Free);
        // Its areas are not read again before a minute is over...
        let bound = NUMA_MAPS.replace("10000000 default", "10000000 bind:8");
        write(dir.path(), 1, &[("numa_maps", &bound)]);
        assert_eq!(policy(59_000), MemoryPolicy::Free);
        assert_eq!(policy(60_000), MemoryPolicy::Bind);
        // ... but the task's at every look, and if it is another one, all of it.
        let all = NUMA_MAPS.replace("default", "interleave:0,8");
        write(dir.path(), 1, &[("numa_maps", &all)]);
        assert_eq!(policy(61_000), MemoryPolicy::Interleave);
        // Confined to one of the two nodes.
        let status = STATUS.replace("0-63", "8");
        write(
            dir.path(),
            1,
            &[("status", &status), ("numa_maps", NUMA_MAPS)],
        );
        assert_eq!(policy(62_000), MemoryPolicy::Cpuset);
    }

    #[test]
    fn a_large_process_is_not_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let status = STATUS.replace("RssAnon: 65536", "RssAnon: 8388609");
        let bound = NUMA_MAPS.replace("10000000 default", "10000000 bind:8");
        write(
            dir.path(),
            1,
            &[("status", &status), ("maps", MAPS), ("numa_maps", &bound)],
        );
        let mut sampler = sampler(dir.path(), |_| 0);
        assert_eq!(sampler.look(1, 10, 0).unwrap().policy, MemoryPolicy::Free);
        assert_eq!(sampler.movable(1, 0).unwrap(), []);
    }

    #[test]
    fn only_free_private_memory_is_movable() {
        let dir = tempfile::tempdir().unwrap();
        let maps = "\
10000000-14000000 rw-p 00000000 00:00 0 
15000000-15100000 rw-p 00000000 00:00 0 
20000000-22000000 rw-s 00000000 00:01 5 /dev/zero (deleted)
";
        let numa_maps = "\
10000000 default anon=16384 N0=16384 kernelpagesize_kB=4
15000000 bind:8 anon=256 N8=256 kernelpagesize_kB=4
20000000 default file=/dev/zero\\040(deleted) dirty=8192 N8=8192 kernelpagesize_kB=4
";
        let files = [("status", STATUS), ("maps", maps), ("numa_maps", numa_maps)];
        write(dir.path(), 1, &files);
        let mut sampler = sampler(dir.path(), |_| 0);
        assert_eq!(sampler.movable(1, 0).unwrap(), [(0x1000_0000, 0x1400_0000)]);
        assert_eq!(sampler.policy_has_changed(1), Ok(false));
        let bound = numa_maps.replace("default", "bind:8");
        write(dir.path(), 1, &[("numa_maps", &bound)]);
        assert_eq!(sampler.policy_has_changed(1), Ok(true));
        assert_eq!(sampler.movable(1, 0).unwrap(), []);
        // A cpuset has placed it.
        let status = STATUS.replace("0-63", "0");
        write(
            dir.path(),
            1,
            &[("status", &status), ("numa_maps", numa_maps)],
        );
        assert_eq!(sampler.movable(1, 0).unwrap(), []);
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("status", STATUS), ("maps", MAPS), ("numa_maps", NUMA_MAPS)];
        write(dir.path(), 1, &files);
        write(dir.path(), 2, &files);
        let mut sampler = sampler(dir.path(), |_| 0);
        sampler.look(1, 10, 0).unwrap();
        sampler.look(2, 10, 0).unwrap();
        std::fs::remove_dir_all(dir.path().join("1")).unwrap();
        assert_eq!(sampler.look(1, 10, 1), Err(Unseen::Gone));
        assert_eq!(sampler.known.keys().collect::<Vec<_>>(), [&2]);
        // Nobody asked about the other one for long.
        assert_eq!(sampler.look(1, 10, FORGET_MS + 1), Err(Unseen::Gone));
        assert!(sampler.known.is_empty());
        // A kernel thread has no memory.
        write(
            dir.path(),
            3,
            &[("status", "Name: kthreadd\n"), ("maps", "")],
        );
        assert_eq!(sampler.look(3, 10, 0), Err(Unseen::Gone));
    }
}
