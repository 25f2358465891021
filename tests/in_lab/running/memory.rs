// SPDX-License-Identifier: GPL-2.0-only
//! Where memory lies, as the memory thread finds it, against memory that was put somewhere and against the kernel's own
//! count of every page (numa_maps). How it is brought elsewhere: [`bringing`]. What each source of evidence says of the
//! cases of the suite `locality`: [`cases`].
//!
//! Under sched_ext the kernel's NUMA balancing leaves the tasks' memory alone, so it stays where it was put.

mod bringing;
mod cases;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use scx_ballast::memory::{Brought, KernelScans, Look, MemoryThread, Order, Report, TouchSource};
use scx_ballast::policy::locality::extents::Extent;
use scx_ballast::policy::locality::follow::MOST_US;
use scx_ballast::policy::locality::input::MemoryPolicy;

use crate::guest::{ms, nodes, read, remark, secs, within};
use crate::sched::{with_none, with_shared};
use crate::tasks::{Shared, Task};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

const MPOL_DEFAULT: i32 = 0;
const MPOL_PREFERRED: i32 = 1;
const MPOL_BIND: i32 = 2;
const MPOL_INTERLEAVE: i32 = 3;

/// Some memory of a task.
#[derive(Clone, Copy)]
struct Piece {
    mib: usize,
    /// Its node, by the kernel's id, or several to interleave.
    nodes: u64,
    /// The policy is still there afterwards.
    kept: bool,
    huge: bool,
    shared: bool,
}

fn on(node: u32, mib: usize) -> Piece {
    Piece {
        mib,
        nodes: 1 << node,
        kept: false,
        huge: false,
        shared: false,
    }
}

impl Piece {
    fn kept(self) -> Self {
        Self { kept: true, ..self }
    }

    /// Map it, put it where it has to be, touch every page.
    fn make(self) -> *mut u8 {
        let sharing = match self.shared {
            true => libc::MAP_SHARED,
            false => libc::MAP_PRIVATE,
        };
        let (flags, protection) = (
            sharing | libc::MAP_ANONYMOUS,
            libc::PROT_READ | libc::PROT_WRITE,
        );
        let length = self.mib * MIB;
        // Areas beside each other would become one, and a huge page needs the right beginning.
        let room = length + 4 * MIB;
        // SAFETY: new memory, which stays for the rest of the task's life.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), room, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.cast::<u8>();
            let start = start.add(start.align_offset(2 * MIB) + PAGE * usize::from(!self.huge));
            let advice = match self.huge {
                true => libc::MADV_HUGEPAGE,
                false => libc::MADV_NOHUGEPAGE,
            };
            libc::mprotect(start.cast(), length, protection);
            libc::madvise(start.cast(), length, advice);
            let mode = match self.nodes.count_ones() {
                1 => MPOL_BIND,
                _ => MPOL_INTERLEAVE,
            };
            mbind(start, length, mode, self.nodes);
            touch(start, length);
            if !self.kept {
                mbind(start, length, MPOL_DEFAULT, 0);
            }
            start
        }
    }
}

/// # Safety
/// Memory of ours.
unsafe fn touch(start: *mut u8, length: usize) {
    for page in 0..length / PAGE {
        // SAFETY: inside, as the caller promises.
        unsafe { start.add(page * PAGE).write_volatile(1) };
    }
}

/// # Safety
/// Memory of ours.
unsafe fn mbind(start: *mut u8, length: usize, mode: i32, nodes: u64) {
    let mask = [nodes, 0];
    // SAFETY: the caller's memory; a mask on the stack and its size in bits.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start,
            length,
            mode,
            mask.as_ptr(),
            65_u64,
            0,
        )
    };
    assert_eq!(result, 0, "mbind: {}", std::io::Error::last_os_error());
}

fn set_mempolicy(mode: i32, nodes: u64) {
    let mask = [nodes, 0];
    // SAFETY: a mask on the stack and its size in bits.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.as_ptr(), 65_u64) };
    assert_eq!(
        result,
        0,
        "set_mempolicy: {}",
        std::io::Error::last_os_error()
    );
}

/// A task with such memory that sleeps; under a policy of its own if one is given.
fn holder(policy: Option<(i32, u64)>, pieces: &[Piece]) -> Task {
    let ready: &AtomicU32 = Shared::leak();
    let pieces = pieces.to_vec();
    let task = Task::fork(move || {
        if let Some((mode, nodes)) = policy {
            set_mempolicy(mode, nodes);
        }
        for piece in pieces {
            match policy {
                None => {
                    piece.make();
                }
                // SAFETY: just made, by the task's policy alone.
                Some(_) => unsafe {
                    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                    let protection = libc::PROT_READ | libc::PROT_WRITE;
                    let length = piece.mib * MIB;
                    let start = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
                    libc::madvise(start, length, libc::MADV_NOHUGEPAGE);
                    touch(start.cast(), length);
                },
            }
        }
        ready.store(1, SeqCst);
        loop {
            std::thread::sleep(secs(1000));
        }
    });
    within(secs(5), || match ready.load(SeqCst) {
        0 => Err("it makes its memory".into()),
        _ => Ok(()),
    });
    task
}

/// The memory thread of this machine, and what it answers.
struct Asked {
    thread: MemoryThread,
    ids: Vec<u32>,
    at_ms: u64,
}

impl Asked {
    fn start() -> Self {
        let ids: Vec<u32> = nodes().iter().map(|node| node.id).collect();
        Self {
            thread: MemoryThread::start(ids.clone(), 7).unwrap(),
            ids,
            at_ms: 1000,
        }
    }

    #[track_caller]
    fn report(&mut self, order: Order) -> Report {
        assert!(self.thread.order(order));
        self.thread.reports().recv_timeout(secs(60)).unwrap()
    }

    #[track_caller]
    fn look(&mut self, tgid: i32, addresses: u32) -> (Look, u32) {
        self.at_ms += 1000;
        let order = Order::Look {
            tgid,
            touched: Vec::new(),
            addresses,
            at_ms: self.at_ms,
        };
        match self.report(order) {
            Report::Looked { found, cost_us, .. } => (found.unwrap(), cost_us),
            other => panic!("{other:?}"),
        }
    }

    /// Bring pages until there are no more; what came of it in all.
    #[track_caller]
    fn bring(&mut self, task: &Task, to: u16, within: Option<Extent>) -> Brought {
        let mut all = Brought::default();
        for _ in 0..64 {
            self.at_ms += 100;
            let order = Order::Bring {
                tgid: task.pid(),
                to,
                pages: 2048,
                within,
                at_ms: self.at_ms,
            };
            let Report::Brought { brought, .. } = self.report(order) else {
                panic!("another order's report");
            };
            let brought = brought.unwrap();
            assert!(brought.moved + brought.refused <= 2048, "{brought:?}");
            all.moved += brought.moved;
            all.refused += brought.refused;
            if brought.finished {
                all.finished = true;
                break;
            }
        }
        all
    }

    /// Pages by dense node that numa_maps counts, of memory, and of what has this policy if one is given.
    fn truth(&self, tgid: i32, policy: Option<&str>) -> Vec<u64> {
        let text = read(format!("/proc/{tgid}/numa_maps"));
        let mut pages = vec![0; self.ids.len()];
        for line in text.lines() {
            let is_file = line.contains("file=/") && !line.contains("file=/dev/zero");
            let other = policy.is_some_and(|policy| line.split(' ').nth(1) != Some(policy));
            if is_file || other {
                continue;
            }
            let counts = line.split(' ').filter_map(|field| field.split_once('='));
            let counts: BTreeMap<&str, u64> = counts
                .filter_map(|(key, value)| Some((key, value.parse().ok()?)))
                .collect();
            for (pages, id) in pages.iter_mut().zip(&self.ids) {
                *pages += counts.get(format!("N{id}").as_str()).unwrap_or(&0);
            }
        }
        pages
    }
}

fn share(pages: &[u64], node: usize) -> f64 {
    pages[node] as f64 / pages.iter().sum::<u64>() as f64
}

fn found(look: &Look) -> Vec<u64> {
    let sum = |node: &scx_ballast::policy::locality::input::NodePages| {
        u64::from(node.private) + u64::from(node.shared)
    };
    look.sample.pages.iter().map(sum).collect()
}

/// Whatever the mixture, a look says the same as the kernel's count of every page.
#[test]
#[ignore = "runs in the lab"]
fn looks_agree_with_numa_maps() {
    with_shared(|_| {
        let two = nodes();
        if two.len() < 2 {
            return remark("(one node)");
        }
        let (a, b) = (two[0].id, two[1].id);
        let huge = |piece: Piece| Piece {
            huge: true,
            ..piece
        };
        let shared = |piece: Piece| Piece {
            shared: true,
            ..piece
        };
        let mixtures: [&[Piece]; 4] = [
            &[on(a, 32)],
            &[on(a, 8), on(b, 24)],
            &[huge(on(a, 16)), on(b, 8), on(a, 8)],
            &[on(b, 8), shared(on(a, 24))],
        ];
        for pieces in mixtures {
            let task = holder(None, pieces);
            let mut asked = Asked::start();
            let (look, cost_us) = asked.look(task.pid(), 1000);
            let truth = share(&asked.truth(task.pid(), None), 0);
            let seen = share(&found(&look), 0);
            remark(&format!("{seen:.3} for {truth:.3} in {cost_us} us;"));
            assert!((seen - truth).abs() <= 0.05, "{look:?}, {truth}");
            assert_eq!(look.policy, MemoryPolicy::Free);
            let most_shared = pieces.iter().any(|piece| piece.shared);
            assert_eq!(look.group.is_some(), most_shared, "{look:?}");
            let mib = look.resident as usize * PAGE / MIB;
            assert!((32..64).contains(&mib), "{mib}");
        }
    });
}

/// A name, the task's policy, its memory, and what shall be found.
type Case = (&'static str, Option<(i32, u64)>, Piece, MemoryPolicy);

#[test]
#[ignore = "runs in the lab"]
fn what_placed_memory_is_seen() {
    with_shared(|_| {
        let two = nodes();
        if two.len() < 2 {
            return remark("(one node)");
        }
        let (a, b) = (two[0].id, two[1].id);
        let both = 1 << a | 1 << b;
        let all = two.iter().fold(0, |all, node| all | 1 << node.id);
        let spread = Piece {
            nodes: both,
            ..on(a, 16)
        };
        let cases: [Case; 7] = [
            ("bound area", None, on(b, 16).kept(), MemoryPolicy::Bind),
            (
                "interleaved area",
                None,
                spread.kept(),
                MemoryPolicy::Interleave,
            ),
            ("interleaved before", None, spread, MemoryPolicy::Free),
            (
                "bound task",
                Some((MPOL_BIND, 1 << b)),
                on(a, 16),
                MemoryPolicy::Bind,
            ),
            (
                "interleaved task",
                Some((MPOL_INTERLEAVE, both)),
                on(a, 16),
                MemoryPolicy::Interleave,
            ),
            (
                "preferring task",
                Some((MPOL_PREFERRED, 1 << b)),
                on(a, 16),
                MemoryPolicy::Preferred,
            ),
            (
                "task bound to all",
                Some((MPOL_BIND, all)),
                on(a, 16),
                MemoryPolicy::Free,
            ),
        ];
        for (name, policy, piece, expected) in cases {
            let task = holder(policy, &[piece]);
            let (look, _) = Asked::start().look(task.pid(), 400);
            assert_eq!(look.policy, expected, "{name}");
        }
    });
}

/// The first page of the task's area of so many MiB.
#[track_caller]
fn area_of(task: &Task, mib: usize) -> u64 {
    let maps = read(format!("/proc/{}/maps", task.pid()));
    let mut areas = maps.lines().filter_map(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some((hex(start)?, hex(end)?))
    });
    let area = areas.find(|(start, end)| end - start == (mib * MIB) as u64);
    area.unwrap_or_else(|| panic!("{maps}")).0 / PAGE as u64
}

/// Of two areas alike, the one in use gets most of the addresses (R7).
#[test]
#[ignore = "runs in the lab"]
fn areas_in_use_come_first() {
    with_shared(|_| {
        let two = nodes();
        if two.len() < 2 {
            return remark("(one node)");
        }
        let (a, b) = (two[0].id, two[1].id);
        let mut asked = Asked::start();
        if asked.thread.touch_source() != TouchSource::IdlePages {
            return remark(&format!("({})", asked.thread.touch_source()));
        }
        let rounds: &AtomicU32 = Shared::leak();
        let task = Task::fork(move || {
            let used = on(a, 8).make();
            on(b, 8).make();
            loop {
                // SAFETY: its own memory. Taking access away and giving it back makes the CPUs forget the
                // addresses that they remember, which otherwise happens by itself, but later.
                unsafe {
                    let both = libc::PROT_READ | libc::PROT_WRITE;
                    libc::mprotect(used.cast(), 8 * MIB, libc::PROT_READ);
                    libc::mprotect(used.cast(), 8 * MIB, both);
                    touch(used, 8 * MIB);
                }
                rounds.fetch_add(1, SeqCst);
                std::thread::sleep(ms(20));
            }
        });
        let wait = |rounds_more: u32| {
            let until = rounds.load(SeqCst) + rounds_more;
            within(Duration::from_secs(5), || {
                match rounds.load(SeqCst) >= until {
                    true => Ok(()),
                    false => Err("memory is not used".into()),
                }
            });
        };
        wait(1);
        let (first, _) = asked.look(task.pid(), 400);
        wait(2);
        let (second, cost_us) = asked.look(task.pid(), 400);
        let (first, second) = (share(&found(&first), 0), share(&found(&second), 0));
        remark(&format!("{first:.2}, then {second:.2} in {cost_us} us;"));
        // Beside the two areas there is what the driver has left in the task.
        assert!((0.35..0.65).contains(&first), "{first}");
        assert!(second > 0.68, "{second}");
    });
}

/// The kernel's own NUMA balancing goes through the memory of a fair task and not of a sched_ext one, which is why
/// all this is needed. When this fails on a new kernel, its preferred node can be asked for.
#[test]
#[ignore = "runs in the lab"]
fn the_kernels_balancing_does_not_see_ext_tasks() {
    const SWITCH: &str = "/proc/sys/kernel/numa_balancing";
    let passes = |task: &Task| {
        let scans = KernelScans::parse(&read(format!("/proc/{}/sched", task.pid())));
        scans.unwrap().passes()
    };
    let busy = || {
        Task::fork(|| {
            let length = 4 * MIB;
            let start = on(0, 4).make();
            loop {
                // SAFETY: its own memory.
                unsafe { touch(start, length) };
            }
        })
    };
    if nodes().len() < 2 {
        return remark("(one node)");
    }
    with_shared(|_| {
        let before = read(SWITCH);
        std::fs::write(SWITCH, "1").unwrap();
        let (task, began) = (busy(), Instant::now());
        // It begins after a second of CPU time.
        within(secs(4), || match task.cpu_time() >= secs(4) {
            true => Ok(()),
            false => Err("it hardly runs".into()),
        });
        let (seen, took) = (passes(&task), began.elapsed());
        remark(&format!(
            "sched_ext: {seen} passes in {} ms;",
            took.as_millis()
        ));
        std::fs::write(SWITCH, before).unwrap();
        assert_eq!(seen, 0);
    });
    with_none(|| {
        let before = read(SWITCH);
        std::fs::write(SWITCH, "1").unwrap();
        let task = busy();
        let seen = within(secs(4), || match passes(&task) {
            0 => Err("no pass".into()),
            seen => Ok(seen),
        });
        std::fs::write(SWITCH, before).unwrap();
        remark(&format!(
            "fair: {seen} passes in {} ms",
            task.cpu_time().as_millis()
        ));
    });
}
