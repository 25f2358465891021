// SPDX-License-Identifier: GPL-2.0-only
//! `--sweep FLAG=FROM..TO[..STEP]`: one flag's values, each with the same seeds.
//!
//! Any flag of [`PolicyArgs`] that takes a number can be swept. A value is given to the flag's own parser,
//! so it has the flag's range and errors; there is no second list of flags here. All points and seeds run
//! side by side, and the outcome does not depend on who is through first.

mod judge;
mod report;
mod same;

use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;

use clap::{Args as _, Command, FromArgMatches as _};

use super::outcome::Outcome;
use super::runs::{Job, side_by_side};
use super::world::{Setup, SimError};
use crate::cli::PolicyArgs;

pub use judge::Verdict;
pub use report::{Ground, SweepReport};
pub use same::Effects;

/// Points of one sweep, at most.
const MOST: u64 = 1000;

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Without the dashes.
    flag: String,
    from: u64,
    to: u64,
    step: u64,
    /// Values are shares of something: `5%`.
    percent: bool,
}

/// A value, and the scheduler that it makes.
#[derive(Debug)]
pub struct Point {
    pub value: String,
    pub setup: Setup,
}

impl Sweep {
    pub fn flag(&self) -> &str {
        &self.flag
    }

    /// The values, as they are written on a command line.
    pub fn values(&self) -> impl Iterator<Item = String> {
        let sign = if self.percent { "%" } else { "" };
        let steps = 0..=(self.to - self.from) / self.step;
        steps.map(move |n| format!("{}{sign}", self.from + n * self.step))
    }

    /// The points: `policy` but for the flag, as `setup` makes a scheduler of it, where `effects` says.
    ///
    /// # Errors
    /// What the flag's parser says of the first value that it does not take; or no value makes a difference.
    pub fn points(
        &self,
        policy: &PolicyArgs,
        setup: impl Fn(&PolicyArgs) -> Setup,
        effects: Effects,
    ) -> Result<Vec<Point>, String> {
        let point = |value: String| {
            let setup = setup(&self.with(policy, &value)?);
            Ok(Point { value, setup })
        };
        let points: Vec<Point> = self.values().map(point).collect::<Result<_, String>>()?;
        let effective: Vec<Setup> = points
            .iter()
            .map(|p| same::effective(&p.setup, effects))
            .collect();
        if points.len() > 1 && effective.windows(2).all(|pair| pair[0] == pair[1]) {
            let with = |value: &str| Some(setup(&self.with(policy, value).ok()?));
            let first = (&points[0].setup, effects);
            return Err(same::why(&self.flag, policy, first, with));
        }
        Ok(points)
    }

    /// `policy` with another value of the flag.
    fn with(&self, policy: &PolicyArgs, value: &str) -> Result<PolicyArgs, String> {
        let words = [format!("--{}", self.flag), value.to_owned()];
        let mut policy = policy.clone();
        flags()
            .try_get_matches_from(words)
            .and_then(|mut matches| policy.update_from_arg_matches_mut(&mut matches))
            .map_err(|error| {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                line.trim_start_matches("error: ").to_owned()
            })?;
        Ok(policy)
    }
}

/// All flags of the policy. Without defaults, which would overwrite what the user chose.
fn flags() -> Command {
    let command = Command::new("sweep").no_binary_name(true);
    PolicyArgs::augment_args_for_update(command).mut_args(|arg| arg.default_value(None))
}

/// Names of those that take numbers.
fn numeric() -> Vec<String> {
    let command = flags();
    let names = command.get_arguments().filter_map(|arg| arg.get_long());
    let names = names.filter(|&name| name != "rules");
    names.map(str::to_owned).collect()
}

/// By what the flag's help shows.
fn takes_percent(flag: &str) -> bool {
    let command = flags();
    let mut shown = command
        .get_arguments()
        .filter(|arg| arg.get_long() == Some(flag))
        .flat_map(|arg| arg.get_possible_values());
    shown.any(|value| value.get_name().contains('%'))
}

/// What is expected where something else was found.
const EXPECTED: &str =
    "expected FLAG=FROM..TO or FLAG=FROM..TO..STEP, for example imb-numa-nr=1..32";

/// `FROM..TO` or `FROM..TO..STEP`: the three, and whether they are in percent.
fn numbers(range: &str) -> Result<(u64, u64, u64, bool), String> {
    let parts: Vec<&str> = range.split("..").collect();
    let percent = parts.iter().all(|part| part.ends_with('%'));
    if !percent && parts.iter().any(|part| part.ends_with('%')) {
        return Err(format!(
            "'{range}' mixes numbers and percent; write all of FROM, TO and STEP with % or none, as in 5%..50%..5%"
        ));
    }
    let number = |part: &str| {
        let digits = part.strip_suffix('%').unwrap_or(part);
        digits.parse::<u64>().map_err(|error| match error.kind() {
            IntErrorKind::PosOverflow => format!("'{part}' is too large a number"),
            IntErrorKind::Empty => format!("a number is missing in '{range}'; {EXPECTED}"),
            _ => format!("'{part}' in '{range}' is no whole number from 0 up; {EXPECTED}"),
        })
    };
    let (from, to, step) = match parts[..] {
        [from, to] => (number(from)?, number(to)?, 1),
        [from, to, step] => (number(from)?, number(to)?, number(step)?),
        [_] => {
            return Err(format!(
                "'{range}' is no range: two dots are between its ends; {EXPECTED}"
            ));
        }
        _ => {
            return Err(format!(
                "'{range}' has more than FROM, TO and STEP; {EXPECTED}"
            ));
        }
    };
    if from > to {
        return Err(format!(
            "'{range}' goes down; expected FROM up to TO, the smaller one first"
        ));
    }
    if step == 0 {
        return Err(format!("'{range}' has a STEP of 0; expected 1 or more"));
    }
    if step > to - from {
        return Err(format!(
            "'{range}' has one value, {from}, and a sweep compares at least two: STEP, the last number, is how far apart \
             they are"
        ));
    }
    Ok((from, to, step, percent))
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (flag, range) = text
            .split_once('=')
            .ok_or_else(|| format!("'{text}' has no range; {EXPECTED}"))?;
        let flag = flag.trim_start_matches('-');
        if flag.is_empty() {
            return Err(format!(
                "the flag's name is missing in '{text}'; {EXPECTED}"
            ));
        }
        let known = numeric();
        if !known.iter().any(|name| name == flag) {
            return Err(format!(
                "'{flag}' is no flag that can be swept; those are {}",
                known.join(", ")
            ));
        }
        let (from, to, step, percent) = numbers(range)?;
        if percent && !takes_percent(flag) {
            return Err(format!("--{flag} takes no percent"));
        }
        let points = ((to - from) / step).saturating_add(1);
        if points > MOST {
            return Err(format!(
                "that is {points} points, and at most {MOST} are run; give a larger STEP"
            ));
        }
        let flag = flag.to_owned();
        Ok(Self {
            flag,
            from,
            to,
            step,
            percent,
        })
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.percent { "%" } else { "" };
        let Self {
            flag,
            from,
            to,
            step,
            ..
        } = self;
        write!(f, "{flag}={from}{sign}..{to}{sign}..{step}{sign}")
    }
}

/// All runs of all points, by point and then by seed.
///
/// # Errors
/// Of the first point and seed that has one.
pub fn run(
    points: &[Point],
    job: &Job<'_>,
    seed: u64,
    runs: u32,
) -> Result<Vec<Vec<Outcome>>, SimError> {
    let runs = runs as usize;
    let one = |at: usize| {
        let setup = &points[at / runs].setup;
        Job { setup, ..*job }.run(seed.wrapping_add((at % runs) as u64))
    };
    let all: Result<Vec<Outcome>, SimError> =
        side_by_side(points.len() * runs, one).into_iter().collect();
    Ok(all?.chunks(runs).map(<[Outcome]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineBuilder;
    use crate::policy::compile::NodeShape;
    use crate::sim::SimulateArgs;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        simulate: SimulateArgs,
    }

    fn parsed(words: &[&str]) -> SimulateArgs {
        Flags::parse_from([&["x", "--workload", "mpi:4"], words].concat()).simulate
    }

    const TWO_LLCS: Effects = Effects {
        llcs: 2,
        confined: false,
    };
    const ONE_LLC: Effects = Effects {
        llcs: 1,
        confined: false,
    };

    /// Two nodes of eight CPUs.
    fn setup(args: &SimulateArgs, policy: &PolicyArgs) -> Setup {
        let machine = MachineBuilder::uniform(2, 1, 8, 1).build().unwrap();
        args.setup_with(policy, &NodeShape::all(&machine))
    }

    fn points(text: &str, args: &SimulateArgs) -> Result<Vec<Point>, String> {
        let sweep: Sweep = text.parse().expect(text);
        sweep.points(&args.policy, |policy| setup(args, policy), TWO_LLCS)
    }

    fn values(text: &str) -> Vec<String> {
        text.parse::<Sweep>().expect(text).values().collect()
    }

    #[test]
    fn ranges() {
        assert_eq!(values("imb-numa-nr=3..5"), ["3", "4", "5"]);
        assert_eq!(values("--slice-us=1000..4000..2000"), ["1000", "3000"]);
        assert_eq!(values("imb-numa-nr=5%..15%..5%"), ["5%", "10%", "15%"]);
        for (text, why) in [
            (
                "imb-numa-nr",
                "'imb-numa-nr' has no range; expected FLAG=FROM..TO",
            ),
            ("imb-numa-nr=4", "'4' is no range: two dots are"),
            ("imb-numa-nr=1-4", "'1-4' is no range: two dots are"),
            ("imb-numa-nr=", "'' is no range: two dots are"),
            (
                "imb-numa-nr=auto..4",
                "'auto' in 'auto..4' is no whole number",
            ),
            ("imb-numa-nr=-1..4", "'-1' in '-1..4' is no whole number"),
            ("imb-numa-nr=1...4", "'.4' in '1...4' is no whole number"),
            ("imb-numa-nr=..4", "a number is missing in '..4'"),
            ("imb-numa-nr=%..4%", "a number is missing in '%..4%'"),
            (
                "imb-numa-nr=5%%..9%",
                "'5%%' in '5%%..9%' is no whole number",
            ),
            ("imb-numa-nr=5%..7", "'5%..7' mixes numbers and percent"),
            (
                "imb-numa-nr=1..99999999999999999999",
                "is too large a number",
            ),
            ("imb-numa-nr=1..2..3..4", "has more than FROM, TO and STEP"),
            (
                "imb-numa-nr=5..4",
                "'5..4' goes down; expected FROM up to TO",
            ),
            ("imb-numa-nr=1..4..0", "a STEP of 0; expected 1 or more"),
            (
                "imb-numa-nr=1..3..5",
                "'1..3..5' has one value, 1, and a sweep",
            ),
            ("imb-numa-nr=4..4", "'4..4' has one value, 4, and a sweep"),
            ("=1..4", "the flag's name is missing"),
            ("slice-us=1%..4%", "--slice-us takes no percent"),
            ("imb-numa-nr=0..18446744073709551615", "larger STEP"),
            ("slice-us=1000..9000", "larger STEP"),
            ("rules=1..2", "those are imbalance-min, imb-numa-nr, "),
            ("max-tasks=1..2", "'max-tasks' is no flag"),
        ] {
            let error = text.parse::<Sweep>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    /// The swept flag changes and no other, not even to its default.
    #[test]
    fn only_the_flag_changes() {
        let words = [
            "--slice-us",
            "7000",
            "--imb-numa-nr",
            "3",
            "--rules",
            "v6.0",
        ];
        let base = parsed(&words);
        let all = points("pull-delay-us=100..300..100", &base).unwrap();
        for (value, point) in ["100", "200", "300"].iter().zip(all) {
            assert_eq!(point.value, *value);
            let same = parsed(&[&words[..], &["--pull-delay-us", value]].concat());
            assert_eq!(point.setup, setup(&same, &same.policy));
        }
        let all = points("imb-numa-nr=1..4", &base).unwrap();
        assert_eq!(all[2].setup, setup(&base, &base.policy));
        assert_ne!(all[1].setup, all[2].setup);
    }

    #[test]
    fn other_flags_than_those_of_the_limits_are_swept_under_all_rules() {
        let base = parsed(&["--rules", "none"]);
        assert_eq!(points("slice-us=1000..2000..1000", &base).unwrap().len(), 2);
    }

    /// What other flags switch off or cap is refused with the reason, and what they do not is swept.
    #[test]
    fn values_that_come_to_the_same_are_refused_with_the_reason() {
        for (words, sweep, why) in [
            (&[][..], "imb-numa-nr=8..12", "capped at the node's CPUs"),
            (&[], "imb-numa-nr=30%..36%..6%", "same whole number"),
            (&["--without", "r9"], "pull-delay-us=1..3", "--without r9"),
            (
                &[],
                "slice-min-us=5000..8000..1000",
                "--slice-us, which is 5000",
            ),
            (
                &["--slice-us", "100"],
                "slice-min-us=100..200..100",
                "which is 100",
            ),
        ] {
            let error = points(sweep, &parsed(words)).expect_err(sweep);
            assert!(error.contains(why), "{sweep}: {error}");
        }
        for (words, sweep) in [
            (&[][..], "imb-numa-nr=7..12"),
            (&[], "newborn-ms=0..200..100"),
            (&["--without", "r9"], "newborn-work-us=1..3"),
            (&["--without", "r6"], "pull-delay-us=1..3"),
            (&[], "slice-min-us=4000..6000..1000"),
            (&[], "balance-interval-ms=100..102"),
        ] {
            assert!(points(sweep, &parsed(words)).expect(sweep).len() > 1);
        }
        let machine = MachineBuilder::uniform(1, 1, 8, 1).build().unwrap();
        let args = parsed(&[]);
        let alone = |policy: &PolicyArgs| args.setup_with(policy, &NodeShape::all(&machine));
        let on_one = |sweep: &str, effects| {
            let sweep: Sweep = sweep.parse().unwrap();
            sweep.points(&args.policy, alone, effects)
        };
        for sweep in [
            "imb-numa-nr=1..4",
            "imbalance-min=0..9",
            "balance-interval-ms=100..102",
        ] {
            let error = on_one(sweep, TWO_LLCS).unwrap_err();
            assert!(error.contains("there is one node"), "{error}");
        }
        for sweep in [
            "newborn-ms=0..200..100",
            "newborn-work-us=1..3",
            "pull-delay-us=1..3",
        ] {
            let error = on_one(sweep, ONE_LLC).unwrap_err();
            assert!(error.contains("there is one LLC"), "{error}");
            // LLCs of a node are compared, too.
            assert_eq!(on_one(sweep, TWO_LLCS).unwrap().len(), 3);
        }
        assert!(on_one("slice-us=1000..2000..500", ONE_LLC).is_ok());
        // Confined tasks leave after a pull delay, whatever R9 says.
        let args = parsed(&["--without", "r9"]);
        let sweep: Sweep = "pull-delay-us=1..3".parse().unwrap();
        let two = |policy: &PolicyArgs| setup(&args, policy);
        let confined = Effects {
            confined: true,
            ..TWO_LLCS
        };
        assert_eq!(sweep.points(&args.policy, two, confined).unwrap().len(), 3);
    }

    #[test]
    fn rules_are_left_out_in_either_case() {
        let (upper, lower) = (
            parsed(&["--without", "R6,R9"]),
            parsed(&["--without", "r6,r9"]),
        );
        assert_eq!(setup(&upper, &upper.policy), setup(&lower, &lower.policy));
        assert_ne!(
            setup(&upper, &upper.policy),
            setup(&parsed(&[]), &upper.policy)
        );
    }

    #[test]
    fn a_value_out_of_range_is_told_in_the_flags_words() {
        let error = points("slice-us=50..150..50", &parsed(&[])).unwrap_err();
        assert!(
            error.contains("'50'") && error.contains("100..=1000000"),
            "{error}"
        );
    }
}
