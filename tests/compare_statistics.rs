// SPDX-License-Identifier: GPL-2.0-only
//! What the statistics of `compare` promise, on thousands of comparisons whose truth is known.
//!
//! SCX_BALLAST_COMPARISONS sets how many comparisons each question takes (default 300); with 10000 the
//! tables of docs/statistics.md come out (`cargo test --release --test compare_statistics -- --nocapture`).
//! Everything is decided by seeds: a failure comes again.

#[path = "compare/synthetic.rs"]
mod synthetic;

use std::thread;

use scx_ballast::compare::analysis::{
    Analysis, Effect, SIGNIFICANT, Settings, Verdict, analyse, analyse_with,
};
use synthetic::{Made, SHAPES, Shape, comparison};

/// Enough for a share of verdicts or of intervals: their ends are off now and then, to either side.
const RESAMPLES: usize = 400;

fn comparisons() -> u64 {
    let wanted = std::env::var("SCX_BALLAST_COMPARISONS");
    wanted.map_or(300, |text| {
        text.parse().expect("SCX_BALLAST_COMPARISONS is a number")
    })
}

/// In what share of `count` comparisons each of two things holds, two threads at work.
fn shares(count: u64, made: &Made, holds: impl Fn(&Analysis) -> [bool; 2] + Sync) -> [f64; 2] {
    let part = |first: u64| {
        let mut found = [0; 2];
        for index in (first..count).step_by(2) {
            let seed = made.seed + index;
            let records = comparison(&Made {
                seed,
                ..made.clone()
            });
            let settings = Settings {
                resamples: RESAMPLES,
            };
            let analysis = analyse_with(&[records], settings).expect("a sound results file");
            let held = holds(&analysis).map(u64::from);
            found = [found[0] + held[0], found[1] + held[1]];
        }
        found
    };
    let [a, b] = thread::scope(|scope| {
        let other = scope.spawn(|| part(1));
        [part(0), other.join().expect("no comparison panics")]
    });
    [a[0] + b[0], a[1] + b[1]].map(|held: u64| held as f64 / count as f64)
}

/// Four standard deviations of a share `p` of `count` comparisons.
fn margin(p: f64, count: u64) -> f64 {
    4.0 * (p * (1.0 - p) / count as f64).sqrt()
}

fn effects(analysis: &Analysis, arm: usize) -> impl Iterator<Item = &Effect> {
    let arms = analysis.rows.iter().map(move |row| row.arms[arm].as_ref());
    arms.map(|arm| {
        arm.expect("the arm ran")
            .effect
            .as_ref()
            .expect("and was compared")
    })
}

fn decided(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Better | Verdict::Worse)
}

#[test]
fn without_an_effect_verdicts_are_rare() {
    for (shape, seed) in SHAPES.into_iter().zip(1..) {
        for twin in [false, true] {
            let made = Made {
                seed: seed * 1_000_000,
                blocks: 12,
                benchmarks: 2,
                shape,
                cv: 0.1,
                factors: vec![1.0; if twin { 4 } else { 3 }],
                twin,
            };
            let total = comparisons();
            let [wrong, alarms] = shares(total, &made, |analysis| {
                let any = |arm| effects(analysis, arm).any(|e| decided(e.verdict));
                [any(1) || any(2), twin && any(3)]
            });
            println!("{shape:?}, A/A {twin}: wrong {wrong:.4}, A/A alarms {alarms:.4} of {total}");
            let bound = SIGNIFICANT + margin(SIGNIFICANT, total);
            assert!(wrong <= bound && alarms <= bound, "{shape:?} {twin}");
        }
    }
}

#[test]
fn corrected_p_alone_holds_the_error_too() {
    // Verdicts ask for more than p; the correction has to hold by itself, and not by asking nothing.
    let made = Made {
        seed: 50_000_000,
        blocks: 10,
        benchmarks: 3,
        shape: Shape::Normal,
        cv: 0.1,
        factors: vec![1.0; 3],
        twin: false,
    };
    let total = comparisons() * 2;
    let low = |p: Option<f64>| p.is_some_and(|p| p <= SIGNIFICANT);
    let [holm, raw] = shares(total, &made, |analysis| {
        let both = || (1..3).flat_map(|arm| effects(analysis, arm));
        [both().any(|e| low(e.p_holm)), both().any(|e| low(e.p))]
    });
    println!("any of 6: corrected {holm:.4}, uncorrected {raw:.4} of {total}");
    assert!(holm <= SIGNIFICANT + margin(SIGNIFICANT, total), "{holm}");
    assert!(holm >= 0.01, "{holm}: the test is not that careful");
    assert!(raw >= 0.15, "{raw}: six tests at 5 % are wrong more often");
}

#[test]
fn intervals_contain_the_truth() {
    for (shape, seed) in SHAPES.into_iter().zip(100..) {
        for blocks in [6, 8, 12, 16] {
            let made = Made {
                seed: seed * 1_000_000,
                blocks,
                benchmarks: 1,
                shape,
                cv: 0.1,
                factors: vec![1.0, 1.2],
                twin: false,
            };
            let total = comparisons();
            let [share, found] = shares(total, &made, |analysis| {
                let effect = effects(analysis, 1).next().expect("there is a row");
                let (low, high) = effect.interval.expect("there are enough pairs");
                [low <= 1.2 && 1.2 <= high, decided(effect.verdict)]
            });
            println!(
                "{shape:?}, {blocks} blocks: {share:.4} of {total} contain the truth, {found:.3} decided"
            );
            let promised = if blocks < 8 { 0.92 } else { 0.945 };
            let context = format!("{shape:?} {blocks}: {share}");
            assert!(share >= promised - margin(promised, total), "{context}");
            assert!(share <= 0.975 + margin(0.975, total), "{context}: too wide");
        }
    }
}

#[test]
fn effects_are_found() {
    // Noise of a run, effect, blocks; how often it is found at least, without and with an A/A arm.
    let cases = [
        (0.02, 1.05, 12, 0.90, 0.85),
        (0.05, 1.05, 12, 0.40, 0.25),
        (0.05, 1.10, 12, 0.90, 0.80),
        (0.10, 1.05, 12, 0.08, 0.02),
        (0.10, 1.10, 12, 0.40, 0.20),
        (0.10, 1.10, 16, 0.55, 0.30),
        (0.15, 1.05, 12, 0.03, 0.01),
        (0.15, 1.10, 12, 0.15, 0.06),
        (0.15, 1.10, 16, 0.25, 0.12),
    ];
    println!("noise effect blocks: found without and with A/A");
    for ((cv, effect, blocks, plain, with_twin), seed) in cases.into_iter().zip(200..) {
        for (twin, least) in [(false, plain), (true, with_twin)] {
            let mut factors = vec![1.0, effect];
            if twin {
                factors.push(1.0);
            }
            let made = Made {
                seed: seed * 1_000_000,
                blocks,
                benchmarks: 1,
                shape: Shape::Normal,
                cv,
                factors,
                twin,
            };
            let total = comparisons();
            let [worse, better] = shares(total, &made, |analysis| {
                let effect = effects(analysis, 1).next().expect("there is a row");
                [Verdict::Worse, Verdict::Better].map(|verdict| verdict == effect.verdict)
            });
            println!("{cv} {effect} {blocks} A/A {twin}: {worse:.3} of {total}");
            let context = format!("{cv} {effect} {blocks} {twin}: {worse}");
            assert!(worse >= least - margin(least, total), "{context}");
            assert!(better <= 0.025, "{context}: {better} the wrong way");
        }
    }
}

#[test]
fn a_planted_slow_down_is_worse_and_a_copy_is_undecided() {
    let made = Made {
        seed: 42,
        blocks: 12,
        benchmarks: 3,
        shape: Shape::Drift,
        cv: 0.05,
        factors: vec![1.0, 1.25, 0.8, 1.0],
        twin: true,
    };
    let analysis = analyse(&[comparison(&made)]).unwrap();
    assert!(effects(&analysis, 1).all(|effect| effect.verdict == Verdict::Worse));
    assert!(effects(&analysis, 2).all(|effect| effect.verdict == Verdict::Better));
    assert!(effects(&analysis, 3).all(|effect| effect.verdict == Verdict::Undecided));
    assert!(effects(&analysis, 1).all(|effect| effect.change < -15.0));
    let again = analyse(&[comparison(&made)]).unwrap();
    let text = |analysis| serde_json::to_string(analysis).unwrap();
    assert_eq!(
        text(&analysis),
        text(&again),
        "not the same to the last bit"
    );
    assert_eq!(analysis.warnings, Vec::<String>::new());
}

#[test]
fn machines_contradict_each_other_only_when_they_do() {
    // Two machines, one arm, one primary metric, noise of 5 %; by the arm's factor on each machine.
    let total = comparisons();
    let shares = |factors: [f64; 2]| {
        let mut found = [0_u64; 3];
        for index in 0..total {
            let files = [0, 1].map(|machine| {
                comparison(&Made {
                    seed: 90_000_000 + 100_000_000 * machine as u64 + index,
                    blocks: 12,
                    benchmarks: 1,
                    shape: Shape::Normal,
                    cv: 0.05,
                    factors: vec![1.0, factors[machine]],
                    twin: false,
                })
            });
            let settings = Settings {
                resamples: RESAMPLES,
            };
            let analysis = analyse_with(&files, settings).expect("sound results files");
            let effect = effects(&analysis, 1).next().expect("one row");
            let (low, high) = effect.interval.expect("enough pairs");
            let within = (low..=high).contains(&(factors[0] * factors[1]).sqrt());
            let held = [effect.machines_differ, within, decided(effect.verdict)];
            for (sum, held) in found.iter_mut().zip(held) {
                *sum += u64::from(held);
            }
        }
        let found = found.map(|held| held as f64 / total as f64);
        println!("{factors:?}: contradict, contains the centre, decided: {found:?} of {total}");
        found
    };
    let [contradict, within, decided] = shares([1.0, 1.0]);
    assert!(contradict <= 0.01 + margin(0.01, total), "{contradict}");
    assert!(within >= 0.95 - margin(0.05, total), "{within}");
    assert!(
        decided <= SIGNIFICANT + margin(SIGNIFICANT, total),
        "{decided}"
    );
    let [contradict, _, decided] = shares([1.1, 1.1]);
    assert!(contradict <= 0.01 && decided >= 0.95, "{decided}");
    let [contradict, within, decided] = shares([0.8, 1.25]);
    assert!(
        contradict >= 0.95 && within >= 0.95,
        "{contradict} {within}"
    );
    assert!(decided <= 0.01, "{decided}");
}
