// SPDX-License-Identifier: GPL-2.0-only
//! The trace that every scheduler under test writes: what it decided is looked up in it, and at the end
//! the policy has to decide all of it again, the same way.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::Command;

use scx_ballast::policy::balance::Move;
use scx_ballast::policy::locality::decide::MIN_BUSY;
use scx_ballast::policy::locality::record::BroughtRecord;
use scx_ballast::policy::locality::view::{Stay, Step};
use scx_ballast::policy::record::{ExitRecord, ForkRecord, Record, TickRecord};

use crate::guest::remark;
use crate::sched::binary;

/// Ticks that a failing test shows.
const SHOWN: usize = 25;

/// A trace file; removed when dropped, since the guest's /tmp is memory.
pub struct TraceFile(PathBuf);

impl TraceFile {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Its length so far, which is a place to read on from.
    pub fn len(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |data| data.len())
    }

    /// The records of one kind that were written after `from`. A line that is still being written is left out.
    fn records(&self, from: u64, kind: &str) -> impl Iterator<Item = Record> {
        let mut text = String::new();
        let mut file = File::open(&self.0).unwrap();
        file.seek(SeekFrom::Start(from)).unwrap();
        file.read_to_string(&mut text).unwrap();
        let kind = format!("\"kind\":\"{kind}\"");
        let lines = text.lines().filter(|line| line.contains(&kind));
        let records = lines.filter_map(|line| serde_json::from_str(line).ok());
        records.collect::<Vec<_>>().into_iter()
    }

    /// The fork placements that were written after `from`.
    pub fn forks(&self, from: u64) -> Vec<ForkRecord> {
        let forks = self
            .records(from, "fork")
            .filter_map(|record| match record {
                Record::Fork(fork) => Some(fork),
                _ => None,
            });
        forks.collect()
    }

    /// The ends of tasks.
    pub fn exits(&self) -> Vec<ExitRecord> {
        let exits = self.records(0, "exit").filter_map(|record| match record {
            Record::Exit(exit) => Some(exit),
            _ => None,
        });
        exits.collect()
    }

    /// The ticks that were written after `from`.
    pub fn ticks(&self, from: u64) -> Vec<TickRecord> {
        let ticks = self
            .records(from, "tick")
            .filter_map(|record| match record {
                Record::Tick(tick) => Some(tick),
                _ => None,
            });
        ticks.collect()
    }

    /// All memory that has followed tasks.
    pub fn brought(&self) -> Vec<BroughtRecord> {
        let brought = self
            .records(0, "brought")
            .filter_map(|record| match record {
                Record::Brought(brought) => Some(brought),
                _ => None,
            });
        brought.collect()
    }

    /// The moves that were decided after `from`.
    pub fn moves(&self, from: u64) -> Vec<Move> {
        let ticks = self.ticks(from).into_iter();
        ticks.flat_map(|tick| tick.decisions.moves).collect()
    }

    /// What locality decided after `from`: the steps, ...
    pub fn steps(&self, from: u64) -> Vec<Step> {
        let ticks = self.ticks(from).into_iter();
        let steps = ticks.filter_map(|tick| tick.locality?.steps);
        steps.flat_map(|steps| steps.steps).collect()
    }

    /// ... and the reasons for which thread `pid` stayed where it was.
    pub fn stays(&self, from: u64, pid: i32) -> Vec<Stay> {
        let stays = self.ticks(from).into_iter().filter_map(|tick| {
            let tasks = &tick.observation.tasks;
            let stays = &tick.locality.as_ref()?.steps.as_ref()?.stays;
            let mut stays = stays.iter();
            let found = stays.find(|(task, _)| tasks[*task as usize].pid == pid);
            found.map(|&(_, stay)| stay)
        });
        stays.collect()
    }

    /// The last ticks, a line each, for messages.
    pub fn last_ticks(&self) -> String {
        let ticks = self.ticks(self.len().saturating_sub(1 << 20));
        let shown = &ticks[ticks.len().saturating_sub(SHOWN)..];
        shown.iter().map(line).collect()
    }

    /// `scx_ballast replay`: every recorded fork placement and move has to be the policy's own answer.
    #[track_caller]
    pub fn replay(self) {
        let mut command = Command::new(binary());
        let output = command.args(["replay", self.path()]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().last().unwrap_or_default();
        assert!(
            output.status.success() && last.ends_with(" 0 mismatches"),
            "replay: {}\n{text}{errors}",
            output.status
        );
        // forks, ticks, moves, steps of locality, pages, lost, mismatches
        let numbers = last.split(' ').filter_map(|word| word.parse::<u64>().ok());
        let [forks, ticks, moves, steps, pages, lost, mismatches] = numbers.collect::<Vec<_>>()[..]
        else {
            panic!("replay says {last}");
        };
        remark(&format!(
            "replayed {forks} forks, {ticks} ticks, {moves} moves, {steps} steps, {pages} pages, {mismatches} mismatches, {lost} lost;"
        ));
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A tick in a line: its nodes, its outcomes, its moves.
fn line(tick: &TickRecord) -> String {
    let (seen, decided) = (&tick.observation, &tick.decisions);
    let nodes = seen.nodes.iter();
    let nodes = nodes.map(|n| format!("{}m/{}/{}", n.running_milli, n.running, n.newborn));
    let verdicts = decided.verdicts.iter().map(|v| {
        format!(
            "{}>{} {} now {} {:?}",
            v.from, v.to, v.excess, v.excess_now, v.outcome
        )
    });
    let moves = decided.moves.iter();
    let moves = moves.map(|m| format!("{} {}>{}", m.pid, m.from, m.to));
    let steps = tick.locality.as_ref().and_then(|it| it.steps.as_ref());
    let steps = steps.map_or(&[][..], |steps| &steps.steps).iter();
    let steps = steps.map(|s| format!("{} {}>{} {:?} {}", s.pid, s.from, s.to, s.why, s.gain));
    let steps = steps.collect::<Vec<_>>();
    let views = tick.locality.as_ref().map(|it| &it.view.tasks);
    let views = views.into_iter().flatten();
    let known = seen
        .tasks
        .iter()
        .zip(views)
        .filter(|(task, _)| task.busy >= MIN_BUSY);
    let known = known.map(|(task, view)| format!("{} {:?}", task.pid, view.standing));
    let known = known.collect::<Vec<_>>();
    format!(
        "{:.2} nodes {} ({}) moves ({}) steps ({}) known ({}) held {:?}\n",
        seen.at as f64 / 1e9,
        nodes.collect::<Vec<_>>().join(" "),
        verdicts.collect::<Vec<_>>().join(", "),
        moves.collect::<Vec<_>>().join(", "),
        steps.join(", "),
        known.join(", "),
        seen.held
    )
}
