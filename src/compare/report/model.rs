// SPDX-License-Identifier: GPL-2.0-only
//! Records by machine, arm and benchmark, under the arms of the analysis.
//!
//! Machines may name their arms in different orders: everything here is by label. All names that this
//! module gives out are clean (see [`clean`]).

use std::collections::{BTreeMap, BTreeSet};

use super::ReportError;
use super::content::{clean, clean_brief};
use super::number;
use crate::compare::analysis::{
    Analysis, ArmSummary, MachineEffect, Row, SIGNIFICANT, Verdict, brief,
};
use crate::compare::record::{Arm, Benchmark, Better, Discarded, Plan, Record, Run, Skipped};

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
    /// Of the undecided those that only the noise of an A/A arm leaves so.
    pub within_noise: usize,
    /// Of the undecided those on which machines contradict each other.
    pub differ: usize,
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
            arms: analysis
                .arms
                .iter()
                .map(|label| clean_brief(label))
                .collect(),
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
            machine
                .plan
                .arms
                .get(twin)
                .map(|arm| clean_brief(&arm.label))
        })
    }

    pub fn score(&self, arm: usize) -> Score {
        let mut score = Score::default();
        for row in self.primary_rows() {
            let change = change(row, arm);
            if let Some(change) = &change {
                score.within_noise += usize::from(change.is_within_noise(row));
                score.differ += usize::from(change.machines_differ);
            }
            match change.map(|change| change.verdict) {
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
            name: clean_brief(plan.environment.host.known().map_or(name, |host| host)),
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

/// How an arm differs from the base: an effect or, where ratios are impossible, a difference. Positive is
/// better in both.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// In %, or in the unit of the metric.
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    /// How far two copies of one arm lay apart, as the changes below and above 0 that it could be taken for.
    pub noise: Option<(f64, f64)>,
    /// Of a metric without ratios; none where it is a change in %.
    pub unit: Option<String>,
    pub pairs: usize,
    pub p: Option<f64>,
    pub p_holm: Option<f64>,
    /// Each of several machines by itself.
    pub machines: Vec<OnMachine>,
    /// Whether they contradict each other.
    pub machines_differ: bool,
    pub verdict: Verdict,
}

/// A change on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct OnMachine {
    pub machine: usize,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    pub pairs: usize,
}

pub fn change(row: &Row, arm: usize) -> Option<Change> {
    let summary = summary(row, arm)?;
    if let Some(effect) = &summary.effect {
        return Some(Change {
            value: effect.change,
            interval: effect
                .interval
                .map(|it| number::change_interval(row.better, it)),
            noise: effect
                .noise
                .map(|ratio| number::change_interval(row.better, (1.0 / ratio, ratio))),
            unit: None,
            pairs: effect.pairs,
            p: effect.p,
            p_holm: effect.p_holm,
            machines: on_machines(
                &effect.machines,
                |ratio| number::change(row.better, ratio),
                |it| number::change_interval(row.better, it),
            ),
            machines_differ: effect.machines_differ,
            verdict: effect.verdict,
        });
    }
    let difference = summary.difference.as_ref()?;
    let turn = |value: f64| turned(row, value);
    let turn_interval = |(low, high): (f64, f64)| {
        let (a, b) = (turn(low), turn(high));
        (a.min(b), a.max(b))
    };
    Some(Change {
        value: turn(difference.median),
        interval: difference.interval.map(turn_interval),
        noise: difference.noise.map(|noise| (-noise, noise)),
        unit: Some(clean_brief(&row.unit)),
        pairs: difference.pairs,
        p: difference.p,
        p_holm: difference.p_holm,
        machines: on_machines(&difference.machines, turn, turn_interval),
        machines_differ: difference.machines_differ,
        verdict: difference.verdict,
    })
}

fn on_machines(
    machines: &[MachineEffect],
    turn: impl Fn(f64) -> f64,
    turn_interval: impl Fn((f64, f64)) -> (f64, f64),
) -> Vec<OnMachine> {
    let machines = machines.iter();
    machines
        .map(|on| OnMachine {
            machine: on.machine,
            value: turn(on.centre),
            interval: on.interval.map(&turn_interval),
            pairs: on.pairs,
        })
        .collect()
}

/// A difference with the sign that makes positive better.
fn turned(row: &Row, difference: f64) -> f64 {
    match row.better {
        Better::Lower => -difference,
        Better::Higher => difference,
    }
}

impl Change {
    /// With sign and unit.
    pub fn text(&self) -> String {
        self.text_of(self.value)
    }

    /// Another value of the same kind, such as a machine's.
    pub fn text_of(&self, value: f64) -> String {
        match &self.unit {
            None => number::signed_percent(value),
            Some(unit) => format!("{} {unit}", number::signed_short(value)),
        }
    }

    /// `LOW .. HIGH`, in the unit of [`Change::text`].
    pub fn interval_text(&self) -> Option<String> {
        self.interval_text_of(self.interval)
    }

    pub fn interval_text_of(&self, interval: Option<(f64, f64)>) -> Option<String> {
        let (low, high) = interval?;
        let text = |value: f64| match self.unit {
            None => number::signed(value, 2),
            Some(_) => number::signed_short(value),
        };
        Some(format!("{} .. {}", text(low), text(high)))
    }

    /// The noise on the side of 0 that the change is on, without a sign.
    pub fn noise_text(&self) -> Option<String> {
        let (below, above) = self.noise?;
        let noise = if self.value < 0.0 { below } else { above }.abs();
        Some(match &self.unit {
            None => format!("{}%", number::fixed(noise, 2)),
            Some(_) => number::short(noise),
        })
    }

    /// Shown beyond chance, and not beyond the noise of an A/A arm, which alone takes the verdict back.
    pub fn is_within_noise(&self, row: &Row) -> bool {
        let is_shown = self.p_holm.is_some_and(|p| p <= SIGNIFICANT)
            && self
                .interval
                .is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        row.primary
            && self.verdict == Verdict::Undecided
            && !self.machines_differ
            && self.noise.is_some()
            && is_shown
    }

    /// The verdict in a word or two; secondary metrics have none.
    pub fn verdict_word(&self, row: &Row) -> &'static str {
        match self.verdict {
            _ if !row.primary => "-",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Undecided if self.machines_differ => "machines differ",
            Verdict::Undecided if self.is_within_noise(row) => "within noise",
            Verdict::Undecided => "undecided",
            Verdict::TooFew => "too few",
        }
    }

    /// Significant: a primary metric that was judged better or worse. This is what stars stand for.
    pub fn is_starred(&self, row: &Row) -> bool {
        row.primary && matches!(self.verdict, Verdict::Better | Verdict::Worse)
    }
}

/// A row's name, in words: benchmark, metric, unit.
pub fn row_label(row: &Row) -> String {
    let unit = match row.unit.is_empty() {
        true => String::new(),
        false => format!(" ({})", brief(&row.unit)),
    };
    clean(&format!(
        "{} {}{unit}",
        brief(&row.benchmark),
        brief(&row.metric)
    ))
}

/// A block's change, of the kind that [`change`] tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    pub machine: usize,
    pub block: u32,
    pub change: f64,
}

/// The change of every block in which both `arm` and the base have a value.
pub fn pairs(row: &Row, arm: usize) -> Vec<Pair> {
    let (Some(base), Some(of_arm)) = (summary(row, 0), summary(row, arm)) else {
        return Vec::new();
    };
    let are_differences = of_arm.difference.is_some();
    let base: BTreeMap<(usize, u32), f64> = base
        .values
        .iter()
        .map(|sample| ((sample.machine, sample.block), sample.value))
        .collect();
    let pairs = of_arm.values.iter().filter_map(|sample| {
        let base = base.get(&(sample.machine, sample.block))?;
        Some(Pair {
            machine: sample.machine,
            block: sample.block,
            change: match are_differences {
                true => turned(row, sample.value - base),
                false => number::change(row.better, sample.value / base),
            },
        })
    });
    pairs.filter(|pair| pair.change.is_finite()).collect()
}
