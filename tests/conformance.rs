// SPDX-License-Identifier: GPL-2.0-only
//! Do the user dispatcher and the simulator do what the kernel dispatcher does?
//!
//! `tests/lab/conformance` has run the scenarios below under scx_ballast on lab machines, with both dispatchers, a line for each
//! run; its files are in tests/fixtures/conformance. Here the same scenarios run in the simulator, on the machine as the
//! guest's `lscpu` described it, and all are set side by side: how uneven tasks were after their start-up and at their end (the
//! largest excess of one node over another, since which node is which is chance in all), and how many moves the balancer
//! decided.
//!
//! What counts as a difference to the kernel dispatcher: the two samples are mixed at random many times, and p is how often their
//! means are then as far apart as they really are. Repeats on the kernel do not explain a p below [`FAMILY`] over the number of comparisons
//! (Bonferroni). What is known to differ is in [`KNOWN`] with its reason, and in docs/simulation.md.
//!
//! With SCX_BALLAST_CONFORMANCE=DIR the files are those of DIR.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use scx_ballast::machine::Machine;
use scx_ballast::machine::describe::parse_text;
use scx_ballast::policy::limits::excess;
use scx_ballast::policy::observation::Shape;
use scx_ballast::policy::record::{Record, Replay};
use scx_ballast::sim::SimulateArgs;
use scx_ballast::sim::hardware::{Hardware, Params};
use scx_ballast::sim::outcome::Outcome;
use scx_ballast::sim::program::Plan;
use scx_ballast::sim::runs::Job;
use scx_ballast::sim::source::parse;

/// Runs of the simulator for each scenario.
const RUNS: u32 = 30;
/// How often all comparisons together may cry wolf.
const FAMILY: f64 = 0.05;
/// Times that samples are mixed.
const MIXES: u32 = 10_000;

/// A scenario by the name that the lab gives it, and what it is in the simulator.
const SCENARIOS: &[(&str, &str)] = &[
    (
        "fork_burst:4",
        "fork-burst:4,sleep_ms=100,spin_ms=800,clock=1",
    ),
    (
        "fork_burst:8",
        "fork-burst:8,sleep_ms=100,spin_ms=800,clock=1",
    ),
    (
        "fork_burst:12",
        "fork-burst:12,sleep_ms=100,spin_ms=800,clock=1",
    ),
    ("induced:6", INDUCED),
    // Emulated memory is equally far from everywhere.
    (
        "mpi:8",
        "mpi:8,iterations=6,work_ms=120,touch_ms=30,memory_permille=0",
    ),
    ("pair", "file:tests/fixtures/conformance/pair.txt"),
];

const INDUCED: &str = "file:tests/fixtures/conformance/induced.txt";
/// What the shell of [`INDUCED`] computes before and after it lets them go, in ms: the least, the median and the most of six
/// traced runs, each in a third of the runs. It differs in the lab by where the shell waits meanwhile.
const SHELLS: [(u32, u32); 3] = [(18, 1), (23, 9), (57, 13)];

/// Who differs from the kernel dispatcher, in which scenario and quantity, and why.
const KNOWN: &[(Side, &str, &str, &str)] = &[
    (Side::User, "pair", "first", NOT_TOLD),
    (Side::User, "pair", "last", NOT_TOLD),
];

const NOT_TOLD: &str = "it is not told who wakes whom (--sync-us)";

/// What is compared with the kernel dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    User,
    Simulator,
}

/// What is compared of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    first: u64,
    last: u64,
    moves: u64,
}

/// A name, and its value of a run.
struct Quantity(&'static str, fn(&Seen) -> u64);

const QUANTITIES: [Quantity; 3] = [
    Quantity("first", |seen| seen.first),
    Quantity("last", |seen| seen.last),
    Quantity("moves", |seen| seen.moves),
];

/// What the dispatchers did on one machine.
struct Recorded {
    name: String,
    kernel: String,
    machine: Machine,
    /// By scenario: the kernel dispatcher's runs, and the user dispatcher's.
    runs: BTreeMap<String, Vec<Seen>>,
    user: BTreeMap<String, Vec<Seen>>,
}

fn spread(counts: &[u32], weight: &[u32]) -> u64 {
    let nodes = || counts.iter().zip(weight);
    let pairs = nodes().flat_map(|(&a, &wa)| nodes().map(move |(&b, &wb)| excess(a, wa, b, wb)));
    pairs.max().unwrap_or(0)
}

/// `first 2 2 last 2 2 moves 0`
fn seen(text: &str, weight: &[u32]) -> Option<Seen> {
    let (first, rest) = text.strip_prefix("first ")?.split_once(" last ")?;
    let (last, moves) = rest.split_once(" moves ")?;
    let counts = |text: &str| -> Option<Vec<u32>> {
        let counts = text.split(' ').map(|count| count.parse().ok());
        counts.collect()
    };
    Some(Seen {
        first: spread(&counts(first)?, weight),
        last: spread(&counts(last)?, weight),
        moves: moves.parse().ok()?,
    })
}

fn read(path: &Path) -> Recorded {
    let text = std::fs::read_to_string(path).expect("what the lab recorded");
    let said = |head: &'static str| text.lines().filter_map(move |line| line.strip_prefix(head));
    // Every boot describes the same machine.
    let mut lscpu: Vec<&str> = Vec::new();
    for line in said("cpu ") {
        if !lscpu.contains(&line) {
            lscpu.push(line);
        }
    }
    let mut machine = parse_text(&lscpu.join("\n")).expect("lscpu's lines");
    // `distance 1 11 10 12 12`: a node, and its row. lscpu does not tell.
    for line in said("distance ") {
        let numbers = line.split(' ').map(|word| word.parse().expect("a number"));
        let numbers: Vec<u32> = numbers.collect();
        for (to, &distance) in (0..).zip(&numbers[1..]) {
            machine.distance(numbers[0], to, distance);
        }
    }
    let machine = machine.build().expect("a machine");
    let weight = Shape::of(&machine).weight;
    let mut runs: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    let mut user: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for line in text.lines() {
        if ["#", "cpu ", "distance "]
            .iter()
            .any(|head| line.starts_with(head))
        {
            continue;
        }
        let (of, rest) = match line.strip_prefix("user ") {
            Some(rest) => (&mut user, rest),
            None => (&mut runs, line),
        };
        let (name, result) = rest.split_once(' ').expect("a scenario's line");
        let result = seen(result, &weight).unwrap_or_else(|| panic!("{}: {line}", path.display()));
        of.entry(name.to_owned()).or_default().push(result);
    }
    let name = path.file_stem().expect("a name").to_string_lossy();
    Recorded {
        name: name.into_owned(),
        kernel: said("# kernel ").next().unwrap_or("?").to_owned(),
        machine,
        runs,
        user,
    }
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    simulate: SimulateArgs,
}

/// The scheduler as the lab starts it.
fn flags(workload: &str) -> SimulateArgs {
    let words = ["x", "--workload", workload, "--newborn-work-us", "100000"];
    Flags::parse_from(words).simulate
}

/// [`INDUCED`] with another shell.
fn induced((before, after): (u32, u32), hw: &Hardware) -> Plan {
    let mut text = include_str!("fixtures/conformance/induced.txt").to_owned();
    for (median, ms) in [("compute 23ms", before), ("compute 9ms", after)] {
        assert_eq!(text.matches(median).count(), 1, "{median}");
        text = text.replace(median, &format!("compute {ms}ms"));
    }
    parse(&text, hw).expect("a workload")
}

fn simulated(workload: &str, hw: &Hardware) -> Vec<Seen> {
    let args = flags(workload);
    let plans = match workload {
        INDUCED => SHELLS.map(|shell| induced(shell, hw)).to_vec(),
        _ => vec![args.workload.load(hw).expect("a workload").plan],
    };
    let runs = RUNS / plans.len() as u32;
    let mut outcomes = Vec::new();
    for (plan, seed) in plans.iter().zip((1..).step_by(runs as usize)) {
        let job = Job {
            hw,
            setup: &args.setup_with(&args.policy, &hw.nodes),
            plan,
            most_ns: 3600 * 1_000_000_000,
        };
        outcomes.extend(job.run_many(seed, runs).expect("it ends"));
    }
    let of = |run: &Outcome| Seen {
        first: run.first_spread,
        last: run.last_spread,
        moves: run.moves.excess + run.moves.utilisation,
    };
    outcomes.iter().map(of).collect()
}

/// How often mixed samples have means at least as far apart.
fn chance(a: &[u64], b: &[u64]) -> f64 {
    let mut all: Vec<u64> = a.iter().chain(b).copied().collect();
    let total: u64 = all.iter().sum();
    // Times both lengths, the difference of the means is a whole number.
    let apart = |sum: u64| {
        let here = u128::from(sum) * b.len() as u128;
        let there = u128::from(total - sum) * a.len() as u128;
        here.abs_diff(there)
    };
    let really = apart(a.iter().sum());
    let mut random = fastrand::Rng::with_seed(1);
    let mixed = (0..MIXES).filter(|_| {
        random.shuffle(&mut all);
        apart(all[..a.len()].iter().sum()) >= really
    });
    (mixed.count() + 1) as f64 / f64::from(MIXES + 1)
}

/// The same for samples from several machines, each mixed on its own: as far apart are the sums of their means' differences.
fn chance_together(machines: &[(Vec<u64>, Vec<u64>)]) -> f64 {
    let mean = |values: &[u64]| values.iter().sum::<u64>() as f64 / values.len() as f64;
    let mut mixed: Vec<(Vec<u64>, usize)> = machines
        .iter()
        .map(|(a, b)| ([&a[..], b].concat(), a.len()))
        .collect();
    let apart = |mixed: &[(Vec<u64>, usize)]| {
        let one = |(all, len): &(Vec<u64>, usize)| mean(&all[..*len]) - mean(&all[*len..]);
        mixed.iter().map(one).sum::<f64>().abs()
    };
    let really = apart(&mixed);
    let mut random = fastrand::Rng::with_seed(1);
    let as_far = (0..MIXES).filter(|_| {
        mixed.iter_mut().for_each(|(all, _)| random.shuffle(all));
        apart(&mixed) >= really - 1e-9
    });
    (as_far.count() + 1) as f64 / f64::from(MIXES + 1)
}

/// `0 in 4, 2 in 2`
fn listed(values: &[u64]) -> String {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for &value in values {
        *counts.entry(value).or_default() += 1;
    }
    let counts = counts
        .iter()
        .map(|(value, times)| format!("{value} in {times}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// The other side's values of a scenario's quantity, and the chance that they are those of the kernel dispatcher.
struct Other {
    side: Side,
    values: Vec<u64>,
    p: f64,
}

/// A scenario's quantity on all sides.
struct Row {
    scenario: &'static str,
    quantity: &'static str,
    kernel: Vec<u64>,
    others: Vec<Other>,
}

fn rows(recorded: &Recorded) -> Vec<Row> {
    let hw = Hardware::new(&recorded.machine, Params::default());
    let mut rows = Vec::new();
    for &(scenario, workload) in SCENARIOS {
        let Some(runs) = recorded.runs.get(scenario) else {
            continue;
        };
        let mut sides = vec![(Side::Simulator, simulated(workload, &hw))];
        if let Some(user) = recorded.user.get(scenario) {
            sides.insert(0, (Side::User, user.clone()));
        }
        for Quantity(quantity, of) in QUANTITIES {
            let kernel: Vec<u64> = runs.iter().map(of).collect();
            let others = sides.iter().map(|(side, runs)| {
                let values: Vec<u64> = runs.iter().map(of).collect();
                let p = chance(&kernel, &values);
                Other {
                    side: *side,
                    values,
                    p,
                }
            });
            let others = others.collect();
            rows.push(Row {
                scenario,
                quantity,
                kernel,
                others,
            });
        }
    }
    rows
}

impl Row {
    /// Who differs, as one of so many comparisons, and why if that is known.
    fn differ(&self, compared: usize) -> impl Iterator<Item = (Side, Option<&'static str>)> {
        let others = self.others.iter();
        let differ = others.filter(move |other| other.p * (compared as f64) < FAMILY);
        differ.map(|other| {
            let mut known = KNOWN.iter();
            let what = (other.side, self.scenario, self.quantity);
            let known = known.find(|known| (known.0, known.1, known.2) == what);
            (other.side, known.map(|known| known.3))
        })
    }

    fn of(&self, side: Side) -> (String, String) {
        let mut others = self.others.iter();
        let other = others.find(|other| other.side == side);
        other.map_or(("-".into(), "-".into()), |other| {
            (listed(&other.values), format!("{:.3}", other.p))
        })
    }
}

/// All side by side, as so many comparisons.
fn table(recorded: &Recorded, rows: &[Row], compared: usize) -> String {
    let Recorded { name, kernel, .. } = recorded;
    let mut table = format!("\n{name}, Linux {kernel}\n");
    let mut line = |cells: [&str; 7], notes: &str| {
        let [scenario, quantity, kernel, user, user_p, model, model_p] = cells;
        let _ = writeln!(
            table,
            "{scenario:14}{quantity:7}{kernel:24}{user:24}{user_p:>6}  {model:24}{model_p:>6}{notes}"
        );
    };
    line(["", "", "kernel", "user", "p", "simulator", "p"], "");
    for row in rows {
        let notes = row.differ(compared).map(|(side, why)| match why {
            Some(why) => format!("  {side:?} differs: {why}"),
            None => format!("  {side:?} DIFFERS"),
        });
        let notes: String = notes.collect();
        let (user, user_p) = row.of(Side::User);
        let (model, model_p) = row.of(Side::Simulator);
        let kernel = listed(&row.kernel);
        line(
            [
                row.scenario,
                row.quantity,
                &kernel,
                &user,
                &user_p,
                &model,
                &model_p,
            ],
            &notes,
        );
    }
    table
}

fn files() -> Vec<PathBuf> {
    let dir = std::env::var_os("SCX_BALLAST_CONFORMANCE");
    let dir = dir.map_or("tests/fixtures/conformance/lab".into(), PathBuf::from);
    let entries = std::fs::read_dir(&dir).expect("the directory of what the lab recorded");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    files
}

#[test]
fn both_do_what_the_kernel_dispatcher_does() {
    let files = files();
    assert!(!files.is_empty(), "nothing was recorded");
    let recorded: Vec<Recorded> = files.iter().map(|file| read(file)).collect();
    for one in &recorded {
        assert!(!one.runs.is_empty(), "{}", one.name);
        let mut names = one.runs.keys().chain(one.user.keys());
        let unknown = names.find(|name| SCENARIOS.iter().all(|known| known.0 != **name));
        assert_eq!(unknown, None, "a scenario that the simulator has not");
    }
    let all: Vec<Vec<Row>> = recorded.iter().map(rows).collect();
    let compared = all.iter().flatten().map(|row| row.others.len()).sum();
    let mut wrong = Vec::new();
    for (one, rows) in recorded.iter().zip(&all) {
        println!("{}", table(one, rows, compared));
        for row in rows {
            let unknown = row.differ(compared).filter(|(_, why)| why.is_none());
            wrong.extend(unknown.map(|(side, _)| {
                format!(
                    "{side:?} on {}: {}, {}",
                    one.name, row.scenario, row.quantity
                )
            }));
        }
    }
    assert!(
        wrong.is_empty(),
        "beyond what repeats differ by: {wrong:#?}"
    );
}

/// Few runs on one machine tell little; those on all machines together would show what the user dispatcher does otherwise.
#[test]
fn the_user_dispatcher_does_on_all_machines_together() {
    let recorded: Vec<Recorded> = files().iter().map(|file| read(file)).collect();
    let mut found = Vec::new();
    for &(scenario, _) in SCENARIOS {
        for Quantity(quantity, of) in QUANTITIES {
            let sides = recorded.iter().filter_map(|one| {
                let values = |runs: &BTreeMap<String, Vec<Seen>>| -> Option<Vec<u64>> {
                    Some(runs.get(scenario)?.iter().map(of).collect())
                };
                values(&one.runs).zip(values(&one.user))
            });
            let sides: Vec<_> = sides.collect();
            if !sides.is_empty() {
                found.push((scenario, quantity, chance_together(&sides)));
            }
        }
    }
    let compared = found.len() as f64;
    for (scenario, quantity, p) in found {
        let differs = p * compared < FAMILY;
        let mut known = KNOWN.iter();
        let known = known.find(|it| (it.0, it.1, it.2) == (Side::User, scenario, quantity));
        let why = known.map(|known| known.3).unwrap_or_default();
        let verdict = if differs { "differs" } else { "" };
        println!("{scenario:14}{quantity:7}{p:>6.3}  {verdict} {why}");
        assert!(!differs || known.is_some(), "{scenario}, {quantity}: p {p}");
    }
}

/// The yardstick itself: it tells samples apart that are, and no others.
#[test]
fn samples_are_told_apart() {
    assert!(chance(&[0; 6], &[0; 30]) > 0.99);
    assert!(chance(&[3; 6], &[4; 30]) < 0.01);
    assert!(chance(&[0, 2, 0, 0, 2, 0], &[0; 30]) < 0.1);
    assert!(chance(&[0, 0, 0, 0, 2, 0], &[0; 30]) > 0.01);
    let same = |value| (vec![value; 6], vec![value; 3]);
    let apart = (vec![2; 6], vec![0; 3]);
    assert!(chance_together(&[same(0), same(2)]) > 0.99);
    assert!(chance_together(&[apart.clone(), same(0)]) > 0.002);
    assert!(chance_together(&[apart.clone(), apart]) < 0.002);
    let weight = [8, 8];
    let line = seen("first 6 0 last 4 2 moves 5", &weight);
    assert_eq!(
        line,
        Some(Seen {
            first: 6,
            last: 2,
            moves: 5
        })
    );
    assert_eq!(seen("first 6 0 last 4 2", &weight), None);
}

/// A trace of a lab machine (7.3, 2x8): bursts and ranks under the scheduler. What it observed is decided again by the policy that
/// the simulator asks, to the bit, and its limits are those that the simulator compiles for the machine.
#[test]
fn what_the_lab_observed_is_decided_again() {
    let text = include_str!("fixtures/conformance/trace-2x8.jsonl");
    let mut replay = Replay::default();
    let mut exits = 0;
    for (line, number) in text.lines().zip(1..) {
        let record: Record =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{number}: {error}"));
        if let Record::Header(header) = &record {
            let machine = "2 nodes x 8 cpus".parse::<scx_ballast::machine::describe::Source>();
            let machine = machine.unwrap().machine(None).unwrap();
            let hw = Hardware::new(&machine, Params::default());
            let args = flags("mpi:4");
            assert_eq!(header.shape, hw.shape);
            assert_eq!(
                header.limits,
                args.setup_with(&args.policy, &hw.nodes).limits
            );
        }
        exits += u64::from(matches!(record, Record::Exit(_)));
        replay
            .check(record)
            .unwrap_or_else(|why| panic!("{number}: {why}"));
    }
    assert!(
        replay.forks >= 12 && replay.ticks > 0 && exits >= 12,
        "{replay:?}"
    );
    assert_eq!((replay.mismatches, replay.lost), (0, 0));
}
