// SPDX-License-Identifier: GPL-2.0-only
//! The built-in workloads as a user runs them: the result line parses and is plausible, bad input is
//! an error and no panic, and nothing is left running.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[path = "fixtures/work.rs"]
mod fixture;

use fixture::{BALLAST, killed_alone, killed_member, number, numbers, result, work};

#[test]
fn fork_burst_counts_every_task() {
    for mode in ["processes", "threads"] {
        let values = result(&format!(
            "fork-burst --tasks 5 --sleep-ms 5 --spin-ms 10 --repeats 3 --gap-ms 0 --{mode}"
        ));
        assert_eq!(values["mode"], mode);
        assert_eq!(number(&values, "tasks"), 5.0);
        assert_eq!(number(&values, "repeats"), 3.0);
        for key in ["even", "last_even"] {
            assert!((0.0..=1.0).contains(&number(&values, key)), "{values:?}");
        }
        assert!(number(&values, "first_spread_median") <= 10.0);
        assert!(number(&values, "wall_ms_median") >= 15.0);
        if number(&values, "nodes") == 1.0 {
            assert_eq!(number(&values, "even"), 1.0);
            assert_eq!(number(&values, "migrations"), 0.0);
        }
    }
}

#[test]
fn fork_burst_prints_a_line_per_repeat() {
    let output = work("fork-burst --tasks 3 --sleep-ms 1 --spin-ms 1 --repeats 2 --gap-ms 0 -v");
    let text = String::from_utf8(output.stdout).expect("output is text");
    let starting = |start| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(starting("repeat "), 2, "{text}");
    assert_eq!(starting("task "), 6, "{text}");
    for task in text.lines().filter(|line| line.starts_with("task ")) {
        let (_, nodes) = task.split_once(" node ").expect("nodes");
        let words: Vec<&str> = nodes.split(' ').collect();
        let [
            "birth",
            birth,
            "first",
            first,
            "last",
            last,
            "changes",
            changes,
        ] = words[..]
        else {
            panic!("{task}");
        };
        for number in [changes, birth, first, last] {
            number.parse::<u32>().expect("a number");
        }
        assert!(changes != "0" || first == last, "{task}");
    }
    let repeat = text.lines().find(|line| line.starts_with("repeat 1: "));
    let repeat = repeat.expect("a line for the first repeat");
    let words: Vec<&str> = repeat.split(' ').skip(3).collect();
    let counts = words.split(|word| ["last", "birth"].contains(word));
    for counts in counts {
        let sum: u32 = counts.iter().map(|n| n.parse::<u32>().unwrap()).sum();
        assert_eq!(sum, 3, "{repeat}");
    }
}

#[test]
fn mpi_counts_every_rank() {
    let values = result("mpi --ranks 5 --sleep-ms 20 --iterations 6 --passes 3 --memory-mib 1");
    for (key, value) in [("ranks", 5.0), ("iterations", 6.0), ("memory_mib", 1.0)] {
        assert_eq!(number(&values, key), value, "{key}");
    }
    for key in ["birth", "first", "last"] {
        let counts = numbers(&values, key);
        assert_eq!(counts.len() as f64, number(&values, "nodes"));
        assert_eq!(counts.iter().sum::<f64>(), 5.0, "{values:?}");
    }
    let (median, max) = ("round_spread_median", "round_spread_max");
    assert!(number(&values, median) <= number(&values, max));
    let (run, wall) = (number(&values, "run_ms"), number(&values, "wall_ms"));
    assert!(run > 0.0 && wall >= run + 19.0, "{values:?}");
    assert!(number(&values, "moved_ranks") <= number(&values, "migrations"));
    if number(&values, "nodes") == 1.0 {
        assert_eq!(number(&values, max), 0.0);
        assert_eq!(number(&values, "migrations"), 0.0);
    }
}

#[test]
fn mpi_prints_ranks_and_rounds() {
    let output =
        work("mpi --ranks 3 --sleep-ms 0 --iterations 4 --passes 1 --memory-mib 1 --verbose");
    let text = String::from_utf8(output.stdout).expect("output is text");
    for (start, lines) in [("rank ", 3), ("round ", 4), ("ranks: ", 1), ("result ", 1)] {
        let found = text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(found, lines, "{text}");
    }
}

/// Ranks are what they are even when the program's file is no longer there, and on their own they
/// are an error.
#[test]
fn mpi_ranks_are_for_the_launcher() {
    let own = "mpi-rank --ranks 1 --rank 0 --board 0 --slots 1 --samples 2 --launcher";
    for launcher in ["1".to_owned(), std::process::id().to_string()] {
        let output = work(&format!("{own} {launcher}"));
        assert!(matches!(output.status.code(), Some(1..=255)));
        assert!(output.stdout.is_empty());
    }
    // A second name and not a copy: what was just written cannot always be executed at once.
    let place = Path::new(BALLAST).parent().expect("it is in a directory");
    let directory = tempfile::tempdir_in(place).expect("a directory");
    let name = directory.path().join("scx_ballast");
    std::fs::hard_link(BALLAST, &name).expect("it can have a second name");
    let launcher = Command::new(&name)
        .args("work mpi --ranks 2 --sleep-ms 300 --iterations 1 --memory-mib 1".split(' '))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    std::thread::sleep(Duration::from_millis(100));
    std::fs::remove_file(&name).expect("it can be removed");
    let output = launcher.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn pairs_of_every_kind_make_round_trips() {
    for mode in ["processes", "threads"] {
        for kind in ["pipe", "futex", "socket"] {
            let line = format!("pairs --loops 200 --count 2 --kind {kind} --{mode}");
            let values = result(&line);
            assert_eq!((&*values["kind"], &*values["mode"]), (kind, mode));
            assert_eq!(number(&values, "loops"), 200.0);
            let (ns, wall) = (number(&values, "ns_per_loop"), number(&values, "wall_ms"));
            assert!(ns > 0.0 && ns * 200.0 / 1e6 <= wall + 0.2, "{values:?}");
            assert!((0.0..=1.0).contains(&number(&values, "same_node")));
        }
    }
}

#[test]
fn pairs_can_share_a_cpu() {
    let cpu = first_cpu();
    let values = result(&format!("pairs --loops 100 --cpus {cpu},{cpu}"));
    assert_eq!(values["cpus"], format!("{cpu},{cpu}"));
    assert_eq!(number(&values, "same_node"), 1.0);
}

/// The first CPU that a process may use here: the workloads' default.
fn first_cpu() -> u32 {
    let values = result("hogs --nice 19 --seconds 0.01");
    number(&values, "cpus") as u32
}

#[test]
fn hogs_share_what_there_is() {
    let values = result("hogs --nice 10,15,19 --seconds 0.6");
    assert_eq!(values["nice"], "10,15,19");
    assert_eq!(numbers(&values, "expected"), [68.3, 22.4, 9.3]);
    for key in ["share", "expected"] {
        let shares = numbers(&values, key);
        assert_eq!(shares.len(), 3);
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 0.5);
    }
    let times = numbers(&values, "cpu_ms");
    // One CPU for 600 ms, and some slack for hogs that were late to see the end.
    assert!(times.iter().sum::<f64>() < 1000.0, "{values:?}");
    assert!(number(&values, "error") >= 0.0);
}

#[test]
fn wakeups_measure_lateness() {
    for flags in ["", "--pin --sleepers 3", "--hogs 0 --period-us 500"] {
        let values = result(&format!("wakeups --seconds 0.5 {flags}"));
        let late =
            ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"].map(|key| number(&values, key));
        assert!(late.is_sorted(), "{values:?}");
        let (samples, missed) = (number(&values, "samples"), number(&values, "missed"));
        // Every time was either met or missed; the first one of a sleeper is up to a period late.
        let due = number(&values, "sleepers") * 0.5e6 / number(&values, "period_us");
        assert!(samples >= 1.0, "{values:?}");
        assert!(
            (due - number(&values, "sleepers")..=due).contains(&(samples + missed)),
            "{values:?}"
        );
    }
}

#[test]
fn bad_arguments_are_refused() {
    for line in [
        "",
        "no-such-workload",
        "fork-burst --tasks 0",
        "fork-burst --tasks -1",
        "fork-burst --sleep-ms x",
        "mpi --ranks 0",
        "mpi --memory-mib 0",
        "mpi --iterations 10001",
        "mpi-rank",
        "mpi-rank --rank 0 --launcher 1 --board 1 --slots 2",
        "pairs --kind telepathy",
        "pairs --cpus 0",
        "pairs --loops 0",
        "hogs --nice 20",
        "hogs --nice ,",
        "hogs --cpus 3-1",
        "hogs --seconds 0",
        "wakeups --period-us 0",
        "wakeups --cpus x",
        "wakeups --seconds 0.001 --period-us 60000000",
        "wakeups --seconds 1 --period-us 1000000",
        "numa-mem --shared-mib 0",
        "numa-mem --processes 1024 --threads 1024",
    ] {
        let output = work(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
    }
}

#[test]
fn what_the_machine_refuses_is_an_error() {
    for line in [
        "pairs --cpus 0,65535",
        "pairs --cpus 4294967295,0",
        "hogs --cpus 65535",
        "wakeups --cpus 0-65535",
        "mpi --ranks 4096 --memory-mib 1048576",
    ] {
        let output = work(line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {errors}");
        assert!(errors.starts_with("Error: "), "{line}: {errors}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

/// As in every other command.
#[test]
fn a_reader_that_leaves_has_read_enough() {
    let mut child = Command::new(BALLAST)
        .args("work fork-burst --tasks 1 --sleep-ms 0 --spin-ms 0 --gap-ms 50 -v".split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built for this test");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""));
}

/// A killed workload takes its children with it, also those that exec'ed.
#[test]
fn nothing_outlives_the_workload() {
    killed_alone("hogs --nice 19,19,19 --seconds 600", "scx_ballast");
    killed_alone(
        "mpi --ranks 3 --sleep-ms 1 --iterations 10000 --memory-mib 1 --passes 1000",
        "ballast-rank",
    );
    killed_alone("mpi --ranks 3 --sleep-ms 600000", "scx_ballast");
}

/// A member that dies fails the workload instead of hanging it.
#[test]
fn a_killed_member_is_an_error() {
    killed_member("pairs --loops 1000000000000", "wakee 0", "scx_ballast");
    killed_member(
        "mpi --ranks 2 --iterations 10000 --memory-mib 1 --passes 1000",
        "rank 1",
        "ballast-rank",
    );
}
