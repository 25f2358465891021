// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler of an arm as a process, and what it counts itself.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::process::Pid;
use serde_json::{Value, json};

use crate::compare::record::Fact;
use crate::compare::roots::{Roots, convert};
use crate::compare::tail;

/// Where every scheduler that uses scx_stats listens.
const SOCKET: &str = "var/run/scx/root/stats";
/// A scheduler that takes longer to answer is not asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// CPU time of a process, ended threads included, in seconds.
pub fn cpu_time(pid: Pid) -> Fact<f64> {
    let failed = || {
        let error = std::io::Error::last_os_error();
        Fact::NotAvailable(format!("CPU time of process {}: {error}", pid.as_raw_pid()))
    };
    let mut clock = 0;
    // SAFETY: `clock` is to be written to. The call returns its error.
    let error = unsafe { libc::clock_getcpuclockid(pid.as_raw_pid(), &mut clock) };
    if error != 0 {
        let error = std::io::Error::from_raw_os_error(error);
        return Fact::NotAvailable(format!("CPU time of process {}: {error}", pid.as_raw_pid()));
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is to be written to.
    match unsafe { libc::clock_gettime(clock, &mut time) } {
        0 => Fact::Known(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9),
        _ => failed(),
    }
}

/// Resident memory of a process.
pub fn rss(roots: &Roots, pid: Pid) -> Fact<u64> {
    let status = roots.read(format!("proc/{}/status", pid.as_raw_pid()));
    convert(status, "the process has no VmRSS", |text| {
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    })
}

/// A connection to a scheduler's statistics.
pub struct Statistics(BufReader<UnixStream>);

impl Statistics {
    /// Connects to the scheduler that is loaded.
    pub fn connect(roots: &Roots) -> Fact<Statistics> {
        let path = roots.path(SOCKET);
        let stream = UnixStream::connect(&path).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        match stream {
            Ok(stream) => Fact::Known(Statistics(BufReader::new(stream))),
            Err(error) => Fact::NotAvailable(format!("{}: {error}", path.display())),
        }
    }

    /// What was counted since the last answer, for schedulers that count so as scx_stats' do.
    pub fn ask(&mut self) -> Fact<Value> {
        self.try_ask().map_or_else(
            |why| Fact::NotAvailable(format!("statistics: {why}")),
            Fact::Known,
        )
    }

    fn try_ask(&mut self) -> Result<Value, String> {
        let request = json!({ "req": "stats", "args": { "target": "top" } });
        // In one piece: the server reads lines.
        let sent = self
            .0
            .get_mut()
            .write_all(format!("{request}\n").as_bytes());
        sent.map_err(|error| error.to_string())?;
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => return Err("the scheduler closed the connection".into()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
        let mut answer: Value = serde_json::from_str(&line).map_err(|e| e.to_string())?;
        match answer["errno"].as_i64() {
            Some(0) => Ok(answer["args"]["resp"].take()),
            _ => {
                let text = answer["args"]["resp"].to_string();
                Err(format!("the scheduler answers {}", tail::beginning(&text)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn cpu_time_grows_and_is_not_invented() {
        let own = rustix::process::getpid();
        let before = *cpu_time(own).known().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(20) {}
        assert!(*cpu_time(own).known().unwrap() > before + 0.001);
        // Above the kernel's PID_MAX_LIMIT.
        assert!(
            cpu_time(Pid::from_raw(4_194_305).unwrap())
                .known()
                .is_none()
        );
        assert!(*rss(&Roots::system(), own).known().unwrap() > 1 << 20);
    }

    #[test]
    fn answers_are_read_and_refusals_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SOCKET);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(path).unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for answer in [
                r#"{"errno":0,"args":{"resp":{"forks":3}}}"#,
                r#"{"errno":22,"args":{"resp":"no such target"}}"#,
            ] {
                let asked: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                assert_eq!(asked["args"]["target"], "top");
                writeln!(&stream, "{answer}").unwrap();
            }
        });
        let roots = Roots::below(dir.path());
        let Fact::Known(mut statistics) = Statistics::connect(&roots) else {
            panic!("not connected");
        };
        assert_eq!(statistics.ask(), Fact::Known(json!({ "forks": 3 })));
        let refused = statistics.ask();
        assert!(matches!(&refused, Fact::NotAvailable(why) if why.contains("no such target")));
        server.join().unwrap();
        assert!(statistics.ask().known().is_none());
        drop(dir);
        assert!(Statistics::connect(&roots).known().is_none());
    }
}
