// SPDX-License-Identifier: GPL-2.0-only
//! Reading what `--trace` has written.
//!
//! A trace begins with a header: a file without one is no trace. The scheduler may have been killed in the middle
//! of its last line, and what comes before that is as good as ever: the last line alone may be incomplete.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

use crate::policy::observation::Shape;
use crate::policy::possible;
use crate::policy::record::{FORMAT, Record};

/// Give each record to `take`, with its line. Its numbers are possible ([`possible`]).
///
/// # Errors
/// The file cannot be read or is no trace, or `take` has one; all but that of `take` say where.
pub fn read(path: &Path, take: impl FnMut(usize, Record) -> Result<()>) -> Result<()> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    read_from(&name, BufReader::new(file), take)
}

/// The same from any text, which is called `name` in messages.
///
/// # Errors
/// As [`read`].
pub fn read_from(
    name: &str,
    mut file: impl BufRead,
    mut take: impl FnMut(usize, Record) -> Result<()>,
) -> Result<()> {
    let (mut text, mut number) = (String::new(), 0);
    let mut shape: Option<Shape> = None;
    loop {
        text.clear();
        let length = file.read_line(&mut text);
        if length.with_context(|| format!("cannot read {name}"))? == 0 {
            break;
        }
        number += 1;
        let record = match serde_json::from_str(&text) {
            Ok(record) => record,
            Err(error) if error.is_eof() && number > 1 && !text.ends_with('\n') => {
                // Not the log: the commands that read traces start none. Not eprintln!, which panics when nobody
                // can read it.
                let _ = writeln!(
                    std::io::stderr(),
                    "{name}: the last line is incomplete and left out"
                );
                return Ok(());
            }
            Err(error) => bail!("{name}, line {number}: not a record of a trace: {error}"),
        };
        match &record {
            // Another format may count otherwise, and is refused by who takes it.
            Record::Header(header) if header.format == FORMAT => shape = Some(header.shape.clone()),
            Record::Header(_) => {
                take(number, record)?;
                continue;
            }
            _ if number == 1 => bail!(
                "{name}: there is no header in its first line; expected what `scx_ballast --trace FILE` writes"
            ),
            _ => {}
        }
        let checked = possible::check(&record, shape.as_ref());
        checked.map_err(|why| anyhow!("{name}, line {number}: {why}"))?;
        take(number, record)?;
    }
    if number == 0 {
        bail!("{name} is empty; expected what `scx_ballast --trace FILE` writes");
    }
    Ok(())
}
