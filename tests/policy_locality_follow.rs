// SPDX-License-Identifier: GPL-2.0-only
//! What holds of memory that follows its tasks, whatever processes do and whatever comes of the batches: the purse is
//! never overdrawn, nobody's placed memory is touched, and with constant evidence it ends.

use proptest::prelude::*;
use scx_ballast::machine::MachineBuilder;
use scx_ballast::policy::locality::evidence::Standing;
use scx_ballast::policy::locality::extents::Finding;
use scx_ballast::policy::locality::follow::{
    Batch, Follow, MOST_ATTEMPTS, MOST_BATCHES, Resident, Wish,
};
use scx_ballast::policy::locality::input::{MemoryPolicy, NodePages, Sample};
use scx_ballast::policy::locality::ledger::Ledger;
use scx_ballast::policy::locality::places::Places;
use scx_ballast::policy::observation::Shape;

const TICK_MS: u64 = 200;

#[derive(Debug, Clone)]
struct Process {
    standing: Standing,
    policy: MemoryPolicy,
    nodes: u64,
    stuck: bool,
    pages: u64,
    scores: Vec<u16>,
    /// Of each order so many permille are tried, and of those so many move; the rest is refused.
    tries: u32,
    moves: u32,
    /// It has no more after so many batches; then begins again.
    batches: u32,
}

fn process() -> impl Strategy<Value = Process> {
    use MemoryPolicy::{Bind, Cpuset, Free, Interleave, Preferred};
    use Standing::{Few, Known, Stale, Unknown, Unstable, Void};
    let standing = prop_oneof![
        6 => Just(Known),
        1 => prop::sample::select(vec![Unknown, Few, Stale, Unstable, Void])
    ];
    let policy = prop_oneof![
        4 => Just(Free),
        1 => prop::sample::select(vec![Bind, Interleave, Cpuset, Preferred])
    ];
    let nodes = prop_oneof![4 => (0u32..3).prop_map(|node| 1 << node), 1 => 0u64..8];
    let pages = prop_oneof![1u64..1_000_000, any::<u64>()];
    let scores = prop::collection::vec(0u16..=1000, 3);
    let came = (0u32..=1000, 0u32..=1000, 1u32..100);
    (
        standing,
        policy,
        nodes,
        prop::bool::weighted(0.9),
        pages,
        scores,
        came,
    )
        .prop_map(
            |(standing, policy, nodes, stuck, pages, scores, (tries, moves, batches))| Process {
                standing,
                policy,
                nodes,
                stuck,
                pages,
                scores,
                tries,
                moves,
                batches,
            },
        )
}

impl Process {
    fn at(&self, tgid: i32, sampled_ms: u64) -> Resident<'_> {
        Resident {
            tgid,
            standing: self.standing,
            policy: self.policy,
            sampled_ms,
            nodes: self.nodes,
            stuck: self.stuck,
            pages: self.pages,
            shares: &self.scores,
            finding: Finding::default(),
        }
    }

    fn comes(&self, pages: u32, nth: u32) -> Batch {
        let part = |of: u32, permille: u32| (u64::from(of) * u64::from(permille) / 1000) as u32;
        let tried = part(pages, self.tries);
        let moved = part(tried, self.moves);
        Batch {
            moved,
            refused: tried - moved,
            finished: nth % self.batches == self.batches - 1,
        }
    }
}

/// A world whose reports come one tick later, and whose looks are made at once.
struct World {
    follow: Follow,
    now_ms: u64,
    sampled_ms: Vec<u64>,
    given: Vec<u32>,
    due: Vec<(i32, u32)>,
    /// Pages that were tried, or of which it is not known.
    tried: u64,
}

impl World {
    fn new(rate: u64, processes: usize) -> Self {
        Self {
            follow: Follow::new(rate, 0),
            now_ms: 0,
            sampled_ms: vec![0; processes],
            given: vec![0; processes],
            due: Vec::new(),
            tried: 0,
        }
    }

    /// The orders that were asked for in this tick.
    fn tick(&mut self, processes: &[Process], lost: bool) -> Vec<(usize, u16, u32)> {
        self.now_ms += TICK_MS;
        for (tgid, pages) in std::mem::take(&mut self.due) {
            let process = &processes[tgid as usize];
            let given = &mut self.given[tgid as usize];
            let batch = process.comes(pages, *given);
            *given += 1;
            self.tried += match lost {
                true => u64::from(pages),
                false => u64::from(batch.moved + batch.refused),
            };
            self.follow
                .brought(tgid, self.now_ms, Some(batch).filter(|_| !lost));
        }
        let all: Vec<Resident<'_>> = (0..processes.len())
            .map(|i| processes[i].at(i as i32, self.sampled_ms[i]))
            .collect();
        let mut wishes = Vec::new();
        self.follow.tick(self.now_ms, &all, &mut wishes);
        let mut asked = Vec::new();
        for wish in wishes {
            match wish {
                Wish::Look { tgid } => self.sampled_ms[tgid as usize] = self.now_ms + 1,
                Wish::Bring {
                    tgid, to, pages, ..
                } => {
                    self.due.push((tgid, pages));
                    asked.push((tgid as usize, to, pages));
                }
            }
        }
        asked
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Processes change all the time. Never more is tried or under way than has come into the purse, at most one
    /// order is under way, and every order is one that may be, of not too many batches.
    #[test]
    fn the_budget_is_kept_and_placed_memory_is_never_touched(
        rate in prop_oneof![1u64..10_000, 1u64..10_000_000],
        ticks in prop::collection::vec((prop::collection::vec(process(), 3), 1usize..200, any::<bool>()), 1..6),
    ) {
        let mut world = World::new(rate, 3);
        for (processes, times, lost) in ticks {
            for _ in 0..times {
                let orders = world.tick(&processes, lost);
                prop_assert!(orders.len() <= 1);
                let mut under_way = 0;
                for (at, to, pages) in orders {
                    under_way += u64::from(pages);
                    prop_assert!(u64::from(pages) <= world.follow.batch() * MOST_BATCHES);
                    let process = &processes[at];
                    prop_assert_eq!(process.policy, MemoryPolicy::Free);
                    prop_assert!(process.standing != Standing::Void);
                    prop_assert_eq!(process.nodes, 1 << to);
                }
                let all = world.tried + under_way;
                prop_assert!(all * 1000 <= rate * world.now_ms, "{} of {}", all, rate);
            }
        }
    }

    /// Evidence that never changes: after a while nothing is asked for any more, whatever comes of the batches.
    #[test]
    fn it_ends_with_constant_evidence(
        processes in prop::collection::vec(process(), 3),
        rate in 10_000u64..1_000_000,
    ) {
        let mut processes = processes;
        processes.iter_mut().for_each(|process| process.pages %= 100_000);
        // Who tries nothing never ends: whoever carries orders out always gets on.
        processes.iter_mut().for_each(|process| process.tries = process.tries.max(500));
        let mut world = World::new(rate, 3);
        let rests: u64 = (0..MOST_ATTEMPTS).map(|attempt| 30_000 << attempt).sum();
        // The rests of all attempts, and for each stage of each process the time that its batches take.
        let runs = 3 * u64::from(MOST_ATTEMPTS) * (100_000 / 8 / 512 + 10) * 3 * TICK_MS;
        while world.now_ms < 6_000 + rests + runs + 60_000 {
            world.tick(&processes, false);
        }
        for _ in 0..3_000 {
            let batches = world.tick(&processes, false);
            prop_assert_eq!(batches, vec![]);
        }
    }
}

/// Memory next door is near, and all the same not where its tasks are: it can be brought.
#[test]
fn only_local_memory_counts_as_local() {
    let machine = MachineBuilder::uniform(3, 1, 4, 1)
        .build()
        .expect("a machine");
    let line = Places::by_distance(3, 3, |a, b| 10 + 10 * a.abs_diff(b) as u32);
    let mut ledger = Ledger::new(line, Shape::of(&machine));
    let mut shares = vec![7];
    assert!(!ledger.local_shares(20, &mut shares));
    let page = |private| NodePages { private, shared: 0 };
    ledger.sampled(
        20,
        &Sample {
            at_ms: 0,
            asked: 200,
            pages: [0, 150, 50].map(page).to_vec(),
        },
    );
    assert!(ledger.local_shares(20, &mut shares));
    assert_eq!(shares, [7, 0, 750, 250]);
}
