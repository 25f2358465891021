// SPDX-License-Identifier: GPL-2.0-only
//! Occupancy over time as an SVG: a band for each node, all on one scale.
//!
//! Bands, because lines of nodes that have the same number of tasks would hide each other, and even nodes are what
//! the rules are for. One file that needs nothing else: no script, no style sheet, no font of its own. A dashed
//! line is where a node has as many tasks as CPUs, where the axis reaches that far.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::hardware::Hardware;
use super::occupancy::Occupancy;
use super::outcome::Outcome;
// The same axes as in the pages of `compare report`.
use crate::compare::report::html::scale::{Scale, px};

/// The picture, in its own units.
const WIDTH: f64 = 780.0;
const LEFT: f64 = 104.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 84.0;
/// All bands together, unless they would be too low or too high.
const BANDS: f64 = 430.0;
const LOWEST: f64 = 24.0;
const HIGHEST: f64 = 150.0;

const TASKS: &str = "#0072b2";
const FULL: &str = "#d55e00";

/// Where everything is.
struct Layout {
    time: Scale,
    /// Of a band whose top is 0.
    tasks: Scale,
    band: f64,
    gap: f64,
    nodes: usize,
}

impl Layout {
    fn new(hw: &Hardware, occupancy: &Occupancy) -> Self {
        let nodes = hw.nr_nodes();
        let spans = occupancy.nodes.first().map_or(0, Vec::len);
        let share = BANDS / nodes as f64;
        let gap = (share * 0.15).min(14.0);
        let band = (share - gap).clamp(LOWEST, HIGHEST);
        let most = f64::from(occupancy.most()) / 1000.0;
        let sizes = hw.shape.weight.iter().map(|&weight| f64::from(weight));
        // A full node is shown unless what there is would be lost below it.
        let full = sizes.filter(|&size| size <= most * 1.6).fold(0.0, f64::max);
        Self {
            time: Scale {
                low: 0.0,
                high: (spans as f64 * seconds(occupancy)).max(1e-3),
                left: LEFT,
                right: RIGHT,
            },
            tasks: Scale {
                low: 0.0,
                high: (most.max(full) * 1.1).max(1.0),
                left: band,
                right: 0.0,
            },
            band,
            gap,
            nodes,
        }
    }

    fn top(&self, node: usize) -> f64 {
        TOP + (self.band + self.gap) * node as f64
    }

    fn bottom(&self) -> f64 {
        self.top(self.nodes) - self.gap
    }

    /// Whole tasks at which a band has a line, one at least; none at 0, where its floor is.
    fn ticks(&self) -> Vec<f64> {
        let wanted = ((self.band / 28.0) as usize).clamp(1, 5);
        let whole = |wanted: usize| -> Vec<f64> {
            let ticks = self.tasks.ticks(wanted).into_iter();
            ticks
                .filter(|&tick| tick > 0.0 && tick.fract() == 0.0)
                .collect()
        };
        let mut choices = (wanted..=wanted + 4).map(whole);
        choices.find(|ticks| !ticks.is_empty()).unwrap_or_default()
    }
}

fn seconds(occupancy: &Occupancy) -> f64 {
    occupancy.span_ns as f64 / 1e9
}

/// The picture of one run; `title` says what ran where.
pub fn svg(title: &str, hw: &Hardware, run: &Outcome) -> String {
    let layout = Layout::new(hw, &run.occupancy);
    let height = layout.bottom() + 48.0;
    let about = format!(
        "seed {}; {} moves by the balancer; averages over {}; time in units of the model",
        run.seed,
        run.moves.excess + run.moves.utilisation,
        span(run.occupancy.span_ns)
    );
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (px(WIDTH)) " " (px(height)) }
            width=(px(WIDTH)) height=(px(height)) role="img" aria-label=(title)
            font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="12" fill="#222" {
            title { (title) }
            rect width="100%" height="100%" fill="#fff" {}
            text x="16" y="26" font-size="16" font-weight="600" { "Tasks on each node over time" }
            text x="16" y="45" { (title) }
            text x="16" y="62" font-size="11" fill="#555" { (about) }
            (legend(hw.shape.weight.iter().any(|&weight| layout.tasks.holds(f64::from(weight)))))
            (time_axis(&layout))
            @for node in 0..layout.nodes { (band(hw, &run.occupancy, &layout, node)) }
            text transform={ "translate(20 " (px((TOP + layout.bottom()) / 2.0)) ") rotate(-90)" }
                text-anchor="middle" { "tasks that run or wait" }
        }
    };
    markup.into_string() + "\n"
}

/// A span of time for people.
fn span(ns: u64) -> String {
    match ns {
        ns if ns < 1_000_000_000 => format!("{} ms", ns / 1_000_000),
        ns => format!("{} s", ns as f64 / 1e9),
    }
}

/// `full`: in some band a line is drawn at as many tasks as CPUs.
fn legend(full: bool) -> Markup {
    html! {
        rect x=(px(RIGHT - 214.0)) y="16" width="22" height="11" fill=(TASKS) fill-opacity="0.25" {}
        path d={ "M" (px(RIGHT - 214.0)) " 16h22" } stroke=(TASKS) stroke-width="1.8" {}
        text x=(px(RIGHT - 186.0)) y="26" { "tasks" }
        @if full {
            path d={ "M" (px(RIGHT - 140.0)) " 22h22" } stroke=(FULL) stroke-dasharray="5 3" {}
            text x=(px(RIGHT - 112.0)) y="26" { "as many as CPUs" }
        }
    }
}

/// Lines through all bands, with the time below.
fn time_axis(layout: &Layout) -> Markup {
    let time = &layout.time;
    let decimals = time.tick_decimals(8);
    let bottom = layout.bottom();
    html! {
        @for tick in time.ticks(8) {
            @let x = px(time.at(tick));
            line x1=(x) x2=(x) y1=(px(TOP)) y2=(px(bottom + 4.0)) stroke="#e2e2e2" {}
            text x=(x) y=(px(bottom + 18.0)) text-anchor="middle" { (format!("{tick:.decimals$}")) }
        }
        text x=(px((LEFT + RIGHT) / 2.0)) y=(px(bottom + 37.0)) text-anchor="middle" { "simulated time, s" }
    }
}

fn band(hw: &Hardware, occupancy: &Occupancy, layout: &Layout, node: usize) -> Markup {
    let (top, floor) = (layout.top(node), layout.top(node) + layout.band);
    let y = |tasks: f64| top + layout.tasks.at(tasks);
    let id = hw.node_ids[node];
    let weight = f64::from(hw.shape.weight[node]);
    let line = steps(&occupancy.nodes[node], layout, top, seconds(occupancy));
    html! {
        g {
            title { "node " (id) ", " (weight) " CPUs" }
            @for tick in layout.ticks() {
                path d={ "M" (px(LEFT)) " " (px(y(tick))) "H" (px(RIGHT)) } stroke="#e2e2e2" {}
                text x=(px(LEFT - 6.0)) y=(px(y(tick) + 3.5)) text-anchor="end" font-size="10" fill="#555" { (tick) }
            }
            @if !line.is_empty() {
                path d={ (line) "V" (px(floor)) "H" (px(LEFT)) "Z" } fill=(TASKS) fill-opacity="0.25" {}
                path d=(line) fill="none" stroke=(TASKS) stroke-width="1.8" stroke-linejoin="round" {}
            }
            @if layout.tasks.holds(weight) {
                path d={ "M" (px(LEFT)) " " (px(y(weight))) "H" (px(RIGHT)) } stroke=(FULL) stroke-dasharray="5 3" {}
            }
            path d={ "M" (px(LEFT)) " " (px(top)) "V" (px(floor)) "H" (px(RIGHT)) } fill="none" stroke="#555" {}
            text x=(px(LEFT - 24.0)) y=(px((top + floor) / 2.0 + 4.0)) text-anchor="end" { "node " (id) }
        }
    }
}

/// A node's spans as steps.
fn steps(milli: &[u32], layout: &Layout, top: f64, span_s: f64) -> String {
    let mut path = String::new();
    for (at, &milli) in milli.iter().enumerate() {
        let y = px(top + layout.tasks.at(f64::from(milli) / 1000.0));
        let x = px(layout.time.at((at + 1) as f64 * span_s));
        // Writing to a String cannot fail.
        let _ = match at {
            0 => write!(path, "M{} {y}H{x}", px(LEFT)),
            _ => write!(path, "V{y}H{x}"),
        };
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineBuilder;
    use crate::sim::SimulateArgs;
    use crate::sim::hardware::Params;
    use crate::sim::runs::Job;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        simulate: SimulateArgs,
    }

    fn drawn(nodes: u32, cores: u32, workload: &str) -> String {
        let machine = MachineBuilder::uniform(nodes, 1, cores, 1).build().unwrap();
        let hw = Hardware::new(&machine, Params::default());
        let args = Flags::parse_from(["x", "--workload", workload]).simulate;
        let plan = args.workload.load(&hw).unwrap().plan;
        let job = Job {
            hw: &hw,
            setup: &args.setup_with(&args.policy, &hw.nodes),
            plan: &plan,
            most_ns: u64::MAX,
        };
        svg("<a & b>", &hw, &job.run(1).unwrap())
    }

    /// Well-formed, with a band, an area and a label for each node, whatever the number of nodes.
    #[test]
    fn every_node_has_its_band() {
        for nodes in [1, 2, 8, 64] {
            let text = drawn(nodes, 2, "fork-burst:9,spin_ms=70");
            assert!(text.contains("&lt;a &amp; b&gt;") && !text.contains("<a &"));
            for node in 0..nodes {
                assert!(text.contains(&format!(">node {node}</text>")), "{nodes}");
            }
            assert_eq!(
                text.matches("fill-opacity=\"0.25\"").count(),
                nodes as usize + 1
            );
            assert!(
                text.ends_with("</svg>\n") && !text.contains("NaN"),
                "{text}"
            );
        }
    }

    /// The legend names the dashed line where there is one.
    #[test]
    fn the_legend_is_of_what_is_drawn() {
        let dashes = |text: &str| text.matches("stroke-dasharray").count();
        // One task on 64 CPUs: a full node would be far above the picture.
        let few = drawn(2, 64, "fork-burst:1,spin_ms=200");
        assert_eq!((dashes(&few), few.contains("as many as CPUs")), (0, false));
        let many = drawn(2, 4, "fork-burst:12,spin_ms=200");
        assert_eq!((dashes(&many), many.contains("as many as CPUs")), (3, true));
    }

    /// A hog after a long sleep: low at first, a task high at the end.
    #[test]
    fn a_hog_is_a_step() {
        let text = drawn(1, 4, "fork-burst:1,sleep_ms=640,spin_ms=1300");
        // Its area: the legend's line begins farther right, ticks end at once.
        let mut paths = text.split("d=\"M104 ");
        let area = paths.find(|path| path.contains("Z\"")).unwrap();
        let mut heights = area.split('V').filter_map(|step| step.split('H').next());
        let (first, second) = (heights.next().unwrap(), heights.next().unwrap());
        let last = heights.rfind(|height| !height.starts_with("234")).unwrap();
        let number = |text: &str| text.parse::<f64>().unwrap();
        assert_eq!(number(second), TOP + HIGHEST, "asleep: {area}");
        assert!(number(first) - number(last) > 100.0, "{area}");
        assert!(text.contains(">simulated time, s<") && text.contains(">tasks that run or wait<"));
    }
}
