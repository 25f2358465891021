// SPDX-License-Identifier: GPL-2.0-only
//! The analysis from end to end: estimates of all rows, corrected together, then a verdict of each.

use std::collections::BTreeMap;

use crate::compare::record::{Better, Mean, Record};

use super::contrast::{Estimate, Scale, contrasts};
use super::describe::{mean, median, outliers, stddev};
use super::error::AnalysisError;
use super::family::{Corrected, correct, verdict};
use super::gather::{self, Gathered, Point, gather};
use super::machines::contradict;
use super::{
    Analysis, ArmSummary, Difference, Effect, MachineEffect, Row, Sample, SuiteSummary, warnings,
};

/// What a caller may choose; what it decides by, it may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Resamples of each interval. 20000 give its ends to a hundredth of its width.
    pub resamples: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { resamples: 20_000 }
    }
}

/// All that can be said about the records of one comparison, or of the same comparison on several
/// machines: one list of records for each results file.
pub fn analyse(machines: &[Vec<Record>]) -> Result<Analysis, AnalysisError> {
    analyse_with(machines, Settings::default())
}

/// [`analyse`] with other settings than the usual ones.
pub fn analyse_with(
    machines: &[Vec<Record>],
    settings: Settings,
) -> Result<Analysis, AnalysisError> {
    let gathered = gather(machines)?;
    let estimates: Vec<RowEstimates> = gathered
        .rows
        .iter()
        .map(|row| RowEstimates::of(&gathered, row, settings.resamples))
        .collect();
    let corrected = correct_families(&gathered, &estimates);
    let rows: Vec<Row> = gathered
        .rows
        .iter()
        .zip(&estimates)
        .enumerate()
        .map(|(index, (row, estimates))| describe_row(&gathered, index, row, estimates, &corrected))
        .collect();
    let suites = suites(&rows, gathered.merged.arms.len());
    let warnings = warnings::all(&gathered, &rows);
    let arms = gathered.merged.arms.into_iter();
    Ok(Analysis {
        arms: arms.map(|arm| arm.label).collect(),
        rows,
        suites,
        warnings,
    })
}

/// What is estimated of one row.
struct RowEstimates {
    scale: Scale,
    /// For each arm against the base.
    effects: Vec<Option<Estimate>>,
    /// For each arm what noise an interval has to be beyond: the largest median difference of an A/A
    /// arm of its own or of the base's.
    noise: Vec<Option<f64>>,
}

impl RowEstimates {
    fn of(gathered: &Gathered, row: &gather::Row, resamples: usize) -> Self {
        let arms = &gathered.merged.arms;
        let scale = Scale::of(row.arms.iter().flatten());
        let seeds: Vec<u64> = gathered.machines.iter().map(|m| m.plan.seed).collect();
        let estimate = |arm: usize, base: usize| {
            let names = [
                &row.benchmark,
                &row.metric.name,
                &arms[arm].label,
                &arms[base].label,
            ];
            let contrasts = contrasts(&row.arms[arm], &row.arms[base], scale);
            Estimate::of(&contrasts, resamples, &seeds, names.map(String::as_str))
        };
        // The base against itself would be an effect of exactly nothing.
        let effects: Vec<Option<Estimate>> = (0..arms.len())
            .map(|arm| (arm != 0).then(|| estimate(arm, 0))?)
            .collect();
        let twins = (0..arms.len()).filter_map(|twin| {
            let original = arms[twin].twin_of?;
            let noise = match original {
                0 => effects[twin].clone(),
                _ => estimate(twin, original),
            };
            Some((original, noise?.farthest()))
        });
        let twins: Vec<(usize, f64)> = twins.collect();
        let noise = (0..arms.len()).map(|arm| {
            let of_arm = twins.iter().filter(|(of, _)| *of == 0 || *of == arm);
            let judged = arms[arm].twin_of.is_none();
            judged.then(|| of_arm.map(|(_, noise)| *noise).reduce(f64::max))?
        });
        RowEstimates {
            scale,
            effects,
            noise: noise.collect(),
        }
    }
}

/// The corrected p of each question that was declared, by row and arm.
type CorrectedBy = BTreeMap<(usize, usize), Corrected>;

/// Two families: every primary metric of every arm that is no copy, and every primary metric of the
/// copies of the base. The second asks whether the machine is steady, not whether an arm is better, so
/// it takes nothing from the first.
fn correct_families(gathered: &Gathered, estimates: &[RowEstimates]) -> CorrectedBy {
    let mut corrected = CorrectedBy::new();
    for copies in [false, true] {
        let arms = || gathered.merged.arms.iter().enumerate().skip(1);
        let in_family = |twin_of: Option<usize>| match copies {
            false => twin_of.is_none(),
            true => twin_of == Some(0),
        };
        let mut keys = Vec::new();
        let mut family = Vec::new();
        for (row, row_estimates) in estimates.iter().enumerate() {
            if !gathered.rows[row].metric.primary {
                continue;
            }
            for (arm, _) in arms().filter(|(_, arm)| in_family(arm.twin_of)) {
                if let Some(estimate) = &row_estimates.effects[arm] {
                    keys.push((row, arm));
                    family.push(estimate);
                }
            }
        }
        corrected.extend(keys.into_iter().zip(correct(&family)));
    }
    corrected
}

fn describe_row(
    gathered: &Gathered,
    index: usize,
    row: &gather::Row,
    estimates: &RowEstimates,
    corrected: &CorrectedBy,
) -> Row {
    let metric = &row.metric;
    let positive = estimates.scale == Scale::Ratio;
    // Rates of 0 have no harmonic mean.
    let mean = match positive {
        true => metric.mean,
        false => Mean::Arithmetic,
    };
    let arms = (0..gathered.merged.arms.len()).map(|arm| {
        let mut summary = describe_arm(&row.arms[arm], mean)?;
        if let Some(estimate) = &estimates.effects[arm] {
            let judged = Judged {
                estimate,
                noise: estimates.noise[arm],
                corrected: corrected.get(&(index, arm)).copied(),
                better: metric.better,
            };
            match estimates.scale {
                Scale::Ratio => summary.effect = Some(judged.effect()),
                Scale::Difference => summary.difference = Some(judged.difference()),
            }
        }
        Some(summary)
    });
    Row {
        suite: row.suite.clone(),
        benchmark: row.benchmark.clone(),
        metric: metric.name.clone(),
        unit: metric.unit.clone(),
        better: metric.better,
        mean,
        primary: metric.primary,
        arms: arms.collect(),
    }
}

/// The values of one arm by themselves; none without a value.
fn describe_arm(points: &[Point], how: Mean) -> Option<ArmSummary> {
    if points.is_empty() {
        return None;
    }
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let samples = points.iter().zip(outliers(points));
    let samples = samples.map(|(point, outlier)| Sample {
        machine: point.machine,
        block: point.block,
        value: point.value,
        outlier,
    });
    Some(ArmSummary {
        values: samples.collect(),
        mean: mean(&values, how),
        median: median(&values),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        stddev: stddev(points),
        effect: None,
        difference: None,
    })
}

/// An estimate and all that decides what is said of it.
struct Judged<'a> {
    estimate: &'a Estimate,
    noise: Option<f64>,
    corrected: Option<Corrected>,
    better: Better,
}

impl Judged<'_> {
    fn verdict(&self) -> super::Verdict {
        let noise = self.noise.unwrap_or(0.0);
        verdict(self.estimate, self.corrected, noise, self.better)
    }

    fn machines_differ(&self) -> bool {
        contradict(&self.estimate.machines, self.noise.unwrap_or(0.0))
    }

    /// Each machine, its numbers as `back` takes them from the scale.
    fn machines(
        &self,
        back: impl Fn(f64) -> f64,
        change: impl Fn(f64) -> Option<f64>,
    ) -> Vec<MachineEffect> {
        let machines = self.estimate.machines.iter();
        machines
            .map(|on| MachineEffect {
                machine: on.machine,
                pairs: on.pairs,
                centre: back(on.median),
                interval: on.interval.map(|(low, high)| (back(low), back(high))),
                change: change(back(on.median)),
            })
            .collect()
    }

    fn effect(&self) -> Effect {
        let estimate = self.estimate;
        let ratio = estimate.median.exp();
        Effect {
            pairs: estimate.pairs,
            ratio,
            interval: estimate.interval.map(|(low, high)| (low.exp(), high.exp())),
            change: change(self.better, ratio),
            p: Some(estimate.p),
            p_holm: self.corrected.map(|corrected| corrected.p),
            noise: self.noise.map(f64::exp),
            machines: self.machines(f64::exp, |centre| Some(change(self.better, centre))),
            machines_differ: self.machines_differ(),
            verdict: self.verdict(),
        }
    }

    fn difference(&self) -> Difference {
        let estimate = self.estimate;
        Difference {
            pairs: estimate.pairs,
            median: estimate.median,
            interval: estimate.interval,
            p: Some(estimate.p),
            p_holm: self.corrected.map(|corrected| corrected.p),
            noise: self.noise,
            machines: self.machines(|centre| centre, |_| None),
            machines_differ: self.machines_differ(),
            verdict: self.verdict(),
        }
    }
}

/// Change in %, positive is better: of a time as (old - new) / old, of a rate as (new - old) / old, as
/// kernel people write it. `ratio` is new / old.
pub fn change(better: Better, ratio: f64) -> f64 {
    match better {
        Better::Lower => (1.0 - ratio) * 100.0,
        Better::Higher => (ratio - 1.0) * 100.0,
    }
}

/// The direction of all of `rows` that have an effect of `arm`, if it is one.
fn direction<'a>(rows: impl Iterator<Item = &'a Row>, arm: usize) -> Option<Better> {
    let mut directions = rows
        .filter(|row| row.arms[arm].as_ref().is_some_and(|it| it.effect.is_some()))
        .map(|row| row.better);
    let first = directions.next()?;
    directions.all(|other| other == first).then_some(first)
}

/// Each suite, in the order of rows, and in it each arm that has an effect.
fn suites(rows: &[Row], arms: usize) -> Vec<SuiteSummary> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.suite.as_str()) {
            names.push(&row.suite);
        }
    }
    let mut suites = Vec::new();
    for suite in names {
        let of_suite = || rows.iter().filter(|row| row.suite == suite);
        let primaries = of_suite().any(|row| row.primary);
        for arm in 1..arms {
            let counted = || of_suite().filter(|row| row.primary || !primaries);
            let logs: Vec<f64> = counted()
                .filter_map(|row| {
                    let effect = row.arms[arm].as_ref()?.effect.as_ref()?;
                    Some(match row.better {
                        Better::Higher => effect.ratio.ln(),
                        Better::Lower => -effect.ratio.ln(),
                    })
                })
                .collect();
            if logs.is_empty() {
                continue;
            }
            let geomean = mean(&logs, Mean::Arithmetic).exp();
            suites.push(SuiteSummary {
                suite: suite.to_owned(),
                arm,
                geomean,
                // Of the ratios as they are, not turned: 41 % faster is 29 % less time.
                change: direction(counted(), arm).map(|better| match better {
                    Better::Higher => change(better, geomean),
                    Better::Lower => change(better, 1.0 / geomean),
                }),
                rows: logs.len(),
            });
        }
    }
    suites
}
