// SPDX-License-Identifier: GPL-2.0-only
//! What `numactl -H` (`--hardware`) prints.
//!
//! It tells nodes, their CPUs and memory, and distances; nothing of caches and cores, so that each
//! node becomes one LLC and each CPU a core, with a warning. Lines may be in any order, but a node's
//! CPUs come before what else is said of it.

use super::error::{Quoted, TextError};
use crate::machine::limits::{LOCAL_DISTANCE, MAX_DISTANCE};
use crate::machine::{CpuDesc, MachineBuilder, cpulist};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a line is one of these.
pub(super) fn is_line(line: &str) -> bool {
    ["available:", "node ", "No NUMA"]
        .iter()
        .any(|start| line.starts_with(start))
}

/// The machine of a text, to be built.
///
/// # Errors
/// A line is not understood or contradicts another, or one is missing.
pub(super) fn parse(text: &str) -> Result<MachineBuilder, TextError> {
    let mut seen = Seen::default();
    for (line, content) in (1..).zip(text.lines()) {
        seen.take(line, content.trim())?;
    }
    seen.finish(text.lines().count() + 1)
}

/// What was read so far.
#[derive(Default)]
struct Seen {
    /// Line and number of nodes of `available:`.
    available: Option<(usize, usize)>,
    /// Memory in MiB by node.
    nodes: BTreeMap<u32, Option<u64>>,
    /// Node by CPU.
    cpus: BTreeMap<u32, u32>,
    /// Columns of the table of distances, once its head was read.
    columns: Vec<u32>,
    distances: BTreeMap<u32, Vec<u32>>,
}

impl Seen {
    fn take(&mut self, line: usize, content: &str) -> Result<(), TextError> {
        let words: Vec<&str> = content.split_whitespace().collect();
        match words.as_slice() {
            [] | ["node", "distances:"] | ["No", "distance", ..] => Ok(()),
            ["available:", number, ..] => self.take_available(line, number),
            ["No", "NUMA", ..] => Err(TextError::new(
                line,
                Quoted(content),
                "the nodes of a machine with NUMA",
            )),
            ["node", node, "cpus:", cpus @ ..] => self.take_cpus(line, node, cpus),
            ["node", node, "size:", size @ ..] => self.take_size(line, node, size),
            ["node", node, "free:", ..] => self.known_node(line, node).map(|_| ()),
            ["node", columns @ ..] if all_numbers(columns) => self.take_columns(line, columns),
            [row, distances @ ..] if row.ends_with(':') => self.take_row(line, row, distances),
            _ => Err(TextError::new(
                line,
                Quoted(content),
                "a line of `numactl -H`: available, node N cpus, size or free, or distances",
            )),
        }
    }

    fn take_available(&mut self, line: usize, number: &str) -> Result<(), TextError> {
        let number = number
            .parse()
            .map_err(|_| TextError::new(line, Quoted(number), "a number of nodes"))?;
        self.available = Some((line, number));
        Ok(())
    }

    fn take_cpus(&mut self, line: usize, node: &str, cpus: &[&str]) -> Result<(), TextError> {
        let node = id(line, node, "the number of a node")?;
        if self.nodes.insert(node, None).is_some() {
            return Err(TextError::new(
                line,
                format!("the CPUs of node {node} again"),
                "each node once",
            ));
        }
        for cpu in cpus {
            let cpu = id(line, cpu, "the number of a CPU")?;
            if let Some(other) = self.cpus.insert(cpu, node) {
                return Err(TextError::new(
                    line,
                    format!("CPU {cpu}, which node {other} has"),
                    "each CPU once",
                ));
            }
        }
        Ok(())
    }

    fn take_size(&mut self, line: usize, node: &str, size: &[&str]) -> Result<(), TextError> {
        let node = self.known_node(line, node)?;
        let size = match size {
            ["<not", "available>"] => None,
            [number, "MB"] => Some(
                number
                    .parse()
                    .map_err(|_| TextError::new(line, Quoted(number), "a size in MB"))?,
            ),
            _ => {
                return Err(TextError::new(
                    line,
                    Quoted(&size.join(" ")),
                    "a size, as in 65536 MB",
                ));
            }
        };
        self.nodes.insert(node, size);
        Ok(())
    }

    /// The head of the table of distances.
    fn take_columns(&mut self, line: usize, columns: &[&str]) -> Result<(), TextError> {
        let mut nodes = Vec::new();
        for column in columns {
            let node = self.known_node(line, column)?;
            if nodes.contains(&node) {
                return Err(TextError::new(
                    line,
                    format!("node {node} again"),
                    "each node once",
                ));
            }
            nodes.push(node);
        }
        self.columns = nodes;
        Ok(())
    }

    fn take_row(&mut self, line: usize, row: &str, words: &[&str]) -> Result<(), TextError> {
        let node = self.known_node(line, row.trim_end_matches(':'))?;
        if words.len() != self.columns.len() {
            return Err(TextError::new(
                line,
                format!("{} distance(s)", words.len()),
                match self.columns.len() {
                    0 => "a line `node 0 1 ...` in front of the distances".to_owned(),
                    columns => format!("{columns}, as many as there are columns"),
                },
            ));
        }
        let distance = |word: &&str| {
            let distance = word.parse().ok();
            distance
                .filter(|distance| (LOCAL_DISTANCE..=MAX_DISTANCE).contains(distance))
                .ok_or_else(|| {
                    let expected = format!("a distance of {LOCAL_DISTANCE} to {MAX_DISTANCE}");
                    TextError::new(line, Quoted(word), expected)
                })
        };
        let distances = words.iter().map(distance).collect::<Result<_, _>>()?;
        if self.distances.insert(node, distances).is_some() {
            return Err(TextError::new(
                line,
                format!("the distances of node {node} again"),
                "each node once",
            ));
        }
        Ok(())
    }

    fn known_node(&self, line: usize, node: &str) -> Result<u32, TextError> {
        let node = id(line, node, "the number of a node")?;
        match self.nodes.contains_key(&node) {
            true => Ok(node),
            false => Err(TextError::new(
                line,
                format!("node {node}"),
                format!("a line `node {node} cpus:` before it"),
            )),
        }
    }

    fn finish(self, end: usize) -> Result<MachineBuilder, TextError> {
        if self.nodes.is_empty() {
            return Err(TextError::new(end, "no node", "lines `node N cpus:`"));
        }
        if let Some((line, available)) = self.available
            && available != self.nodes.len()
        {
            return Err(TextError::new(
                line,
                format!(
                    "{available} nodes announced, {} described",
                    self.nodes.len()
                ),
                "the same number",
            ));
        }
        if self.cpus.is_empty() {
            return Err(TextError::new(end, "no CPU", "a node with CPUs"));
        }
        let mut builder = MachineBuilder::new();
        for (&node, &memory_mib) in &self.nodes {
            builder.node(node, memory_mib);
        }
        for (&id, &node) in &self.cpus {
            builder.cpu(CpuDesc {
                id,
                node,
                llc: 0,
                core: id,
                level: None,
                little: false,
            });
        }
        builder.warn(
            "numactl tells nothing of caches and cores; each node is taken as one LLC, \
             each CPU as a core",
        );
        self.add_distances(&mut builder);
        Ok(builder)
    }

    fn add_distances(&self, builder: &mut MachineBuilder) {
        for (&from, row) in &self.distances {
            for (&to, &distance) in self.columns.iter().zip(row) {
                builder.distance(from, to, distance);
            }
        }
        let nodes: BTreeSet<u32> = self.nodes.keys().copied().collect();
        let columns: BTreeSet<u32> = self.columns.iter().copied().collect();
        let missing: Vec<u32> = nodes
            .into_iter()
            .filter(|node| !self.distances.contains_key(node) || !columns.contains(node))
            .collect();
        if !missing.is_empty() && self.nodes.len() > 1 {
            builder.warn(format!(
                "the distances of node {} are missing; 10 (local) and 20 (remote) are used instead",
                cpulist::format(missing)
            ));
        }
    }
}

/// Whether there are words, all of them numbers.
fn all_numbers(words: &[&str]) -> bool {
    !words.is_empty() && words.iter().all(|word| word.parse::<u32>().is_ok())
}

fn id(line: usize, word: &str, expected: &str) -> Result<u32, TextError> {
    word.parse()
        .map_err(|_| TextError::new(line, Quoted(word), expected))
}
