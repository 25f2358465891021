// SPDX-License-Identifier: GPL-2.0-only
//! What the memory thread costs: a look at processes of several kinds, and on more than one node a page that is brought.
//!
//! CPU time as the thread reports it, median of some looks, the first one by itself: it reads the memory policies of all
//! areas. The processes sleep. Where time depends on the host (an emulated machine), compare within one run.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use scx_ballast::machine::Machine;
use scx_ballast::memory::{MemoryThread, Order, Report};

const MIB: usize = 1 << 20;
const LOOKS: usize = 30;

/// Memory of a process.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    mib: usize,
    areas: usize,
    huge: bool,
}

const fn kind(name: &'static str, mib: usize, areas: usize, huge: bool) -> Kind {
    Kind {
        name,
        mib,
        areas,
        huge,
    }
}

/// Sizes for a lab machine of 512 MiB a node.
const KINDS: [Kind; 5] = [
    kind("1 MiB", 1, 1, false),
    kind("96 MiB, 12 areas", 96, 12, false),
    kind("256 MiB", 256, 1, false),
    kind("256 MiB of huge pages", 256, 1, true),
    kind("64 MiB, 4000 areas", 64, 4000, false),
];

/// A process that sleeps, and the start of its first area.
struct Child {
    pid: i32,
    start: usize,
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child, which nobody else waits for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Map `kind`'s memory. Areas have a page between them that cannot be accessed, or they would be one.
fn map(kind: Kind) -> usize {
    let length = kind.mib * MIB / kind.areas / 4096 * 4096;
    let (none, rw) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let room = kind.areas * (length + 4096) + 2 * MIB;
    // SAFETY: new memory, which stays until the process ends.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), room, none, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        let start = (start as usize).next_multiple_of(2 * MIB);
        for area in 0..kind.areas {
            let at = start + area * (length + 4096);
            assert_eq!(libc::mprotect(at as *mut _, length, rw), 0);
            let advice = match kind.huge {
                true => libc::MADV_HUGEPAGE,
                false => libc::MADV_NOHUGEPAGE,
            };
            libc::madvise(at as *mut _, length, advice);
        }
        start
    }
}

fn touch(kind: Kind, start: usize) {
    let length = kind.mib * MIB / kind.areas / 4096 * 4096;
    for area in 0..kind.areas {
        for offset in (0..length).step_by(4096) {
            let at = (start + area * (length + 4096) + offset) as *mut u8;
            // SAFETY: memory that was just mapped.
            unsafe { at.write_volatile(1) };
        }
    }
}

fn spawn(kind: Kind) -> Child {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let rw = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a page of zeroes for both processes; an atomic number has no invalid values.
    let ready: &AtomicU32 =
        unsafe { &*libc::mmap(std::ptr::null_mut(), 4096, rw, flags, -1, 0).cast() };
    let start = map(kind);
    // SAFETY: the child only touches memory and sleeps.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        touch(kind, start);
        ready.store(1, SeqCst);
        loop {
            // SAFETY: takes nothing.
            unsafe { libc::pause() };
        }
    }
    let child = Child { pid, start };
    while ready.load(SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn report(thread: &MemoryThread, order: Order) -> Report {
    assert!(thread.order(order), "no room for an order");
    let report = thread.reports().recv_timeout(Duration::from_secs(60));
    report.expect("a report")
}

/// CPU time of a look, in us.
fn look(thread: &MemoryThread, child: &Child, addresses: u32, touches: u64, at_ms: u64) -> u32 {
    // Of twelve tasks, each with pages of its own.
    let touched = (0..touches).map(|n| {
        let page = n % 12 * 256 + n / 12;
        ((n as u32 % 12, 2), child.start as u64 + page * 4096)
    });
    let order = Order::Look {
        tgid: child.pid,
        addresses,
        touched: touched.collect(),
        at_ms,
    };
    match report(thread, order) {
        Report::Looked { cost_us, found, .. } => {
            found.expect("a look");
            cost_us
        }
        other => panic!("{other:?}"),
    }
}

fn median(costs: &mut [u32]) -> u32 {
    costs.sort_unstable();
    costs[costs.len() / 2]
}

fn looks(thread: &MemoryThread, kind: Kind) {
    let child = spawn(kind);
    let mut at_ms = 1_000;
    let first = look(thread, &child, 200, 0, at_ms);
    let mut of = |touches: u64| {
        let mut costs: Vec<u32> = (0..LOOKS)
            .map(|_| {
                at_ms += 250;
                look(thread, &child, 200, touches, at_ms)
            })
            .collect();
        (median(&mut costs), costs.iter().sum::<u32>() / LOOKS as u32)
    };
    let (plain, touched) = (of(0), of(768));
    println!(
        "{:24} first {first:6} us  200 addresses {:5} us (mean {:5})  and 768 touches {:5} us (mean {:5})",
        kind.name, plain.0, plain.1, touched.0, touched.1
    );
}

/// Orders until all of the process's memory is on the other node.
fn bring(thread: &MemoryThread, kind: Kind) {
    let child = spawn(kind);
    for to in [1, 0, 1] {
        let (mut moved, mut us, mut orders) = (0, 0, 0);
        for at_ms in 0.. {
            let order = Order::Bring {
                tgid: child.pid,
                to,
                pages: 8192,
                within: None,
                at_ms,
            };
            let Report::Brought {
                brought, cost_us, ..
            } = report(thread, order)
            else {
                panic!("another order's report");
            };
            let brought = brought.expect("an order carried out");
            (moved, us, orders) = (moved + brought.moved, us + cost_us, orders + 1);
            if brought.finished {
                break;
            }
        }
        let ns = u64::from(us) * 1000 / u64::from(moved.max(1));
        println!(
            "{:24} to node {to}: {moved} pages in {orders} orders, {ns} ns a page",
            kind.name
        );
    }
}

/// `look` or `bring` alone, or both.
fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let does = |what: &str| {
        let mut others = ["look", "bring"].iter().filter(|other| **other != what);
        !others.any(|other| asked.iter().any(|one| one == other))
    };
    let machine = Machine::detect(None).expect("a machine");
    let ids: Vec<u32> = machine.nodes().iter().map(|node| node.id).collect();
    let nodes = ids.len();
    let thread = MemoryThread::start(ids, 7).expect("a kernel that tells where memory is");
    println!("touched lately: {}", thread.touch_source());
    if does("look") {
        KINDS.iter().for_each(|&kind| looks(&thread, kind));
    }
    if nodes > 1 && does("bring") {
        bring(&thread, kind("32 MiB", 32, 1, false));
        bring(&thread, kind("32 MiB of huge pages", 32, 1, true));
    }
}
