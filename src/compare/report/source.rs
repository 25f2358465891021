// SPDX-License-Identifier: GPL-2.0-only
//! What reports are made from: results files, and JSON reports, which hold the same records.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::json::{Document, KIND, Machine};
use crate::compare::record::FORMAT;
use crate::compare::results;

/// The machines that `path` tells of: one for a results file, any number for a JSON report.
pub fn read(path: &Path) -> Result<Vec<Machine>> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    match serde_json::from_slice::<Document>(&text) {
        Ok(document) if document.kind == KIND => checked(path, document),
        // Not one JSON value with these keys: a results file, or something that its reader explains.
        _ => Ok(vec![Machine {
            name: path.display().to_string(),
            records: results::read(path)?,
        }]),
    }
}

fn checked(path: &Path, document: Document) -> Result<Vec<Machine>> {
    if document.format > FORMAT {
        bail!(
            "{} is of format {}, this program knows up to {FORMAT}: use a newer scx_ballast",
            path.display(),
            document.format
        );
    }
    Ok(document.machines)
}
