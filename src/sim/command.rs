// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast simulate`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::args::SimulateArgs;
use super::files;
use super::hardware::{Hardware, Params};
use super::plot;
use super::report::{Named, Report};
use super::runs::Job;
use super::source::{Loaded, Source};
use super::sweep::{self, Effects, Ground, Sweep, SweepReport};
use super::world::SimError;
use crate::cli::effect::Given;
use crate::cli::{Format, PolicyArgs, UsageError};
use crate::machine::describe;
use crate::output::{self, is_dash};
use crate::policy::record::Record;

/// Flags that a title need not tell of: it does in other words, or they change nothing of a run.
const TOLD: &[&str] = &[
    "workload", "machine", "rules", "runs", "seed", "sweep", "limit-s", "trace", "svg", "format",
];

/// Run the workload, and print what came of it.
///
/// # Errors
/// The machine cannot be had, the workload does not come to its end, or something cannot be written.
pub fn run(args: &SimulateArgs, given: &Given) -> Result<()> {
    check_dashes(args)?;
    files::check(args)?;
    let machine = args.machine.read()?;
    for warning in machine.warnings() {
        // Not eprintln!, which panics when nobody can read it.
        let _ = writeln!(std::io::stderr(), "machine: {warning}");
    }
    let hw = Hardware::new(&machine, Params::default());
    if let (1, Some(flags)) = (hw.nr_nodes(), args.extras.on_one_node()) {
        let _ = writeln!(
            std::io::stderr(),
            "machine: it has one node, where all memory is local: {flags} changes nothing"
        );
    }
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
    let (workload, flags) = (args.workload.to_string(), given.words(TOLD));
    let named = Named {
        workload: &workload,
        flags: &flags,
    };
    let text = match &args.sweep {
        Some(sweep) => run_sweep(args, named, sweep, &job),
        None => run_once(args, named, &job),
    };
    // Whoever runs many has to know which.
    let text = text.map_err(|error| match error.is::<SimError>() {
        true => error.context(workload.clone()),
        false => error,
    })?;
    let mut outputs = [&args.trace, &args.svg].into_iter().flatten();
    match outputs.any(|path| is_dash(path)) {
        // It has the file, and nothing else.
        true => Ok(()),
        false => output::write(text),
    }
}

/// Let `write` write a file, or standard output for `-`.
fn write_to(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    if is_dash(path) {
        let mut out = BufWriter::new(io::stdout().lock());
        return write(&mut out)
            .and_then(|()| out.flush())
            .map_err(output::refused);
    }
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    });
    written.with_context(|| format!("cannot write {}", path.display()))
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
        .filter(|(_, path)| path.as_ref().is_some_and(|path| is_dash(path)));
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
fn run_once(args: &SimulateArgs, named: Named<'_>, job: &Job<'_>) -> Result<String> {
    if let Some(file) = &args.trace {
        write_trace(file, &job.run_recorded(args.seed)?.1)?;
    }
    let outcomes = job.run_many(args.seed, args.runs)?;
    let report = Report::new(named, job.hw, job.setup, &outcomes);
    if let (Some(file), Some(first)) = (&args.svg, outcomes.first()) {
        let text = plot::svg(&report.title(), job.hw, first);
        write_to(file, |out| out.write_all(text.as_bytes()))?;
    }
    Ok(match args.format {
        Format::Text => report.text(),
        Format::Json => serde_json::to_string_pretty(&report)? + "\n",
    })
}

/// All runs of all of a flag's values.
fn run_sweep(
    args: &SimulateArgs,
    named: Named<'_>,
    sweep: &Sweep,
    job: &Job<'_>,
) -> Result<String> {
    let setup = |policy: &PolicyArgs| args.setup_with(policy, &job.hw.nodes);
    let effects = Effects {
        llcs: job.hw.nr_llcs(),
        confined: !job.plan.sets.is_empty(),
    };
    let points = sweep.points(&args.policy, setup, effects);
    let points = points.map_err(|why| UsageError::new(format!("--sweep {sweep}: {why}")))?;
    let outcomes = sweep::run(&points, job, args.seed, args.runs)?;
    let unswept = match points.iter().any(|point| point.setup == *job.setup) {
        true => Vec::new(),
        false => job.run_many(args.seed, args.runs)?,
    };
    let ground = Ground {
        named,
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
    write_to(path, |out| {
        records.iter().try_for_each(|record| {
            serde_json::to_writer(&mut *out, record)?;
            writeln!(out)
        })
    })
}
