// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast replay FILE`: give what a trace recorded to the policy again.

use anyhow::{Result, bail};

use crate::cli::ReplayArgs;
use crate::output;
use crate::policy::record::Replay;
use crate::trace_file;

/// Mismatches that are printed; all are counted.
const SHOWN: u64 = 10;

/// `scx_ballast replay`.
///
/// # Errors
/// The file cannot be read, holds something else than a trace, or some decision is another one now.
pub fn run(args: &ReplayArgs) -> Result<()> {
    let name = trace_file::name_of(&args.file);
    let mut replay = Replay::default();
    trace_file::read(&args.file, |number, record| {
        let before = replay.mismatches;
        if let Err(why) = replay.check(record) {
            if replay.mismatches == before {
                bail!("{name}, line {number}: {why}");
            }
            if before < SHOWN {
                output::print(&format!("line {number}: {why}"))?;
            }
        }
        Ok(())
    })?;
    output::print(&format!(
        "{} fork placements, {} ticks with {} moves and {} steps of locality, {} pages brought; {} placements not recorded; {} mismatches",
        replay.forks,
        replay.ticks,
        replay.moves,
        replay.steps,
        replay.pages,
        replay.lost,
        replay.mismatches
    ))?;
    if replay.mismatches > 0 {
        bail!("the policy decides otherwise than the trace");
    }
    Ok(())
}
