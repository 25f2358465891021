// SPDX-License-Identifier: GPL-2.0-only
//! Written workloads that run: how they come to their end, and what is said of those that come to none.

mod simulated;

use scx_ballast::sim::outcome::Outcome;
use scx_ballast::sim::source::parse;
use scx_ballast::sim::world::SimError;
use simulated::{MS, hw, run_plan};

/// A workload file on two nodes of eight CPUs, for at most so long.
fn run(text: &str, most_ns: u64) -> Result<Outcome, SimError> {
    let plan = parse(text, &hw()).unwrap();
    run_plan(&plan, most_ns).map(|(outcome, _)| outcome)
}

/// Threads of a written process work on what one of them has touched, and go on when the last spins.
#[test]
fn written_threads_share_memory_and_spin() {
    let text = "
        barrier ready 2
        nodes near 0
        nodes far 1
        program owner
            confine near
            use shared
            touch 10ms 100%
            thread other
            spin ready
            mark end
            wait
        end
        program other
            mark begin
            use shared
            confine far
            memory 10ms 100%
            spin ready
        end
        start owner";
    let outcome = run(text, 1000 * MS).unwrap();
    assert_eq!(outcome.local_permille, Some(0), "all of it is on node 0");
    // At distance 20 it takes twice as long, and the owner spins until then.
    assert!((19..22).contains(&(outcome.run_ns / MS)), "{outcome:?}");
}

/// Who writes a workload that hangs is told where.
#[test]
fn a_deadlock_is_told_by_its_names() {
    let text = "
        barrier round 3
        pipe results 2
        queue room 1
        program launcher
            fork rank 2
            fork reader
            fork writer
            wait
        end
        program rank
            compute 1ms
            barrier round
        end
        program reader
            receive results
        end
        program writer
            send room
            send room
        end
        start launcher";
    let told = |text: &str| run(text, u64::MAX).unwrap_err().to_string();
    assert_eq!(
        told(text),
        "5 tasks are asleep and nobody is left to wake them; waiting at barrier 'round' in line 2, where 2 of 3 have \
         come: program 'rank' in line 11 (tasks 1, 2); for a message from pipe 'results' in line 3: program 'reader' in \
         line 15 (task 3); for room in queue 'room' in line 4: program 'writer' in line 18 (task 4); for children: \
         program 'launcher' in line 5 (task 0)"
    );
    // One that spins is awake, and waits all the same.
    let spin = text.replace("barrier round\n", "spin round\n");
    assert!(
        told(&spin).starts_with(
            "5 tasks are not through: 2 spin, 3 are asleep, and nobody is left to let them go on; waiting at barrier \
             'round' in line 2, where 2 of 3 have come: program 'rank' in line 11 (tasks 1, 2); for a message"
        ),
        "{}",
        told(&spin)
    );
    let alone = |times: u32| {
        format!(
            "barrier all 30\nstart p\nprogram p\nfork q {times}\nspin all\nend\nprogram q\nspin all\nend\n"
        )
    };
    // More than there are CPUs: some spin in queues.
    assert_eq!(
        told(&alone(28)),
        "29 tasks spin and nobody is left to let them go on; waiting at barrier 'all' in line 1, where 29 of 30 have \
         come: program 'p' in line 3 (task 0), program 'q' in line 7 (tasks 1, 2, 3, 4 and 24 more)"
    );
    run(&alone(29), u64::MAX).unwrap();
}

/// While one sleeps, computes or waits for its turn, those that spin may have something to wait for.
#[test]
fn who_spins_for_somebody_goes_on() {
    for before in ["sleep 1s", "busy 1s", "compute 1s", "touch 1s 50%"] {
        let text = format!(
            "barrier all 20\nstart p\nprogram p\nfork q 19\n{before}\nspin all\nend\nprogram q\nspin all\nend\n"
        );
        let outcome = run(&text, u64::MAX).unwrap();
        assert!(outcome.wall_ns >= 950 * MS, "{before}: {outcome:?}");
    }
}

/// ... and who computes or sleeps too long, what it does.
#[test]
fn what_takes_too_long_is_told() {
    let told = |text: &str, most_ns| run(text, most_ns).unwrap_err().to_string();
    assert_eq!(
        told("start p\nprogram p\ncompute 10s\nend\n", 2000 * MS),
        "1 task is not through after 2 simulated seconds, the limit that --limit-s sets; computing: program 'p' in line 2 (task 0)"
    );
    let text = "start p\nprogram p\nfork q 2\nfork r\nbusy 9s\nend\nprogram q\nsleep 9s\nend\n\
                program r\ntouch 1ms 10%\nmemory 9s 10%\nend\n";
    assert_eq!(
        told(text, 1000 * MS),
        "4 tasks are not through after 1 simulated second, the limit that --limit-s sets; \
         working on memory: program 'r' in line 10 (task 3); busy: program 'p' in line 2 (task 0); sleeping: program \
         'q' in line 7 (tasks 1, 2)"
    );
}

/// No time lies between an end and a beginning after it, also where the programs' order shows only when they run.
#[test]
fn what_ends_before_it_begins_has_no_time() {
    let text = "start p\nprogram p\nfork q\nmark end\nend\nprogram q\nsleep 1ms\nmark begin\nend\n";
    let error = run(text, 1000 * MS).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the last `mark end` (line 4) comes before the first `mark begin` (line 8)"
        ),
        "{error}"
    );
    let outcome = run(&text.replace("mark end", "wait\nmark end"), 1000 * MS).unwrap();
    assert!(outcome.run_ns < outcome.wall_ns, "{outcome:?}");
}
