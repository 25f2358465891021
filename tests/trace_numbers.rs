// SPDX-License-Identifier: GPL-2.0-only
//! Whatever number stands in a trace, reading it, replaying it and making a workload of it end without a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use scx_ballast::machine::describe::Source as Description;
use scx_ballast::policy::record::{Record, Replay};
use scx_ballast::sim::hardware::{Hardware, Params};
use scx_ballast::sim::source::trace;
use scx_ballast::trace_file::read_from;
use serde_json::Value;

const MACHINE: &str = "2 nodes x 4 cpus";

/// What is put in the place of each number.
const NUMBERS: [u64; 9] = [
    0,
    1,
    64,
    u8::MAX as u64,
    u16::MAX as u64,
    i32::MAX as u64,
    u32::MAX as u64,
    i64::MAX as u64,
    u64::MAX,
];

/// The first two lines of each kind of a simulated run's trace.
fn recorded(flags: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    command.args(["simulate", "--machine", MACHINE, "--trace", "-"]);
    let output = command.args(flags).output().expect("the command starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let (mut forks, mut ticks, mut steps, mut exits) = (0, 0, 0, 0);
    let few = |line: &&str| {
        let count = match line {
            line if line.contains(r#""kind":"fork""#) => &mut forks,
            line if line.contains(r#""steps":[{"#) => &mut steps,
            line if line.contains(r#""kind":"tick""#) => &mut ticks,
            line if line.contains(r#""kind":"exit""#) => &mut exits,
            _ => return true,
        };
        *count += 1;
        *count <= 2
    };
    let lines: Vec<String> = text.lines().filter(few).map(str::to_owned).collect();
    assert!(forks > 0 && ticks > 0 && exits > 0, "{text}");
    lines
}

/// Pointers to all numbers of a value.
fn numbers(value: &Value, at: &str, all: &mut Vec<String>) {
    match value {
        Value::Number(_) => all.push(at.to_owned()),
        Value::Array(values) => {
            for (i, value) in values.iter().enumerate() {
                numbers(value, &format!("{at}/{i}"), all);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                numbers(value, &format!("{at}/{name}"), all);
            }
        }
        _ => {}
    }
}

/// As `replay` and `simulate --workload trace:` do. Whether it was read to its end.
fn take(text: &str, hw: &Hardware) -> bool {
    let mut replay = Replay::default();
    let mut records: Vec<Record> = Vec::new();
    let read = read_from("trace", text.as_bytes(), |_, record| {
        records.push(record.clone());
        // Another decision is none of this test's concern.
        let _ = replay.check(record);
        Ok(())
    });
    let _ = trace::plan(records, hw);
    read.is_ok()
}

#[test]
fn no_number_in_a_trace_makes_it_panic() {
    let source: Description = MACHINE.parse().expect("a machine");
    let hw = Hardware::new(&source.machine(None).expect("a machine"), Params::default());
    let (mut bad, mut tried, mut refused) = (Vec::new(), 0, 0);
    for flags in [
        &[
            "--workload",
            "fork-burst:6,spin_ms=400",
            "--newborn-ms",
            "0",
        ][..],
        &["--workload", "fork-burst:20,spin_ms=400"],
        &[
            "--workload",
            "numa01",
            "--locality",
            "exact",
            "--migrate-rate",
            "64",
        ],
    ] {
        let lines = recorded(flags);
        assert!(take(&lines.join("\n"), &hw), "{lines:?}");
        for (line, text) in lines.iter().enumerate() {
            let value: Value = serde_json::from_str(text).expect("JSON");
            let mut all = Vec::new();
            numbers(&value, "", &mut all);
            for (place, number) in all.iter().flat_map(|at| NUMBERS.map(|number| (at, number))) {
                let mut changed = value.clone();
                *changed.pointer_mut(place).expect("it is there") = number.into();
                let mut lines = lines.clone();
                lines[line] = changed.to_string();
                let text = lines.join("\n");
                tried += 1;
                match catch_unwind(AssertUnwindSafe(|| take(&text, &hw))) {
                    Ok(true) => {}
                    Ok(false) => refused += 1,
                    Err(_) => bad.push(format!("line {}: {place} = {number}", line + 1)),
                }
            }
        }
    }
    assert!(bad.is_empty(), "of {tried}: {}: {bad:#?}", bad.len());
    // Both what is possible and what is not was among them.
    assert!(refused > 100 && refused < tried, "{refused} of {tried}");
}
