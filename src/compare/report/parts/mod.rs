// SPDX-License-Identifier: GPL-2.0-only
//! The sections of a report, each built once; the formats only write them down.

pub mod effects;
pub mod evidence;
pub mod guide;
pub mod placement;
pub mod results;
pub mod setting;
pub mod verdict;

use super::content::Block;
use super::model::Model;

/// The whole report for formats without plots; with `machines` each machine's effects are told.
pub fn report(model: &Model, verbose: bool, machines: bool) -> Vec<Block> {
    let mut blocks = vec![Block::Title(setting::title(model))];
    blocks.extend(warnings(model));
    blocks.extend(setting::arms(model));
    for suite in model.suites() {
        blocks.push(Block::Heading(format!(
            "Suite {}",
            results::suite_name(suite)
        )));
        blocks.push(Block::Table(results::table(model, suite, verbose)));
    }
    blocks.push(Block::Paragraph(results::LEGEND.to_owned()));
    blocks.extend(effects::section(model, verbose, machines));
    blocks.extend(evidence::section(model, verbose));
    blocks.extend(placement::section(model));
    blocks.extend(setting::environment(model, verbose));
    blocks.extend(setting::skipped(model));
    blocks.extend(setting::discarded(model, verbose));
    if verbose {
        blocks.push(Block::Heading("What each number means".to_owned()));
        blocks.push(Block::List(guide::plain()));
    }
    blocks.push(Block::Heading("Verdict".to_owned()));
    blocks.extend(verdict::all(model).into_iter().map(Block::Verdict));
    blocks
}

fn warnings(model: &Model) -> Vec<Block> {
    let warnings = model.analysis.warnings.iter();
    warnings
        .map(|warning| Block::Warning(super::content::clean(warning)))
        .collect()
}
