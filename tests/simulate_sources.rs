// SPDX-License-Identifier: GPL-2.0-only
//! Workload files: what they say is what runs, and what cannot be understood is answered with its line.

use scx_ballast::machine::describe::Source as Description;
use scx_ballast::sim::hardware::{Hardware, Params};
use scx_ballast::sim::program::{Channel, Mark, Name, Op, Plan, PlanNames, Whose};
use scx_ballast::sim::source::{Source, parse};

const MS: u64 = 1_000_000;

fn hardware(machine: &str) -> Hardware {
    let source: Description = machine.parse().expect("a machine");
    Hardware::new(&source.machine(None).expect("a machine"), Params::default())
}

/// Two nodes of eight CPUs.
fn hw() -> Hardware {
    hardware("2 nodes x 8 cpus")
}

/// Every statement there is.
const ALL: &str = "
barrier all 3           # tasks that come to it
pipe data 16
queue words 2
nodes second 1
start launcher          # programs may be named before they are written

program launcher
    fork helper 2 500us
    wait
end
program helper
    compute 100us
    sleep 50ms
    exec
    mark first
    touch 40ms 70%
    barrier all
    mark begin
    repeat 10
        memory 2s 100%
        send data
        receive data
    end
    mark end
    confine second
    confine all
    thread part 1 20us
end
program part
    busy 3ms
    use shared
    touch 1ms 7.5%
    use own
    send words
    receive words
    spin all
end
";

fn named(text: &str, line: usize) -> Name {
    Name {
        text: text.to_owned(),
        line,
    }
}

#[test]
fn a_file_is_the_plan_that_it_says() {
    let wanted = Plan {
        programs: vec![
            vec![
                Op::Compute(MS / 2),
                Op::Fork(1),
                Op::Compute(MS / 2),
                Op::Fork(1),
                Op::WaitChildren,
            ],
            vec![
                Op::Compute(MS / 10),
                Op::Sleep(50 * MS),
                Op::Exec,
                Op::Mark(Mark::First),
                Op::Touch {
                    work: 40 * MS,
                    intensity: 700_000,
                },
                Op::Barrier(0),
                Op::Mark(Mark::Begin),
                Op::Memory {
                    work: 2000 * MS,
                    intensity: 1_000_000,
                },
                Op::Send(0),
                Op::Receive(0),
                Op::Repeat { to: 7, times: 10 },
                Op::Mark(Mark::End),
                Op::Confine(Some(0)),
                Op::Confine(None),
                Op::Compute(MS / 50),
                Op::Thread(2),
            ],
            vec![
                Op::Busy(3 * MS),
                Op::Use(Whose::Process),
                Op::Touch {
                    work: MS,
                    intensity: 75_000,
                },
                Op::Use(Whose::Task),
                Op::Send(1),
                Op::Receive(1),
                Op::Spin(0),
            ],
        ],
        barriers: vec![3],
        channels: vec![
            Channel {
                capacity: 16,
                sync: true,
            },
            Channel {
                capacity: 2,
                sync: false,
            },
        ],
        sets: vec![(8..16).collect()],
        root: 0,
        names: PlanNames {
            programs: vec![named("launcher", 8), named("helper", 12), named("part", 30)],
            barriers: vec![named("all", 2)],
            channels: vec![named("data", 3), named("words", 4)],
            marks: Some((19, 25)),
        },
    };
    assert_eq!(parse(ALL, &hw()), Ok(wanted));
}

/// Without marks tasks are looked at when they begin, and loops still go back to where they began.
#[test]
fn a_file_without_marks_counts_births() {
    let text = "program a\nrepeat 2\ncompute 1ms\nend\nend\nstart a";
    let plan = parse(text, &hw()).unwrap();
    let wanted = [
        Op::Mark(Mark::First),
        Op::Compute(MS),
        Op::Repeat { to: 1, times: 2 },
    ];
    assert_eq!(plan.programs, [wanted]);
}

/// The built-in burst, written down.
#[test]
fn a_written_workload_runs_as_the_built_in_one() {
    let text = "
        program parent
            fork child 20 200us
            wait
        end
        program child
            compute 100us
            sleep 50ms
            mark first
            mark begin
            compute 200ms
            mark end
        end
        start parent";
    let built_in: Source = "fork-burst:20".parse().unwrap();
    let hw = hw();
    let written = parse(text, &hw).unwrap();
    let built_in = built_in.load(&hw).unwrap().plan;
    // Programs stand in another order.
    assert_eq!(
        written.programs[written.root].len(),
        built_in.programs[built_in.root].len()
    );
    assert_eq!(written.programs[1], built_in.programs[0]);
}

#[test]
fn what_is_not_understood_is_answered_with_its_line() {
    let program = |steps: &str| format!("start a\nprogram a\n{steps}\nend\n");
    for (text, why) in [
        (
            String::new(),
            "line 1: there is no program; expected `program NAME`, steps, `end`",
        ),
        (
            "program a\nend".into(),
            "line 1: nothing says where to begin; expected a line `start PROGRAM`",
        ),
        (
            "start b\nprogram a\nend".into(),
            "line 1: there is no program 'b'; there are a",
        ),
        (
            "start a\nstart a\nprogram a\nend".into(),
            "line 2: there is a second `start`",
        ),
        (
            "compute 1ms".into(),
            "line 1: expected one of program, barrier, pipe, queue, nodes, start, got 'compute'",
        ),
        (
            "program a\ncompute 1ms\n".into(),
            "line 1: program 'a' has no `end`",
        ),
        (
            "program a\nrepeat 2\nend\n".into(),
            "line 1: program 'a' has no `end`; that of line 3 ends a loop",
        ),
        (
            "program a\nrepeat 2\ncompute 1ms\n".into(),
            "line 1: a loop in program 'a' has no `end`",
        ),
        (
            "program a\nprogram b\nend".into(),
            "line 1: program 'a' has no `end`",
        ),
        (
            "program a\nend\nprogram a\nend".into(),
            "line 3: program 'a' is already there, in line 1",
        ),
        (
            "barrier b 0".into(),
            "line 1: expected a number from 1 to 1000000, got '0'",
        ),
        (
            "pipe p".into(),
            "line 1: expected `pipe NAME MESSAGES`, got `pipe p`",
        ),
        (
            "nodes n 0-x".into(),
            "line 1: expected nodes such as 0-1,4, got '0-x'",
        ),
        (
            "nodes n 5".into(),
            "line 1: the machine has no node 5 with CPUs; it has 0-1",
        ),
        (
            program("sleeep 1ms"),
            "line 3: expected one of compute, busy, memory, ",
        ),
        (
            program("compute 20"),
            "line 3: expected a time such as 20ms",
        ),
        (
            program("compute"),
            "line 3: expected `compute TIME`, got `compute`",
        ),
        (
            program("touch 1ms 70"),
            "line 3: expected a share from 0% to 100%, such as 74.1%, got '70'",
        ),
        (
            program("barrier b"),
            "line 3: there is no barrier 'b'; there is none",
        ),
        (program("send p"), "line 3: there is no pipe or queue 'p'"),
        (
            program("use both"),
            "line 3: expected use own or shared, got 'both'",
        ),
        (
            program("spin b"),
            "line 3: there is no barrier 'b'; there is none",
        ),
        (
            program("exec\nthread b\nexec\nend\nprogram b"),
            "line 5: only a process of one thread can `exec`",
        ),
        (
            program("repeat 2\nexec\nthread b\nend\nend\nprogram b"),
            "line 4: only a process of one thread can `exec`",
        ),
        (
            program("exec\nthread b\nend\nprogram b\nexec"),
            "line 7: only a process of one thread can `exec`",
        ),
        (program("confine n"), "line 3: there is no set of nodes 'n'"),
        (
            program("mark middle"),
            "line 3: expected mark first, begin or end, got 'middle'",
        ),
        (
            program("fork b"),
            "line 3: there is no program 'b'; there are a",
        ),
        (
            program("fork a 2 1ms x"),
            "line 3: expected `fork PROGRAM [TIMES [TIME]]`",
        ),
        (program("fork a"), "line 2: program 'a' starts itself again"),
        (program("repeat 2\nrepeat 3"), "line 4: loops do not nest"),
        (
            program("repeat 2\nend\n"),
            "line 4: there is nothing in the loop",
        ),
        (
            program("exec now"),
            "line 3: expected `exec`, got `exec now`",
        ),
        (
            program("repeat 1000\nfork b 1000\nend\nend\nprogram b\nfork c 2\nend\nprogram c"),
            "line 2: it starts 3000001 tasks, and at most 1000000 are run",
        ),
    ] {
        let error = parse(&text, &hw()).expect_err(&text).to_string();
        assert!(error.starts_with(why), "{text}\n{error}");
    }
}

/// mg.D by hand is mg.D: the same operations, one after the other.
#[test]
fn mgd_can_be_written_down() {
    let file = include_str!("fixtures/workloads/mgd.txt");
    let docs = include_str!("../docs/simulation.md");
    assert!(docs.contains(&format!("```text\n{file}```")), "docs");
    let written = parse(file, &hw()).unwrap();
    let built_in: Source = "mgd:16".parse().unwrap();
    let built_in = built_in.load(&hw()).unwrap().plan;
    // The built-in one has its rank first.
    let [launcher, rank] = &written.programs[..] else {
        panic!("{written:?}");
    };
    assert_eq!(*rank, built_in.programs[0]);
    let forks = |ops: &[Op], rank: usize| {
        let is_it = |op: &&Op| **op == Op::Fork(rank);
        ops.iter().filter(is_it).count()
    };
    assert_eq!(forks(launcher, 1), 16);
    assert_eq!(forks(&built_in.programs[1], 0), 16);
    assert_eq!(launcher.len(), built_in.programs[1].len());
    assert_eq!(written.barriers, built_in.barriers);
}

#[test]
fn marks_of_programs_that_nobody_starts_are_told() {
    let of = |steps: &str| {
        let text = format!(
            "start p\nprogram p\n{steps}\nend\nprogram q\nthread r\nend\nprogram r\nmark begin\nmark end\nend\n"
        );
        parse(&text, &hw()).map_err(|error| error.to_string())
    };
    let error = of("compute 1ms").unwrap_err();
    assert!(
        error.starts_with("line 9: this mark is never reached: nobody starts program 'r'"),
        "{error}"
    );
    of("fork q").unwrap();
}

/// The file that the documentation shows.
#[test]
fn the_documented_example_is_understood() {
    let docs = include_str!("../docs/simulation.md");
    let (_, rest) = docs
        .split_once("```text\n# A launcher")
        .expect("the example");
    let (example, _) = rest.split_once("```").expect("its end");
    let text = format!("# A launcher{example}");
    let hw = hardware("2 nodes x 16 cpus");
    let plan = parse(&text, &hw).unwrap();
    assert!(plan.programs.len() > 1);
    let file = include_str!("fixtures/workloads/launcher.txt");
    assert_eq!(
        text, file,
        "the documentation and the file that the tests run differ"
    );
}

/// A file of one program `p`, which starts, with these steps; `q` computes.
fn steps(steps: &str) -> Result<Plan, String> {
    let text = format!("start p\nprogram p\n{steps}\nend\nprogram q\ncompute 1ms\nend\n");
    parse(&text, &hw()).map_err(|error| error.to_string())
}

#[test]
fn marks_that_say_nothing_of_the_start_leave_it_at_birth() {
    let plan = steps("mark begin\ncompute 1ms\nmark end").unwrap();
    assert_eq!(
        plan.programs[0][..2],
        [Op::Mark(Mark::First), Op::Mark(Mark::Begin)]
    );
    let own = steps("compute 1ms\nmark first").unwrap();
    assert_eq!(own.programs[0], [Op::Compute(MS), Op::Mark(Mark::First)]);
    for (text, missing) in [("mark begin", "`mark end`"), ("mark end", "`mark begin`")] {
        let error = steps(text).unwrap_err();
        assert!(error.contains(&format!("nowhere {missing}")), "{error}");
        assert!(error.contains("line 3"), "{error}");
    }
}

#[test]
fn many_forks_are_one_loop_and_too_many_tasks_are_told() {
    let plan = steps("fork q 1000 2ms").unwrap();
    let ops = [
        Op::Compute(2 * MS),
        Op::Fork(1),
        Op::Repeat { to: 1, times: 1000 },
    ];
    assert_eq!(plan.programs[0][1..], ops);
    let error = steps("fork q 1000000").unwrap_err();
    assert!(error.contains("starts 1000001 tasks"), "{error}");
    let error = parse("nodes all 0\nstart p\nprogram p\nend\n", &hw()).unwrap_err();
    assert!(
        error.to_string().contains("'all' means all nodes"),
        "{error}"
    );
}

/// No time lies between an end and a beginning after it.
#[test]
fn an_end_before_its_beginning_is_told() {
    let error = steps("compute 1ms\nmark end\ncompute 1ms\nmark begin").unwrap_err();
    assert!(
        error.starts_with("line 4: `mark end` comes before `mark begin`, which is in line 6"),
        "{error}"
    );
    // In turns it has one.
    steps("mark begin\ncompute 1ms\nmark end\nmark begin\nmark end").unwrap();
}
