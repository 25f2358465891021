// SPDX-License-Identifier: GPL-2.0-only
//! From records to effects with intervals and verdicts.
//!
//! Values are compared in pairs, block by block, as log-ratios to the base arm; several machines are
//! strata: a block is paired with itself, never pooled with another machine's.
//!
//! ```text
//! records ─▶ merge ─▶ gather ─▶ contrast ─┬─▶ permutation (p) ──▶ family (Holm) ─┬─▶ verdict ─▶ rows
//!                        │                └─▶ bootstrap (interval, A/A noise) ───┘
//!                        └─▶ describe (mean, median, outliers)
//! ```
//!
//! What always holds:
//!
//! - The same records give the same [`Analysis`], to the last bit: random numbers come from the plan's
//!   seed and the names of what is compared, and nothing is iterated over in the order of a hash.
//! - Better or worse is said of a declared metric alone, after Holm's correction, and only of an
//!   interval that lies beyond what two copies of one arm differed by.
//! - docs/statistics.md says what was chosen and why, with the measured rates of error.

mod bootstrap;
mod brief;
mod contrast;
mod describe;
mod error;
mod family;
mod gather;
mod judge;
mod machines;
mod merge;
mod permutation;
mod random;
mod warnings;

pub use bootstrap::MIN_PAIRS;
pub use brief::{brief, cut};
pub use error::AnalysisError;
pub use family::{SIGNIFICANT, TooFewBlocks};
pub use judge::{Settings, analyse, analyse_with, change};

use serde::{Deserialize, Serialize};

use super::record::{Better, Mean};

/// All that is said about a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// Labels; the first is the base.
    pub arms: Vec<String>,
    /// For each metric of each benchmark, in the plan's order.
    pub rows: Vec<Row>,
    /// For each suite and arm but the base.
    pub suites: Vec<SuiteSummary>,
    /// What a reader has to know first: too few blocks, no A/A arm, unfinished, ...
    pub warnings: Vec<String>,
}

/// One metric of one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub suite: String,
    pub benchmark: String,
    pub metric: String,
    pub unit: String,
    pub better: Better,
    pub mean: Mean,
    pub primary: bool,
    /// One for each arm, in the order of the arms; none for an arm without a run.
    pub arms: Vec<Option<ArmSummary>>,
}

/// Values of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// In the order of machines and blocks.
    pub values: Vec<Sample>,
    pub mean: f64,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Sample standard deviation, over several machines that within them; none for a single value.
    pub stddev: Option<f64>,
    /// Against the base; none for the base itself, without a common block, and where `difference` is.
    pub effect: Option<Effect>,
    /// Instead of `effect` in rows with a value of 0 or below, of which there are no ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Index into the files that were given.
    pub machine: usize,
    pub block: u32,
    pub value: f64,
    /// Beyond Tukey's fences among the values of its arm and machine: marked, never dropped.
    pub outlier: bool,
}

/// How an arm differs from the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Pairs that it rests on.
    pub pairs: usize,
    /// Median of the paired ratios, as value of the arm / value of the base.
    pub ratio: f64,
    /// 95 % interval of the centre of the ratios, by bootstrap; contains `ratio` and what machines say that
    /// exclude it; none for too few pairs.
    pub interval: Option<(f64, f64)>,
    /// Change in %, positive is better whatever the metric.
    pub change: f64,
    /// Of the paired permutation test, two-sided.
    pub p: Option<f64>,
    /// The same after Holm's correction over the primary metrics; none for secondary ones. A/A arms are
    /// corrected among themselves.
    pub p_holm: Option<f64>,
    /// Median ratio, turned to above 1, of the A/A arm to its original: an interval has to lie beyond
    /// it. None without an A/A arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Each machine by itself; empty with a single one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineEffect>,
    /// Whether one machine is better and another worse, each beyond its own spread and the noise: there is
    /// no common effect then, and no verdict.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub machines_differ: bool,
    pub verdict: Verdict,
}

/// How an arm differs from the base where ratios are impossible, in the unit of the metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub pairs: usize,
    /// Median of the paired differences, value of the arm - value of the base.
    pub median: f64,
    /// As [`Effect::interval`], of the differences.
    pub interval: Option<(f64, f64)>,
    pub p: Option<f64>,
    pub p_holm: Option<f64>,
    /// Median difference, without its sign, of the A/A arm to its original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Each machine by itself; empty with a single one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineEffect>,
    /// Whether one machine is better and another worse, each beyond its own spread and the noise: there is
    /// no common effect then, and no verdict.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub machines_differ: bool,
    pub verdict: Verdict,
}

/// What one machine of several says of an effect or a difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineEffect {
    /// Index into the files that were given.
    pub machine: usize,
    pub pairs: usize,
    /// As [`Effect::ratio`] or [`Difference::median`].
    pub centre: f64,
    /// Of the centre; none for too few pairs.
    pub interval: Option<(f64, f64)>,
    /// Change in %, positive is better; none of a difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
}

/// What may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Better,
    Worse,
    /// No difference was shown; that is not the same as equal.
    Undecided,
    /// So few blocks that chance could not be excluded whatever the values are.
    TooFew,
}

/// One arm over a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteSummary {
    pub suite: String,
    pub arm: usize,
    /// Geometric mean over the primary metrics (all, if none is primary) of value ratios, turned so that
    /// above 1 is better.
    pub geomean: f64,
    /// The geometric mean as a change in %, as [`Effect::change`]; none if lower is better in some of the
    /// metrics and higher in others, as these have no common definition of a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
    /// Metrics that it rests on: those with an effect.
    pub rows: usize,
}
