// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C, SIGTERM and SIGHUP as something that can be waited for together with other things.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::signals::{self, Before};

/// Whether the user wants the comparison to end. Cheap to clone; all clones stop together.
#[derive(Debug, Clone)]
pub struct Stop {
    /// Readable for good once the user has spoken: the byte in it is never taken out.
    wake: Arc<io::PipeReader>,
    speak: Arc<io::PipeWriter>,
}

impl Stop {
    pub fn new() -> Result<Stop> {
        let (wake, speak) = io::pipe().context("cannot make a pipe")?;
        Ok(Stop {
            wake: Arc::new(wake),
            speak: Arc::new(speak),
        })
    }

    /// One that signals set, until what they did before is restored. Once per process.
    pub fn on_signals() -> Result<(Stop, Before)> {
        let stop = Stop::new()?;
        let told = stop.clone();
        let before = Before::found();
        signals::on_end(move || told.set())?;
        Ok((stop, before))
    }

    /// The user has spoken.
    pub fn set(&self) {
        if !self.is_set() {
            // A pipe that cannot take one byte holds one already.
            let _ = (&*self.speak).write(&[1]);
        }
    }

    pub fn is_set(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Sleeps for `time` or until the user speaks; whether he did.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let mut fds = [PollFd::new(&*self.wake, PollFlags::IN)];
            let left = until.saturating_duration_since(Instant::now());
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(count) => return count > 0,
                Err(rustix::io::Errno::INTR) => {}
                // Out of memory, if anything: then time passes without the luxury.
                Err(_) => {
                    std::thread::sleep(left);
                    return false;
                }
            }
        }
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// A time-out of poll(2).
pub fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_set_it_stays_set_for_all() {
        let stop = Stop::new().unwrap();
        let clone = stop.clone();
        assert!(!stop.wait(Duration::from_millis(1)));
        clone.set();
        clone.set();
        assert!(stop.is_set() && clone.is_set());
        let began = Instant::now();
        assert!(stop.wait(Duration::from_secs(60)));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
