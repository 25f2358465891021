// SPDX-License-Identifier: GPL-2.0-only
//! Every pair is refused, whatever comes first on the command line; each of the two alone is taken.

use crate::cli::{Cli, Command};
use crate::policy::compile::{Limits, NodeShape, Thresholds};
use crate::policy::placement::{ForkState, fork_node};
use crate::policy::rule_set::RuleSet;

use super::*;

/// What is said of these flags; empty: nothing.
fn said(words: &[&str]) -> String {
    let parsed = Cli::parse_words(["scx_ballast"].iter().chain(words));
    let (cli, given) = parsed.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let checked = cli.check_effect(&given);
    checked.map_or_else(|error| error.to_string(), |()| String::new())
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// `front` with flags: one pair in each row, what is refused and beside what. Both orders, and each alone.
fn refused(front: &str, pairs: &[(&str, &str, &str)]) {
    let on = |flags: &str| said(&words(&format!("{front} {flags}")));
    for (one, other, start) in pairs {
        for both in [format!("{one} {other}"), format!("{other} {one}")] {
            let said = on(&both);
            assert!(said.starts_with(&format!("{start}: ")), "{both}: {said}");
            assert!(said.ends_with("leave one of the two flags out"), "{said}");
        }
        for alone in [one, other] {
            assert_eq!(on(alone), "", "{alone}");
        }
    }
}

const SIMULATE: &str = "simulate --workload mpi:4";

/// Flags that the scheduler and the simulator have are refused by both.
const OF_BOTH: &[(&str, &str, &str)] = &[
    (
        "--newborn-work-us 5000",
        "--newborn-ms 0",
        "--newborn-work-us cannot be had with --newborn-ms 0",
    ),
    (
        "--newborn-ms 200",
        "--newborn-work-us 0",
        "--newborn-ms cannot be had with --newborn-work-us 0",
    ),
    (
        "--imb-numa-nr 4",
        "--rules v5.6",
        "--imb-numa-nr cannot be had with --rules v5.6",
    ),
    (
        "--imb-numa-nr 25%",
        "--rules none",
        "--imb-numa-nr cannot be had with --rules none",
    ),
    (
        "--imbalance-min 2",
        "--rules none",
        "--imbalance-min cannot be had with --rules none",
    ),
    (
        "--imbalance-min 3",
        "--imb-numa-nr 0",
        "--imbalance-min cannot be had with --imb-numa-nr 0",
    ),
    (
        "--imb-numa-nr 4",
        "--imbalance-min 1",
        "--imb-numa-nr cannot be had with --imbalance-min 1",
    ),
];

#[test]
fn flags_of_the_policy() {
    refused("", OF_BOTH);
    refused(SIMULATE, OF_BOTH);
    for set in ["v5.6", "v5.11", "v5.18"] {
        let pair = (
            "--imbalance-min 3",
            "--balance-interval-ms 0",
            "--imbalance-min cannot be had with --balance-interval-ms 0",
        );
        refused(&format!("--rules {set}"), &[pair]);
    }
}

#[test]
fn flags_of_the_scheduler() {
    refused(
        "",
        &[
            (
                "--migrate-memory",
                "--locality off",
                "--migrate-memory cannot be had with --locality off",
            ),
            (
                "--migrate-memory",
                "--locality first-touch",
                "--migrate-memory cannot be had with --locality first-touch",
            ),
            (
                "--migrate-memory",
                "--balance-interval-ms 0",
                "--migrate-memory cannot be had with --balance-interval-ms 0",
            ),
            (
                "--look-budget-us 20000",
                "--locality off",
                "--look-budget-us cannot be had with --locality off",
            ),
            (
                "--look-budget-us 100",
                "--locality first-touch",
                "--look-budget-us cannot be had with --locality first-touch",
            ),
            (
                "--look-budget-us 100",
                "--balance-interval-ms 0",
                "--look-budget-us cannot be had with --balance-interval-ms 0",
            ),
            (
                "--locality sampled",
                "--balance-interval-ms 0",
                "--locality cannot be had with --balance-interval-ms 0",
            ),
            (
                "--locality first-touch",
                "--balance-interval-ms 0",
                "--locality cannot be had with --balance-interval-ms 0",
            ),
            (
                "--rules v6.0",
                "--monitor 1",
                "--rules cannot be had with --monitor",
            ),
            (
                "--stats 1",
                "--help-stats",
                "--stats cannot be had with --help-stats",
            ),
        ],
    );
    let rate = said(&["--migrate-rate", "256"]);
    assert!(
        rate.starts_with("--migrate-rate cannot be had without --migrate-memory: "),
        "{rate}"
    );
    for taken in [
        "--migrate-memory --migrate-rate 9",
        "--migrate-memory --locality auto --look-budget-us 100",
        "--locality auto --balance-interval-ms 0",
        "--locality off --balance-interval-ms 0",
        "--monitor 1 -v",
    ] {
        assert_eq!(said(&words(taken)), "", "{taken}");
    }
}

#[test]
fn flags_that_the_user_dispatcher_has_no_use_for() {
    let pairs = [
        "--locality sampled",
        "--locality first-touch",
        "--migrate-memory",
        "--look-budget-us 20000",
        "--pull-delay-us 500",
        "--sync-us 100",
        "--global-idle-mask",
    ];
    for flag in pairs {
        let name = match flag.starts_with("--locality") {
            true => flag,
            false => words(flag)[0],
        };
        let start = format!("{name} cannot be had with --dispatcher user");
        refused("", &[(flag, "--dispatcher user", &start)]);
    }
    let rate = said(&words("--dispatcher user --migrate-rate 9"));
    assert!(rate.contains("with --dispatcher user"), "{rate}");
    let taken = "--dispatcher user --rules v6.0 --slice-us 100 --partial --locality off --trace x --newborn-ms 0 \
                 --balance-interval-ms 0 --virt-llc --max-tasks 65537";
    assert_eq!(said(&words(taken)), "");
}

#[test]
fn flags_of_the_model() {
    refused(
        SIMULATE,
        &[
            (
                "--newborn-ms 1000",
                "--without r6",
                "--newborn-ms cannot be had with --without r6",
            ),
            (
                "--newborn-work-us 9",
                "--without r9,r6",
                "--newborn-work-us cannot be had with --without r6",
            ),
            (
                "--pull-delay-us 9",
                "--without r9",
                "--pull-delay-us cannot be had with --without r9",
            ),
            (
                "--without r10",
                "--balance-interval-ms 0",
                "--without r10 cannot be had with --balance-interval-ms 0",
            ),
            (
                "--locality exact",
                "--without r8",
                "--locality cannot be had with --without r8",
            ),
            (
                "--locality sampled",
                "--balance-interval-ms 0",
                "--locality cannot be had with --balance-interval-ms 0",
            ),
            (
                "--runs 2",
                "--trace -",
                "--runs cannot be had with --trace -",
            ),
            ("--svg -", "--runs 2", "--runs cannot be had with --svg -"),
        ],
    );
    for (flags, start) in [
        (
            "--migrate-rate 9",
            "--migrate-rate cannot be had without --locality",
        ),
        (
            "--without r7",
            "--without r7 cannot be had without --locality",
        ),
        (
            "--migrate-rate 9 --locality exact --without r8",
            "--migrate-rate cannot be had with --without r8",
        ),
    ] {
        let said = said(&words(&format!("{SIMULATE} {flags}")));
        assert!(said.starts_with(&format!("{start}: ")), "{said}");
    }
    // Tasks of a file may be confined, and then leave after a pull delay.
    let file = "simulate --workload file:x --without r9 --pull-delay-us 9";
    assert_eq!(said(&words(file)), "");
    for taken in [
        "--runs 2 --trace FILE --svg FILE",
        "--runs 1 --trace -",
        "--migrate-rate 0 --without r8",
        "--imb-numa-nr auto --rules none",
        "--locality sampled --without r7,r10 --migrate-rate 9",
    ] {
        assert_eq!(said(&words(&format!("{SIMULATE} {taken}"))), "", "{taken}");
    }
}

/// A swept flag is refused as one that is given, but switches nothing off: it has other values, too.
#[test]
fn swept_flags() {
    refused(
        SIMULATE,
        &[
            (
                "--sweep newborn-ms=0..200..100",
                "--without r6",
                "--newborn-ms cannot be had with --without r6",
            ),
            (
                "--sweep newborn-work-us=1..3",
                "--newborn-ms 0",
                "--newborn-work-us cannot be had with --newborn-ms 0",
            ),
            (
                "--sweep imb-numa-nr=1..4",
                "--rules none",
                "--imb-numa-nr cannot be had with --rules none",
            ),
            (
                "--sweep imb-numa-nr=1..4",
                "--imbalance-min 0",
                "--imb-numa-nr cannot be had with --imbalance-min 0",
            ),
            (
                "--sweep imbalance-min=0..4",
                "--imb-numa-nr 0",
                "--imbalance-min cannot be had with --imb-numa-nr 0",
            ),
        ],
    );
    for taken in [
        "--newborn-ms 0 --newborn-work-us 9 --sweep newborn-ms=0..200..100",
        "--imbalance-min 3 --imb-numa-nr 0 --sweep imb-numa-nr=0..4",
        "--imbalance-min 0 --imb-numa-nr 4 --sweep imbalance-min=0..4",
        "--locality sampled --balance-interval-ms 0 --sweep balance-interval-ms=0..200..100",
    ] {
        assert_eq!(said(&words(&format!("{SIMULATE} {taken}"))), "", "{taken}");
    }
    // What is refused with one value is refused beside a sweep of something else.
    let said = said(&words(&format!(
        "{SIMULATE} --without r6 --newborn-ms 9 --sweep slice-us=1000..2000..500"
    )));
    assert!(said.contains("--newborn-ms cannot be had"), "{said}");
}

/// The smallest slice is no larger than the largest, whichever of them was given.
#[test]
fn slices() {
    for (flags, most) in [
        ("--slice-us 2000 --slice-min-us 3000", 2000),
        ("--slice-min-us 6000", 5000),
    ] {
        for front in ["", SIMULATE] {
            let said = said(&words(&format!("{front} {flags}")));
            let start = format!("--slice-min-us cannot be had with slices of {most} us at most: ");
            assert!(said.starts_with(&start), "{flags}: {said}");
        }
    }
    for taken in [
        "--slice-us 500",
        "--slice-us 3000 --slice-min-us 3000",
        "--slice-min-us 9000 --sweep slice-us=1000..20000..1000",
        "--slice-us 3000 --sweep slice-min-us=1000..4000..1000",
    ] {
        assert_eq!(said(&words(&format!("{SIMULATE} {taken}"))), "", "{taken}");
    }
}

/// What is said of them can be given again.
#[test]
fn flags_in_words() {
    let words = "scx_ballast simulate --workload mpi:4 --without r9,r10 --slice-us=700 --seed 7";
    let (_, given) = Cli::parse_words(words.split_whitespace()).unwrap();
    let but = given.words(&["workload", "seed"]);
    assert_eq!(but, "--slice-us 700 --without r9,r10");
    let (_, given) = Cli::parse_words(["scx_ballast", "--migrate-memory"]).unwrap();
    assert_eq!(given.words(&[]), "--migrate-memory");
}

#[test]
fn only_what_is_on_the_command_line_is_given() {
    let words = ["scx_ballast", "simulate", "--workload=mpi:4", "--seed", "7"];
    let (cli, given) = Cli::parse_words(words).unwrap();
    assert!(matches!(cli.command, Some(Command::Simulate(_))));
    assert!(given.has("seed") && given.has("workload"));
    assert!(!given.has("runs") && !given.has("newborn-ms"));
}

/// The rules themselves say the same: whatever the refused threshold is, they decide alike.
#[test]
fn a_refused_threshold_decides_nothing() {
    let nodes = [NodeShape {
        weight: 8,
        llcs: 2,
        imb_numa_nr: 2,
    }; 2];
    let mut refusals = 0;
    for (set, imbalance_min, imb_numa_nr) in thresholds() {
        let limits = |imbalance_min, imb_numa_nr| {
            let thresholds = Thresholds {
                imbalance_min,
                imb_numa_nr,
            };
            Limits::compile(set, thresholds, &nodes)
        };
        let flags =
            format!("--rules {set} --imb-numa-nr {imb_numa_nr} --imbalance-min {imbalance_min}");
        let base = limits(Some(imbalance_min), imb_numa_nr);
        let others: Vec<Limits> = match said(&words(&flags)) {
            text if text.starts_with("--imb-numa-nr ") => [0, 1, 2, 8]
                .map(|n| limits(Some(imbalance_min), ImbNumaNr::Tasks(n)))
                .into(),
            text if text.starts_with("--imbalance-min ") => {
                [0, 1, 2, 5].map(|n| limits(Some(n), imb_numa_nr)).into()
            }
            _ => continue,
        };
        refusals += 1;
        for other in others {
            assert_eq!(decisions(&base), decisions(&other), "{flags}");
        }
    }
    assert!(refusals > 10, "{refusals}");
}

fn thresholds() -> impl Iterator<Item = (RuleSet, u32, ImbNumaNr)> {
    let sets = RuleSet::ALL.into_iter();
    let with_min = sets.flat_map(|set| [0, 1, 2, 3].map(|min| (set, min)));
    with_min.flat_map(|(set, min)| [0, 1, 3, 8].map(|n| (set, min, ImbNumaNr::Tasks(n))))
}

/// Where a fork goes and whether a pair is left alone, for all loads of two nodes.
fn decisions(limits: &Limits) -> Vec<(u32, bool, bool)> {
    use crate::policy::compile::NodeLoad;
    let loads = (0..12).flat_map(|a| (0..12).map(move |b| (a, b)));
    let decided = loads.map(|(a, b)| {
        let state = ForkState {
            committed: &[a, b],
            weight: &[8, 8],
            task_weight: &[100, 100],
            allowed: 3,
            order: &[0, 1],
            usable: 8,
        };
        let node = fork_node(&state, &limits.fork).map_or(9, |choice| choice.node);
        let load = |node, tasks| NodeLoad {
            node,
            tasks,
            weight: 8,
        };
        let (a, b) = (load(0, a), load(1, b));
        let alone = limits.run_time.leaves_alone(a, b);
        (node, alone, limits.preferred.leaves_alone(a, b))
    });
    decided.collect()
}
