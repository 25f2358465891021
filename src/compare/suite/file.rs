// SPDX-License-Identifier: GPL-2.0-only
//! A suite file's shape, as TOML has it. What the keys mean is in docs/suites.md; whether they make
//! sense together is [`super::check`]'s concern. Unknown keys are errors: a misspelt one would
//! silently change what is measured.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::compare::record::{Better, Mean, Pick};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SuiteFile {
    pub name: Spanned<String>,
    pub description: Spanned<String>,
    /// What benchmarks may need, by a name that they refer to.
    #[serde(default)]
    pub needs: BTreeMap<String, Spanned<Need>>,
    /// What benchmarks may print, by the metric's name.
    #[serde(default)]
    pub metrics: BTreeMap<String, Spanned<MetricEntry>>,
    #[serde(default)]
    pub benchmark: Vec<BenchmarkEntry>,
}

/// Something that has to be there, and where to get it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Need {
    /// A program in PATH, or with a path of its own.
    pub program: Option<String>,
    pub file: Option<String>,
    pub get: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricEntry {
    pub unit: String,
    pub better: Better,
    /// By the direction if not given: rates harmonic, times arithmetic.
    pub mean: Option<Mean>,
    pub pattern: Spanned<String>,
    #[serde(default)]
    pub pick: Pick,
    pub scale: Option<Spanned<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BenchmarkEntry {
    pub name: Spanned<String>,
    pub command: Spanned<String>,
    #[serde(default)]
    pub needs: Vec<Spanned<String>>,
    pub timeout_s: Spanned<u64>,
    pub scale: Option<Spanned<ScaleEntry>>,
    #[serde(default)]
    pub least: Least,
    #[serde(default)]
    pub below: Below,
    pub metrics: Spanned<Vec<Spanned<String>>>,
    /// Which of the metrics are primary.
    #[serde(default)]
    pub primary: Vec<Spanned<String>>,
    pub placement: Option<Spanned<String>>,
}

/// What makes several benchmarks of one: words, numbers, or numbers that double.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleEntry {
    pub name: String,
    pub words: Option<Vec<String>>,
    pub values: Option<Vec<Number>>,
    pub from: Option<Number>,
    pub to: Option<Number>,
    /// Where the benchmark's primary metrics are primary.
    #[serde(default)]
    pub primary_at: Vec<Number>,
}

/// What a machine must have.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Least {
    pub nodes: Option<Spanned<Number>>,
    pub cpus: Option<Spanned<Number>>,
    pub memory_mib: Option<Spanned<Number>>,
    pub open_files: Option<Spanned<Number>>,
}

/// What a machine must have less than.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Below {
    pub nodes: Option<Spanned<Number>>,
    pub cpus: Option<Spanned<Number>>,
    pub memory_mib: Option<Spanned<Number>>,
}

/// A number, or an expression that gives one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a whole number or an expression in quotes"
)]
pub(super) enum Number {
    Plain(u64),
    Text(String),
}

impl Number {
    pub(super) fn text(&self) -> String {
        match self {
            Number::Plain(number) => number.to_string(),
            Number::Text(text) => text.clone(),
        }
    }
}
