// SPDX-License-Identifier: GPL-2.0-only
//! The plans of several machines as one: arms by label, benchmarks and metrics by name.
//!
//! A machine may lack an arm or a benchmark (a program is not installed there), which is told in a
//! warning. What is there under the same name has to be the same thing, otherwise it is an error.

use crate::compare::record::{Arm, Benchmark, FORMAT, Metric, Plan};

use super::error::AnalysisError;

/// What all plans together name.
#[derive(Debug, Default)]
pub struct Merged {
    pub arms: Vec<MergedArm>,
    pub benchmarks: Vec<MergedBenchmark>,
    /// For each machine: arm of its plan -> index into `arms`.
    pub arm_of: Vec<Vec<usize>>,
    /// For each machine: benchmark of its plan -> index into `benchmarks`.
    pub benchmark_of: Vec<Vec<usize>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MergedArm {
    pub label: String,
    /// Index of the arm that it is a copy of.
    pub twin_of: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MergedBenchmark {
    pub suite: String,
    pub name: String,
    pub metrics: Vec<Metric>,
}

/// One plan of each machine, in the order of the files.
pub fn merge(plans: &[&Plan]) -> Result<Merged, AnalysisError> {
    let mut merged = Merged::default();
    for (machine, plan) in plans.iter().enumerate() {
        let file = machine + 1;
        check(file, plan)?;
        if let Some(first) = plans[..machine].iter().position(|other| other == plan) {
            let (first, second) = (first + 1, file);
            return Err(AnalysisError::SameComparison { first, second });
        }
        merged.add_arms(file, &plan.arms)?;
        merged.add_benchmarks(file, &plan.benchmarks)?;
    }
    Ok(merged)
}

/// Whether a plan makes sense by itself.
fn check(file: usize, plan: &Plan) -> Result<(), AnalysisError> {
    if plan.format > FORMAT {
        let format = plan.format;
        return Err(AnalysisError::NewerFormat { file, format });
    }
    if plan.arms.is_empty() {
        return Err(AnalysisError::NoArms { file });
    }
    unique(file, "arms", plan.arms.iter().map(|arm| &arm.label))?;
    unique(file, "benchmarks", plan.benchmarks.iter().map(|b| &b.name))?;
    for benchmark in &plan.benchmarks {
        unique(file, "metrics", benchmark.metrics.iter().map(|m| &m.name))?;
    }
    for (index, arm) in plan.arms.iter().enumerate() {
        let Some(of) = arm.twin_of else { continue };
        let original = plan.arms.get(of);
        if of == index || original.is_none_or(|original| original.twin_of.is_some()) {
            let arm = arm.label.clone();
            return Err(AnalysisError::BadTwin { file, arm, of });
        }
    }
    Ok(())
}

fn unique<'a>(
    file: usize,
    what: &'static str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), AnalysisError> {
    let mut names: Vec<&String> = names.collect();
    names.sort();
    match names.windows(2).find(|two| two[0] == two[1]) {
        None => Ok(()),
        Some(two) => Err(AnalysisError::NotUnique {
            file,
            what,
            name: two[0].clone(),
        }),
    }
}

impl Merged {
    fn add_arms(&mut self, file: usize, arms: &[Arm]) -> Result<(), AnalysisError> {
        if let (Some(expected), Some(found)) = (self.arms.first(), arms.first())
            && expected.label != found.label
        {
            return Err(AnalysisError::BaseDiffers {
                file,
                found: found.label.clone(),
                expected: expected.label.clone(),
            });
        }
        let known = self.arms.len();
        let mut arm_of = Vec::with_capacity(arms.len());
        for arm in arms {
            let found = self.arms.iter().position(|other| other.label == arm.label);
            arm_of.push(found.unwrap_or(self.arms.len()));
            if found.is_none() {
                let label = arm.label.clone();
                let twin_of = None;
                self.arms.push(MergedArm { label, twin_of });
            }
        }
        for (arm, &index) in arms.iter().zip(&arm_of) {
            // `check` has seen that the original is one of `arms`.
            let twin_of = arm.twin_of.map(|of| arm_of[of]);
            if index >= known {
                self.arms[index].twin_of = twin_of;
            } else if self.arms[index].twin_of != twin_of {
                let arm = arm.label.clone();
                return Err(AnalysisError::TwinDiffers { file, arm });
            }
        }
        self.arm_of.push(arm_of);
        Ok(())
    }

    fn add_benchmarks(
        &mut self,
        file: usize,
        benchmarks: &[Benchmark],
    ) -> Result<(), AnalysisError> {
        let mut benchmark_of = Vec::with_capacity(benchmarks.len());
        for benchmark in benchmarks {
            let known = self.benchmarks.iter();
            match known.clone().position(|other| other.name == benchmark.name) {
                Some(index) => {
                    self.benchmarks[index].add(file, benchmark)?;
                    benchmark_of.push(index);
                }
                None => {
                    benchmark_of.push(self.benchmarks.len());
                    self.benchmarks.push(MergedBenchmark {
                        suite: benchmark.suite.clone(),
                        name: benchmark.name.clone(),
                        metrics: benchmark.metrics.clone(),
                    });
                }
            }
        }
        self.benchmark_of.push(benchmark_of);
        Ok(())
    }
}

impl MergedBenchmark {
    /// The same benchmark on a further machine.
    fn add(&mut self, file: usize, other: &Benchmark) -> Result<(), AnalysisError> {
        let differs = |name: &str, what| {
            let name = name.to_owned();
            Err(AnalysisError::BenchmarkDiffers { file, name, what })
        };
        if self.suite != other.suite {
            return differs(&other.name, "suite");
        }
        for metric in &other.metrics {
            let Some(known) = self.metrics.iter().find(|known| known.name == metric.name) else {
                self.metrics.push(metric.clone());
                continue;
            };
            if let Some(what) = difference(known, metric) {
                return differs(&format!("{}: {}", other.name, metric.name), what);
            }
        }
        Ok(())
    }
}

/// What of a metric must be the same on all machines and is not.
fn difference(a: &Metric, b: &Metric) -> Option<&'static str> {
    [
        (a.unit != b.unit, "unit"),
        (a.better != b.better, "better direction"),
        (a.mean != b.mean, "mean"),
        (a.primary != b.primary, "being primary"),
    ]
    .into_iter()
    .find_map(|(differs, what)| differs.then_some(what))
}
