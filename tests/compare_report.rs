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
use std::process::{Command, Stdio};

use scraper::{Html, Selector};
use scx_ballast::compare::analysis::{Analysis, Difference, Verdict, analyse};
use scx_ballast::compare::record::{Better, Fact, Record};
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

/// The analysis of the records themselves, as the command makes it, instead of the simple one.
fn analysed(mut of: Comparison) -> Comparison {
    of.analysis = analyse(&of.machines).unwrap();
    of
}

/// Every run's values as `change` has them, by machine, arm and block.
fn with_values(mut of: Comparison, change: impl Fn(usize, usize, u32, &mut f64)) -> Comparison {
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

/// All of a text in one line with single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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

#[test]
fn whoever_closes_the_pipe_has_read_enough() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.jsonl");
    let lines: Vec<String> = usual().machines[0]
        .iter()
        .map(|record| serde_json::to_string(record).unwrap())
        .collect();
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    for format in ["table", "markdown", "json", "html"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
            .args(["compare", "report", "--format", format])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.success() && said.is_empty(),
            "{format}: {said}"
        );
    }
    // What cannot be written for another reason is an error still.
    let full = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
        .args(["compare", "report", "--output", "/dev/full"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(!full.status.success());
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

#[test]
fn headings_keep_their_words_where_there_is_room() {
    let text = table(100, false, &comparison(1, &["eevdf", "b"], "a"));
    assert!(text.contains("  against eevdf  "), "{text}");
}

#[test]
fn machines_side_by_side_share_their_axis() {
    let of = comparison(2, &["eevdf", "ballast"], "h");
    let page = Html::parse_document(&report(Style::new(Format::Html), &of));
    let card = Selector::parse("#metrics article").unwrap();
    let figure = Selector::parse("figure").unwrap();
    let ticks = Selector::parse("text.tick[text-anchor=middle]").unwrap();
    for card in page.select(&card) {
        let figures = card.select(&figure).take(2);
        let axes: Vec<Vec<String>> = figures
            .map(|figure| figure.select(&ticks).map(|tick| tick.html()).collect())
            .collect();
        assert!(axes[0].len() > 1 && axes[0] == axes[1], "{axes:?}");
    }
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

/// Devices have no end. Nothing is left of what was copied.
#[test]
fn what_has_no_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
        .args(["compare", "report", "/dev/zero"])
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(
        error.contains("/dev/zero is longer than 256 MiB"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // What was given is named, and no copy of it.
    let empty = Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
        .args(["compare", "report", "/dev/null"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&empty.stderr);
    assert!(error.contains("/dev/null cannot be used"), "{error}");
}
