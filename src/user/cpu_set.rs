// SPDX-License-Identifier: GPL-2.0-only
//! A set of CPUs, as affinities are.

use std::io;

/// A set of CPUs by the kernel's ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// An empty one with room for the ids below `cpus`.
    pub fn below(cpus: usize) -> Self {
        Self(vec![0; cpus.div_ceil(64)])
    }

    pub fn of(ids: impl IntoIterator<Item = u32>) -> Self {
        let mut set = Self::default();
        ids.into_iter().for_each(|id| set.add(id));
        set
    }

    pub fn add(&mut self, id: u32) {
        let word = id as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (id % 64);
    }

    /// The CPUs of bit n of word n / 64; the room stays.
    pub fn fill_from(&mut self, words: &[u64]) {
        let words = words.iter().copied().chain(std::iter::repeat(0));
        self.0
            .iter_mut()
            .zip(words)
            .for_each(|(to, from)| *to = from);
    }

    /// The ids below this have room.
    pub fn room(&self) -> usize {
        self.0.len() * 64
    }

    /// This CPU and no other; the room stays.
    pub fn set_only(&mut self, id: u32) {
        self.0.fill(0);
        if let Some(word) = self.0.get_mut(id as usize / 64) {
            *word = 1 << (id % 64);
        }
    }

    pub fn contains(&self, id: u32) -> bool {
        let word = self.0.get(id as usize / 64).copied().unwrap_or(0);
        word >> (id % 64) & 1 == 1
    }

    /// The calling thread may use these CPUs and no others from now on; it is on one of them then.
    ///
    /// # Errors
    /// The kernel's: none of them can be used.
    pub fn confine_this_thread(&self) -> io::Result<()> {
        let size = self.0.len() * size_of::<u64>();
        let words = self.0.as_ptr().cast::<libc::c_ulong>();
        // SAFETY: the kernel reads `size` bytes there.
        match unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size, words) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_cpus() {
        let set = CpuSet::of([0, 63, 64, 200]);
        assert!([0, 63, 64, 200].into_iter().all(|id| set.contains(id)));
        assert!(
            [1, 62, 65, 199, 201, 9999]
                .into_iter()
                .all(|id| !set.contains(id))
        );
        let mut set = CpuSet::below(200);
        set.set_only(70);
        assert!(set.room() >= 200 && set.contains(70) && !set.contains(6));
        // More than it has room for, and less.
        set.fill_from(&[1, 0, 2, 0, 1]);
        let members = |set: &CpuSet| (0..400).filter(|&id| set.contains(id)).collect::<Vec<_>>();
        assert_eq!((members(&set), set.room()), (vec![0, 129], 256));
        set.fill_from(&[4]);
        assert_eq!(members(&set), [2]);
    }
}
