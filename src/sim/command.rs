// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast simulate`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::args::SimulateArgs;
use super::hardware::{Hardware, Params};
use super::report::Report;
use super::runs::Job;
use crate::cli::Format;
use crate::policy::record::Record;

/// Run the workload, and print what came of it.
///
/// # Errors
/// The machine cannot be had, the workload does not come to its end, or something cannot be written.
pub fn run(args: &SimulateArgs) -> Result<()> {
    let machine = args.machine.read()?;
    let hw = Hardware::new(&machine, Params::default());
    let setup = args.setup(&hw.nodes);
    let plan = args.workload.plan();
    let job = Job {
        hw: &hw,
        setup: &setup,
        plan: &plan,
        most_ns: args.limit_s * 1_000_000_000,
    };
    if let Some(file) = &args.trace {
        write_trace(file, &job.run_recorded(args.seed)?.1)?;
    }
    let outcomes = job.run_many(args.seed, args.runs)?;
    let report = Report::new(&args.workload, &hw, &setup, &outcomes);
    let text = match args.format {
        Format::Text => report.text(),
        Format::Json => serde_json::to_string_pretty(&report)? + "\n",
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

fn write_trace(path: &Path, records: &[Record]) -> Result<()> {
    let name = path.display();
    let file = File::create(path).with_context(|| format!("cannot create {name}"))?;
    let mut file = BufWriter::new(file);
    for record in records {
        serde_json::to_writer(&mut file, record)
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(writeln!(file)?))
            .with_context(|| format!("cannot write {name}"))?;
    }
    file.flush().with_context(|| format!("cannot write {name}"))
}
