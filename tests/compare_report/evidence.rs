// SPDX-License-Identifier: GPL-2.0-only
//! Evidence: what is known of how many runs, and what is too little to be told.

use scx_ballast::compare::record::{Fact, Record};
use scx_ballast::compare::report::{Format, Style};

use crate::made::{report, table, usual, words};

#[test]
fn what_is_not_available_is_no_zero() {
    let text = table(120, false, &usual());
    let line = |name: &str| {
        let found = text.lines().find(|line| line.starts_with(name));
        found
            .unwrap_or_else(|| panic!("no {name}:\n{text}"))
            .to_owned()
    };
    assert!(line("migrations, cross-node").ends_with("not available"));
    assert!(line("scheduler: CPU time").contains("not available"));
    // 12 of the 60 runs of an arm had no schedstat.
    let text = words(&text);
    assert!(
        text.contains("- turns on a CPU; tasks waiting for a CPU: known of 48 of 60 runs"),
        "{text}"
    );
    let eevdf =
        "- scheduler: CPU time; scheduler: memory: not available: EEVDF has no process (eevdf)";
    assert!(text.contains(eevdf), "{text}");
}

#[test]
fn shares_of_time_are_of_runs_that_are_long_enough() {
    let with_psi = |wall_s: f64, us: u64| {
        let mut of = usual();
        for record in &mut of.machines[0] {
            if let Record::Run(run) = record {
                run.evidence.wall_s = wall_s;
                run.evidence.pressure = Fact::Known(std::collections::BTreeMap::from([(
                    "cpu.some".to_owned(),
                    us,
                )]));
            }
        }
        table(140, false, &of)
    };
    let line =
        |text: &str, name: &str| words(text.lines().find(|line| line.starts_with(name)).unwrap());
    let short = with_psi(0.05, 51_700);
    assert!(line(&short, "PSI cpu some").ends_with("not available not available not available"));
    assert!(line(&short, "turns on a CPU").ends_with("not available not available not available"));
    assert!(
        words(&short).contains("a run of less than 0.1 s is too short"),
        "{short}"
    );
    let odd = with_psi(0.2, 206_800);
    assert!(
        line(&odd, "PSI cpu some").ends_with("not available"),
        "{odd}"
    );
    assert!(
        words(&odd).contains("103.4 % of the time of the runs: they are too short"),
        "{odd}"
    );
    let full = with_psi(10.0, 10_050_000);
    assert!(
        line(&full, "PSI cpu some").ends_with("100.5 100.5 100.5"),
        "{full}"
    );
    assert!(
        words(&full).contains("above 100 as it is read just before and after"),
        "{full}"
    );
}

#[test]
fn evidence_of_some_runs_says_of_how_many() {
    let mut of = usual();
    for record in &mut of.machines[0] {
        if let Record::Run(run) = record
            && (run.block, run.arm, run.benchmark) == (3, 1, 0)
        {
            run.evidence.node_use = Fact::NotAvailable("no".to_owned());
        }
    }
    let text = words(&table(140, false, &of));
    assert!(
        text.contains("- hackbench-process/4: known of 11 of 12 runs of ballast"),
        "{text}"
    );
    let page = report(Style::new(Format::Html), &of);
    assert!(page.contains("35 of 36 runs"));
}

#[test]
fn a_median_lies_within_its_range() {
    let mut of = usual();
    for record in &mut of.machines[0] {
        let Record::Run(run) = record else { continue };
        if let Fact::Known(seen) = &mut run.evidence.node_use {
            seen.nodes = [(0, vec![0.5; 4]), (1, vec![0.453; 4])].into();
        }
    }
    let text = table(140, false, &of);
    assert!(text.contains("4.7 (4.7..4.7)"), "{text}");
}
