// SPDX-License-Identifier: GPL-2.0-only
//! From the command line to a plan, and whether an old plan is the one that was asked for.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::args::{CompareRunArgs, DEFAULT_BLOCKS, DEFAULT_SETTLE, DEFAULT_SUITE};
use super::evidence::environment::{self, NUMA_BALANCING};
use super::record::{Arm, Environment, FORMAT, Fact, Plan};
use super::roots::Roots;
use super::{arms, catalogue, utc};
use crate::cli::{UsageError, VERSION};

/// The plan of a new comparison.
pub fn make(args: &CompareRunArgs, own: &Path, roots: &Roots) -> Result<Plan> {
    let suites = suites(args);
    let offer = catalogue::offer(&suites, &args.benches)?;
    let nodes = environment::nodes(roots)?;
    let plan = Plan {
        format: FORMAT,
        version: VERSION.into(),
        started: utc::now(),
        seed: args.seed.map_or_else(draw_seed, Ok)?,
        blocks: args.blocks.unwrap_or(DEFAULT_BLOCKS),
        settle_ms: millis(args.settle.unwrap_or(DEFAULT_SETTLE)),
        arms: parse_arms(args, own)?,
        benchmarks: offer.benchmarks,
        skipped: offer.skipped,
        environment: environment::read(roots, &nodes),
    };
    check(&plan, roots)?;
    Ok(plan)
}

pub fn suites(args: &CompareRunArgs) -> Vec<String> {
    match args.suites.is_empty() {
        true => vec![DEFAULT_SUITE.into()],
        false => args.suites.clone(),
    }
}

fn parse_arms(args: &CompareRunArgs, own: &Path) -> Result<Vec<Arm>> {
    let mut texts = args.arms.clone();
    if texts.is_empty() {
        texts.push("ballast".into());
    }
    // One that is not compared with itself or with its other setting is compared with EEVDF.
    let alone = texts.len() == 1 && !args.aa;
    if alone && texts[0] != "eevdf" {
        texts.insert(0, "eevdf".into());
    }
    let arms = arms::parse(&texts, own, args.numa_balancing, args.aa).map_err(UsageError::new)?;
    match arms.len() {
        0 | 1 => Err(UsageError::new(
            "nothing to compare eevdf with: name another arm, or give --aa or --numa-balancing both",
        )
        .into()),
        _ => Ok(arms),
    }
}

/// What the machine lacks for this plan.
fn check(plan: &Plan, roots: &Roots) -> Result<()> {
    if plan.benchmarks.is_empty() {
        let mut text = String::from("none of the benchmarks can run here:");
        for skipped in &plan.skipped {
            let _ = write!(text, "\n  {}: {}", skipped.name, skipped.reason);
        }
        bail!(text);
    }
    let sets = |arm: &Arm| arm.numa_balancing.is_some();
    if plan.arms.iter().any(sets)
        && let Fact::NotAvailable(why) = roots.read(NUMA_BALANCING)
    {
        bail!("--numa-balancing: this kernel has no NUMA balancing ({why})");
    }
    Ok(())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A number that nobody chose; short enough to be typed.
fn draw_seed() -> Result<u64> {
    let mut bytes = [0; 4];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .context("drawing a seed from /dev/urandom; --seed N does without")?;
    Ok(u32::from_ne_bytes(bytes).into())
}

/// Whether the comparison in a file is the one that is asked for, on the same machine.
///
/// # Errors
/// It is not; all differences are named.
pub fn check_same(old: &Plan, args: &CompareRunArgs, own: &Path, roots: &Roots) -> Result<()> {
    let mut differences = Vec::new();
    let mut differs = |what: &str, old: String, new: String| {
        if old != new {
            differences.push(format!("{what}: {old} in the file, {new} now"));
        }
    };
    if let Some(seed) = args.seed {
        differs("seed", old.seed.to_string(), seed.to_string());
    }
    if let Some(blocks) = args.blocks {
        differs("blocks", old.blocks.to_string(), blocks.to_string());
    }
    if let Some(settle) = args.settle {
        differs(
            "settle ms",
            old.settle_ms.to_string(),
            millis(settle).to_string(),
        );
    }
    if !args.arms.is_empty() || args.aa || args.numa_balancing.is_some() {
        differs(
            "arms",
            arms_text(&old.arms),
            arms_text(&parse_arms(args, own)?),
        );
    }
    if !args.suites.is_empty() || !args.benches.is_empty() {
        let now = catalogue::offer(&suites(args), &args.benches)?.benchmarks;
        let names = |benchmarks: &[super::record::Benchmark]| {
            let names: Vec<&str> = benchmarks.iter().map(|b| b.name.as_str()).collect();
            names.join(" ")
        };
        differs("benchmarks", names(&old.benchmarks), names(&now));
        for (old, now) in old
            .benchmarks
            .iter()
            .zip(&now)
            .filter(|(o, n)| o.name == n.name && o != n)
        {
            differs(
                &format!("benchmark {}", old.name),
                format!("{} (or its metrics or time-out)", old.command),
                now.command.clone(),
            );
        }
    }
    let now = environment::read(roots, &environment::nodes(roots)?);
    for (what, of) in MACHINE {
        differs(what, of(&old.environment), of(&now));
    }
    let sets = |arm: &Arm| arm.numa_balancing.is_some();
    if !old.arms.iter().all(sets) {
        let of = |e: &Environment| format!("{:?}", e.numa_balancing);
        differs("kernel.numa_balancing", of(&old.environment), of(&now));
    }
    match differences.is_empty() {
        true => Ok(()),
        false => bail!(
            "the results file is of another comparison:\n  {}",
            differences.join("\n  ")
        ),
    }
}

/// A fact of the machine, as text.
type Told = fn(&Environment) -> String;

/// What makes a machine another one, for the purpose of resuming.
const MACHINE: [(&str, Told); 3] = [
    ("host", |e| format!("{:?}", e.host)),
    ("kernel", |e| e.kernel.clone()),
    ("CPUs of nodes", |e| format!("{:?}", e.nodes)),
];

fn arms_text(arms: &[Arm]) -> String {
    let text = |arm: &Arm| format!("{} {:?}", arm.label, arm.argv);
    arms.iter().map(text).collect::<Vec<_>>().join(", ")
}
