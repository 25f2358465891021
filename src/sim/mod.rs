// SPDX-License-Identifier: GPL-2.0-only
//! The simulator: the same policy on machines that nobody here has.
//!
//! A discrete-event model of a machine and of the kernel dispatcher. Where a task goes is asked of
//! [`policy`](crate::policy), by the functions that the scheduler itself uses; what is modelled is only what
//! carries the answers out, and how fast tasks get on. A run is single-threaded and depends on its
//! arguments and seed alone; several runs go side by side. docs/simulation.md says what the model is good for.
//!
//! | module | concern |
//! |---|---|
//! | [`clock`] | time, and events in order |
//! | `timers` | ... and those whose time changes |
//! | [`hardware`] | the modelled machine and its few parameters: how fast a task gets on where |
//! | `demand` | what running tasks ask of the nodes' memory |
//! | `idle` | sets of CPUs |
//! | [`program`] | what tasks do, as data |
//! | [`workload`] | workloads by name |
//! | [`source`] | ... and from files |
//! | [`memory`] | where memory is |
//! | `task` | a task, a process |
//! | `counters` | who is counted where |
//! | `queue` | queues of weighted virtual time |
//! | `dispatcher` | fork, wake-up, queues, pull, balancing tick |
//! | [`extras`] | locality, pages that follow, rules left out |
//! | `locality` | the scheduler's locality, and what stands for its memory thread |
//! | `steps` | tasks go on with their programs |
//! | [`world`] | a run: the state, and the loop over events |
//! | `audit` | is everybody where they should be? |
//! | `still` | time in which everybody sleeps for long |
//! | `stuck` | who waits for what when there is no end |
//! | [`occupancy`] | tasks on each node over time |
//! | `latency` | how long woken tasks waited |
//! | [`outcome`] | what a run came to |
//! | [`runs`] | many runs side by side |
//! | [`report`] | table and JSON |
//! | [`sweep`] | one flag's values: which is best, and how much it matters |
//! | [`plot`] | occupancy as SVG |
//! | [`args`], `files`, [`command`] | the command |

pub mod args;
mod audit;
pub mod clock;
pub mod command;
mod counters;
mod demand;
mod dispatcher;
pub mod extras;
mod files;
pub mod hardware;
mod idle;
mod latency;
mod locality;
pub mod memory;
pub mod occupancy;
pub mod outcome;
pub mod plot;
pub mod program;
mod queue;
pub mod report;
pub mod runs;
pub mod source;
mod steps;
mod still;
mod stuck;
pub mod sweep;
mod task;
mod timers;
pub mod workload;
pub mod world;

pub use args::SimulateArgs;
pub use command::run;
