// SPDX-License-Identifier: GPL-2.0-only
//! The user dispatcher: every queued task passes through the policy here, in user space.
//!
//! `scx_ballast --dispatcher user` becomes another program of this crate, `scx_ballast_user` ([`launch`]), because
//! scx_rustland_core, whose BPF part hands the tasks up, brings a global allocator, takes Ctrl-C and forbids
//! new memory. That program is a loop around what is here; here is nothing of scx_rustland_core, and BPF only to ask about
//! tasks (`bpf_facts`), so that it is tested like everything else. docs/user-dispatcher.md says what is decided where.
//!
//! | module | concern |
//! |---|---|
//! | [`launch`] | which flags cannot be offered, and becoming the other program |
//! | [`ask`] | ... whose version is asked for first |
//! | [`dispatcher`] | a queued task in; a CPU, a slice and a virtual time out |
//! | `place` | ... which CPU |
//! | `look` | who is still where he was put, asked within a budget |
//! | [`ending`] | what the kernel's reason for an end means |
//! | [`tick`] | the balancing tick |
//! | [`tasks`], [`counts`] | who there is, and who is counted where |
//! | [`facts`] | what is asked about single tasks |
//! | [`bpf_facts`] | ... and how the kernel is asked |
//! | [`cpu_set`] | a set of CPUs |
//! | [`places`] | from CPUs to nodes and back |
//! | [`report`] | statistics |
//!
//! Invariants: nobody is counted twice or in no counter that his word names ([`counts::Counts::audit`]). Every
//! queued task is placed at once. No rule stands here: what belongs where is asked of `policy`.

pub mod ask;
pub mod bpf_facts;
pub mod counts;
pub mod cpu_set;
pub mod dispatcher;
pub mod ending;
pub mod facts;
pub mod launch;
mod look;
mod place;
pub mod places;
pub mod report;
pub mod tally;
pub mod tasks;
pub mod tick;
