// SPDX-License-Identifier: GPL-2.0-only
//! Several machines in one comparison: what they say together, and where they do not fit.

use scx_ballast::compare::analysis::{AnalysisError, Verdict, analyse, analyse_with};
use scx_ballast::compare::record::{Better, Fact, Plan, Record};

use crate::made::{
    FEW, Made, analysed, comparison, effect, made, metric, plan, run, two_machines, verdict, warned,
};

#[test]
fn machines_are_blocks_and_matched_by_name() {
    // The second machine is ten times slower, has the arms in another order, and a kernel of its own.
    let arms = |order: [usize; 3], seed, scale: f64| {
        let factors: Vec<f64> = [1.0, 1.2, 0.7].iter().map(|f| f * scale).collect();
        let factors = order.map(|arm| factors[arm]).to_vec();
        let mut records = comparison(&Made {
            factors,
            ..made(seed)
        });
        let labels = order.map(|arm| ["eevdf", "slow", "fast"][arm].to_owned());
        for (arm, label) in plan(&mut records).arms.iter_mut().zip(labels) {
            arm.argv = vec![format!("/opt/{seed}/scx_{label}")];
            arm.label = label;
        }
        records
    };
    let first = arms([0, 1, 2], 5, 1.0);
    let mut second = arms([0, 2, 1], 6, 10.0);
    plan(&mut second).environment.kernel = "6.12.1".into();
    let found = analysed(&[first, second]);
    assert_eq!(found.arms, ["eevdf", "slow", "fast"]);
    assert_eq!(
        (verdict(&found, 1), verdict(&found, 2)),
        (Verdict::Worse, Verdict::Better)
    );
    let slow = found.rows[0].arms[1].as_ref().unwrap();
    assert_eq!(slow.effect.as_ref().unwrap().pairs, 24);
    assert!((slow.effect.as_ref().unwrap().ratio - 1.2).abs() < 0.04);
    // Ten times the time of the first machine is neither an outlier nor spread.
    assert!(slow.stddev.unwrap() < 10.0 && slow.values.iter().filter(|s| s.outlier).count() < 4);
    assert!(warned(&found, "different kernels") && !warned(&found, "schedulers named"));
}

#[test]
fn machines_that_contradict_each_other_have_no_common_effect() {
    // 20 % less and 25 % more: the centre of the ratios is 1, of which neither machine knows.
    for blocks in [4, 6, 12] {
        let found = analysed(&two_machines(blocks, [0.8, 1.25], 0.005));
        let effect = effect(&found);
        assert!(effect.machines_differ && (effect.ratio - 1.0).abs() < 0.05);
        assert_eq!(effect.verdict, Verdict::Undecided);
        let (low, high) = effect.interval.unwrap();
        assert!(low < 0.81 && high > 1.24, "{low} .. {high}");
        assert!(
            warned(&found, "contradict each other"),
            "{:?}",
            found.warnings
        );
        assert!(warned(&found, "bench/0 time under arm1"));
        let changes: Vec<f64> = effect
            .machines
            .iter()
            .map(|on| on.change.unwrap())
            .collect();
        assert!((changes[0] - 20.0).abs() < 2.0 && (changes[1] + 25.0).abs() < 2.0);
        assert_eq!(effect.machines[1].pairs, blocks as usize);
    }
}

#[test]
fn machines_that_agree_or_cannot_tell_do_not_contradict() {
    // Twice the same; the same way, but not as much; one that is too noisy to say; three blocks each.
    for (files, verdict) in [
        (two_machines(12, [1.2, 1.2], 0.02), Verdict::Worse),
        (two_machines(12, [1.1, 1.4], 0.005), Verdict::Worse),
        (two_machines(12, [1.2, 0.97], 0.2), Verdict::Undecided),
        (two_machines(3, [0.8, 1.25], 0.005), Verdict::Undecided),
    ] {
        let found = analysed(&files);
        let effect = effect(&found);
        assert!(!effect.machines_differ);
        assert_eq!(effect.verdict, verdict);
        assert!(!warned(&found, "contradict"));
    }
    // What they do not say alike is in the interval.
    let found = analysed(&two_machines(12, [1.1, 1.4], 0.005));
    let (low, high) = effect(&found).interval.unwrap();
    assert!(low < 1.11 && high > 1.39, "{low} .. {high}");
    // One machine is not told apart from itself.
    let found = analysed(&[comparison(&made(3))]);
    assert!(effect(&found).machines.is_empty());
}

#[test]
fn noise_does_not_vanish_where_copies_lie_apart_the_other_way() {
    // A copy that is 10 % slower on one machine and 10 % faster on the other is no quiet copy.
    let files: Vec<Vec<Record>> = [1.1, 1.0 / 1.1]
        .into_iter()
        .zip(30..)
        .map(|(twin, seed)| {
            comparison(&Made {
                cv: 0.005,
                factors: vec![1.0, 1.05, twin],
                twin: true,
                ..made(seed)
            })
        })
        .collect();
    let found = analysed(&files);
    let effect = effect(&found).clone();
    assert!(effect.noise.unwrap() > 1.09, "{:?}", effect.noise);
    assert_eq!(effect.verdict, Verdict::Undecided);
}

#[test]
fn differences_of_machines_contradict_too() {
    let of = |seed, share: f64| {
        let mut records = comparison(&made(seed));
        plan(&mut records).benchmarks[0].metrics = vec![metric("tolerated", Better::Higher, true)];
        records.truncate(1);
        for block in 0..6 {
            records.push(run(block, 0, 0, &[("tolerated", 0.0)]));
            records.push(run(block, 1, 0, &[("tolerated", share)]));
        }
        records
    };
    let found = analysed(&[of(1, 0.5), of(2, -0.5)]);
    let difference = found.rows[0].arms[1]
        .as_ref()
        .unwrap()
        .difference
        .clone()
        .unwrap();
    assert!(difference.machines_differ && difference.machines[1].centre == -0.5);
    assert_eq!(difference.interval, Some((-0.5, 0.5)));
}

#[test]
fn one_name_for_two_commands_and_one_host_twice_are_told() {
    let warnings = |commands: [&str; 2], hosts: [&str; 2]| {
        let mut files = two_machines(6, [1.1, 1.1], 0.01);
        for (machine, records) in files.iter_mut().enumerate() {
            plan(records).benchmarks[0].command = commands[machine].to_owned();
            plan(records).environment.host = Fact::Known(hosts[machine].to_owned());
        }
        let found = analysed(&files);
        (
            warned(&found, "different commands"),
            warned(&found, "of the host"),
        )
    };
    let numbers = [
        "hackbench -g 8 -l 1000 --on 0-3,8",
        "hackbench -g 16 -l 1.5 --on 0-7",
    ];
    assert_eq!(warnings(numbers, ["a", "b"]), (false, false));
    let others = ["hackbench -g 8 -T", "hackbench -g 8"];
    assert_eq!(warnings(others, ["a", "b"]), (true, false));
    assert_eq!(warnings(["x", "x"], ["a", "a"]), (false, true));
}

#[test]
fn machines_that_do_not_fit_are_an_error() {
    let first = comparison(&made(9));
    let with = |change: &dyn Fn(&mut Plan)| {
        let mut second = comparison(&made(10));
        change(plan(&mut second));
        let found = analyse_with(&[first.clone(), second], FEW);
        found.expect_err("an error").to_string()
    };
    let same = analyse(&[first.clone(), first.clone()]);
    assert_eq!(
        same,
        Err(AnalysisError::SameComparison {
            first: 1,
            second: 2
        })
    );
    assert!(with(&|plan| plan.arms[0].label = "scx_rusty".into()).contains("not the same base"));
    assert!(with(&|plan| plan.arms[1].twin_of = Some(0)).contains("copy of the same arm"));
    assert!(with(&|plan| plan.benchmarks[0].suite = "other".into()).contains("suite differs"));
    let unit = with(&|plan| plan.benchmarks[0].metrics[0].unit = "ms".into());
    assert!(
        unit.contains("bench/0: time") && unit.contains("unit differs"),
        "{unit}"
    );
    // An arm or a benchmark that one machine lacks is told and no error.
    let mut second = comparison(&made(10));
    plan(&mut second).arms[1].label = "other".into();
    plan(&mut second).benchmarks[0].name = "another".into();
    plan(&mut second).environment.host = Fact::Known("box".into());
    let found = analysed(&[first, second]);
    assert!(warned(&found, "file 2 (box): has no arm arm1"));
    assert!(warned(&found, "file 2 (box): has no benchmark bench/0"));
    assert_eq!(found.rows.len(), 2);
}
