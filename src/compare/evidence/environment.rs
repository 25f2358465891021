// SPDX-License-Identifier: GPL-2.0-only
//! What a comparison is made on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use thiserror::Error;

use super::Nodes;
use crate::compare::record::{Environment, Fact};
use crate::compare::roots::{Roots, convert};
use crate::machine::cpulist;

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";
/// Where `kernel.numa_balancing` is.
pub const NUMA_BALANCING: &str = "proc/sys/kernel/numa_balancing";

/// The machine does not say which CPUs it has.
#[derive(Debug, Error)]
#[error("cannot tell which CPUs are online: {0}")]
pub struct NoCpus(String);

/// The nodes with online CPUs; without NUMA all CPUs are node 0.
pub fn nodes(roots: &Roots) -> Result<Nodes, NoCpus> {
    let online: BTreeSet<u32> = match list(roots, &format!("{CPU}/online")) {
        Fact::Known(cpus) => cpus.into_iter().collect(),
        Fact::NotAvailable(why) => return Err(NoCpus(why)),
    };
    let ids = list(roots, &format!("{NODE}/online"));
    let ids = ids.known().map_or(&[][..], Vec::as_slice);
    let of_node = |&id: &u32| {
        let cpus = list(roots, &format!("{NODE}/node{id}/cpulist"));
        let cpus = cpus.known()?.iter().copied().filter(|c| online.contains(c));
        Some((id, cpus.collect::<Vec<_>>())).filter(|(_, cpus)| !cpus.is_empty())
    };
    let found: Nodes = ids.iter().filter_map(of_node).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Ok(Nodes::from([(0, online.into_iter().collect())])),
    }
}

fn list(roots: &Roots, path: &str) -> Fact<Vec<u32>> {
    convert(roots.read(path), &format!("{path} is not a list"), |text| {
        cpulist::parse(text)
    })
}

/// All that is known of the machine.
pub fn read(roots: &Roots, nodes: &Nodes) -> Environment {
    let file = |path: &str| roots.read(path);
    Environment {
        host: file("proc/sys/kernel/hostname"),
        kernel: kernel(roots),
        cpu_model: cpu_model(roots),
        cpus: nodes.values().map(|cpus| cpus.len() as u32).sum(),
        nodes: nodes
            .iter()
            .map(|(&id, cpus)| (id, cpulist::format(cpus.iter().copied())))
            .collect(),
        memory_bytes: convert(
            file("proc/meminfo"),
            "/proc/meminfo has no MemTotal",
            |text| memory(text),
        ),
        smt: file(&format!("{CPU}/smt/control")),
        mitigations: mitigations(roots),
        governor: governor(roots),
        boot_line: file("proc/cmdline"),
        numa_balancing: file(NUMA_BALANCING),
        hypervisor: hypervisor(roots),
        transparent_hugepages: convert(
            file("sys/kernel/mm/transparent_hugepage/enabled"),
            "no choice is marked",
            |text| Some(text.split_once('[')?.1.split_once(']')?.0.to_string()),
        ),
        load: convert(
            file("proc/loadavg"),
            "/proc/loadavg is not numbers",
            |text| text.split(' ').next()?.parse().ok(),
        ),
    }
}

/// `uname -r` and `-v`.
fn kernel(roots: &Roots) -> String {
    let part = |name: &str| roots.read(format!("proc/sys/kernel/{name}"));
    let parts = [part("osrelease"), part("version")];
    let known: Vec<&str> = parts
        .iter()
        .filter_map(|p| Some(p.known()?.as_str()))
        .collect();
    match known.is_empty() {
        false => known.join(" "),
        true => "unknown".into(),
    }
}

fn memory(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// `model name` of x86, `Processor` or `cpu` of others.
fn cpu_model(roots: &Roots) -> Fact<String> {
    let reason = "/proc/cpuinfo names no model";
    convert(roots.read("proc/cpuinfo"), reason, |text| {
        ["model name", "Processor", "cpu"].iter().find_map(|key| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
            let (_, value) = pairs.find(|(name, _)| name.trim() == *key)?;
            Some(value.trim().to_string())
        })
    })
}

fn mitigations(roots: &Roots) -> Fact<BTreeMap<String, String>> {
    let folder = format!("{CPU}/vulnerabilities");
    match fs::read_dir(roots.path(&folder)) {
        Err(error) => Fact::NotAvailable(format!("/{folder}: {error}")),
        Ok(entries) => {
            let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
            let found = names.filter_map(|name| {
                let said = roots.read(format!("{folder}/{name}"));
                Some((name, said.known()?.clone()))
            });
            Fact::Known(found.collect())
        }
    }
}

/// The governors of all CPUs, each once.
fn governor(roots: &Roots) -> Fact<String> {
    let Fact::Known(cpus) = list(roots, &format!("{CPU}/online")) else {
        return Fact::NotAvailable("the online CPUs are not known".into());
    };
    let of = |cpu: &u32| roots.read(format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor"));
    let names: BTreeSet<String> = cpus.iter().filter_map(|c| of(c).known().cloned()).collect();
    match (names.is_empty(), cpus.first()) {
        (false, _) => Fact::Known(names.into_iter().collect::<Vec<_>>().join(",")),
        (true, Some(first)) => of(first),
        (true, None) => Fact::NotAvailable("no CPUs".into()),
    }
}

/// What the machine runs on, where it is a virtual one.
fn hypervisor(roots: &Roots) -> Fact<String> {
    let virtual_cpu = convert(roots.read("proc/cpuinfo"), "no flags", |text| {
        let mut lines = text.lines();
        let flags = lines.find(|line| line.starts_with("flags"))?;
        Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
    });
    match virtual_cpu {
        Fact::NotAvailable(why) => Fact::NotAvailable(why),
        Fact::Known(false) => Fact::Known("none".into()),
        Fact::Known(true) => {
            let named = |path: &str| roots.read(path).known().cloned();
            let name = named("sys/hypervisor/type").or(named("sys/class/dmi/id/sys_vendor"));
            Fact::Known(name.unwrap_or_else(|| "unnamed".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::roots::testing::tree;

    #[test]
    fn nodes_are_the_kernel_s_without_offline_cpus_and_empty_nodes() {
        let (_dir, roots) = tree(&[
            ("sys/devices/system/cpu/online", "0-2,4-5\n"),
            ("sys/devices/system/node/online", "0,2,7\n"),
            ("sys/devices/system/node/node0/cpulist", "0-3\n"),
            ("sys/devices/system/node/node2/cpulist", "4-5\n"),
            ("sys/devices/system/node/node7/cpulist", "\n"),
        ]);
        let expected = Nodes::from([(0, vec![0, 1, 2]), (2, vec![4, 5])]);
        assert_eq!(nodes(&roots).unwrap(), expected);
        let (_dir, roots) = tree(&[("sys/devices/system/cpu/online", "0-1\n")]);
        assert_eq!(nodes(&roots).unwrap(), Nodes::from([(0, vec![0, 1])]));
        let (_dir, roots) = tree(&[]);
        assert!(
            nodes(&roots)
                .unwrap_err()
                .to_string()
                .contains("cpu/online")
        );
    }

    #[test]
    fn what_is_not_there_is_told() {
        let (_dir, roots) = tree(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Fast One\nflags\t\t: fpu hypervisor\n",
            ),
            ("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n"),
            ("proc/loadavg", "0.25 0.1 0.1 1/99 1234\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            (
                "sys/devices/system/cpu/vulnerabilities/meltdown",
                "Not affected\n",
            ),
        ]);
        let found = read(&roots, &Nodes::from([(0, vec![0, 1])]));
        assert_eq!(found.cpu_model, Fact::Known("Fast One".into()));
        assert_eq!(found.hypervisor, Fact::Known("QEMU".into()));
        assert_eq!(found.memory_bytes, Fact::Known(2 << 20));
        assert_eq!(found.load, Fact::Known(0.25));
        assert_eq!(found.transparent_hugepages, Fact::Known("madvise".into()));
        assert_eq!(
            found.mitigations.known().unwrap()["meltdown"],
            "Not affected"
        );
        assert_eq!((found.cpus, &*found.nodes[&0]), (2, "0-1"));
        for absent in [
            &found.governor,
            &found.numa_balancing,
            &found.boot_line,
            &found.smt,
        ] {
            assert!(absent.known().is_none(), "{absent:?}");
        }
    }
}
