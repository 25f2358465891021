// SPDX-License-Identifier: GPL-2.0-only
//! A regular machine in a few words: `2 nodes x 8 llcs x 8 cores x 2 threads`.
//!
//! Counts with their units from the outside in, joined by `x`; what is left out is 1, singular and
//! plural are the same, `cpus` are cores of one thread. Two bare counts, `2x8`, are nodes and CPUs
//! per node. Behind it may follow `distances` with one row per node, `10,20/20,10`. CPUs are
//! numbered as in [`MachineBuilder::uniform`].

use super::DescribeError;
use super::error::Quoted;
use crate::machine::MachineBuilder;
use crate::machine::limits::*;

/// What the form looks like, for messages.
pub(super) const EXAMPLE: &str = "\"2 nodes x 8 llcs x 8 cores x 2 threads\", \"2x8\" \
     or \"2 nodes x 4 cpus, distances 10,20/20,10\"";

/// A regular machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compact {
    nodes: u32,
    llcs: u32,
    cores: u32,
    threads: u32,
    /// Empty, or one row per node.
    distances: Vec<Vec<u32>>,
}

/// Whether `text` is meant to be this form, right or wrong: it begins with a count.
pub(super) fn looks_like(text: &str) -> bool {
    text.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

fn error(found: impl std::fmt::Display, expected: impl Into<String>) -> DescribeError {
    DescribeError::Compact {
        found: found.to_string(),
        expected: expected.into(),
    }
}

/// The machine of a description.
///
/// # Errors
/// It is not one, or larger than [`limits`](crate::machine::limits).
pub(super) fn parse(text: &str) -> Result<Compact, DescribeError> {
    let text = text.trim().to_lowercase();
    let (counts, distances) = match text.split_once("distance") {
        Some((counts, distances)) => (
            counts,
            Some(distances.strip_prefix('s').unwrap_or(distances)),
        ),
        None => (text.as_str(), None),
    };
    let counts = counts.trim_end().trim_end_matches(',');
    let mut machine = parse_counts(counts)?;
    machine.check_size()?;
    if let Some(distances) = distances {
        machine.distances = parse_distances(distances, machine.nodes)?;
    }
    Ok(machine)
}

/// Units from the outside in, without the plural's s; the last two are two names of one place.
const UNITS: [&str; 5] = ["node", "llc", "core", "thread", "cpu"];

fn parse_counts(text: &str) -> Result<Compact, DescribeError> {
    let mut counts: [Option<u32>; 5] = [None; 5];
    let mut bare = Vec::new();
    let mut outer = None;
    for part in text.split(['x', '×', '*']) {
        let part = part.trim();
        let digits = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        let (number, unit) = part.split_at(digits);
        let number: u32 = number
            .parse()
            .ok()
            .filter(|&number| (1..=MAX_CPU_IDS as u32).contains(&number))
            .ok_or_else(|| error(Quoted(part), format!("a count from 1 to {MAX_CPU_IDS}")))?;
        let unit = unit.trim();
        if unit.is_empty() {
            bare.push(number);
            continue;
        }
        let singular = unit.strip_suffix('s').unwrap_or(unit);
        let place = UNITS
            .iter()
            .position(|unit| *unit == singular)
            .ok_or_else(|| error(Quoted(unit), "nodes, llcs, cores, threads or cpus"))?;
        if outer.is_some_and(|outer| outer >= place) {
            return Err(error(
                format!("{} behind a part as small or smaller", Quoted(part)),
                "each part once, the largest first",
            ));
        }
        outer = Some(place);
        counts[place] = Some(number);
    }
    let [nodes, llcs, cores, threads, cpus] = counts;
    match (bare.as_slice(), outer) {
        ([], _) => {}
        (&[nodes, cpus], None) => {
            return Ok(Compact {
                nodes,
                llcs: 1,
                cores: cpus,
                threads: 1,
                distances: Vec::new(),
            });
        }
        _ => {
            return Err(error(
                Quoted(text),
                "every count with its unit, or two without (nodes and CPUs per node)",
            ));
        }
    }
    if cpus.is_some() && (cores.is_some() || threads.is_some()) {
        return Err(error(Quoted(text), "either cpus, or cores and threads"));
    }
    Ok(Compact {
        nodes: nodes.unwrap_or(1),
        llcs: llcs.unwrap_or(1),
        cores: cores.or(cpus).unwrap_or(1),
        threads: threads.unwrap_or(1),
        distances: Vec::new(),
    })
}

fn parse_distances(text: &str, nodes: u32) -> Result<Vec<Vec<u32>>, DescribeError> {
    let rows: Vec<&str> = text.split('/').collect();
    if rows.len() != nodes as usize {
        return Err(error(
            format!("{} row(s) of distances", rows.len()),
            format!("{nodes}, one per node, with / between them"),
        ));
    }
    let entry = |text: &str| {
        let distance = text.trim().parse().ok();
        distance
            .filter(|distance| (LOCAL_DISTANCE..=MAX_DISTANCE).contains(distance))
            .ok_or_else(|| {
                error(
                    Quoted(text.trim()),
                    format!("a distance of {LOCAL_DISTANCE} to {MAX_DISTANCE}"),
                )
            })
    };
    let row = |text: &str| {
        let row: Vec<u32> = text.split(',').map(entry).collect::<Result<_, _>>()?;
        match row.len() == nodes as usize {
            true => Ok(row),
            false => Err(error(
                format!("{} distance(s) in {}", row.len(), Quoted(text.trim())),
                format!("{nodes}, one per node, with commas between them"),
            )),
        }
    };
    rows.into_iter().map(row).collect()
}

impl Compact {
    /// Refuses what the builder could not even count.
    fn check_size(&self) -> Result<(), DescribeError> {
        let counts = [self.nodes, self.llcs, self.cores, self.threads];
        let cpus = counts
            .into_iter()
            .try_fold(1u32, |product, count| product.checked_mul(count))
            .filter(|&cpus| cpus as usize <= MAX_CPU_IDS);
        match cpus {
            Some(_) => Ok(()),
            None => Err(error(
                format!(
                    "{} x {} x {} x {} CPUs",
                    self.nodes, self.llcs, self.cores, self.threads
                ),
                format!("at most {MAX_CPU_IDS}"),
            )),
        }
    }

    /// The machine, to be built.
    pub(super) fn builder(&self) -> MachineBuilder {
        let mut builder = MachineBuilder::uniform(self.nodes, self.llcs, self.cores, self.threads);
        for (from, row) in (0..).zip(&self.distances) {
            for (to, &distance) in (0..).zip(row) {
                builder.distance(from, to, distance);
            }
        }
        builder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> [u32; 4] {
        let machine = parse(text).unwrap();
        [machine.nodes, machine.llcs, machine.cores, machine.threads]
    }

    #[test]
    fn parts_may_be_left_out() {
        assert_eq!(
            counts("2 nodes x 8 llcs x 8 cores x 2 threads"),
            [2, 8, 8, 2]
        );
        assert_eq!(counts("2 nodes x 4 cores"), [2, 1, 4, 1]);
        assert_eq!(counts("1 node x 2 llcs x 3 cpus"), [1, 2, 3, 1]);
        assert_eq!(counts("4 llcs"), [1, 4, 1, 1]);
        assert_eq!(counts("2 threads"), [1, 1, 1, 2]);
        assert_eq!(counts("  2NODES*3Cores ×2 threads "), [2, 1, 3, 2]);
        assert_eq!(counts("2x8"), [2, 1, 8, 1]);
    }

    #[test]
    fn distances_may_follow() {
        for text in [
            "2 nodes x 4 cpus, distances 10,20/30,10",
            "2x4 distance 10, 20 / 30, 10",
        ] {
            assert_eq!(parse(text).unwrap().distances, [[10, 20], [30, 10]]);
        }
    }

    #[test]
    fn errors_name_what_was_found_and_expected() {
        for (text, found, expected) in [
            ("2 nodes x 0 cpus", "\"0 cpus\"", "from 1 to 4096"),
            ("2 nodes x", "\"\"", "from 1 to 4096"),
            ("2 sockets", "\"sockets\"", "nodes, llcs"),
            ("2 cores x 2 nodes", "\"2 nodes\"", "largest first"),
            ("2 nodes x 2 nodes", "\"2 nodes\"", "each part once"),
            ("2 cores x 2 cpus", "2 cores", "either cpus"),
            ("2", "\"2\"", "its unit"),
            ("2x4x8", "2x4x8", "its unit"),
            ("2 nodes x 4", "2 nodes", "its unit"),
            ("64 nodes x 65 cpus", "64 x 1 x 65 x 1", "at most 4096"),
            (
                "4000000000 nodes x 4000000000 cpus",
                "4000000000",
                "from 1 to 4096",
            ),
            ("99999999999 nodes", "99999999999", "from 1 to 4096"),
            ("2x4 distances", "1 row(s)", "2, one per node"),
            ("2x4 distances 10,20/20", "1 distance(s)", "2, one per node"),
            ("2x4 distances 10,9/20,10", "\"9\"", "10 to 255"),
            ("2x4 distances 10,/20,10", "\"\"", "10 to 255"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            let (left, right) = message.split_once(": expected ").unwrap();
            assert!(
                left.contains(found) && right.contains(expected),
                "{message}"
            );
        }
    }
}
