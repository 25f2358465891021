// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast compare` with what users and machines get wrong: bad arguments are told before anything
//! is done, results are never replaced, and what goes wrong later says what to do, in a few lines.

#[path = "compare_runner/fake.rs"]
mod fake;

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fake::{Fake, signal};
use scx_ballast::compare::record::Record;
use scx_ballast::compare::results;

/// A comparison that takes a second.
const SHORT: [&str; 6] = ["eevdf", "eevdf", "--blocks", "1", "--bench", "quick"];

fn reasons(fake: &Fake) -> Vec<String> {
    let records = results::read(&fake.results()).unwrap();
    let reason = |record| match record {
        Record::Discarded(discarded) => Some(discarded.reason),
        _ => None,
    };
    records.into_iter().filter_map(reason).collect()
}

fn report(fake: &Fake, arguments: &[&str], stdin: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    command.args(["compare", "report"]).args(arguments);
    command
        .current_dir(fake.path(""))
        .stdin(stdin)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn reasons_are_short_however_much_was_printed() {
    for (name, told) in [
        ("flood", "printed more than"),
        ("line", "where a number should be"),
    ] {
        let fake = Fake::new();
        let (ok, text) = fake.run(&[
            "eevdf", "eevdf", "--blocks", "1", "--bench", name, "--bench", "quick",
        ]);
        assert!(!ok && text.len() < 20_000, "{} bytes", text.len());
        let reasons = reasons(&fake);
        assert_eq!(reasons.len(), 6);
        for reason in &reasons {
            assert!(
                reason.contains(told) && reason.contains("\nit printed:\n…"),
                "{reason}"
            );
            assert!(reason.len() < 1500, "{} bytes", reason.len());
        }
        let size = fs::metadata(fake.results()).unwrap().len();
        assert!(size < 100_000, "{size} bytes");
    }
}

#[test]
fn absurd_values_do_not_count() {
    let fake = Fake::new();
    let (ok, text) = fake.run(&[
        "eevdf", "eevdf", "--blocks", "1", "--bench", "absurd", "--bench", "quick",
    ]);
    assert!(!ok && text.contains("2 runs were given up"), "{text}");
    let told = "metric number: 1e308 is no value that can be compared";
    assert!(reasons(&fake).iter().all(|reason| reason.contains(told)));
    let file = fake.results();
    let output = report(&fake, &[file.to_str().unwrap()], Stdio::null());
    assert!(output.status.success(), "{}", said(&output));
}

/// A command that finds a signal as `action` says, however this test was started.
fn with_signal(command: &mut Command, number: libc::c_int, action: libc::sighandler_t) {
    // SAFETY: signal(2) alone may be called between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::signal(number, action);
            Ok(())
        });
    }
}

/// A report that nobody reads yet stands for one that takes long.
#[test]
fn signals_end_the_report_as_they_end_any_program() {
    for number in [libc::SIGINT, libc::SIGTERM] {
        let fake = Fake::new();
        let pipe = fake.path("pipe");
        let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
        // SAFETY: a string that ends.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut command = fake.command(&[&SHORT[..], &["-o", pipe.to_str().unwrap()]].concat());
        with_signal(&mut command, number, libc::SIG_DFL);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        let complete = || results::read(&fake.results()).is_ok_and(|records| records.len() == 3);
        while !complete() {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(1000));
        assert_eq!(child.try_wait().unwrap(), None, "it waits for a reader");
        signal(child.id(), number);
        let told = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if told.elapsed() > Duration::from_secs(10) {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("signal {number} did nothing");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.signal(), Some(number));
    }
}

/// Under nohup(1) the end of the terminal is nothing; and Ctrl-C ends also what began with that ignored.
#[test]
fn ignored_hangups_stay_ignored() {
    for (number, action, goes_on) in [
        (libc::SIGHUP, libc::SIG_IGN, true),
        (libc::SIGHUP, libc::SIG_DFL, false),
        (libc::SIGINT, libc::SIG_IGN, false),
    ] {
        let fake = Fake::new();
        let mut command = fake.command(&SHORT);
        with_signal(&mut command, number, action);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        // The plan is written after signals are seen to.
        while !results::read(&fake.results()).is_ok_and(|records| !records.is_empty()) {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        signal(child.id(), number);
        assert_eq!(child.wait().unwrap().success(), goes_on, "signal {number}");
        let whole = results::read(&fake.results()).unwrap().len() == 3;
        assert_eq!(whole, goes_on, "signal {number}");
    }
}

#[test]
fn reports_do_not_replace_results() {
    let fake = Fake::new();
    fake.must(&SHORT);
    let file = fake.results();
    let text = fs::read_to_string(&file).unwrap();
    fs::hard_link(&file, fake.path("other.jsonl")).unwrap();
    fs::copy(&file, fake.path("copy.jsonl")).unwrap();
    let as_input = || Stdio::from(File::open(&file).unwrap());
    for (arguments, told) in [
        (
            ["results.jsonl", "-o", "results.jsonl"],
            "is what the report is made from",
        ),
        (
            ["results.jsonl", "-o", "./other.jsonl"],
            "is what the report is made from",
        ),
        (
            ["-", "-o", "results.jsonl"],
            "is what the report is made from",
        ),
        (
            ["results.jsonl", "-o", "copy.jsonl"],
            "holds the records of a comparison",
        ),
    ] {
        let output = report(&fake, &arguments, as_input());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            said(&output).contains(told),
            "{arguments:?}: {}",
            said(&output)
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert_eq!(fs::read_to_string(fake.path("copy.jsonl")).unwrap(), text);
    }
    // The file that a comparison is about to make.
    let new = Fake::new();
    let (ok, said) = new.run(&[&SHORT[..], &["-o", new.results().to_str().unwrap()]].concat());
    assert!(
        !ok && said.contains("is what the report is made from"),
        "{said}"
    );
    assert!(!new.results().exists());
}

#[test]
fn where_nothing_can_be_written_nothing_is_run() {
    let fake = Fake::new();
    let missing = fake.path("nodir/rep");
    let (ok, text) = fake.run(&[&SHORT[..], &["-o", missing.to_str().unwrap()]].concat());
    assert!(!ok && text.contains("nodir/rep: No such file"), "{text}");
    assert_eq!(text.matches("No such file").count(), 1, "{text}");
    assert!(!fake.results().exists());
    let old = fake.path("old");
    fs::write(&old, "an older report").unwrap();
    let (ok, _) = fake.run(&[&SHORT[..], &["--dry-run", "-o", old.to_str().unwrap()]].concat());
    assert!(ok && fake.read("old") == "an older report");
    // Nor is somebody's scheduler ended for results that have no place.
    fake.load("rusty_9");
    let mut command = fake.command(&[&SHORT[..], &["--replace-running"]].concat());
    fs::write(fake.results(), "in the way").unwrap();
    let output = command.output().unwrap();
    assert!(
        said(&output).contains("--resume continues it"),
        "{}",
        said(&output)
    );
    assert_eq!(
        (
            fake.state().as_str(),
            fake.read("proc/sysrq-trigger").as_str()
        ),
        ("enabled", "")
    );
}

#[test]
fn errors_are_said_once() {
    let fake = Fake::new();
    let output = report(&fake, &["no.jsonl"], Stdio::null());
    assert_eq!(
        said(&output).matches("No such file").count(),
        1,
        "{}",
        said(&output)
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    command.args([
        "compare",
        "eevdf",
        "--aa",
        "--results",
        "no/x.jsonl",
        "--bench",
        "hogs",
    ]);
    let output = command.current_dir(fake.path("")).output().unwrap();
    assert_eq!(
        said(&output).matches("No such file").count(),
        1,
        "{}",
        said(&output)
    );
}

/// Compares on a disk that has room for `kib` KiB, as far as the kernel's limit on files goes.
fn on_a_small_disk(fake: &Fake, kib: u32) -> String {
    let made = fake.command(&["eevdf", "eevdf", "--blocks", "9", "--bench", "who"]);
    let mut command = Command::new("bash");
    let limited = format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\"");
    command.args(["-c", &limited, "bash"]);
    command.arg(made.get_program()).args(made.get_args());
    for (name, value) in made.get_envs() {
        command.env(name, value.unwrap());
    }
    let output = command.output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.matches("File too large").count(), 1, "{text}");
    text
}

#[test]
fn a_full_disk_says_how_to_go_on() {
    let fake = Fake::new();
    // Room for not even the plan: nothing is left that would be in the way.
    let text = on_a_small_disk(&fake, 0);
    assert!(
        !text.contains("--resume") && !fake.results().exists(),
        "{text}"
    );
    // Room for the plan and some runs.
    let text = on_a_small_disk(&fake, 12);
    let file = fake.results();
    let hint = format!("scx_ballast compare --resume --results {}", file.display());
    assert!(text.contains(&hint), "{text}");
    fake.must(&["--resume"]);
    assert_eq!(results::read(&file).unwrap().len(), 19);
}

#[test]
fn numa_balancing_without_the_right_to_set_it_is_told_first() {
    let fake = Fake::new();
    fake.write("proc/sys/kernel/numa_balancing", "1");
    let file = fake.path("proc/sys/kernel/numa_balancing");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let mut command = fake.command(&["eevdf", "--numa-balancing", "both", "--bench", "quick"]);
    // Root writes what it likes without this; for all others it is refused, and there is no need.
    let ordinary = || {
        const CAP_DAC_OVERRIDE: libc::c_ulong = 1;
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call and takes no memory.
    unsafe { command.pre_exec(ordinary) };
    let output = command.output().unwrap();
    let told = "--numa-balancing needs the right to write";
    assert!(said(&output).contains(told), "{}", said(&output));
    assert!(!fake.results().exists());
}

#[test]
fn bad_arguments_have_status_2() {
    let fake = Fake::new();
    for (arguments, told) in [
        (
            vec!["ballast:--no-such-flag"],
            "arm 'ballast:--no-such-flag': unexpected argument",
        ),
        (vec!["ballast:--slice-us 0"], "0 is not in 100..=1000000"),
        (
            vec!["ballast:--locality off --migrate-memory"],
            "--migrate-memory cannot be had with --locality off",
        ),
        (vec!["no-such-scheduler"], "no program 'no-such-scheduler'"),
        (vec!["eevdf:-x"], "eevdf takes no flags"),
        (vec!["eevdf"], "nothing to compare eevdf with"),
        (
            vec!["fast", "--numa-balancing", "on", "--aa"],
            "there is none",
        ),
        (
            vec!["fast", "--bench", "nope"],
            "no benchmark is called 'nope'",
        ),
        (
            vec!["fast", "--suite", "nope"],
            "there is no built-in suite",
        ),
        (
            vec!["fast", "--settle=-1"],
            "expected 0 or 0.001 to 86400 seconds",
        ),
    ] {
        for dry in [&["--dry-run"][..], &[]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
            command.arg("compare").args(&arguments).args(dry);
            command.arg("--suite").arg(fake.path("suite.toml"));
            command.arg("--results").arg(fake.results());
            command.env("PATH", fake.path("bin"));
            let output = command.output().unwrap();
            assert_eq!(
                output.status.code(),
                Some(2),
                "{arguments:?}: {}",
                said(&output)
            );
            assert!(
                said(&output).contains(told),
                "{arguments:?}: {}",
                said(&output)
            );
        }
    }
    assert!(!fake.results().exists());
}

#[test]
fn a_dash_is_standard_output() {
    let fake = Fake::new();
    fake.must(&SHORT);
    let to = |arguments: &[&str]| report(&fake, arguments, Stdio::null());
    let plain = to(&["results.jsonl"]);
    let dash = to(&["results.jsonl", "-o", "-"]);
    assert!(dash.status.success(), "{}", said(&dash));
    assert!(!dash.stdout.is_empty() && dash.stdout == plain.stdout);
    assert!(!fake.path("-").exists(), "a file of that name");
}

#[test]
fn results_come_through_pipes() {
    let fake = Fake::new();
    fake.must(&SHORT);
    let expected = report(&fake, &["results.jsonl", "--format", "json"], Stdio::null());
    let expected = String::from_utf8(expected.stdout).unwrap();
    assert!(expected.contains("results.jsonl"));
    let expected = expected.replace("results.jsonl", "standard input");
    for file in ["-", "/dev/stdin"] {
        for pipe in [true, false] {
            let file = [file, "--format", "json"];
            let output = match pipe {
                true => {
                    let cat = Command::new("cat")
                        .arg(fake.results())
                        .stdout(Stdio::piped())
                        .spawn();
                    let mut cat = cat.unwrap();
                    let output = report(&fake, &file, Stdio::from(cat.stdout.take().unwrap()));
                    cat.wait().unwrap();
                    output
                }
                false => report(
                    &fake,
                    &file,
                    Stdio::from(File::open(fake.results()).unwrap()),
                ),
            };
            assert!(output.status.success(), "{file:?}: {}", said(&output));
            assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        }
    }
}

#[test]
fn a_pager_that_is_left_is_no_error() {
    let fake = Fake::new();
    for arguments in [vec!["--list"], [&SHORT[..], &["--dry-run"]].concat()] {
        let mut command = fake.command_here(&arguments);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(said(&output), "");
    }
}

#[test]
fn a_dry_run_shows_metrics_times_and_what_is_left() {
    let fake = Fake::new();
    let tell = |arguments: &[&str]| {
        let output = fake
            .command(&[arguments, &["--dry-run"]].concat())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let arguments = [
        "eevdf", "fast", "--blocks", "2", "--bench", "quick", "--bench", "who",
    ];
    let text = tell(&arguments);
    assert!(
        text.contains("    number in s, lower is better\n"),
        "{text}"
    );
    assert!(
        text.contains("8 runs; at least 0 s of settling and about 12 s of loading"),
        "{text}"
    );
    assert!(text.contains("shows once they ran"), "{text}");
    fake.must(&arguments);
    let all = fs::read_to_string(fake.results()).unwrap();
    let lines: Vec<&str> = all.lines().collect();
    // The plan and all runs but the last of the first block, and half of one more.
    let cut = format!("{}\n{}", lines[..4].join("\n"), &lines[4][..40]);
    fs::write(fake.results(), &cut).unwrap();
    let text = tell(&["--resume"]);
    assert!(
        text.contains("5 runs (3 are made)") && text.contains("likely about"),
        "{text}"
    );
    let (_, left) = text.split_once("order of what is left:\n").unwrap();
    assert!(
        left.starts_with("  1: ") && left.contains("\n  2: "),
        "{left}"
    );
    let first = left.lines().next().unwrap();
    assert!(!first.contains(';') && !first.contains(", "), "{first}");
    assert_eq!(fs::read_to_string(fake.results()).unwrap(), cut);
}

#[test]
fn no_settle_time_is_a_settle_time() {
    let fake = Fake::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
    command.args([
        "compare",
        "eevdf",
        "--aa",
        "--dry-run",
        "--settle",
        "0",
        "--suite",
    ]);
    let output = command.arg(fake.path("suite.toml")).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("at least 0 s of settling"));
}

/// What a comparison says on a terminal of a kind.
fn on_terminal(kind: &str) -> String {
    let fake = Fake::new();
    let (mut master, mut slave) = (-1, -1);
    let null = std::ptr::null_mut();
    // SAFETY: two numbers to write to; nothing else is asked for.
    assert_eq!(
        unsafe { libc::openpty(&mut master, &mut slave, null, null.cast(), null.cast()) },
        0
    );
    // SAFETY: both were just opened for this test alone.
    let (mut master, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
    let mut command = fake.command(&SHORT);
    command
        .env("TERM", kind)
        .stdout(Stdio::null())
        .stderr(slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut text = Vec::new();
    // The kernel says EIO when the last other end is closed.
    let _ = master.read_to_end(&mut text);
    assert!(child.wait().unwrap().success());
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn terminals_without_a_cursor_get_lines() {
    let text = on_terminal("dumb");
    assert!(text.contains("[1/2] block 1, quick by eevdf"), "{text:?}");
    assert!(
        text.contains("[2/2]") && !text.contains('\u{1b}'),
        "{text:?}"
    );
    let text = on_terminal("xterm");
    assert!(!text.contains("[1/2]") && text.contains("1/2"), "{text:?}");
}

#[test]
fn endless_files_are_no_suites() {
    let fake = Fake::new();
    let (ok, text) = fake.run(&["eevdf", "--aa", "--suite", "/dev/zero"]);
    assert!(
        !ok && text.contains("the suite /dev/zero is larger than"),
        "{text}"
    );
}
