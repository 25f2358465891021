// SPDX-License-Identifier: GPL-2.0-only
//! Reading what `--trace` has written.
//!
//! A trace begins with a header: a file without one is no trace. The scheduler may have been killed in the middle
//! of its last line, and what comes before that is as good as ever: the last line alone may be incomplete.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

use crate::output::is_dash;
use crate::policy::observation::Shape;
use crate::policy::possible;
use crate::policy::record::{Record, check_format};
use crate::text;

/// No line is longer: of a tick with all tasks that `--max-tasks` can ask for each has 256 bytes.
const LONGEST: u64 = 1 << 30;

/// What a trace is called in messages: its file, or standard input for `-`.
pub fn name_of(path: &Path) -> String {
    match is_dash(path) {
        true => "standard input".into(),
        false => path.display().to_string(),
    }
}

/// Give each record to `take`, with its line; `-` is standard input. The format is this version's, and all numbers are
/// possible ([`possible`]).
///
/// # Errors
/// The file cannot be read or is no trace, or `take` has one; all but that of `take` say where.
pub fn read(path: &Path, take: impl FnMut(usize, Record) -> Result<()>) -> Result<()> {
    let name = name_of(path);
    if is_dash(path) {
        return read_from(&name, std::io::stdin().lock(), take);
    }
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
    let (mut line, mut number) = (String::new(), 0);
    let mut shape: Option<Shape> = None;
    loop {
        number += 1;
        text::read_line(&mut file, LONGEST, &mut line).with_context(|| match number {
            1 => format!("cannot read {name}"),
            _ => format!("cannot read {name}, line {number}"),
        })?;
        if line.is_empty() {
            break;
        }
        let record = match serde_json::from_str(line.trim_end()) {
            Ok(record) => record,
            Err(error) if error.is_eof() && number > 1 && !line.ends_with('\n') => {
                // Not the log: the commands that read traces start none. Not eprintln!, which panics when nobody
                // can read it.
                let _ = writeln!(
                    std::io::stderr(),
                    "{name}: the last line is incomplete and left out"
                );
                return Ok(());
            }
            Err(_) if line.trim().is_empty() => {
                bail!("{name}, line {number}: it is empty, and no record of a trace")
            }
            Err(error) => {
                let what = told(&error);
                let expected = match number {
                    1 => "; expected what `scx_ballast --trace FILE` writes",
                    _ => "",
                };
                bail!("{name}, line {number}: not a record of a trace: {what}{expected}")
            }
        };
        match &record {
            Record::Header(header) => {
                let checked = check_format(header);
                checked.map_err(|why| anyhow!("{name}, line {number}: {why}"))?;
                shape = Some(header.shape.clone());
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
    if number == 1 {
        bail!("{name} is empty; expected what `scx_ballast --trace FILE` writes");
    }
    Ok(())
}

/// What is wrong in a line, and where in it: to the parser each line is the first of a file.
fn told(error: &serde_json::Error) -> String {
    let (said, byte) = (error.to_string(), error.column());
    let end = format!(" at line {} column {byte}", error.line());
    match said.strip_suffix(&end) {
        Some(what) => format!("{what} (byte {byte})"),
        None => said,
    }
}
