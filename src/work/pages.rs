// SPDX-License-Identifier: GPL-2.0-only
//! What share of a workload's memory is local to the threads that use it, by a sample of its pages
//! ([`memory::pages`](crate::memory::pages)).

use std::io;

use fastrand::Rng;

use crate::memory::pages::{self, page_size, sample};

/// Sampled pages of one piece of memory, and their nodes.
pub struct Sampled {
    addresses: Vec<usize>,
    /// The kernel's answers: a node, or a negative error of that page.
    status: Vec<libc::c_int>,
    /// The first node of each page that was told; the kernel's error until then.
    first: Vec<libc::c_int>,
    /// Whether a page was ever told to be on another node than its first.
    moved: Vec<bool>,
    /// How many pages of the memory each sampled one stands for.
    weight: f64,
}

impl Sampled {
    /// At most `limit` of the pages of `pages` pages of memory from `start` on.
    pub fn new(start: *const u8, pages: usize, limit: usize, rng: &mut Rng) -> Sampled {
        let size = page_size();
        let numbers = sample(pages, limit, rng);
        Sampled {
            weight: pages as f64 / numbers.len().max(1) as f64,
            status: vec![-libc::ENOENT; numbers.len()],
            first: vec![-libc::ENOENT; numbers.len()],
            moved: vec![false; numbers.len()],
            addresses: numbers
                .iter()
                .map(|page| start as usize + page * size)
                .collect(),
        }
    }

    /// How many pages are sampled.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Asks where the pages are now.
    ///
    /// # Errors
    /// The kernel has no NUMA support (ENOSYS), or a sandbox refuses the question.
    pub fn ask(&mut self) -> io::Result<()> {
        pages::ask(pages::OWN, &self.addresses, &mut self.status)?;
        self.remember();
        Ok(())
    }

    /// Notes first nodes, and pages that have left theirs.
    fn remember(&mut self) {
        let seen = self.first.iter_mut().zip(&mut self.moved);
        for (&now, (first, moved)) in self.status.iter().zip(seen) {
            if *first < 0 {
                *first = now;
            } else if now >= 0 && now != *first {
                *moved = true;
            }
        }
    }

    /// How many sampled pages had a node in any answer so far.
    pub fn known(&self) -> usize {
        self.first.iter().filter(|&&node| node >= 0).count()
    }

    /// How many of them were found on another node than at first, back there by now or not.
    pub fn moved(&self) -> usize {
        self.moved.iter().filter(|&&moved| moved).count()
    }

    /// How many sampled pages had no node: never touched, swapped out, or in between.
    pub fn absent(&self) -> usize {
        self.status.iter().filter(|&&status| status < 0).count()
    }

    /// Adds to `share` what the use of this memory by its `users` does.
    pub fn add_to<'a>(&self, share: &mut Share, users: impl IntoIterator<Item = &'a User>) {
        let present = self.len() - self.absent();
        for user in users {
            let local = self
                .status
                .iter()
                .filter(|&&node| u32::try_from(node) == Ok(user.node));
            share.local += user.weight * self.weight * local.count() as f64;
            share.used += user.weight * self.weight * present as f64;
        }
    }
}

/// A thread on a node, by the kernel's id, and how much it counts there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct User {
    pub node: u32,
    pub weight: f64,
}

/// Pairs of a thread and a page that it uses, each as much as the thread counts, and those of them that
/// are on one node.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Share {
    pub local: f64,
    pub used: f64,
}

impl Share {
    /// Both together.
    pub fn plus(self, other: Share) -> Share {
        Share {
            local: self.local + other.local,
            used: self.used + other.used,
        }
    }

    /// 0 to 1; `None` if no page was there.
    pub fn value(self) -> Option<f64> {
        (self.used > 0.0).then(|| self.local / self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_status(status: &[i32], weight: f64) -> Sampled {
        Sampled {
            addresses: vec![0; status.len()],
            status: status.to_vec(),
            first: status.to_vec(),
            moved: vec![false; status.len()],
            weight,
        }
    }

    fn users(of: &[(u32, f64)]) -> Vec<User> {
        let user = |&(node, weight)| User { node, weight };
        of.iter().map(user).collect()
    }

    #[test]
    fn shares_are_of_threads_and_the_pages_that_they_use() {
        let mut share = Share::default();
        assert_eq!(share.value(), None);
        // Shared memory: three of four present pages are on node 0; a page is missing.
        with_status(&[0, 0, 0, 1, -libc::ENOENT], 2.0)
            .add_to(&mut share, &users(&[(0, 1.0), (1, 1.0)]));
        assert_eq!(
            share,
            Share {
                local: 8.0,
                used: 16.0
            }
        );
        // A thread's own, on a node without CPUs.
        with_status(&[5, 5], 8.0).add_to(&mut share, &users(&[(1, 1.0)]));
        assert_eq!(share.value(), Some(0.25));
        let mut nothing = Share::default();
        with_status(&[-libc::EFAULT], 1.0).add_to(&mut nothing, &users(&[(0, 1.0)]));
        assert_eq!(nothing.value(), None);
    }

    #[test]
    fn who_runs_more_counts_more() {
        let mut share = Share::default();
        // Three quarters of the run time where all pages are, and a thread that waited.
        let users = users(&[(0, 3e9), (1, 1e9), (1, 0.0)]);
        with_status(&[0, 0], 1.0).add_to(&mut share, &users);
        assert_eq!(share.value(), Some(0.75));
        assert_eq!(share.plus(share).value(), Some(0.75));
    }

    #[test]
    fn a_page_has_moved_once_it_was_elsewhere() {
        let mut pages = with_status(&[0, 1, -libc::ENOENT, -libc::ENOENT], 1.0);
        assert_eq!((pages.known(), pages.moved()), (2, 0));
        for status in [
            [1, 1, 0, -libc::EFAULT],
            [0, -libc::ENOENT, 0, -libc::EFAULT],
        ] {
            pages.status = status.to_vec();
            pages.remember();
        }
        assert_eq!((pages.known(), pages.moved()), (3, 1));
    }

    #[test]
    fn the_kernel_knows_pages_that_were_touched() {
        let size = page_size();
        let memory = vec![1_u8; 64 * size];
        let start = memory
            .as_ptr()
            .wrapping_add(size - memory.as_ptr() as usize % size);
        let mut pages = Sampled::new(start, 62, 1000, &mut Rng::with_seed(1));
        assert_eq!((pages.len(), pages.absent()), (62, 62));
        match pages.ask() {
            Ok(()) => assert_eq!(pages.absent(), 0),
            Err(error) => assert!(matches!(
                error.raw_os_error(),
                Some(libc::ENOSYS | libc::EPERM)
            )),
        }
    }
}
