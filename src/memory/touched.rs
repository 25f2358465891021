// SPDX-License-Identifier: GPL-2.0-only
//! What single tasks work on: from what was in their registers ([`Order::Look`](super::Order)) to a sample for
//! each of them.
//!
//! A value counts if it is an address of memory that is the process's own. A page that several of its tasks
//! had in their registers is nobody's own: what a process keeps for all of its threads, each of them has a pointer
//! to, and that says nothing about what each of them works on. And a page counts once in a look, however often it was
//! there: what is at hand at every tick is mostly small, and in the cache. Otherwise a list of a few pages that a thread
//! goes through beside its megabytes would be half of its memory.

use super::orders::Touch;
use crate::policy::locality::extents::Touched;
use crate::policy::locality::input::{NodePages, Sample};
use crate::policy::locality::ledger::TaskKey;

/// The pages of each task's own, ascending by task, each once. `is_own`: whether memory is the process's own.
pub fn own_pages(touched: &[Touch], page_size: u64, is_own: impl Fn(u64) -> bool) -> Vec<Touch> {
    let own = touched.iter().filter(|&&(_, at)| is_own(at));
    let mut pages: Vec<Touch> = own.map(|&(task, at)| (task, at - at % page_size)).collect();
    pages.sort_unstable_by_key(|&(task, page)| (page, task));
    pages.dedup();
    let mut single = Vec::with_capacity(pages.len());
    for same in pages.chunk_by(|a, b| a.1 == b.1) {
        if let &[alone] = same {
            single.push(alone);
        }
    }
    single.sort_unstable();
    single
}

/// A sample for each task. `status` is parallel to `own`, which is that of [`own_pages`], and `node` tells
/// which of the nodes it means.
pub fn samples(
    own: &[Touch],
    status: &[i32],
    (nodes, at_ms): (usize, u64),
    node: impl Fn(i32) -> Option<usize>,
) -> Vec<(TaskKey, Sample)> {
    let mut status = status.iter();
    let of_task = |own: &[Touch]| {
        let mut pages = vec![NodePages::default(); nodes];
        for at in status.by_ref().take(own.len()).filter_map(|&id| node(id)) {
            pages[at].private += 1;
        }
        let sample = Sample {
            at_ms,
            asked: own.len() as u32,
            pages,
        };
        (own[0].0, sample)
    };
    own.chunk_by(|a, b| a.0 == b.0).map(of_task).collect()
}

/// Each page, and where it is; parallel to each other as for [`samples`]. `area` tells in which area an address
/// is, by its start.
pub fn pages(
    own: &[Touch],
    status: &[i32],
    page_size: u64,
    area: impl Fn(u64) -> Option<u64>,
    node: impl Fn(i32) -> Option<usize>,
) -> Vec<Touched> {
    let one = |(&(task, at), &id): (&Touch, &i32)| {
        Some(Touched {
            task,
            page: at / page_size,
            node: u16::try_from(node(id)?).ok()?,
            area: area(at)? / page_size,
        })
    };
    own.iter().zip(status).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TaskKey = (3, 2);
    const B: TaskKey = (1, 8);

    #[test]
    fn what_two_have_in_their_registers_is_nobodys_own() {
        let touched = [
            (A, 0x5010),
            (A, 0x5ff0),
            (A, 0x7000),
            (B, 0x7fff),
            (B, 0x8000),
            (A, 0x9000),
        ];
        let own = own_pages(&touched, 0x1000, |at| at != 0x9000);
        assert_eq!(own, [(B, 0x8000), (A, 0x5000)]);
        assert_eq!(own_pages(&[], 0x1000, |_| true), []);
    }

    #[test]
    fn what_stays_at_hand_counts_once() {
        let mut touched = vec![(A, 0x5010); 20];
        touched.extend((0..20).map(|n| (A, 0x5200 + 8 * n)));
        touched.extend((0..20).map(|n| (A, 0x7000 + 0x1000 * n)));
        let own = own_pages(&touched, 0x1000, |_| true);
        let on = |page| own.iter().filter(|touch| touch.1 == page).count();
        assert_eq!((on(0x5000), on(0x7000), own.len()), (1, 1, 21));
    }

    #[test]
    fn pages_are_told_with_their_area() {
        let own = [(B, 0x8000), (A, 0x5000), (A, 0x9000)];
        let node = |id: i32| usize::try_from(id).ok();
        let area = |at: u64| (at < 0x9000).then_some(0x4000);
        let pages = pages(&own, &[1, 0, 0], 0x1000, area, node);
        let touched = |task, page, node| Touched {
            task,
            page,
            node,
            area: 4,
        };
        assert_eq!(pages, [touched(B, 8, 1), touched(A, 5, 0)]);
    }

    #[test]
    fn each_task_gets_a_sample_of_its_own() {
        let own = [(B, 0x8000), (A, 0x5000), (A, 0x6000), (A, 0xa000)];
        // Kernel's nodes 0 and 8; a page that is not there is asked for, and on no node.
        let dense = |id| [0, 8].iter().position(|&known| known == id);
        let samples = samples(&own, &[8, 0, 0, -libc::ENOENT], (2, 77), dense);
        let sample = |asked, pages: [u32; 2]| Sample {
            at_ms: 77,
            asked,
            pages: pages
                .map(|private| NodePages { private, shared: 0 })
                .to_vec(),
        };
        assert_eq!(samples, [(B, sample(1, [0, 1])), (A, sample(3, [2, 0]))]);
    }
}
