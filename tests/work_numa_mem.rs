// SPDX-License-Identifier: GPL-2.0-only
//! `scx_ballast work numa-mem` as a user runs it. Where the right local share is known on machines with
//! several nodes, tests/in_lab has it.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[path = "fixtures/work.rs"]
mod fixture;

use fixture::{BALLAST, killed_alone, killed_member, number, result, work};

/// What holds on every machine.
fn plausible(values: &HashMap<String, String>) {
    for key in ["local_start", "local_mean", "local_end"] {
        if values[key] != "not-available" {
            assert!((0.0..=1.0).contains(&number(values, key)), "{values:?}");
        }
    }
    let (samples, processes) = (number(values, "samples"), number(values, "processes"));
    assert!(samples >= processes, "{values:?}");
    assert!(number(values, "run_ms") <= number(values, "wall_ms"));
    assert!(number(values, "sys_ms") >= 0.0);
    if values["moved_pages_share"] != "not-available" {
        let moved = number(values, "moved_pages_share");
        assert!((0.0..=1.0).contains(&moved), "{values:?}");
    }
    assert!(number(values, "moved_threads") <= number(values, "migrations"));
    if number(values, "nodes") == 1.0 {
        for key in ["local_start", "local_mean", "local_end", "one_node"] {
            assert!(
                ["1.000", "not-available"].contains(&&*values[key]),
                "{values:?}"
            );
        }
        assert_eq!(number(values, "migrations"), 0.0);
        assert!(["0.000", "not-available"].contains(&&*values["moved_pages_share"]));
        let (converged, settled) = (number(values, "converged_ms"), number(values, "settled_ms"));
        assert!(converged == settled && settled <= number(values, "wall_ms"));
    }
}

/// MiB that all threads have read and written, by the result's own speed.
fn done_mib(values: &HashMap<String, String>) -> f64 {
    number(values, "mib_per_s") * number(values, "run_ms") / 1000.0
}

#[test]
fn fixed_rounds_are_all_done() {
    for flags in [
        "",
        "--first-touch main --order random --seed 7",
        "--huge-pages avoid --sample-ms 5 --sample-pages 10",
    ] {
        let values = result(&format!(
            "numa-mem --processes 2 --threads 3 --shared-mib 3 --local-mib 1 --rounds 4 {flags}"
        ));
        assert_eq!(number(&values, "rounds"), 4.0);
        let (done, all) = (done_mib(&values), 2.0 * 3.0 * 4.0 * (3.0 + 1.0));
        assert!(
            (done / all - 1.0).abs() < 0.02,
            "{done} of {all}: {values:?}"
        );
        let (median, min) = ("round_mib_per_s", "round_mib_per_s_min");
        assert!(number(&values, median) >= number(&values, min) * 0.99);
        assert_eq!(number(&values, "absent_pages"), 0.0);
        let pages = number(&values, "sampled_pages");
        match flags.contains("--sample-pages 10") {
            true => assert!(pages <= 2.0 * (10.0 + 4.0), "{values:?}"),
            false => assert!((2000.0..=2048.0).contains(&pages), "{values:?}"),
        }
        plausible(&values);
    }
}

#[test]
fn a_time_is_kept() {
    let values = result("numa-mem --processes 1 --threads 2 --shared-mib 1 --seconds 0.3");
    let run = number(&values, "run_ms");
    assert!((300.0..3000.0).contains(&run), "{values:?}");
    assert!(number(&values, "rounds") >= 1.0 && number(&values, "mib_per_s") > 0.0);
    plausible(&values);
}

/// Nobody gets through 64 MiB in a millisecond, and then there is no speed of a round.
#[test]
fn a_round_that_nobody_completed_has_no_speed() {
    let values = result("numa-mem --processes 1 --threads 1 --local-mib 64 --seconds 0.001");
    assert_eq!(number(&values, "rounds"), 0.0);
    assert_eq!(values["round_mib_per_s"], "not-available");
    assert_eq!(values["round_mib_per_s_min"], "not-available");
    plausible(&values);
}

#[test]
fn every_thread_process_and_look_has_a_line() {
    let output = work("numa-mem --processes 2 --threads 3 --shared-mib 1 --rounds 2 -v");
    let text = String::from_utf8(output.stdout).expect("output is text");
    let with = |part| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!(with(" thread "), 6, "{text}");
    assert_eq!(with(": local start "), 2, "{text}");
    let samples = text.rsplit("samples=").next().expect("a result");
    let samples: usize = samples.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(with(" sample "), samples, "{text}");
}

/// The number of a node with CPUs that this process may use.
fn own_node() -> u32 {
    let mut node = 0_u32;
    let nothing = std::ptr::null_mut::<u32>();
    // SAFETY: a u32 to write to; nothing else is asked for.
    unsafe { libc::syscall(libc::SYS_getcpu, nothing, &raw mut node, nothing) };
    node
}

/// Everything may be confined at first, and works all the same.
#[test]
fn memory_and_threads_begin_where_they_are_told() {
    let node = own_node();
    for (flags, memory, start) in [
        (
            format!("--memory-on {node}"),
            node.to_string(),
            "default".into(),
        ),
        (
            format!("--start-on {node}"),
            "default".into(),
            node.to_string(),
        ),
        (
            "--memory-on each --start-on next".into(),
            "each".into(),
            "next".into(),
        ),
        (
            "--memory-on next --first-touch main".into(),
            "next".into(),
            "default".to_owned(),
        ),
    ] {
        let line = format!("numa-mem --shared-mib 1 --local-mib 1 --rounds 4 {flags}");
        let values = result(&line);
        assert_eq!(
            (&values["memory_on"], &values["start_on"]),
            (&memory, &start)
        );
        assert_eq!(values["policy"], "default");
        assert_eq!(number(&values, "rounds"), 4.0);
        plausible(&values);
    }
}

/// One piece of memory instead of three, and each process comes by all of it.
#[test]
fn processes_share_memory() {
    let line = "numa-mem --processes 3 --threads 1 --shared-mib 3 --rounds 3";
    for flags in ["", "--first-touch main", "--local-mib 1 --order random"] {
        let values = result(&format!("{line} --shared-between-processes {flags}"));
        assert_eq!(values["shared_between_processes"], "yes");
        let own = number(&values, "local_mib");
        let (done, all) = (done_mib(&values), 3.0 * 3.0 * (3.0 + own));
        assert!((done / all - 1.0).abs() < 0.02, "{values:?}");
        if values["absent_pages"] != "not-available" {
            assert_eq!(number(&values, "absent_pages"), 0.0, "{values:?}");
        }
        plausible(&values);
    }
    assert_eq!(result(line)["shared_between_processes"], "no");
}

/// A window has a share if the run was long enough, and the line has a key for each that was asked for.
#[test]
fn shares_are_told_at_the_times_that_were_asked_for() {
    let line = "numa-mem --processes 1 --shared-mib 1";
    let values = result(&format!(
        "{line} --seconds 1.2 --report-at 1,2 --sample-ms 50"
    ));
    assert_eq!(values["local_2s"], "not-available");
    if number(&values, "nodes") == 1.0 {
        assert_eq!(values["local_1s"], values["local_mean"], "{values:?}");
    }
    plausible(&values);
    // No look is due in the last second before 1 s, but for the first one.
    let values = result(&format!(
        "{line} --seconds 1.1 --report-at 1 --sample-ms 60000"
    ));
    assert_eq!(values["local_1s"], "not-available");
    assert!(!result(&format!("{line} --rounds 1")).contains_key("local_1s"));
}

/// Not every kernel and sandbox lets memory have a policy; then nothing is measured.
#[test]
fn memory_has_the_policy_that_was_asked_for_or_is_refused() {
    let node = own_node();
    for policy in [
        format!("bind:{node}"),
        format!("prefer:{node}"),
        "interleave".into(),
    ] {
        for more in ["", "--shared-between-processes"] {
            let line = format!("numa-mem --shared-mib 1 --rounds 2 --policy {policy} {more}");
            let output = work(&line);
            if output.status.success() {
                let text = String::from_utf8(output.stdout).expect("output is text");
                assert!(text.contains(&format!(" policy={policy} ")), "{text}");
                plausible(&result(&line));
            } else {
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(
                    errors.contains(&format!("policy {policy}: mbind: ")),
                    "{errors}"
                );
            }
        }
    }
}

/// What the kernel refuses to tell is not a number, and everything else is still measured.
#[test]
fn a_refused_question_is_not_available() {
    for (errno, why) in [
        (libc::EPERM, "not permitted"),
        (libc::ENOSYS, "not implemented"),
    ] {
        let mut command = Command::new(BALLAST);
        command.args("work numa-mem --shared-mib 1 --rounds 2".split(' '));
        // SAFETY: system calls alone, on memory of this function.
        unsafe { command.pre_exec(move || refuse_move_pages(errno)) };
        let output = command
            .output()
            .expect("the binary was built for this test");
        let text = String::from_utf8(output.stdout).expect("output is text");
        assert!(output.status.success(), "{text}");
        assert!(
            text.starts_with("local share not-available: move_pages: "),
            "{text}"
        );
        assert!(text.contains(why), "{text}");
        for key in [
            "local_start",
            "local_mean",
            "local_end",
            "absent_pages",
            "moved_pages_share",
        ] {
            assert!(text.contains(&format!(" {key}=not-available ")), "{text}");
        }
        assert!(text.contains(" rounds=2 "), "{text}");
    }
}

/// A filter that lets everything pass but move_pages.
fn refuse_move_pages(errno: i32) -> io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut steps = [
        // The number of the system call is the first word of what the filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(compare, 0, 1, libc::SYS_move_pages as u32),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | errno as u32,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: `filter` and its steps live until the calls have returned.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const filter,
        )
    };
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[test]
fn bad_arguments_are_refused() {
    for line in [
        "numa-mem --processes 0",
        "numa-mem --threads 0",
        "numa-mem --rounds 0",
        "numa-mem --rounds 1 --seconds 1",
        "numa-mem --shared-mib -1",
        "numa-mem --local-mib 1048577",
        "numa-mem --order sorted",
        "numa-mem --first-touch nobody",
        "numa-mem --sample-ms 0",
        "numa-mem --sample-pages 0",
        "numa-mem --shared-mib 0",
        "numa-mem --memory-on all",
        "numa-mem --start-on -1",
        "numa-mem --policy bind",
        "numa-mem --policy local:0",
        "numa-mem --policy interleave --memory-on 0",
        "numa-mem --shared-mib 0 --local-mib 1 --shared-between-processes",
        "numa-mem --report-at 5,5",
        "numa-mem --report-at 0",
        "numa-mem --report-at 1.5",
        "numa-mem --processes 1024 --threads 5 --shared-mib 1",
    ] {
        assert_eq!(work(line).status.code(), Some(2), "{line}");
    }
}

#[test]
fn what_the_machine_cannot_give_is_an_error() {
    for (line, why) in [
        (
            "numa-mem --shared-mib 1048576 --processes 1024",
            "are available",
        ),
        (
            "numa-mem --local-mib 1048576 --threads 1024",
            "are available",
        ),
        ("numa-mem --memory-on 1000", "node 1000 has no CPU"),
        ("numa-mem --start-on 1000", "node 1000 has no CPU"),
        ("numa-mem --policy bind:1000", "there is no node 1000"),
    ] {
        let output = work(line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {errors}");
        assert!(
            errors.starts_with("Error: ") && errors.contains(why),
            "{errors}"
        );
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn nothing_outlives_it() {
    let line = "numa-mem --processes 3 --threads 2 --shared-mib 1 --seconds 600";
    killed_alone(line, "scx_ballast");
    killed_member(line, "process 1", "scx_ballast");
}
