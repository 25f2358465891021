// SPDX-License-Identifier: GPL-2.0-only
//! Reports of `scx_ballast compare`, on made-up comparisons.
//!
//! The table and the Markdown are compared with files under tests/fixtures/compare; after a change that is
//! meant, BLESS=1 writes them anew, and the difference is there to be read.

#[path = "fixtures/compare/synthetic.rs"]
mod synthetic;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use scraper::{Html, Selector};
use scx_ballast::compare::analysis::{Analysis, Difference, Verdict};
use scx_ballast::compare::record::{Fact, Record};
use scx_ballast::compare::report::number;
use scx_ballast::compare::report::parts::results::row_decimals;
use scx_ballast::compare::report::{Format, ReportError, Style, json, render};
use synthetic::{Comparison, comparison, usual};
use unicode_width::UnicodeWidthStr;

const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[2J|`x`&\"'\u{202e}\n";

fn report(style: Style, of: &Comparison) -> String {
    render(style, &of.machines, &of.names, &of.analysis).unwrap()
}

fn table(width: usize, verbose: bool, of: &Comparison) -> String {
    let style = Style {
        width,
        verbose,
        ..Style::new(Format::Table)
    };
    report(style, of)
}

fn compare_with_file(name: &str, text: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/compare")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    for (number, (is, should)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, should, "{name}, line {}", number + 1);
    }
    assert_eq!(text, expected, "{name} is longer or shorter");
}

/// With hostile names wherever a name comes from outside.
fn hostile() -> Comparison {
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

#[test]
fn the_table_is_as_it_was() {
    compare_with_file("table.txt", &table(100, false, &usual()));
}

#[test]
fn the_verbose_table_is_as_it_was() {
    compare_with_file("table-verbose.txt", &table(120, true, &usual()));
}

#[test]
fn markdown_is_as_it_was() {
    compare_with_file("report.md", &report(Style::new(Format::Markdown), &usual()));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let five = [
        "eevdf",
        "ballast",
        "ballast:--slice-us 20000",
        "scx_rusty",
        "eevdf#2",
    ];
    for of in [usual(), comparison(2, &five, "a"), hostile()] {
        for width in [80, 100, 120] {
            for verbose in [false, true] {
                for line in table(width, verbose, &of).lines() {
                    assert!(line.width() <= width, "{} > {width}: {line}", line.width());
                }
            }
        }
    }
}

#[test]
fn five_arms_all_have_their_values_at_80_columns() {
    let labels = [
        "eevdf",
        "ballast",
        "ballast:--slice-us 20000",
        "scx_rusty",
        "eevdf#2",
    ];
    let of = comparison(1, &labels, "a");
    let text = table(80, false, &of);
    for row in &of.analysis.rows {
        for arm in row.arms.iter().flatten() {
            let value = number::fixed(arm.mean, row_decimals(row));
            assert!(
                text.contains(&format!(" {value} ")),
                "{value} is missing:\n{text}"
            );
        }
    }
    assert!(text.contains("eevdf#2: "), "{text}");
    // Rows can be told apart.
    let rows = text
        .lines()
        .filter(|line| line.starts_with("Amean  ") || line.starts_with("Hmean  "));
    let labels: BTreeSet<String> = rows.map(|row| row.chars().take(24).collect()).collect();
    assert_eq!(labels.len(), of.analysis.rows.len(), "{labels:?}");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("a copy of eevdf: all of it is noise"),
        "{text}"
    );
}

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
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    assert!(
        text.contains("- turns on a CPU; tasks waiting for a CPU: known of 48 of 60 runs"),
        "{text}"
    );
    let eevdf =
        "- scheduler: CPU time; scheduler: memory: not available: EEVDF has no process (eevdf)";
    assert!(text.contains(eevdf), "{text}");
}

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
fn the_page_is_well_formed_and_asks_for_nothing() {
    let five = [
        "eevdf",
        "ballast",
        "ballast:--slice-us 20000",
        "scx_rusty",
        "eevdf#2",
    ];
    for of in [usual(), comparison(3, &five, "a"), hostile()] {
        let page = report(Style::new(Format::Html), &of);
        let parsed = Html::parse_document(&page);
        assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
        for tag in [
            "script", "link", "img", "iframe", "object", "form", "base", "image", "use",
        ] {
            let found = parsed.select(&Selector::parse(tag).unwrap()).count();
            assert_eq!(found, 0, "<{tag}>");
        }
        for element in parsed.select(&Selector::parse("*").unwrap()) {
            for (name, value) in element.value().attrs() {
                assert!(!name.starts_with("on"), "{name}={value}");
                assert!(name != "href" || value.starts_with('#'), "{name}={value}");
                assert!(name != "src" && name != "style", "{name}={value}");
                let is_place = matches!(
                    name,
                    "d" | "x" | "y" | "width" | "height" | "cx" | "cy" | "x1" | "x2"
                );
                assert!(
                    !is_place || !value.contains("NaN") && !value.contains("inf"),
                    "{name}={value}"
                );
            }
        }
        let style: String = parsed
            .select(&Selector::parse("style").unwrap())
            .flat_map(|style| style.text())
            .collect();
        assert!(!style.contains("url(") && !style.contains("@import"));
        assert!(page.len() < 3_000_000, "{} bytes", page.len());
    }
}

#[test]
fn the_page_shows_every_value() {
    let of = usual();
    let page = Html::parse_document(&report(Style::new(Format::Html), &of));
    let count = |selector: &str| page.select(&Selector::parse(selector).unwrap()).count();
    let values: usize = of
        .analysis
        .rows
        .iter()
        .flat_map(|row| row.arms.iter().flatten())
        .map(|arm| arm.values.len())
        .sum();
    let pairs = values * 2 / 3;
    assert_eq!(
        count("#metrics .dot") + count("#metrics .outlier"),
        values + pairs
    );
    assert_eq!(count("#metrics .outlier"), 1);
    assert!(count("#raw td") >= values);
    // Each SVG says what it shows.
    assert_eq!(count("svg[role=img]"), count("svg[role=img] > title"));
    assert_eq!(count("svg:not([role=img]):not([aria-hidden])"), 0);
    assert!(count("#nodes svg") > 0);
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

/// Looked at in a real browser, where there is one. SCX_BALLAST_PAGES names a folder that keeps pages and
/// screenshots.
#[test]
fn a_browser_shows_all_of_it() {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/compare/browser");
    let temporary = tempfile::tempdir().unwrap();
    let folder = match std::env::var_os("SCX_BALLAST_PAGES") {
        Some(kept) => PathBuf::from(kept),
        None => temporary.path().to_owned(),
    };
    let five = [
        "eevdf",
        "ballast",
        "ballast:--slice-us 20000",
        "scx_rusty",
        "eevdf#2",
    ];
    let mut pages = Vec::new();
    for (name, of) in [
        ("usual", usual()),
        ("fleet", comparison(3, &five, "server")),
        ("hostile", hostile()),
    ] {
        let page = folder.join(format!("{name}.html"));
        fs::write(&page, report(Style::new(Format::Html), &of)).unwrap();
        pages.push(page);
    }
    let looked = Command::new(&script).arg(&folder).args(&pages).output();
    let looked = match looked {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: python3 is not installed");
            return;
        }
        looked => looked.unwrap(),
    };
    let said = String::from_utf8_lossy(&looked.stdout).into_owned()
        + &String::from_utf8_lossy(&looked.stderr);
    eprint!("{said}");
    assert!(looked.status.success(), "{said}");
}
