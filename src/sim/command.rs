// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast simulate`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::args::SimulateArgs;
use super::files;
use super::hardware::{Hardware, Params};
use super::plot;
use super::report::Report;
use super::runs::Job;
use super::source::{Loaded, Source};
use super::sweep::{self, Ground, Sweep, SweepReport};
use crate::cli::{Format, PolicyArgs, UsageError};
use crate::machine::describe;
use crate::policy::record::Record;

/// Run the workload, and print what came of it.
///
/// # Errors
/// The machine cannot be had, the workload does not come to its end, or something cannot be written.
pub fn run(args: &SimulateArgs) -> Result<()> {
    check_dashes(args)?;
    files::check(args)?;
    let machine = args.machine.read()?;
    for warning in machine.warnings() {
        // Not eprintln!, which panics when nobody can read it.
        let _ = writeln!(std::io::stderr(), "machine: {warning}");
    }
    let hw = Hardware::new(&machine, Params::default());
    let setup = args.setup_with(&args.policy, &hw.nodes);
    let Loaded { plan, note } = args.workload.load(&hw)?;
    if let Some(note) = note {
        let _ = writeln!(std::io::stderr(), "{note}");
    }
    let job = Job {
        hw: &hw,
        setup: &setup,
        plan: &plan,
        most_ns: args.limit_s * 1_000_000_000,
    };
    let text = match &args.sweep {
        Some(sweep) => run_sweep(args, sweep, &job)?,
        None => run_once(args, &job)?,
    };
    match [&args.trace, &args.svg].into_iter().flatten().any(is_dash) {
        // It has the file, and nothing else.
        true => Ok(()),
        false => write_all(&dash(), text.as_bytes()),
    }
}

/// `-`: standard input or output.
fn dash() -> PathBuf {
    PathBuf::from("-")
}

fn is_dash(path: &PathBuf) -> bool {
    *path == dash()
}

/// A file, or standard output for `-`, and what it is called in messages.
fn open(path: &Path) -> Result<(Box<dyn Write>, String)> {
    if path == dash() {
        return Ok((Box::new(std::io::stdout().lock()), "standard output".into()));
    }
    let name = path.display().to_string();
    let file = File::create(path).with_context(|| format!("cannot write {name}"))?;
    Ok((Box::new(BufWriter::new(file)), name))
}

fn write_all(path: &Path, text: &[u8]) -> Result<()> {
    let (mut out, name) = open(path)?;
    out.write_all(text)
        .and_then(|()| out.flush())
        .with_context(|| format!("cannot write {name}"))
}

/// Standard input and output have room for one thing.
fn check_dashes(args: &SimulateArgs) -> Result<()> {
    let from_input = match &args.workload {
        Source::File(path) | Source::Trace(path) => is_dash(path),
        Source::BuiltIn(_) => false,
    };
    if from_input && args.machine.machine == Some(describe::Source::Stdin) {
        let workload = &args.workload;
        let what = format!(
            "--machine - and --workload {workload} both read standard input; name a file for one of them"
        );
        return Err(UsageError::new(what).into());
    }
    let outputs = [("--trace -", &args.trace), ("--svg -", &args.svg)];
    let outputs = outputs
        .iter()
        .filter(|(_, path)| path.as_ref().is_some_and(is_dash));
    let mut all: Vec<&str> = outputs.map(|(flag, _)| *flag).collect();
    if args.format == Format::Json && !all.is_empty() {
        all.push("--format json");
    }
    match all[..] {
        [] | [_] => Ok(()),
        _ => {
            let all = all.join(" and ");
            let what = format!("{all} all go to standard output; name a file for all but one");
            Err(UsageError::new(what).into())
        }
    }
}

/// All runs of one set of flags.
fn run_once(args: &SimulateArgs, job: &Job<'_>) -> Result<String> {
    if let Some(file) = &args.trace {
        write_trace(file, &job.run_recorded(args.seed)?.1)?;
    }
    let outcomes = job.run_many(args.seed, args.runs)?;
    let report = Report::new(args.workload.to_string(), job.hw, job.setup, &outcomes);
    if let (Some(file), Some(first)) = (&args.svg, outcomes.first()) {
        let text = plot::svg(&report.title(), job.hw, first);
        write_all(file, text.as_bytes())?;
    }
    Ok(match args.format {
        Format::Text => report.text(),
        Format::Json => serde_json::to_string_pretty(&report)? + "\n",
    })
}

/// All runs of all of a flag's values.
fn run_sweep(args: &SimulateArgs, sweep: &Sweep, job: &Job<'_>) -> Result<String> {
    let setup = |policy: &PolicyArgs| args.setup_with(policy, &job.hw.nodes);
    let confined = !job.plan.sets.is_empty();
    let points = sweep.points(&args.policy, setup, confined);
    let points = points.map_err(|why| UsageError::new(format!("--sweep {sweep}: {why}")))?;
    let outcomes = sweep::run(&points, job, args.seed, args.runs)?;
    let unswept = match points.iter().any(|point| point.setup == *job.setup) {
        true => Vec::new(),
        false => job.run_many(args.seed, args.runs)?,
    };
    let workload = args.workload.to_string();
    let ground = Ground {
        workload: &workload,
        hw: job.hw,
        setup: job.setup,
        unswept: &unswept,
    };
    let report = SweepReport::new(ground, sweep, &points, &outcomes);
    let report = report.ok_or_else(|| anyhow!("--sweep {sweep}: there is nothing to compare"))?;
    Ok(match args.format {
        Format::Text => report.text(),
        Format::Json => serde_json::to_string_pretty(&report)? + "\n",
    })
}

fn write_trace(path: &Path, records: &[Record]) -> Result<()> {
    let (mut out, name) = open(path)?;
    for record in records {
        serde_json::to_writer(&mut out, record)
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(writeln!(out)?))
            .with_context(|| format!("cannot write {name}"))?;
    }
    out.flush().with_context(|| format!("cannot write {name}"))
}
