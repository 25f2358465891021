// SPDX-License-Identifier: GPL-2.0-only
//! Which CPUs are idle, and which CPUs a task may use: sets of CPUs as bits.

use std::ops::Range;

use super::hardware::Hardware;

/// A set of CPUs by dense index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    pub fn empty(cpus: usize) -> Self {
        Self(vec![0; cpus.div_ceil(64)])
    }

    pub fn of(cpus: usize, members: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::empty(cpus);
        for cpu in members {
            set.insert(cpu);
        }
        set
    }

    pub fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    pub fn insert(&mut self, cpu: usize) {
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    pub fn remove(&mut self, cpu: usize) {
        self.0[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// Members within a range of CPUs.
    pub fn count(&self, range: Range<usize>) -> u32 {
        words(range)
            .map(|(word, mask)| (self.0[word] & mask).count_ones())
            .sum()
    }

    /// The first within a range that is in `also` too, if that is given.
    fn first(&self, range: Range<usize>, also: Option<&CpuSet>) -> Option<usize> {
        words(range).find_map(|(word, mask)| {
            let also = also.map_or(u64::MAX, |also| also.0[word]);
            let bits = self.0[word] & mask & also;
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        })
    }
}

/// The words of a range, each with a mask of what of it is in the range.
fn words(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let (start, end) = (range.start, range.end);
    (start / 64..end.div_ceil(64)).map(move |word| {
        let low = u64::MAX << start.saturating_sub(word * 64).min(63);
        let beyond = (word * 64 + 64).saturating_sub(end);
        (word, low & (u64::MAX >> beyond.min(63)))
    })
}

/// See the module. Invariant: `whole` has those idle CPUs whose siblings are idle, too.
#[derive(Debug)]
pub struct IdleCpus {
    idle: CpuSet,
    whole: CpuSet,
}

impl IdleCpus {
    /// All are idle.
    pub fn all(hw: &Hardware) -> Self {
        let idle = CpuSet::of(hw.nr_cpus(), 0..hw.nr_cpus());
        Self {
            whole: idle.clone(),
            idle,
        }
    }

    pub fn is_idle(&self, cpu: usize) -> bool {
        self.idle.contains(cpu)
    }

    /// Is the CPU's whole core idle?
    pub fn is_whole(&self, cpu: usize) -> bool {
        self.whole.contains(cpu)
    }

    /// The CPU goes idle, or to work.
    pub fn set(&mut self, hw: &Hardware, cpu: usize, idle: bool) {
        match idle {
            true => self.idle.insert(cpu),
            false => self.idle.remove(cpu),
        }
        let siblings = hw.siblings(cpu);
        let whole = siblings.iter().all(|&cpu| self.idle.contains(cpu));
        for &cpu in siblings {
            match whole {
                true => self.whole.insert(cpu),
                false => self.whole.remove(cpu),
            }
        }
    }

    /// Busy CPUs of the CPU's core.
    pub fn busy_on_core(&self, hw: &Hardware, cpu: usize) -> usize {
        let siblings = hw.siblings(cpu).iter();
        siblings.filter(|&&cpu| !self.idle.contains(cpu)).count()
    }

    /// An idle CPU within a range, of those allowed.
    pub fn any(&self, range: Range<usize>, allowed: Option<&CpuSet>) -> Option<usize> {
        self.idle.first(range, allowed)
    }

    /// One whose core is idle.
    pub fn whole_core(&self, range: Range<usize>, allowed: Option<&CpuSet>) -> Option<usize> {
        self.whole.first(range, allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hardware::Params;
    use super::*;
    use crate::machine::MachineBuilder;

    #[test]
    fn sets_end_where_ranges_end() {
        let set = CpuSet::of(200, [3, 63, 64, 130, 199]);
        assert_eq!(set.count(0..200), 5);
        assert_eq!(set.count(4..64), 1);
        assert_eq!(set.count(64..64), 0);
        assert_eq!(set.first(4..63, None), None);
        assert_eq!(set.first(4..200, None), Some(63));
        assert_eq!(set.first(65..199, None), Some(130));
        assert_eq!(set.first(131..200, None), Some(199));
        let also = CpuSet::of(200, [64, 65]);
        assert_eq!(set.first(0..200, Some(&also)), Some(64));
    }

    #[test]
    fn a_core_is_whole_while_all_of_it_is_idle() {
        let machine = MachineBuilder::uniform(1, 1, 2, 2).build().unwrap();
        let hw = Hardware::new(&machine, Params::default());
        let mut idle = IdleCpus::all(&hw);
        let sibling = hw.siblings(0)[1];
        idle.set(&hw, 0, false);
        assert!(idle.is_idle(sibling) && !idle.is_whole(sibling));
        assert_eq!(idle.busy_on_core(&hw, sibling), 1);
        let other = idle.whole_core(0..4, None).unwrap();
        assert!(!hw.siblings(0).contains(&other));
        idle.set(&hw, 0, true);
        assert!(idle.is_whole(sibling));
    }
}
