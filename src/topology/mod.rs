// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast topology`: the machine as the scheduler sees it.
//!
//! [`render_text`] is for people, compact from one socket to sixteen, and may change.
//! [`render_json`] is for programs: fields are added, never renamed or removed, and `format` would
//! count up if that promise had to be broken. Ids are the kernel's unless a field says `index`;
//! sets of CPUs are strings in the kernel's list notation.
//!
//! | field | what |
//! |---|---|
//! | `format` | 1 |
//! | `nr_cpu_ids` | highest possible CPU id + 1 |
//! | `cpus` | online CPUs |
//! | `smt` | some core has more than one online CPU |
//! | `nodes[]` | nodes with CPUs first, both kinds by id |
//! | `nodes[].index`, `.id` | dense index, kernel's id |
//! | `nodes[].memory_only` | no online CPU: in no order, limit or average |
//! | `nodes[].memory_mib` | memory in MiB, `null` if unknown |
//! | `nodes[].weight`, `.cpus` | number and set of online CPUs |
//! | `nodes[].imb_numa_nr` | running tasks up to which it is lightly loaded (rule R2), 0 without CPUs |
//! | `nodes[].distances[]` | to each entry of `nodes`, 10 is local |
//! | `nodes[].nearest_first[]` | ids of nodes with CPUs, in the order in which this one looks for help |
//! | `nodes[].llcs[].index` | dense index |
//! | `nodes[].llcs[].level` | cache level, `null` without cache information |
//! | `nodes[].llcs[].virtual` | a part of an LLC (`--virt-llc`) |
//! | `nodes[].llcs[].weight`, `.cpus` | number and set of online CPUs |
//! | `nodes[].llcs[].cores[]` | online CPUs of each core |
//! | `levels[]` | NUMA levels as the kernel builds them, nearest first; the first is the node itself |
//! | `levels[].distance` | the largest distance inside |
//! | `levels[].spans[]` | set of nodes, by id, that each node with CPUs has within it |
//! | `levels[].domains[]` | CPUs with the same numbers; those with no domain at the level are in none |
//! | `levels[].domains[].cpus` | set of CPUs |
//! | `levels[].domains[].weight` | online CPUs in the domain of each |
//! | `levels[].domains[].imb_numa_nr` | the kernel's number, in tasks |
//! | `levels[].domains[].degenerate` | the kernel removes it: the same CPUs as the next smaller |
//! | `warnings[]` | what was odd, one sentence each |
//!
//! The first level's domains are those right above the LLC. A machine of one LLC has none there.

mod json;
mod levels;
mod text;

pub use json::render_json;
pub use text::render_text;

use crate::cli::{Format, TopologyArgs};
use crate::output;

/// `scx_ballast topology`.
pub fn run(args: &TopologyArgs) -> anyhow::Result<()> {
    let machine = args.machine.read()?;
    let text = match args.format {
        Format::Text => render_text(&machine),
        Format::Json => render_json(&machine)? + "\n",
    };
    output::write(text)
}
