// SPDX-License-Identifier: GPL-2.0-only
//! Suite files: one that is wrong is refused with its line and what was expected, and the one in the
//! documentation is right.

#[path = "fixtures/suites.rs"]
mod suites;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use scx_ballast::compare::suite::{Filter, Suite, SuiteError, VALUES, extract};
use suites::{assert_filled, command, host, names, programs};

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
        (with("9", "604801"), "x.toml:18: expected a week at most"),
        (
            with("\"tool\"\n", "\" \\n\"\n"),
            "x.toml:16: a command that runs nothing",
        ),
        (
            and("primary = [\"t\", \"t\"]"),
            "x.toml:20: the same metric twice",
        ),
        (
            and("[needs.w]\nprogram = \" \"\nget = \"here\""),
            "x.toml:20: expected either program or file, and get",
        ),
        (
            and("[needs.w]\nfile = \"/w\"\nget = \"here\\nor there\""),
            "x.toml:20: expected one line, without control characters",
        ),
        (
            and("[metrics.w]\nunit = \"\\u001b[31m\"\nbetter = \"lower\"\npattern = '(a)'"),
            "x.toml:20: expected one line, without control characters",
        ),
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
    assert_eq!(with("9", "604800"), "it is a suite");
    let regex = and("[metrics.w]\nunit = \"s\"\nbetter = \"lower\"\npattern = '(a'");
    assert!(
        regex.starts_with("x.toml:23: not a regular expression: "),
        "{regex}"
    );
    let toml = error("[[benchmark]\n");
    assert!(toml.starts_with("x.toml:14: "), "{toml}");
}

#[test]
fn values_of_a_scale_follow_the_machine() {
    let commands_on = |machine: &str, scale: &str| -> Vec<String> {
        let text = format!(
            "name = \"x\"\ndescription = \"y\"\n[metrics.t]\nunit = \"s\"\nbetter = \"lower\"\n\
             pattern = '(.)'\n[[benchmark]]\nname = \"b\"\ncommand = \"echo {{n}}\"\ntimeout_s = 1\n\
             metrics = [\"t\"]\nscale = {{ name = \"n\", {scale} }}\n"
        );
        let suite = Suite::parse("x", &text).unwrap_or_else(|error| panic!("{error}"));
        let resolved = suite.resolve(&host(machine), &Filter::default());
        let skipped = resolved
            .skipped
            .into_iter()
            .map(|s| format!("{}: {}", s.name, s.reason));
        resolved
            .benchmarks
            .into_iter()
            .map(|b| b.command)
            .chain(skipped)
            .collect()
    };
    let doubling = "from = 3, to = \"2*cpus\"";
    assert_eq!(
        commands_on("2 nodes x 4 cpus", doubling),
        ["echo 3", "echo 6", "echo 12"]
    );
    assert_eq!(
        commands_on("1 node x 1 cpu", doubling),
        ["b: its scale has no value on this machine"]
    );
    let list = "values = [\"cpus/4\", 4, \"cpus\", 1]";
    assert_eq!(
        commands_on("2 nodes x 8 cpus", list),
        ["echo 1", "echo 4", "echo 16"]
    );
    assert_eq!(
        commands_on("1 node x 2 cpus", list),
        ["echo 1", "echo 2", "echo 4"]
    );
    let negative = "values = [\"cpus - 4\"]";
    assert_eq!(
        commands_on("1 node x 2 cpus", negative),
        ["b: 2 - 4 gives no number that can be used (negative)"]
    );
    assert_eq!(
        commands_on("1 node x 2 cpus", "words = [\"z\", \"a\"]"),
        ["echo z", "echo a"]
    );
}

#[test]
fn what_is_said_of_the_whole_file_is_checked() {
    let suite = |description: &str, needs: &str| {
        let text = format!(
            "name = \"x\"\ndescription = {description}\n[metrics.t]\nunit = \"s\"\nbetter = \"lower\"\n\
             pattern = '(.)'\n[[benchmark]]\nname = \"b\"\ncommand = \"true\"\ntimeout_s = 1\n\
             metrics = [\"t\"]\nneeds = {needs}\n"
        );
        Suite::parse("x", &text).map_err(|error| error.to_string())
    };
    assert!(suite("\"one line\"", "[]").is_ok());
    for two in [
        "\"two\\nlines\"",
        "\"\"\"two\nlines\"\"\"",
        "\"two\\rlines\"",
    ] {
        let error = suite(two, "[]").expect_err("two lines");
        assert_eq!(error, "x:2: expected one line, without control characters");
    }
    let error = suite("\"y\"", "[\"nope\"]").expect_err("no needs");
    assert!(
        error.ends_with(": nope is no need of this suite, which has none"),
        "{error}"
    );
}

#[test]
fn files_that_are_no_suites_are_not_read_to_their_end() {
    let endless = Suite::read(Path::new("/dev/zero"))
        .expect_err("no end")
        .to_string();
    assert_eq!(
        endless,
        "the suite /dev/zero is larger than 1048576 bytes; is it one?"
    );
}

proptest! {
    /// A built-in suite with a piece replaced: whatever it has become, nothing panics.
    #[test]
    fn damaged_suites_are_refused_or_resolve(
        at in 0..2400_usize,
        length in 0..40_usize,
        piece in r#"[a-z0-9{}()+*/=",.'\[\]\n é-]{0,12}"#,
    ) {
        let text = include_str!("../src/compare/suite/builtin/nas.toml");
        let damaged: String = text.chars().take(at).chain(piece.chars())
            .chain(text.chars().skip(at + length)).collect();
        if let Ok(suite) = Suite::parse("damaged", &damaged) {
            suite.resolve(&host("2 nodes x 4 cpus"), &Filter::default());
        }
    }
}

#[test]
fn suites_that_are_not_there_are_told() {
    let unknown = Suite::builtin("hackbnch")
        .expect_err("no such suite")
        .to_string();
    assert_eq!(
        unknown,
        "there is no built-in suite \"hackbnch\"; there are quick, hackbench, schbench, tbench, stream, autonuma, locality, nas, sysbench, stress-ng, perf-sched"
    );
    let missing = Suite::read(Path::new("/nonexistent.toml")).expect_err("no such file");
    assert!(matches!(missing, SuiteError::Read { .. }));
    assert!(
        missing
            .to_string()
            .starts_with("cannot read the suite /nonexistent.toml: No such")
    );
    let told = format!("{:#}", anyhow::Error::new(missing));
    assert_eq!(told.matches("No such").count(), 1, "{told}");
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
