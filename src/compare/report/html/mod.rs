// SPDX-License-Identifier: GPL-2.0-only
//! One page that needs nothing else: no script, no network, readable offline in years to come.
//!
//! | module | concern |
//! |---|---|
//! | [`page`] | the order of the page, its head and foot |
//! | [`tables`] | tables, also the one of effects with its intervals drawn |
//! | [`metrics`] | a card for each metric |
//! | [`nodes`] | where tasks ran: heat maps and placement |
//! | [`scale`] | from values to places on a plot, ticks |
//! | [`strip`], [`pairs`], [`heat`], [`bars`] | the plots, as SVG |
//!
//! Invariants:
//!
//! - Colour means a verdict, and never alone: a word or a sign says the same. The rest is drawn in grey,
//!   amounts in steps of one hue. Machines differ in shape.
//! - Everything dynamic goes through maud, which escapes it.
//! - Plots are 360 units wide, so that their text is readable on a phone, where one unit is one pixel.

pub mod bars;
pub mod heat;
pub mod metrics;
pub mod nodes;
pub mod page;
pub mod pairs;
pub mod scale;
pub mod strip;
pub mod tables;

use super::model::Model;

pub fn render(model: &Model) -> String {
    page::page(model).into_string()
}
