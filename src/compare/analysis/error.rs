// SPDX-License-Identifier: GPL-2.0-only
//! Why records cannot be analysed: they are no comparison, or not of the same things.
//!
//! Files are counted from 1, records from 1, as people count them and as lines are.

use thiserror::Error;

use crate::compare::record::FORMAT;

#[derive(Debug, Clone, PartialEq, Error)]
pub enum AnalysisError {
    #[error("no results file was given")]
    NoFile,
    #[error(
        "results file {file} does not begin with a plan; it is no results file of scx_ballast compare, or its first line is gone"
    )]
    NoPlan { file: usize },
    #[error(
        "results file {file}: record {record} is a second plan; give each comparison a file of its own"
    )]
    SecondPlan { file: usize, record: usize },
    #[error(
        "results file {file} has format {format}, this scx_ballast reads up to {FORMAT}; use a newer one"
    )]
    NewerFormat { file: usize, format: u32 },
    #[error("results file {file}: the plan has no arms")]
    NoArms { file: usize },
    #[error("results file {file}: the plan has two {what} named {name:?}")]
    NotUnique {
        file: usize,
        what: &'static str,
        name: String,
    },
    #[error(
        "results file {file}: the arm {arm:?} is said to be a copy of arm {of}, which is not another arm that is no copy"
    )]
    BadTwin { file: usize, arm: String, of: usize },
    #[error(
        "results file {file}: record {record} is of {what} {index}, of which the plan knows nothing"
    )]
    NotPlanned {
        file: usize,
        record: usize,
        what: &'static str,
        index: usize,
    },
    #[error(
        "results file {file}: record {record} has no value of {metric:?}; a run without all its values is none"
    )]
    MissingValue {
        file: usize,
        record: usize,
        metric: String,
    },
    #[error(
        "results file {file}: record {record} has {value} for {metric:?}, which cannot have been measured"
    )]
    UnfitValue {
        file: usize,
        record: usize,
        metric: String,
        value: f64,
    },
    #[error(
        "results file {file}: record {record} is a second run of {benchmark:?} under {arm:?} in block {block}; remove the one that does not count"
    )]
    Twice {
        file: usize,
        record: usize,
        benchmark: String,
        arm: String,
        block: u32,
    },
    #[error(
        "results files {first} and {second} are the same comparison; give it once, its blocks would count twice"
    )]
    SameComparison { first: usize, second: usize },
    #[error(
        "results file {file} compares with {found:?}, the files before with {expected:?}: not the same base"
    )]
    BaseDiffers {
        file: usize,
        found: String,
        expected: String,
    },
    #[error(
        "results file {file}: the arm {arm:?} is not a copy of the same arm as in the files before"
    )]
    TwinDiffers { file: usize, arm: String },
    #[error(
        "results file {file}: {name:?} is not what it is in the files before: its {what} differs"
    )]
    BenchmarkDiffers {
        file: usize,
        name: String,
        what: &'static str,
    },
}
