// SPDX-License-Identifier: GPL-2.0-only
//! From records to values: for each metric and arm, what was measured on which machine in which block.

use std::collections::BTreeSet;

use crate::compare::record::{Benchmark, Discarded, Metric, Plan, Record, Run};

use super::error::AnalysisError;
use super::merge::{Merged, merge};

/// Beyond this, squares and sums of values are no numbers any more.
const LARGEST: f64 = 1e150;

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub machine: usize,
    pub block: u32,
    pub value: f64,
}

/// One metric of one benchmark.
#[derive(Debug)]
pub struct Row {
    pub suite: String,
    pub benchmark: String,
    pub metric: Metric,
    /// For each merged arm its values, in the order of machines and blocks.
    pub arms: Vec<Vec<Point>>,
}

/// One results file, in parts.
#[derive(Debug)]
pub struct Machine<'a> {
    pub plan: &'a Plan,
    /// With the number of their records, from 1.
    pub runs: Vec<(usize, &'a Run)>,
    pub discarded: Vec<&'a Discarded>,
}

/// All results files.
#[derive(Debug)]
pub struct Gathered<'a> {
    pub machines: Vec<Machine<'a>>,
    pub merged: Merged,
    pub rows: Vec<Row>,
}

/// Takes records apart, checks them and sorts values into rows.
pub fn gather(files: &[Vec<Record>]) -> Result<Gathered<'_>, AnalysisError> {
    if files.is_empty() {
        return Err(AnalysisError::NoFile);
    }
    let machines: Vec<Machine> = files
        .iter()
        .enumerate()
        .map(|(index, records)| take_apart(index + 1, records))
        .collect::<Result<_, _>>()?;
    let plans: Vec<&Plan> = machines.iter().map(|machine| machine.plan).collect();
    let merged = merge(&plans)?;
    for (index, machine) in machines.iter().enumerate() {
        check_runs(index + 1, machine)?;
    }
    let rows = rows(&machines, &merged);
    Ok(Gathered {
        machines,
        merged,
        rows,
    })
}

fn take_apart(file: usize, records: &[Record]) -> Result<Machine<'_>, AnalysisError> {
    let Some((Record::Plan(plan), rest)) = records.split_first() else {
        return Err(AnalysisError::NoPlan { file });
    };
    let mut machine = Machine {
        plan,
        runs: Vec::new(),
        discarded: Vec::new(),
    };
    for (record, number) in rest.iter().zip(2..) {
        match record {
            Record::Plan(_) => {
                let record = number;
                return Err(AnalysisError::SecondPlan { file, record });
            }
            Record::Run(run) => machine.runs.push((number, run)),
            Record::Discarded(discarded) => machine.discarded.push(discarded),
        }
    }
    Ok(machine)
}

/// Whether each run is of something planned, has all its values, and is the only one of its kind.
fn check_runs(file: usize, machine: &Machine) -> Result<(), AnalysisError> {
    let plan = machine.plan;
    let mut seen = BTreeSet::new();
    for &(record, run) in &machine.runs {
        let unknown = |what, index| AnalysisError::NotPlanned {
            file,
            record,
            what,
            index,
        };
        let arms = plan.arms.get(run.arm);
        let arm = arms.ok_or_else(|| unknown("arm", run.arm))?;
        let benchmarks = plan.benchmarks.get(run.benchmark);
        let benchmark = benchmarks.ok_or_else(|| unknown("benchmark", run.benchmark))?;
        if run.block >= plan.blocks {
            return Err(unknown("block", run.block as usize));
        }
        check_values(file, record, run, benchmark)?;
        if !seen.insert((run.block, run.arm, run.benchmark)) {
            return Err(AnalysisError::Twice {
                file,
                record,
                benchmark: benchmark.name.clone(),
                arm: arm.label.clone(),
                block: run.block,
            });
        }
    }
    Ok(())
}

fn check_values(
    file: usize,
    record: usize,
    run: &Run,
    benchmark: &Benchmark,
) -> Result<(), AnalysisError> {
    for Metric { name, .. } in &benchmark.metrics {
        let metric = name.clone();
        match run.values.get(name) {
            Some(value) if value.abs() <= LARGEST => {}
            Some(&value) => {
                return Err(AnalysisError::UnfitValue {
                    file,
                    record,
                    metric,
                    value,
                });
            }
            None => {
                return Err(AnalysisError::MissingValue {
                    file,
                    record,
                    metric,
                });
            }
        }
    }
    Ok(())
}

/// A row for each metric of each merged benchmark.
fn rows(machines: &[Machine], merged: &Merged) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, benchmark) in merged.benchmarks.iter().enumerate() {
        for metric in &benchmark.metrics {
            let mut arms = vec![Vec::new(); merged.arms.len()];
            for (machine, records) in machines.iter().enumerate() {
                for (_, run) in &records.runs {
                    if merged.benchmark_of[machine][run.benchmark] != index {
                        continue;
                    }
                    if let Some(&value) = run.values.get(&metric.name) {
                        let block = run.block;
                        arms[merged.arm_of[machine][run.arm]].push(Point {
                            machine,
                            block,
                            value,
                        });
                    }
                }
            }
            for points in &mut arms {
                points.sort_by_key(|point| (point.machine, point.block));
            }
            rows.push(Row {
                suite: benchmark.suite.clone(),
                benchmark: benchmark.name.clone(),
                metric: metric.clone(),
                arms,
            });
        }
    }
    rows
}
