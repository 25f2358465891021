// SPDX-License-Identifier: GPL-2.0-only
//! Time in which everybody sleeps for long.
//!
//! Ticks, audits and spans then find what they found before. They are left out until somebody wakes up, and then made up
//! for: the run is the same to the nanosecond, and counts fewer events.
//!
//! Invariant: what is left out could change nothing. Nobody ran in the interval before a tick, no newborn counts, and
//! by [`SETTLED`] such ticks the policy's history has forgotten earlier moves and holds. What locality knows grows old
//! by the clock, so with it nothing is left out.

use super::clock::Time;
use super::world::{AUDIT_NS, Event, World};

/// More than the policy's history reaches back, in ticks: 10 until a move is judged, and 64 for the longest hold.
const SETTLED: u32 = 100;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Still {
    /// Ticks and audits that found nobody awake, since somebody was.
    ticks: u32,
    audits: u32,
    /// When the first of each was left out.
    tick: Option<Time>,
    audit: Option<Time>,
    span: Option<Time>,
}

impl World<'_> {
    /// Whether the event is left out.
    pub(super) fn leaves_out(&mut self, event: Event) -> bool {
        // Most events are others, and most runs are never so still.
        if self.still.audits < SETTLED {
            return false;
        }
        let ticks = self.still.ticks >= SETTLED || !self.has_ticks();
        if !ticks || self.locality.is_some() {
            return false;
        }
        let now = self.now();
        let left_out = match event {
            Event::Balance => &mut self.still.tick,
            Event::Audit => &mut self.still.audit,
            Event::Span => &mut self.still.span,
            _ => return false,
        };
        *left_out = Some(now);
        true
    }

    pub(super) fn has_ticks(&self) -> bool {
        self.setup.balance_ns > 0 && self.hw.nr_nodes() > 1
    }

    /// A tick is over.
    pub(super) fn note_tick(&mut self) {
        let quiet = self.balancing.saw_nothing();
        self.still.ticks = if quiet { self.still.ticks + 1 } else { 0 };
    }

    /// An audit is over.
    pub(super) fn note_audit(&mut self) {
        let awake = self.busy > 0 || self.waiting.iter().any(|&n| n > 0);
        self.still.audits = if awake { 0 } else { self.still.audits + 1 };
    }

    /// Somebody wakes up: what was left out is made up for, and comes again.
    pub(super) fn make_up(&mut self) {
        // Nothing was left out before.
        if self.still.audits < SETTLED {
            (self.still.audits, self.still.ticks) = (0, 0);
            return;
        }
        let Still {
            tick, audit, span, ..
        } = std::mem::take(&mut self.still);
        let now = self.now();
        // Of what comes each `interval`: how often it was left out.
        let missed = |from: Time, interval: Time| (now - from).div_ceil(interval).max(1);
        if let Some(from) = tick {
            let interval = self.setup.balance_ns;
            let missed = missed(from, interval);
            self.tally.ticks += missed;
            self.balancing.was_at(from + (missed - 1) * interval);
            self.events
                .announce(from + missed * interval, Event::Balance);
        }
        if let Some(from) = audit {
            let next = from + missed(from, AUDIT_NS) * AUDIT_NS;
            self.events.announce(next, Event::Audit);
        }
        if let Some(mut at) = span {
            let counters = &self.counters;
            loop {
                self.occupancy
                    .span_ends(|node| counters.integral_of(node, now));
                at += self.occupancy.span_ns;
                if at >= now {
                    break;
                }
            }
            self.events.announce(at, Event::Span);
        }
    }
}
