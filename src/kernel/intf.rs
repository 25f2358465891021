// SPDX-License-Identifier: GPL-2.0-only
//! The structures that BPF and Rust share, bound from src/bpf/intf.h by bindgen.

#![allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all
)]

include!(concat!(env!("OUT_DIR"), "/intf.rs"));
