// SPDX-License-Identifier: GPL-2.0-only
//! Built-in workloads (`scx_ballast work NAME`) as measuring instruments.

use std::collections::BTreeMap;
use std::process::Command;

use crate::sched::binary;

/// Keys and values of a workload's result line.
pub struct Report(BTreeMap<String, String>);

impl Report {
    /// Of all that a workload printed.
    pub fn parse(text: &str) -> Report {
        let last = text.lines().last().unwrap();
        let pairs = last.split(' ').filter_map(|pair| pair.split_once('='));
        Report(pairs.map(|(k, v)| (k.to_string(), v.to_string())).collect())
    }

    /// The number behind `key`, or the sum of its numbers.
    pub fn number(&self, key: &str) -> f64 {
        let values = self.0.get(key).unwrap_or_else(|| panic!("no {key}"));
        values
            .split(',')
            .map(|value| value.parse::<f64>().unwrap())
            .sum()
    }

    /// The result line again, for messages.
    pub fn text(&self) -> String {
        let pairs = self.0.iter().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(" ")
    }
}

/// Run `scx_ballast work ARGS` to its end.
#[track_caller]
pub fn work(args: &[&str]) -> Report {
    report(Command::new(binary()).arg("work").args(args))
}

/// Run what ends in a workload to its end.
#[track_caller]
pub fn report(command: &mut Command) -> Report {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Report::parse(&text)
}
