// SPDX-License-Identifier: GPL-2.0-only
//! What the analysis of `compare` makes of results files of every kind: several machines, zeros, too few
//! blocks, unfinished ones, broken ones; and that an independent implementation finds the same numbers.

#[path = "compare/synthetic.rs"]
mod synthetic;

use std::path::{Path, PathBuf};
use std::process::Command;

use scx_ballast::compare::analysis::{
    Analysis, AnalysisError, Settings, Verdict, analyse, analyse_with,
};
use scx_ballast::compare::record::{Better, Discarded, Fact, Plan, Record};
use synthetic::{Made, Noise, Shape, comparison, metric, run};

const FEW: Settings = Settings { resamples: 500 };

fn made(seed: u64) -> Made {
    Made {
        seed,
        blocks: 12,
        benchmarks: 1,
        shape: Shape::Normal,
        cv: 0.03,
        factors: vec![1.0, 1.2],
        twin: false,
    }
}

fn plan(records: &mut [Record]) -> &mut Plan {
    match &mut records[0] {
        Record::Plan(plan) => plan,
        _ => panic!("the first record is the plan"),
    }
}

fn analysed(files: &[Vec<Record>]) -> Analysis {
    analyse_with(files, FEW).expect("sound results files")
}

fn verdict(analysis: &Analysis, arm: usize) -> Verdict {
    let arm = analysis.rows[0].arms[arm].as_ref();
    arm.expect("it ran")
        .effect
        .as_ref()
        .expect("an effect")
        .verdict
}

fn warned(analysis: &Analysis, part: &str) -> bool {
    analysis
        .warnings
        .iter()
        .any(|warning| warning.contains(part))
}

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
    let noise = found.rows[0].arms[1]
        .as_ref()
        .unwrap()
        .effect
        .as_ref()
        .unwrap()
        .noise;
    assert!((noise.unwrap() - 1.2).abs() < 0.05);
    assert!(warned(&of(false), "no A/A arm") && !warned(&found, "no A/A arm"));
}

#[test]
fn secondary_metrics_get_no_verdict() {
    let mut records = comparison(&made(4));
    plan(&mut records).benchmarks[0].metrics[0].primary = false;
    let found = analysed(&[records]);
    let effect = found.rows[0].arms[1]
        .as_ref()
        .unwrap()
        .effect
        .clone()
        .unwrap();
    assert_eq!((effect.verdict, effect.p_holm), (Verdict::Undecided, None));
    assert!(effect.p.unwrap() < 0.001 && effect.interval.unwrap().0 > 1.1);
    assert!(warned(&found, "no metric is primary"));
}

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

/// Two machines, named, on which the arm has a factor of its own.
fn two_machines(blocks: u32, factors: [f64; 2], cv: f64) -> Vec<Vec<Record>> {
    let of = |machine: usize| {
        let mut records = comparison(&Made {
            blocks,
            cv,
            factors: vec![1.0, factors[machine]],
            ..made(20 + machine as u64)
        });
        plan(&mut records).environment.host = Fact::Known(format!("h{}", machine + 1));
        records
    };
    vec![of(0), of(1)]
}

#[test]
fn machines_that_contradict_each_other_have_no_common_effect() {
    // 20 % less and 25 % more: the centre of the ratios is 1, of which neither machine knows.
    for blocks in [4, 6, 12] {
        let found = analysed(&two_machines(blocks, [0.8, 1.25], 0.005));
        let effect = found.rows[0].arms[1]
            .as_ref()
            .unwrap()
            .effect
            .as_ref()
            .unwrap();
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
        let effect = found.rows[0].arms[1]
            .as_ref()
            .unwrap()
            .effect
            .as_ref()
            .unwrap();
        assert!(!effect.machines_differ);
        assert_eq!(effect.verdict, verdict);
        assert!(!warned(&found, "contradict"));
    }
    // What they do not say alike is in the interval.
    let found = analysed(&two_machines(12, [1.1, 1.4], 0.005));
    let effect = found.rows[0].arms[1]
        .as_ref()
        .unwrap()
        .effect
        .as_ref()
        .unwrap();
    let (low, high) = effect.interval.unwrap();
    assert!(low < 1.11 && high > 1.39, "{low} .. {high}");
    // One machine is not told apart from itself.
    let found = analysed(&[comparison(&made(3))]);
    assert!(
        found.rows[0].arms[1]
            .as_ref()
            .unwrap()
            .effect
            .as_ref()
            .unwrap()
            .machines
            .is_empty()
    );
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
    let effect = found.rows[0].arms[1]
        .as_ref()
        .unwrap()
        .effect
        .clone()
        .unwrap();
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
fn runs_that_were_given_up_are_not_unfinished() {
    let mut records = comparison(&made(7));
    let Some(Record::Run(last)) = records.pop() else {
        panic!("the last record is a run");
    };
    let discarded = |run: &scx_ballast::compare::record::Run| {
        Record::Discarded(Discarded {
            block: run.block,
            arm: run.arm,
            benchmark: run.benchmark,
            at: run.at.clone(),
            reason: "bypass".into(),
        })
    };
    records.push(discarded(&last));
    records.push(discarded(&last));
    let found = analysed(&[records.clone()]);
    assert!(
        warned(&found, "23 of 24 runs: 1 was tried and given up"),
        "{:?}",
        found.warnings
    );
    assert!(!warned(&found, "unfinished"));
    // One more is missing that nobody tried.
    let at = records
        .iter()
        .rposition(|record| matches!(record, Record::Run(_)));
    records.remove(at.unwrap());
    assert!(warned(&analysed(&[records]), "unfinished: 22 of 24"));
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

#[test]
fn unfinished_and_discarded_are_told() {
    let mut records = comparison(&made(7));
    records.truncate(12);
    records.push(Record::Discarded(Discarded {
        block: 5,
        arm: 1,
        benchmark: 0,
        at: "2026-11-30T12:00:00Z".into(),
        reason: "the scheduler was gone".into(),
    }));
    let found = analysed(&[records]);
    assert!(warned(&found, "11 of 24 runs") && warned(&found, "the scheduler was gone"));
    let pairs = found.rows[0].arms[1]
        .as_ref()
        .unwrap()
        .effect
        .as_ref()
        .unwrap()
        .pairs;
    assert_eq!(pairs, 5, "the sixth block has the base alone");
    // A plan without a run is a comparison about which nothing is known yet.
    let nothing = analysed(&[comparison(&made(7))[..1].to_vec()]);
    assert_eq!(nothing.rows[0].arms, [None, None]);
}

#[test]
fn what_is_no_comparison_is_an_error() {
    let sound = comparison(&made(8));
    let broken = |change: &dyn Fn(&mut Vec<Record>)| {
        let mut records = sound.clone();
        change(&mut records);
        analyse(&[records]).expect_err("an error").to_string()
    };
    assert_eq!(analyse(&[]), Err(AnalysisError::NoFile));
    assert_eq!(analyse(&[vec![]]), Err(AnalysisError::NoPlan { file: 1 }));
    assert!(broken(&|r| drop(r.remove(0))).contains("begin with a plan"));
    assert!(broken(&|r| r.push(r[0].clone())).contains("second plan"));
    assert!(broken(&|r| r.push(r[1].clone())).contains("second run of \"bench/0\""));
    assert!(broken(&|r| plan(r).format = 99).contains("format 99"));
    assert!(broken(&|r| plan(r).arms.clear()).contains("no arms"));
    assert!(broken(&|r| plan(r).arms[1].label = "eevdf".into()).contains("two arms"));
    assert!(broken(&|r| plan(r).arms[1].twin_of = Some(1)).contains("copy of arm 1"));
    assert!(broken(&|r| r.push(run(0, 9, 0, &[]))).contains("arm 9"));
    assert!(broken(&|r| r.push(run(0, 0, 3, &[]))).contains("benchmark 3"));
    assert!(broken(&|r| r.push(run(12, 0, 0, &[("time", 1.0)]))).contains("block 12"));
    assert!(broken(&|r| r[1] = run(0, 0, 0, &[])).contains("no value of \"time\""));
    for value in [f64::NAN, f64::INFINITY, -1e300] {
        let unfit = broken(&|r| r[1] = run(0, 0, 0, &[("time", value)]));
        assert!(unfit.contains("cannot have been measured"), "{unfit}");
    }
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

/// Where results files and their analysis are written for the other implementation.
fn write(directory: &Path, files: &[Vec<Record>], analysis: &Analysis) -> Vec<PathBuf> {
    let mut paths = vec![directory.join("analysis.json")];
    std::fs::write(&paths[0], serde_json::to_string(analysis).unwrap()).unwrap();
    for (index, records) in files.iter().enumerate() {
        let lines: Vec<String> = records
            .iter()
            .map(|r| serde_json::to_string(r).unwrap())
            .collect();
        paths.push(directory.join(format!("{index}.jsonl")));
        std::fs::write(&paths[index + 1], lines.join("\n") + "\n").unwrap();
    }
    paths
}

/// What the other implementation says, and whether it agrees; none without numpy and scipy.
fn check(files: &[Vec<Record>], analysis: &Analysis, arguments: &[&str]) -> Option<(bool, String)> {
    let directory = tempfile::tempdir().unwrap();
    let paths = write(directory.path(), files, analysis);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/compare/check.py");
    // The distribution's Python has the distribution's packages, whatever comes first in PATH.
    let python = ["/usr/bin/python3", "python3"];
    let python = python
        .into_iter()
        .find(|path| !path.starts_with('/') || Path::new(path).exists());
    let output = Command::new(python.unwrap())
        .arg(script)
        .args(arguments)
        .arg("--analysis")
        .args(&paths)
        .output();
    let Ok(output) = output else {
        println!("skipped: no python3");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    (output.status.code() != Some(77)).then(|| (output.status.success(), text.into_owned()))
}

/// A comparison with everything in it: an A/A arm, rates, secondary metrics, zeros.
fn rich(seed: u64, blocks: u32) -> Vec<Record> {
    let factors = vec![1.0, 1.1, 0.97, 1.0];
    let mut records = comparison(&Made {
        blocks,
        cv: 0.04,
        factors,
        twin: true,
        ..made(seed)
    });
    plan(&mut records).benchmarks[0].metrics = vec![
        metric("time", Better::Lower, true),
        metric("rate", Better::Higher, true),
        metric("moves", Better::Lower, false),
    ];
    let mut noise = Noise::new(seed + 1);
    for record in &mut records {
        let Record::Run(run) = record else { continue };
        let time = run.values["time"];
        let rate = 1e6 / time * noise.run(Shape::Hit, 0.05).exp();
        run.values.insert("rate".into(), rate);
        run.values
            .insert("moves".into(), (time * 3.0).round() - 30.0);
    }
    records
}

#[test]
fn an_independent_implementation_agrees() {
    let files = [rich(11, 12), rich(12, 8)];
    let opposite = two_machines(8, [0.8, 1.25], 0.01);
    for files in [&files[..1], &files[..], &opposite[..]] {
        let analysis = analyse(files).unwrap();
        if let Some((agrees, text)) = check(files, &analysis, &[]) {
            assert!(agrees, "{text}");
        }
    }
}

#[test]
fn interval_ends_agree_to_three_digits() {
    // So many that the share beyond an end is known to a fiftieth of it.
    let files = [comparison(&Made {
        cv: 0.01,
        ..made(13)
    })];
    let resamples = 200_000;
    let analysis = analyse_with(&files, Settings { resamples }).unwrap();
    if let Some((agrees, text)) = check(
        &files,
        &analysis,
        &["--digits", "3", "--resamples", "200000", "--own", "200000"],
    ) {
        assert!(agrees, "{text}");
    }
}

#[test]
fn the_independent_implementation_sees_what_is_wrong() {
    let files = [comparison(&made(14))];
    let analysis = analyse(&files).unwrap();
    let effect = |analysis: &mut Analysis, change: &dyn Fn(&mut f64, &mut (f64, f64))| {
        let arm = analysis.rows[0].arms[1].as_mut().unwrap();
        let effect = arm.effect.as_mut().unwrap();
        let mut interval = effect.interval.unwrap();
        change(effect.p.as_mut().unwrap(), &mut interval);
        effect.interval = Some(interval);
    };
    let mut wrong = [analysis.clone(), analysis.clone(), analysis];
    effect(&mut wrong[0], &|p, _| *p *= 1.01);
    effect(&mut wrong[1], &|_, interval| interval.0 *= 0.98);
    wrong[2].rows[0].arms[0].as_mut().unwrap().mean *= 1.001;
    for analysis in wrong {
        if let Some((agrees, text)) = check(&files, &analysis, &["--own", "20000"]) {
            assert!(!agrees, "{text}");
        }
    }
}
