// SPDX-License-Identifier: GPL-2.0-only
//! What a simulation has beside the scheduler's flags: locality with evidence of a known quality, pages that
//! follow tasks, and rules that are left out.

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::world::Setup;

/// How good the evidence of locality is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A look finds what lies on each node to the page.
    Exact,
    /// A look draws as many addresses as the real one, by chance.
    Sampled,
}

/// Where knowledge of memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LocalityFlag {
    /// There is none: R8 is left out.
    Off,
    /// Looks that are right to the page.
    Exact,
    /// Looks that draw addresses by chance, as real ones do.
    Sampled,
}

/// A rule that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LeftOut {
    /// Sleeping newborns are not counted (as --newborn-ms 0): what EEVDF does.
    R6,
    /// Looks take all areas alike, hot or not.
    R7,
    /// Nobody goes to their memory (as --locality off).
    R8,
    /// Idle CPUs take nothing from other LLCs; the balancer alone evens out.
    R9,
    /// The balancer takes any task that ran, however little.
    R10,
}

/// Flags of the model.
#[derive(Debug, Clone, Args)]
pub struct ExtraArgs {
    /// Run tasks where their memory is when the limits allow, and how well that is known.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = LocalityFlag::Off)]
    pub locality: LocalityFlag,

    /// With --locality: bring memory to processes that do not go to it, at most so many MiB per second; 0
    /// never.
    #[arg(long, value_name = "MIB_PER_S", default_value_t = 0,
          value_parser = crate::ranged::u64_in(0..=1_048_576))]
    pub migrate_rate: u64,

    /// Pages follow whoever uses them, as with the NUMA balancing of the kernel's own scheduler: so many MiB
    /// of each process are scanned per second (the kernel's default is 256); 0 never.
    #[arg(long, value_name = "MIB_PER_S", default_value_t = 0,
          value_parser = crate::ranged::u64_in(0..=1_048_576))]
    pub page_scan: u64,

    /// Leave rules out, to see what they are good for.
    #[arg(
        long,
        value_enum,
        value_name = "RULE,...",
        value_delimiter = ',',
        ignore_case = true
    )]
    pub without: Vec<LeftOut>,
}

/// The same as numbers. The default has all rules, and no locality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Extras {
    pub locality: Option<Evidence>,
    /// Pages per second that locality brings at most; 0: none.
    pub bring_rate: u64,
    /// Pages per second and process that NUMA balancing scans; 0: none.
    pub page_rate: u64,
    /// R7 holds.
    pub hot_first: bool,
    /// R9 holds.
    pub pulls: bool,
}

impl Default for Extras {
    fn default() -> Self {
        Self {
            locality: None,
            bring_rate: 0,
            page_rate: 0,
            hot_first: true,
            pulls: true,
        }
    }
}

/// Pages of 4 KiB in a MiB.
const PAGES_PER_MIB: u64 = 256;

impl ExtraArgs {
    /// What a machine of one node has no use for, if something of it was asked for.
    pub fn on_one_node(&self) -> Option<&'static str> {
        match (self.locality, self.page_scan) {
            (LocalityFlag::Off, 0) => None,
            (LocalityFlag::Off, _) => Some("--page-scan"),
            (_, 0) => Some("--locality"),
            _ => Some("--locality and --page-scan"),
        }
    }

    /// Set up what the flags ask for.
    pub fn apply(&self, setup: &mut Setup) {
        let left_out = |rule| self.without.contains(&rule);
        let locality = match self.locality {
            LocalityFlag::Off => None,
            LocalityFlag::Exact => Some(Evidence::Exact),
            LocalityFlag::Sampled => Some(Evidence::Sampled),
        };
        if left_out(LeftOut::R6) {
            setup.newborn_ns = 0;
        }
        setup.limits.no_bystanders = !left_out(LeftOut::R10);
        setup.extras = Extras {
            locality: locality.filter(|_| !left_out(LeftOut::R8)),
            bring_rate: self.migrate_rate * PAGES_PER_MIB,
            page_rate: self.page_scan * PAGES_PER_MIB,
            hot_first: !left_out(LeftOut::R7),
            pulls: !left_out(LeftOut::R9),
        };
    }
}
