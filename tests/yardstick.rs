// SPDX-License-Identifier: GPL-2.0-only
//! The documents' tables as a yardstick: how the model is calibrated, what it predicts, and what the documents say.
//!
//! Two rows calibrate, v5.7 and v5.18rc4-revert of document 002's mg.D table; nothing else of the documents goes into
//! the model. Everything here is deterministic, so docs/simulation.md has to say to the digit what comes out:
//!
//!     cargo test --release --test yardstick -- --include-ignored
//!
//! `YARDSTICK_WRITE=1` writes the tables into docs/simulation.md. Without optimisation the ignored tests take long.

#[path = "yardstick/documents.rs"]
mod documents;

use std::fmt::Write;
use std::path::Path;

use documents::{HACKBENCH, MGD, NUMA, STREAM};
use scx_ballast::machine::Machine;
use scx_ballast::policy::compile::{Limits, NodeLoad, Thresholds};
use scx_ballast::policy::rule_set::RuleSet;
use scx_ballast::sim::extras::{Evidence, Extras};
use scx_ballast::sim::hardware::{Hardware, ONE, Params};
use scx_ballast::sim::outcome::Outcome;
use scx_ballast::sim::runs::Job;
use scx_ballast::sim::workload::Workload;
use scx_ballast::sim::world::Setup;

const MS: u64 = 1_000_000;
/// Runs per row; the documents do not say how many they made.
const RUNS: u32 = 10;
const RANKS: u32 = 16;

fn hardware(machine: &str, params: Params) -> Hardware {
    Hardware::new(&Machine::describe(machine, None).expect(machine), params)
}

/// The defaults of `simulate`.
fn setup(hw: &Hardware, set: RuleSet, newborns: bool) -> Setup {
    Setup {
        limits: Limits::compile(set, Thresholds::default(), &hw.nodes),
        slice_ns: 5 * MS,
        slice_min_ns: MS,
        pull_delay_ns: MS / 2,
        sync_ns: MS / 10,
        newborn_ns: if newborns { 1000 * MS } else { 0 },
        newborn_work_ns: 5 * MS,
        balance_ns: 100 * MS,
        extras: Extras::default(),
    }
}

fn simulate(hw: &Hardware, setup: &Setup, workload: &str, runs: u32) -> Vec<Outcome> {
    let plan = workload.parse::<Workload>().expect(workload).plan(hw);
    let job = Job {
        hw,
        setup,
        plan: &plan,
        most_ns: 100_000_000 * MS,
    };
    job.run_many(1, runs).expect(workload)
}

/// Run times in seconds: min, max, mean.
fn times(outcomes: &[Outcome]) -> (f64, f64, f64) {
    let seconds = outcomes.iter().map(|one| one.run_ns as f64 / 1e9);
    let sum: f64 = seconds.clone().sum();
    (
        seconds.clone().fold(f64::INFINITY, f64::min),
        seconds.fold(0.0, f64::max),
        sum / outcomes.len() as f64,
    )
}

fn mean(hw: &Hardware, setup: &Setup, workload: &str, runs: u32) -> f64 {
    times(&simulate(hw, setup, workload, runs)).2
}

fn document(kernel: &str) -> (f64, f64, f64) {
    let row = MGD.iter().find(|row| row.0 == kernel).expect(kernel);
    (row.1, row.2, row.3)
}

/// docs/simulation.md has these lines between the marks of their name.
fn check_docs(name: &str, table: &str) {
    println!("{table}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/simulation.md");
    let text = std::fs::read_to_string(&path).expect("docs/simulation.md");
    let (begin, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let start = text.find(&begin).expect("the table's mark") + begin.len();
    let stop = start + text[start..].find(&end).expect("its end");
    if std::env::var_os("YARDSTICK_WRITE").is_some() {
        let text = format!("{}{table}{}", &text[..start], &text[stop..]);
        std::fs::write(&path, text).expect("docs/simulation.md can be written");
        return;
    }
    assert_eq!(
        &text[start..stop],
        table,
        "docs/simulation.md is out of date"
    );
}

/// The two rows: v5.7 is 8 ranks on each node; v5.18rc4-revert is as many on one as that kernel's run-time rule
/// leaves alone, a quarter of the node's CPUs.
const CALIBRATED: (&str, &str) = ("v5.7", "v5.18rc4-revert-c6f886546cb8");

/// The fullest node that v5.18 leaves alone.
fn fullest(hw: &Hardware) -> u32 {
    let limits = Limits::compile(RuleSet::V5_18, Thresholds::default(), &hw.nodes);
    let load = |node: usize, tasks| NodeLoad {
        node,
        tasks,
        weight: hw.nodes[node].weight,
    };
    let alone = |n: &u32| {
        limits
            .run_time
            .leaves_alone(load(0, *n), load(1, RANKS - n))
    };
    (RANKS / 2..=RANKS)
        .rev()
        .find(alone)
        .expect("8 and 8 are even")
}

/// What a rank needs for a unit of work with so many on its node, all memory local, in millionths.
fn slowness(hw: &Hardware, ranks: u32, intensity: u64) -> f64 {
    let demand = [u64::from(ranks) * intensity, 0];
    let speed = hw.speed(0, 1, intensity, &[(0, ONE)], &demand);
    ONE as f64 / speed as f64
}

/// Calibration 1: how much of mg.D waits for memory, by how much longer the slowest ranks take when there are 10 of them
/// on a node and not 8.
#[test]
fn memory_share_is_calibrated_on_the_ratio_of_the_two_rows() {
    let hw = hardware("suse-2s-80", Params::default());
    assert_eq!(fullest(&hw), 10);
    let wanted = document(CALIBRATED.1).2 / document(CALIBRATED.0).2;
    let off = |permille: u64| {
        let ratio = slowness(&hw, 10, permille * 1000) / slowness(&hw, 8, permille * 1000);
        (ratio - wanted).abs()
    };
    let best = (0..=1000).min_by(|&a, &b| off(a).total_cmp(&off(b)));
    let workload = format!("mgd:16,memory_permille={}", best.expect("some"));
    let workload: Workload = workload.parse().expect("a workload");
    assert_eq!(workload.to_string(), "mgd:16", "the default is another");
}

/// Calibration 2: how long ranks work before they touch memory, as that v5.7 has no rank far from its memory: what is
/// needed, up to 50 ms. Under that kernel all ranks begin on one node, and the balancer spreads them.
#[test]
#[ignore = "long without optimisation"]
fn the_start_is_calibrated_on_the_range_of_v5_7() {
    let hw = hardware("suse-2s-80", Params::default());
    let setup = setup(&hw, RuleSet::V5_6, true);
    let local = |init_ms: &u64| {
        let workload = format!("mgd:16,iterations=10,init_ms={init_ms}");
        let outcomes = simulate(&hw, &setup, &workload, 100);
        outcomes.iter().all(|one| one.local_permille == Some(1000))
    };
    let least = (0..40).map(|n| n * 50).find(local).expect("some");
    let workload: Workload = format!("mgd:16,init_ms={least}").parse().expect("one");
    assert_eq!(workload.to_string(), "mgd:16", "the default is another");
}

/// Calibration 3: how many rounds there are, in tens, by the mean of v5.7.
#[test]
#[ignore = "long without optimisation"]
fn the_length_is_calibrated_on_the_mean_of_v5_7() {
    let hw = hardware("suse-2s-80", Params::default());
    let setup = setup(&hw, RuleSet::V5_6, true);
    let took = mean(&hw, &setup, "mgd:16,iterations=1000", RUNS);
    let rounds = (document(CALIBRATED.0).2 / took * 100.0).round() * 10.0;
    let workload: Workload = format!("mgd:16,iterations={rounds}").parse().expect("one");
    assert_eq!(workload.to_string(), "mgd:16", "the default is another");
}

/// Calibration 4: how much runs differ by themselves, as that the range of ten runs is in the middle of what the two rows have,
/// in parts of their means.
#[test]
#[ignore = "long without optimisation"]
fn noise_is_calibrated_on_the_ranges_of_the_two_rows() {
    let parts = [CALIBRATED.0, CALIBRATED.1].map(|kernel| {
        let (min, max, mean) = document(kernel);
        (max - min) / mean
    });
    let wanted = (parts[0] + parts[1]) / 2.0;
    let range_with = |run_permille: u64| {
        let params = Params {
            run_permille,
            ..Params::default()
        };
        let hw = hardware("suse-2s-80", params);
        let setup = setup(&hw, RuleSet::V5_6, true);
        let (min, max, mean) = times(&simulate(&hw, &setup, "mgd:16,iterations=200", RUNS));
        (max - min) / mean
    };
    let off = |permille: u64| (range_with(permille) - wanted).abs();
    let best = (0..=40).min_by(|&a, &b| off(a).total_cmp(&off(b)));
    assert_eq!(best, Some(Params::default().run_permille));
}

/// Which rules stand for which kernel, and whether it counts sleepers.
const KERNELS: &[(&str, RuleSet, bool)] = &[
    ("v5.3", RuleSet::None, true),
    ("v5.7", RuleSet::V5_6, true),
    ("v5.8", RuleSet::V5_6, false),
    ("v5.12", RuleSet::V5_11, true),
    ("v5.13", RuleSet::V5_11, false),
    ("v5.13-revert-c6f886546cb8", RuleSet::V5_11, true),
    ("v5.18rc4-baseline", RuleSet::V5_18, false),
    ("v5.18rc4-revert-c6f886546cb8", RuleSet::V5_18, true),
    ("v5.18rc4-this_series", RuleSet::V6_0, false),
    ("v5.18rc4-this_series+revert", RuleSet::V6_0, true),
    ("v5.18rc4-this_series", RuleSet::Ballast, false),
    ("v5.18rc4-this_series+revert", RuleSet::Ballast, true),
];

fn sleepers(counted: bool) -> &'static str {
    if counted { "counted" } else { "unseen" }
}

/// How the nodes' first counts were most often, the fuller first.
fn placement(outcomes: &[Outcome]) -> String {
    let sorted = |one: &Outcome| {
        let mut counts = one.last.clone();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
        counts.join("/")
    };
    let mut all: Vec<String> = outcomes.iter().map(sorted).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

fn mgd_table(workload: &str) -> String {
    let hw = hardware("suse-2s-80", Params::default());
    let mut table = String::from(
        "| kernel | document: min | max | range | mean | model: rules, sleepers | min | max | range | mean | ranks at the end |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for &(kernel, set, counted) in KERNELS {
        let outcomes = simulate(&hw, &setup(&hw, set, counted), workload, RUNS);
        let ((min, max, mean), said) = (times(&outcomes), document(kernel));
        let _ = writeln!(
            table,
            "| {kernel} | {:.2} | {:.2} | {:.2} | {:.2} | {set}, {} | {min:.2} | {max:.2} | {:.2} | {mean:.2} | {} |",
            said.0,
            said.1,
            said.1 - said.0,
            said.2,
            sleepers(counted),
            max - min,
            placement(&outcomes),
        );
    }
    table
}

#[test]
#[ignore = "long without optimisation"]
fn mgd() {
    let table = mgd_table("mgd:16");
    check_docs("mgd", &table);
}

/// What is predicted of the mean and the minimum holds; docs/simulation.md tells what does not.
#[test]
#[ignore = "long without optimisation"]
fn mgd_means_agree() {
    let hw = hardware("suse-2s-80", Params::default());
    for set in [RuleSet::V6_0, RuleSet::Ballast] {
        let outcomes = simulate(&hw, &setup(&hw, set, true), "mgd:16", RUNS);
        let (min, _, mean) = times(&outcomes);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() <= 0.1;
        assert!(near(mean, document("v5.18rc4-this_series+revert").2));
        assert!(near(min, document("v5.18rc4-this_series").0));
    }
}

/// The same where ranks touch their memory as soon as they run.
#[test]
#[ignore = "long without optimisation"]
fn mgd_that_touches_at_once() {
    let table = mgd_table("mgd:16,init_ms=0");
    check_docs("mgd-at-once", &table);
}

/// To a tenth, and nothing is not negative.
fn signed(change: f64) -> String {
    format!("{:+.1}", (change * 10.0).round() / 10.0 + 0.0)
}

/// Change in percent, the old time over the new one.
fn change(old: f64, new: f64) -> f64 {
    (old / new - 1.0) * 100.0
}

#[test]
#[ignore = "long without optimisation"]
fn stream() {
    let mut table = String::from(
        "| machine | runs of the kernels | document: Copy, Scale, Add, Triad | model: 2 threads per node | 16 threads |\n\
         |---|---|---|---|---|\n",
    );
    for row in STREAM {
        let hw = hardware(row.machine, Params::default());
        let predict = |threads: usize| {
            let workload = format!("stream:{threads},runs={}", row.runs);
            let time = |set| mean(&hw, &setup(&hw, set, true), &workload, RUNS);
            change(time(RuleSet::V5_18), time(RuleSet::V6_0))
        };
        let said = row.change.map(|change| format!("{change:+.2}"));
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} |",
            row.machine,
            row.runs,
            said.join(", "),
            signed(predict(2 * hw.nr_nodes())),
            signed(predict(16)),
        );
    }
    check_docs("stream", &table);
}

#[test]
#[ignore = "long without optimisation"]
fn hackbench() {
    let hw = hardware("suse-2s-48", Params::default());
    let mut table = String::from(
        "| groups | document | model: rules none | ballast |\n\
         |---|---|---|---|\n",
    );
    // Where the document has its clear gains; beyond 110 a run takes long.
    let rows = HACKBENCH.iter().filter(|row| (21..=110).contains(&row.0));
    for &(groups, said) in rows {
        let predict = |set| {
            let time = |counted| {
                let setup = setup(&hw, set, counted);
                mean(&hw, &setup, &format!("hackbench:{groups}"), RUNS)
            };
            let (unseen, counted) = (time(false), time(true));
            (unseen - counted) / unseen * 100.0
        };
        let _ = writeln!(
            table,
            "| {groups} | {said:+.2} | {} | {} |",
            signed(predict(RuleSet::None)),
            signed(predict(RuleSet::Ballast)),
        );
    }
    check_docs("hackbench", &table);
}

/// A fifth of the document's loops: only changes are compared.
fn numa_workload(test: usize) -> String {
    let loops = if matches!(test, 2 | 7) { 160 } else { 10 };
    format!("numa{test:02},loops={loops}")
}

/// Document 000's patch changed run time alone: the limits of `none`, and the run-time limit of v5.6.
fn with_patch(hw: &Hardware) -> Setup {
    let mut setup = setup(hw, RuleSet::None, true);
    let newer = Limits::compile(RuleSet::V5_6, Thresholds::default(), &hw.nodes);
    setup.limits.run_time = newer.run_time;
    setup
}

#[test]
#[ignore = "long without optimisation"]
fn numa() {
    let hw = hardware("power8-8n-256", Params::default());
    let mut table = String::from(
        "| test | busiest node | the rule acts | document: change | spread of its runs, without and with | model: change |\n\
         |---|---|---|---|---|---|\n",
    );
    for (test, said) in (1..).zip(NUMA) {
        let workload = numa_workload(test);
        let base = simulate(&hw, &setup(&hw, RuleSet::None, true), &workload, 2);
        let patched = simulate(&hw, &with_patch(&hw), &workload, 2);
        let busiest = base.iter().flat_map(|one| &one.first).max();
        let busiest = busiest.copied().unwrap_or(0);
        let spread = |(min, max): (f64, f64)| (max - min) / ((min + max) / 2.0) * 100.0;
        let _ = writeln!(
            table,
            "| numa{test:02} | {busiest} | {} | {:+.1} | {:.1}, {:.1} | {} |",
            if busiest <= 2 { "yes" } else { "no" },
            said.change,
            spread(said.base),
            spread(said.patched),
            signed(change(times(&base).2, times(&patched).2)),
        );
    }
    check_docs("numa", &table);
}

#[test]
#[ignore = "long without optimisation"]
fn numa_with_locality() {
    let hw = hardware("power8-8n-256", Params::default());
    let mut table = String::from(
        "| test | off: time | local, % | sampled: time | local, % | moves for memory | exact: time | change, off to sampled |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for test in 1..=NUMA.len() {
        let workload = numa_workload(test);
        let run = |locality| {
            let mut setup = setup(&hw, RuleSet::Ballast, true);
            setup.extras.locality = locality;
            simulate(&hw, &setup, &workload, 2)
        };
        let (off, sampled) = (run(None), run(Some(Evidence::Sampled)));
        let exact = run(Some(Evidence::Exact));
        let local = |outcomes: &[Outcome]| {
            let sum: u64 = outcomes.iter().filter_map(|one| one.local_permille).sum();
            sum as f64 / outcomes.len() as f64 / 10.0
        };
        let steps: u64 = sampled.iter().map(|one| one.steps.tasks()).sum();
        let _ = writeln!(
            table,
            "| numa{test:02} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
            times(&off).2,
            local(&off),
            times(&sampled).2,
            local(&sampled),
            steps as f64 / sampled.len() as f64,
            times(&exact).2,
            signed(change(times(&off).2, times(&sampled).2)),
        );
    }
    check_docs("numa-locality", &table);
}
