// SPDX-License-Identifier: GPL-2.0-only
//! A fake kernel, fake schedulers and a suite whose benchmarks look at them.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// FAKE and SCX in commands are the fake kernel and its sched_ext.
const SUITE: &str = r#"
name = "fake"
description = "benchmarks that look at a fake kernel"

[needs.nothing_of_this_name]
program = "scx-ballast-no-such-program"
get = "nowhere"

[metrics.number]
unit = "s"
better = "lower"
mean = "arithmetic"
pattern = '^number ([0-9.e+-]+)'
"#;

/// Name, time-out and command; `quick` does what the file `once` says, once.
const BENCHMARKS: [(&str, u32, &str); 12] = [
    (
        "quick",
        20,
        "if [ -e $FAKE/once ]; then mv $FAKE/once $FAKE/done; . $FAKE/done; fi; sleep 0.2; echo number 5",
    ),
    ("who", 20, "echo number $(grep -c enabled $SCX/state)"),
    (
        "slow",
        20,
        "cat $SCX/root/ops > $FAKE/running; setsid sleep 1.5; echo > $FAKE/running; echo number 1",
    ),
    ("fails", 20, "setsid sleep 900 & echo bad luck; exit 3"),
    (
        "hangs",
        1,
        "(trap '' TERM INT; setsid sleep 900) & sleep 901",
    ),
    ("mute", 20, "sleep 902 & echo nothing"),
    (
        "balancing",
        20,
        "echo number $(cat $FAKE/proc/sys/kernel/numa_balancing)",
    ),
    ("nice", 20, "echo number $(nice)"),
    (
        "flood",
        20,
        "head -c 40000000 /dev/zero | tr '\\0' x; exit 3",
    ),
    (
        "line",
        20,
        "printf 'number '; head -c 2000000 /dev/zero | tr '\\0' 1; printf e; echo number e",
    ),
    ("absurd", 20, "echo number 1e308"),
    ("missing", 20, "scx-ballast-no-such-program"),
];

/// Tells that it is there and how it was called, then loads.
const BEGIN: &str = r#"#!/bin/sh
echo $$ > $FAKE/pid
echo "NAME says hello"
printf '%s|' "$@" > $FAKE/arguments
"#;
const LOAD: &str = r#"
mkdir -p $SCX/root
echo $(($(cat $SCX/enable_seq) + 1)) > $SCX/enable_seq
echo NAME_1.0 > $SCX/root/ops
printf 'SCX_EV_OTHER 1\nSCX_EV_BYPASS_ACTIVATE 0\n' > $SCX/root/events
echo enabled > $SCX/state
"#;
const UNLOAD: &str = "echo disabled > $SCX/state; rm -rf $SCX/root; exit 0";

pub struct Fake {
    root: TempDir,
}

impl Fake {
    pub fn new() -> Fake {
        let fake = Fake {
            root: TempDir::new().unwrap(),
        };
        for (name, text) in [
            ("sys/kernel/sched_ext/state", "disabled\n"),
            ("sys/kernel/sched_ext/enable_seq", "0\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("proc/sys/kernel/osrelease", "7.3\n"),
            ("proc/sys/kernel/hostname", "fake\n"),
            ("proc/stat", "cpu  1 0 1 1 0 0 0 0 0 0\n"),
        ] {
            fake.write(name, text);
        }
        let mut suite = SUITE.to_string();
        for (name, limit, command) in BENCHMARKS {
            let needs = if name == "missing" {
                "needs = [\"nothing_of_this_name\"]\n"
            } else {
                ""
            };
            suite += &format!(
                "[[benchmark]]\nname = \"{name}\"\ncommand = '''{command}'''\ntimeout_s = {limit}\n{needs}\
                 metrics = [\"number\"]\n"
            );
        }
        fake.write("suite.toml", &suite);
        fake.schedulers();
        fake
    }

    fn schedulers(&self) {
        // It dies of SIGTERM as the real ones do: the kernel takes the machine back.
        let wait = format!("trap '{UNLOAD}' INT TERM\n{LOAD}while :; do sleep 0.02; done\n");
        let deaf = format!(
            "trap '' INT TERM\n{LOAD}(setsid sh -c 'while kill -0 $0; do sleep 0.05; done; {UNLOAD}' $$ \
             >/dev/null 2>&1 &)\nwhile :; do sleep 0.05; done\n"
        );
        let dies = "echo no luck; exit 7\n".to_string();
        let idles =
            "echo idling; trap 'exit 0' INT TERM; while :; do sleep 0.05; done\n".to_string();
        for (name, body) in [
            ("fast", wait),
            ("stubborn", deaf),
            ("dies", dies),
            ("idles", idles),
        ] {
            let path = format!("bin/{name}");
            self.write(&path, &(BEGIN.to_string() + &body).replace("NAME", name));
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(self.path(&path), mode).unwrap();
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What a file says; nothing if it is not there.
    pub fn read(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.trim().to_string()
    }

    pub fn state(&self) -> String {
        self.read("sys/kernel/sched_ext/state")
    }

    pub fn results(&self) -> PathBuf {
        self.path("results.jsonl")
    }

    /// Somebody else's scheduler.
    pub fn load(&self, name: &str) {
        self.write("sys/kernel/sched_ext/root/ops", name);
        self.write("sys/kernel/sched_ext/state", "enabled");
        self.write("proc/sysrq-trigger", "");
    }

    /// Unloads what is loaded as soon as SysRq-S is pressed; whether it was.
    pub fn on_sysrq(&self) -> std::thread::JoinHandle<bool> {
        let (key, state) = (
            self.path("proc/sysrq-trigger"),
            self.path("sys/kernel/sched_ext/state"),
        );
        std::thread::spawn(move || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(30) {
                if fs::read_to_string(&key).is_ok_and(|text| text == "S") {
                    fs::write(&state, "disabled").unwrap();
                    return true;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            false
        })
    }

    /// `compare` on this machine, with the fake suite.
    pub fn command_here(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scx_ballast"));
        let resumes = arguments.contains(&"--resume");
        let lists = arguments.contains(&"--list");
        command.arg("compare").args(arguments);
        if !lists {
            command.arg("--results").arg(self.results());
        }
        // What a resumed comparison runs is in its file, unless benchmarks are named.
        if !resumes || arguments.contains(&"--bench") {
            command.arg("--suite").arg(self.path("suite.toml"));
        }
        if !resumes && !lists {
            command.args(["--settle", "0.01"]);
        }
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        command.env("PATH", path).env("FAKE", self.root.path());
        command.env("SCX", self.path("sys/kernel/sched_ext"));
        command
    }

    /// `compare` on the fake kernel.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command_here(arguments);
        command
            .arg("--root")
            .arg(self.root.path())
            .args(["--patience", "1"]);
        command
    }

    /// Whether it succeeded, and what it said on stderr.
    pub fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.command(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("panicked"), "{text}");
        (output.status.success(), text)
    }

    #[track_caller]
    pub fn must(&self, arguments: &[&str]) {
        let (ok, text) = self.run(arguments);
        assert!(ok, "{arguments:?}: {text}");
    }

    /// Processes of a comparison on this fake kernel, whatever they are.
    pub fn has_processes(&self) -> bool {
        !processes(self).is_empty()
    }

    /// EEVDF is in charge, and no process is left.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert_eq!(self.state(), "disabled");
        let began = Instant::now();
        // The helper of `stubborn`, which plays the kernel, is none of the comparison's.
        while self.has_processes() && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!self.has_processes(), "{}", lines(self));
    }
}

/// Those whose environment names this fake kernel.
fn processes(fake: &Fake) -> Vec<u32> {
    let mark = format!("FAKE={}", fake.root.path().display());
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|e| e.unwrap().file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|&byte| byte == 0)
            .any(|variable| variable == mark.as_bytes())
    })
    .collect()
}

/// The processes that are left, for messages.
pub fn lines(fake: &Fake) -> String {
    let line = |pid: u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("{pid} {}", line.replace('\0', " "))
    };
    processes(fake)
        .into_iter()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

pub fn signal(pid: u32, number: i32) {
    // SAFETY: a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid as i32, number) }, 0);
}
