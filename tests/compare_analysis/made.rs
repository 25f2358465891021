// SPDX-License-Identifier: GPL-2.0-only
//! Results files of every kind, and what is asked about their analysis.

#[path = "../compare/synthetic.rs"]
mod synthetic;

use scx_ballast::compare::analysis::{Analysis, Effect, Settings, Verdict, analyse_with};
use scx_ballast::compare::record::{Fact, Plan, Record};
pub use synthetic::{Made, Noise, Shape, comparison, metric, run};

pub const FEW: Settings = Settings { resamples: 500 };

pub fn made(seed: u64) -> Made {
    Made {
        seed,
        blocks: 12,
        benchmarks: 1,
        shape: Shape::Normal,
        cv: 0.03,
        factors: vec![1.0, 1.2],
        twin: false,
    }
}

pub fn plan(records: &mut [Record]) -> &mut Plan {
    match &mut records[0] {
        Record::Plan(plan) => plan,
        _ => panic!("the first record is the plan"),
    }
}

pub fn analysed(files: &[Vec<Record>]) -> Analysis {
    analyse_with(files, FEW).expect("sound results files")
}

pub fn verdict(analysis: &Analysis, arm: usize) -> Verdict {
    effect_of(analysis, arm).verdict
}

/// What the first arm that is no base does to the first metric.
pub fn effect(analysis: &Analysis) -> &Effect {
    effect_of(analysis, 1)
}

fn effect_of(analysis: &Analysis, arm: usize) -> &Effect {
    let arm = analysis.rows[0].arms[arm].as_ref();
    arm.expect("it ran").effect.as_ref().expect("an effect")
}

pub fn warned(analysis: &Analysis, part: &str) -> bool {
    analysis
        .warnings
        .iter()
        .any(|warning| warning.contains(part))
}

/// Two machines, named, on which the arm has a factor of its own.
pub fn two_machines(blocks: u32, factors: [f64; 2], cv: f64) -> Vec<Vec<Record>> {
    let of = |machine: usize| {
        let mut records = comparison(&Made {
            blocks,
            cv,
            factors: vec![1.0, factors[machine]],
            ..made(20 + machine as u64)
        });
        plan(&mut records).environment.host = Fact::Known(format!("h{}", machine + 1));
        records
    };
    vec![of(0), of(1)]
}
