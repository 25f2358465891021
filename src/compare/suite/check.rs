// SPDX-License-Identifier: GPL-2.0-only
//! From a suite file to a suite: all that can be wrong with it is found here, whatever the machine,
//! so that resolving a suite cannot fail later.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;

use super::error::{At, Problem};
use super::expr::Expr;
use super::extract;
use super::file::{BenchmarkEntry, MetricEntry, Need, Number, ScaleEntry, SuiteFile};
use super::host::VALUES;
use super::template::{PROGRAM, Template};
use super::{Bound, Entry, Scale, Suite, Values};
use crate::compare::record::{Better, Mean, Metric};

/// More would need more blocks than anybody waits for: each costs power in Holm's correction.
pub(super) const MOST_PRIMARIES: usize = 5;

/// A week. A run that takes longer is a mistake, or of no use to a comparison.
const LONGEST_S: u64 = 7 * 24 * 3600;

/// The value of `least.open_files`, for `ulimit -n` in a command.
pub(super) const OPEN_FILES: &str = "open_files";

type Checked<T> = Result<T, At>;

/// Parses and checks a suite file.
pub(super) fn suite(text: &str) -> Checked<Suite> {
    let file: SuiteFile = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        (span, Problem::Syntax(error.message().to_owned()))
    })?;
    name(&file.name)?;
    line(file.description.get_ref(), file.description.span())?;
    for need in file.needs.values() {
        self::need(need)?;
    }
    for metric in file.metrics.values() {
        self::metric("", metric, false)?;
    }
    let entries: Vec<Entry> = file
        .benchmark
        .iter()
        .map(|benchmark| entry(&file, benchmark))
        .collect::<Checked<_>>()?;
    if entries.is_empty() {
        return Err((file.name.span(), Problem::Empty));
    }
    unique(&file.benchmark)?;
    primaries(&file.benchmark, &entries)?;
    Ok(Suite {
        name: file.name.into_inner(),
        description: file.description.into_inner(),
        entries,
    })
}

fn unique(benchmarks: &[BenchmarkEntry]) -> Checked<()> {
    let mut seen = BTreeSet::new();
    for benchmark in benchmarks {
        let name = benchmark.name.get_ref();
        if !seen.insert(name) {
            return Err((benchmark.name.span(), Problem::Duplicate(name.clone())));
        }
    }
    Ok(())
}

/// What counts is what is tested: a metric that is primary at three values of a scale is three.
fn primaries(benchmarks: &[BenchmarkEntry], entries: &[Entry]) -> Checked<()> {
    let mut all = 0;
    for (benchmark, entry) in benchmarks.iter().zip(entries) {
        let metrics = entry.metrics.iter().filter(|metric| metric.primary).count();
        all += metrics * entry.scale.as_ref().map_or(1, Scale::primaries);
        if all > MOST_PRIMARIES {
            let span = benchmark.primary.first().map_or(0..0, Spanned::span);
            return Err((span, Problem::Primaries(all, MOST_PRIMARIES)));
        }
    }
    Ok(())
}

fn need(need: &Spanned<Need>) -> Checked<()> {
    line(&need.get_ref().get, need.span())?;
    match (&need.get_ref().program, &need.get_ref().file) {
        (Some(name), None) | (None, Some(name)) if !name.trim().is_empty() => Ok(()),
        _ => Err(contradiction(
            need.span(),
            "expected either program or file, and get",
        )),
    }
}

fn metric(name: &str, entry: &Spanned<MetricEntry>, primary: bool) -> Checked<Metric> {
    line(&entry.get_ref().unit, entry.span())?;
    let entry = entry.get_ref();
    let pattern = entry.pattern.get_ref();
    extract::compile(pattern).map_err(|why| (entry.pattern.span(), Problem::Pattern(why)))?;
    let scale = entry.scale.as_ref().map_or(1.0, |scale| *scale.get_ref());
    if let Some(given) = &entry.scale
        && !(scale.is_finite() && scale > 0.0)
    {
        return Err(contradiction(given.span(), "expected a scale above 0"));
    }
    Ok(Metric {
        name: name.to_owned(),
        unit: entry.unit.clone(),
        better: entry.better,
        primary,
        mean: entry.mean.unwrap_or(match entry.better {
            Better::Lower => Mean::Arithmetic,
            Better::Higher => Mean::Harmonic,
        }),
        pattern: pattern.clone(),
        pick: entry.pick,
        scale,
    })
}

fn entry(file: &SuiteFile, entry: &BenchmarkEntry) -> Checked<Entry> {
    name(&entry.name)?;
    if *entry.timeout_s.get_ref() == 0 {
        return Err(contradiction(
            entry.timeout_s.span(),
            "expected a second or more",
        ));
    }
    if *entry.timeout_s.get_ref() > LONGEST_S {
        return Err(contradiction(
            entry.timeout_s.span(),
            "expected a week at most",
        ));
    }
    if entry.command.get_ref().trim().is_empty() {
        return Err(contradiction(
            entry.command.span(),
            "a command that runs nothing",
        ));
    }
    let scale = entry.scale.as_ref().map(scale).transpose()?;
    let names = Names {
        scale: scale.as_ref().map(Scale::name),
        open_files: false,
    };
    let in_command = Names {
        open_files: entry.least.open_files.is_some(),
        ..names
    };
    let command = Template::parse(entry.command.get_ref())
        .map_err(|why| (entry.command.span(), Problem::Template(why)))?;
    for expr in command.exprs() {
        match expr {
            Expr::Value(name) if name == PROGRAM => {}
            Expr::Value(name) if scale.as_ref().is_some_and(|scale| scale.name() == name) => {}
            _ => in_command.check(expr, &scale, entry.command.span())?,
        }
    }
    if let Some(pattern) = &entry.placement {
        extract::compile(pattern.get_ref())
            .map_err(|why| (pattern.span(), Problem::Pattern(why)))?;
    }
    let bound = |given: &Option<Spanned<Number>>| -> Checked<Option<Expr>> {
        let Some(given) = given else { return Ok(None) };
        let expr = expression(given.get_ref(), given.span())?;
        names.check(&expr, &scale, given.span())?;
        Ok(Some(expr))
    };
    let bounds = [
        (Bound::LeastNodes, bound(&entry.least.nodes)?),
        (Bound::LeastCpus, bound(&entry.least.cpus)?),
        (Bound::LeastMemory, bound(&entry.least.memory_mib)?),
        (Bound::LeastOpenFiles, bound(&entry.least.open_files)?),
        (Bound::BelowNodes, bound(&entry.below.nodes)?),
        (Bound::BelowCpus, bound(&entry.below.cpus)?),
        (Bound::BelowMemory, bound(&entry.below.memory_mib)?),
    ];
    let bounds = bounds
        .into_iter()
        .filter_map(|(kind, expr)| Some((kind, expr?)));
    Ok(Entry {
        name: entry.name.get_ref().clone(),
        command,
        needs: needs(file, entry)?,
        timeout_s: *entry.timeout_s.get_ref(),
        bounds: bounds.collect(),
        metrics: metrics(file, entry, scale.as_ref())?,
        placement: entry.placement.as_ref().map(|text| text.get_ref().clone()),
        scale,
    })
}

fn needs(file: &SuiteFile, entry: &BenchmarkEntry) -> Checked<Vec<Need>> {
    let need = |name: &Spanned<String>| {
        let need = file.needs.get(name.get_ref());
        let need = need.ok_or_else(|| reference("need", name, file.needs.keys()))?;
        Ok(need.get_ref().clone())
    };
    entry.needs.iter().map(need).collect()
}

fn metrics<'a>(
    file: &SuiteFile,
    entry: &'a BenchmarkEntry,
    scale: Option<&Scale>,
) -> Checked<Vec<Metric>> {
    let wanted = entry.metrics.get_ref();
    if wanted.is_empty() {
        let span = entry.metrics.span();
        return Err(contradiction(span, "a benchmark without a metric"));
    }
    let primary = &entry.primary;
    let names = || wanted.iter().map(Spanned::get_ref);
    if let Some(stray) = primary
        .iter()
        .find(|name| !names().any(|n| n == name.get_ref()))
    {
        return Err(reference("metric", stray, names()));
    }
    let mut once = BTreeSet::new();
    if let Some(again) = primary.iter().find(|name| !once.insert(name.get_ref())) {
        return Err(contradiction(again.span(), "the same metric twice"));
    }
    if let Some(scale) = scale
        && primary.is_empty() != (scale.primaries() == 0)
    {
        let span = entry.scale.as_ref().map_or(0..0, Spanned::span);
        return Err(contradiction(
            span,
            "primary and scale.primary_at belong together: which metrics, and at which values",
        ));
    }
    let mut seen = BTreeSet::new();
    let one = |name: &'a Spanned<String>| {
        let found = file.metrics.get(name.get_ref());
        let found = found.ok_or_else(|| reference("metric", name, file.metrics.keys()))?;
        if !seen.insert(name.get_ref()) {
            return Err(contradiction(name.span(), "the same metric twice"));
        }
        let primary = primary
            .iter()
            .any(|other| other.get_ref() == name.get_ref());
        metric(name.get_ref(), found, primary)
    };
    wanted.iter().map(one).collect()
}

fn scale(entry: &Spanned<ScaleEntry>) -> Checked<Scale> {
    let span = entry.span();
    let scale = entry.get_ref();
    let taken =
        VALUES.contains(&scale.name.as_str()) || [PROGRAM, OPEN_FILES].contains(&&*scale.name);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if taken
        || !scale.name.starts_with(|c: char| c.is_ascii_alphabetic())
        || !scale.name.chars().all(is_word)
    {
        return Err(contradiction(
            span,
            "expected a name for the scale of letters, digits and _ that is not taken",
        ));
    }
    let name = scale.name.clone();
    let number = |number: &Number| {
        let expr = expression(number, span.clone())?;
        let names = Names {
            scale: None,
            open_files: false,
        };
        names.check(&expr, &None, span.clone())?;
        Ok(expr)
    };
    let numbers = |list: &[Number]| list.iter().map(number).collect::<Checked<Vec<Expr>>>();
    match (&scale.words, &scale.values, &scale.from, &scale.to) {
        (Some(words), None, None, None) => {
            let primary_at: Vec<String> = scale.primary_at.iter().map(Number::text).collect();
            let unique: BTreeSet<&String> = words.iter().collect();
            if unique.len() != words.len() || words.iter().any(|word| !is_name(word)) {
                return Err(contradiction(
                    span,
                    "expected different words of letters and digits",
                ));
            }
            if let Some(stray) = primary_at.iter().find(|word| !words.contains(word)) {
                let problem = Problem::Reference {
                    kind: "word of the scale",
                    found: stray.clone(),
                    known: words.clone(),
                };
                return Err((span, problem));
            }
            Ok(Scale::Words {
                name,
                words: words.clone(),
                primary_at,
            })
        }
        (None, Some(values), None, None) => Ok(Scale::Numbers {
            name,
            values: Values::List(numbers(values)?),
            primary_at: numbers(&scale.primary_at)?,
        }),
        (None, None, Some(from), Some(to)) => Ok(Scale::Numbers {
            name,
            values: Values::Doubling(number(from)?, number(to)?),
            primary_at: numbers(&scale.primary_at)?,
        }),
        _ => Err(contradiction(
            span,
            "expected one of values = [...], words = [...], and from = ... with to = ...",
        )),
    }
}

fn expression(number: &Number, span: Range<usize>) -> Checked<Expr> {
    let text = number.text();
    Expr::parse(&text).map_err(|why| (span, Problem::Expression { text, why }))
}

/// What an expression may refer to beside the machine's values.
#[derive(Clone, Copy)]
struct Names<'a> {
    scale: Option<&'a str>,
    open_files: bool,
}

impl Names<'_> {
    fn check(self, expr: &Expr, scale: &Option<Scale>, span: Range<usize>) -> Checked<()> {
        // A word has no number.
        let own = self
            .scale
            .filter(|_| !matches!(scale, Some(Scale::Words { .. })));
        let mut known = VALUES.to_vec();
        known.extend(own);
        known.extend(self.open_files.then_some(OPEN_FILES));
        let names = expr.names();
        let Some(stray) = names.iter().find(|name| !known.contains(name)) else {
            return Ok(());
        };
        known.extend(matches!(expr, Expr::Value(_)).then_some(PROGRAM));
        let problem = Problem::Value {
            found: format!("{{{stray}}}"),
            known: known.into_iter().map(str::to_owned).collect(),
        };
        Err((span, problem))
    }
}

fn name(name: &Spanned<String>) -> Checked<()> {
    match is_name(name.get_ref()) {
        true => Ok(()),
        false => Err((name.span(), Problem::Name(format!("{:?}", name.get_ref())))),
    }
}

/// Text that lists and reports have in one line.
fn line(text: &str, span: Range<usize>) -> Checked<()> {
    match text.contains(char::is_control) {
        true => Err(contradiction(
            span,
            "expected one line, without control characters",
        )),
        false => Ok(()),
    }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.chars().all(fits)
}

fn reference<'a>(
    kind: &'static str,
    found: &Spanned<String>,
    known: impl Iterator<Item = &'a String>,
) -> At {
    let problem = Problem::Reference {
        kind,
        found: found.get_ref().clone(),
        known: known.cloned().collect(),
    };
    (found.span(), problem)
}

fn contradiction(span: Range<usize>, expected: &'static str) -> At {
    (span, Problem::Contradiction(expected))
}
