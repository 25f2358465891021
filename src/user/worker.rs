// SPDX-License-Identifier: GPL-2.0-only
//! Workers of the kernel (`kworker/...`): placed, charged, and not counted.
//!
//! What `/proc/TID/stat` and `status` say of one waits for a mutex of the kernel, wq_pool_attach_mutex. Whoever reads
//! such a file, or starts a worker, has it for a moment; when its slice ends in that moment it is queued and waits to be
//! placed by the thread that asks, and then nobody is placed any more. So nothing that takes the mutex is asked about
//! them: whether one sleeps is not known, and a counter would hold it for ever. What is asked (affinity, CPU time,
//! process group) takes no mutex.
//!
//! A worker is known by its name, which it has from its first turn on, a rescuer's (`kworker/R-...`) and a dying one's
//! (`kworker/dying`) too, and which nobody else can change. Any program can give itself such a name; it is not in the
//! kernel's process group.

use super::dispatcher::{Dispatcher, Queued};
use super::facts::Facts;
use super::look::{WAKE_DOUBLED, is_late};

/// How the names of the kernel's workers begin.
const NAME: &[u8] = b"kworker/";

/// Does a worker of the kernel have such a name?
pub fn is_name(name: &[u8]) -> bool {
    name.starts_with(NAME)
}

impl<F: Facts> Dispatcher<F> {
    /// Whether the task is a worker, which then is in no counter.
    pub(super) fn note_worker(&mut self, slot: u32, queued: &Queued) -> bool {
        let worker = queued.named_worker && self.facts.is_kernels(queued.pid);
        self.tasks.get_mut(slot).worker = worker;
        if worker {
            self.uncount(slot);
        }
        worker
    }

    /// Where it was, or a CPU near there, where nobody is as far as is known; else where the fewest are.
    pub(super) fn place_worker(&mut self, slot: u32, prev: usize) -> usize {
        if !self.workers.contains(&slot) {
            self.workers.push(slot);
        }
        let llc = self.places.place(prev).llc;
        let mut near = std::iter::once(prev).chain(self.places.cpus_of_llc(llc));
        let empty = near.find(|&cpu| self.is_empty(cpu) && self.may_use(slot, cpu));
        empty.unwrap_or_else(|| self.shortest(slot, llc, prev))
    }

    /// All that can be asked is whether it is still there.
    pub(super) fn look_at_worker(&mut self, slot: u32) {
        let pid = self.tasks.get(slot).pid;
        if self.facts.runtime_ns(pid).is_none() {
            self.forget(slot);
        }
    }

    /// As [`Dispatcher::overdue`], for those that were given to a CPU lately: whether one has run is not known.
    pub(super) fn overdue_workers(&mut self, now: u64, mut wake: impl FnMut(u32)) {
        let (places, tasks) = (&self.places, &mut self.tasks);
        self.workers.retain(|&slot| {
            let task = tasks.get_mut(slot);
            if is_late(task, now) {
                wake(places.place(task.cpu).id);
            }
            task.worker && task.woken <= WAKE_DOUBLED
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(is_name(b"kworker/u16:3+ev") && is_name(b"kworker/R-slub_"));
        assert!(!is_name(b"kworker") && !is_name(b"xkworker/0:1"));
    }
}
