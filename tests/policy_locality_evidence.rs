// SPDX-License-Identifier: GPL-2.0-only
//! What holds of evidence, scores, preferences and sampling whatever is fed.

use proptest::prelude::*;
use scx_ballast::machine::MachineBuilder;
use scx_ballast::policy::locality::areas::{Area, HOT_MS, allot, order};
use scx_ballast::policy::locality::evidence::{Evidence, FirstTouch, NodePages, Sample, Standing};
use scx_ballast::policy::locality::ledger::Ledger;
use scx_ballast::policy::locality::places::Places;
use scx_ballast::policy::locality::preference::{Asked, DWELL_MS, MARGIN, Preference, choose};
use scx_ballast::policy::locality::sampling::{
    Budget, Due, MAX_PERIOD_MS, MIN_PERIOD_MS, PURSE_S, Schedule, next_period,
};
use scx_ballast::policy::locality::score;
use scx_ballast::policy::locality::view::View;
use scx_ballast::policy::observation::{NodeObs, Observation, Shape, TaskObs};

fn pages(nodes: usize) -> impl Strategy<Value = Vec<NodePages>> {
    let count = || prop_oneof![4 => 0u32..300, 1 => any::<u32>()];
    let on = (count(), count()).prop_map(|(private, shared)| NodePages { private, shared });
    prop::collection::vec(on, nodes)
}

fn rows(nodes: usize) -> Vec<Vec<u8>> {
    let row = |n: usize| (0..nodes).map(|i| ((n + i) % nodes) as u8).collect();
    (0..nodes).map(row).collect()
}

fn standings() -> impl Strategy<Value = Standing> {
    use Standing::*;
    prop::sample::select(vec![Unknown, FirstTouch, Few, Stale, Unstable, Void, Known])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// No page counts twice: a node's score is at most 1000, and where all other nodes are equally far
    /// the scores of all nodes are at most 1000 together.
    #[test]
    fn scores_count_every_page_once(
        samples in prop::collection::vec(pages(6), 1..5),
        distances in prop::collection::vec(11u32..=255, 36),
    ) {
        let mut evidence = Evidence::new(6);
        for (i, pages) in samples.iter().enumerate() {
            evidence.add_sample(&Sample { at_ms: i as u64, asked: 10, pages: pages.clone() });
        }
        let far = Places::by_distance(6, 6, |a, b| if a == b { 10 } else { distances[a * 6 + b] });
        let direct = Places::by_distance(6, 6, |a, b| if a == b { 10 } else { 20 });
        let mut scores = [0; 6];
        for places in [&far, &direct] {
            score::alone(places, &evidence, &mut scores);
            prop_assert!(scores.iter().all(|&score| score <= 1000), "{scores:?}");
            score::together(places, [&evidence, &evidence].into_iter(), &mut scores);
            prop_assert!(scores.iter().all(|&score| score <= 1000), "{scores:?}");
        }
        prop_assert!(scores.iter().map(|&score| u32::from(score)).sum::<u32>() <= 1000);
    }

    /// Without memory on it and farthest from all that has some, a node's score is 0; with all of the
    /// memory it is 1000.
    #[test]
    fn the_extremes_are_the_extremes(nodes in 2usize..=64, home in any::<prop::sample::Index>()) {
        let home = home.index(nodes);
        let mut evidence = Evidence::new(nodes);
        let mut all = vec![NodePages::default(); nodes];
        all[home].private = 100;
        evidence.add_sample(&Sample { at_ms: 0, asked: 100, pages: all });
        let places = Places::of(&MachineBuilder::uniform(nodes as u32, 1, 1, 1).build().unwrap());
        let mut scores = vec![0; nodes];
        score::alone(&places, &evidence, &mut scores);
        for (node, &score) in scores.iter().enumerate() {
            prop_assert_eq!(score, if node == home { 1000 } else { 0 });
        }
    }

    /// Known needs a sample, whatever faults there were, and a second opinion.
    #[test]
    fn faults_alone_are_never_known(
        faults in prop::collection::vec(prop::collection::vec(any::<u32>(), 4), 0..20),
        now in any::<u64>(),
    ) {
        let mut evidence = Evidence::new(4);
        for (i, faults) in faults.into_iter().enumerate() {
            evidence.add_first_touch(&FirstTouch { at_ms: i as u64 * 100, faults });
        }
        let standing = evidence.standing(now, u64::MAX);
        prop_assert!(matches!(standing, Standing::Unknown | Standing::FirstTouch), "{standing:?}");
    }

    /// Once chosen, a preference does not change for differences below the margin, nor before its time;
    /// asked again with the same scores it never changes. It holds the tasks whenever the machine does.
    #[test]
    fn preferences_have_hysteresis(
        weight in prop::collection::vec(1u32..=16, 1..=8),
        scores in prop::collection::vec(0u16..=1000, 8),
        noise in prop::collection::vec(prop::collection::vec(-29i32..=29, 8), 1..20),
        other in prop::collection::vec(0u16..=1000, 8),
        tasks in 1u32..=80,
        earlier in 1u32..=80,
    ) {
        let nodes = weight.len();
        let order = rows(nodes);
        let ask_for = |tasks, previous, scores: &[u16], now_ms| {
            choose(previous, &Asked { scores, weight: &weight, order: &order, tasks, now_ms })
        };
        let ask = |previous, scores: &[u16], now_ms| ask_for(tasks, previous, scores, now_ms);
        let cpus: u32 = weight.iter().sum();
        let holds = |one: Preference| {
            let nodes = (0..nodes).filter(|n| one.nodes >> n & 1 == 1);
            nodes.map(|n| weight[n]).sum::<u32>() >= tasks.min(cpus)
        };
        // A group that was smaller or larger before.
        let before = ask_for(earlier, Preference::default(), &scores[..nodes], 0);
        let grown = ask(before, &scores[..nodes], 1);
        prop_assert!(grown.nodes == 0 || holds(grown), "{before:?} {grown:?}");
        let first = ask(Preference::default(), &scores[..nodes], 0);
        prop_assume!(first.nodes != 0);
        prop_assert!(holds(first), "{first:?}");
        prop_assert_eq!(ask(first, &scores[..nodes], 1_000_000), first);
        if first.nodes.count_ones() == 1 {
            let mut now = first;
            for noise in &noise {
                let moved = |(score, noise): (&u16, &i32)| (i32::from(*score) + noise).max(0) as u16;
                let noisy: Vec<u16> = scores[..nodes].iter().zip(noise).map(moved).collect();
                now = ask(now, &noisy, 1_000_000);
            }
            prop_assert_eq!(now.nodes, first.nodes, "margin {}", MARGIN);
        }
        let early = ask(first, &other[..nodes], DWELL_MS - 1);
        prop_assert!(early.nodes.count_ones() != first.nodes.count_ones() || early == first);
        // Whatever comes next, it settles, in two steps at most: a larger set may have to come first,
        // with a node in it from which a smaller one begins.
        let later = |from, times| ask(from, &other[..nodes], times * DWELL_MS);
        let settled = later(later(first, 1), 2);
        prop_assert_eq!(later(settled, 3), settled);
    }

    /// The period keeps its bounds; while nothing changes it reaches the longest, and while everything
    /// does the shortest, in 8 steps (250 ms * 2^8 = 64 s).
    #[test]
    fn periods_keep_their_bounds(
        start in any::<u32>(),
        seen in prop::collection::vec((standings(), prop::option::of(0u16..=1000)), 0..30),
    ) {
        let mut period = start;
        for (standing, drift) in seen {
            period = next_period(period, standing, drift);
            prop_assert!((MIN_PERIOD_MS..=MAX_PERIOD_MS).contains(&period));
        }
        let after = |standing, drift| (0..8).fold(period, |ms, _| next_period(ms, standing, Some(drift)));
        if (MIN_PERIOD_MS..=MAX_PERIOD_MS).contains(&period) {
            prop_assert_eq!(after(Standing::Known, 0), MAX_PERIOD_MS);
            prop_assert_eq!(after(Standing::Unstable, 1000), MIN_PERIOD_MS);
        }
    }

    /// Over any time no more CPU time is spent than came in, the first purse, and one sample.
    #[test]
    fn the_budget_is_kept(
        per_s_us in 0u32..10_000,
        costs in prop::collection::vec(1u32..50_000, 1..10),
        steps in prop::collection::vec(0u64..2_000, 1..60),
    ) {
        let mut budget = Budget::new(per_s_us, 0);
        let (mut now, mut spent, mut chosen) = (0_u64, 0_u64, Vec::new());
        let schedule = Schedule { period_ms: 250, next_ms: 0 };
        for step in steps {
            now += step;
            let due = |(i, &cost_us): (usize, &u32)| Due {
                tgid: i as i32, schedule, standing: Standing::Few, busy: 0, cost_us,
            };
            let mut due: Vec<Due> = costs.iter().enumerate().map(due).collect();
            budget.take(&mut due, now, &mut chosen);
            spent += chosen.iter().map(|&tgid| u64::from(costs[tgid as usize])).sum::<u64>();
            let income = u64::from(per_s_us) * (now + 1000 * u64::from(PURSE_S)) / 1000;
            prop_assert!(spent <= income + u64::from(*costs.iter().max().unwrap()));
        }
    }

    /// R7: hot areas before cold ones, the same order from any order, and every address that there are
    /// pages for is allotted, most to the hot ones.
    #[test]
    fn hot_areas_come_first(
        areas in prop::collection::vec((1u64..1000, prop::option::of(0u64..100_000), prop::option::of(0u64..100_000)), 0..20),
        addresses in 0u32..2000,
        turn in any::<prop::sample::Index>(),
    ) {
        let now_ms = 100_000;
        let area = |(i, &(pages, touched_ms, sampled_ms)): (usize, &_)| {
            Area { start: i as u64, pages, touched_ms, sampled_ms }
        };
        let mut ordered: Vec<Area> = areas.iter().enumerate().map(area).collect();
        let mut turned = ordered.clone();
        if !turned.is_empty() {
            let at = turn.index(turned.len());
            turned.rotate_left(at);
        }
        order(&mut ordered, now_ms);
        order(&mut turned, now_ms);
        prop_assert_eq!(&ordered, &turned);
        let is_hot = |area: &Area| area.touched_ms.is_some_and(|at| now_ms - at <= HOT_MS);
        prop_assert!(ordered.windows(2).all(|two| is_hot(&two[0]) || !is_hot(&two[1])));
        let allotted = allot(&ordered, addresses, now_ms);
        let all: u64 = ordered.iter().map(|area| area.pages).sum();
        let sum: u64 = allotted.iter().map(|&n| u64::from(n)).sum();
        prop_assert_eq!(sum, all.min(addresses.into()));
        let (hot, hot_pages): (u64, u64) = ordered.iter().zip(&allotted).filter(|(area, _)| is_hot(area))
            .fold((0, 0), |sum, (area, &n)| (sum.0 + u64::from(n), sum.1 + area.pages));
        // Rounding may leave one address less per area.
        prop_assert!(hot + 20 >= hot_pages.min(u64::from(addresses) * 3 / 4), "{hot} of {sum}");
        for (area, &n) in ordered.iter().zip(&allotted) {
            prop_assert!(u64::from(n) <= area.pages);
        }
    }
}

/// A process with two threads on 2x8, seen by the ledger alone.
fn view_of(ledger: &mut Ledger, now_ms: u64) -> View {
    let task = |slot| TaskObs {
        slot,
        seq: 2,
        pid: slot as i32,
        tgid: 7,
        llc: 0,
        busy: 500,
        weight: 100,
        nodes: 3,
        moved_ms: u32::MAX,
    };
    let obs = Observation {
        nodes: vec![NodeObs::default(); 2],
        llcs: vec![0; 2],
        tasks: vec![task(1), task(2)],
        ..Observation::default()
    };
    let mut view = View::default();
    ledger.view(&obs, now_ms, &mut view);
    view
}

fn sample(at_ms: u64, pages: [u32; 2]) -> Sample {
    let on = |private| NodePages { private, shared: 0 };
    Sample {
        at_ms,
        asked: 100,
        pages: pages.map(on).to_vec(),
    }
}

#[test]
fn the_ledger_climbs_the_ladder() {
    let machine = MachineBuilder::uniform(2, 1, 8, 1).build().unwrap();
    let mut ledger = Ledger::new(Places::of(&machine), Shape::of(&machine));
    let standing = |view: &View| view.tasks[0].standing;
    assert_eq!(standing(&view_of(&mut ledger, 0)), Standing::Unknown);
    assert_eq!(ledger.due(7, 0, 500, 100).schedule, Schedule::fresh());

    // First touch: there is something to order by, and nothing to go to.
    ledger.touched(
        7,
        (1, 2),
        &FirstTouch {
            at_ms: 0,
            faults: vec![10, 90],
        },
    );
    let view = view_of(&mut ledger, 0);
    assert_eq!(standing(&view), Standing::FirstTouch);
    assert_eq!(
        (view.tasks[0].nodes, view.gain(&view.tasks[0], 0, 1)),
        (0, Some(800))
    );
    assert_eq!(ledger.nodes_of(7, 0), 0);

    // One sample that agrees is enough, for both threads, and the next new one.
    ledger.sampled(7, &sample(100, [20, 80]));
    let view = view_of(&mut ledger, 100);
    assert_eq!(standing(&view), Standing::Known);
    assert_eq!(
        view.tasks.iter().map(|task| task.nodes).collect::<Vec<_>>(),
        [2, 2]
    );
    assert_eq!(ledger.nodes_of(7, 100), 2);
    assert_eq!(ledger.due(7, 100, 0, 0).schedule.next_ms, 350);

    // 2 * 250 ms + 1 s later it is too old to go by; the preference is kept for the next sample.
    assert_eq!(ledger.nodes_of(7, 1_601), 0);
    assert_eq!(standing(&view_of(&mut ledger, 1_601)), Standing::Stale);
    ledger.sampled(7, &sample(1_700, [20, 80]));
    assert_eq!(ledger.nodes_of(7, 1_700), 2);
    // The second sample agrees: from 250 to 500 ms.
    assert_eq!(ledger.due(7, 1_700, 0, 0).schedule.next_ms, 2_200);

    // Gone, and its number is somebody else's (R5).
    ledger.retain(|_| false, |_| false);
    assert_eq!(ledger.nodes_of(7, 1_700), 0);
    assert_eq!(standing(&view_of(&mut ledger, 1_700)), Standing::Unknown);
}
