// SPDX-License-Identifier: GPL-2.0-only
//! What can be run here, and what it printed as numbers: the suites, as the runner sees them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::record::{Benchmark, Skipped};
use super::suite::{Filter, Host, Suite, extract, placement};
use crate::cli::UsageError;
use crate::machine::Machine;

/// The benchmarks of this machine.
#[derive(Debug, Default)]
pub struct Offer {
    pub benchmarks: Vec<Benchmark>,
    pub skipped: Vec<Skipped>,
}

/// What a run gave.
#[derive(Debug)]
pub struct Measured {
    pub values: BTreeMap<String, f64>,
    pub placement: Vec<Vec<u32>>,
}

/// A suite by its name, or else in a file of that path.
fn suite(name: &str) -> Result<Suite> {
    match Suite::builtin_names().any(|known| known == name) {
        true => Ok(Suite::builtin(name)?),
        false if Path::new(name).exists() => Ok(Suite::read(Path::new(name))?),
        // Says which there are.
        false => Ok(Suite::builtin(name).map_err(UsageError::new)?),
    }
}

/// What the `suites` offer on this machine, of what the patterns `wanted` name.
pub fn offer(suites: &[String], wanted: &[String]) -> Result<Offer> {
    let host = Host::here(&Machine::detect(None)?).context("looking at the machine")?;
    let filter = Filter::new(wanted.iter().cloned());
    let mut offer = Offer::default();
    for name in suites {
        let resolved = suite(name)?.resolve(&host, &filter);
        offer.benchmarks.extend(resolved.benchmarks);
        offer.skipped.extend(resolved.skipped);
    }
    let names = offer.benchmarks.iter().map(|b| b.name.as_str());
    let names: Vec<&str> = names
        .chain(offer.skipped.iter().map(|s| s.name.as_str()))
        .collect();
    if let [first, ..] = filter.unmatched(&names)[..] {
        let text = format!("no benchmark is called '{first}' (--list shows all)");
        return Err(UsageError::new(text).into());
    }
    for (at, benchmark) in offer.benchmarks.iter().enumerate() {
        let name = &benchmark.name;
        if offer.benchmarks[..at]
            .iter()
            .any(|other| other.name == *name)
        {
            bail!("two suites have a benchmark '{name}': run them one after the other");
        }
    }
    Ok(offer)
}

/// The numbers in what a benchmark printed.
pub fn measure(benchmark: &Benchmark, stdout: &str, stderr: &str) -> Result<Measured> {
    Ok(Measured {
        values: extract(&benchmark.metrics, stdout, stderr)?,
        placement: match &benchmark.placement {
            Some(pattern) => placement(pattern, stdout),
            None => Vec::new(),
        },
    })
}

/// The suites with what they are, for `--list`.
pub fn descriptions(suites: &[String]) -> Result<Vec<(String, String)>> {
    let names: Vec<String> = match suites {
        [] => Suite::builtin_names().map(str::to_string).collect(),
        named => named.to_vec(),
    };
    let described = |name: String| Ok((name.clone(), suite(&name)?.description));
    names.into_iter().map(described).collect()
}
