// SPDX-License-Identifier: GPL-2.0-only
//! Dense indices of nodes, LLCs, cores and CPUs.
//!
//! The kernel's ids can be sparse (offline CPUs, nodes 0 and 8 on POWER) and repeat (core ids on
//! two sockets). Everything inside the scheduler is numbered from 0 without gaps instead, in types
//! that cannot be mixed up; the kernel's ids stay in the `id` fields, for display and for talking
//! to the kernel.

use serde::Serialize;
use std::fmt;

macro_rules! dense_index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub u16);

        impl $name {
            /// The index as a subscript of the machine's slices.
            pub const fn as_usize(self) -> usize {
                self.0 as usize
            }

            /// The index at position `at`, which the machine's limits keep below 65536.
            pub(super) const fn from_usize(at: usize) -> Self {
                debug_assert!(at <= u16::MAX as usize);
                Self(at as u16)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

dense_index! {
    /// A node: `0..machine.nodes().len()`, the nodes that have CPUs first.
    NodeIdx
}
dense_index! {
    /// A last-level cache: `0..machine.llcs().len()`, contiguous inside a node.
    LlcIdx
}
dense_index! {
    /// A physical core: `0..machine.cores().len()`, contiguous inside an LLC.
    CoreIdx
}
dense_index! {
    /// An online CPU: `0..machine.cpus().len()`, contiguous inside an LLC.
    CpuIdx
}
