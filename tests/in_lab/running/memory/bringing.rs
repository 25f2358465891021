// SPDX-License-Identifier: GPL-2.0-only
//! Orders to bring memory to a node, as the memory thread carries them out: what comes, what is not touched, and how
//! long it takes. Nothing is decided here.

use super::*;

/// A free process's pages come, huge ones whole; what is bound stays, and so does what others use.
#[test]
#[ignore = "runs in the lab"]
fn memory_is_brought_and_bound_memory_is_not() {
    with_shared(|_| {
        let two = nodes();
        if two.len() < 2 {
            return remark("(one node)");
        }
        let a = two[0].id;
        let bound = format!("bind:{a}");
        let pieces = [
            on(a, 24),
            on(a, 4).kept(),
            Piece {
                huge: true,
                ..on(a, 16)
            },
        ];
        let task = holder(None, &pieces);
        let mut asked = Asked::start();
        let before = asked.truth(task.pid(), Some("default"));
        assert!(share(&before, 0) > 0.8, "{before:?}");
        let brought = asked.bring(&task, 1, None);
        let after = asked.truth(task.pid(), Some("default"));
        remark(&format!("{before:?} to {after:?}: {brought:?};"));
        assert!(brought.finished);
        let moved = after[1].saturating_sub(before[1]);
        assert!(moved * PAGE as u64 >= 38 << 20, "{before:?}, {after:?}");
        assert!(
            u64::from(brought.moved).abs_diff(moved) <= moved / 20,
            "{brought:?}, {moved}"
        );
        let mut stayed = vec![0; two.len()];
        stayed[0] = (4 * MIB / PAGE) as u64;
        assert_eq!(asked.truth(task.pid(), Some(&bound)), stayed);

        // Again: nothing is left.
        let again = asked.bring(&task, 1, None);
        assert!(again.finished && again.moved < 100, "{again:?}");

        // Of a process that is bound as a whole nothing is brought.
        let task = holder(Some((MPOL_BIND, 1 << a)), &[on(a, 16)]);
        let nothing = Brought {
            finished: true,
            ..Brought::default()
        };
        assert_eq!(asked.bring(&task, 1, None), nothing);
        assert!(share(&asked.truth(task.pid(), None), 0) > 0.9);
    });
}

/// Only the part that was asked for comes, and of that only what no policy placed.
#[test]
#[ignore = "runs in the lab"]
fn a_part_is_brought_alone() {
    with_shared(|_| {
        let two = nodes();
        if two.len() < 2 {
            return remark("(one node)");
        }
        let a = two[0].id;
        let bound = format!("bind:{a}");
        let task = holder(None, &[on(a, 24), on(a, 4).kept()]);
        let mut asked = Asked::start();
        let (before, placed) = (
            asked.truth(task.pid(), Some("default")),
            asked.truth(task.pid(), Some(&bound)),
        );
        let (free, kept) = (area_of(&task, 24), area_of(&task, 4));
        let third = |n: u64| free + n * 2048;
        let part = |start, end| Some(Extent { start, end, to: 1 });
        let brought = asked.bring(&task, 1, part(third(1), third(2)));
        assert_eq!((brought.moved, brought.refused), (2048, 0));
        assert!(brought.finished);
        let after = asked.truth(task.pid(), Some("default"));
        assert_eq!(after[1] - before[1], 2048, "{before:?}, {after:?}");
        assert_eq!(asked.bring(&task, 1, part(third(1), third(2))).moved, 0);

        // The other one, its policy seen by the same reading.
        let nothing = asked.bring(&task, 1, part(kept, kept + 1024));
        assert_eq!((nothing.moved, nothing.finished), (0, true));
        assert_eq!(asked.truth(task.pid(), Some(&bound)), placed);
        let rest = asked.bring(&task, 1, part(third(0), third(3)));
        assert_eq!((rest.moved, rest.finished), (4096, true));
    });
}

/// An order ends when its time is over, in the middle of the memory, and the next one goes on there.
#[test]
#[ignore = "runs in the lab"]
fn an_order_is_as_much_as_its_time_allows() {
    with_shared(|_| {
        let two = nodes();
        if two.len() < 2 {
            return remark("(one node)");
        }
        let task = holder(None, &[on(two[0].id, 48)]);
        let mut asked = Asked::start();
        let all = (48 * MIB / PAGE) as u32;
        let (mut orders, mut moved) = (Vec::new(), 0);
        let area = area_of(&task, 48);
        let within = Some(Extent {
            start: area,
            end: area + u64::from(all),
            to: 1,
        });
        loop {
            asked.at_ms += 100;
            let began = Instant::now();
            let order = Order::Bring {
                tgid: task.pid(),
                to: 1,
                pages: 4 * all,
                within,
                at_ms: asked.at_ms,
            };
            let Report::Brought { brought, .. } = asked.report(order) else {
                panic!("another order's report");
            };
            let brought = brought.unwrap();
            let took = began.elapsed();
            orders.push((brought.moved, took.as_millis()));
            moved += brought.moved;
            assert_eq!(brought.refused, 0, "{orders:?}");
            if brought.finished {
                break;
            }
            // One call of the kernel at least, and the time is over.
            assert!(brought.moved >= 512, "{orders:?}");
            assert!(took >= Duration::from_micros(MOST_US), "{orders:?}");
        }
        remark(&format!("pages and ms: {orders:?};"));
        assert_eq!(moved, all);
    });
}

/// Pages around 2 and 4 GiB and at the end of an area of 5 GiB, in which there is hardly anything else, bound by
/// one call and brought by another.
#[test]
#[ignore = "runs in the lab"]
fn an_area_beyond_2_gib_comes_whole() {
    with_shared(|_| {
        let two = nodes();
        if two.len() < 2 {
            return remark("(one node)");
        }
        let first = 1 << two[0].id;
        let ready: &AtomicU32 = Shared::leak();
        let length = 5 << 30;
        let task = Task::fork(move || {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: new memory, which stays for the rest of the task's life.
            unsafe {
                let start = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                libc::madvise(start, length, libc::MADV_NOHUGEPAGE);
                mbind(start.cast(), length, MPOL_BIND, first);
                for at in [0, 2 << 30, 4 << 30, length - 8 * PAGE] {
                    touch(start.cast::<u8>().add(at), 8 * PAGE);
                }
                mbind(start.cast(), length, MPOL_DEFAULT, 0);
            }
            ready.store(1, SeqCst);
            loop {
                std::thread::sleep(secs(60));
            }
        });
        within(secs(5), || match ready.load(SeqCst) {
            0 => Err("it makes its memory".into()),
            _ => Ok(()),
        });
        let area = area_of(&task, 5 << 10) * PAGE as u64;
        let pages_on = |node: u32| {
            let text = read(format!("/proc/{}/numa_maps", task.pid()));
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("{area:x} ")));
            let line = line.unwrap_or_else(|| panic!("{text}"));
            let count = line
                .split(' ')
                .find_map(|field| field.strip_prefix(&format!("N{node}=")));
            count.map_or(0, |count| count.parse::<u32>().unwrap())
        };
        assert_eq!((pages_on(two[0].id), pages_on(two[1].id)), (32, 0));
        let mut asked = Asked::start();
        let (look, _) = asked.look(task.pid(), 200);
        assert_eq!(look.policy, MemoryPolicy::Free);
        let brought = asked.bring(&task, 1, None);
        assert!(brought.finished && brought.moved >= 32, "{brought:?}");
        assert_eq!((pages_on(two[0].id), pages_on(two[1].id)), (0, 32));
    });
}
