// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast compare`: what was asked for, in order.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::args::{CompareArgs, CompareCommand, CompareRunArgs};
use super::attach::Patience;
use super::evidence::{MigrationCounter, environment};
use super::keeper::{self, Keeper};
use super::progress::line;
use super::record::{Arm, Fact, Plan, Record};
use super::report::args::ReportArgs;
use super::results::{self, Writer};
use super::roots::Roots;
use super::runner::{Outcome, Runner};
use super::stop::Stop;
use super::{catalogue, in_charge, plan, preview, priority, report, utc};
use crate::output;

/// Compares, or does the other thing that `args` name.
pub fn run(args: &CompareArgs) -> Result<()> {
    match &args.command {
        Some(CompareCommand::Keeper(args)) => keeper::run(args),
        Some(CompareCommand::Report(args)) => report::args::run(args),
        None if args.run.list => list(&args.run),
        None => compare(&args.run),
    }
}

fn list(args: &CompareRunArgs) -> Result<()> {
    let suites = match args.suites[..] {
        [] => catalogue::builtin(),
        _ => args.suites.clone(),
    };
    let mut listed = catalogue::listed(&suites, &args.benches)?;
    if !args.benches.is_empty() {
        // Of a suite that has none of these there is nothing to say.
        listed.retain(|suite| !suite.offer.is_empty());
    }
    for suite in listed {
        let mut text = format!("{}: {}\n", suite.name, suite.description);
        for benchmark in &suite.offer.benchmarks {
            text += &format!("  {}\n{}", benchmark.name, preview::metrics(benchmark));
        }
        for skipped in &suite.offer.skipped {
            text += &format!("  {} cannot run here: {}\n", skipped.name, skipped.reason);
        }
        output::print(text.trim_end())?;
    }
    Ok(())
}

fn compare(args: &CompareRunArgs) -> Result<()> {
    let own = std::env::current_exe().context("finding this program")?;
    let roots = args.root.as_ref().map_or_else(Roots::system, Roots::below);
    let results = results_path(args);
    // What was asked for is checked before anything of the machine is touched.
    check_destination(args, &results)?;
    if args.dry_run {
        return dry_run(args, &own, &roots, &results);
    }
    let resumed = args
        .resume
        .then(|| resume(args, &own, &roots, &results))
        .transpose()?;
    let (plan, resumed) = match resumed {
        Some((plan, writer, records)) => (plan, Some((writer, records))),
        None => (plan::make(args, &own, &roots)?, None),
    };
    for skipped in &plan.skipped {
        line(&format!("{} is skipped: {}", skipped.name, skipped.reason));
    }
    check_kernel(&plan, &roots)?;
    if resumed.is_none() {
        results::check_new(&results)?;
    }
    let (stop, before) = Stop::on_signals()?;
    free_the_machine(args.replace_running, &roots, &stop)?;
    let (mut writer, records) = match resumed {
        Some(found) => found,
        None => (Writer::create(&results, &plan)?, Vec::new()),
    };
    line(&format!("results: {}", writer.path().display()));
    let outcome = carry_out(args, &own, &roots, &plan, &records, &mut writer, &stop)?;
    // Unlocked for whoever reads it.
    drop(writer);
    // A report can be large, and nothing is left to be put back.
    priority::lower();
    before.restore();
    let outcome = if stop.is_set() {
        Outcome::Stopped
    } else {
        outcome
    };
    conclude(args, &results, outcome)
}

/// A report that could not be written would be told after hours.
fn check_destination(args: &CompareRunArgs, results: &Path) -> Result<()> {
    match args.look.file() {
        None => Ok(()),
        Some(output) => report::args::check_output(output, &[results]),
    }
}

/// Says what would be run, or what of it is left.
fn dry_run(args: &CompareRunArgs, own: &Path, roots: &Roots, results: &Path) -> Result<()> {
    let (plan, records) = match args.resume {
        // Not as one who writes: nothing is locked or cut.
        true => {
            let records = results::read(results)?;
            (same_plan(&records, args, own, roots, results)?, records)
        }
        false => (plan::make(args, own, roots)?, Vec::new()),
    };
    output::print(preview::describe(&plan, &records).trim_end())
}

/// What arms need of this kernel and this user, before hours are spent on EEVDF alone.
fn check_kernel(plan: &Plan, roots: &Roots) -> Result<()> {
    let loads = plan.arms.iter().find(|arm| !arm.argv.is_empty());
    if let Some(arm) = loads
        && in_charge::look(roots).state == in_charge::ABSENT
    {
        bail!(
            "{}: this kernel ({}) has no sched_ext: it needs Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT=y",
            arm.label,
            plan.environment.kernel
        );
    }
    let sets = |arm: &Arm| arm.numa_balancing.is_some();
    if plan.arms.iter().any(sets) {
        let path = roots.path(environment::NUMA_BALANCING);
        let opened = fs::OpenOptions::new().write(true).open(&path);
        opened.with_context(|| {
            format!(
                "--numa-balancing needs the right to write {} (root)",
                path.display()
            )
        })?;
    }
    Ok(())
}

fn results_path(args: &CompareRunArgs) -> PathBuf {
    let named = args.results.clone();
    named.unwrap_or_else(|| format!("compare-{}.jsonl", utc::for_file_name()).into())
}

type Resumed = (Plan, Writer, Vec<Record>);

fn resume(args: &CompareRunArgs, own: &Path, roots: &Roots, results: &Path) -> Result<Resumed> {
    let (writer, records) = Writer::resume(results)?;
    let plan = same_plan(&records, args, own, roots, results)?;
    Ok((plan, writer, records))
}

/// The plan of a results file, which is the one that `args` ask for.
fn same_plan(
    records: &[Record],
    args: &CompareRunArgs,
    own: &Path,
    roots: &Roots,
    results: &Path,
) -> Result<Plan> {
    let Some(Record::Plan(plan)) = records.first() else {
        bail!("{} has no plan", results.display());
    };
    plan::check_same(plan, args, own, roots)?;
    Ok(Plan::clone(plan))
}

/// How long the kernel may take to end a scheduler that is loaded.
const PATIENCE: Duration = Duration::from_secs(60);

/// No sched_ext scheduler is loaded when this returns.
fn free_the_machine(replace: bool, roots: &Roots, stop: &Stop) -> Result<()> {
    let found = in_charge::look(roots);
    if found.is_eevdf() {
        return Ok(());
    }
    let who = match found.ops.as_str() {
        "" => format!("without a name, state {}", found.state),
        ops => ops.to_string(),
    };
    if !replace {
        bail!("a sched_ext scheduler is running: {who}; stop it first, or give --replace-running");
    }
    line(&format!("ending {who}; it is not started again afterwards"));
    let path = roots.path("proc/sysrq-trigger");
    fs::write(&path, "S").with_context(|| format!("asking the kernel by {}", path.display()))?;
    let began = Instant::now();
    while !in_charge::look(roots).is_eevdf() {
        if began.elapsed() > PATIENCE || stop.wait(Duration::from_millis(20)) {
            bail!("{who} has not ended: stop it by the way it was started");
        }
    }
    Ok(())
}

fn carry_out(
    args: &CompareRunArgs,
    own: &Path,
    roots: &Roots,
    plan: &Plan,
    records: &[Record],
    writer: &mut Writer,
    stop: &Stop,
) -> Result<Outcome> {
    let nodes = environment::nodes(roots)?;
    let migrations = match roots.is_system() {
        true => MigrationCounter::attach(&nodes),
        false => Fact::NotAvailable("not the running kernel".into()),
    };
    let changes = plan.arms.iter().any(|arm| arm.numa_balancing.is_some());
    let numa_balancing = match changes.then(|| roots.read(environment::NUMA_BALANCING)) {
        None => None,
        Some(Fact::Known(value)) => Some(value),
        Some(Fact::NotAvailable(why)) => bail!("kernel.numa_balancing: {why}"),
    };
    let mark = format!("{}-{}", std::process::id(), utc::for_file_name());
    let path = roots.path(environment::NUMA_BALANCING);
    let restore = numa_balancing
        .as_deref()
        .map(|value| (path.as_path(), value));
    let mut keeper = Keeper::start(own, &mark, restore)?;
    priority::raise();
    let patience = args
        .patience
        .map_or_else(Patience::default, |time| Patience {
            load: time,
            unload: time,
            statistics: time.min(Patience::default().statistics),
        });
    let mut runner = Runner {
        plan,
        roots,
        nodes: &nodes,
        migrations: &migrations,
        mark: &mark,
        numa_balancing,
        patience,
        stop,
        keeper: &mut keeper,
        silent: BTreeSet::new(),
        doubted: BTreeSet::new(),
    };
    let outcome = runner.run(records, writer);
    let restored = keeper.finish();
    let outcome = outcome?;
    restored?;
    Ok(outcome)
}

/// Says what became of it.
fn conclude(args: &CompareRunArgs, path: &Path, outcome: Outcome) -> Result<()> {
    let again = format!("scx_ballast compare --resume --results {}", path.display());
    match outcome {
        Outcome::Stopped => bail!("interrupted; to go on: {again}"),
        Outcome::Complete { given_up } => {
            report::args::run(&ReportArgs {
                files: vec![path.to_path_buf()],
                look: args.look.clone(),
            })?;
            match given_up {
                0 => Ok(()),
                n => bail!("{n} runs were given up; to try them again: {again}"),
            }
        }
    }
}
