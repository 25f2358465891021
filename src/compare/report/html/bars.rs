// SPDX-License-Identifier: GPL-2.0-only
//! Each node's share of all CPU time, a bar for each arm: equal parts are an even spread.

use maud::{Markup, html};

use super::scale::{WIDTH, px};
use crate::compare::report::text::shorten;

const LANE: f64 = 36.0;

/// A bar: its name and, by node, amounts of which the shares are shown.
pub struct Bar {
    pub label: String,
    pub parts: Vec<(u32, f64)>,
}

pub fn plot(title: &str, bars: &[Bar]) -> Option<Markup> {
    if bars.iter().all(|bar| bar.parts.is_empty()) {
        return None;
    }
    let height = LANE * bars.len() as f64 + 4.0;
    Some(html! {
        svg viewBox={ "0 0 360 " (px(height)) } role="img" aria-label=(title) {
            title { (title) }
            @for (at, bar) in bars.iter().enumerate() {
                g transform={ "translate(0 " (px(LANE * at as f64)) ")" } { (lane(bar)) }
            }
        }
    })
}

fn lane(bar: &Bar) -> Markup {
    let total: f64 = bar.parts.iter().map(|(_, amount)| amount).sum();
    let room = WIDTH - 16.0;
    let mut left = 8.0;
    let parts: Vec<(u32, f64, f64)> = match total > 0.0 {
        true => bar
            .parts
            .iter()
            .map(|(node, amount)| {
                let from = left;
                left += room * amount / total;
                (*node, amount / total, from)
            })
            .collect(),
        false => Vec::new(),
    };
    html! {
        text class="lane" x="8" y="13" { (shorten(&bar.label, 52)) }
        @if parts.is_empty() { text class="tick" x="8" y="28" { "not available" } }
        @for (at, (node, share, from)) in parts.iter().enumerate() {
            @let wide = room * share;
            rect class=(if at % 2 == 0 { "part even" } else { "part" }) x=(px(*from)) y="18" height="15"
                width=(px((wide - 1.0).max(0.5))) {
                title { "node " (node) ": " (format!("{:.1}", share * 100.0)) "% of the CPU time" }
            }
            @if wide > 26.0 {
                text class="tick" x=(px(from + wide / 2.0)) y="29" text-anchor="middle" {
                    (format!("{:.0}%", share * 100.0))
                }
            }
        }
    }
}
