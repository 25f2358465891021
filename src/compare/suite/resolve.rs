// SPDX-License-Identifier: GPL-2.0-only
//! From a suite to commands on a machine.
//!
//! Nothing here fails: what cannot run on the machine is skipped with one line that says why and
//! what would help. A missing program or file skips an entry as a whole, with one line for all values
//! of its scale.

use std::collections::BTreeSet;

use super::check::OPEN_FILES;
use super::expr::{EvalError, Expr};
use super::file::Need;
use super::filter::Filter;
use super::host::Host;
use super::template::{self, PROGRAM};
use super::{Bound, Entry, Scale, Suite, Values};
use crate::compare::record::{Benchmark, Skipped};

/// What a suite comes to on a machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    pub benchmarks: Vec<Benchmark>,
    pub skipped: Vec<Skipped>,
}

impl Suite {
    /// The benchmarks that `filter` wants, in the order of the file.
    pub fn resolve(&self, host: &Host, filter: &Filter) -> Resolved {
        let mut resolved = Resolved::default();
        for entry in &self.entries {
            self.entry(entry, host, filter, &mut resolved);
        }
        resolved
    }

    fn entry(&self, entry: &Entry, host: &Host, filter: &Filter, resolved: &mut Resolved) {
        let skipped = |name: &str, reason: String| Skipped {
            suite: self.name.clone(),
            name: name.to_owned(),
            reason,
        };
        let points = match points(entry, host) {
            Ok(points) => points,
            Err(error) if filter.matches(&entry.name) => {
                resolved
                    .skipped
                    .push(skipped(&entry.name, error.to_string()));
                return;
            }
            Err(_) => return,
        };
        let wanted = points
            .into_iter()
            .filter(|point| filter.matches(&point.name));
        let wanted: Vec<Point> = wanted.collect();
        let missing = entry.needs.iter().find_map(|need| missing(need, host));
        match missing {
            Some(reason) if !wanted.is_empty() => {
                resolved.skipped.push(skipped(&entry.name, reason));
                return;
            }
            Some(_) => return,
            None => {}
        }
        for point in wanted {
            match benchmark(&self.name, entry, &point, host) {
                Ok(benchmark) => resolved.benchmarks.push(benchmark),
                Err(reason) => resolved.skipped.push(skipped(&point.name, reason)),
            }
        }
    }
}

/// An entry at one value of its scale.
struct Point {
    name: String,
    value: Option<Value>,
    primary: bool,
}

#[derive(Clone)]
enum Value {
    Number(u64),
    Word(String),
}

/// All that expressions and templates can refer to.
struct Context<'a> {
    host: &'a Host,
    scale: Option<(&'a str, &'a Value)>,
    open_files: Option<u64>,
}

impl template::Values for Context<'_> {
    fn number(&self, name: &str) -> Option<u64> {
        match self.scale {
            Some((own, Value::Number(number))) if own == name => Some(*number),
            _ if name == OPEN_FILES => self.open_files,
            _ => self.host.number(name),
        }
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.scale {
            Some((own, Value::Word(word))) if own == name => Some(word.clone()),
            _ if name == PROGRAM => {
                Some(template::quoted(&self.host.scx_ballast.to_string_lossy()))
            }
            _ => None,
        }
    }
}

/// The benchmarks that an entry stands for on this machine.
fn points(entry: &Entry, host: &Host) -> Result<Vec<Point>, EvalError> {
    let point = |value: Value, text: String, primary: bool| Point {
        name: format!("{}/{text}", entry.name),
        value: Some(value),
        primary,
    };
    Ok(match &entry.scale {
        None => vec![Point {
            name: entry.name.clone(),
            value: None,
            primary: true,
        }],
        Some(Scale::Words {
            words, primary_at, ..
        }) => {
            let word = |word: &String| {
                let primary = primary_at.contains(word);
                point(Value::Word(word.clone()), word.clone(), primary)
            };
            words.iter().map(word).collect()
        }
        Some(Scale::Numbers {
            values, primary_at, ..
        }) => {
            let primary: BTreeSet<u64> = numbers(primary_at, host)?;
            let mut all = match values {
                Values::List(list) => numbers(list, host)?,
                Values::Doubling(from, to) => doubling(number(from, host)?, number(to, host)?),
            };
            all.extend(&primary);
            let number = |number: u64| {
                let primary = primary.contains(&number);
                point(Value::Number(number), number.to_string(), primary)
            };
            all.into_iter().map(number).collect()
        }
    })
}

fn numbers(exprs: &[Expr], host: &Host) -> Result<BTreeSet<u64>, EvalError> {
    exprs.iter().map(|expr| number(expr, host)).collect()
}

/// A value of a scale. Small machines give 0 for a share of their CPUs, and 1 is meant.
fn number(expr: &Expr, host: &Host) -> Result<u64, EvalError> {
    Ok(expr.eval(&|name| host.number(name))?.max(1))
}

fn doubling(from: u64, to: u64) -> BTreeSet<u64> {
    let next = |number: &u64| number.checked_mul(2);
    let numbers = std::iter::successors(Some(from), next);
    numbers.take_while(|number| *number <= to).collect()
}

/// What is missing, and how to get it.
fn missing(need: &Need, host: &Host) -> Option<String> {
    let Need { program, file, get } = need;
    if let Some(program) = program
        .as_ref()
        .filter(|program| !host.has_program(program))
    {
        return Some(format!("{program} is not installed: {get}"));
    }
    let exists = |file: &&String| std::path::Path::new(file).exists();
    let file = file.as_ref().filter(|file| !exists(file))?;
    Some(format!("{file} is missing: {get}"))
}

/// The benchmark, or why this machine cannot run it.
fn benchmark(suite: &str, entry: &Entry, point: &Point, host: &Host) -> Result<Benchmark, String> {
    let scale = entry.scale.as_ref().map(Scale::name);
    let mut context = Context {
        host,
        scale: scale.zip(point.value.as_ref()),
        open_files: None,
    };
    for (bound, expr) in &entry.bounds {
        let number = expr.eval(&|name| template::Values::number(&context, name));
        let number = number.map_err(|error| error.to_string())?;
        bound.check(number, host)?;
        if *bound == Bound::LeastOpenFiles {
            context.open_files = Some(number);
        }
    }
    let command = entry.command.fill(&context);
    let mut metrics = entry.metrics.clone();
    for metric in &mut metrics {
        metric.primary &= point.primary;
    }
    Ok(Benchmark {
        suite: suite.to_owned(),
        name: point.name.clone(),
        command: command.map_err(|error| error.to_string())?,
        timeout_s: entry.timeout_s,
        metrics,
        placement: entry.placement.clone(),
    })
}

impl Bound {
    fn check(self, number: u64, host: &Host) -> Result<(), String> {
        let (what, has) = match self {
            Bound::LeastNodes | Bound::BelowNodes => ("NUMA nodes", Some(host.nodes)),
            Bound::LeastCpus | Bound::BelowCpus => ("CPUs", Some(host.cpus)),
            Bound::LeastMemory | Bound::BelowMemory => ("MiB of memory", host.memory_mib),
            Bound::LeastOpenFiles => ("open files", Some(host.open_files)),
        };
        let below = matches!(
            self,
            Bound::BelowNodes | Bound::BelowCpus | Bound::BelowMemory
        );
        let help = match self {
            Bound::LeastOpenFiles => "; run as root or raise ulimit -Hn",
            _ => "",
        };
        match has {
            None => Err(format!("how many {what} there are is not known")),
            Some(has) if below && has >= number => Err(format!(
                "for machines with fewer than {number} {what}, here are {has}"
            )),
            Some(has) if !below && has < number => {
                Err(format!("needs {number} {what}, here are {has}{help}"))
            }
            Some(_) => Ok(()),
        }
    }
}
