// SPDX-License-Identifier: GPL-2.0-only
//! What a sweep came to: a table for people, JSON for programs.

use std::fmt::Write;

use serde::Serialize;

use super::{Point, Sweep, Verdict};
use crate::sim::hardware::{Hardware, Params};
use crate::sim::outcome::Outcome;
use crate::sim::report::{Named, Shape, Summary, UNITS, decimals};
use crate::sim::world::Setup;

/// See the module.
#[derive(Debug, Serialize)]
pub struct SweepReport<'a> {
    workload: &'a str,
    flags: &'a str,
    machine: Shape,
    /// Without the swept flag.
    setup: &'a Setup,
    params: &'a Params,
    flag: &'a str,
    runs: usize,
    seed: u64,
    points: Vec<PointReport<'a>>,
    best: &'a str,
    as_good: Vec<&'a str>,
    /// The value that does what the command line does without the sweep.
    unswept: Option<&'a str>,
    /// What that comes to where no value does it.
    unswept_run: Option<Unswept>,
    #[serde(skip)]
    verdict: Verdict,
}

/// Runs without the swept flag.
#[derive(Debug, Serialize)]
struct Unswept {
    run_s: Summary,
    /// How much longer than the best value, on average; negative: shorter.
    excess_percent: f64,
}

#[derive(Debug, Serialize)]
struct PointReport<'a> {
    value: &'a str,
    run_s: Summary,
    /// How much longer than the best, on average.
    excess_percent: f64,
    as_good: bool,
    moves: Summary,
    first_spread: Summary,
    node_migrations: Summary,
    local_percent: Option<Summary>,
    run_ns: Vec<u64>,
}

/// What was swept, over what.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    pub named: Named<'a>,
    pub hw: &'a Hardware,
    pub setup: &'a Setup,
    /// Runs without the swept flag, where no point does the same.
    pub unswept: &'a [Outcome],
}

impl<'a> SweepReport<'a> {
    /// `None`: there are no points, or no runs.
    pub fn new(
        ground: Ground<'a>,
        sweep: &'a Sweep,
        points: &'a [Point],
        outcomes: &[Vec<Outcome>],
    ) -> Option<Self> {
        let verdict = Verdict::of(outcomes)?;
        let reports = points.iter().zip(outcomes).enumerate();
        let reports =
            reports.map(|(at, (point, runs))| PointReport::new(&point.value, runs, &verdict, at));
        let unswept = points.iter().find(|point| point.setup == *ground.setup);
        let value = |&at: &usize| points[at].value.as_str();
        Some(Self {
            workload: ground.named.workload,
            flags: ground.named.flags,
            machine: Shape::of(ground.hw),
            setup: ground.setup,
            params: &ground.hw.params,
            flag: sweep.flag(),
            runs: outcomes.first().map_or(0, Vec::len),
            seed: outcomes.first()?.first()?.seed,
            points: reports.collect::<Option<_>>()?,
            best: value(&verdict.best),
            as_good: verdict.as_good.iter().map(value).collect(),
            unswept: unswept.map(|point| point.value.as_str()),
            unswept_run: Unswept::of(ground.unswept, &verdict),
            verdict,
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let runs = format!("runs {} a point, seed {}", self.runs, self.seed);
        let mut text = self
            .machine
            .title(self.workload, self.setup, self.flags, &runs);
        text.push('\n');
        text.push_str(UNITS);
        self.table(&mut text);
        self.conclusion(&mut text);
        text
    }

    fn table(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "run time in s by --{}; * the best, = as good on this evidence\n",
            self.flag
        );
        let digits = self.digits();
        let _ = writeln!(
            text,
            "{:>10}  {:>10}{:>10}{:>10}{:>10}{:>10}{:>9}{:>9}",
            "value", "min", "max", "range", "mean", "longer", "moves", "local"
        );
        for (at, point) in self.points.iter().enumerate() {
            let mark = match (at == self.verdict.best, point.as_good) {
                (true, _) => '*',
                (false, true) => '=',
                (false, false) => ' ',
            };
            let s = point.run_s;
            let local = point
                .local_percent
                .map_or("-".to_owned(), |share| format!("{:.1}%", share.mean));
            let _ = writeln!(
                text,
                "{:>10} {mark}{:>10.digits$}{:>10.digits$}{:>10.digits$}{:>10.digits$}{:>9.1}%{:>9.1}{local:>9}",
                point.value, s.min, s.max, s.range, s.mean, point.excess_percent, point.moves.mean
            );
        }
    }

    fn conclusion(&self, text: &mut String) {
        let verdict = &self.verdict;
        let point = &self.points[verdict.best];
        let digits = self.digits();
        let _ = writeln!(
            text,
            "\nbest: {} with {:.digits$} s on average, {:.digits$} to {:.digits$}",
            point.value, point.run_s.mean, point.run_s.min, point.run_s.max
        );
        let (good, all) = (self.as_good.len(), self.points.len());
        let _ = match (good == all, self.runs) {
            (true, _) => writeln!(
                text,
                "flat: all {all} values are within the spread of its runs"
            ),
            (false, _) => writeln!(
                text,
                "within the spread of its runs: {good} of {all} values, {}",
                self.ranges()
            ),
        };
        if self.runs == 1 {
            text.push_str(
                "one run a value has no spread, so these are exactly equal; --runs N tells more\n",
            );
        }
        if good < all {
            let worst = &self.points[verdict.worst];
            let _ = writeln!(
                text,
                "worst: {}, {:.1} % longer",
                worst.value, worst.excess_percent
            );
        }
        let unswept = self.points.iter().find(|p| Some(p.value) == self.unswept);
        if let Some(point) = unswept {
            let _ = writeln!(
                text,
                "without --sweep the flags are as with {}: {:.1} % longer than the best",
                point.value, point.excess_percent
            );
        }
        if let Some(Unswept {
            run_s,
            excess_percent,
        }) = &self.unswept_run
        {
            let _ = writeln!(
                text,
                "without --sweep no value is as the flags are: {:.digits$} s on average, {:.1} % {} than the best",
                run_s.mean,
                excess_percent.abs(),
                if *excess_percent < 0.0 {
                    "shorter"
                } else {
                    "longer"
                }
            );
        }
    }

    /// Decimals of a time, as many as the shortest needs.
    fn digits(&self) -> usize {
        let shortest = self.points.iter().map(|point| point.run_s.min);
        decimals(shortest.fold(f64::INFINITY, f64::min), 3)
    }

    /// Values as good as the best, neighbours as ranges.
    fn ranges(&self) -> String {
        let good = &self.verdict.as_good;
        let runs = good.chunk_by(|a, b| a + 1 == *b);
        let ranges = runs.filter_map(|run| {
            let value = |at: usize| self.points[at].value;
            Some(match (*run.first()?, *run.last()?) {
                (first, last) if first == last => value(first).to_owned(),
                (first, last) => format!("{} to {}", value(first), value(last)),
            })
        });
        ranges.collect::<Vec<_>>().join(", ")
    }
}

impl Unswept {
    fn of(runs: &[Outcome], verdict: &Verdict) -> Option<Self> {
        let run_s = Summary::of(runs.iter().map(|run| run.run_ns as f64 / 1e9))?;
        Some(Self {
            run_s,
            excess_percent: verdict.excess_permille_of(runs)? as f64 / 10.0,
        })
    }
}

impl<'a> PointReport<'a> {
    fn new(value: &'a str, runs: &[Outcome], verdict: &Verdict, at: usize) -> Option<Self> {
        let over = |of: fn(&Outcome) -> f64| Summary::of(runs.iter().map(of));
        let local = runs.iter().filter_map(|run| run.local_permille);
        Some(Self {
            value,
            run_s: over(|run| run.run_ns as f64 / 1e9)?,
            excess_percent: verdict.excess_permille(at) as f64 / 10.0,
            as_good: verdict.as_good.contains(&at),
            moves: over(|run| (run.moves.excess + run.moves.utilisation) as f64)?,
            first_spread: over(|run| run.first_spread as f64)?,
            node_migrations: over(|run| run.node_migrations as f64)?,
            local_percent: Summary::of(local.map(|permille| permille as f64 / 10.0)),
            run_ns: runs.iter().map(|run| run.run_ns).collect(),
        })
    }
}
