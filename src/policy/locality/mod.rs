// SPDX-License-Identifier: GPL-2.0-only
//! Locality: which node holds a task's memory, and what follows from it (R4, R5, R7, R8).
//!
//! Under sched_ext the kernel's own NUMA balancing does nothing for the tasks, so a scheduler has to
//! find out itself. This is the part that decides. Like the rest of the policy it is pure: page
//! counts, fault counts and times come in as numbers, decisions go out as values with a reason.
//!
//! | module | concern | rule |
//! |---|---|---|
//! | [`places`] | which memory is near which CPUs | |
//! | [`input`] | what is fed: samples, faults, memory policies | |
//! | [`evidence`] | what is known of a process's or a task's memory, and how sure it is | R8 |
//! | [`sampling`] | when to look at a process's memory again, within a budget | R7 |
//! | [`areas`] | which of its areas to look at first | R7 |
//! | [`score`] | evidence becomes a score per node, in permille | R8 |
//! | [`preference`] | the nodes where a group belongs, with hysteresis | R8 |
//! | [`view`] | what a tick decides by, and what it has decided | |
//! | [`ledger`] | the state between ticks: evidence, preferences, timers | R5 |
//! | `room` | whether the limits tolerate a move | R3, R8 |
//! | `want` | who wants to go, and why the others do not | R8, R10 |
//! | [`decide`] | moves and swaps of a tick | R4, R8 |
//! | `swap` | ... and with whom | R4 |
//! | [`extents`] | which part of a process's memory is worked on from one node | |
//! | [`fork`] | where a new thread goes | R5, R8 |
//! | [`follow`] | when memory is brought to tasks that do not go to it | |
//! | [`wake`] | whether a woken task may go back to its node | R8 |
//! | [`record`] | a tick with all that it was decided by; deciding it again | |
//! | [`pull`] | which tasks the balancer takes first | R8 |
//!
//! Three things hold whatever the evidence says. A task is moved only into a state that the compiled
//! limits tolerate, so that the balancer has nothing to undo. Nobody is moved on a guess: first
//! touch alone, few, old or contradictory samples order and never decide, and a process whose memory
//! was placed by a memory policy is nowhere off its node. And every move makes the sum of the tasks'
//! scores larger by a margin, so with constant evidence moving ends.

pub mod areas;
pub mod decide;
pub mod evidence;
pub mod extents;
pub mod follow;
pub mod fork;
pub mod input;
pub mod ledger;
pub mod places;
pub mod preference;
pub mod pull;
pub mod record;
mod room;
pub mod sampling;
pub mod score;
mod swap;
pub mod view;
pub mod wake;
mod want;
