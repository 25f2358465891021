// SPDX-License-Identifier: GPL-2.0-only
//! Reports of `scx_ballast compare`, on made-up comparisons ([`made`]).
//!
//! The table and the Markdown are compared with files under tests/fixtures/compare; after a change that is
//! meant, BLESS=1 writes them anew, and the difference is there to be read.

mod command;
mod evidence;
mod extremes;
mod made;
mod page;
mod text;
mod verdicts;
