// SPDX-License-Identifier: GPL-2.0-only
//! Numbers come out of what tools really print: kept outputs of all of them, and those that are
//! installed here, run with small parameters as the runner would run them.

#[path = "fixtures/suites.rs"]
mod suites;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use scx_ballast::compare::record::Metric;
use scx_ballast::compare::suite::{Suite, extract, placement};
use suites::{ALL_PROGRAMS, host, programs, resolve};

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

/// Suite, start of the benchmark's name, fixture, and what comes out of it.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, f64)],
);

#[test]
fn numbers_come_out_of_what_tools_print() {
    let cases: [Case; 18] = [
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
        (" -t 30 ", " -t 2 "),
        ("--time=10", "--time=1"),
        (" -l 50 ", " -l 2 "),
        (" -l 800 ", " -l 2 "),
        (" -l 1000 ", " -l 2 "),
        ("--loops 50000", "--loops 500"),
        ("--iterations 20", "--iterations 2"),
        ("--repeats 6", "--repeats 2"),
        ("--seconds 1.5", "--seconds 0.3"),
        ("--cpu-max-prime=25000", "--cpu-max-prime=1000"),
        // There may be no other node here.
        ("--start-on 1", "--start-on 0"),
        (
            "--seconds 40 --report-at 5,30",
            "--seconds 3 --report-at 1,2",
        ),
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
            let (output, left) = run(&command);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            let stdout = stdout
                .replace(" local_1s=", " local_5s=")
                .replace(" local_2s=", " local_30s=");
            if stderr.contains("port 7003 is taken") {
                eprintln!("{suite}: {} not run: {stderr}", benchmark.name);
                continue;
            }
            assert!(output.status.success(), "{command}: {stdout}{stderr}");
            assert_eq!(left, "", "{command} left something behind");
            let values = extract(&benchmark.metrics, &stdout, &stderr);
            let values = values.unwrap_or_else(|e| panic!("{command}: {e}\n{stdout}{stderr}"));
            assert_eq!(values.len(), benchmark.metrics.len(), "{command}");
            // What can be 0 decides nothing; perf prints milliseconds of what took less here.
            let positive = |m: &Metric| !m.primary || m.name == "time" || values[&m.name] > 0.0;
            assert!(
                benchmark.metrics.iter().all(positive),
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
}

/// Runs a command as a process group of its own; its output, and the processes left of the group.
fn run(command: &str) -> (Output, String) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).process_group(0);
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = shell.spawn().expect("sh");
    let group = child.id().to_string();
    let output = child.wait_with_output().expect("sh ends");
    let left = Command::new("pgrep")
        .args(["-r", "D,R,S,T", "-l", "-g", &group])
        .output();
    let left = left.map(|found| String::from_utf8_lossy(&found.stdout).into_owned());
    (output, left.unwrap_or_default())
}
