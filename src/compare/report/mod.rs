// SPDX-License-Identifier: GPL-2.0-only
//! Reports: what an [`Analysis`] and the records behind it say, for people and for programs.
//!
//! ```text
//! records + analysis ─▶ Model ─┬▶ parts ─▶ blocks ─┬▶ text
//!                              │                   └▶ Markdown
//!                              └▶ html (the same parts, with plots)
//! records + analysis ─────────────────────────────▶ JSON
//! ```
//!
//! | module | concern |
//! |---|---|
//! | [`args`] | the flags of `compare report`, and where a report goes |
//! | [`source`] | the files that a report is made from |
//! | [`model`] | records by machine, arm and benchmark; labels that are safe to print |
//! | [`evidence`] | counters of many runs as one fact, or why there is none |
//! | [`content`] | what a report is made of: headings, tables, notes |
//! | [`parts`] | the sections, each built once for all formats |
//! | [`text`], [`markdown`], [`html`], [`json`] | the formats |
//! | [`number`] | how numbers are written |
//!
//! What always holds:
//!
//! - A report computes no statistics: effects, intervals and verdicts are the analysis's. It pools
//!   evidence, and only as totals over totals.
//! - Machines are never pooled in a plot.
//! - Names, labels and reasons are hostile: control characters are shown, never sent to a terminal, and
//!   each format escapes what is special in it.

pub mod args;
pub mod content;
pub mod evidence;
pub mod html;
pub mod json;
pub mod markdown;
pub mod model;
pub mod number;
pub mod parts;
pub mod source;
pub mod text;

use clap::ValueEnum;

use super::analysis::Analysis;
use super::record::Record;
use model::Model;

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For a terminal.
    #[default]
    Table,
    Markdown,
    /// One document with every raw value, the plans and the analysis.
    Json,
    /// One page that needs nothing else, with plots.
    Html,
}

/// What a report is to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub format: Format,
    /// Minimum, maximum, spread and secondary effects too (table and Markdown; HTML has all, always).
    pub verbose: bool,
    /// Columns of the table.
    pub width: usize,
}

impl Style {
    /// `format`, compact, for 100 columns.
    pub fn new(format: Format) -> Self {
        Style {
            format,
            verbose: false,
            width: 100,
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("{machines} results files but {names} names for them")]
    Names { machines: usize, names: usize },
    #[error(
        "{0}: no plan in it, so its runs have no meaning; is it a results file of `compare`, with its first line?"
    )]
    NoPlan(String),
    #[error("no results file was given")]
    Nothing,
    #[error("cannot write the report as JSON")]
    Json(#[from] serde_json::Error),
}

/// The report on `machines`, the records of one results file each, called `names`.
pub fn render(
    style: Style,
    machines: &[Vec<Record>],
    names: &[String],
    analysis: &Analysis,
) -> Result<String, ReportError> {
    let model = Model::new(machines, names, analysis)?;
    Ok(match style.format {
        Format::Table => text::render(
            &parts::report(&model, style.verbose, style.verbose),
            style.width,
        ),
        Format::Markdown => markdown::render(&parts::report(&model, style.verbose, true)),
        Format::Json => json::render(machines, names, analysis)?,
        Format::Html => html::render(&model),
    })
}
