// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast simulate`, as it is called.

use std::process::{Command, Output};

fn ballast(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    command.args(args).output().expect("the command starts")
}

fn simulate(args: &[&str]) -> String {
    let output = ballast(&[&["simulate"], args].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

const PILE_UP: &[&str] = &[
    "--machine",
    "2 nodes x 8 cpus",
    "--workload",
    "fork-burst:6,spin_ms=400",
    "--newborn-ms",
    "0",
    "--runs",
    "3",
];

/// All of it, to the digit: the model is deterministic. Who changes the model changes these numbers, and
/// should know why.
#[test]
fn what_it_prints() {
    let expected = include_str!("fixtures/simulate.txt");
    assert_eq!(simulate(PILE_UP), expected);
}

#[test]
fn json_has_every_run() {
    let text = simulate(&[PILE_UP, &["--format", "json", "--seed", "40"]].concat());
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let runs = json["runs"].as_array().expect("runs");
    let seeds: Vec<_> = runs.iter().map(|run| run["seed"].as_u64()).collect();
    assert_eq!(seeds, [Some(40), Some(41), Some(42)]);
    assert_eq!(json["workload"], "fork-burst:6,spin_ms=400");
    assert_eq!(json["setup"]["limits"]["set"], "ballast");
    let run_s = |run: &serde_json::Value| run["run_ns"].as_u64().map(|ns| ns as f64 / 1e9);
    let least = runs.iter().filter_map(run_s).fold(f64::INFINITY, f64::min);
    assert_eq!(json["summary"]["run_s"]["min"].as_f64(), Some(least));
}

#[test]
fn its_trace_replays() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("trace");
    let file = file.to_str().expect("a name in UTF-8");
    simulate(&[PILE_UP, &["--trace", file]].concat());
    let output = ballast(&["replay", file]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.contains("6 fork placements") && text.ends_with(" 0 mismatches\n"),
        "{text}"
    );
}

/// Under the rules of 5.18 fork keeps as many tasks together as the limit says, whatever their number.
const SWEEP: &[&str] = &[
    "--machine",
    "2 nodes x 16 cpus",
    "--workload",
    "mpi:8,iterations=20",
    "--rules",
    "v5.18",
    "--sweep",
    "imb-numa-nr=1..16..3",
    "--runs",
    "3",
];

#[test]
fn a_sweep_finds_the_best_and_says_how_flat_it_is() {
    let text = simulate(&[SWEEP, &["--format", "json", "--seed", "5"]].concat());
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let points = json["points"].as_array().expect("points");
    let values: Vec<_> = points.iter().map(|point| point["value"].as_str()).collect();
    let wanted = ["1", "4", "7", "10", "13", "16"];
    assert_eq!(values, wanted.map(Some));
    // Every point is what a call of its own prints.
    for point in points {
        let value = point["value"].as_str().expect("a value");
        let alone = simulate(
            &[
                &SWEEP[..6],
                &[
                    "--imb-numa-nr",
                    value,
                    "--runs",
                    "3",
                    "--seed",
                    "5",
                    "--format",
                    "json",
                ],
            ]
            .concat(),
        );
        let alone: serde_json::Value = serde_json::from_str(&alone).expect("JSON");
        assert_eq!(point["run_s"], alone["summary"]["run_s"], "{value}");
        assert_eq!(point["moves"], alone["summary"]["moves"], "{value}");
    }
    let mean = |value: &str| {
        let point = points.iter().find(|point| point["value"] == value);
        point.and_then(|point| point["run_s"]["mean"].as_f64())
    };
    let good = json["as_good"].as_array().expect("values");
    assert!(good.contains(&json["best"]), "{text}");
    let good: Vec<_> = good.iter().filter_map(|value| value.as_str()).collect();
    assert_eq!(good, ["1", "4"], "{text}");
    // Eight ranks pile up where seven are tolerated; a limit beyond their number is none.
    assert!(mean("7") > mean("4"), "{text}");
    assert_eq!(mean("13"), mean("16"));
    // The set's own limit is a quarter of the node's CPUs.
    assert_eq!(json["unswept"], "4");

    let text = simulate(SWEEP);
    assert_eq!(text, simulate(SWEEP));
    assert!(
        text.contains(" of its runs: 2 of 6 values, 1 to 4\n"),
        "{text}"
    );
    assert!(
        text.contains("\nwithout --sweep the flags are as with 4: "),
        "{text}"
    );
}

/// The flags' own value is told also where it is not swept, and short runs have digits enough to differ.
#[test]
fn a_sweep_tells_what_it_leaves_out() {
    let sweep = |range: &'static str| {
        let words = [
            "--machine",
            "2 nodes x 8 cpus",
            "--workload",
            "tbench:8,requests=20",
            "--sweep",
            range,
        ];
        simulate(&words)
    };
    let inside = sweep("slice-us=1000..5000..2000");
    assert!(inside.contains("\nwithout --sweep the flags are as with 5000: "));
    let outside = sweep("slice-us=1000..3000..1000");
    let last = outside.lines().next_back().unwrap_or_default();
    assert!(
        last.starts_with("without --sweep no value is as the flags are: 0.00")
            && last.contains(" than the best"),
        "{outside}"
    );
    let row = outside.lines().find(|line| line.starts_with("      1000 "));
    let least = row.and_then(|row| row.split_whitespace().nth(2));
    // A run of less than a millisecond, to four digits.
    let decimals = least
        .and_then(|least| least.split_once('.'))
        .map(|least| least.1.len());
    assert_eq!(decimals, Some(7), "{outside}");
}

#[test]
fn occupancy_is_drawn() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("plot.svg");
    let name = file.to_str().expect("a name in UTF-8");
    let text = simulate(&[PILE_UP, &["--svg", name]].concat());
    let svg = std::fs::read_to_string(&file).expect("a picture");
    assert!(svg.starts_with("<svg xmlns="), "{svg}");
    let title = text.lines().next().unwrap_or_default();
    assert!(svg.contains(&format!(">{title}</text>")), "{title}: {svg}");
}

/// `-` is standard output, which then has the file and nothing else; and standard input.
#[test]
fn dashes_are_standard_input_and_output() {
    let pile_up = &PILE_UP[..6];
    let svg = simulate(&[pile_up, &["--svg", "-"]].concat());
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    let trace = simulate(&[pile_up, &["--trace", "-"]].concat());
    let records = trace.lines().map(serde_json::from_str::<serde_json::Value>);
    let records: Vec<_> = records.map(|record| record.expect("JSON")).collect();
    assert_eq!(records[0]["kind"], "header");
    assert!(records.len() > 6, "{trace}");

    // With the mark that some editors begin a file with.
    let text = "\u{feff}start p\nprogram p\ncompute 1ms\nend\n";
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_scx_ballast"))
        .args(["simulate", "--machine", "2x4", "--workload", "file:-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut input, text.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.starts_with("file:-; nodes 2"),
        "{text}"
    );

    for (flags, why) in [
        (
            &["--workload", "mpi:2", "--svg", "-", "--trace", "-"][..],
            "--trace - and --svg - all go to standard output",
        ),
        (
            &["--workload", "mpi:2", "--svg", "-", "--format", "json"],
            "--svg - and --format json all go to standard output",
        ),
        (
            &["--workload", "file:-", "--machine", "-"],
            "--machine - and --workload file:- both read standard input",
        ),
        (
            &["--workload", "trace:-", "--machine", "-"],
            "--machine - and --workload trace:- both read standard input",
        ),
    ] {
        let output = ballast(&[&["simulate"], flags].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(why), "{error}");
    }
}

/// Status 2 and a sentence that says what would be right; 1 for what goes wrong later.
#[test]
fn what_makes_no_sense_is_refused() {
    for (args, status, why) in [
        (&["simulate"][..], 2, "--workload"),
        (&["simulate", "--workload", "mpi"], 2, "expected mpi:N"),
        (
            &["simulate", "--workload", "mpi:4,cpus=3"],
            2,
            "mpi has no 'cpus', but sleep_ms",
        ),
        (
            &["simulate", "--workload", "mpi:4", "--runs", "0"],
            2,
            "--runs",
        ),
        (
            &["simulate", "--workload", "mpi:4", "--sweep", "rules=1..3"],
            2,
            "'rules' is no flag that can be swept; those are imbalance-min, ",
        ),
        (
            &[
                "simulate",
                "--workload",
                "mpi:4",
                "--sweep",
                "slice-us=1..200..50",
            ],
            2,
            "--sweep slice-us=1..200..50: invalid value '1' for '--slice-us <USEC>'",
        ),
        (
            &[
                "simulate",
                "--workload",
                "mpi:4,iterations=1",
                "--svg",
                "/no/such/file",
            ],
            1,
            "cannot write /no/such/file",
        ),
        (
            &["simulate", "--workload", "mpi:4", "--migrate-rate", "9"],
            2,
            "--migrate-rate cannot be had without --locality",
        ),
        (
            &[
                "simulate",
                "--workload",
                "mpi:4",
                "--migrate-rate",
                "9",
                "--locality",
                "exact",
                "--without",
                "r8",
            ],
            2,
            "--migrate-rate cannot be had with --without r8",
        ),
        // A run that would take days; the file is looked at first.
        (
            &[
                "simulate",
                "--workload",
                "mpi:16,iterations=1000000",
                "--svg",
                "/no/such/file",
            ],
            1,
            "cannot write /no/such/file",
        ),
        (
            &["simulate", "--workload", "mpi:4", "--limit-s", "1"],
            1,
            "Error: mpi:4: 5 tasks are not through after 1 simulated second, the limit that --limit-s sets",
        ),
        (
            &[
                "simulate",
                "--workload",
                "mpi:4,iterations=1",
                "--trace",
                "/no/such/file",
            ],
            1,
            "cannot write /no/such/file",
        ),
    ] {
        let output = ballast(&[args, &["--machine", "2 nodes x 4 cpus"][..]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
        assert!(text.contains(why), "{text}");
    }
}

/// Neither over what is read nor over what is written besides, however it is spelled.
#[test]
fn no_file_is_written_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| {
        let path = dir.path().join(name);
        path.to_str().expect("a name in UTF-8").to_owned()
    };
    let workload = "start p\nprogram p\ncompute 1ms\nend\n";
    let machine = "# CPU,Core,Socket,Node\n0,0,0,0\n1,1,0,0\n2,2,1,1\n3,3,1,1\n";
    std::fs::write(path("workload"), workload).expect("a file");
    std::fs::write(path("machine"), machine).expect("a file");
    std::fs::hard_link(path("machine"), path("hard")).expect("a link");
    std::fs::create_dir(path("folder")).expect("a folder");
    std::os::unix::fs::symlink("new", path("soft")).expect("a link");
    let (file, of_trace) = (path("workload"), format!("trace:{}", path("workload")));
    let (of_file, other) = (format!("file:{file}"), path("folder/../new"));
    let inputs = ["--machine", &path("machine"), "--workload", &of_file];
    let trees = ["--machine", &path("machine"), "--workload", &of_trace];
    for (inputs, outputs) in [
        (&inputs, &["--svg", &file][..]),
        (&inputs, &["--trace", &file]),
        (&trees, &["--trace", &file]),
        (&inputs, &["--trace", &path("machine")]),
        (&inputs, &["--svg", &path("folder/../machine")]),
        (&inputs, &["--svg", &path("hard")]),
        (&inputs, &["--svg", &path("new"), "--trace", &path("new")]),
        (&inputs, &["--svg", &path("new"), "--trace", &other]),
        (&inputs, &["--svg", &path("soft"), "--trace", &path("new")]),
        (&inputs, &["--svg", "Cargo.new", "--trace", "./Cargo.new"]),
    ] {
        let output = ballast(&[&["simulate"], &inputs[..], outputs].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{outputs:?}: {error}");
        assert!(error.contains("and would be overwritten"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), workload);
    let kept = std::fs::read_to_string(path("machine")).expect("a file");
    assert_eq!(kept, machine);
    // Other files with the same name are others.
    let (one, two) = (path("new"), path("folder/new"));
    let outputs = ["--svg", &one, "--trace", &two];
    simulate(&[&inputs[..], &outputs].concat());
    assert!(
        [one, two]
            .iter()
            .all(|file| std::fs::metadata(file).is_ok())
    );
}

/// Standard input that a file is read from, and standard output that goes to one, where the table goes anyway.
#[test]
fn redirected_files_are_not_written_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let (input, output) = (dir.path().join("input"), dir.path().join("output"));
    let text = "start p\nprogram p\ncompute 1ms\nend\n";
    std::fs::write(&input, text).expect("a file");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
        command.args(["simulate", "--machine", "2x8"]).args(args);
        command.current_dir(dir.path());
        command.stdin(std::fs::File::open(&input).expect("a file"));
        command.stdout(std::fs::File::create(&output).expect("a file"));
        command.output().expect("the command starts")
    };
    let from_input = ["--workload", "file:-", "--trace", "input"];
    let burst = ["--workload", "fork-burst:3", "--trace", "output"];
    let twice = [
        "--workload",
        "fork-burst:3",
        "--trace",
        "-",
        "--svg",
        "output",
    ];
    let by_device = ["--workload", "fork-burst:3", "--trace", "/dev/stdout"];
    for (args, other) in [
        (&from_input[..], "input is the same file as standard input"),
        (&burst, "output is the same file as standard output"),
        (&twice, "output is the same file as standard output"),
        (
            &by_device,
            "/dev/stdout is the same file as standard output",
        ),
    ] {
        let output = run(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(other), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&input).expect("a file"), text);
    // A pipe would have one in the other.
    let mixed = ballast(&[&["simulate", "--machine", "2x8"], &by_device[..]].concat());
    let error = String::from_utf8_lossy(&mixed.stderr);
    assert_eq!(mixed.status.code(), Some(2), "{error}");
    assert!(
        error.contains("same pipe as standard output") && mixed.stdout.is_empty(),
        "{error}"
    );
    // What is no file loses nothing.
    let nowhere = [
        "--workload",
        "fork-burst:3",
        "--trace",
        "/dev/null",
        "--svg",
        "/dev/null",
    ];
    assert!(run(&nowhere).status.success());
}
