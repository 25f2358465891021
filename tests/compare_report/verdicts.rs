// SPDX-License-Identifier: GPL-2.0-only
//! What is said of a difference: verdicts, marks, changes, and what stands in for them.

use scx_ballast::compare::analysis::{Difference, Verdict};
use scx_ballast::compare::record::{Better, Record};
use scx_ballast::compare::report::{Format, Style};

use crate::made::{Comparison, analysed, comparison, report, table, usual, with_values, words};

#[test]
fn the_last_lines_are_the_verdict() {
    let text = table(100, false, &usual());
    let last: Vec<&str> = text.lines().rev().take(3).collect();
    assert!(
        last[0].contains("primary metrics") || last[1].contains("primary metrics"),
        "{last:?}"
    );
    assert!(
        text.contains("ballast: better on 3 of 4 primary metrics, worse on 0, undecided on 1"),
        "{text}"
    );
}

#[test]
fn stars_stand_for_significant_primary_metrics_only() {
    let mut of = usual();
    let starred = |of: &Comparison| table(120, false, of).matches("%*").count();
    let expected = |of: &Comparison| {
        let rows = of.analysis.rows.iter().filter(|row| row.primary);
        rows.flat_map(|row| row.arms.iter().flatten())
            .filter_map(|arm| arm.effect.as_ref())
            .filter(|effect| matches!(effect.verdict, Verdict::Better | Verdict::Worse))
            .count()
    };
    assert!(expected(&of) > 0);
    assert_eq!(starred(&of), expected(&of));
    for row in &mut of.analysis.rows {
        row.primary = false;
    }
    assert_eq!(starred(&of), 0);
}

#[test]
fn too_few_blocks_are_said_so() {
    let mut of = usual();
    for row in &mut of.analysis.rows {
        for effect in row
            .arms
            .iter_mut()
            .flatten()
            .filter_map(|arm| arm.effect.as_mut())
        {
            effect.verdict = Verdict::TooFew;
            effect.interval = None;
            effect.p = None;
            effect.p_holm = None;
        }
    }
    let text = table(100, false, &of);
    assert!(
        text.contains("better on 0 of 4 primary metrics, worse on 0, undecided on 0, too few"),
        "{text}"
    );
    assert!(!text.contains("%*"), "{text}");
    let page = report(Style::new(Format::Html), &of);
    assert!(page.contains("· too few"));
}

#[test]
fn differences_stand_in_for_effects_of_metrics_with_zeros() {
    let mut of = usual();
    let row = of
        .analysis
        .rows
        .iter_mut()
        .find(|row| row.unit == "tasks")
        .unwrap();
    let arm = row.arms[1].as_mut().unwrap();
    let effect = arm.effect.take().unwrap();
    arm.difference = Some(Difference {
        pairs: effect.pairs,
        median: -2.5,
        interval: Some((-3.25, -1.5)),
        p: effect.p,
        p_holm: effect.p_holm,
        noise: Some(0.25),
        machines: Vec::new(),
        machines_differ: false,
        verdict: Verdict::Better,
    });
    let text = table(120, false, &of);
    // Fewer is better, so the difference is turned.
    assert!(text.contains("1.487 *  +2.500*"), "{text}");
    assert!(text.contains("+2.500 tasks  +1.500 .. +3.250"), "{text}");
    assert!(text.contains("better on 3 of 4"), "{text}");
    let page = report(Style::new(Format::Html), &of);
    assert!(page.contains("▲ better +2.500 tasks"));
}

#[test]
fn change_and_gmean_have_one_definition() {
    // All of 3 times take 0.707 of the time: 29.30 % less, whether of one or on average.
    let of = with_values(usual(), |_, arm, block, value| {
        *value = f64::from(10 + block) * [1.0, 0.707, 1.5][arm];
    });
    let text = table(140, false, &of);
    let suite = text.split("Suite quick").next().unwrap();
    let line = |start: &str| suite.lines().find(|line| line.starts_with(start)).unwrap();
    for start in ["Amean  hackbench-process/4 ", "Gmean"] {
        assert!(line(start).contains("29.30%"), "{suite}");
        assert!(line(start).contains("-50.00%"), "{suite}");
    }
    assert!(line("Gmean").contains("1.4144"), "{suite}");
    // Times and rates have no common change.
    let quick = text.split("Suite quick").nth(1).unwrap();
    let gmean = quick
        .lines()
        .find(|line| line.starts_with("Gmean"))
        .unwrap();
    assert!(!gmean.contains('%') && gmean.contains("1.0000"), "{gmean}");
    // Faster by the same in rates.
    let mut rates = usual();
    for record in &mut rates.machines[0] {
        if let Record::Plan(plan) = record {
            let metrics = plan.benchmarks.iter_mut().flat_map(|it| &mut it.metrics);
            metrics.for_each(|metric| metric.better = Better::Higher);
        }
    }
    let rates = with_values(rates, |_, arm, block, value| {
        *value = f64::from(10 + block) * [1.0, 1.4, 1.0][arm];
    });
    assert!((rates.analysis.suites[0].change.unwrap() - 40.0).abs() < 1e-9);
}

#[test]
fn secondary_metrics_have_no_verdict_in_any_format() {
    let of = analysed(usual());
    let text = table(140, true, &of);
    let secondary = text.split("How sure: secondary metrics").nth(1).unwrap();
    let secondary = secondary.split("Evidence").next().unwrap();
    let rows: Vec<&str> = secondary
        .lines()
        .filter(|line| line.contains(".."))
        .collect();
    assert_eq!(rows.len(), 4, "{secondary}");
    assert!(rows.iter().all(|row| row.ends_with(" -")), "{secondary}");
    let page = report(Style::new(Format::Html), &of);
    let secondary = page
        .split("Intervals of the secondary metrics")
        .nth(1)
        .unwrap();
    let secondary = secondary.split("</details>").next().unwrap();
    assert!(!secondary.contains("undecided") && !secondary.contains("too few"));
}

#[test]
fn what_only_the_noise_stops_says_so() {
    // A slow-down of 3 % beyond chance, and a copy of the base that is 3.5 % slower.
    let of = comparison(1, &["eevdf", "ballast", "eevdf#2"], "a");
    let of = with_values(of, |_, arm, block, value| {
        *value = f64::from(100 + block) * [1.0, 1.03, 1.035][arm];
    });
    let text = table(140, false, &of);
    let sure = text.split("How sure").nth(1).unwrap();
    assert!(sure.contains("noise"), "{sure}");
    let row = sure
        .lines()
        .find(|line| line.starts_with("  ballast"))
        .unwrap();
    assert!(
        row.contains("3.50%") && row.ends_with("within noise"),
        "{sure}"
    );
    assert!(
        words(&text).contains("ballast: better on 0 of 4 primary metrics, worse on 0, undecided on 4 (4 within the noise)"),
        "{text}"
    );
    let page = report(Style::new(Format::Html), &of);
    assert!(page.contains("within the noise (3.50%)"));
    // Without a difference there is nothing that noise could stop.
    let steady = comparison(1, &["eevdf", "ballast", "eevdf#2"], "a");
    let steady = with_values(steady, |_, arm, block, value| {
        let wobble = 1.0 + 0.01 * f64::from((block + arm as u32) % 2);
        *value = f64::from(100 + block) * wobble;
    });
    assert!(!table(140, false, &steady).contains("within"));
}

#[test]
fn machines_that_contradict_each_other_are_shown_one_by_one() {
    let labels = ["eevdf", "ballast"];
    let of = with_values(comparison(2, &labels, "h"), |machine, arm, block, value| {
        let factor = [[1.0, 0.8], [1.0, 1.25]][machine][arm];
        *value = (100.0 + f64::from(block * 7 % 5) * 0.2 * arm as f64) * factor;
    });
    for verbose in [false, true] {
        let text = table(140, verbose, &of);
        assert!(
            words(&text).contains("WARNING: the machines contradict each other"),
            "{text}"
        );
        let sure = text.split("How sure").nth(1).unwrap();
        assert!(
            sure.contains("machines differ") && !sure.contains("+0.00 .. +0.00"),
            "{sure}"
        );
        assert!(
            sure.contains("- on h ") && sure.contains("- on h-2 "),
            "{sure}"
        );
        assert!(sure.contains("+19.") && sure.contains("-25."), "{sure}");
        assert!(
            text.contains("(  differ)")
                && text.contains("undecided on 4 (4 as the machines differ)"),
            "{text}"
        );
    }
    let markdown = report(Style::new(Format::Markdown), &of);
    assert!(markdown.contains("| machines differ |") && markdown.contains("- on h-2"));
    let page = report(Style::new(Format::Html), &of);
    assert!(page.contains("machines differ") && page.contains("- on h-2"));
    // Machines that agree are told one by one too, in the compact table alone they are not.
    let agree = with_values(comparison(2, &labels, "h"), |_, arm, block, value| {
        *value = f64::from(100 + block) * [1.0, 0.8][arm];
    });
    assert!(!table(140, false, &agree).contains("- on h"));
    assert!(table(140, true, &agree).contains("- on h-2"));
    assert!(report(Style::new(Format::Markdown), &agree).contains("- on h-2"));
    assert!(
        !agree
            .analysis
            .warnings
            .iter()
            .any(|it| it.contains("contradict"))
    );
}

#[test]
fn outliers_are_marked_and_counted() {
    let of = with_values(usual(), |_, arm, block, value| {
        *value = 8.0 + f64::from(block) * 0.01;
        if (arm, block) == (1, 4) {
            *value = 21.97;
        }
    });
    let text = table(140, true, &of);
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    assert_eq!(
        line("Amean     hackbench-process/4").matches("! ").count(),
        1,
        "{text}"
    );
    assert!(
        line("Amean     hackbench-process/4").contains(" ! 9."),
        "{text}"
    );
    let counts = words(line("Outliers  hackbench-process/4"));
    assert!(counts.ends_with("(s) 0 1 0"), "{counts}");
    assert!(words(&text).contains("!: with outliers"), "{text}");
    assert!(report(Style::new(Format::Markdown), &of).contains("| ! 9."));
}
