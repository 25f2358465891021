// SPDX-License-Identifier: GPL-2.0-only
//! One JSON document with everything: every record of every results file, and the analysis.

use serde::{Deserialize, Serialize};

use crate::compare::analysis::Analysis;
use crate::compare::record::{FORMAT, Record};

/// What the document says it is.
pub const KIND: &str = "scx_ballast compare report";

/// The document. Keys are added over time, never renamed or removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    pub kind: String,
    /// As in [`crate::compare::record::Plan::format`].
    pub format: u32,
    pub machines: Vec<Machine>,
    pub analysis: Analysis,
}

/// A results file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub name: String,
    /// As they stand in the file: plan, runs, discarded runs.
    pub records: Vec<Record>,
}

pub fn render(
    machines: &[Vec<Record>],
    names: &[String],
    analysis: &Analysis,
) -> Result<String, serde_json::Error> {
    let document = Document {
        kind: KIND.to_owned(),
        format: FORMAT,
        machines: machines
            .iter()
            .zip(names)
            .map(|(records, name)| Machine {
                name: name.clone(),
                records: records.clone(),
            })
            .collect(),
        analysis: analysis.clone(),
    };
    let mut text = serde_json::to_string_pretty(&document)?;
    text.push('\n');
    Ok(text)
}
