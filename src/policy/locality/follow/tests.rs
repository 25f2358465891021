// SPDX-License-Identifier: GPL-2.0-only
//! One process at a time: when bringing begins, goes on and ends.

use super::*;

/// A process of 100 MiB whose tasks are stuck on node 1.
fn stuck<'a>(scores: &'a [u16], sampled_ms: u64) -> Resident<'a> {
    Resident {
        tgid: 7,
        standing: Standing::Known,
        policy: MemoryPolicy::Free,
        sampled_ms,
        nodes: 0b10,
        stuck: true,
        pages: 25_600,
        shares: scores,
        finding: Finding::default(),
    }
}

fn tick(follow: &mut Follow, now_ms: u64, process: Resident<'_>) -> Vec<Wish> {
    let mut wishes = Vec::new();
    follow.tick(now_ms, &[process], &mut wishes);
    wishes
}

fn bring(pages: u32) -> Wish {
    Wish::Bring {
        tgid: 7,
        to: 1,
        pages,
        within: None,
    }
}

/// What is ordered, if that alone is.
fn batch_of(wishes: Vec<Wish>) -> u32 {
    match wishes[..] {
        [Wish::Bring { pages, .. }] => pages,
        _ => panic!("{wishes:?}"),
    }
}

fn all_moved(pages: u32) -> Option<Batch> {
    Some(Batch {
        moved: pages,
        ..Batch::default()
    })
}

#[test]
fn it_begins_when_tasks_have_settled_where_memory_is_not() {
    let mut follow = Follow::new(8192, 0);
    let process = stuck(&[900, 100], 0);
    // Bringing 25600 pages at 8192 a second takes 3125 ms.
    assert_eq!(tick(&mut follow, 1_000, process), []);
    assert_eq!(tick(&mut follow, 4_124, process), []);
    assert_eq!(tick(&mut follow, 4_125, process), [bring(1024)]);
    // One order at a time.
    assert_eq!(tick(&mut follow, 4_200, process), []);
    follow.brought(7, 4_300, all_moved(1024));
    assert_eq!(tick(&mut follow, 4_400, process), [bring(2048)]);
}

/// Who can still go to its memory, or of whom nothing is known, is given time to do so.
#[test]
fn only_time_that_tasks_were_stuck_counts() {
    let process = stuck(&[900, 100], 0);
    let free = Resident {
        stuck: false,
        ..process
    };
    let unknown = Resident {
        standing: Standing::Unstable,
        ..process
    };
    for other in [free, unknown] {
        let mut follow = Follow::new(8192, 0);
        assert_eq!(tick(&mut follow, 0, process), []);
        assert_eq!(tick(&mut follow, 3_000, other), []);
        assert_eq!(tick(&mut follow, 6_124, process), []);
        assert_eq!(tick(&mut follow, 6_125, process), [bring(1024)]);
    }
}

#[test]
fn tasks_settle_for_as_long_as_bringing_takes() {
    assert_eq!(settling_ms(25_600, 8192), 3125);
    // No less than a second, and no more than five; no rate is not a fault.
    assert_eq!(settling_ms(100, 8192), 1000);
    assert_eq!(settling_ms(u64::MAX, 8192), 5000);
    assert_eq!(settling_ms(1, 0), 1000);
}

#[test]
fn who_goes_nowhere_settles_as_soon_as_its_memory_can_come() {
    assert!(!has_settled(1_499, 1_499, 1_500));
    assert!(has_settled(1_500, 1_500, 1_500));
    // On its way until 4 s.
    assert!(!has_settled(4_999, 999, 1_500));
    assert!(has_settled(5_000, 1_000, 1_500));
}

/// A process of 16 GiB, which has enough in each stage for whatever the purse allows.
fn large(scores: &[u16]) -> Resident<'_> {
    Resident {
        pages: 4 << 20,
        ..stuck(scores, 0)
    }
}

/// Pages that were ordered at ticks of 100 ms, all of which come.
fn ordered(follow: &mut Follow, ticks: std::ops::Range<u64>) -> Vec<u64> {
    let one = |at: u64| {
        let wishes = tick(follow, at * 100, large(&[900, 100]));
        let [Wish::Bring { pages, .. }] = wishes[..] else {
            panic!("{wishes:?}");
        };
        follow.brought(7, at * 100 + 99, all_moved(pages));
        u64::from(pages)
    };
    ticks.map(one).collect()
}

#[test]
fn an_order_has_the_batches_that_the_purse_allows() {
    // 256 MiB a second: 65536 pages.
    let mut follow = Follow::new(65_536, 0);
    assert_eq!(follow.batch(), LARGEST_BATCH);
    tick(&mut follow, 0, large(&[900, 100]));
    let pages = ordered(&mut follow, 50..60);
    // Twice as many each time, first from a second's worth in the purse, then what comes in.
    assert_eq!(pages[..4], [2048, 4096, 8192, 16_384]);
    let all: u64 = pages.iter().sum();
    assert!((65_536 * 9 / 10..=65_536 * 2).contains(&all), "{pages:?}");
    let later: u64 = ordered(&mut follow, 60..70).iter().sum();
    assert!((65_000..=65_536).contains(&later), "{later}");
}

#[test]
fn an_order_has_an_end_whatever_the_rate() {
    let mut follow = Follow::new(1 << 40, 0);
    tick(&mut follow, 0, large(&[900, 100]));
    let pages = ordered(&mut follow, 50..60);
    let most = LARGEST_BATCH * MOST_BATCHES;
    assert_eq!(pages.iter().max(), Some(&most), "{pages:?}");
}

/// Whoever runs out of time has not used what he got.
#[test]
fn what_was_not_tried_goes_back_into_the_purse() {
    let mut follow = Follow::new(8192, 0);
    let process = large(&[900, 100]);
    tick(&mut follow, 0, process);
    // The purse has 8192. Of 1024 a half is tried, so the next one is as large, and as much more as has moved.
    assert_eq!(tick(&mut follow, 5_000, process), [bring(1024)]);
    follow.brought(7, 5_000, all_moved(512));
    assert_eq!(tick(&mut follow, 5_000, process), [bring(1536)]);
    follow.brought(7, 5_000, all_moved(1536));
    assert_eq!(tick(&mut follow, 5_000, process), [bring(3072)]);
    follow.brought(7, 5_000, all_moved(3072));
    // 8192 less 5120 that were tried.
    assert_eq!(tick(&mut follow, 5_000, process), [bring(3072)]);
    // Of an order that was lost nobody knows.
    follow.brought(7, 5_000, None);
    assert_eq!(follow.purse, 0);
}

#[test]
fn it_does_not_begin_otherwise() {
    let base = stuck(&[900, 100], 0);
    let others = [
        Resident {
            standing: Standing::Few,
            ..base
        },
        Resident {
            standing: Standing::Void,
            ..base
        },
        Resident {
            policy: MemoryPolicy::Preferred,
            ..base
        },
        Resident {
            policy: MemoryPolicy::Bind,
            ..base
        },
        Resident {
            nodes: 0b11,
            ..base
        },
        Resident { nodes: 0, ..base },
        Resident {
            stuck: false,
            ..base
        },
        Resident {
            pages: WORTH_PAGES - 1,
            ..base
        },
        Resident {
            shares: &[250, 750],
            ..base
        },
    ];
    for process in others {
        let mut follow = Follow::new(8192, 0);
        for second in 0..20 {
            assert_eq!(tick(&mut follow, second * 1000, process), [], "{process:?}");
        }
    }
}

#[test]
fn another_node_starts_the_time_again() {
    let mut follow = Follow::new(8192, 0);
    let process = stuck(&[400, 100, 500], 0);
    tick(
        &mut follow,
        0,
        Resident {
            nodes: 0b1,
            ..process
        },
    );
    tick(&mut follow, 4_000, process);
    assert_eq!(tick(&mut follow, 7_124, process), []);
    assert_eq!(tick(&mut follow, 7_125, process).len(), 1);
    // Gone elsewhere in the middle of it: the run is over.
    follow.brought(7, 9_100, all_moved(1024));
    assert_eq!(
        tick(
            &mut follow,
            9_200,
            Resident {
                nodes: 0b1,
                ..process
            }
        ),
        []
    );
    assert_eq!(tick(&mut follow, 9_300, process), []);
}

/// Up to the end of the first stage, 3200 pages: the time of the look that is asked for.
fn first_stage(follow: &mut Follow, scores: &[u16]) -> u64 {
    tick(follow, 0, stuck(scores, 0));
    let mut now_ms = 5_000;
    // One batch, twice as much as has moved, and the rest.
    for pages in [1024, 2048, 1024] {
        assert_eq!(tick(follow, now_ms, stuck(scores, 0)), [bring(pages)]);
        follow.brought(7, now_ms + 50, all_moved(pages));
        now_ms += 200;
    }
    let look = [Wish::Look { tgid: 7 }];
    assert_eq!(tick(follow, now_ms, stuck(scores, 0)), look);
    now_ms
}

#[test]
fn it_goes_on_as_long_as_it_helps() {
    let mut follow = Follow::new(8192, 0);
    let now_ms = first_stage(&mut follow, &[900, 100]);
    // It waits for the look, and asks for it again when none comes.
    assert_eq!(tick(&mut follow, now_ms + 9_999, stuck(&[900, 100], 0)), []);
    let look = [Wish::Look { tgid: 7 }];
    assert_eq!(
        tick(&mut follow, now_ms + 10_000, stuck(&[900, 100], 0)),
        look
    );
    // 4096 of 25600 pages are 160; a quarter of that is 40. Now as many again may be ordered, and at once.
    let mut now_ms = now_ms + 10_100;
    let mut local = 140;
    for pages in [4096, 8192] {
        let shares = [1000 - local, local];
        let after = stuck(&shares, now_ms);
        assert_eq!(tick(&mut follow, now_ms, after), []);
        let mut left = pages;
        while left > 0 {
            now_ms += 1_000;
            let batch = batch_of(tick(&mut follow, now_ms, after));
            assert!(batch <= left, "{batch} of {left}");
            follow.brought(7, now_ms, all_moved(batch));
            left -= batch;
        }
        now_ms += 100;
        assert_eq!(tick(&mut follow, now_ms, after), [Wish::Look { tgid: 7 }]);
        local += pages as u16 / 100;
    }
}

/// Whatever look was ordered after the last order counts, be it the one that was asked for or not: that one is not ordered
/// while another is under way.
#[test]
fn any_look_after_the_last_order_counts() {
    let mut follow = Follow::new(8192, 0);
    let now_ms = first_stage(&mut follow, &[900, 100]);
    let ordered_ms = now_ms - 200;
    let before = stuck(&[860, 140], ordered_ms);
    assert_eq!(tick(&mut follow, now_ms + 100, before), []);
    let after = stuck(&[860, 140], ordered_ms + 1);
    assert_eq!(tick(&mut follow, now_ms + 200, after), []);
    assert_eq!(tick(&mut follow, now_ms + 300, after), [bring(4096)]);
}

#[test]
fn it_stops_when_it_does_not_help() {
    let mut follow = Follow::new(8192, 0);
    let now_ms = first_stage(&mut follow, &[900, 100]);
    let after = stuck(&[861, 139], now_ms + 100);
    assert_eq!(tick(&mut follow, now_ms + 200, after), []);
    for later in [300, REST_MS + 100] {
        assert_eq!(tick(&mut follow, now_ms + later, after), []);
    }
    assert_eq!(
        tick(&mut follow, now_ms + REST_MS + 200, after),
        [bring(1024)]
    );
}

#[test]
fn it_stops_when_most_is_refused() {
    let mut follow = Follow::new(8192, 0);
    let process = stuck(&[900, 100], 0);
    tick(&mut follow, 0, process);
    assert_eq!(tick(&mut follow, 5_000, process), [bring(1024)]);
    let refused = Batch {
        moved: 24,
        refused: 1000,
        finished: false,
    };
    follow.brought(7, 5_100, Some(refused));
    assert_eq!(tick(&mut follow, 5_200, process), []);
    assert_eq!(tick(&mut follow, 35_099, process), []);
    assert_eq!(tick(&mut follow, 35_100, process), [bring(1024)]);
}

#[test]
fn it_ends_when_memory_is_there() {
    let mut follow = Follow::new(8192, 0);
    let now_ms = first_stage(&mut follow, &[900, 100]);
    let after = stuck(&[100, 900], now_ms + 100);
    for second in 0..100 {
        assert_eq!(tick(&mut follow, now_ms + 200 + second * 1000, after), []);
    }
}

#[test]
fn who_has_most_to_win_comes_first() {
    let mut follow = Follow::new(8192, 0);
    let small = Resident {
        tgid: 1,
        pages: 10_000,
        ..stuck(&[900, 100], 0)
    };
    let large = Resident {
        tgid: 2,
        ..stuck(&[900, 100], 0)
    };
    let nearer = Resident {
        tgid: 3,
        pages: 26_000,
        ..stuck(&[600, 400], 0)
    };
    let mut wishes = Vec::new();
    for now_ms in [0, 5_000] {
        follow.tick(now_ms, &[small, large, nearer], &mut wishes);
    }
    assert_eq!(
        wishes,
        [Wish::Bring {
            tgid: 2,
            to: 1,
            pages: 1024,
            within: None,
        }]
    );
}

const PART: Extent = Extent {
    start: 5_000,
    end: 9_000,
    to: 1,
};

/// A process on both nodes, most of what its tasks touch is elsewhere.
fn spread(extent: Option<Extent>, sampled_ms: u64) -> Resident<'static> {
    Resident {
        nodes: 0b11,
        finding: Finding {
            extent,
            touched: 20,
            far: 15,
        },
        ..stuck(&[900, 100], sampled_ms)
    }
}

fn bring_part(pages: u32) -> Wish {
    Wish::Bring {
        tgid: 7,
        to: 1,
        pages,
        within: Some(PART),
    }
}

#[test]
fn on_several_nodes_it_is_looked_at_while_it_is_far() {
    let mut follow = Follow::new(8192, 0);
    let look = Wish::Look { tgid: 7 };
    assert_eq!(tick(&mut follow, 900, spread(None, 0)), []);
    assert_eq!(tick(&mut follow, 1_000, spread(None, 0)), [look]);
    assert_eq!(tick(&mut follow, 1_100, spread(None, 0)), []);
    assert_eq!(tick(&mut follow, 2_000, spread(None, 1_500)), []);
    assert_eq!(tick(&mut follow, 2_500, spread(None, 1_500)), [look]);
    let mut near = spread(None, 0);
    // 19 of 20 are near.
    near.finding.far = 1;
    assert_eq!(tick(&mut follow, 9_000, near), []);
    let mut few = spread(None, 0);
    (few.finding.touched, few.finding.far) = (7, 7);
    assert_eq!(tick(&mut follow, 9_000, few), []);
    let mut tenth = spread(None, 0);
    tenth.finding.far = 2;
    assert_eq!(tick(&mut follow, 9_000, tenth), [look]);
}

/// Memory that all threads use alike stays where it is, and half of it is elsewhere for good.
#[test]
fn looks_that_find_no_part_become_rare() {
    let mut follow = Follow::new(8192, 0);
    let mut looks = |seconds: std::ops::Range<u64>| {
        let looks = |at: u64| tick(&mut follow, at * 1000, spread(None, 0)).len();
        seconds.map(looks).sum::<usize>()
    };
    // 16 at every second, 16 at every other and so on; in the end one in 64 seconds.
    assert_eq!(looks(1..17), 16);
    assert_eq!(looks(17..49), 16);
    looks(49..2_000);
    assert_eq!(looks(2_000..8_400), 100);
    // A part was found and gone through: there may be more.
    tick(&mut follow, 9_000_000, spread(Some(PART), 9_000_000));
    let last = Batch {
        moved: 1000,
        finished: true,
        ..Batch::default()
    };
    tick(&mut follow, 9_000_100, spread(Some(PART), 9_000_000));
    follow.brought(7, 9_000_200, Some(last));
    let again = |at: u64| tick(&mut follow, at * 1000, spread(None, 0)).len();
    assert_eq!((9_100..9_110).map(again).sum::<usize>(), 10);
}

#[test]
fn a_part_is_brought_until_it_is_gone_through() {
    let mut follow = Follow::new(8192, 0);
    let process = |sampled_ms| spread(Some(PART), sampled_ms);
    assert_eq!(tick(&mut follow, 900, process(900)), [bring_part(1024)]);
    assert_eq!(follow.brought(7, 950, all_moved(1024)), None);
    // Another one would be larger now; this one is finished first.
    let mut larger = process(1_100);
    larger.finding.extent = Some(Extent {
        end: 90_000,
        ..PART
    });
    assert_eq!(tick(&mut follow, 1_200, larger), [bring_part(2048)]);
    let last = Batch {
        moved: 2000,
        refused: 24,
        finished: true,
    };
    assert_eq!(follow.brought(7, 1_150, Some(last)), Some(PART));
    assert_eq!(tick(&mut follow, 1_300, process(1_200)), [bring_part(1024)]);
}

#[test]
fn parts_that_do_not_come_are_given_up() {
    let mut follow = Follow::new(8192, 0);
    let refused = Batch {
        refused: 1024,
        ..Batch::default()
    };
    let (mut now_ms, mut orders) = (0, 0);
    while now_ms < 4_000_000 {
        now_ms += 1_000;
        let wishes = tick(&mut follow, now_ms, spread(Some(PART), now_ms));
        if wishes.contains(&bring_part(1024)) {
            orders += 1;
            assert_eq!(follow.brought(7, now_ms, Some(refused)), Some(PART));
        }
    }
    assert_eq!(orders, u32::from(MOST_ATTEMPTS));
}

#[test]
fn parts_of_placed_memory_stay() {
    let mut follow = Follow::new(8192, 0);
    for policy in [MemoryPolicy::Bind, MemoryPolicy::Interleave] {
        let process = Resident {
            policy,
            ..spread(Some(PART), 0)
        };
        assert_eq!(tick(&mut follow, 5_000, process), []);
    }
}
