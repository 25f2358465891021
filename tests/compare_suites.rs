// SPDX-License-Identifier: GPL-2.0-only
//! Suites: the built-in ones resolve on machines of all sizes, numbers come out of what tools really
//! print, and a file that is wrong is refused with its line and what was expected.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use scx_ballast::compare::record::{Benchmark, Better, Mean, Metric};
use scx_ballast::compare::suite::{Filter, Host, Resolved, Suite, SuiteError, VALUES};
use scx_ballast::compare::suite::{extract, placement};
use scx_ballast::machine::Machine;

const BALLAST: &str = env!("CARGO_BIN_EXE_scx_ballast");
const MACHINES: [&str; 6] = [
    "1 node x 2 cpus",
    "2 nodes x 4 cpus",
    "zen3-nps1",
    "zen3-nps4",
    "power8-8n-256",
    "suse-2s-80",
];

/// A machine with plenty of memory and limits, and with this host's programs.
fn host(machine: &str) -> Host {
    let machine = Machine::describe(machine, None).expect(machine);
    let mut host = Host::here(&machine).expect("this host has limits");
    host.memory_mib = Some(host.memory_mib.unwrap_or(256 << 10));
    host.open_files = 1 << 20;
    host.scx_ballast = BALLAST.into();
    host
}

/// A directory with an executable of each of these names.
fn programs(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for name in names {
        let file = dir.path().join(name);
        fs::write(&file, "#!/bin/sh\n").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("executable");
    }
    dir
}

const ALL_PROGRAMS: [&str; 12] = [
    "hackbench",
    "perf",
    "schbench",
    "tbench",
    "tbench_srv",
    "stream_c.exe",
    "mpiexec.hydra",
    "mg.B.x",
    "mg.C.x",
    "mg.D.x",
    "sysbench",
    "stress-ng",
];

fn resolve(suite: &str, host: &Host) -> Resolved {
    let suite = Suite::builtin(suite).expect(suite);
    suite.resolve(host, &Filter::default())
}

fn names(benchmarks: &[Benchmark]) -> Vec<&str> {
    benchmarks
        .iter()
        .map(|benchmark| &*benchmark.name)
        .collect()
}

fn command<'a>(resolved: &'a Resolved, name: &str) -> &'a str {
    let found = resolved.benchmarks.iter().find(|b| b.name == name);
    &found
        .unwrap_or_else(|| panic!("no {name}: {:?}", resolved.skipped))
        .command
}

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
            let runs = (name != "tbench" || has_load) && (name != "autonuma" || host.nodes > 1);
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

/// No value is left open, none is 0, and the shell understands the command.
fn assert_filled(benchmark: &Benchmark, machine: &str) {
    let Benchmark { name, command, .. } = benchmark;
    for value in VALUES
        .iter()
        .chain(&["groups", "clients", "threads}", "open_files"])
    {
        assert!(
            !command.contains(&format!("{{{value}")),
            "{machine}: {name}: {command}"
        );
    }
    for flag in [
        " -g 0",
        " -p 0",
        " -t 0",
        " -l 0",
        " -T 0 -l 800",
        "-P 0 -T 0",
        "=0 ",
    ] {
        assert!(!command.contains(flag), "{machine}: {name}: {command}");
    }
    let status = Command::new("/bin/sh").args(["-n", "-c", command]).status();
    assert!(
        status.expect("sh").success(),
        "{machine}: {name}: {command}"
    );
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
    assert_eq!(resolve("quick", &host).benchmarks.len(), 5);
    for suite in Suite::builtin_names().filter(|name| *name != "quick") {
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

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/compare")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The metrics of a benchmark, whether this host can run it or not.
fn metrics(suite: &str, entry: &str) -> Vec<Metric> {
    let dir = programs(&ALL_PROGRAMS);
    let mut host = host("zen3-nps1");
    host.path = vec![dir.path().into()];
    let resolved = resolve(suite, &host);
    let found = resolved
        .benchmarks
        .into_iter()
        .find(|b| b.name.starts_with(entry));
    found
        .unwrap_or_else(|| panic!("no {suite} {entry}"))
        .metrics
}

#[test]
fn numbers_come_out_of_what_tools_print() {
    let cases: [(&str, &str, &str, &[(&str, f64)]); 18] = [
        (
            "quick",
            "fork-burst",
            "work-fork-burst",
            &[("tolerated", 1.0), ("burst_time", 173.2)],
        ),
        ("quick", "pairs", "work-pairs", &[("round_trip", 4388.0)]),
        ("quick", "mpi", "work-mpi", &[("run_time", 81.3)]),
        ("quick", "hogs", "work-hogs", &[("unfairness", 0.7)]),
        (
            "quick",
            "wakeups",
            "work-wakeups",
            &[("wakeup_p50", 183.3), ("wakeup_p99", 83886.1)],
        ),
        (
            "quick",
            "hackbench-small",
            "hackbench-process",
            &[("time", 0.032)],
        ),
        (
            "quick",
            "pipe-small",
            "perf-sched-pipe",
            &[("per_op", 3.3006)],
        ),
        (
            "hackbench",
            "hackbench-process/",
            "hackbench-process",
            &[("time", 0.032)],
        ),
        (
            "hackbench",
            "hackbench-threads/",
            "hackbench-threads",
            &[("time", 0.033)],
        ),
        (
            "autonuma",
            "numa01",
            "perf-numa",
            &[("time", 0.228), ("speed", 2.946)],
        ),
        (
            "autonuma",
            "numa01",
            "perf-numa-quiet",
            &[("time", 0.243), ("speed", 2.763)],
        ),
        (
            "autonuma",
            "numa01",
            "perf-numa-converge",
            &[("time", 0.181), ("speed", 2.597)],
        ),
        (
            "autonuma",
            "numa01",
            "perf-numa-converge-quiet",
            &[("time", 0.212), ("speed", 3.165)],
        ),
        (
            "sysbench",
            "sysbench-cpu/",
            "sysbench-cpu",
            &[("events", 399.51), ("latency_p95", 13.46)],
        ),
        (
            "stress-ng",
            "stress-ng/",
            "stress-ng-context",
            &[("rate", 1441.7)],
        ),
        (
            "perf-sched",
            "messaging-process/",
            "perf-sched-messaging",
            &[("time", 0.098)],
        ),
        (
            "perf-sched",
            "messaging-threads/",
            "perf-sched-messaging-threads",
            &[("time", 0.085)],
        ),
        (
            "perf-sched",
            "pipe",
            "perf-sched-pipe",
            &[("per_op", 3.3006)],
        ),
    ];
    for (suite, entry, file, expected) in cases {
        assert_extracted(suite, entry, &format!("{file}.txt"), expected);
    }
}

#[test]
fn numbers_come_out_of_what_is_documented() {
    let schbench = [
        ("wakeup_p99", 182.0),
        ("request_p99", 15632.0),
        ("requests", 2019.67),
    ];
    for entry in ["schbench/", "schbench-full"] {
        assert_extracted("schbench", entry, "schbench.documented.txt", &schbench);
    }
    let stream = [
        ("copy", 41211.3),
        ("scale", 28110.9),
        ("add", 31876.4),
        ("triad", 31902.8),
    ];
    assert_extracted("stream", "stream/", "stream.documented.txt", &stream);
    let mg = [("time", 95.62), ("mops", 32563.47)];
    assert_extracted("nas", "mg.D", "nas-mg.documented.txt", &mg);
    let wrong = fixture("nas-mg.documented.txt")
        .replace("=               SUCCESSFUL", "=             UNSUCCESSFUL");
    let error = extract(&metrics("nas", "mg.D"), &wrong, "").expect_err("a wrong result");
    assert!(
        error.to_string().starts_with("metric time: nothing"),
        "{error}"
    );
}

#[test]
fn numbers_come_out_of_tbench() {
    if !Path::new("/usr/share/dbench/client.txt").exists() {
        eprintln!("tbench's load is not installed: its patterns were not tried");
        return;
    }
    let expected = [("throughput", 576.628), ("max_latency", 100.483)];
    assert_extracted("tbench", "tbench/", "tbench.txt", &expected);
}

fn assert_extracted(suite: &str, entry: &str, file: &str, expected: &[(&str, f64)]) {
    let metrics = metrics(suite, entry);
    let text = fixture(file);
    for (stdout, stderr) in [(&*text, ""), ("", &*text)] {
        let values = extract(&metrics, stdout, stderr);
        let values = values.unwrap_or_else(|error| panic!("{file}: {error}"));
        let expected = expected
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        assert_eq!(values, expected.collect(), "{suite} {entry} {file}");
    }
    let error = extract(&metrics, "no such thing", "").expect_err("nothing to find");
    assert!(
        error.to_string().contains("nothing in the output matches"),
        "{error}"
    );
}

#[test]
fn placements_come_out_of_workloads() {
    let host = host("2 nodes x 4 cpus");
    for (name, output, expected) in [
        (
            "fork-burst",
            "repeat 1: first 2 2 last 3 1 birth 4 0\nrepeat 2: first 1 3 last 2 2",
            vec![vec![2, 2], vec![1, 3]],
        ),
        (
            "mpi",
            "ranks: first 3 1 last 2 2 birth 4 0\nresult mpi first=3,1",
            vec![vec![3, 1]],
        ),
    ] {
        let quick = resolve("quick", &host);
        let benchmark = quick
            .benchmarks
            .into_iter()
            .find(|b| b.name == name)
            .expect(name);
        let pattern = benchmark.placement.expect("a pattern");
        assert_eq!(placement(&pattern, output), expected, "{name}");
    }
    assert_eq!(
        placement(
            r"^repeat \d+: first ([\d ]+) last",
            &fixture("work-fork-burst.txt")
        ),
        [[4], [4], [4]]
    );
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
                (Better::Higher, "tolerated") | (Better::Lower, _) => Mean::Arithmetic,
                (Better::Higher, _) => Mean::Harmonic,
            };
            assert_eq!(metric.mean, expected, "{name} {}", metric.name);
        }
    }
}

/// The suite `text` with, in front, what makes it one.
fn error(body: &str) -> String {
    let start = "name = \"x\"\ndescription = \"y\"\n\
        [needs.tool]\nprogram = \"tool\"\nget = \"make\"\n\
        [metrics.t]\nunit = \"s\"\nbetter = \"lower\"\npattern = '^t (.*)'\n\
        [metrics.u]\nunit = \"s\"\nbetter = \"lower\"\npattern = '^u (.*)'\n";
    // What follows begins on line 14.
    match Suite::parse("x.toml", &format!("{start}{body}")) {
        Ok(_) => "it is a suite".into(),
        Err(error) => error.to_string(),
    }
}

const GOOD: &str = "[[benchmark]]\nname = \"b\"\ncommand = \"tool\"\nneeds = [\"tool\"]\ntimeout_s = 9\nmetrics = [\"t\", \"u\"]\n";

#[test]
fn bad_suites_are_refused_with_line_and_expectation() {
    assert_eq!(error(GOOD), "it is a suite");
    let with = |from: &str, to: &str| error(&GOOD.replace(from, to));
    let and = |line: &str| error(&format!("{GOOD}{line}\n"));
    let cases = [
        (error(""), "x.toml:1: a suite without a benchmark"),
        (
            with("timeout_s", "timout_s"),
            "x.toml:18: unknown field `timout_s`, expected one of `name`, `command`, `needs`, `timeout_s`, `scale`, `least`, `below`, `metrics`, `primary`, `placement`",
        ),
        (
            with("timeout_s = 9\n", ""),
            "x.toml:14: missing field `timeout_s`",
        ),
        (
            with("9", "\"9\""),
            "x.toml:18: invalid type: string \"9\", expected u64",
        ),
        (with("9", "0"), "x.toml:18: expected a second or more"),
        (
            with("\"b\"", "\"a b\""),
            "x.toml:15: \"a b\": expected letters, digits, '.', '_' and '-'",
        ),
        (
            with("\"tool\"]", "\"tol\"]"),
            "x.toml:17: tol is no need of this suite, expected one of tool",
        ),
        (
            with("\"u\"", "\"v\""),
            "x.toml:19: v is no metric of this suite, expected one of t, u",
        ),
        (with("\"u\"", "\"t\""), "x.toml:19: the same metric twice"),
        (
            with("\"t\", \"u\"", ""),
            "x.toml:19: a benchmark without a metric",
        ),
        (
            with("\"tool\"\n", "\"tool {cpu}\"\n"),
            "x.toml:16: {cpu} is no value that is known here, expected one of cpus, cpus_per_node, cores, half, llcs, memory_mib, memory_per_node_mib, nodes, threads_per_core, scx_ballast",
        ),
        (
            with("\"tool\"\n", "\"tool {open_files}\"\n"),
            "x.toml:16: {open_files} is no value that is known here, expected one of cpus, cpus_per_node, cores, half, llcs, memory_mib, memory_per_node_mib, nodes, threads_per_core, scx_ballast",
        ),
        (
            with("\"tool\"\n", "\"tool {2 cpus}\"\n"),
            "x.toml:16: {2 cpus}: expected an operator or the end before \"cpus\" (for the shell's own braces write {{ and }})",
        ),
        (
            with("\"tool\"\n", "\"tool {cpus\"\n"),
            "x.toml:16: a { without a }: for the shell's own write {{",
        ),
        (
            and("primary = [\"w\"]"),
            "x.toml:20: w is no metric of this suite, expected one of t, u",
        ),
        (
            and("placement = 'first'"),
            "x.toml:20: first has no group (...) around the number",
        ),
        (
            and("least = { cpus = \"2*\" }"),
            "x.toml:20: \"2*\": expected a number or a name at the end",
        ),
        (
            and("least = { cpus = 1.5 }"),
            "x.toml:20: expected a whole number or an expression in quotes",
        ),
        (
            and("least = { cpus = \"groups\" }"),
            "x.toml:20: {groups} is no value that is known here, expected one of cpus, cpus_per_node, cores, half, llcs, memory_mib, memory_per_node_mib, nodes, threads_per_core, scx_ballast",
        ),
        (
            and("scale = { name = \"g\", from = 1 }"),
            "x.toml:20: expected one of values = [...], words = [...], and from = ... with to = ...",
        ),
        (
            and("scale = { name = \"cpus\", values = [1] }"),
            "x.toml:20: expected a name for the scale of letters, digits and _ that is not taken",
        ),
        (
            and("scale = { name = \"g\", words = [\"a\", \"a\"] }"),
            "x.toml:20: expected different words of letters and digits",
        ),
        (
            and(
                "scale = { name = \"g\", words = [\"a\"], primary_at = [\"b\"] }\nprimary = [\"t\"]",
            ),
            "x.toml:20: b is no word of the scale of this suite, expected one of a",
        ),
        (
            and("scale = { name = \"g\", values = [1] }\nprimary = [\"t\"]"),
            "x.toml:20: primary and scale.primary_at belong together: which metrics, and at which values",
        ),
        (
            and(
                "scale = { name = \"g\", values = [1, 2, 3], primary_at = [1, 2, 3] }\nprimary = [\"t\", \"u\"]",
            ),
            "x.toml:21: 6 primary metrics, a suite may have 5: with more, chance alone finds differences",
        ),
        (
            error(&format!("{GOOD}{GOOD}")),
            "x.toml:21: b stands for two benchmarks of this suite: give one another name",
        ),
        (
            and("[metrics.w]\nunit = \"s\"\nbetter = \"lower\"\npattern = 'no group'"),
            "x.toml:23: no group has no group (...) around the number",
        ),
        (
            and("[metrics.w]\nunit = \"s\"\nbetter = \"lower\"\npattern = '(a)'\nscale = 0.0"),
            "x.toml:24: expected a scale above 0",
        ),
        (
            and("[metrics.w]\nunit = \"s\"\nbetter = \"faster\"\npattern = '(a)'"),
            "x.toml:22: unknown variant `faster`, expected `lower` or `higher`",
        ),
        (
            and("[needs.w]\nget = \"here\""),
            "x.toml:20: expected either program or file, and get",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    let regex = and("[metrics.w]\nunit = \"s\"\nbetter = \"lower\"\npattern = '(a'");
    assert!(
        regex.starts_with("x.toml:23: not a regular expression: "),
        "{regex}"
    );
    let toml = error("[[benchmark]\n");
    assert!(toml.starts_with("x.toml:14: "), "{toml}");
}

#[test]
fn suites_that_are_not_there_are_told() {
    let unknown = Suite::builtin("hackbnch")
        .expect_err("no such suite")
        .to_string();
    assert_eq!(
        unknown,
        "there is no built-in suite \"hackbnch\"; there are quick, hackbench, schbench, tbench, stream, autonuma, nas, sysbench, stress-ng, perf-sched"
    );
    let missing = Suite::read(Path::new("/nonexistent.toml")).expect_err("no such file");
    assert!(matches!(missing, SuiteError::Read { .. }));
    assert!(
        missing
            .to_string()
            .starts_with("cannot read the suite /nonexistent.toml: No such")
    );
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("s.toml");
    fs::write(&file, [0xff, 0xfe]).expect("written");
    assert!(Suite::read(&file).is_err());
}

#[test]
fn the_suite_in_the_documentation_is_one() {
    let docs = include_str!("../docs/suites.md");
    let (_, rest) = docs.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("mine.toml");
    let here = dir.path().join("ycsb.sh");
    let bin = programs(&["mongod", "ycsb.sh"]);
    // What it needs is at other places here.
    let example = example.replace("/opt/ycsb/bin", &bin.path().to_string_lossy());
    let example = example.replace("/opt/jbb/jbb.jar", &here.to_string_lossy());
    fs::write(&here, "").expect("written");
    fs::write(&file, example).expect("written");
    let suite = Suite::read(&file).unwrap_or_else(|error| panic!("{error}"));
    let mut host = host("zen3-nps1");
    host.path = vec![bin.path().into()];
    let resolved = suite.resolve(&host, &Filter::default());
    assert_eq!(resolved.skipped, []);
    let expected =
        ["8", "16", "32", "64", "128", "256", "512"].map(|n| format!("ycsb-mongodb/{n}"));
    let all = names(&resolved.benchmarks);
    assert_eq!(all[..7], expected);
    assert_eq!(all[7..], ["jbb"]);
    for benchmark in &resolved.benchmarks {
        assert_filled(benchmark, "zen3-nps1");
    }
    assert!(command(&resolved, "jbb").ends_with("| awk '/score/ { print \"Score: \" $2 }'"));
    let output =
        "[OVERALL], Throughput(ops/sec), 1234.5\n[READ], 99thPercentileLatency(us), 1500\n";
    let values = extract(&resolved.benchmarks[0].metrics, output, "").expect("numbers");
    assert_eq!((values["throughput"], values["read_p99"]), (1234.5, 1.5));
    for value in VALUES.iter().chain(&["open_files", "scx_ballast"]) {
        assert!(
            docs.contains(&format!("`{value}`")),
            "{value} is not documented"
        );
    }
    for name in Suite::builtin_names() {
        assert!(
            docs.contains(&format!("| `{name}` |")),
            "{name} is not documented"
        );
    }
}

/// The smallest line of each tool, as resolved for a machine with one CPU, shortened; run for real.
#[test]
fn installed_tools_run_and_give_numbers() {
    let mut small = host("1 node x 2 cpus");
    small.nodes = 2;
    small.cpus = 2;
    small.memory_mib = Some(256);
    let shorter = [
        (" -l 100000", " -l 100"),
        (" -l 20000", " -l 100"),
        (" -l 2000 ", " -l 100 "),
        (" -l 16000", " -l 100"),
        (" -l 4000", " -l 100"),
        (" -l 500000", " -l 1000"),
        (" -t 20 ", " -t 1 "),
        (" -t 30 ", " -t 1 "),
        ("--time=10", "--time=1"),
        (" -l 50 ", " -l 2 "),
        (" -l 800 ", " -l 2 "),
        (" -l 1000 ", " -l 2 "),
        ("--loops 50000", "--loops 500"),
        ("--iterations 20", "--iterations 2"),
        ("--repeats 6", "--repeats 2"),
        ("--seconds 1.5", "--seconds 0.3"),
        ("--cpu-max-prime=25000", "--cpu-max-prime=1000"),
    ];
    for suite in Suite::builtin_names() {
        let resolved = resolve(suite, &small);
        for skipped in &resolved.skipped {
            eprintln!("{suite}: {} not run: {}", skipped.name, skipped.reason);
        }
        let mut entries = BTreeSet::new();
        for benchmark in &resolved.benchmarks {
            let entry = benchmark.name.split('/').next().map(str::to_owned);
            if suite != "stress-ng" && !entries.insert(entry) {
                continue;
            }
            let mut command = benchmark.command.clone();
            for (long, short) in shorter {
                command = command.replace(long, short);
            }
            let output = Command::new("/bin/sh")
                .args(["-c", &command])
                .output()
                .expect("sh");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "{command}: {stdout}{stderr}");
            let values = extract(&benchmark.metrics, &stdout, &stderr);
            let values = values.unwrap_or_else(|e| panic!("{command}: {e}\n{stdout}{stderr}"));
            assert_eq!(values.len(), benchmark.metrics.len(), "{command}");
            assert!(
                values.values().all(|value| *value >= 0.0),
                "{command}: {values:?}"
            );
            if let Some(pattern) = &benchmark.placement {
                assert!(
                    !placement(pattern, &stdout).is_empty(),
                    "{command}: {stdout}"
                );
            }
        }
    }
    assert!(
        Command::new("pgrep")
            .args(["-x", "tbench_srv"])
            .output()
            .is_ok_and(|o| o.stdout.is_empty()),
        "tbench_srv was left behind"
    );
}
