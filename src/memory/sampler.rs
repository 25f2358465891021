// SPDX-License-Identifier: GPL-2.0-only
//! A look at a process's memory: some addresses, and on which nodes their pages are.
//!
//! Its map gives areas, the policy ([`areas`]) their order and how many addresses each gets, the kernel the nodes.
//! Where the addresses lie in an area is random, one in each of as many equal parts.
//!
//! A cgroup's memory.numa_stat would tell where the memory of a process that is alone in it lies without any
//! sampling, but reading it makes the kernel sum up the statistics of all CPUs first, it cannot tell hot from cold
//! nor shared from private, and a look costs hardly more. It is not read.

use std::collections::BTreeMap;
use std::io;

use fastrand::Rng;

use super::groups::Groups;
use super::kernel_scans::KernelScans;
use super::known::Known;
use super::maps::{self, MemoryDevices};
use super::orders::{Look, Touch, Unseen};
use super::pages;
use super::policy::{self, Reading};
use super::procfs::{Nodes, Proc, Status, why};
use super::tally::Tally;
use super::thread_time::ThreadTime;
use super::touch::{TouchSource, Touches};
use super::touched;
use crate::policy::locality::areas::Area;
use crate::policy::locality::extents::Touched;
use crate::policy::locality::input::{MemoryPolicy, Sample};
use crate::policy::locality::ledger::TaskKey;

/// Enough of numa_maps for the policy of its first line, which is that of the task, and for a few nodes. The kernel makes as
/// many lines as this takes, and for each goes through all pages of the area; the first is program text.
const BEGINNING: usize = 64;
/// ... for a policy with many nodes.
const LONG_BEGINNING: usize = 2048;
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
    kernel_balances: bool,
    rng: Rng,
    page_size: u64,
    text: String,
}

/// The addresses of a look, and the area of each as a subscript.
#[derive(Default)]
struct Chosen {
    addresses: Vec<usize>,
    area: Vec<usize>,
}

/// What a look found in memory: of the process, and of single tasks with the pages that told.
type Samples = (Sample, Vec<(TaskKey, Sample)>, Vec<Touched>);

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
            kernel_balances: false,
            rng,
            page_size: pages::page_size() as u64,
            text: String::new(),
        }
    }

    /// Look at at most so many addresses of a process, and at those that its tasks work on.
    pub fn look(
        &mut self,
        tgid: i32,
        (addresses, touched): (u32, &[Touch]),
        at_ms: u64,
    ) -> Result<Look, Unseen> {
        self.sweep(at_ms);
        let look = self.try_look(tgid, (addresses, touched), at_ms);
        if look == Err(Unseen::Gone) {
            self.forget(tgid);
        }
        look
    }

    fn try_look(
        &mut self,
        tgid: i32,
        (addresses, touched): (u32, &[Touch]),
        at_ms: u64,
    ) -> Result<Look, Unseen> {
        let status = self.status(tgid)?;
        let resident_kib = status.resident_kib.ok_or(Unseen::Gone)?;
        let mut known = self.known.remove(&tgid).unwrap_or_default();
        if known.map_is_due(status.virtual_kib) {
            self.read_map(tgid, &status, &mut known)?;
            self.watch_kernel(tgid, &mut known);
        }
        let policy = self.policy(tgid, &status, &mut known, policy::MOST_KIB, at_ms)?;
        let touched = self.work_on(&mut known, touched, at_ms);
        let (sample, tasks, touched) =
            self.sample(tgid, &mut known, (addresses, &touched), at_ms)?;
        known.looked_ms = at_ms;
        self.known.insert(tgid, known);
        Ok(Look {
            sample,
            tasks,
            touched,
            policy,
            group: self.groups.of(tgid),
            resident: resident_kib * 1024 / self.page_size,
        })
    }

    /// Private memory that no policy placed, hot areas first; nothing of a process whose memory was placed by rule, or
    /// that is too large to find out.
    pub fn movable(&mut self, tgid: i32, at_ms: u64) -> Result<Vec<(u64, u64)>, Unseen> {
        let status = self.status(tgid)?;
        let mut known = self.known.remove(&tgid).unwrap_or_default();
        // As it is now, whenever it was last read.
        self.read_map(tgid, &status, &mut known)?;
        known.reading = None;
        let most_kib = policy::MOST_KIB_TO_BRING;
        let policy = self.policy(tgid, &status, &mut known, most_kib, at_ms)?;
        let mut areas = known.private(at_ms);
        let is_known = known.reading.is_some();
        self.known.insert(tgid, known);
        if policy != MemoryPolicy::Free || !is_known {
            return Ok(Vec::new());
        }
        // The reading has left the whole of numa_maps behind.
        let lines = policy::parse(&self.text, &self.nodes.with_memory, self.page_size);
        let policies: BTreeMap<u64, MemoryPolicy> =
            lines.map(|line| (line.start, line.policy)).collect();
        areas.retain(|area| policies.get(&area.start) == Some(&MemoryPolicy::Free));
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
        for most in [BEGINNING, LONG_BEGINNING] {
            self.proc
                .read_start(tgid, "numa_maps", most, &mut self.text)?;
            if policy::is_complete(&self.text) {
                break;
            }
        }
        let mut lines = policy::parse(&self.text, &self.nodes.with_memory, self.page_size);
        Ok(lines.next().map_or(MemoryPolicy::Free, |line| line.policy))
    }

    fn status(&mut self, tgid: i32) -> Result<Status, Unseen> {
        self.proc.read(tgid, "status", &mut self.text)?;
        Ok(Status::parse(&self.text))
    }

    fn read_map(&mut self, tgid: i32, status: &Status, known: &mut Known) -> Result<(), Unseen> {
        self.proc.read(tgid, "maps", &mut self.text)?;
        let mappings = maps::parse(&self.text, &self.devices).collect();
        known.set_map(mappings, status.virtual_kib, self.page_size);
        Ok(())
    }

    /// Whether the kernel's NUMA balancing was seen to work on a sched_ext task.
    pub fn kernel_balances(&self) -> bool {
        self.kernel_balances
    }

    fn watch_kernel(&mut self, tgid: i32, known: &mut Known) {
        let read = self.proc.read(tgid, "sched", &mut self.text);
        let now = read.ok().and_then(|()| KernelScans::parse(&self.text));
        let both = now.zip(known.scans);
        self.kernel_balances |= both.is_some_and(|(now, then)| now.shows_balancing_since(then));
        known.scans = now;
    }

    /// The memory policy: of the task at every look, of its areas rarely, and not if more than `most_kib` is resident.
    fn policy(
        &mut self,
        tgid: i32,
        status: &Status,
        known: &mut Known,
        most_kib: u64,
        at_ms: u64,
    ) -> Result<MemoryPolicy, Unseen> {
        let of_task = self.policy_of_task(tgid)?;
        let memory = &self.nodes.with_memory;
        let resident_kib = status.resident_kib.unwrap_or(0);
        let is_due = |reading: Reading| reading.is_due(of_task, resident_kib, at_ms);
        if resident_kib <= most_kib && known.reading.is_none_or(is_due) {
            let clock = ThreadTime::now();
            self.proc.read(tgid, "numa_maps", &mut self.text)?;
            let lines = policy::parse(&self.text, memory, self.page_size);
            let policy = policy::of_most(lines, |start| known.find(start).is_some());
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

    /// Pages that single tasks work on. Areas are hot, whoever touched them (R7).
    fn work_on(&self, known: &mut Known, touched: &[Touch], at_ms: u64) -> Vec<Touch> {
        for &(_, address) in touched {
            known.holds_touched(address, at_ms);
        }
        let is_own = |at| {
            known
                .holding(at)
                .is_some_and(|at| known.shared(at).is_none())
        };
        touched::own_pages(touched, self.page_size, is_own)
    }

    fn sample(
        &mut self,
        tgid: i32,
        known: &mut Known,
        (addresses, touched): (u32, &[Touch]),
        at_ms: u64,
    ) -> Result<Samples, Unseen> {
        let pagemap = match self.touches.source() {
            TouchSource::None => None,
            TouchSource::IdlePages => self.proc.open(tgid, "pagemap").ok(),
        };
        if let Some(pagemap) = &pagemap {
            for area in self.touches.touched(pagemap, &known.marks) {
                known.touched(area, at_ms);
            }
        }
        let mut chosen = self.choose(known, addresses, at_ms);
        let count = chosen.addresses.len();
        let pages = touched.iter().map(|&(_, page)| page as usize);
        chosen.addresses.extend(pages);
        let mut status = vec![-libc::ENOENT; chosen.addresses.len()];
        if !status.is_empty() {
            let asked = self.kernel.ask(tgid, &chosen.addresses, &mut status);
            asked.map_err(|error| why(&error))?;
        }
        let of_tasks = status.split_off(count);
        chosen.addresses.truncate(count);
        let mut tally = Tally::new(self.nodes.ids.len());
        for (&node, &at) in status.iter().zip(&chosen.area) {
            if let Some(node) = self.nodes.dense(node) {
                let weight = known.density.weight(known.area(at).pages);
                tally.add(node, known.shared(at), weight);
            }
        }
        for (&node, &at) in status.iter().zip(&chosen.area) {
            known.density.add(known.area(at).pages, node >= 0);
        }
        self.groups.set(tgid, tally.mostly_in());
        if let Some(pagemap) = pagemap {
            let present = chosen.present(known, &status);
            self.touches.mark(&pagemap, &present, &mut known.marks);
        }
        let sample = Sample {
            at_ms,
            asked: count as u32,
            pages: tally.pages(),
        };
        let node = |id| self.nodes.dense(id);
        let nodes = self.nodes.ids.len();
        let tasks = touched::samples(touched, &of_tasks, (nodes, at_ms), node);
        let area = |at| Some(known.area(known.holding(at)?).start);
        let pages = touched::pages(touched, &of_tasks, self.page_size, area, node);
        Ok((sample, tasks, pages))
    }

    fn choose(&mut self, known: &mut Known, addresses: u32, at_ms: u64) -> Chosen {
        let mut chosen = Chosen::default();
        for given in known.allot(addresses, at_ms) {
            let area = known.area(given.at);
            let pages = usize::try_from(area.pages).unwrap_or(usize::MAX);
            for page in pages::sample(pages, given.addresses as usize, &mut self.rng) {
                let address = area.start + page as u64 * self.page_size;
                chosen.addresses.push(address as usize);
                chosen.area.push(given.at);
            }
        }
        chosen
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
        let forgotten = self.known.iter().filter(|(_, known)| old(known));
        let forgotten: Vec<i32> = forgotten.map(|(&tgid, _)| tgid).collect();
        forgotten.into_iter().for_each(|tgid| self.forget(tgid));
    }
}

impl Chosen {
    /// Addresses that have a page, each with the start of its area.
    fn present(&self, known: &Known, status: &[i32]) -> Vec<(u64, u64)> {
        let all = self.addresses.iter().zip(&self.area).zip(status);
        all.filter(|(_, status)| **status >= 0)
            .map(|((&address, &at), _)| (address as u64, known.area(at).start))
            .collect()
    }
}

#[cfg(test)]
mod tests;
