// SPDX-License-Identifier: GPL-2.0-only
//! From what a benchmark printed to numbers.
//!
//! Either every metric has a number that can be compared or there is an error: half a result is none. In patterns
//! `^` and `$` are the ends of a line; standard output comes before standard error.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use crate::compare::record::{Metric, Pick};
use crate::compare::tail;

/// The values that count, but for their sign and 0: far inside of what the analysis can compute with,
/// far outside of what anything on a computer amounts to.
const SMALLEST: f64 = 1e-15;
const LARGEST: f64 = 1e15;

/// Why a run gave no result.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ExtractError {
    #[error("metric {metric}: nothing in the output matches {pattern}")]
    Missing { metric: String, pattern: String },
    #[error("metric {metric}: the output has {text:?} where a number should be")]
    NotANumber { metric: String, text: String },
    #[error(
        "metric {metric}: {value:e} is no value that can be compared: expected 0, or one from {SMALLEST:e} to \
         {LARGEST:e}; with `scale` a suite changes the unit"
    )]
    Absurd { metric: String, value: f64 },
    #[error("metric {metric}: {problem}")]
    Pattern { metric: String, problem: String },
}

/// The numbers of a run, by name of the metric.
///
/// # Errors
/// A metric matches nothing, or something that is no finite number or an absurd one.
pub fn extract(
    metrics: &[Metric],
    stdout: &str,
    stderr: &str,
) -> Result<BTreeMap<String, f64>, ExtractError> {
    let output = format!("{stdout}\n{stderr}");
    let value = |metric: &Metric| Ok((metric.name.clone(), one(metric, &output)?));
    metrics.iter().map(value).collect()
}

fn one(metric: &Metric, output: &str) -> Result<f64, ExtractError> {
    let name = || metric.name.clone();
    let pattern = compile(&metric.pattern).map_err(|problem| ExtractError::Pattern {
        metric: name(),
        problem,
    })?;
    let numbers = pattern
        .captures_iter(output)
        .filter_map(|found| found.get(1));
    let numbers = numbers.map(|text| {
        let text = text.as_str();
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| ExtractError::NotANumber {
            metric: name(),
            text: tail::beginning(text),
        })
    });
    let numbers: Vec<f64> = numbers.collect::<Result<_, _>>()?;
    let picked = pick(metric.pick, &numbers).ok_or_else(|| ExtractError::Missing {
        metric: name(),
        pattern: metric.pattern.clone(),
    })?;
    let value = picked * metric.scale;
    let fits = value == 0.0 && picked == 0.0 || (SMALLEST..=LARGEST).contains(&value.abs());
    match fits {
        true => Ok(value),
        false => Err(ExtractError::Absurd {
            metric: name(),
            value,
        }),
    }
}

fn pick(pick: Pick, numbers: &[f64]) -> Option<f64> {
    let last = *numbers.last()?;
    Some(match pick {
        Pick::First => *numbers.first()?,
        Pick::Last => last,
        Pick::Sum => numbers.iter().sum(),
        Pick::Mean => numbers.iter().sum::<f64>() / numbers.len() as f64,
        Pick::Max => numbers.iter().copied().fold(last, f64::max),
    })
}

/// Tasks per node for each line that `pattern` matches. A line whose group is no list of numbers
/// tells nothing and is left out.
pub fn placement(pattern: &str, output: &str) -> Vec<Vec<u32>> {
    let Ok(pattern) = compile(pattern) else {
        return Vec::new();
    };
    let lists = pattern
        .captures_iter(output)
        .filter_map(|found| found.get(1));
    lists.filter_map(|list| counts(list.as_str())).collect()
}

/// Numbers separated by commas or, as `work` prints them, by spaces.
fn counts(list: &str) -> Option<Vec<u32>> {
    let numbers = list.split([',', ' ']).filter(|text| !text.is_empty());
    let numbers: Option<Vec<u32>> = numbers.map(|text| text.parse().ok()).collect();
    numbers.filter(|numbers| !numbers.is_empty())
}

/// A pattern over lines that has a group 1. The error says what is wrong with it.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let regex = RegexBuilder::new(pattern).multi_line(true).build();
    let regex = regex.map_err(|error| format!("not a regular expression: {error}"))?;
    match regex.captures_len() {
        0 | 1 => Err(format!("{pattern} has no group (...) around the number")),
        _ => Ok(regex),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::record::{Better, Mean};

    fn metric(pattern: &str, pick: Pick, scale: f64) -> Metric {
        Metric {
            name: "m".into(),
            unit: "s".into(),
            better: Better::Lower,
            primary: false,
            mean: Mean::Arithmetic,
            pattern: pattern.into(),
            pick,
            scale,
        }
    }

    #[test]
    fn the_wanted_one_of_several_matches_counts() {
        let output = "t 1\nt 5\n t 100\nt 3\n";
        for (pick, expected) in [
            (Pick::First, 1.0),
            (Pick::Last, 3.0),
            (Pick::Sum, 9.0),
            (Pick::Mean, 3.0),
            (Pick::Max, 5.0),
        ] {
            let metrics = [metric(r"^t (\d+)$", pick, 0.5)];
            assert_eq!(extract(&metrics, output, "").unwrap()["m"], expected / 2.0);
            assert_eq!(extract(&metrics, "", output).unwrap()["m"], expected / 2.0);
        }
    }

    #[test]
    fn the_two_outputs_do_not_share_a_line() {
        let metrics = [metric(r"^t (\d+)$", Pick::Last, 1.0)];
        assert_eq!(extract(&metrics, "t 1", "2").unwrap()["m"], 1.0);
    }

    #[test]
    fn no_number_is_an_error() {
        let error = |pattern: &str, output: &str| {
            let metrics = [metric(pattern, Pick::Last, 1.0)];
            extract(&metrics, output, "").unwrap_err().to_string()
        };
        let missing = "metric m: nothing in the output matches ^t (.*)";
        assert_eq!(error("^t (.*)", "u 1"), missing);
        let nan = "metric m: the output has \"nan\" where a number should be";
        assert_eq!(error("^t (.*)", "t nan"), nan);
        assert_eq!(error("^t (.*)", "t 1\nt nan\nt 2"), nan);
        assert!(error("(", "t 1").contains("not a regular expression"));
        assert!(error("t", "t 1").contains("has no group"));
    }

    #[test]
    fn absurd_values_do_not_count() {
        let value = |text: &str, scale| {
            let output = format!("t {text}\nt {text}");
            extract(&[metric("^t (.*)", Pick::Sum, scale)], &output, "")
        };
        for text in ["0", "-0.0", "-3", "4e14", "1e-15"] {
            let found = value(text, 1.0).unwrap()["m"];
            assert_eq!(found, 2.0 * text.parse::<f64>().unwrap());
        }
        for text in ["1e308", "-1e308", "1e16", "1e-16", "5e-324", "-1e-300"] {
            let error = value(text, 1.0).unwrap_err().to_string();
            assert!(error.contains("no value that can be compared"), "{error}");
        }
        assert!(value("1", 1e20).is_err() && value("1", 1e-20).is_err());
        // One that the scale makes to nothing is not 0.
        assert!(value("1e-300", 1e-300).is_err());
        let long = value(&"x".repeat(1 << 20), 1.0).unwrap_err().to_string();
        assert!(long.len() < 1000, "{} bytes", long.len());
    }

    #[test]
    fn placements_are_lists_of_counts() {
        let output = "repeat 0: first 2 2 last 3 1\nrepeat 1: first 1 x last\nfirst 4,0 last";
        assert_eq!(placement("first (.*) last", output), [[2, 2], [4, 0]]);
        assert!(placement("(", output).is_empty());
    }
}
