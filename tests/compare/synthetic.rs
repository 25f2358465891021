// SPDX-License-Identifier: GPL-2.0-only
//! Comparisons that never ran: results files whose truth is known.

use std::collections::BTreeMap;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use scx_ballast::compare::record::*;

/// Noise of one run on the log scale, with a coefficient of variation of about `cv`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Lognormal values.
    Normal,
    /// Student's t with 3 degrees of freedom.
    HeavyTails,
    /// Every tenth run is hit by something that takes long.
    Hit,
    /// Lognormal, and each block is faster or slower as a whole: by up to three times as much.
    Drift,
}

pub const SHAPES: [Shape; 4] = [Shape::Normal, Shape::HeavyTails, Shape::Hit, Shape::Drift];

/// What is made.
#[derive(Debug, Clone)]
pub struct Made {
    pub seed: u64,
    pub blocks: u32,
    pub benchmarks: usize,
    pub shape: Shape,
    pub cv: f64,
    /// Factor on the values of each arm, the base first: above 1 is slower.
    pub factors: Vec<f64>,
    /// Whether the last arm is a copy of the base.
    pub twin: bool,
}

/// Random numbers with a shape.
pub struct Noise(Pcg64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Noise(Pcg64::seed_from_u64(seed))
    }

    /// Above 0 and below 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub fn run(&mut self, shape: Shape, cv: f64) -> f64 {
        match shape {
            Shape::Normal | Shape::Drift => cv * self.normal(),
            Shape::HeavyTails => {
                let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
                // The variance of t(3) is 3.
                cv * self.normal() / squares.sqrt()
            }
            Shape::Hit => {
                let hit = self.uniform() < 0.1;
                let delay = -2.0 * self.uniform().ln();
                cv * (0.7 * self.normal() + if hit { delay } else { 0.0 })
            }
        }
    }

    fn block(&mut self, shape: Shape, cv: f64) -> f64 {
        match shape {
            Shape::Drift => 3.0 * cv * (2.0 * self.uniform() - 1.0),
            _ => 0.0,
        }
    }
}

/// The records of a finished comparison.
pub fn comparison(made: &Made) -> Vec<Record> {
    let mut noise = Noise::new(made.seed);
    let mut records = vec![Record::Plan(Box::new(plan(made)))];
    for block in 0..made.blocks {
        for benchmark in 0..made.benchmarks {
            let drift = noise.block(made.shape, made.cv);
            for (arm, factor) in made.factors.iter().enumerate() {
                let spread = noise.run(made.shape, made.cv);
                let value = 10.0 * factor * (drift + spread).exp();
                records.push(run(block, arm, benchmark, &[("time", value)]));
            }
        }
    }
    records
}

pub fn plan(made: &Made) -> Plan {
    let twin = made.twin.then(|| made.factors.len() - 1);
    let arms = (0..made.factors.len()).map(|arm| Arm {
        label: if arm == 0 {
            "eevdf".into()
        } else {
            format!("arm{arm}")
        },
        argv: if arm == 0 {
            vec![]
        } else {
            vec![format!("/usr/bin/scx_{arm}")]
        },
        numa_balancing: None,
        twin_of: (Some(arm) == twin).then_some(0),
    });
    let benchmarks = (0..made.benchmarks).map(|index| Benchmark {
        suite: "synthetic".into(),
        name: format!("bench/{index}"),
        command: "true".into(),
        timeout_s: 60,
        metrics: vec![metric("time", Better::Lower, true)],
        placement: None,
    });
    Plan {
        format: FORMAT,
        version: "0.1.0".into(),
        started: "2026-11-30T12:00:00Z".into(),
        seed: made.seed,
        blocks: made.blocks,
        settle_ms: 0,
        arms: arms.collect(),
        benchmarks: benchmarks.collect(),
        skipped: vec![],
        environment: environment(),
    }
}

pub fn metric(name: &str, better: Better, primary: bool) -> Metric {
    Metric {
        name: name.into(),
        unit: "s".into(),
        better,
        primary,
        mean: match better {
            Better::Lower => Mean::Arithmetic,
            Better::Higher => Mean::Harmonic,
        },
        pattern: "(.*)".into(),
        pick: Pick::Last,
        scale: 1.0,
    }
}

pub fn run(block: u32, arm: usize, benchmark: usize, values: &[(&str, f64)]) -> Record {
    let values: BTreeMap<String, f64> = values
        .iter()
        .map(|&(name, value)| (name.to_owned(), value))
        .collect();
    Record::Run(Box::new(Run {
        block,
        position: arm as u32,
        arm,
        benchmark,
        at: "2026-11-30T12:00:00Z".into(),
        values,
        placement: vec![],
        evidence: evidence(),
    }))
}

fn none<T>() -> Fact<T> {
    Fact::NotAvailable("synthetic".into())
}

fn environment() -> Environment {
    Environment {
        host: Fact::Known("synthetic".into()),
        kernel: "7.3.0".into(),
        cpu_model: none(),
        cpus: 8,
        nodes: BTreeMap::from([(0, "0-3".into()), (1, "4-7".into())]),
        memory_bytes: none(),
        smt: none(),
        mitigations: none(),
        governor: none(),
        boot_line: none(),
        numa_balancing: none(),
        hypervisor: none(),
        transparent_hugepages: none(),
        load: none(),
    }
}

fn evidence() -> Evidence {
    Evidence {
        wall_s: 1.0,
        user_s: 0.5,
        sys_s: 0.5,
        in_charge: InCharge {
            state: "disabled".into(),
            ops: String::new(),
            enable_seq: none(),
            bypasses: none(),
        },
        vmstat: none(),
        schedstat: none(),
        pressure: none(),
        node_use: none(),
        migrations: none(),
        scheduler: none(),
    }
}
