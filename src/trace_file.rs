// SPDX-License-Identifier: GPL-2.0-only
//! Reading what `--trace` has written.
//!
//! A trace begins with a header: a file without one is no trace. The scheduler may have been killed in the middle
//! of its last line, and what comes before that is as good as ever: the last line alone may be incomplete.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::policy::record::Record;

/// Give each record to `take`, with its line.
///
/// # Errors
/// The file cannot be read or is no trace, or `take` has one; all but that of `take` say where.
pub fn read(path: &Path, mut take: impl FnMut(usize, Record) -> Result<()>) -> Result<()> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let (mut file, mut text, mut number) = (BufReader::new(file), String::new(), 0);
    loop {
        text.clear();
        let length = file.read_line(&mut text);
        if length.with_context(|| format!("cannot read {name}"))? == 0 {
            break;
        }
        let record = match serde_json::from_str(&text) {
            Ok(record) => record,
            Err(error) if error.is_eof() && number > 0 && !text.ends_with('\n') => {
                log::warn!("{name}: the last line is incomplete and left out");
                return Ok(());
            }
            Err(error) => bail!(
                "{name}, line {}: not a record of a trace: {error}",
                number + 1
            ),
        };
        number += 1;
        if number == 1 && !matches!(record, Record::Header(_)) {
            bail!(
                "{name}: there is no header in its first line; expected what `scx_ballast --trace FILE` writes"
            );
        }
        take(number, record)?;
    }
    if number == 0 {
        bail!("{name} is empty; expected what `scx_ballast --trace FILE` writes");
    }
    Ok(())
}
