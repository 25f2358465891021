// SPDX-License-Identifier: GPL-2.0-only
//! Virtual LLCs: a large LLC cut into parts, so that its queue and its idle mask are, too.
//!
//! The arithmetic is that of the `--virt-llc` of scx_utils, so that a range of cores means the same
//! for every sched_ext scheduler: an LLC's big and little cores are cut separately, each into parts
//! of one size from the range, chosen for the smallest remainder, which the last part takes.

use super::MachineError;
use scx_utils::misc::find_best_split_size;

/// How many cores a virtual LLC may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoreRange {
    min: usize,
    max: usize,
}

impl CoreRange {
    /// Virtual LLCs of `min` to `max` cores; an error unless `1 <= min <= max`.
    pub(super) fn new((min, max): (usize, usize)) -> Result<Self, MachineError> {
        if min == 0 || min > max {
            return Err(MachineError::VirtLlc { min, max });
        }
        Ok(Self { min, max })
    }

    /// `cores` of one LLC in parts, big cores before little ones, the order kept otherwise.
    /// An LLC of at most `min` cores of a kind stays whole; no part is empty.
    pub(super) fn split<T>(self, cores: Vec<T>, little: impl Fn(&T) -> bool) -> Vec<Vec<T>> {
        let (little, big): (Vec<T>, Vec<T>) = cores.into_iter().partition(little);
        [big, little]
            .into_iter()
            .flat_map(|kind| self.split_kind(kind))
            .collect()
    }

    fn split_kind<T>(self, cores: Vec<T>) -> Vec<Vec<T>> {
        if cores.is_empty() {
            return Vec::new();
        }
        let size = find_best_split_size(cores.len(), self.min, self.max);
        let last = cores.len() / size - 1;
        let mut parts: Vec<Vec<T>> = (0..=last).map(|_| Vec::with_capacity(size)).collect();
        for (at, core) in cores.into_iter().enumerate() {
            parts[(at / size).min(last)].push(core);
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(cores: usize, min: usize, max: usize) -> Vec<usize> {
        let range = CoreRange::new((min, max)).unwrap();
        let parts = range.split((0..cores).collect(), |_| false);
        parts.iter().map(Vec::len).collect()
    }

    #[test]
    fn cuts_evenly_where_it_can() {
        assert_eq!(sizes(16, 4, 8), [4; 4]);
        assert_eq!(sizes(15, 4, 8), [5; 3]);
        assert_eq!(sizes(2, 2, 8), [2]);
        assert_eq!(sizes(1, 2, 8), [1]);
    }

    #[test]
    fn the_last_part_takes_the_remainder() {
        assert_eq!(sizes(13, 2, 4), [2, 2, 2, 2, 2, 3]);
        assert_eq!(sizes(7, 2, 2), [2, 2, 3]);
    }

    #[test]
    fn big_and_little_cores_do_not_mix() {
        let range = CoreRange::new((2, 4)).unwrap();
        let parts = range.split((0..6).collect(), |core| core % 3 == 0);
        assert_eq!(parts, [vec![1, 2], vec![4, 5], vec![0, 3]]);
    }

    #[test]
    fn refuses_empty_ranges() {
        assert!(CoreRange::new((0, 4)).is_err());
        assert!(CoreRange::new((5, 4)).is_err());
    }

    proptest! {
        #[test]
        fn keeps_every_core_once_and_in_order(cores in 0usize..300, min in 1usize..20, more in 0usize..20) {
            let range = CoreRange::new((min, min + more)).unwrap();
            let parts = range.split((0..cores).collect(), |_| false);
            prop_assert!(parts.iter().all(|part| !part.is_empty()));
            prop_assert_eq!(parts.concat(), (0..cores).collect::<Vec<_>>());
            if let [first, .., _] = parts.as_slice() {
                prop_assert!(first.len() >= min && first.len() <= min + more);
            }
        }
    }
}
