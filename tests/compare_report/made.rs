// SPDX-License-Identifier: GPL-2.0-only
//! Made-up comparisons, what comes from outside among them, and their reports.

#[path = "../fixtures/compare/synthetic.rs"]
mod synthetic;

use scx_ballast::compare::analysis::analyse;
use scx_ballast::compare::record::{Fact, Record};
use scx_ballast::compare::report::{Format, Style, render};
pub use synthetic::{Comparison, comparison, usual};

/// What a terminal, a table, or a page could obey.
const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[2J|`x`&\"'\u{202e}\n";

/// The arms of a wide comparison, a copy of the base among them.
pub const FIVE: [&str; 5] = [
    "eevdf",
    "ballast",
    "ballast:--slice-us 20000",
    "scx_rusty",
    "eevdf#2",
];

pub fn report(style: Style, of: &Comparison) -> String {
    render(style, &of.machines, &of.names, &of.analysis).unwrap()
}

pub fn table(width: usize, verbose: bool, of: &Comparison) -> String {
    let style = Style {
        width,
        verbose,
        ..Style::new(Format::Table)
    };
    report(style, of)
}

/// All of a text in one line with single spaces.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// With hostile names wherever a name comes from outside.
pub fn hostile() -> Comparison {
    let mut of = comparison(2, &["eevdf", HOSTILE, "https://h/<b>#2"], HOSTILE);
    for records in &mut of.machines {
        for record in records {
            match record {
                Record::Plan(plan) => {
                    plan.environment.kernel = HOSTILE.to_owned();
                    plan.environment.boot_line = Fact::Known(HOSTILE.to_owned());
                    plan.environment.nodes.insert(3, HOSTILE.to_owned());
                    plan.skipped[0].reason = HOSTILE.to_owned();
                    plan.version = HOSTILE.to_owned();
                    plan.started = HOSTILE.to_owned();
                    for benchmark in &mut plan.benchmarks {
                        benchmark.name += HOSTILE;
                    }
                }
                Record::Run(run) => {
                    run.evidence.migrations = Fact::NotAvailable(HOSTILE.to_owned());
                    if run.benchmark == 1 {
                        run.evidence.node_use = Fact::NotAvailable(HOSTILE.to_owned());
                    }
                }
                Record::Discarded(discarded) => discarded.reason = HOSTILE.to_owned(),
            }
        }
    }
    for row in &mut of.analysis.rows {
        row.benchmark += HOSTILE;
        row.metric += HOSTILE;
        row.unit += HOSTILE;
    }
    of.analysis.warnings.push(HOSTILE.to_owned());
    of
}

/// The analysis of the records themselves, as the command makes it, instead of the simple one.
pub fn analysed(mut of: Comparison) -> Comparison {
    of.analysis = analyse(&of.machines).unwrap();
    of
}

/// Every run's values as `change` has them, by machine, arm and block.
pub fn with_values(mut of: Comparison, change: impl Fn(usize, usize, u32, &mut f64)) -> Comparison {
    for (machine, records) in of.machines.iter_mut().enumerate() {
        for record in records {
            if let Record::Run(run) = record {
                let (arm, block) = (run.arm, run.block);
                for value in run.values.values_mut() {
                    change(machine, arm, block, value);
                }
            }
        }
    }
    analysed(of)
}
