// SPDX-License-Identifier: GPL-2.0-only
//! Orders carried out against a process of numbers.

use super::*;
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
const HERE: i32 = 1;
const THERE: i32 = 0;
const GIB: u64 = 1 << 30;

/// Memory by page number: where it is, and so on. What is not there has no page. Each page that is moved or tried
/// takes its time.
#[derive(Default)]
struct Fake {
    nodes: BTreeMap<u64, i32>,
    /// Pages that do not move, and those that are moved together with the page before.
    stuck: Vec<u64>,
    follows: Vec<u64>,
    huge: bool,
    /// The kernel says that something went wrong, though nothing did.
    unsure: bool,
    ns_per_page: u64,
    now_ns: u64,
    /// Pages of each call, and addresses asked about.
    calls: Vec<usize>,
    asked: usize,
    tried: BTreeMap<u64, u32>,
}

impl Fake {
    fn small(pages: impl IntoIterator<Item = u64>) -> Self {
        Self {
            nodes: pages.into_iter().map(|page| (page, THERE)).collect(),
            ..Self::default()
        }
    }

    fn there(&self) -> usize {
        self.nodes.values().filter(|node| **node == THERE).count()
    }
}

impl Memory for &mut Fake {
    fn present(&mut self, start: u64, end: u64, most: u64) -> io::Result<Found> {
        let mut found = Found {
            regions: Vec::new(),
            up_to: end,
        };
        let pages = self.nodes.range(start / PAGE..end / PAGE);
        for (count, (&page, _)) in pages.enumerate() {
            if count as u64 == most {
                found.up_to = page * PAGE;
                break;
            }
            match found.regions.last_mut() {
                Some(region) if region.end == page * PAGE => region.end += PAGE,
                _ => found
                    .regions
                    .push(Region::new(page * PAGE, (page + 1) * PAGE, self.huge)),
            }
        }
        Ok(found)
    }

    fn ask(&mut self, addresses: &[usize], status: &mut [i32]) -> io::Result<()> {
        self.asked += addresses.len();
        for (status, &address) in status.iter_mut().zip(addresses) {
            let node = self.nodes.get(&(address as u64 / PAGE));
            *status = node.copied().unwrap_or(-libc::ENOENT);
        }
        Ok(())
    }

    fn bring(&mut self, addresses: &[usize], node: i32, status: &mut [i32]) -> io::Result<bool> {
        self.calls.push(addresses.len());
        // Downwards.
        assert!(addresses.is_sorted_by(|a, b| a > b));
        for (status, &address) in status.iter_mut().zip(addresses) {
            let page = address as u64 / PAGE;
            *self.tried.entry(page).or_default() += 1;
            *status = match () {
                () if self.stuck.contains(&page) => -libc::EBUSY,
                // It has moved already, so it cannot be taken on.
                () if self.follows.contains(&page) => {
                    self.nodes.insert(page, node);
                    -libc::EBUSY
                }
                () => {
                    let parts = if self.huge { 512 } else { 1 };
                    for (_, at) in self.nodes.range_mut(page..page + parts) {
                        *at = node;
                    }
                    node
                }
            };
        }
        self.now_ns += self.ns_per_page * addresses.len() as u64;
        Ok(!self.unsure)
    }

    fn now_us(&mut self) -> u64 {
        self.now_ns / 1000
    }
}

/// Somebody waits.
fn order(fake: &mut Fake, pace: &mut Pace, ranges: &mut VecDeque<Range>, most: u64) -> Brought {
    order_while(fake, pace, ranges, (most, &|| true))
}

fn order_while(
    fake: &mut Fake,
    pace: &mut Pace,
    ranges: &mut VecDeque<Range>,
    (most, awaited): (u64, &dyn Fn() -> bool),
) -> Brought {
    let mut brought = Brought::default();
    let mut moving = Moving {
        memory: fake,
        node: HERE,
        most,
        sizes: Sizes {
            page: PAGE,
            huge: 512 * PAGE,
        },
        pace,
        awaited,
    };
    moving.go(ranges, &mut brought).unwrap();
    brought
}

fn pages(from: u64, to: u64) -> VecDeque<Range> {
    VecDeque::from([(from * PAGE, to * PAGE)])
}

#[test]
fn an_order_is_several_calls_and_no_page_more() {
    let mut fake = Fake::small(1000..21_000);
    let (mut pace, mut ranges) = (Pace::default(), pages(0, 30_000));
    let brought = order(&mut fake, &mut pace, &mut ranges, 15_000);
    assert_eq!((brought.moved, brought.refused), (15_000, 0));
    assert!(fake.calls.len() > 3, "{:?}", fake.calls);
    assert_eq!(fake.there(), 5_000);
    // It goes on where it ended, and nothing is tried again.
    let rest = order(&mut fake, &mut pace, &mut ranges, 15_000);
    assert_eq!((rest.moved, ranges.len()), (5_000, 0));
    assert!(fake.tried.values().all(|times| *times == 1));
    // All was asked about once before, and not again after.
    assert!(
        fake.asked <= 20_000 + LEAST_WINDOW as usize,
        "{}",
        fake.asked
    );
}

/// 1 ms a page: the time is over in the first call, which is as short as can be.
#[test]
fn a_slow_machine_gets_one_short_call_at_a_time() {
    let mut fake = Fake::small(0..20_000);
    fake.ns_per_page = 1_000_000;
    let (mut pace, mut ranges) = (Pace::default(), pages(0, 20_000));
    for n in 1..5 {
        let brought = order(&mut fake, &mut pace, &mut ranges, 15_000);
        assert_eq!(brought.moved, LEAST_PACE as u32);
        assert_eq!(ranges[0].0, n * LEAST_PACE * PAGE);
    }
}

/// 0.1 ms a page: a call takes 102 ms.
#[test]
fn while_nobody_waits_an_order_goes_on_for_a_second() {
    let mut fake = Fake::small(0..40_000);
    fake.ns_per_page = 100_000;
    let (mut pace, mut ranges) = (Pace::default(), pages(0, 40_000));
    let brought = order_while(&mut fake, &mut pace, &mut ranges, (20_000, &|| false));
    assert_eq!(brought.moved, 10 * LEAST_PACE as u32);
    // Somebody comes when three calls have been made.
    let asked = std::cell::Cell::new(0);
    let comes = || asked.replace(asked.get() + 1) >= 4;
    let brought = order_while(&mut fake, &mut pace, &mut ranges, (20_000, &comes));
    assert_eq!(brought.moved, 3 * LEAST_PACE as u32);
    // All of a small order.
    let brought = order_while(&mut fake, &mut pace, &mut ranges, (2_000, &|| false));
    assert_eq!(brought.moved, 2_000);
}

/// 2 us a page: 50 ms are 25000 pages, of which no call takes more than a quarter of the time.
#[test]
fn a_fast_machine_gets_long_calls_until_the_time_is_over() {
    let mut fake = Fake::small(0..200_000);
    fake.ns_per_page = 2_000;
    let (mut pace, mut ranges) = (Pace::default(), pages(0, 200_000));
    for _ in 0..2 {
        let began_us = fake.now_ns / 1000;
        let brought = order(&mut fake, &mut pace, &mut ranges, 100_000);
        let took_us = fake.now_ns / 1000 - began_us;
        assert!((MOST_US..MOST_US * 5 / 4).contains(&took_us), "{took_us}");
        assert!((25_000..30_000).contains(&brought.moved), "{brought:?}");
    }
    let longest = fake.calls.iter().max().unwrap();
    assert!((1025..=6250).contains(longest), "{:?}", fake.calls);
}

#[test]
fn what_is_near_is_looked_at_and_left() {
    let mut fake = Fake::small(0..100_000);
    fake.nodes
        .iter_mut()
        .filter(|(page, _)| *page % 1000 != 0)
        .for_each(|(_, node)| *node = HERE);
    let (mut pace, mut ranges) = (Pace::default(), pages(0, 100_000));
    let brought = order(&mut fake, &mut pace, &mut ranges, 5_000);
    // After 16 looks for each page that might come it is enough.
    assert!((80..90).contains(&brought.moved), "{brought:?}");
    assert!(fake.asked >= 80_000 && !ranges.is_empty());
    let brought = order(&mut fake, &mut pace, &mut ranges, 5_000);
    assert!(ranges.is_empty() && fake.there() == 0, "{brought:?}");
    assert_eq!(fake.tried.len(), 100);
}

#[test]
fn where_pages_are_afterwards_counts() {
    for unsure in [false, true] {
        let mut fake = Fake::small(0..100);
        (fake.stuck, fake.follows) = (vec![7, 8, 9], vec![20, 21]);
        fake.unsure = unsure;
        let brought = order(&mut fake, &mut Pace::default(), &mut pages(0, 100), 512);
        assert_eq!((brought.moved, brought.refused), (97, 3), "{unsure}");
    }
}

#[test]
fn a_huge_page_is_one_piece() {
    let mut fake = Fake::small([]);
    let moving = Moving {
        memory: &mut fake,
        node: HERE,
        most: 512,
        sizes: Sizes {
            page: PAGE,
            huge: 512 * PAGE,
        },
        pace: &mut Pace::default(),
        awaited: &|| true,
    };
    let small = Region::new(0x1000, 0x3000, false);
    // Begins in the middle of one, and ends in the middle of another.
    let huge = Region::new(0x2f_f000, 0x60_1000, true);
    let pieces = moving.pieces(&[small, huge]);
    let pieces: Vec<_> = pieces
        .iter()
        .map(|piece| (piece.address, piece.pages))
        .collect();
    assert_eq!(
        pieces,
        [
            (0x1000, 1),
            (0x2000, 1),
            (0x20_0000, 512),
            (0x40_0000, 512),
            (0x60_0000, 512)
        ]
    );
}

/// An order that ends in the middle of a huge page leaves all of it to the next one.
#[test]
fn huge_pages_are_counted_by_what_they_are_made_of() {
    let mut fake = Fake::small(0..512 * 5);
    fake.huge = true;
    let (mut pace, mut ranges) = (Pace::default(), pages(0, 512 * 5));
    let brought = order(&mut fake, &mut pace, &mut ranges, 1_200);
    assert_eq!((brought.moved, brought.refused), (1024, 0));
    assert_eq!(ranges, pages(1024, 512 * 5));
    // One that no order is large enough for.
    let brought = order(&mut fake, &mut pace, &mut ranges, 511);
    assert_eq!(brought.moved, 0);
    assert!(brought.refused >= 512, "{brought:?}");
}

/// 3 GiB in one area: more bytes than 31 bits say, and more pages than any order.
#[test]
fn an_area_beyond_2_gib_comes_whole() {
    let first = 0x7000_0000_0000 / PAGE;
    let count = 3 * GIB / PAGE;
    let mut fake = Fake::small(first..first + count);
    let (mut pace, mut ranges) = (Pace::default(), pages(first, first + count));
    let (mut moved, mut orders) = (0, 0);
    while !ranges.is_empty() {
        let brought = order(&mut fake, &mut pace, &mut ranges, 32_768);
        assert!(brought.moved <= 32_768 && brought.refused == 0);
        moved += u64::from(brought.moved);
        orders += 1;
    }
    assert_eq!((moved, orders), (count, 24));
    assert_eq!(fake.there(), 0);
    assert!(fake.tried.len() as u64 == count && fake.tried.values().all(|times| *times == 1));
}

/// Pages around all numbers that a narrower type would end at, in an area of 20 TiB that is empty otherwise.
#[test]
fn pages_far_apart_are_found() {
    let (first, last) = (0x1000_0000_0000 / PAGE, 20 * 1024 * GIB / PAGE - 1);
    let edges = [GIB / 2, 2 * GIB / PAGE, 4 * GIB / PAGE, 2 * GIB, 4 * GIB];
    let around = edges.iter().flat_map(|&edge| [edge - 1, edge]);
    let offsets: Vec<u64> = around.chain([0, last]).collect();
    let mut fake = Fake::small(offsets.iter().map(|offset| first + offset));
    let mut ranges = pages(first, first + last + 1);
    let brought = order(&mut fake, &mut Pace::default(), &mut ranges, 2048);
    assert_eq!((brought.moved, brought.refused), (12, 0));
    assert!(ranges.is_empty() && fake.there() == 0);
}

/// The real kernel, of 5 GiB of address space in which four pages were touched. They are on the first node, and where a
/// machine has no other one, nothing is left to do.
#[test]
fn the_kernel_finds_pages_beyond_2_gib() {
    let length = 5 * GIB as usize;
    let (flags, protection) = (
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        libc::PROT_READ | libc::PROT_WRITE,
    );
    let size = pages::page_size() as u64;
    let offsets = [size, 2 * GIB - size, 4 * GIB, 5 * GIB - size];
    // SAFETY: new memory, given back below; only touched inside.
    let start = unsafe {
        let start = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        libc::madvise(start, length, libc::MADV_NOHUGEPAGE);
        for offset in offsets {
            start.cast::<u8>().add(offset as usize).write_volatile(1);
        }
        start as u64
    };
    let own = std::process::id() as i32;
    let mut kernel = Kernel::new(own, File::open("/proc/self/pagemap").unwrap());
    let touched = offsets.map(|offset| start + offset);
    let mut status = [-1; 4];
    let answer = kernel.ask(&touched.map(|at| at as usize), &mut status);
    let (mut found, mut at) = (Vec::new(), start);
    while let (true, Ok(now)) = (
        at < start + length as u64,
        kernel.present(at, start + length as u64, 512),
    ) {
        found.extend(now.regions.iter().map(|region| region.start));
        at = now.up_to;
    }
    let mut brought = Brought::default();
    let mut ranges = VecDeque::from([(start, start + length as u64)]);
    let mut moving = Moving {
        memory: kernel,
        node: status[0],
        most: 4096,
        sizes: Sizes {
            page: size,
            huge: 512 * size,
        },
        pace: &mut Pace::default(),
        awaited: &|| true,
    };
    let went = moving.go(&mut ranges, &mut brought);
    // SAFETY: from above, and nothing refers to it.
    unsafe { libc::munmap(start as *mut _, length) };
    // Where a sandbox does not let anybody ask, or the kernel does not have PAGEMAP_SCAN, there is nothing to see.
    if answer.is_err() || found.is_empty() {
        return;
    }
    assert_eq!(found, touched);
    assert!(status.iter().all(|node| *node >= 0), "{status:?}");
    assert_eq!(went, Ok(()));
    assert!(ranges.is_empty(), "{ranges:?}");
    let elsewhere = status.iter().filter(|node| **node != status[0]).count();
    assert_eq!((brought.moved + brought.refused) as usize, elsewhere);
}

#[test]
fn counts_do_not_wrap() {
    let mut counted = u32::MAX - 1;
    orders::count(&mut counted, 5);
    assert_eq!(counted, u32::MAX);
    counted = 0;
    orders::count(&mut counted, 1 << 32);
    assert_eq!(counted, u32::MAX);
}
