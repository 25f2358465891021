// SPDX-License-Identifier: GPL-2.0-only
//! Workloads that sleep for long: the time costs nothing, and what comes after it is as it would be.

mod simulated;

use scx_ballast::policy::record::Record;
use scx_ballast::sim::program::{Mark, Op, Plan};
use simulated::{MS, run_plan};

/// Balancing interval, in ns.
const INTERVAL: u64 = 100 * MS;

/// Children that sleep for so long, and then work where they were confined to meanwhile.
fn sleepers(children: usize, asleep_ns: u64) -> Plan {
    let mut plan = Plan {
        sets: vec![(0..8).collect()],
        ..Plan::default()
    };
    let child = plan.program(vec![
        Op::Confine(Some(0)),
        Op::Compute(10 * MS),
        Op::Sleep(asleep_ns),
        Op::Mark(Mark::First),
        Op::Confine(None),
        Op::Compute(1000 * MS),
    ]);
    plan.root = plan.parent(vec![child; children], MS);
    plan
}

/// The longest that `--limit-s` allows, as a few thousand events.
#[test]
fn sleep_takes_no_time() {
    let asleep = 1_000_000_000 * MS - 10_000 * MS;
    let (long, _) = run_plan(&sleepers(6, asleep), 1_000_000_000 * MS).unwrap();
    let (short, _) = run_plan(&sleepers(6, 100_000 * MS), 1_000_000_000 * MS).unwrap();
    assert!(long.events < 2 * short.events, "{} events", long.events);
    for (run, asleep) in [(&long, asleep), (&short, 100_000 * MS)] {
        assert!(run.wall_ns > asleep && run.wall_ns < asleep + 10_000 * MS);
        // Every interval has its tick, the first at a random moment of it.
        let ticks = run.wall_ns / INTERVAL;
        assert!(
            (ticks..=ticks + 1).contains(&run.ticks),
            "{} ticks",
            run.ticks
        );
        // Spans are of one length, and all but the last are there.
        let spans = &run.occupancy;
        let (length, left) = (spans.nodes[0].len() as u64, run.wall_ns / spans.span_ns);
        assert_eq!(length, left);
    }
}

/// The balancer is as regular after a long sleep as before it, and sees the same.
#[test]
fn ticks_after_a_long_sleep_are_as_before() {
    let ticks = |asleep_ms: u64| {
        let (run, records) = run_plan(&sleepers(6, asleep_ms * MS), u64::MAX).unwrap();
        let late = |record: &Record| match record {
            Record::Tick(tick) if tick.observation.at > asleep_ms * MS => {
                Some(tick.observation.clone())
            }
            _ => None,
        };
        (run, records.iter().filter_map(late).collect::<Vec<_>>())
    };
    // Everything is left out from some ten seconds on.
    let ((short, before), (long, after)) = (ticks(9_000), ticks(900_000));
    assert!(!before.is_empty() && before.len() == after.len());
    for (one, other) in before.iter().zip(&after) {
        assert_eq!(other.at - one.at, 891_000 * MS, "off the grid");
        assert_eq!((&one.nodes, &one.llcs), (&other.nodes, &other.llcs));
    }
    assert_eq!(short.last, long.last);
    assert_eq!(short.moves.excess, long.moves.excess);
    assert!(short.moves.excess > 0, "nothing was moved");
}
