// SPDX-License-Identifier: GPL-2.0-only
//! What the analysis of `compare` makes of results files of every kind ([`made`]): several machines, zeros, too few
//! blocks, unfinished ones, broken ones; and that an independent implementation finds the same numbers.

mod files;
mod independent;
mod machines;
mod made;
mod verdicts;
