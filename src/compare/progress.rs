// SPDX-License-Identifier: GPL-2.0-only
//! What a person sees while a comparison goes on: a bar with the time left on a terminal that can show
//! one, plain lines elsewhere; on stderr, so that reports can be piped.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The comparison, as far as it has got.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    /// Time that runs of each benchmark took, attach and settle time included, and how many they were.
    took: Vec<(Duration, u32)>,
    /// Runs of each benchmark that are left.
    left: Vec<usize>,
    began: Instant,
}

impl Progress {
    /// `left`: runs that are still to be made, of each benchmark; `done` were made before.
    pub fn new(left: Vec<usize>, done: usize) -> Progress {
        let total = left.iter().sum::<usize>() + done;
        let terminal = std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let bar = ProgressBar::new(total as u64).with_position(done as u64);
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        // A terminal that cannot move its cursor (TERM=dumb) shows no bar: it gets lines.
        let bar = bar.filter(|bar| !bar.is_hidden() && !is_dumb());
        if let Some(bar) = &bar {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Progress {
            bar,
            total,
            done,
            took: vec![(Duration::ZERO, 0); left.len()],
            left,
            began: Instant::now(),
        }
    }

    /// A run begins.
    pub fn begin(&mut self, what: &str) {
        self.began = Instant::now();
        match &self.bar {
            Some(bar) => bar.set_message(format!("{}{what}", self.left_text())),
            None => line(&format!(
                "[{}/{}] {}{what}",
                self.done + 1,
                self.total,
                self.left_text()
            )),
        }
    }

    /// A run of `benchmark` is over: it counts, or was given up.
    pub fn end(&mut self, benchmark: usize) {
        self.done += 1;
        if let (Some(took), Some(left)) =
            (self.took.get_mut(benchmark), self.left.get_mut(benchmark))
        {
            *took = (took.0 + self.began.elapsed(), took.1 + 1);
            *left = left.saturating_sub(1);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64);
        }
    }

    /// Something that a person should know.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| line(text)),
            None => line(text),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn left_text(&self) -> String {
        match left(&self.took, &self.left) {
            Some(time) => format!("about {} left: ", duration(time)),
            None => String::new(),
        }
    }
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}

/// Time for the runs that are left; a benchmark that has not run yet is taken for an average one.
fn left(took: &[(Duration, u32)], left: &[usize]) -> Option<Duration> {
    let (sum, runs) = took.iter().fold((Duration::ZERO, 0), |(sum, runs), of| {
        (sum + of.0, runs + of.1)
    });
    let average = sum.checked_div(runs)?;
    let each = took.iter().zip(left).map(|((time, runs), left)| {
        let one = time.checked_div(*runs).unwrap_or(average);
        one * u32::try_from(*left).unwrap_or(u32::MAX)
    });
    Some(each.sum())
}

/// `3 h 05 min`, `12 min` or `40 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A line on stderr; nobody may be there to read it.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_the_runs_left() {
        let s = Duration::from_secs;
        assert_eq!(left(&[(s(0), 0), (s(0), 0)], &[2, 2]), None);
        assert_eq!(left(&[(s(20), 2), (s(2), 1)], &[1, 3]), Some(s(16)));
        assert_eq!(left(&[(s(20), 2), (s(0), 0)], &[0, 3]), Some(s(30)));
    }

    #[test]
    fn durations_are_short() {
        let text = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!(text(40), "40 s");
        assert_eq!(text(721), "13 min");
        assert_eq!(text(11_100), "3 h 05 min");
    }
}
