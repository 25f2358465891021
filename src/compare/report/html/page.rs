// SPDX-License-Identifier: GPL-2.0-only
//! The order of the page: the result first, then how sure it is, then everything it rests on.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{metrics, nodes, tables};
use crate::compare::analysis::Row;
use crate::compare::report::content::{clean, clean_brief};
use crate::compare::report::model::{Model, Score};
use crate::compare::report::parts::{evidence, guide, placement, results, setting, verdict};

/// Part of this program, so that a report carries it.
const STYLE: &str = include_str!("style.css");

pub fn page(model: &Model) -> Markup {
    let title = setting::title(model);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // No network, ever: even a mistake here could not make the page ask for anything.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
                title { "scx_ballast compare: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (header(model, &title))
                main {
                    (summary(model))
                    (section("values", "Results", &results_tables(model)))
                    (section("metrics", "Every metric", &html! { (metrics::legend(model)) (metrics::cards(model)) }))
                    (section("nodes", "Where tasks ran", &html! {
                        (tables::blocks(&placement::section(model)))
                        (nodes::section(model))
                    }))
                    (section("evidence", "Evidence", &evidence_tables(model)))
                    (section("environment", "Environment", &environment(model)))
                    (section("raw", "Raw values", &raw(model)))
                    (section("reading", "What each number means", &guide_text()))
                }
                footer { p { "Written by scx_ballast " (versions(model)) " from the results of `scx_ballast compare`." } }
            }
        }
    }
}

fn header(model: &Model, title: &str) -> Markup {
    html! {
        header {
            p class="kind" { "scx_ballast compare" }
            h1 { (title) }
            @for machine in &model.machines { p class="machine" { (setting::machine_line(machine)) } }
            @for warning in &model.analysis.warnings {
                p class="warning" role="note" { strong { "Warning: " } (clean(warning)) }
            }
            nav aria-label="Contents" {
                @for (id, name) in [
                    ("values", "Results"), ("metrics", "Every metric"), ("nodes", "Where tasks ran"),
                    ("evidence", "Evidence"), ("environment", "Environment"), ("raw", "Raw values"),
                    ("reading", "What each number means"),
                ] { a href={ "#" (id) } { (name) } " " }
            }
        }
    }
}

fn section(id: &str, heading: &str, content: &Markup) -> Markup {
    html! { section id=(id) { h2 { (heading) } (content) } }
}

/// One card for each arm, then all primary effects on one axis.
fn summary(model: &Model) -> Markup {
    let primary: Vec<&Row> = model.primary_rows().collect();
    html! {
        section id="verdict" {
            h2 { "Verdict" }
            div class="verdicts" {
                @if model.arms.len() < 2 {
                    @for sentence in verdict::all(model) { p { (sentence) } }
                } @else {
                    @for arm in 1..model.arms.len() { (verdict_card(model, arm)) }
                }
            }
            @if !primary.is_empty() && model.arms.len() > 1 {
                h3 { "Primary metrics, against " (model.base()) }
                (tables::effects(model, &primary))
                p class="legend" {
                    "Bar: 95% interval of the change. Line: the change itself, the median over the blocks. Right of 0 is better, \
                     whatever the metric. ▲ better and ▼ worse are significant after correction for all primary metrics; ○ undecided: \
                     no difference was shown, which is not the same as equal. ◀ ▶ the interval goes on beyond the axis."
                }
            }
        }
    }
}

fn verdict_card(model: &Model, arm: usize) -> Markup {
    let score = model.score(arm);
    html! {
        div class="verdict" {
            h3 { (model.arms[arm]) }
            p class="counts" aria-hidden="true" { (counts(score)) }
            p class="finding" { (verdict::finding(model, arm)) "." }
            p class="faint command" { (setting::arm_text(model, arm)) }
        }
    }
}

fn counts(score: Score) -> Markup {
    html! {
        span class=(if score.better > 0 { "better" } else { "faint" }) { "▲ " (score.better) }
        span class=(if score.worse > 0 { "worse" } else { "faint" }) { "▼ " (score.worse) }
        span class="faint" { "○ " (score.undecided + score.too_few + score.missing) }
    }
}

fn results_tables(model: &Model) -> Markup {
    html! {
        @for suite in model.suites() {
            h3 { "Suite " (results::suite_name(suite)) }
            (tables::table(&results::table(model, suite, false)))
        }
        p class="legend" { (results::LEGEND) }
        details {
            summary { "Minimum, maximum, range, deviation, median" }
            @for suite in model.suites() {
                h3 { "Suite " (results::suite_name(suite)) }
                (tables::table(&results::table(model, suite, true)))
            }
        }
        @let secondary: Vec<&Row> = model.analysis.rows.iter().filter(|row| !row.primary).collect();
        @if !secondary.is_empty() && model.arms.len() > 1 {
            details {
                summary { "Intervals of the secondary metrics" }
                (tables::effects(model, &secondary))
            }
        }
        (tables::blocks(&setting::skipped(model)))
        (tables::blocks(&setting::discarded(model, false)))
    }
}

fn evidence_tables(model: &Model) -> Markup {
    let (table, notes) = evidence::summary(model, None);
    html! {
        p { "What was seen around the benchmarks, over all runs that count: totals divided by totals." }
        (tables::table(&table))
        @if !notes.is_empty() { ul class="notes" { @for note in &notes { li { (note) } } } }
        details {
            summary { "By benchmark" }
            @for key in model.benchmarks() {
                h3 { (clean_brief(key.1)) }
                (tables::table(&evidence::summary(model, Some(key)).0))
            }
        }
        @let counters = evidence::vmstat(model);
        @if !counters.is_empty() {
            details { summary { "Memory counters" } (tables::blocks(&counters)) }
        }
    }
}

fn environment(model: &Model) -> Markup {
    html! {
        h3 { "Arms" }
        ul class="notes" {
            @for (arm, label) in model.arms.iter().enumerate() {
                li { strong { (label) } ": " (setting::arm_text(model, arm)) }
            }
        }
        @for machine in &model.machines { (tables::table(&setting::environment_table(machine, true))) }
        @let discarded = setting::discarded(model, true);
        @if discarded.len() > 1 {
            details { summary { "Discarded runs" } (tables::blocks(&discarded[1..])) }
        }
    }
}

fn raw(model: &Model) -> Markup {
    html! {
        details {
            summary { "Every value of every metric (◇ outlier; nothing is dropped)" }
            @for row in &model.analysis.rows { (tables::raw(model, row)) }
        }
    }
}

fn guide_text() -> Markup {
    html! {
        dl {
            @for (term, meaning) in guide::TERMS { dt { (term) } dd { (meaning) } }
        }
        ul { @for caution in guide::CAUTIONS { li { (caution) } } }
    }
}

fn versions(model: &Model) -> String {
    let mut versions: Vec<String> = model
        .machines
        .iter()
        .map(|machine| clean(&machine.plan.version))
        .collect();
    versions.dedup();
    versions.join(", ")
}
