// SPDX-License-Identifier: GPL-2.0-only
//! What the command line takes and refuses, and that its help tells.

use super::*;
use clap::CommandFactory;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn ecosystem_spellings_parse() {
    let cli = Cli::try_parse_from([
        "scx_ballast",
        "--stats",
        "0.5",
        "--partial",
        "--exit-dump-len",
        "65536",
        "-vv",
        "--virt-llc",
    ])
    .expect("all of these are spelled as other schedulers spell them");
    assert_eq!(cli.run.stats, Some(Duration::from_millis(500)));
    assert!(cli.run.partial);
    assert_eq!(cli.run.verbose, 2);
    assert_eq!(cli.run.virt_llc, Some(VirtLlc { min: 2, max: 8 }));
}

#[test]
fn nonsense_is_refused() {
    for bad in [
        vec!["--slice-us", "0"],
        vec!["--slice-us", "x"],
        vec!["--stats", "-1"],
        vec!["--stats", "nan"],
        vec!["--virt-llc=8-2"],
        vec!["--virt-llc=0-2"],
        vec!["--max-tasks", "0"],
        vec!["--exit-dump-len", "4294967295"],
        vec!["--stats", "1", "--monitor", "1"],
        vec!["--no-such-flag"],
        vec!["no-such-command"],
    ] {
        let args = ["scx_ballast"].into_iter().chain(bad.iter().copied());
        assert!(Cli::try_parse_from(args).is_err(), "{bad:?}");
    }
}

/// Flags that take something else than a number, and refuse one.
const OTHERS: &[&str] = &["--workload", "--machine", "--sweep"];

/// Least and most of each range.
type Bounds = Vec<(String, String)>;

/// By flag of the program's command that `path` names: its help, and the ranges in it. Found by what is refused, not
/// by what is shown.
fn ranged_flags(path: &[&str]) -> Vec<(String, String, Bounds)> {
    let mut command = Cli::command();
    for name in path {
        command = command.find_subcommand(name).expect("a command").clone();
    }
    let takes_value = |arg: &&clap::Arg| arg.get_action().takes_values();
    let mut ranged = Vec::new();
    for arg in command.get_arguments().filter(takes_value) {
        let Some(flag) = arg.get_long().map(|long| format!("--{long}")) else {
            continue;
        };
        if OTHERS.contains(&&*flag) {
            continue;
        }
        // A number that no range has; files and the like take it as a name.
        let Some(said) = refusal(path, &flag, "99999999999999999999") else {
            continue;
        };
        // Choices by name, and a pair of numbers, are no ranges.
        if said.contains("possible values") || said.contains("expected MIN-MAX") {
            continue;
        }
        let help = command.clone().render_long_help().to_string();
        let at = help
            .find(&format!(" {flag} "))
            .expect("a flag is in the help");
        let entry = &help[at..];
        let end = entry[1..]
            .find("\n      --")
            .map_or(entry.len(), |end| end + 1);
        let entry = entry[..end]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let shown = entry.split("[possible values: ").nth(1);
        let shown = shown.and_then(|shown| shown.split(']').next());
        let shown = shown.unwrap_or_else(|| panic!("no range in: {entry}"));
        let ranges = shown.split(", ").filter_map(|part| part.split_once(".."));
        let bounds: Bounds = ranges.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
        assert!(!bounds.is_empty(), "no range in: {entry}");
        ranged.push((flag, entry, bounds));
    }
    ranged
}

fn refusal(path: &[&str], flag: &str, value: &str) -> Option<String> {
    let words = ["scx_ballast"].iter().chain(path);
    let needed: &[&str] = match path {
        ["simulate"] => &["--workload=mpi:1"],
        _ => &[],
    };
    let words = words.chain(needed).map(|word| (*word).to_owned());
    Cli::try_parse_from(words.chain([format!("{flag}={value}")]))
        .err()
        .map(|error| error.to_string())
}

#[test]
fn help_shows_the_range_that_is_checked() {
    shows_its_ranges(
        &[],
        &[
            "--look-budget-us",
            "--migrate-rate",
            "--max-tasks",
            "--balance-interval-ms",
            "--slice-us",
            "--slice-min-us",
            "--pull-delay-us",
            "--sync-us",
            "--newborn-ms",
            "--newborn-work-us",
            "--imbalance-min",
            "--imb-numa-nr",
            "--exit-dump-len",
            "--stats",
            "--monitor",
        ],
    );
    shows_its_ranges(
        &["simulate"],
        &[
            "--runs",
            "--seed",
            "--limit-s",
            "--migrate-rate",
            "--page-scan",
            "--slice-us",
        ],
    );
}

/// The help of a command tells the ranges of these flags, and of all others that have one.
fn shows_its_ranges(path: &[&str], known: &[&str]) {
    let flags = ranged_flags(path);
    let names: Vec<&str> = flags.iter().map(|(flag, ..)| flag.as_str()).collect();
    for known in known {
        assert!(names.contains(known), "{known} is not among {names:?}");
    }
    let beyond = |bound: &str, by: f64| {
        let number = bound.trim_end_matches('%');
        let unit = &bound[number.len()..];
        format!("{}{unit}", number.parse::<f64>().unwrap() + by)
    };
    for (flag, entry, ranges) in flags {
        for (least, most) in ranges {
            assert_eq!(refusal(path, &flag, &least), None, "{entry}");
            assert_eq!(refusal(path, &flag, &most), None, "{entry}");
            let step = if least.contains('.') { 0.0005 } else { 1.0 };
            assert!(
                refusal(path, &flag, &beyond(&most, step)).is_some(),
                "{entry}"
            );
            assert!(
                refusal(path, &flag, &beyond(&least, -step)).is_some(),
                "{entry}"
            );
        }
    }
}
