// SPDX-License-Identifier: GPL-2.0-only
//! What the statistics of `compare` promise, on thousands of comparisons whose truth is known.
//!
//! SCX_BALLAST_COMPARISONS sets how many comparisons each question takes (default 400); with 10000 the
//! tables of docs/statistics.md come out (`cargo test --release --test compare_statistics -- --nocapture`).
//! Everything is decided by seeds: a failure comes again.

#[path = "compare/synthetic.rs"]
mod synthetic;

use std::thread;

use scx_ballast::compare::analysis::{
    Analysis, Effect, SIGNIFICANT, Settings, Verdict, analyse, analyse_with,
};
use synthetic::{Made, SHAPES, Shape, comparison};

/// Enough for a verdict; what is said of intervals is measured with these, too.
const RESAMPLES: usize = 600;

fn comparisons() -> u64 {
    let wanted = std::env::var("SCX_BALLAST_COMPARISONS");
    wanted.map_or(400, |text| {
        text.parse().expect("SCX_BALLAST_COMPARISONS is a number")
    })
}

/// In how many of `count` comparisons `holds`, two threads at work.
fn count(count: u64, made: &Made, holds: impl Fn(&Analysis) -> bool + Sync) -> u64 {
    let part = |first: u64| {
        (first..count)
            .step_by(2)
            .filter(|index| {
                let seed = made.seed + index;
                let records = comparison(&Made {
                    seed,
                    ..made.clone()
                });
                let settings = Settings {
                    resamples: RESAMPLES,
                };
                holds(&analyse_with(&[records], settings).expect("a sound results file"))
            })
            .count() as u64
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| part(1));
        part(0) + other.join().expect("no comparison panics")
    })
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
            let arms = if twin { 4 } else { 3 };
            let made = Made {
                seed: seed * 1_000_000,
                blocks: 12,
                benchmarks: 2,
                shape,
                cv: 0.1,
                factors: vec![1.0; arms],
                twin,
            };
            let total = comparisons();
            let mut wrong = [0; 2];
            wrong[0] = count(total, &made, |analysis| {
                (1..3).any(|arm| effects(analysis, arm).any(|e| decided(e.verdict)))
            });
            if twin {
                wrong[1] = count(total, &made, |analysis| {
                    effects(analysis, 3).any(|e| decided(e.verdict))
                });
            }
            let [wrong, alarms] = wrong.map(|wrong| wrong as f64 / total as f64);
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
    let share = |holds: &(dyn Fn(&Effect) -> bool + Sync)| {
        let any = |a: &Analysis| (1..3).any(|arm| effects(a, arm).any(holds));
        count(total, &made, any) as f64 / total as f64
    };
    let holm = share(&|effect| effect.p_holm.is_some_and(|p| p <= SIGNIFICANT));
    let raw = share(&|effect| effect.p.is_some_and(|p| p <= SIGNIFICANT));
    println!("any of 6: corrected {holm:.4}, uncorrected {raw:.4} of {total}");
    assert!(holm <= SIGNIFICANT + margin(SIGNIFICANT, total), "{holm}");
    assert!(holm >= 0.015, "{holm}: the test is not that careful");
    assert!(raw >= 0.15, "{raw}: six tests at 5 % are wrong more often");
}

#[test]
fn intervals_contain_the_truth() {
    for (shape, seed) in SHAPES.into_iter().zip(100..) {
        for blocks in [6, 8, 12, 24] {
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
            let covered = count(total, &made, |analysis| {
                let (low, high) = effects(analysis, 1).next().unwrap().interval.unwrap();
                low <= 1.2 && 1.2 <= high
            });
            let share = covered as f64 / total as f64;
            println!(
                "{shape:?}, {blocks} blocks: {share:.4} of {total} intervals contain the truth"
            );
            let promised = if blocks < 8 { 0.92 } else { 0.945 };
            assert!(
                share >= promised - margin(promised, total),
                "{shape:?} {blocks}: {share}"
            );
            assert!(
                share <= 0.975 + margin(0.975, total),
                "{shape:?} {blocks}: too wide"
            );
        }
    }
}

#[test]
fn effects_are_found() {
    // Noise of a run, effect, blocks; how often it is found at least, without and with an A/A arm.
    let cases = [
        (0.02, 1.05, 12, 0.90, 0.85),
        (0.05, 1.05, 12, 0.35, 0.20),
        (0.05, 1.10, 12, 0.90, 0.80),
        (0.10, 1.05, 12, 0.05, 0.02),
        (0.10, 1.10, 12, 0.35, 0.20),
        (0.10, 1.10, 24, 0.75, 0.60),
        (0.15, 1.10, 12, 0.10, 0.05),
        (0.15, 1.10, 24, 0.40, 0.25),
    ];
    println!("noise effect blocks: found without and with A/A");
    for (index, (cv, effect, blocks, plain, with_twin)) in (200..).zip(cases) {
        for (twin, least) in [(false, plain), (true, with_twin)] {
            let mut factors = vec![1.0, effect];
            if twin {
                factors.push(1.0);
            }
            let made = Made {
                seed: index * 1_000_000,
                blocks,
                benchmarks: 1,
                shape: Shape::Normal,
                cv,
                factors,
                twin,
            };
            let total = comparisons() / if blocks > 16 { 4 } else { 1 };
            let judged = |verdict| {
                let found = |a: &Analysis| effects(a, 1).next().unwrap().verdict == verdict;
                count(total, &made, found) as f64 / total as f64
            };
            let worse = judged(Verdict::Worse);
            println!("{cv} {effect} {blocks} A/A {twin}: {worse:.3} of {total}");
            assert!(
                worse >= least - margin(least, total),
                "{cv} {effect}: {worse}"
            );
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
