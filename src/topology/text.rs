// SPDX-License-Identifier: GPL-2.0-only
//! The machine for people: compact from one socket to sixteen, lines of [`LINE_WIDTH`] at most
//! where they can be broken.

use super::levels::{Group, groups, warnings};
use crate::machine::{Levels, Llc, Machine, Node, cpulist};
use std::fmt::Write;

/// Lines of the text do not grow beyond this where they can be broken.
const LINE_WIDTH: usize = 100;

/// The machine for people: lines, each of them ended; the warnings last.
pub fn render_text(machine: &Machine) -> String {
    let levels = Levels::of(machine);
    let sections = [
        summary(machine),
        node_table(machine),
        llc_lists(machine),
        distance_table(machine),
        level_table(machine, &levels),
        warning_list(machine, &levels),
    ];
    let sections: Vec<String> = sections
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    sections.join("\n")
}
fn summary(machine: &Machine) -> String {
    let smt = match machine
        .cores()
        .iter()
        .rev()
        .max_by_key(|core| core.cpus.len())
    {
        Some(core) if core.cpus.len() > 1 => {
            let siblings = core
                .cpus
                .iter()
                .map(|cpu| machine.cpus()[cpu.as_usize()].id);
            format!(
                "up to {} CPUs per core (such as {})",
                core.cpus.len(),
                cpulist::format(siblings)
            )
        }
        _ => "no SMT".to_owned(),
    };
    format!(
        "{}, {}, {}, {}; {smt}; CPU ids 0 to {}\n",
        counted(machine.nodes().len(), "node"),
        counted(machine.llcs().len(), "LLC"),
        counted(machine.cores().len(), "core"),
        counted(machine.cpus().len(), "CPU"),
        machine.nr_cpu_ids() - 1,
    )
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn node_table(machine: &Machine) -> String {
    let head = [
        "node", "memory", "LLCs", "cache", "cores", "CPUs", "CPU list",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for node in machine.nodes() {
        let cpus = match node.memory_only {
            true => "none: not scheduled on".to_owned(),
            false => cpulist::format(machine.kernel_ids(&node.cpus)),
        };
        rows.push([
            node.id.to_string(),
            node.memory_mib.map_or("?".to_owned(), memory),
            node.llcs.len().to_string(),
            caches(llcs_of(machine, node)),
            node.cores.len().to_string(),
            node.cpus.len().to_string(),
            cpus,
        ]);
    }
    table(&rows)
}

/// A size in MiB with one decimal in the unit that suits it.
fn memory(mib: u64) -> String {
    match mib {
        0..1024 => format!("{mib} MiB"),
        _ => format!("{}.{} GiB", mib / 1024, mib % 1024 * 10 / 1024),
    }
}

/// The kinds of last-level caches among `llcs`: `L3`, `L2/L3`, `L3 parts`, `?`.
fn caches(llcs: &[Llc]) -> String {
    let mut kinds: Vec<String> = llcs
        .iter()
        .map(|llc| match (llc.level, llc.is_virtual) {
            (Some(level), false) => format!("L{level}"),
            (Some(level), true) => format!("L{level} parts"),
            (None, false) => "?".to_owned(),
            (None, true) => "node parts".to_owned(),
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join("/")
}

fn llcs_of<'a>(machine: &'a Machine, node: &Node) -> &'a [Llc] {
    &machine.llcs()[node.llcs.start as usize..node.llcs.end as usize]
}

/// Which CPUs are in which LLC, one paragraph per node; nothing if every node is one LLC.
fn llc_lists(machine: &Machine) -> String {
    if machine.llcs().len() == machine.nr_cpu_nodes() {
        return String::new();
    }
    let entry = |llc: &Llc| {
        format!(
            "{}: {}",
            llc.idx,
            cpulist::format(machine.kernel_ids(&llc.cpus))
        )
    };
    let width = machine.llcs().iter().map(|llc| entry(llc).len()).max();
    let width = width.unwrap_or(0) + 3;
    let label = machine
        .cpu_nodes()
        .iter()
        .map(|node| node.id.to_string().len())
        .max();
    let label = label.unwrap_or(0);
    let indent = "LLCs of node   ".len() + label;
    let per_line = (LINE_WIDTH.saturating_sub(indent) / width).max(1);

    let mut text = String::new();
    for node in machine.cpu_nodes() {
        for (at, llcs) in llcs_of(machine, node).chunks(per_line).enumerate() {
            let lead = match at {
                0 => format!("LLCs of node {:>label$}  ", node.id),
                _ => " ".repeat(indent),
            };
            let line: String = llcs
                .iter()
                .map(|llc| format!("{:width$}", entry(llc)))
                .collect();
            push_line(&mut text, &(lead + &line));
        }
    }
    text
}

fn distance_table(machine: &Machine) -> String {
    if machine.nodes().len() < 2 {
        return String::new();
    }
    let mut text = format!("{:>8}", "distance");
    for to in machine.nodes() {
        let _ = write!(text, " {:>4}", to.id);
    }
    text.push('\n');
    for from in machine.nodes() {
        let _ = write!(text, "{:>8}", from.id);
        for to in machine.nodes() {
            let _ = write!(text, " {:>4}", machine.distance(from.idx, to.idx));
        }
        text.push('\n');
    }
    text
}

/// What the kernel tolerates at each level, one line per group of CPUs with the same numbers.
fn level_table(machine: &Machine, levels: &Levels) -> String {
    let head = ["level", "span", "imb_numa_nr", "of"];
    let mut rows = vec![head.map(str::to_owned)];
    for (at, level) in levels.numa_levels().iter().enumerate() {
        let name = match at {
            0 => "node".to_owned(),
            _ => level.distance().to_string(),
        };
        let row = |group: Group| {
            [
                name.clone(),
                group.weight.to_string(),
                group.imb_numa_nr.to_string(),
                group.words(machine),
            ]
        };
        rows.extend(groups(machine, levels, at).into_iter().map(row));
    }
    match rows.len() {
        1 => String::new(),
        _ => table(&rows),
    }
}

fn warning_list(machine: &Machine, levels: &Levels) -> String {
    warnings(machine, levels)
        .iter()
        .map(|warning| format!("warning: {warning}\n"))
        .collect()
}

/// `rows` in columns two spaces apart, all but the last aligned to the right.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells =
            row.iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| match column + 1 == N {
                    true => cell.clone(),
                    false => format!("{cell:>width$}  "),
                });
        push_line(&mut text, &cells.collect::<String>());
    }
    text
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{CpuDesc, MachineBuilder};

    #[test]
    fn one_llc_per_node_needs_no_list_of_them() {
        let mut builder = MachineBuilder::uniform(2, 1, 4, 2);
        builder.nr_cpu_ids(32).node(7, Some(16384)).warn("odd.");
        let text = render_text(&builder.build().unwrap());
        let expected = "\
3 nodes, 2 LLCs, 8 cores, 16 CPUs; up to 2 CPUs per core (such as 0-1); CPU ids 0 to 31

node    memory  LLCs  cache  cores  CPUs  CPU list
   0         ?     1     L3      4     8  0-7
   1         ?     1     L3      4     8  8-15
   7  16.0 GiB     0             0     0  none: not scheduled on

distance    0    1    7
       0   10   20   20
       1   20   10   20
       7   20   20   10

level  span  imb_numa_nr  of
 node     8            1  all
   20    16            1  all

warning: odd.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn llcs_are_listed_in_columns_and_broken() {
        let machine = MachineBuilder::uniform(2, 10, 16, 1).build().unwrap();
        let text = llc_lists(&machine);
        assert!(text.lines().all(|line| line.len() <= LINE_WIDTH), "{text}");
        assert!(
            text.starts_with("LLCs of node 0  0: 0-15       1: 16-31"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.ends_with("19: 304-319\n"), "{text}");
    }

    #[test]
    fn one_node_is_one_short_page() {
        let text = render_text(&MachineBuilder::uniform(1, 1, 4, 1).build().unwrap());
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.starts_with("1 node, 1 LLC, 4 cores, 4 CPUs; no SMT; CPU ids 0 to 3\n"));
    }

    #[test]
    fn cpus_with_the_same_numbers_are_together() {
        // A line of four nodes of 16 CPUs; see tests/machine_levels.rs for the arithmetic.
        let mut builder = MachineBuilder::uniform(4, 1, 16, 1);
        for (from, to) in (0..4u32).flat_map(|from| (0..4).map(move |to| (from, to))) {
            builder.distance(from, to, 10 + 10 * from.abs_diff(to));
        }
        let machine = builder.build().unwrap();
        let expected = "\
level  span  imb_numa_nr  of
 node    16            2  all
   20    32            2  nodes 0,3
   20    48            2  nodes 1-2
   30    48            2  nodes 0,3
   30    64            2  nodes 1-2
   40    64            4  nodes 0,3
";
        assert_eq!(level_table(&machine, &Levels::of(&machine)), expected);
    }

    #[test]
    fn numbers_that_differ_inside_a_node_name_its_cpus() {
        let mut builder = MachineBuilder::new();
        builder.node(0, None).node(1, None);
        for id in 0..32 {
            // LLCs of 12 and 4 CPUs: 16 / 12 is 1, so 16 / 8 = 2; 16 / 4 = 4.
            builder.cpu(CpuDesc {
                id,
                node: id / 16,
                llc: u32::from(id % 16 >= 12),
                core: id,
                level: Some(3),
                little: false,
            });
        }
        let machine = builder.build().unwrap();
        let expected = "\
level  span  imb_numa_nr  of
 node    16            2  CPUs 0-11,16-27
 node    16            4  CPUs 12-15,28-31
   20    32            2  CPUs 0-11,16-27
   20    32            4  CPUs 12-15,28-31
";
        assert_eq!(level_table(&machine, &Levels::of(&machine)), expected);
    }

    #[test]
    fn sixteen_nodes_fit_on_a_page() {
        let mut builder = MachineBuilder::uniform(16, 1, 64, 1);
        for (from, to) in (0..16u32).flat_map(|from| (0..16).map(move |to| (from, to))) {
            let distance = match (from == to, from / 4 == to / 4) {
                (true, _) => 10,
                (_, true) => 12,
                _ => 32,
            };
            builder.distance(from, to, distance);
        }
        let text = render_text(&builder.build().unwrap());
        // Summary, nodes, distances, levels.
        assert_eq!(text.lines().count(), 1 + 1 + 17 + 1 + 17 + 1 + 4, "{text}");
        assert!(text.lines().all(|line| line.len() <= LINE_WIDTH), "{text}");
    }

    #[test]
    fn a_machine_without_domains_is_warned_of() {
        let mut builder = MachineBuilder::uniform(2, 1, 4, 1);
        builder.distance(0, 1, 10);
        let text = render_text(&builder.build().unwrap());
        assert!(text.contains("builds no scheduling domains"), "{text}");
    }
}
