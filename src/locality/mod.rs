// SPDX-License-Identifier: GPL-2.0-only
//! Locality, on the daemon's side: what feeds the policy ([`policy::locality`](crate::policy::locality)) and
//! carries out what it decides. No rule here.
//!
//! | module | concern |
//! |---|---|
//! | [`mode`] | what `--locality` comes to on this machine |
//! | [`tracker`] | from reports, faults and observations to decisions and orders |
//! | [`looks`] | which processes to look at, within a budget |
//! | [`faults`] | minor faults since the last time |
//! | [`touches`] | addresses that tasks work on, for the looks |
//! | [`following`] | memory that is brought to tasks, with `--migrate-memory` |
//! | [`hints`] | the preferred nodes in the slots |
//! | [`counts`] | what was done, for statistics |
//!
//! The memory thread ([`memory`](crate::memory)) looks at processes and brings pages. It never makes a tick
//! wait: what it has found is taken by the next tick.

pub mod counts;
pub mod faults;
pub mod following;
pub mod hints;
pub mod looks;
pub mod mode;
pub mod touches;
pub mod tracker;

use anyhow::Result;
use log::{info, warn};

use crate::cli::LocalityArgs;
use crate::kernel::load::Scheduler;
use crate::machine::Machine;
use crate::memory::{MemoryThread, pages};
use crate::policy::engine::Engine;
use crate::policy::locality::places::Places;
use crate::policy::locality::record::BroughtRecord;
use crate::policy::locality::view::{Steps, View};
use crate::policy::observation::{Observation, Shape};

use counts::Counts;
use hints::{Hints, LiveSlot};
use mode::{Chosen, Given, Mode};
use tracker::Tracker;

/// See the module.
pub struct Locality {
    mode: Mode,
    tracker: Tracker,
    hints: Hints,
    /// There in mode sampled.
    memory: Option<MemoryThread>,
}

impl Locality {
    /// Start what the flags ask for and the machine offers, and say what that is; `None`: nothing.
    ///
    /// # Errors
    /// What was asked for by name cannot be had.
    pub fn start(
        args: &LocalityArgs,
        machine: &Machine,
        shape: &Shape,
        (slots, ticks): (usize, bool),
    ) -> Result<Option<Self>> {
        let given = Given {
            asked: args.locality,
            nodes: shape.nodes(),
            ticks,
        };
        let node_ids = || machine.nodes().iter().map(|node| node.id).collect();
        let own = std::process::id() as i32;
        let Chosen { mode, why, looks } =
            mode::choose(given, || MemoryThread::start(node_ids(), own as u64))?;
        announce(args, mode, &why);
        if let Some(memory) = &looks {
            let source = memory.touch_source();
            info!("locality: what was touched lately is known from {source}");
        }
        let Some(mode) = mode else {
            return Ok(None);
        };
        let limits = (slots, args.look_budget_us);
        let mut tracker = Tracker::new(mode, Places::of(machine), shape, limits, own);
        if args.migrate_memory && mode == Mode::Sampled {
            let pages_per_mib = (1 << 20) / pages::page_size() as u64;
            tracker.bring_memory(u64::from(args.migrate_rate) * pages_per_mib);
        }
        Ok(Some(Self {
            mode,
            tracker,
            hints: Hints::new(slots),
            memory: looks,
        }))
    }

    /// Take in what the memory thread has found since the last tick; whether the tasks are to be looked at.
    pub fn begin(&mut self, at_ns: u64) -> bool {
        if let Some(memory) = &self.memory {
            for report in memory.reports().try_iter() {
                self.tracker.report(report);
            }
        }
        self.tracker.is_due(at_ns)
    }

    /// Decide, in the engine and by locality, and tell BPF where processes belong. `live`: all tasks.
    pub fn tick(
        &mut self,
        sched: &Scheduler<'_>,
        engine: &mut Engine,
        obs: &mut Observation,
        live: &[LiveSlot],
    ) {
        let memory = self.memory.as_ref();
        self.tracker.tick(
            engine,
            obs,
            |slot, faults| sched.faults(slot, faults),
            |slot| sched.touches(slot),
            |order| memory.is_some_and(|memory| memory.order(order)),
        );
        self.hints
            .update(live, self.tracker.preferred(obs.at), |slot, seq, nodes| {
                sched.set_preferred(slot, seq, nodes);
            });
        self.tracker.forget(live, obs.at);
    }

    /// What came of batches of memory since the last time.
    pub fn take_brought(&mut self) -> impl Iterator<Item = BroughtRecord> + '_ {
        self.tracker.take_brought()
    }

    /// What the last tick knew, and what it decided by that if this mode decides.
    pub fn last(&self) -> (&View, Option<&Steps>) {
        (self.tracker.view(), self.tracker.steps())
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn counts(&self) -> &Counts {
        &self.tracker.counts
    }

    /// CPU time of the memory thread so far, in us.
    pub fn memory_cpu_us(&self) -> u64 {
        self.memory.as_ref().map_or(0, MemoryThread::cpu_time_us)
    }
}

fn announce(args: &LocalityArgs, mode: Option<Mode>, why: &str) {
    info!("locality: {}: {why}", mode.map_or("off", Mode::name));
    if mode != Some(Mode::Sampled) {
        if args.migrate_memory {
            warn!("--migrate-memory does nothing: it needs --locality sampled");
        }
        return;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !mode::may_look_at_all(&status) {
        warn!("locality: only processes of this user can be looked at (no CAP_SYS_PTRACE)");
    }
}
