// SPDX-License-Identifier: GPL-2.0-only
//! Every format, of anything: all of it, little, hostile, odd, endless, or no results at all.

use scx_ballast::compare::analysis::Analysis;
use scx_ballast::compare::record::{Fact, Record};
use scx_ballast::compare::report::{Format, ReportError, Style, json, render};

use crate::made::{analysed, hostile, report, usual};

#[test]
fn json_has_everything() {
    let of = usual();
    let text = report(Style::new(Format::Json), &of);
    let read: json::Document = serde_json::from_str(&text).unwrap();
    assert_eq!(read.kind, json::KIND);
    assert_eq!(read.analysis, of.analysis);
    let records: Vec<&Vec<Record>> = read.machines.iter().map(|it| &it.records).collect();
    assert_eq!(records, of.machines.iter().collect::<Vec<_>>());
}

#[test]
fn hostile_names_are_text() {
    let of = hostile();
    for format in [Format::Table, Format::Markdown, Format::Html] {
        for verbose in [false, true] {
            let style = Style {
                verbose,
                ..Style::new(format)
            };
            let text = report(style, &of);
            let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            let at = text.find(bad);
            assert!(
                at.is_none(),
                "{format:?}: {:?}",
                &text[at.unwrap_or(0)..][..20]
            );
            if format != Format::Table {
                assert!(!text.contains("<script"), "{format:?}");
            }
            if format == Format::Markdown {
                assert!(!text.contains("https://"), "a link");
                let columns = |line: &str| line.replace("\\|", "").matches('|').count();
                let lines: Vec<&str> = text.lines().collect();
                for pair in lines
                    .windows(2)
                    .filter(|pair| pair.iter().all(|it| it.starts_with('|')))
                {
                    assert_eq!(columns(pair[0]), columns(pair[1]), "{pair:?}");
                }
            }
        }
    }
}

#[test]
fn odd_numbers_do_no_harm() {
    for odd in [
        f64::NAN,
        f64::INFINITY,
        0.0,
        -1.0,
        f64::MAX,
        f64::MIN_POSITIVE,
    ] {
        let mut of = usual();
        for row in &mut of.analysis.rows {
            row.arms[2] = None;
            let arm = row.arms[1].as_mut().unwrap();
            (arm.mean, arm.min, arm.max, arm.stddev) = (odd, odd, odd, Some(odd));
            arm.values.truncate(3);
            arm.values[0].value = odd;
            let effect = arm.effect.as_mut().unwrap();
            (effect.change, effect.ratio, effect.interval) = (odd, odd, Some((odd, odd)));
        }
        for format in [Format::Table, Format::Markdown, Format::Html] {
            report(Style::new(format), &of);
        }
    }
}

#[test]
fn little_is_enough_for_a_report() {
    let of = usual();
    let empty = Analysis {
        arms: Vec::new(),
        rows: Vec::new(),
        suites: Vec::new(),
        warnings: Vec::new(),
    };
    let only_a_plan = vec![of.machines[0][..1].to_vec()];
    for format in [Format::Table, Format::Markdown, Format::Json, Format::Html] {
        render(Style::new(format), &only_a_plan, &of.names, &empty).unwrap();
        render(Style::new(format), &only_a_plan, &of.names, &of.analysis).unwrap();
    }
}

#[test]
fn what_is_no_results_file_is_refused() {
    let of = usual();
    let style = Style::new(Format::Table);
    let no_plan = vec![of.machines[0][1..].to_vec()];
    let refused = render(style, &no_plan, &of.names, &of.analysis).unwrap_err();
    assert!(
        refused.to_string().starts_with("results-0.jsonl: no plan"),
        "{refused}"
    );
    let refused = render(style, &of.machines, &[], &of.analysis).unwrap_err();
    assert!(matches!(
        refused,
        ReportError::Names {
            machines: 1,
            names: 0
        }
    ));
    let refused = render(style, &[], &[], &of.analysis).unwrap_err();
    assert!(matches!(refused, ReportError::Nothing));
}

#[test]
fn endless_reasons_and_names_are_cut_and_take_no_time() {
    let endless = "x".repeat(1 << 20);
    let mut of = usual();
    for record in &mut of.machines[0] {
        match record {
            Record::Discarded(discarded) => discarded.reason = endless.clone(),
            Record::Plan(plan) => {
                plan.skipped[0].reason = endless.clone();
                plan.environment.governor = Fact::NotAvailable(endless.clone());
                plan.environment.boot_line = Fact::Known(endless.clone());
                plan.arms[2].label = endless.clone();
                plan.arms[2].argv = vec![endless.clone()];
            }
            Record::Run(run) => run.evidence.pressure = Fact::NotAvailable(endless.clone()),
        }
    }
    let of = analysed(of);
    let began = std::time::Instant::now();
    for format in [Format::Table, Format::Markdown, Format::Html] {
        for verbose in [false, true] {
            let style = Style {
                verbose,
                ..Style::new(format)
            };
            let text = report(style, &of);
            assert!(text.len() < 1_000_000, "{format:?}: {} bytes", text.len());
            assert!(text.contains('…'), "{format:?}");
            let paragraph = text.lines().map(|line| line.matches('x').count()).max();
            assert!(format == Format::Html || paragraph < Some(5000));
        }
    }
    let warning = of
        .analysis
        .warnings
        .iter()
        .find(|it| it.contains("discarded"));
    assert!(warning.unwrap().chars().count() < 400);
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}
