// SPDX-License-Identifier: GPL-2.0-only
//! The tick: observe, decide, write the wishes, keep count.
//!
//! The kernel dispatcher on one side, the policy on the other; no rule here. A tick takes no memory (with
//! `--trace` it does, for what it records, and with locality when a process is new or was looked at), and
//! the machine of one node has none.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::cli::{RunArgs, VERSION};
use crate::kernel::apply::Wishes;
use crate::kernel::load::Scheduler;
use crate::kernel::tick::TickObserver;
use crate::locality::Locality;
use crate::machine::Machine;
use crate::observe::{Tally, Trace};
use crate::policy::compile::{Limits, NodeShape};
use crate::policy::engine::Engine;
use crate::policy::observation::{Observation, Shape};
use crate::policy::record::{FORMAT, Header};

/// The limits that the flags compile to on `machine`.
pub fn limits(args: &RunArgs, machine: &Machine) -> Limits {
    let shapes = NodeShape::all(machine);
    let rules = &args.policy.rules;
    Limits::compile(rules.rules, rules.thresholds(), &shapes)
}

/// What the first line of a trace says.
pub fn trace_header(machine: &Machine, limits: &Limits) -> Header {
    Header {
        format: FORMAT,
        version: VERSION.into(),
        node_ids: machine.cpu_nodes().iter().map(|node| node.id).collect(),
        shape: Shape::of(machine),
        limits: limits.clone(),
    }
}

/// See the module.
pub struct Balancer {
    interval: Option<Duration>,
    engine: Engine,
    observer: TickObserver,
    observation: Observation,
    wishes: Wishes,
    locality: Option<Locality>,
    pub tally: Tally,
}

impl Balancer {
    /// # Errors
    /// What `--locality` asks for cannot be had.
    pub fn new(args: &RunArgs, machine: &Machine, limits: Limits) -> Result<Self> {
        let shape = Shape::of(machine);
        let slots = args.max_tasks as usize;
        let on = args.policy.balance_interval_ms > 0 && shape.nodes() > 1;
        let tasks = if on { slots } else { 0 };
        let ticks = args.policy.balance_interval_ms > 0;
        let locality = Locality::start(&args.locality, machine, &shape, (tasks, ticks))?;
        Ok(Self {
            interval: on.then(|| Duration::from_millis(args.policy.balance_interval_ms)),
            observer: TickObserver::new(&shape, tasks),
            observation: Observation::for_shape(&shape, tasks),
            engine: Engine::new(limits, shape, tasks),
            wishes: Wishes::with_capacity(tasks.min(4096)),
            locality,
            tally: Tally::default(),
        })
    }

    /// There unless it is off.
    pub fn locality(&self) -> Option<&Locality> {
        self.locality.as_ref()
    }

    /// Time between two ticks; `None`: there is nothing to balance.
    pub fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// One tick.
    pub fn tick(
        &mut self,
        sched: &Scheduler<'_>,
        machine: &Machine,
        mut trace: Option<&mut Trace>,
    ) -> Result<()> {
        let began = Instant::now();
        let locality = &mut self.locality;
        let wants_tasks = |at| locality.as_mut().is_some_and(|locality| locality.begin(at));
        let complete = self
            .observer
            .observe(sched, machine, wants_tasks, &mut self.observation)
            .map_err(|err| anyhow!("observing: {err:#}"))?;
        if !complete {
            self.engine.skip(&mut self.observation);
            self.wishes.replace(sched, std::iter::empty());
            self.tally.count_calm(began.elapsed());
            return Ok(());
        }
        sched.set_task_weights(self.observation.nodes.iter().map(|node| node.task_weight));
        self.decide(sched);
        // Told or not, they are done with.
        for brought in self.locality.iter_mut().flat_map(Locality::take_brought) {
            if let Some(trace) = &mut trace {
                trace.brought(brought);
            }
        }
        let decisions = self.engine.decisions();
        let located = self.locality.as_ref().map(Locality::last);
        let steps = located.and_then(|(_, steps)| steps);
        let steps = steps.map_or(&[][..], |steps| &steps.steps);
        let moves = decisions
            .moves
            .iter()
            .map(|one| (one.slot, one.seq, one.llc));
        let steps = steps.iter().map(|one| (one.slot, one.seq, one.llc));
        self.wishes.replace(sched, moves.chain(steps));
        if let Some(trace) = trace {
            trace.tick(&self.observation, decisions, located);
        }
        self.tally.count(decisions, began.elapsed());
        Ok(())
    }

    fn decide(&mut self, sched: &Scheduler<'_>) {
        let (engine, obs) = (&mut self.engine, &mut self.observation);
        match &mut self.locality {
            Some(locality) => locality.tick(sched, engine, obs, self.observer.live()),
            None => {
                engine.tick(obs);
            }
        }
    }
}
