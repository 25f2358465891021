// SPDX-License-Identifier: GPL-2.0-only
//! Why a machine could not be modelled.

use std::path::PathBuf;
use thiserror::Error;

/// Why a machine could not be modelled. Each message is one line that names what was found and,
/// where the user can do something about it, what.
#[derive(Debug, Error)]
pub enum MachineError {
    /// A file or folder that every kernel has could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file, with the `SCX_SYSFS_PREFIX` in front.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file holds something else than the kernel would write there.
    #[error("{} holds {text:?}, which is not {wanted}", path.display())]
    Parse {
        /// The file, with the `SCX_SYSFS_PREFIX` in front.
        path: PathBuf,
        /// What it holds.
        text: String,
        /// What it should hold.
        wanted: &'static str,
    },
    /// There is no online CPU.
    #[error("no online CPU found")]
    NoCpus,
    /// The machine is larger than the scheduler's tables.
    #[error("{found} {what}, but scx_ballast supports at most {limit}; {remedy}")]
    Limit {
        /// What there is too much of, with its place.
        what: String,
        /// How much there is.
        found: usize,
        /// How much there may be.
        limit: usize,
        /// What the user can do.
        remedy: &'static str,
    },
    /// A range of cores for virtual LLCs that holds no number.
    #[error("virtual LLCs of {min} to {max} cores: need 1 <= minimum <= maximum")]
    VirtLlc {
        /// Fewest cores of a virtual LLC.
        min: usize,
        /// Most cores of a virtual LLC.
        max: usize,
    },
    /// A CPU was described twice.
    #[error("CPU {0} is described twice")]
    DuplicateCpu(u32),
    /// A node was described twice.
    #[error("node {0} is described twice")]
    DuplicateNode(u32),
    /// A CPU or a distance names a node that was not described.
    #[error("node {0} is used but not described")]
    UnknownNode(u32),
    /// A CPU's id is not below the number of CPU ids.
    #[error("CPU {cpu} does not exist: CPU ids end at {}", nr_cpu_ids - 1)]
    CpuBeyondIds {
        /// The CPU's kernel id.
        cpu: u32,
        /// Highest possible kernel id + 1.
        nr_cpu_ids: usize,
    },
    /// A distance that no kernel would report.
    #[error("distance {distance} from node {from} to node {to}: need 10 to 255")]
    Distance {
        /// Kernel id of the one node.
        from: u32,
        /// Kernel id of the other.
        to: u32,
        /// The distance.
        distance: u32,
    },
}
