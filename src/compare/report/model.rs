// SPDX-License-Identifier: GPL-2.0-only
//! Records by machine, arm and benchmark, under the arms of the analysis.
//!
//! Machines may name their arms in different orders: everything here is by label. All names that this
//! module gives out are clean (see [`clean`]).

use std::collections::{BTreeMap, BTreeSet};

use super::ReportError;
use super::content::clean;
use crate::compare::analysis::{Analysis, ArmSummary, Effect, Row, Verdict};
use crate::compare::record::{Arm, Benchmark, Discarded, Plan, Record, Run, Skipped};

/// A comparison as reports see it.
pub struct Model<'a> {
    pub analysis: &'a Analysis,
    /// Of the arms; the first is the base.
    pub arms: Vec<String>,
    pub machines: Vec<Machine<'a>>,
}

/// One results file.
pub struct Machine<'a> {
    pub name: String,
    pub plan: &'a Plan,
    runs: Vec<&'a Run>,
    pub discarded: Vec<&'a Discarded>,
    /// Arm of the plan -> arm of the analysis.
    arms: Vec<Option<usize>>,
}

/// How often an arm is what, over the primary metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Score {
    pub better: usize,
    pub worse: usize,
    pub undecided: usize,
    pub too_few: usize,
    /// Primary metrics without a run of the arm, or of the base.
    pub missing: usize,
}

impl Score {
    pub fn all(&self) -> usize {
        self.better + self.worse + self.undecided + self.too_few + self.missing
    }
}

impl<'a> Model<'a> {
    pub fn new(
        machines: &'a [Vec<Record>],
        names: &[String],
        analysis: &'a Analysis,
    ) -> Result<Self, ReportError> {
        if machines.len() != names.len() {
            return Err(ReportError::Names {
                machines: machines.len(),
                names: names.len(),
            });
        }
        if machines.is_empty() {
            return Err(ReportError::Nothing);
        }
        let machines = machines
            .iter()
            .zip(names)
            .map(|(records, name)| Machine::new(records, name, &analysis.arms))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Model {
            analysis,
            arms: analysis.arms.iter().map(|label| clean(label)).collect(),
            machines: with_unique_names(machines),
        })
    }

    pub fn base(&self) -> &str {
        self.arms.first().map_or("", String::as_str)
    }

    /// Suites, in the order of the rows.
    pub fn suites(&self) -> Vec<&'a str> {
        let mut seen = BTreeSet::new();
        let rows = self.analysis.rows.iter();
        rows.map(|row| row.suite.as_str())
            .filter(|suite| seen.insert(*suite))
            .collect()
    }

    /// (suite, benchmark) of every row, each once, in their order.
    pub fn benchmarks(&self) -> Vec<(&'a str, &'a str)> {
        let mut seen = BTreeSet::new();
        let rows = self.analysis.rows.iter();
        rows.map(|row| (row.suite.as_str(), row.benchmark.as_str()))
            .filter(|key| seen.insert(*key))
            .collect()
    }

    pub fn rows_of(&self, suite: &str) -> impl Iterator<Item = &'a Row> {
        let rows = self.analysis.rows.iter();
        rows.filter(move |row| row.suite == suite)
    }

    pub fn primary_rows(&self) -> impl Iterator<Item = &'a Row> {
        self.analysis.rows.iter().filter(|row| row.primary)
    }

    /// The plan's word on an arm, from the first machine that has it.
    pub fn arm(&self, arm: usize) -> Option<&'a Arm> {
        self.machines.iter().find_map(|machine| {
            let at = machine.arms.iter().position(|to| *to == Some(arm))?;
            machine.plan.arms.get(at)
        })
    }

    /// Label of the arm that `arm` is a copy of.
    pub fn twin_of(&self, arm: usize) -> Option<String> {
        self.machines.iter().find_map(|machine| {
            let at = machine.arms.iter().position(|to| *to == Some(arm))?;
            let twin = machine.plan.arms.get(at)?.twin_of?;
            machine.plan.arms.get(twin).map(|arm| clean(&arm.label))
        })
    }

    pub fn score(&self, arm: usize) -> Score {
        let mut score = Score::default();
        for row in self.primary_rows() {
            match effect(row, arm).map(|effect| effect.verdict) {
                Some(Verdict::Better) => score.better += 1,
                Some(Verdict::Worse) => score.worse += 1,
                Some(Verdict::Undecided) => score.undecided += 1,
                Some(Verdict::TooFew) => score.too_few += 1,
                None => score.missing += 1,
            }
        }
        score
    }

    /// All runs of `arm`, of one benchmark if it is given, on all machines.
    pub fn runs(
        &self,
        arm: usize,
        benchmark: Option<(&'a str, &'a str)>,
    ) -> impl Iterator<Item = &'a Run> {
        let machines = self.machines.iter();
        machines.flat_map(move |machine| machine.runs(arm, benchmark))
    }

    /// What no machine could run.
    pub fn skipped(&self) -> Vec<(String, &'a Skipped)> {
        let machines = self.machines.iter();
        machines
            .flat_map(|machine| {
                let skipped = machine.plan.skipped.iter();
                skipped.map(|skipped| (machine.name.clone(), skipped))
            })
            .collect()
    }
}

impl<'a> Machine<'a> {
    fn new(records: &'a [Record], name: &str, labels: &[String]) -> Result<Self, ReportError> {
        let plan = records
            .iter()
            .find_map(|record| match record {
                Record::Plan(plan) => Some(plan.as_ref()),
                _ => None,
            })
            .ok_or_else(|| ReportError::NoPlan(clean(name)))?;
        let arms = plan.arms.iter();
        Ok(Machine {
            name: clean(plan.environment.host.known().map_or(name, |host| host)),
            plan,
            runs: records.iter().filter_map(as_run).collect(),
            discarded: records.iter().filter_map(as_discarded).collect(),
            arms: arms
                .map(|arm| labels.iter().position(|label| *label == arm.label))
                .collect(),
        })
    }

    /// Runs of `arm`, of one benchmark if it is given.
    pub fn runs(
        &self,
        arm: usize,
        benchmark: Option<(&'a str, &'a str)>,
    ) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().copied().filter(move |run| {
            self.arm_of(run.arm) == Some(arm)
                && benchmark.is_none_or(|key| self.benchmark_key(run.benchmark) == Some(key))
        })
    }

    pub fn arm_of(&self, plan_arm: usize) -> Option<usize> {
        self.arms.get(plan_arm).copied().flatten()
    }

    pub fn benchmark(&self, suite: &str, name: &str) -> Option<&'a Benchmark> {
        let mut benchmarks = self.plan.benchmarks.iter();
        benchmarks.find(|benchmark| benchmark.suite == suite && benchmark.name == name)
    }

    fn benchmark_key(&self, index: usize) -> Option<(&'a str, &'a str)> {
        let benchmark = self.plan.benchmarks.get(index)?;
        Some((&benchmark.suite, &benchmark.name))
    }

    /// The run of `arm` whose wall time is the median's: one that may stand for the others.
    pub fn typical_run(&self, arm: usize, benchmark: (&'a str, &'a str)) -> Option<&'a Run> {
        let mut runs: Vec<&Run> = self
            .runs(arm, Some(benchmark))
            .filter(|run| run.evidence.node_use.known().is_some())
            .collect();
        runs.sort_by(|a, b| a.evidence.wall_s.total_cmp(&b.evidence.wall_s));
        runs.get(runs.len().saturating_sub(1) / 2).copied()
    }
}

fn as_run(record: &Record) -> Option<&Run> {
    match record {
        Record::Run(run) => Some(run),
        _ => None,
    }
}

fn as_discarded(record: &Record) -> Option<&Discarded> {
    match record {
        Record::Discarded(discarded) => Some(discarded),
        _ => None,
    }
}

/// The same host may have given several files.
fn with_unique_names(mut machines: Vec<Machine>) -> Vec<Machine> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for machine in &mut machines {
        let times = seen.entry(machine.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            machine.name = format!("{}#{times}", machine.name);
        }
    }
    machines
}

pub fn summary(row: &Row, arm: usize) -> Option<&ArmSummary> {
    row.arms.get(arm).and_then(Option::as_ref)
}

pub fn effect(row: &Row, arm: usize) -> Option<&Effect> {
    summary(row, arm)?.effect.as_ref()
}

/// Significant: a primary metric that was judged better or worse. This is what stars stand for.
pub fn is_starred(row: &Row, effect: &Effect) -> bool {
    row.primary && matches!(effect.verdict, Verdict::Better | Verdict::Worse)
}

/// A row's name, in words: benchmark, metric, unit.
pub fn row_label(row: &Row) -> String {
    let unit = match row.unit.is_empty() {
        true => String::new(),
        false => format!(" ({})", row.unit),
    };
    clean(&format!("{} {}{unit}", row.benchmark, row.metric))
}

/// Ratios of `arm` to the base by machine and block, wherever both have a value.
pub fn ratios(row: &Row, arm: usize) -> Vec<(usize, u32, f64)> {
    let (Some(base), Some(arm)) = (summary(row, 0), summary(row, arm)) else {
        return Vec::new();
    };
    let base: BTreeMap<(usize, u32), f64> = base
        .values
        .iter()
        .map(|sample| ((sample.machine, sample.block), sample.value))
        .collect();
    arm.values
        .iter()
        .filter_map(|sample| {
            let base = base.get(&(sample.machine, sample.block))?;
            let ratio = sample.value / base;
            ratio
                .is_finite()
                .then_some((sample.machine, sample.block, ratio))
        })
        .collect()
}
