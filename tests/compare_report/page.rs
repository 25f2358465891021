// SPDX-License-Identifier: GPL-2.0-only
//! The HTML page.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use scraper::{Html, Selector};
use scx_ballast::compare::report::{Format, Style};

use crate::made::{FIVE, comparison, hostile, report, usual};

#[test]
fn the_page_is_well_formed_and_asks_for_nothing() {
    for of in [usual(), comparison(3, &FIVE, "a"), hostile()] {
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
    let mut pages = Vec::new();
    for (name, of) in [
        ("usual", usual()),
        ("fleet", comparison(3, &FIVE, "server")),
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
