// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's counters in /proc: vmstat, schedstat and pressure.

use std::collections::BTreeMap;

use crate::compare::record::{Fact, Schedstat};
use crate::compare::roots::{Roots, convert};

/// The counters of /proc/vmstat that tell of NUMA and of pages that moved.
pub fn vmstat(roots: &Roots) -> Fact<BTreeMap<String, u64>> {
    let wanted = |name: &str| name.starts_with("numa_") || name.starts_with("pgmigrate_");
    let reason = "/proc/vmstat has no counters of NUMA or of migration";
    convert(roots.read("proc/vmstat"), reason, |text| {
        let lines = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            let value = value.trim().parse().ok()?;
            wanted(name).then(|| (name.to_string(), value))
        });
        let found: BTreeMap<String, u64> = lines.collect();
        (!found.is_empty()).then_some(found)
    })
}

/// Versions of /proc/schedstat whose cpu lines are known. From 15 to 17 it was the lines of domains that
/// changed; those are not read.
const SCHEDSTAT_VERSIONS: std::ops::RangeInclusive<u32> = 15..=17;
/// Numbers of a cpu line; the last three are those of [`Schedstat`].
const SCHEDSTAT_NUMBERS: usize = 9;

/// The cpu lines of /proc/schedstat, summed.
pub fn schedstat(roots: &Roots) -> Fact<Schedstat> {
    match roots.read("proc/schedstat") {
        Fact::NotAvailable(why) => Fact::NotAvailable(why),
        Fact::Known(text) => match parse_schedstat(&text) {
            Ok(sums) => Fact::Known(sums),
            Err(why) => Fact::NotAvailable(format!("/proc/schedstat: {why}")),
        },
    }
}

fn parse_schedstat(text: &str) -> Result<Schedstat, String> {
    let version = text.lines().find_map(|line| line.strip_prefix("version "));
    let version = version.unwrap_or("none").trim();
    if !version
        .parse()
        .is_ok_and(|number: u32| SCHEDSTAT_VERSIONS.contains(&number))
    {
        return Err(format!("version {version} is not known"));
    }
    let mut sums: Option<Schedstat> = None;
    for line in text.lines().filter(|line| line.starts_with("cpu")) {
        let numbers: Option<Vec<u64>> = line
            .split_whitespace()
            .skip(1)
            .map(|word| word.parse().ok())
            .collect();
        let numbers = numbers.filter(|numbers| numbers.len() == SCHEDSTAT_NUMBERS);
        let Some([.., run_ns, wait_ns, timeslices]) = numbers.as_deref() else {
            return Err(format!("not a cpu line: {line}"));
        };
        let sum = sums.get_or_insert(Schedstat {
            run_ns: 0,
            wait_ns: 0,
            timeslices: 0,
        });
        sum.run_ns = sum.run_ns.wrapping_add(*run_ns);
        sum.wait_ns = sum.wait_ns.wrapping_add(*wait_ns);
        sum.timeslices = sum.timeslices.wrapping_add(*timeslices);
    }
    sums.ok_or_else(|| "no cpu lines".into())
}

/// `None` where a sum shrank: a CPU went offline.
pub fn schedstat_growth(before: &Schedstat, after: &Schedstat) -> Option<Schedstat> {
    Some(Schedstat {
        run_ns: after.run_ns.checked_sub(before.run_ns)?,
        wait_ns: after.wait_ns.checked_sub(before.wait_ns)?,
        timeslices: after.timeslices.checked_sub(before.timeslices)?,
    })
}

/// The totals of /proc/pressure in us, such as `cpu.some`.
pub fn pressure(roots: &Roots) -> Fact<BTreeMap<String, u64>> {
    let mut totals = BTreeMap::new();
    let mut reason = String::new();
    for resource in ["cpu", "memory", "io", "irq"] {
        match roots.read(format!("proc/pressure/{resource}")) {
            Fact::Known(text) => totals.extend(parse_pressure(resource, &text)),
            Fact::NotAvailable(why) if reason.is_empty() => reason = why,
            Fact::NotAvailable(_) => {}
        }
    }
    match totals.is_empty() {
        false => Fact::Known(totals),
        true if reason.is_empty() => Fact::NotAvailable("/proc/pressure has no totals".into()),
        true => Fact::NotAvailable(reason),
    }
}

fn parse_pressure(resource: &str, text: &str) -> impl Iterator<Item = (String, u64)> {
    text.lines().filter_map(move |line| {
        let (kind, numbers) = line.split_once(' ')?;
        let total = numbers.split(' ').find_map(|w| w.strip_prefix("total="))?;
        Some((format!("{resource}.{kind}"), total.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::roots::testing::tree;

    fn why<T: std::fmt::Debug>(fact: Fact<T>) -> String {
        match fact {
            Fact::NotAvailable(why) => why,
            Fact::Known(value) => panic!("{value:?}"),
        }
    }

    /// As 6.12 (15 has the legacy field, too), 6.18 and 7.x print it.
    const V15: &str = "version 15\ntimestamp 4294955310\n\
        cpu0 0 0 0 0 0 0 500 60 7\ndomain0 3 0 0 0\ncpu1 0 0 0 0 0 0 1000 100 10\ndomain0 3 0\n";
    const V17: &str = "version 17\ntimestamp 1\ncpu0 0 0 9 9 9 9 5 6 7\ndomain0 MC ff 0 0\n";

    #[test]
    fn schedstat_of_every_known_version_is_summed() {
        let of = |text| parse_schedstat(text).unwrap();
        let sums = of(V15);
        assert_eq!(
            (sums.run_ns, sums.wait_ns, sums.timeslices),
            (1500, 160, 17)
        );
        let v16 = V15.replace("version 15", "version 16");
        assert_eq!(of(&v16), sums);
        let sums = of(V17);
        assert_eq!((sums.run_ns, sums.wait_ns, sums.timeslices), (5, 6, 7));
    }

    #[test]
    fn schedstat_that_is_not_known_is_not_guessed() {
        for text in [
            "",
            "version 18\ncpu0 0 0 0 0 0 0 1 2 3\n",
            "version 17\ncpu0 1 2 3\n",
            "version 17\ncpu0 0 0 0 0 0 0 1 x 3\n",
            "version 17\n",
        ] {
            assert!(parse_schedstat(text).is_err(), "{text}");
        }
        let (_dir, roots) = tree(&[]);
        assert!(why(schedstat(&roots)).contains("proc/schedstat: No such file"));
    }

    #[test]
    fn vmstat_is_filtered() {
        let text = "nr_free_pages 9\nnuma_hit 5\nnuma_miss 0\npgmigrate_success 3\npgfault 8\n";
        let (_dir, roots) = tree(&[("proc/vmstat", text)]);
        let found = vmstat(&roots);
        let names: Vec<_> = found
            .known()
            .unwrap()
            .iter()
            .map(|(n, v)| (&**n, *v))
            .collect();
        assert_eq!(
            names,
            [("numa_hit", 5), ("numa_miss", 0), ("pgmigrate_success", 3)]
        );
        let (_dir, roots) = tree(&[("proc/vmstat", "pgfault 8\n")]);
        assert!(why(vmstat(&roots)).contains("no counters"));
    }

    #[test]
    fn pressure_is_what_is_there() {
        let cpu = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n\
            full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        let irq = "full avg10=0.00 avg60=0.00 avg300=0.00 total=4\n";
        let (_dir, roots) = tree(&[("proc/pressure/cpu", cpu), ("proc/pressure/irq", irq)]);
        let found = pressure(&roots);
        let names: Vec<_> = found
            .known()
            .unwrap()
            .iter()
            .map(|(n, v)| (&**n, *v))
            .collect();
        assert_eq!(names, [("cpu.full", 0), ("cpu.some", 12), ("irq.full", 4)]);
        let (_dir, roots) = tree(&[]);
        assert!(why(pressure(&roots)).contains("proc/pressure/cpu: No such file"));
    }
}
