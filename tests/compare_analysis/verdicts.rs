// SPDX-License-Identifier: GPL-2.0-only
//! When a difference counts: blocks, zeros, noise, secondary metrics.

use scx_ballast::compare::analysis::{Analysis, Verdict};
use scx_ballast::compare::record::Better;

use crate::made::{Made, analysed, comparison, effect, made, metric, plan, run, verdict, warned};

#[test]
fn too_few_blocks_are_refused_whatever_the_values() {
    let of = |blocks, arms| {
        let mut factors = vec![2.0; arms];
        factors[0] = 1.0;
        let found = analysed(&[comparison(&Made {
            blocks,
            factors,
            ..made(1)
        })]);
        (verdict(&found, 1), warned(&found, "too few blocks"))
    };
    assert_eq!(of(5, 2), (Verdict::TooFew, true));
    assert_eq!(of(6, 2), (Verdict::Worse, false));
    // Two questions need 7.
    assert_eq!(of(6, 3), (Verdict::TooFew, true));
    assert_eq!(of(7, 3), (Verdict::Worse, false));
    // A copy of the base asks nothing about an arm.
    let twin = Made {
        blocks: 6,
        factors: vec![1.0, 2.0, 1.0],
        twin: true,
        ..made(1)
    };
    let found = analysed(&[comparison(&twin)]);
    assert_eq!(verdict(&found, 1), Verdict::Worse);
    assert_eq!(verdict(&found, 2), Verdict::Undecided);
}

#[test]
fn zeros_are_compared_by_difference() {
    let mut records = comparison(&made(1));
    let shares = metric("tolerated", Better::Higher, true);
    plan(&mut records).benchmarks[0].metrics = vec![shares];
    records.truncate(1);
    for block in 0..12 {
        records.push(run(block, 0, 0, &[("tolerated", 0.0)]));
        let share = 0.75 + f64::from(block % 2) / 4.0;
        records.push(run(block, 1, 0, &[("tolerated", share)]));
    }
    let found = analysed(&[records]);
    let arm = found.rows[0].arms[1].as_ref().unwrap();
    assert_eq!(arm.effect, None);
    let difference = arm.difference.as_ref().unwrap();
    assert_eq!((difference.median, difference.pairs), (0.875, 12));
    assert_eq!(difference.verdict, Verdict::Better);
    let (low, high) = difference.interval.unwrap();
    assert!((0.75..0.875).contains(&low) && (0.876..=1.0).contains(&high));
    assert_eq!(arm.mean, 0.875);
    assert!(found.suites.is_empty());
    assert!(warned(&found, "by difference") && warned(&found, "no harmonic mean"));
    // All of it survives being written down.
    let text = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<Analysis>(&text).unwrap(), found);
}

#[test]
fn noise_of_an_aa_arm_takes_a_verdict_back() {
    // The slow-down of 20 % is beyond doubt, until a copy of the base turns out to be 20 % slower, too.
    let factors = vec![1.0, 1.2, 1.2];
    let of = |twin| {
        analysed(&[comparison(&Made {
            factors: factors.clone(),
            twin,
            ..made(3)
        })])
    };
    assert_eq!(verdict(&of(false), 1), Verdict::Worse);
    let found = of(true);
    assert_eq!(verdict(&found, 1), Verdict::Undecided);
    assert_eq!(verdict(&found, 2), Verdict::Worse);
    assert!(warned(&found, "differs from its original"));
    let noise = effect(&found).noise;
    assert!((noise.unwrap() - 1.2).abs() < 0.05);
    assert!(warned(&of(false), "no A/A arm") && !warned(&found, "no A/A arm"));
}

#[test]
fn secondary_metrics_get_no_verdict() {
    let mut records = comparison(&made(4));
    plan(&mut records).benchmarks[0].metrics[0].primary = false;
    let found = analysed(&[records]);
    let effect = effect(&found).clone();
    assert_eq!((effect.verdict, effect.p_holm), (Verdict::Undecided, None));
    assert!(effect.p.unwrap() < 0.001 && effect.interval.unwrap().0 > 1.1);
    assert!(warned(&found, "no metric is primary"));
}

#[test]
fn one_is_no_plural() {
    let found = analysed(&[comparison(&Made {
        blocks: 5,
        ..made(1)
    })]);
    assert!(
        warned(&found, "for 1 primary metric x 1 arm"),
        "{:?}",
        found.warnings
    );
}
