// SPDX-License-Identifier: GPL-2.0-only
//! The rules: what belongs where.
//!
//! Pure functions over plain integers. No clock, no I/O, no floating point, no `unsafe`, no
//! iteration over hash maps: the same input gives the same output, on any machine and in any
//! dispatcher. Of the rest of the crate only [`machine`](crate::machine) may be used here.
//!
//! The kernel dispatcher evaluates the same rules in BPF, from a header free of helpers that is
//! compiled for the host as well and compared with these functions on random states. A change here
//! is a change there.

pub mod placement;
