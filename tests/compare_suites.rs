// SPDX-License-Identifier: GPL-2.0-only
//! Suites: the built-in ones resolve on machines of all sizes, published shapes come out of the machines
//! that they were published for, and what cannot run is skipped with a reason.

#[path = "fixtures/suites.rs"]
mod suites;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use scx_ballast::compare::record::{Better, Mean};
use scx_ballast::compare::suite::{Filter, Host, Resolved, Suite};
use suites::{ALL_PROGRAMS, assert_filled, command, host, names, programs, resolve};

const MACHINES: [&str; 6] = [
    "1 node x 2 cpus",
    "2 nodes x 4 cpus",
    "zen3-nps1",
    "zen3-nps4",
    "power8-8n-256",
    "suse-2s-80",
];

fn primaries(resolved: &Resolved) -> usize {
    let metrics = resolved.benchmarks.iter().flat_map(|b| &b.metrics);
    metrics.filter(|metric| metric.primary).count()
}

#[test]
fn built_in_suites_resolve_on_machines_of_all_sizes() {
    let dir = programs(&ALL_PROGRAMS);
    for machine in MACHINES {
        let mut host = host(machine);
        host.path = vec![dir.path().into()];
        let mut seen = BTreeSet::new();
        for name in Suite::builtin_names() {
            let resolved = resolve(name, &host);
            // tbench's load is a file that this host need not have.
            let has_load = Path::new("/usr/share/dbench/client.txt").exists();
            let has_nodes = host.nodes > 1 || !["autonuma", "locality"].contains(&name);
            let runs = has_nodes && (name != "tbench" || has_load);
            assert_eq!(!resolved.benchmarks.is_empty(), runs, "{name} on {machine}");
            assert_eq!(primaries(&resolved) > 0, runs, "{name} on {machine}");
            assert!(primaries(&resolved) <= 5, "{name} on {machine}");
            for benchmark in &resolved.benchmarks {
                assert_eq!(benchmark.suite, name);
                assert!(
                    seen.insert(benchmark.name.clone()),
                    "{} twice",
                    benchmark.name
                );
                assert_filled(benchmark, machine);
            }
            for skipped in &resolved.skipped {
                assert!(!skipped.reason.contains('\n'), "{skipped:?}");
            }
        }
    }
}

#[test]
fn published_tables_come_out_of_their_machines() {
    let dir = programs(&ALL_PROGRAMS);
    let on = |machine: &str, suite: &str| {
        let mut host = host(machine);
        host.path = vec![dir.path().into()];
        resolve(suite, &host)
    };
    let hackbench = on("2 nodes x 24 cpus", "hackbench");
    let groups = [1, 4, 7, 12, 21, 30, 48, 79, 110, 141, 172, 192];
    let expected: Vec<String> = ["process", "threads"]
        .iter()
        .flat_map(|kind| groups.map(|groups| format!("hackbench-{kind}/{groups}")))
        .collect();
    assert_eq!(names(&hackbench.benchmarks), expected);
    assert_eq!(
        command(&hackbench, "hackbench-threads/48"),
        "ulimit -n 1984 && hackbench --pipe --threads -g 48 -s 100 -l 8000"
    );

    let numa = on("power8-8n-256", "autonuma");
    for (name, shape) in [
        ("numa01", "-p 2 -t 128 -G 0 -P 3072 -T 0 -l 50 "),
        ("numa02", "-p 1 -t 256 -G 0 -P 0 -T 32 -l 800 "),
        ("numa03", "-p 1 -t 256 -G 0 -P 3072 -T 0 -l 50 "),
        ("numa04", "-p 8 -t 32 -G 0 -P 3072 -T 0 -l 50 "),
        ("numa05", "-p 16 -t 16 -G 0 -P 3072 -T 0 -l 50 "),
        ("numa06", "-p 2 -t 32 -G 0 -P 3072 -T 0 -l 50 "),
        ("numa07", "-p 1 -t 32 -G 0 -P 0 -T 32 -l 800 "),
        ("numa08", "-p 1 -t 32 -G 0 -P 3072 -T 0 -l 50 "),
        ("numa09", "-p 8 -t 4 -G 0 -P 3072 -T 0 -l 50 "),
        ("numa10", "-p 16 -t 2 -G 0 -P 3072 -T 0 -l 50 "),
        (
            "numa01_THREAD_ALLOC",
            "-p 2 -t 128 -G 0 -P 0 -T 24 -l 1000 ",
        ),
    ] {
        let command = command(&numa, name);
        assert!(command.contains(shape), "{name}: {command}");
    }

    let nas = on("suse-2s-80", "nas");
    assert_eq!(names(&nas.benchmarks), ["mg.D/16", "mg.D/32"]);
    assert_eq!(command(&nas, "mg.D/16"), "mpiexec.hydra -n 16 mg.D.x");
    let schbench = on("zen3-nps2", "schbench");
    assert_eq!(
        command(&schbench, "schbench-full"),
        "schbench -m 4 -t 64 -w 5 -r 60 -i 60"
    );
    assert_eq!(schbench.benchmarks.len(), 11);
}

#[test]
fn classes_and_sizes_follow_memory() {
    let dir = programs(&ALL_PROGRAMS);
    let mut host = host("2 nodes x 4 cpus");
    host.path = vec![dir.path().into()];
    host.memory_mib = Some(8000);
    let nas = resolve("nas", &host);
    assert_eq!(names(&nas.benchmarks), ["mg.C/2", "mg.C/4"]);
    let reasons: Vec<&str> = nas.skipped.iter().map(|skipped| &*skipped.reason).collect();
    assert_eq!(reasons[0], "needs 40000 MiB of memory, here are 8000");
    let below = "for machines with fewer than 5000 MiB of memory, here are 8000";
    assert_eq!(reasons[2], below);
    assert!(command(&resolve("autonuma", &host), "numa01").contains(" -P 2000 "));

    host.memory_mib = None;
    let reasons = resolve("autonuma", &host).skipped;
    assert!(
        reasons
            .iter()
            .any(|s| s.reason == "the machine's memory_mib is not known")
    );
}

#[test]
fn what_is_missing_is_skipped_with_how_to_get_it() {
    let mut host = host("zen3-nps4");
    host.path = vec![PathBuf::from("/nonexistent")];
    let lines = |suite: &str, host: &Host| -> Vec<String> {
        let skipped = resolve(suite, host).skipped.into_iter();
        skipped
            .map(|s| format!("{}: {}", s.name, s.reason))
            .collect()
    };
    assert_eq!(
        lines("hackbench", &host),
        [
            "hackbench-process: hackbench is not installed: apt-get install rt-tests",
            "hackbench-threads: hackbench is not installed: apt-get install rt-tests",
        ]
    );
    assert_eq!(lines("quick", &host).len(), 2);
    let mg = "mg.D: mpiexec.hydra is not installed: apt-get install mpich; mg.D.x is not installed: source: ";
    assert!(lines("nas", &host)[0].starts_with(mg));
    assert_eq!(resolve("quick", &host).benchmarks.len(), 5);
    // They run what is built in.
    assert!(lines("locality", &host).is_empty());
    for suite in Suite::builtin_names().filter(|name| !["quick", "locality"].contains(name)) {
        assert!(resolve(suite, &host).benchmarks.is_empty(), "{suite}");
        assert!(!lines(suite, &host).is_empty(), "{suite}");
    }

    // A file of that name that cannot be run is no program.
    let dir = programs(&["hackbench"]);
    let file = dir.path().join("hackbench");
    host.path = vec![dir.path().into()];
    assert!(lines("hackbench", &host).is_empty());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("changed");
    assert_eq!(lines("hackbench", &host).len(), 2);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("changed");

    host.open_files = 1024;
    let skipped = lines("hackbench", &host);
    assert!(
        skipped
            .iter()
            .all(|line| line.starts_with("hackbench-threads/"))
    );
    assert!(skipped.contains(
        &"hackbench-threads/64: needs 2624 open files, here are 1024; run as root or raise ulimit -Hn"
            .to_owned()
    ));
    assert_eq!(
        command(&resolve("hackbench", &host), "hackbench-threads/21"),
        "ulimit -n 904 && hackbench --pipe --threads -g 21 -s 100 -l 97523"
    );

    host.nodes = 1;
    host.path = vec![programs(&[]).path().into()];
    assert!(lines("autonuma", &host)[0].starts_with("numa01: perf is not installed"));
}

#[test]
fn a_filter_picks_entries_and_values() {
    let dir = programs(&ALL_PROGRAMS);
    let mut host = host("zen3-nps1");
    host.path = vec![dir.path().into()];
    let suite = Suite::builtin("hackbench").expect("built in");
    let names = |patterns: &[&str]| -> Vec<String> {
        let resolved = suite.resolve(&host, &Filter::new(patterns.iter().copied()));
        resolved.benchmarks.into_iter().map(|b| b.name).collect()
    };
    assert_eq!(names(&["hackbench-process"]).len(), 12);
    assert_eq!(
        names(&["*/64"]),
        ["hackbench-process/64", "hackbench-threads/64"]
    );
    assert!(names(&["hackbench-process/65"]).is_empty());
    host.path.clear();
    let filter = Filter::new(["hackbench-process/65"]);
    assert!(suite.resolve(&host, &filter).skipped.is_empty());
}

#[test]
fn rates_have_harmonic_means_and_times_arithmetic_ones() {
    for name in Suite::builtin_names() {
        let dir = programs(&ALL_PROGRAMS);
        let mut host = host("zen3-nps1");
        host.path = vec![dir.path().into()];
        for metric in resolve(name, &host)
            .benchmarks
            .iter()
            .flat_map(|b| &b.metrics)
        {
            let expected = match (metric.better, &*metric.name) {
                (Better::Higher, "tolerated" | "local_5s" | "local_30s") | (Better::Lower, _) => {
                    Mean::Arithmetic
                }
                (Better::Higher, _) => Mean::Harmonic,
            };
            assert_eq!(metric.mean, expected, "{name} {}", metric.name);
        }
    }
}

/// Memory of a case is a part of the machine's, and of a node's where it begins on one.
#[test]
fn cases_of_locality_fit_into_their_nodes() {
    for machine in MACHINES {
        let mut host = host(machine);
        for memory in [2048, 1 << 20] {
            host.memory_mib = Some(memory * host.nodes);
            for benchmark in resolve("locality", &host).benchmarks {
                let words: Vec<&str> = benchmark.command.split(' ').collect();
                let value = |flag: &str| -> u64 {
                    let at = words.iter().position(|word| *word == flag);
                    at.map_or(0, |at| words[at + 1].parse().unwrap())
                };
                let (processes, threads) = (value("--processes"), value("--threads"));
                let shared = match words.contains(&"--shared-between-processes") {
                    true => value("--shared-mib"),
                    false => processes * value("--shared-mib"),
                };
                let all = shared + processes * threads * value("--local-mib");
                let one_node = !["each", "interleave"]
                    .iter()
                    .any(|word| words.contains(word))
                    || words.contains(&"0");
                let room = if one_node {
                    memory
                } else {
                    memory * host.nodes
                };
                let least = 8 * host.cpus.max(2);
                assert!(
                    all <= (room / 2).max(least),
                    "{machine}: {}",
                    benchmark.command
                );
            }
        }
    }
}

/// The lab's own suites are read inside of machines only, where a mistake in them is found late.
#[test]
fn the_suites_of_the_lab_resolve_on_its_machines() {
    let dir = programs(&ALL_PROGRAMS);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/suites");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let suite = Suite::read(&path).unwrap();
        for machine in ["2 nodes x 4 cpus", "2 nodes x 4 llcs x 2 cores"] {
            let mut host = host(machine);
            host.path = vec![dir.path().into()];
            let resolved = suite.resolve(&host, &Filter::default());
            assert!(resolved.skipped.is_empty(), "{:?}", resolved.skipped);
            assert!((1..=5).contains(&primaries(&resolved)), "{path:?}");
            for benchmark in &resolved.benchmarks {
                assert_filled(benchmark, machine);
                names.insert(benchmark.name.clone());
            }
        }
    }
    // What the demonstration asks for.
    for wanted in [
        "fork-burst/8",
        "pipe",
        "hackbench/2",
        "pair-cross-node",
        "larger-than-a-node",
    ] {
        assert!(names.contains(wanted), "{wanted} is not among {names:?}");
    }
}
