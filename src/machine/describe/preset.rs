// SPDX-License-Identifier: GPL-2.0-only
//! Machines by name: those that published measurements were made on.
//!
//! They are data, presets.toml beside this module; it explains its keys. What the published
//! description leaves open is marked there and becomes a warning of the machine.

use crate::machine::{CpuDesc, MachineBuilder, cpulist};
use serde::Deserialize;

const PRESETS: &str = include_str!("../presets.toml");

#[derive(Deserialize)]
struct Presets {
    machine: Vec<Preset>,
}

/// A machine of presets.toml.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// What `--machine` takes.
    pub id: String,
    /// One line for people.
    pub description: String,
    /// Where the machine is described.
    pub published: String,
    nodes: Vec<String>,
    #[serde(default)]
    llcs: Vec<String>,
    llc_level: Option<u8>,
    smt: Option<usize>,
    #[serde(default)]
    siblings: Siblings,
    #[serde(default)]
    memory_mib: Vec<u64>,
    #[serde(default)]
    distances: Vec<Vec<u32>>,
    /// What the source does not tell.
    #[serde(default)]
    pub assumed: Vec<String>,
}

/// How the CPUs of a core are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Siblings {
    #[default]
    Adjacent,
    Apart,
}

/// All presets, in the order of the file. The error, which a test rules out, tells what is wrong
/// with the file.
pub fn presets() -> Result<Vec<Preset>, String> {
    toml::from_str::<Presets>(PRESETS)
        .map(|presets| presets.machine)
        .map_err(|error| error.to_string())
}

impl Preset {
    /// The machine, to be built. The error tells what is wrong with the entry.
    pub(super) fn builder(&self) -> Result<MachineBuilder, String> {
        let list = |text: &String| {
            cpulist::parse(text).ok_or_else(|| format!("{text:?} is not a list of CPUs"))
        };
        let nodes: Vec<Vec<u32>> = self.nodes.iter().map(list).collect::<Result<_, _>>()?;
        let llcs: Vec<Vec<u32>> = match self.llcs.is_empty() {
            true => nodes.clone(),
            false => self.llcs.iter().map(list).collect::<Result<_, _>>()?,
        };

        let mut builder = MachineBuilder::new();
        for (node, _) in (0..).zip(&nodes) {
            builder.node(node, self.memory_mib.get(node as usize).copied());
        }
        for (llc, cpus) in (0..).zip(&llcs) {
            let first = cpus.first().ok_or("an LLC without CPUs")?;
            let node = (0..).zip(&nodes).find(|(_, node)| node.contains(first));
            let (node, members) = node.ok_or_else(|| format!("CPU {first} is in no node"))?;
            if let Some(stray) = cpus.iter().find(|cpu| !members.contains(cpu)) {
                return Err(format!("CPU {stray} is not in node {node}, its LLC is"));
            }
            let smt = self.smt.unwrap_or(1).max(1);
            let cores = cpus.len().div_ceil(smt);
            for (at, &id) in cpus.iter().enumerate() {
                let core = match self.siblings {
                    Siblings::Adjacent => at / smt,
                    Siblings::Apart => at % cores,
                };
                builder.cpu(CpuDesc {
                    id,
                    node,
                    llc,
                    core: core as u32,
                    level: self.llc_level,
                    little: false,
                });
            }
        }
        for (from, row) in (0..).zip(&self.distances) {
            for (to, &distance) in (0..).zip(row) {
                builder.distance(from, to, distance);
            }
        }
        if !self.assumed.is_empty() {
            builder.warn(format!(
                "assumed of {}, as its description does not tell: {}",
                self.id,
                self.assumed.join(", ")
            ));
        }
        Ok(builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_describes_machines() {
        let presets = presets().unwrap();
        assert_eq!(presets.len(), 10);
        for preset in &presets {
            let machine = preset.builder().unwrap().build().unwrap();
            let listed = |lists: &[String]| {
                let lists = lists.iter().flat_map(|list| cpulist::parse(list).unwrap());
                lists.count()
            };
            assert_eq!(machine.cpus().len(), listed(&preset.nodes), "{}", preset.id);
            assert_eq!(machine.nr_cpu_nodes(), preset.nodes.len());
            if !preset.llcs.is_empty() {
                assert_eq!(machine.cpus().len(), listed(&preset.llcs), "{}", preset.id);
            }
            let smt = preset.smt.unwrap_or(1);
            assert!(machine.cores().iter().all(|core| core.cpus.len() == smt));
            for matrix in [&preset.distances].into_iter().filter(|m| !m.is_empty()) {
                assert_eq!(matrix.len(), preset.nodes.len(), "{}", preset.id);
                assert!(matrix.iter().all(|row| row.len() == matrix.len()));
            }
        }
    }

    #[test]
    fn siblings_are_numbered_as_told() {
        let core_of_0 = |id: &str| {
            let presets = presets().unwrap();
            let preset = presets.iter().find(|preset| preset.id == id).unwrap();
            let machine = preset.builder().unwrap().build().unwrap();
            let cpus = machine.cores()[0].cpus.clone();
            let ids = cpus.iter().map(|cpu| machine.cpus()[cpu.as_usize()].id);
            ids.collect::<Vec<_>>()
        };
        assert_eq!(core_of_0("zen3-nps4"), [0, 128]);
        assert_eq!(core_of_0("suse-2s-80"), [0, 40]);
        assert_eq!(core_of_0("power8-8n-256"), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
