// SPDX-License-Identifier: GPL-2.0-only
//! The table and Markdown as a whole: what they look like, and that they fit.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use scx_ballast::compare::report::number;
use scx_ballast::compare::report::parts::results::row_decimals;
use scx_ballast::compare::report::{Format, Style};
use unicode_width::UnicodeWidthStr;

use crate::made::{FIVE, comparison, hostile, report, table, usual, words};

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
    for of in [usual(), comparison(2, &FIVE, "a"), hostile()] {
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
    let of = comparison(1, &FIVE, "a");
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
    assert!(
        words(&text).contains("a copy of eevdf: all of it is noise"),
        "{text}"
    );
}

#[test]
fn headings_keep_their_words_where_there_is_room() {
    let text = table(100, false, &comparison(1, &["eevdf", "b"], "a"));
    assert!(text.contains("  against eevdf  "), "{text}");
}
