// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast replay FILE`: give what a trace recorded to the policy again.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, Result, bail};

use crate::cli::ReplayArgs;
use crate::policy::record::{Record, Replay};

/// Mismatches that are printed; all are counted.
const SHOWN: u64 = 10;

/// `scx_ballast replay`.
///
/// # Errors
/// The file cannot be read, holds something else than a trace, or some decision is another one now.
pub fn run(args: &ReplayArgs) -> Result<()> {
    let name = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("cannot open {name}"))?;
    let mut replay = Replay::default();
    let mut out = std::io::stdout().lock();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let number = number + 1;
        let line = line.with_context(|| format!("cannot read {name}"))?;
        let record: Record = serde_json::from_str(&line)
            .with_context(|| format!("{name}, line {number}: not a record of a trace"))?;
        let before = replay.mismatches;
        if let Err(why) = replay.check(record) {
            if replay.mismatches == before {
                bail!("{name}, line {number}: {why}");
            }
            if before < SHOWN {
                writeln!(out, "line {number}: {why}")?;
            }
        }
    }
    writeln!(
        out,
        "{} fork placements, {} ticks with {} moves and {} steps of locality, {} pages brought; {} placements not recorded; {} mismatches",
        replay.forks,
        replay.ticks,
        replay.moves,
        replay.steps,
        replay.pages,
        replay.lost,
        replay.mismatches
    )?;
    if replay.mismatches > 0 {
        bail!("the policy decides otherwise than the trace");
    }
    Ok(())
}
