// SPDX-License-Identifier: GPL-2.0-only
//! What `lscpu -p` prints: one line per CPU, values between commas, columns named in a comment.
//!
//! Read are CPU (needed), CORE, SOCKET, NODE, ONLINE and the caches, which are columns L1d to L4 or,
//! from older versions, one column CACHE with colons in it. `lscpu -p` alone has what is needed, as
//! has `lscpu -p=CPU,CORE,SOCKET,NODE,CACHE`; other columns are passed over. A text without any comment
//! is taken to have these five. Offline CPUs (`lscpu -a`) count as possible ones.
//!
//! The LLC is made of a CPU's highest cache from level 2 on as it is for the running machine.
//! Distances and memory are not told: 10 and 20 are used, with a warning where there are several
//! nodes.

use super::error::{Quoted, TextError};
use crate::machine::limits::MAX_CPU_IDS;
use crate::machine::llc::{Facts, llc_keys};
use crate::machine::sysfs::LastCache;
use crate::machine::{CpuDesc, MachineBuilder};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a text without a comment that names them.
const DEFAULT: &str = "CPU,Core,Socket,Node,Cache";

/// Whether a line is one of these: a comment, or values between commas.
pub(super) fn is_line(line: &str) -> bool {
    line.starts_with('#') || (line.contains(',') && line.starts_with(|c: char| c.is_ascii_digit()))
}

/// The machine of a text, to be built.
///
/// # Errors
/// A line is not understood or contradicts another, or there is none of a CPU.
pub(super) fn parse(text: &str) -> Result<MachineBuilder, TextError> {
    let mut columns = Columns::of(DEFAULT);
    let mut named = false;
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    let mut last_id = 0;
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if let Some(comment) = content.strip_prefix('#') {
            // Prose has commas, too.
            let names = Columns::of(comment);
            if names.place("cpu").is_some() {
                columns = names;
                named = true;
            }
            continue;
        }
        if content.is_empty() {
            continue;
        }
        let row = columns.row(line, content, named)?;
        last_id = last_id.max(row.cpu);
        if row.online {
            if let Some(other) = rows.get(&row.cpu) {
                return Err(TextError::new(
                    line,
                    format!("CPU {}, as on line {}", row.cpu, other.line),
                    "each CPU once",
                ));
            }
            rows.insert(row.cpu, row);
        }
    }
    if rows.is_empty() {
        return Err(TextError::new(
            text.lines().count() + 1,
            "no online CPU",
            "lines of numbers between commas, one per CPU",
        ));
    }
    builder(&rows, last_id)
}

/// A line of a CPU; `None` is an empty value.
struct Row {
    line: usize,
    cpu: u32,
    online: bool,
    core: Option<u32>,
    socket: Option<u32>,
    node: Option<u32>,
    /// Level and number of the highest cache from level 2 on.
    cache: Option<(u8, u32)>,
}

/// Names of columns in lower case, in their order.
struct Columns(Vec<String>);

impl Columns {
    fn of(names: &str) -> Self {
        let names = names.split(',').map(|name| name.trim().to_lowercase());
        Self(names.collect())
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|column| column == name)
    }

    fn row(&self, line: usize, content: &str, named: bool) -> Result<Row, TextError> {
        let values: Vec<&str> = content.split(',').map(str::trim).collect();
        // Without names, caches may be one column or several.
        if named && values.len() != self.0.len() || values.len() < 4 && !named {
            let columns = self.0.len();
            return Err(TextError::new(
                line,
                format!("{} value(s) in {}", values.len(), Quoted(content)),
                match named {
                    true => format!("{columns}, as many as the comment names"),
                    false => format!("the columns {DEFAULT}, or a comment that names others"),
                },
            ));
        }
        let value = |name: &str| {
            let value = self.place(name).and_then(|place| values.get(place));
            value.copied().filter(|value| !matches!(*value, "" | "-"))
        };
        let number = |name: &str| {
            let parse = |value: &str| number(line, value, name);
            value(name).map(parse).transpose()
        };
        let cpu = number("cpu")?
            .ok_or_else(|| TextError::new(line, Quoted(content), "the number of a CPU"))?;
        // Here and not by the builder: what follows takes time and space by the CPUs' number.
        if cpu as usize >= MAX_CPU_IDS {
            let expected = format!("at most {MAX_CPU_IDS} CPUs, the first of them 0");
            return Err(TextError::new(line, format!("CPU {cpu}"), expected));
        }
        let (core, socket) = (number("core")?, number("socket")?);
        let told_off = value("online").is_some_and(|online| !matches!(online, "y" | "Y" | "yes"));
        let places = self.place("core").is_some() && self.place("socket").is_some();
        Ok(Row {
            line,
            cpu,
            // An offline CPU is nowhere.
            online: !(told_off || places && core.is_none() && socket.is_none()),
            core,
            socket,
            node: number("node")?,
            cache: match named {
                true => self.last_cache(line, &values)?,
                false => joined_caches(line, &values[4..])?,
            },
        })
    }

    /// The highest cache among named columns.
    fn last_cache(&self, line: usize, values: &[&str]) -> Result<Option<(u8, u32)>, TextError> {
        if let Some(place) = self.place("cache") {
            return joined_caches(line, &values[place..=place]);
        }
        let mut last = None;
        for (name, value) in self.0.iter().zip(values) {
            let level = match name.strip_prefix('l').map(str::parse::<u8>) {
                Some(Ok(level)) if level >= 2 && !matches!(*value, "" | "-") => level,
                _ => continue,
            };
            if last.is_none_or(|(highest, _)| level > highest) {
                last = Some((level, number(line, value, name)?));
            }
        }
        Ok(last)
    }
}

/// The highest cache of values that begin with level 1's (data, and from three on instructions),
/// between colons or in columns of their own; an empty column in front is passed over.
fn joined_caches(line: usize, values: &[&str]) -> Result<Option<(u8, u32)>, TextError> {
    let values: Vec<&str> = values
        .iter()
        .flat_map(|value| value.split(':'))
        .map(str::trim)
        .skip_while(|value| value.is_empty())
        .collect();
    let level = match values.len() {
        0 | 1 => return Ok(None),
        2 => 2,
        caches => u8::try_from(caches - 1).unwrap_or(u8::MAX),
    };
    match values.last().copied() {
        None | Some("" | "-") => Ok(None),
        Some(last) => number(line, last, "cache").map(|last| Some((level, last))),
    }
}

fn number(line: usize, value: &str, name: &str) -> Result<u32, TextError> {
    value.parse().map_err(|_| {
        let expected = format!("a number in column {}", name.to_uppercase());
        TextError::new(line, Quoted(value), expected)
    })
}

fn builder(rows: &BTreeMap<u32, Row>, last_id: u32) -> Result<MachineBuilder, TextError> {
    let mut builder = MachineBuilder::new();
    builder.nr_cpu_ids(last_id as usize + 1);
    let with_nodes = rows.values().any(|row| row.node.is_some());
    let mut nodes = BTreeSet::new();
    let mut first_of_core = BTreeMap::new();
    let mut sharers: BTreeMap<(u8, u32), Vec<u32>> = BTreeMap::new();
    for row in rows.values() {
        if with_nodes && row.node.is_none() {
            return Err(TextError::new(
                row.line,
                format!("CPU {} without a node", row.cpu),
                "a node for each CPU or for none",
            ));
        }
        if nodes.insert(row.node.unwrap_or(0)) {
            builder.node(row.node.unwrap_or(0), None);
        }
        if let Some(core) = row.core {
            first_of_core.entry((row.socket, core)).or_insert(row.cpu);
        }
        if let Some(cache) = row.cache {
            sharers.entry(cache).or_default().push(row.cpu);
        }
    }
    let facts: BTreeMap<u32, Facts> = rows
        .values()
        .map(|row| {
            // Without a core's number each CPU is one.
            let core = row
                .core
                .and_then(|core| first_of_core.get(&(row.socket, core)));
            let cache = row.cache.map(|cache| LastCache {
                level: cache.0,
                cpus: sharers[&cache].clone(),
            });
            let facts = Facts {
                node: row.node.unwrap_or(0),
                core: core.copied().unwrap_or(row.cpu),
                cache,
            };
            (row.cpu, facts)
        })
        .collect();
    // As for the running machine: ends at nodes, private caches, missing ones.
    for (id, (llc, level)) in llc_keys(&mut builder, &facts) {
        builder.cpu(CpuDesc {
            id,
            node: facts[&id].node,
            llc,
            core: facts[&id].core,
            level,
            little: false,
        });
    }
    let mut warn_if = |condition: bool, warning: &str| {
        if condition {
            builder.warn(warning);
        }
    };
    warn_if(
        rows.values().any(|row| row.core.is_none()),
        "lscpu tells nothing of the cores of some CPUs; each of them is taken as a core",
    );
    warn_if(!with_nodes, "lscpu tells nothing of nodes; one is assumed");
    warn_if(
        nodes.len() > 1,
        "lscpu tells nothing of distances; 10 (local) and 20 (remote) are used",
    );
    Ok(builder)
}
