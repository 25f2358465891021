// SPDX-License-Identifier: GPL-2.0-only
//! A/B on any machine: `scx_ballast compare`.
//!
//! Arms (EEVDF, scx_ballast with flags, any other sched_ext scheduler) take turns at benchmarks, in
//! blocks of random order. What every run gave goes to a results file, one JSON record a line
//! ([`record`]), before the next run begins; all that is said about the arms is computed from such
//! files, at once or years later, by the same code.
//!
//! ```text
//! suites (TOML) ─┐                                            ┌─▶ table, Markdown
//! arms ──────────┼─▶ plan ─▶ runner ─▶ results file ─▶ analysis ─▶ report ─▶ JSON
//! machine ───────┘                  (JSON lines)              └─▶ HTML
//! ```
//!
//! | module | concern |
//! |---|---|
//! | [`args`], [`arms`] | the command line |
//! | `command` | what was asked for, in order |
//! | `plan`, [`order`], `preview` | all that is decided before the first run, and telling it |
//! | `destination` | whether the report can be written where it is to go |
//! | [`suite`], `catalogue` | benchmarks as data; what can be run here |
//! | `runner` | for each run: attach, settle, look, run, look again, detach, write down |
//! | `attach`, `in_charge` | putting an arm in charge; who is |
//! | `process` | a benchmark's command, run to its end with all that it starts |
//! | `tail` | the end of what a program printed, for reasons |
//! | `keeper`, `marked` | cleaning up, however it ended |
//! | `evidence` | what is seen during a run; the environment |
//! | [`record`], [`results`] | the results file: what is known of a comparison and of each run |
//! | [`analysis`] | from records to effects with intervals and verdicts |
//! | [`report`] | what people and programs read of it: table, Markdown, JSON, HTML |
//!
//! What always holds:
//!
//! - The run is the unit. One run is one attach of a scheduler and one execution of a benchmark.
//! - A run counts only if the same scheduler was in charge from before it until after it.
//! - No value is dropped or changed: outliers are marked, discarded runs stay in the file.
//! - What a machine does not offer is `not available` with the reason, never 0.
//! - However a comparison ends, the machine is as it was before.

pub mod analysis;
pub mod args;
pub mod arms;
mod attach;
mod catalogue;
mod command;
mod destination;
mod evidence;
mod in_charge;
mod keeper;
mod marked;
pub mod order;
mod plan;
mod preview;
mod priority;
pub(crate) mod process;
mod progress;
pub mod record;
pub mod report;
pub mod results;
mod roots;
mod runner;
mod stop;
pub mod suite;
mod tail;
mod utc;

pub use args::CompareArgs;
pub use command::run;
