// SPDX-License-Identifier: GPL-2.0-only
//! How busy the CPUs of each node are over time: a thread that reads /proc/stat.
//!
//! It begins with ten samples a second. When there are [`MAX_SAMPLES`], pairs are merged and the period
//! is doubled, so that a run of an hour costs no more memory than one of a minute. The kernel counts in
//! ticks of 10 ms, so that a sample of 100 ms on one CPU is known to a tenth.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Nodes;
use crate::compare::priority;
use crate::compare::record::{Fact, NodeUse};
use crate::compare::roots::Roots;

const FIRST_PERIOD: Duration = Duration::from_millis(100);
/// Even, so that all samples have a partner.
const MAX_SAMPLES: usize = 600;

/// Ticks of a CPU since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

/// The thread that samples.
pub struct Sampler {
    over: Sender<()>,
    thread: JoinHandle<Fact<NodeUse>>,
}

impl Sampler {
    pub fn start(roots: &Roots, nodes: &Nodes) -> Fact<Sampler> {
        let first = match read(roots, nodes) {
            Fact::Known(first) => first,
            Fact::NotAvailable(why) => return Fact::NotAvailable(why),
        };
        let (over, told) = channel();
        let (roots, nodes) = (roots.clone(), nodes.clone());
        let body = move || {
            priority::raise();
            let mut series = Series::new(first);
            let mut next = Instant::now() + series.period;
            loop {
                let left = next.saturating_duration_since(Instant::now());
                let last = told.recv_timeout(left) != Err(RecvTimeoutError::Timeout);
                match read(&roots, &nodes) {
                    Fact::Known(ticks) => series.add(ticks, last),
                    Fact::NotAvailable(why) => return Fact::NotAvailable(why),
                }
                if last {
                    return series.finish();
                }
                next += series.period;
            }
        };
        match std::thread::Builder::new().spawn(body) {
            Ok(thread) => Fact::Known(Sampler { over, thread }),
            Err(error) => Fact::NotAvailable(format!("cannot start a thread: {error}")),
        }
    }

    pub fn finish(self) -> Fact<NodeUse> {
        // It is gone already if it could not read.
        let _ = self.over.send(());
        let panicked = || Fact::NotAvailable("internal error".into());
        self.thread.join().unwrap_or_else(|_| panicked())
    }
}

/// The ticks of each node's CPUs.
fn read(roots: &Roots, nodes: &Nodes) -> Fact<BTreeMap<u32, Ticks>> {
    match roots.read("proc/stat") {
        Fact::NotAvailable(why) => Fact::NotAvailable(why),
        Fact::Known(text) => match sum(&parse(&text), nodes) {
            Some(sums) => Fact::Known(sums),
            None => Fact::NotAvailable("/proc/stat does not have all CPUs".into()),
        },
    }
}

/// `cpuN user nice system idle iowait irq softirq steal ...`; guest time is in user and nice.
fn parse(text: &str) -> BTreeMap<u32, Ticks> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let id = words.next().filter(|_| !line.starts_with("cpu "))?;
        let numbers: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let idle = numbers.get(3)? + numbers.get(4)?;
        let all = numbers.iter().sum();
        let busy = all - idle;
        Some((id.parse().ok()?, Ticks { busy, all }))
    });
    lines.collect()
}

/// `None` if a CPU is missing.
fn sum(cpus: &BTreeMap<u32, Ticks>, nodes: &Nodes) -> Option<BTreeMap<u32, Ticks>> {
    let of_node = |ids: &Vec<u32>| {
        let none = Ticks { busy: 0, all: 0 };
        ids.iter().try_fold(none, |sum, id| {
            let cpu = cpus.get(id)?;
            Some(Ticks {
                busy: sum.busy + cpu.busy,
                all: sum.all + cpu.all,
            })
        })
    };
    nodes
        .iter()
        .map(|(&node, ids)| Some((node, of_node(ids)?)))
        .collect()
}

/// Samples so far.
struct Series {
    period: Duration,
    last: BTreeMap<u32, Ticks>,
    /// Ticks of each period.
    samples: Vec<BTreeMap<u32, Ticks>>,
}

impl Series {
    fn new(first: BTreeMap<u32, Ticks>) -> Series {
        Series {
            period: FIRST_PERIOD,
            last: first,
            samples: Vec::new(),
        }
    }

    /// Adds what happened since the last reading. The last sample of all is shorter than the others,
    /// unless it is the only one it is left out: it would look like a full one.
    fn add(&mut self, now: BTreeMap<u32, Ticks>, is_last: bool) {
        if is_last && !self.samples.is_empty() {
            return;
        }
        let grown = now.iter().filter_map(|(node, ticks)| {
            let before = self.last.get(node)?;
            // The kernel's idle time can go back by a tick.
            let all = ticks.all.saturating_sub(before.all);
            let busy = ticks.busy.saturating_sub(before.busy).min(all);
            Some((*node, Ticks { busy, all }))
        });
        self.samples.push(grown.collect());
        self.last = now;
        if self.samples.len() == MAX_SAMPLES {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let merge = |pair: &[BTreeMap<u32, Ticks>]| {
            let mut sum = pair[0].clone();
            for (node, ticks) in pair.iter().skip(1).flatten() {
                if let Some(into) = sum.get_mut(node) {
                    into.busy += ticks.busy;
                    into.all += ticks.all;
                }
            }
            sum
        };
        self.samples = self.samples.chunks(2).map(merge).collect();
        self.period *= 2;
    }

    /// Shares; none where the run was shorter than a tick.
    fn finish(self) -> Fact<NodeUse> {
        let nodes: Option<BTreeMap<u32, Vec<f32>>> = self
            .last
            .keys()
            .map(|&node| {
                let ticks = self.samples.iter().map(|sample| sample.get(&node).copied());
                Some((node, shares(ticks.collect::<Option<Vec<Ticks>>>()?)?))
            })
            .collect();
        match nodes {
            Some(nodes) => Fact::Known(NodeUse {
                period_ms: self.period.as_millis() as u64,
                nodes,
            }),
            None => Fact::NotAvailable(
                "the kernel counted no time: the run was shorter than its tick".into(),
            ),
        }
    }
}

/// The busy share of each sample. A crowded virtual machine counts late: ticks that come after samples
/// without any are of all of that time. `None` if there are no ticks at all.
fn shares(ticks: Vec<Ticks>) -> Option<Vec<f32>> {
    let mut shares = Vec::with_capacity(ticks.len());
    for (at, sample) in ticks.iter().enumerate() {
        if sample.all > 0 {
            let share = sample.busy as f32 / sample.all as f32;
            shares.resize(at + 1, share);
        }
    }
    let last = *shares.last()?;
    shares.resize(ticks.len(), last);
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 5 0 5 30 10 0 0 0 5 0\n\
        cpu1 5 0 5 40 0 1 1 1 0 0\nintr 5 5\nctxt 6\n";

    fn ticks(busy: u64, all: u64) -> BTreeMap<u32, Ticks> {
        BTreeMap::from([(0, Ticks { busy, all })])
    }

    #[test]
    fn waiting_for_disks_is_not_busy_and_guests_count_once() {
        let cpus = parse(STAT);
        assert_eq!(cpus[&0], Ticks { busy: 10, all: 50 });
        assert_eq!(cpus[&1], Ticks { busy: 13, all: 53 });
        let nodes = Nodes::from([(0, vec![0, 1]), (4, vec![1])]);
        let sums = sum(&cpus, &nodes).unwrap();
        assert_eq!(sums[&0], Ticks { busy: 23, all: 103 });
        assert_eq!(sums[&4], cpus[&1]);
        assert_eq!(sum(&cpus, &Nodes::from([(0, vec![2])])), None);
    }

    #[test]
    fn long_runs_have_longer_periods() {
        let mut series = Series::new(ticks(0, 0));
        for at in 1..=1000 {
            series.add(ticks(at * 5, at * 10), false);
        }
        let Fact::Known(found) = series.finish() else {
            panic!("not available");
        };
        // 600 samples became 300 of twice the length; 300 of the next 400 were merged with others.
        assert!(found.nodes[&0].len() < MAX_SAMPLES);
        assert_eq!(found.period_ms, 400);
        assert!(found.nodes[&0].iter().all(|&share| share == 0.5));
    }

    #[test]
    fn the_short_rest_of_a_run_is_no_sample() {
        let mut series = Series::new(ticks(0, 0));
        series.add(ticks(10, 10), false);
        series.add(ticks(10, 11), true);
        assert_eq!(series.finish().known().unwrap().nodes[&0], [1.0]);
        let mut series = Series::new(ticks(0, 0));
        series.add(ticks(1, 4), true);
        assert_eq!(series.finish().known().unwrap().nodes[&0], [0.25]);
    }

    #[test]
    fn ticks_that_come_late_are_of_all_the_time_before() {
        let mut series = Series::new(ticks(0, 0));
        for (busy, all) in [(5, 10), (5, 10), (5, 10), (35, 40), (35, 40)] {
            series.add(ticks(busy, all), false);
        }
        let found = series.finish();
        assert_eq!(found.known().unwrap().nodes[&0], [0.5, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn no_time_is_no_use_of_zero() {
        let mut series = Series::new(ticks(5, 5));
        series.add(ticks(5, 5), true);
        assert!(series.finish().known().is_none());
    }
}
