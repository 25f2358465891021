// SPDX-License-Identifier: GPL-2.0-only
//! scx_ballast: a NUMA-aware sched_ext scheduler.
//!
//! The module map. A module needs another only through its public face, and `policy` depends on
//! `machine` alone: no clock, no I/O, no `unsafe` in either of the two's decisions.
//!
//! | module | concern |
//! |---|---|
//! | [`cli`] | every flag in one place |
//! | [`ranged`] | flags that take numbers of a range, and show it |
//! | [`machine`] | what the hardware looks like, in dense indices |
//! | [`policy`] | the rules: pure, integer, deterministic |
//! | [`kernel`] | the kernel dispatcher's Rust half: check, load, observe, apply |
//! | [`balancer`] | the tick: observe, decide, apply |
//! | [`daemon`] | the main loop: tick, requests, shutdown, restart |
//! | [`locality`] | what feeds the policy of locality, and carries it out |
//! | [`locked`] | the daemon's memory stays in memory |
//! | [`memory`] | where the memory of processes lies; a thread of its own |
//! | [`observe`] | statistics server and monitor |
//! | [`output`] | standard output, and files that are written |
//! | [`place`] | whether two names are one file |
//! | [`topology`] | the `topology` command's output |
//! | [`rules`] | the `rules` command's output |
//! | [`replay`] | the `replay` command |
//! | [`compare`] | A/B: suites, life cycle, statistics, reports |
//! | [`sim`] | the `simulate` command: the same policy on modelled machines |
//! | [`signals`] | the signals that end what runs |
//! | [`text`] | text from files that users name |
//! | [`trace_file`] | reading what `--trace` has written |
//! | [`user`] | the user dispatcher, without its BPF part |
//! | [`work`] | built-in workloads |

pub mod balancer;
pub mod cli;
pub mod compare;
pub mod daemon;
pub mod kernel;
pub mod locality;
pub mod locked;
pub mod machine;
pub mod memory;
pub mod observe;
pub mod output;
pub mod place;
pub mod policy;
pub mod ranged;
pub mod replay;
pub mod rules;
pub mod signals;
pub mod sim;
pub mod text;
pub mod topology;
pub mod trace_file;
pub mod user;
pub mod work;
