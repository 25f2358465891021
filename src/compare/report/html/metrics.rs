// SPDX-License-Identifier: GPL-2.0-only
//! A card for each metric: all values, and the change of every block.

use maud::{Markup, html};

use super::{pairs, strip};
use crate::compare::analysis::Row;
use crate::compare::report::model::{Model, row_label};

pub fn cards(model: &Model) -> Markup {
    let (primary, secondary): (Vec<&Row>, Vec<&Row>) =
        model.analysis.rows.iter().partition(|row| row.primary);
    html! {
        @for row in &primary { (card(model, row)) }
        @if !secondary.is_empty() {
            details {
                summary { "Secondary metrics (" (secondary.len()) "): reported, not judged" }
                @for row in &secondary { (card(model, row)) }
            }
        }
    }
}

fn card(model: &Model, row: &Row) -> Markup {
    html! {
        article class="card" {
            h3 { (row_label(row)) }
            div class="plots" {
                @for (machine, name) in model.machines.iter().map(|it| &it.name).enumerate() {
                    @if let Some(plot) = strip::plot(model, row, machine) {
                        figure {
                            figcaption {
                                "Every value"
                                @if model.machines.len() > 1 { " on " (name) }
                            }
                            (plot)
                        }
                    }
                }
                @if let Some(plot) = pairs::plot(model, row) {
                    figure {
                        figcaption { "Change in every block, median and 95% interval" }
                        (plot)
                    }
                }
            }
        }
    }
}

/// What the signs of the cards mean.
pub fn legend(model: &Model) -> Markup {
    html! {
        p class="legend" {
            "One dot is one run, or on the right one block. Box: half of the values; line: median; ◇ outlier. \
             The axes of values do not begin at 0."
        }
        @if model.machines.len() > 1 {
            p class="legend" {
                "Machines by shape: "
                @for (at, machine) in model.machines.iter().enumerate() {
                    @if at > 0 { ", " }
                    svg class="mark" viewBox="0 0 10 10" aria-hidden="true" { (pairs::mark(5.0, 5.0, at, &html! { (machine.name) })) }
                    " " (machine.name)
                }
            }
        }
    }
}
