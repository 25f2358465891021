// SPDX-License-Identifier: GPL-2.0-only
//! Workloads: `NAME:N` (`NAME` alone where the size is the name's), and `,KEY=VALUE` for what is to differ from
//! the defaults.
//!
//! | workload | its twin |
//! |---|---|
//! | [`fork_burst`] | `scx_ballast work fork-burst` |
//! | [`mpi`] | `scx_ballast work mpi`, in the shape of NAS mg; and NAS mg.D itself |
//! | [`hackbench`] | hackbench with processes and pipes |
//! | [`stream`] | STREAM with OpenMP |
//! | [`tbench`] | tbench and its servers |
//! | [`schbench`] | schbench with one messenger |
//! | [`numa`] | `perf bench numa mem` as document 000 ran it |
//!
//! A further one is a module with a table of its options and a function that makes a [`Plan`] of them,
//! and a line in [`KINDS`].

mod fork_burst;
mod hackbench;
mod mpi;
mod numa;
mod schbench;
mod stream;
mod tbench;

use std::fmt;
use std::str::FromStr;

use super::hardware::Hardware;
use super::program::Plan;

/// What a kind of workload is made of.
struct Kind {
    name: &'static str,
    /// What its number is.
    unit: &'static str,
    most: u64,
    /// The number, where the user does not give it.
    fixed: Option<u64>,
    options: &'static [Choice],
    /// From the number and the options, in the order of the table.
    plan: fn(u64, &[u64], On) -> Plan,
}

/// How large the machine is, for workloads that are as large as it is.
#[derive(Debug, Clone, Copy)]
struct On {
    cpus: u64,
    nodes: u64,
}

/// An option: name, default, largest value, what it is.
struct Choice(&'static str, u64, u64, &'static str);

const KINDS: &[Kind] = &[
    fork_burst::KIND,
    mpi::KIND,
    mpi::MGD,
    hackbench::KIND,
    stream::KIND,
    tbench::KIND,
    schbench::KIND,
    numa::NUMA01,
    numa::NUMA02,
    numa::NUMA03,
    numa::NUMA04,
    numa::NUMA05,
    numa::NUMA06,
    numa::NUMA07,
    numa::NUMA08,
    numa::NUMA09,
    numa::NUMA10,
];

/// A workload as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Subscript of [`KINDS`].
    kind: usize,
    number: u64,
    /// In the order of the kind's table.
    options: Vec<u64>,
}

impl Workload {
    /// What runs on a machine.
    pub fn plan(&self, hw: &Hardware) -> Plan {
        let on = On {
            cpus: hw.nr_cpus() as u64,
            nodes: hw.nr_nodes() as u64,
        };
        (KINDS[self.kind].plan)(self.number, &self.options, on)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &KINDS[self.kind];
        match kind.fixed {
            Some(_) => f.write_str(kind.name)?,
            None => write!(f, "{}:{}", kind.name, self.number)?,
        }
        for (Choice(name, default, ..), value) in kind.options.iter().zip(&self.options) {
            if value != default {
                write!(f, ",{name}={value}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, number) = match first.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (first, None),
        };
        let at = KINDS.iter().position(|kind| kind.name == name);
        let at = at.ok_or_else(|| format!("there is no workload '{name}'; {}", names()))?;
        let kind = &KINDS[at];
        let number = match (kind.fixed, number) {
            (Some(fixed), None) => fixed,
            (Some(_), Some(_)) => return Err(format!("{name} has no number")),
            (None, None) => return Err(format!("expected {name}:N, N being {}", kind.unit)),
            (None, Some(number)) => in_range(number, 1, kind.most)
                .map_err(|why| format!("number of {}: {why}", kind.unit))?,
        };
        let mut options: Vec<Option<u64>> = vec![None; kind.options.len()];
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("expected KEY=VALUE, got '{part}'"))?;
            let option = kind.options.iter().position(|option| option.0 == key);
            let option = option.ok_or_else(|| {
                let known: Vec<&str> = kind.options.iter().map(|option| option.0).collect();
                format!("{name} has no '{key}', but {}", known.join(", "))
            })?;
            let most = kind.options[option].2;
            let value = in_range(value, 0, most).map_err(|why| format!("{key}: {why}"))?;
            if options[option].replace(value).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        let options = kind.options.iter().zip(options);
        let options = options.map(|(option, given)| given.unwrap_or(option.1));
        Ok(Self {
            kind: at,
            number,
            options: options.collect(),
        })
    }
}

fn in_range(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("expected {least} to {most}, got '{text}'"))
}

fn names() -> String {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    format!("workloads are {}", names.join(", "))
}

/// The workloads and their options, for the long help.
pub fn help() -> String {
    let mut text = String::from("Workloads, their options and what those are by default:\n");
    for kind in KINDS {
        text += &match kind.fixed {
            Some(_) => format!("  {}\n", kind.name),
            None => format!("  {}:N  N {}\n", kind.name, kind.unit),
        };
        for Choice(name, default, _, what) in kind.options {
            text += &format!("      {name}={default}  {what}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_options() {
        let workload: Workload = "mpi:16,iterations=7".parse().unwrap();
        assert_eq!(workload.to_string(), "mpi:16,iterations=7");
        let same: Workload = "mpi:16,sleep_ms=50".parse().unwrap();
        assert_eq!(same.to_string(), "mpi:16");
        let numa: Workload = "numa04,loops=3".parse().unwrap();
        assert_eq!(numa.to_string(), "numa04,loops=3");
    }

    #[test]
    fn nonsense_is_answered() {
        for (text, why) in [
            ("mpi", "expected mpi:N, N being ranks"),
            ("nas:3", "workloads are fork-burst, mpi, mgd, hackbench"),
            ("nas", "there is no workload 'nas'"),
            ("mpi:4,sleep_ms=1,sleep_ms=2", "sleep_ms is given twice"),
            ("", "there is no workload ''"),
            ("numa01:2", "numa01 has no number"),
            ("numa11", "there is no workload 'numa11'"),
            ("mpi:0", "number of ranks: expected 1 to"),
            ("mpi:x", "got 'x'"),
            ("mpi:4,speed=1", "mpi has no 'speed', but sleep_ms, "),
            ("mpi:4,sleep_ms", "expected KEY=VALUE"),
            ("mpi:4,memory_permille=1001", "expected 0 to 1000"),
        ] {
            let error = text.parse::<Workload>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
