// SPDX-License-Identifier: GPL-2.0-only
//! How long a task's turn is, and what it is charged for it.
//!
//! src/bpf/queue.bpf.h has the same in C (`slice_among`, `charge`).

/// Virtual time, in ns, for `ns` on a CPU of a task of this weight (100 is nice 0).
pub fn charge(ns: u64, weight: u32) -> i64 {
    (ns.saturating_mul(100) / u64::from(weight.max(1))).min(i64::MAX as u64) as i64
}

/// The more tasks share some CPUs, the shorter each one's turn: `slice_ns` while there is a CPU for each,
/// never less than `min_ns`.
pub fn slice_among(tasks: u32, cpus: u32, (slice_ns, min_ns): (u64, u64)) -> u64 {
    let slice = match tasks > cpus {
        true => slice_ns.saturating_mul(u64::from(cpus)) / u64::from(tasks),
        false => slice_ns,
    };
    slice.max(min_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_slices() {
        assert_eq!(charge(1000, 100), 1000);
        assert_eq!(charge(1000, 200), 500);
        assert_eq!(charge(u64::MAX, 1), i64::MAX);
        assert_eq!(slice_among(4, 8, (5000, 1000)), 5000);
        assert_eq!(slice_among(16, 8, (5000, 1000)), 2500);
        assert_eq!(slice_among(800, 8, (5000, 1000)), 1000);
    }
}
