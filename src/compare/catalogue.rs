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

impl Offer {
    fn names(&self) -> impl Iterator<Item = &str> {
        let benchmarks = self.benchmarks.iter().map(|b| b.name.as_str());
        benchmarks.chain(self.skipped.iter().map(|s| s.name.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.benchmarks.is_empty() && self.skipped.is_empty()
    }
}

/// A suite, for `--list`.
#[derive(Debug)]
pub struct Listed {
    pub name: String,
    pub description: String,
    pub offer: Offer,
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
        false if Path::new(name).exists() && name != "-" => Ok(Suite::read(Path::new(name))?),
        // Says which there are.
        false => Ok(Suite::builtin(name).map_err(UsageError::new)?),
    }
}

/// Each of the `suites` with what it offers on this machine, of what the patterns `wanted` name.
///
/// # Errors
/// There is no such suite, or no such benchmark in any of them.
pub fn listed(suites: &[String], wanted: &[String]) -> Result<Vec<Listed>> {
    let host = Host::here(&Machine::detect(None)?).context("looking at the machine")?;
    let filter = Filter::new(wanted.iter().cloned());
    let mut all = Vec::new();
    for name in suites {
        let suite = suite(name)?;
        let resolved = suite.resolve(&host, &filter);
        all.push(Listed {
            name: name.clone(),
            description: suite.description,
            offer: Offer {
                benchmarks: resolved.benchmarks,
                skipped: resolved.skipped,
            },
        });
    }
    let names: Vec<&str> = all.iter().flat_map(|one| one.offer.names()).collect();
    match filter.unmatched(&names)[..] {
        [first, ..] => {
            let text = format!("no benchmark is called '{first}' (--list shows all)");
            Err(UsageError::new(text).into())
        }
        [] => Ok(all),
    }
}

/// What the `suites` offer on this machine, of what the patterns `wanted` name.
pub fn offer(suites: &[String], wanted: &[String]) -> Result<Offer> {
    let mut offer = Offer::default();
    for one in listed(suites, wanted)? {
        offer.benchmarks.extend(one.offer.benchmarks);
        offer.skipped.extend(one.offer.skipped);
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

/// The suites that are built in.
pub fn builtin() -> Vec<String> {
    Suite::builtin_names().map(str::to_string).collect()
}
