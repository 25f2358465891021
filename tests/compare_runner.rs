// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast compare`: the life cycle of a comparison, on this machine with fake kernels and fake
//! schedulers.
//!
//! A fake kernel is a folder with the files of /proc and /sys that matter; a fake scheduler is a shell
//! script that writes them as the kernel would. The processes, signals and files are real.

#[path = "compare_runner/fake.rs"]
mod fake;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use fake::{Fake, lines, signal};
use scx_ballast::compare::record::{Fact, Plan, Record, Run};
use scx_ballast::compare::results;

fn plan(records: &[Record]) -> &Plan {
    match &records[0] {
        Record::Plan(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn runs(records: &[Record]) -> Vec<&Run> {
    let mut runs = Vec::new();
    for record in records {
        if let Record::Run(run) = record {
            runs.push(&**run);
        }
    }
    runs
}

fn discarded(records: &[Record]) -> Vec<String> {
    let reason = |record: &Record| match record {
        Record::Discarded(discarded) => Some(discarded.reason.clone()),
        _ => None,
    };
    records.iter().filter_map(reason).collect()
}

/// Block, benchmark and arm of all runs, in the order in which they were made.
fn order(records: &[Record]) -> Vec<(u32, usize, usize)> {
    let runs = runs(records).into_iter();
    runs.map(|run| (run.block, run.benchmark, run.arm))
        .collect()
}

/// All runs of the plan are there, and none twice.
#[track_caller]
fn assert_complete(records: &[Record]) {
    let plan = plan(records);
    let mut found = order(records);
    found.sort_unstable();
    let (arms, benchmarks) = (plan.arms.len(), plan.benchmarks.len());
    let all = (0..plan.blocks)
        .flat_map(|block| (0..benchmarks).flat_map(move |b| (0..arms).map(move |a| (block, b, a))));
    assert_eq!(found, all.collect::<Vec<_>>());
}

#[test]
fn this_machine_compares_eevdf_with_itself() {
    let fake = Fake::new();
    let mut command = fake.command_here(&["eevdf", "eevdf", "--blocks", "2", "--bench", "quick"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let records = results::read(&fake.results()).unwrap();
    assert_complete(&records);
    assert_eq!(plan(&records).arms[1].twin_of, Some(0));
    for run in runs(&records) {
        assert_eq!(run.values["number"], 5.0);
        assert!(run.evidence.wall_s > 0.19, "{run:?}");
        assert!(run.evidence.vmstat.known().is_some());
        let used = run.evidence.node_use.known().unwrap();
        assert!(
            used.nodes
                .values()
                .flatten()
                .all(|share| (0.0..=1.0).contains(share))
        );
        assert!(run.evidence.scheduler.known().is_none());
    }
}

#[test]
fn the_seed_decides_the_order() {
    let order_of = |seed| {
        let fake = Fake::new();
        fake.must(&[
            "eevdf", "fast", "fast:-x", "--blocks", "3", "--bench", "quick", "--seed", seed,
        ]);
        order(&results::read(&fake.results()).unwrap())
    };
    let first = order_of("11");
    assert_eq!(first, order_of("11"));
    assert_ne!(first, order_of("12"));
}

#[test]
fn schedulers_are_in_charge_of_their_runs_and_gone_afterwards() {
    let fake = Fake::new();
    fake.must(&["eevdf", "fast:--a 'b c'", "--blocks", "2", "--bench", "who"]);
    let records = results::read(&fake.results()).unwrap();
    assert_complete(&records);
    let mut seqs = Vec::new();
    for run in runs(&records) {
        let charge = &run.evidence.in_charge;
        // The benchmark itself saw who was in charge.
        match run.arm {
            0 => assert_eq!((run.values["number"], &*charge.state), (0.0, "disabled")),
            _ => {
                assert_eq!((run.values["number"], &*charge.state), (1.0, "enabled"));
                assert_eq!(charge.ops, "fast_1.0");
                assert_eq!(charge.bypasses, Fact::Known(0));
                seqs.push(*charge.enable_seq.known().unwrap());
                let used = run.evidence.scheduler.known().unwrap();
                assert!(used.start_s > 0.0);
                assert!(
                    matches!(&used.statistics, Fact::NotAvailable(why) if why.contains("stats"))
                );
            }
        }
    }
    // One attach for each run.
    assert_eq!(seqs, [1, 2]);
    assert_eq!(fake.read("arguments"), "--a|b c|");
    fake.assert_clean();
}

/// The driver is a real-time task, and what it starts would have a nice value of 0.
#[test]
fn benchmarks_are_as_nice_as_the_comparison() {
    let fake = Fake::new();
    let own = Command::new("nice").output().unwrap().stdout;
    let own: f64 = String::from_utf8_lossy(&own).trim().parse().unwrap();
    let made = fake.command(&["eevdf", "fast", "--blocks", "1", "--bench", "nice"]);
    let mut command = Command::new("nice");
    command.args(["-n", "5"]).arg(made.get_program());
    command.args(made.get_args());
    for (name, value) in made.get_envs() {
        command.env(name, value.unwrap());
    }
    assert!(command.status().unwrap().success());
    for run in runs(&results::read(&fake.results()).unwrap()) {
        assert_eq!(run.values["number"], (own + 5.0).min(19.0));
    }
}

#[test]
fn a_run_with_another_in_charge_is_discarded_and_repeated() {
    for (change, told) in [
        ("echo 99 > $SCX/enable_seq", "enable_seq '1' became '99'"),
        (
            "echo other > $SCX/root/ops",
            "scheduler 'fast_1.0' became 'other'",
        ),
        (
            "echo SCX_EV_BYPASS_ACTIVATE 4 > $SCX/root/events",
            "bypass events '0' became '4'",
        ),
    ] {
        let fake = Fake::new();
        fake.write("once", change);
        fake.must(&["fast", "fast:-x", "--blocks", "1", "--bench", "quick"]);
        let records = results::read(&fake.results()).unwrap();
        assert_complete(&records);
        let reasons = discarded(&records);
        assert!(
            matches!(&reasons[..], [reason] if reason.contains(told)),
            "{reasons:?}"
        );
        fake.assert_clean();
    }
}

#[test]
fn a_scheduler_that_dies_during_a_run_costs_that_run_alone() {
    let fake = Fake::new();
    fake.write(
        "once",
        "kill -9 $(cat $FAKE/pid); echo disabled > $SCX/state",
    );
    fake.must(&["fast", "fast:-x", "--blocks", "1", "--bench", "quick"]);
    let records = results::read(&fake.results()).unwrap();
    assert_complete(&records);
    let reasons = discarded(&records);
    assert!(
        reasons[0].contains("the scheduler ended during the run"),
        "{reasons:?}"
    );
    assert!(reasons[0].contains("fast says hello"), "{reasons:?}");
}

#[test]
fn schedulers_that_never_work_end_the_comparison_with_their_words() {
    for (name, told) in [
        (
            "dies",
            "ended before it was in charge (exit status: 7)\nit said:\ndies says hello\nno luck",
        ),
        (
            "idles",
            "not in charge after 1s\nit said:\nidles says hello\nidling",
        ),
    ] {
        let fake = Fake::new();
        let (ok, text) = fake.run(&["eevdf", name, "--blocks", "2", "--bench", "quick"]);
        assert!(!ok);
        assert!(
            text.contains("cannot be put in charge") && text.contains(told),
            "{text}"
        );
        let records = results::read(&fake.results()).unwrap();
        assert_eq!(discarded(&records).len(), 3, "{records:?}");
        fake.assert_clean();
    }
}

#[test]
fn a_scheduler_that_refuses_to_end_is_killed() {
    let fake = Fake::new();
    let (ok, text) = fake.run(&["eevdf", "stubborn", "--blocks", "1", "--bench", "quick"]);
    assert!(ok, "{text}");
    assert!(
        text.contains("stubborn: it did not end 1s after a signal: killed"),
        "{text}"
    );
    fake.assert_clean();
}

#[test]
fn benchmarks_that_fail_are_given_up_and_leave_nothing() {
    for (name, told) in [
        (
            "fails",
            "the benchmark failed (exit status: 3)\nit printed:\nbad luck",
        ),
        ("hangs", "the benchmark took longer than 1 s"),
        ("mute", "number"),
    ] {
        let fake = Fake::new();
        let (ok, text) = fake.run(&[
            "eevdf", "eevdf", "--blocks", "2", "--bench", name, "--bench", "quick",
        ]);
        assert!(!ok && text.contains("4 runs were given up"), "{text}");
        let records = results::read(&fake.results()).unwrap();
        let reasons = discarded(&records);
        // Three tries of each arm in the first block, one in the second.
        assert_eq!(reasons.len(), 8, "{reasons:?}");
        assert!(
            reasons.iter().all(|reason| reason.contains(told)),
            "{reasons:?}"
        );
        assert_eq!(runs(&records).len(), 4);
        fake.assert_clean();
    }
}

#[test]
fn another_scheduler_is_refused_or_ended() {
    let fake = Fake::new();
    fake.load("rusty_9");
    let arguments = ["eevdf", "eevdf", "--blocks", "1", "--bench", "quick"];
    let (ok, text) = fake.run(&arguments);
    assert!(
        !ok && text.contains("rusty_9") && text.contains("--replace-running"),
        "{text}"
    );
    assert!(!fake.results().exists());
    assert_eq!(fake.read("sys/kernel/sched_ext/state"), "enabled");
    // The kernel, when SysRq-S is pressed.
    let watch = fake.on_sysrq();
    fake.must(&[&arguments[..], &["--replace-running"]].concat());
    assert!(watch.join().unwrap());
    assert_complete(&results::read(&fake.results()).unwrap());
}

#[test]
fn a_kernel_without_sched_ext_is_told_before_anything_runs() {
    let fake = Fake::new();
    fs::remove_dir_all(fake.path("sys/kernel/sched_ext")).unwrap();
    let (ok, text) = fake.run(&["eevdf", "fast", "--blocks", "1", "--bench", "quick"]);
    assert!(
        !ok && text.contains("fast: this kernel (7.3) has no sched_ext"),
        "{text}"
    );
    assert!(!fake.results().exists());
}

#[test]
fn a_cut_file_goes_on_as_it_would_have() {
    let whole = Fake::new();
    let arguments = [
        "eevdf", "fast", "--blocks", "3", "--bench", "quick", "--bench", "who", "--seed", "5",
    ];
    whole.must(&arguments);
    let text = fs::read_to_string(whole.results()).unwrap();
    let expected = order(&results::read(&whole.results()).unwrap());
    // In the middle of the record of a run, right behind one, and behind the plan.
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for cut in [ends[4] + 40, ends[4], ends[0]] {
        fs::write(whole.results(), &text[..cut]).unwrap();
        whole.must(&["--resume"]);
        let records = results::read(&whole.results()).unwrap();
        assert_complete(&records);
        assert_eq!(order(&records), expected);
    }
}

#[test]
fn only_the_same_comparison_is_resumed() {
    let fake = Fake::new();
    let arguments = [
        "eevdf", "fast", "--blocks", "1", "--bench", "quick", "--seed", "5",
    ];
    fake.must(&arguments);
    let (ok, text) = fake.run(&arguments);
    assert!(!ok && text.contains("--resume"), "{text}");
    for (other, told) in [
        (vec!["eevdf", "fast:-x"], "arms: eevdf []"),
        (vec!["--seed", "6"], "seed: 5 in the file, 6 now"),
        (vec!["--blocks", "2"], "blocks: 1 in the file, 2 now"),
        (
            vec!["--bench", "who"],
            "benchmarks: quick in the file, who now",
        ),
    ] {
        let (ok, text) = fake.run(&[&["--resume"], &other[..]].concat());
        assert!(!ok && text.contains(told), "{other:?}: {text}");
    }
    fake.must(&[&["--resume"], &arguments[..]].concat());
    fake.write("proc/sys/kernel/osrelease", "9.9");
    let (ok, text) = fake.run(&["--resume"]);
    assert!(!ok && text.contains("kernel: 7.3"), "{text}");
}

#[test]
fn a_file_has_one_writer_and_bad_lines_have_numbers() {
    let fake = Fake::new();
    fake.must(&["eevdf", "eevdf", "--blocks", "1", "--bench", "quick"]);
    let file = fs::File::open(fake.results()).unwrap();
    file.try_lock().unwrap();
    let (ok, text) = fake.run(&["--resume"]);
    assert!(!ok && text.contains("another comparison"), "{text}");
    drop(file);
    let good = fs::read_to_string(fake.results()).unwrap();
    let first = good.lines().next().unwrap();
    for (text, told) in [
        (format!("{first}\nnonsense\n"), "results.jsonl:2: "),
        (
            format!("{first}\n{first}\n"),
            "results.jsonl:2: a second plan",
        ),
        (
            good.lines().nth(1).unwrap().to_string() + "\n",
            "results.jsonl:1: the first record",
        ),
        (good.replace("\"arm\":1", "\"arm\":7"), "arm 7"),
        (
            first.replace("\"format\":1", "\"format\":99") + "\n",
            "newer than this program",
        ),
        (String::new(), "holds no plan"),
        (first.to_string(), "holds no plan"),
    ] {
        fs::write(fake.results(), text).unwrap();
        let error = results::read(&fake.results()).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

/// Ends a comparison in the middle of a run and checks that the machine is as it was.
fn interrupted_by(number: i32) {
    let fake = Fake::new();
    fake.write("proc/sys/kernel/numa_balancing", "2");
    let arms = [
        "eevdf",
        "fast",
        "--numa-balancing",
        "both",
        "--blocks",
        "2",
        "--bench",
        "slow",
    ];
    let mut child = fake.command(&arms).spawn().unwrap();
    // In the middle of a run under the scheduler, with a setting that is not the old one.
    let began = Instant::now();
    while fake.read("running") != "fast_1.0" {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "no run under the scheduler"
        );
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
    // As an arm eevdf:numa_balancing=off leaves it.
    fake.write("proc/sys/kernel/numa_balancing", "0");
    signal(child.id(), number);
    let status = child.wait().unwrap();
    assert!(!status.success());
    let began = Instant::now();
    while fake.state() != "disabled"
        || fake.read("proc/sys/kernel/numa_balancing") != "2"
        || fake.has_processes()
    {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{}: {}",
            fake.state(),
            lines(&fake)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    fake.must(&["--resume"]);
    let records = results::read(&fake.results()).unwrap();
    assert_complete(&records);
    assert_eq!(fake.read("proc/sys/kernel/numa_balancing"), "2");
    fake.assert_clean();
}

#[test]
fn ctrl_c_leaves_the_machine_as_it_was() {
    interrupted_by(libc::SIGINT);
}

#[test]
fn sigterm_leaves_the_machine_as_it_was() {
    interrupted_by(libc::SIGTERM);
}

#[test]
fn sigkill_leaves_the_machine_as_it_was() {
    interrupted_by(libc::SIGKILL);
}

#[test]
fn an_abort_as_by_a_panic_leaves_the_machine_as_it_was() {
    interrupted_by(libc::SIGABRT);
}

#[test]
fn numa_balancing_is_what_the_arm_says() {
    let fake = Fake::new();
    fake.write("proc/sys/kernel/numa_balancing", "2");
    fake.must(&[
        "eevdf",
        "fast",
        "--numa-balancing",
        "both",
        "--blocks",
        "1",
        "--bench",
        "balancing",
    ]);
    let records = results::read(&fake.results()).unwrap();
    let arms = &plan(&records).arms;
    for run in runs(&records) {
        let expected = match arms[run.arm].numa_balancing {
            Some(true) => 1.0,
            Some(false) => 0.0,
            None => 2.0,
        };
        assert_eq!(run.values["number"], expected, "{}", arms[run.arm].label);
    }
    assert_eq!(fake.read("proc/sys/kernel/numa_balancing"), "2");
    fs::remove_file(fake.path("proc/sys/kernel/numa_balancing")).unwrap();
    fs::remove_file(fake.results()).unwrap();
    let (ok, text) = fake.run(&["eevdf", "--numa-balancing", "both", "--bench", "quick"]);
    assert!(!ok && text.contains("no NUMA balancing"), "{text}");
}

#[test]
fn a_dry_run_tells_and_touches_nothing() {
    let fake = Fake::new();
    let output = fake.command(&["eevdf", "fast", "--dry-run", "--blocks", "2", "--seed", "1"]);
    let output = { output }.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for part in [
        "quick",
        "missing is skipped: ",
        "seed 1",
        "runs; at least",
        "eevdf, fast",
    ] {
        let other = "fast, eevdf";
        assert!(
            text.contains(part) || part == "eevdf, fast" && text.contains(other),
            "{part}: {text}"
        );
    }
    assert!(!fake.results().exists() && fake.read("arguments").is_empty());
}

#[test]
fn the_list_names_suites_and_benchmarks() {
    let fake = Fake::new();
    let output = fake.command_here(&["--list"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(
        text.contains("  quick\n    number in s, lower is better\n")
            && text.contains("  missing cannot run here: "),
        "{text}"
    );
    // Of what is named alone.
    let output = fake
        .command_here(&["--list", "--bench", "missing"])
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(
        text.contains("  missing cannot run here: ") && !text.contains("  quick\n"),
        "{text}"
    );
    for (flags, flag) in [
        (&["--bench", "nope"][..], "no benchmark is called 'nope'"),
        (&["--format", "json"], "--format"),
        (&["-o", "file"], "--output"),
        (&["eevdf"], "ARM"),
        (&["--blocks", "3"], "--blocks"),
        (&["--dry-run"], "--dry-run"),
    ] {
        let output = fake.command_here(&[&["--list"], flags].concat()).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(flag), "{flags:?}: {said}");
    }
}
