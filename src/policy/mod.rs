// SPDX-License-Identifier: GPL-2.0-only
//! The rules: what belongs where.
//!
//! Pure functions over plain integers. No clock, no I/O, no floating point, no `unsafe`, no
//! iteration over hash maps: the same input gives the same output, on any machine and in any
//! dispatcher. Of the rest of the crate only [`machine`](crate::machine) may be used here.
//!
//! | module | concern |
//! |---|---|
//! | [`limits`] | excess, tolerated, utilisation: the comparisons |
//! | [`rule_set`] | `ballast` and the kernel generations, as data |
//! | [`compile`] | a rule set, thresholds and a machine become numbers |
//! | [`placement`] | fork: node and LLC of a new task |
//! | [`observation`] | what a dispatcher tells the policy |
//! | [`balance`] | run time: how many tasks move between which nodes |
//! | `queue` | ... which pair of nodes comes next |
//! | `candidates` | ... and which tasks |
//! | [`history`] | what earlier moves came to; backing off |
//! | [`locality`] | where memory is, and what follows from it |
//! | [`engine`] | limits, balancer and history in one |
//! | [`turns`] | how long a turn is, and what it costs |
//! | [`record`] | decisions with all that they were decided by; replay |
//! | `mismatch` | ... where a trace and the policy differ, in words |
//! | [`possible`] | ... and whether their numbers can be true |
//!
//! The kernel dispatcher evaluates fork placement and the comparisons in BPF, from a header free of
//! helpers that is compiled for the host as well and compared with these functions on random
//! states. A change here is a change there.

pub mod balance;
mod candidates;
pub mod compile;
pub mod consistent;
pub mod engine;
pub mod history;
pub mod limits;
pub mod locality;
mod mismatch;
pub mod observation;
pub mod placement;
pub mod possible;
mod queue;
pub mod record;
pub mod rule_set;
pub mod turns;
