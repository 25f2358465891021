// SPDX-License-Identifier: GPL-2.0-only
//! An independent implementation (tests/compare/check.py) finds the same numbers.

use std::path::{Path, PathBuf};
use std::process::Command;

use scx_ballast::compare::analysis::{Analysis, Settings, analyse, analyse_with};
use scx_ballast::compare::record::{Better, Record};

use crate::made::{Made, Noise, Shape, comparison, made, metric, plan, two_machines};

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
