// SPDX-License-Identifier: GPL-2.0-only
//! The machine that the tests run on: its CPUs, its kernel's messages, its tasks, and waiting.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::tasks::set_policy;

/// How much longer than on a real machine something may take: eight emulated CPUs on two real ones,
/// each 10 to 20 times slower, and a host that has other things to do.
pub const SLOW: u32 = 20;

/// How often [`within`] looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub const SCHED_EXT: &str = "/sys/kernel/sched_ext";

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `short` in a normal run, `long` in `make soak`.
pub fn soak<T>(short: T, long: T) -> T {
    match std::env::var_os("SCX_BALLAST_SOAK") {
        Some(value) if value == "1" => long,
        _ => short,
    }
}

/// Refuse to run elsewhere than in the lab, and make this thread a real-time task whose children are
/// not. libtest gives every test a thread of its own.
pub fn prepare() {
    static WATCHDOG: Once = Once::new();
    let cmdline = fs::read_to_string("/proc/cmdline").unwrap();
    assert!(
        cmdline.contains(" lab_job="),
        "these tests run inside a lab machine: use tests/lab/suite"
    );
    set_policy(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK).unwrap();
    WATCHDOG.call_once(|| {
        std::thread::spawn(watch);
    });
    DEADLINE.store(uptime() + soak(400, 3600), Ordering::Relaxed);
}

/// When the test that runs now is given up, in seconds of [`uptime`].
static DEADLINE: AtomicU64 = AtomicU64::new(u64::MAX);

fn uptime() -> u64 {
    read("/proc/uptime")
        .split('.')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// The watchdog: a test that hangs, maybe in the kernel, leaves evidence instead of silence.
fn watch() {
    set_policy(0, libc::SCHED_FIFO).unwrap();
    let kmsg = Kmsg::from_now();
    while uptime() < DEADLINE.load(Ordering::Relaxed) {
        sleep(secs(1));
    }
    give_up("a test hangs", kmsg);
}

/// Say what every task does, and end everything: no test can run on such a machine.
pub fn give_up(why: &str, mut kmsg: Kmsg) -> ! {
    remark(&format!("GIVING UP: {why}; sched_ext is {}\n", state()));
    // The scheduler's own dump, blocked tasks, all tasks.
    for what in ["D", "w", "t"] {
        let _ = fs::write("/proc/sysrq-trigger", what);
        sleep(secs(1));
    }
    remark(&format!("kernel:\n{}\n", kmsg.read().join("\n")));
    // An exit would wait for other tasks to be scheduled, which may be what does not happen. Time for
    // the output to get out, then the machine ends at once.
    sleep(secs(2));
    let _ = fs::write("/proc/sysrq-trigger", "b");
    std::process::exit(101);
}

/// Say something even when the test does not fail, where libtest has left room for it.
pub fn remark(text: &str) {
    let mut out = File::options()
        .append(true)
        .open("/proc/self/fd/1")
        .unwrap();
    let _ = write!(out, "{text} ");
}

/// Wait until `probe` succeeds; `limit` is that of a real machine. Returns what it found, and panics
/// with the last thing it said otherwise.
#[track_caller]
pub fn within<T>(limit: Duration, mut probe: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match probe() {
            Ok(found) => return found,
            Err(why) if began.elapsed() > limit * SLOW => {
                panic!("not within {:?}: {why}", limit * SLOW)
            }
            Err(_) => sleep(LOOK_EVERY),
        }
    }
}

/// Do the whole of `attempt` again when it fails, `count` times at most: for what holds while nothing
/// disturbs the machine, which the host does whenever it gives the emulated CPUs to somebody else. A
/// fault of the scheduler fails every time.
#[track_caller]
pub fn undisturbed<T>(count: u32, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let mut left = count;
    loop {
        left -= 1;
        match attempt() {
            Ok(result) => return result,
            Err(why) if left == 0 => panic!("{why}, {count} times in a row"),
            Err(why) => remark(&format!("({why}; again)")),
        }
    }
}

pub fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path)
        .unwrap_or_else(|err| panic!("{}: {err}", path.display()))
        .trim()
        .to_string()
}

/// State of sched_ext: `enabled`, `disabled` or in between.
pub fn state() -> String {
    read(format!("{SCHED_EXT}/state"))
}

#[track_caller]
pub fn wait_for_state(wanted: &str, limit: Duration) {
    within(limit, || match state() {
        found if found == wanted => Ok(()),
        found => Err(format!("sched_ext is {found}, not {wanted}")),
    });
}

/// Run a shell command to its end.
pub fn shell(script: &str) -> Output {
    let mut command = Command::new("bash");
    let command = command.args(["-c", script]).current_dir("/tmp");
    command.stdin(Stdio::null()).output().unwrap()
}

/// Run a shell command that must succeed; returns what it printed.
#[track_caller]
pub fn must(script: &str) -> String {
    let output = shell(script);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{script}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// The kernel release, such as 6.12.
pub fn release() -> (u32, u32) {
    let text = read("/proc/sys/kernel/osrelease");
    let mut numbers = text.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

// --- CPUs and nodes --------------------------------------------------------------------------------------

/// `0-3,8` as numbers.
pub fn parse_list(text: &str) -> BTreeSet<u32> {
    let mut set = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        set.extend(first.parse().unwrap()..=last.parse::<u32>().unwrap());
    }
    set
}

pub fn online() -> BTreeSet<u32> {
    parse_list(&read("/sys/devices/system/cpu/online"))
}

/// A node with CPUs: the kernel's id and its online CPUs.
#[derive(Debug, Clone)]
pub struct Node {
    pub id: u32,
    pub cpus: BTreeSet<u32>,
}

/// The nodes with CPUs, read without the scheduler's help.
pub fn nodes() -> Vec<Node> {
    let online = online();
    let ids = parse_list(&read("/sys/devices/system/node/online")).into_iter();
    ids.map(|id| {
        let list = read(format!("/sys/devices/system/node/node{id}/cpulist"));
        let cpus = &parse_list(&list) & &online;
        Node { id, cpus }
    })
    .filter(|node| !node.cpus.is_empty())
    .collect()
}

/// The sets of CPUs that share a last-level cache.
pub fn llcs() -> BTreeSet<BTreeSet<u32>> {
    let online = online();
    let of = |cpu: &u32| {
        let caches = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
        let lists = (0..5).rev();
        let mut lists = lists.map(|i| format!("{caches}/index{i}/shared_cpu_list"));
        let list = lists.find(|list| Path::new(list).exists()).unwrap();
        &parse_list(&read(list)) & &online
    };
    online.iter().map(of).collect()
}

/// The node of a CPU, as an index of [`nodes`].
pub fn node_of(nodes: &[Node], cpu: u32) -> usize {
    let holds = |node: &Node| node.cpus.contains(&cpu);
    nodes.iter().position(holds).unwrap()
}

// --- tasks -----------------------------------------------------------------------------------------------

/// Threads of the whole machine, idle tasks excluded: what the kernel counts itself.
pub fn threads() -> u64 {
    let text = read("/proc/loadavg");
    let (_, total) = text.split(' ').nth(3).unwrap().split_once('/').unwrap();
    total.parse().unwrap()
}

/// The states of a process' threads, one letter each.
pub fn thread_states(pid: i32) -> String {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let state = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    };
    threads.filter_map(|entry| state(entry.ok()?)).collect()
}

/// The kernel's threads that are not bound to one CPU.
pub fn kernel_threads() -> Vec<i32> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<i32>().ok()
    });
    let unbound = |pid: &i32| {
        // Both are gone when the task is.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let flags = stat
            .rsplit_once(") ")?
            .1
            .split(' ')
            .nth(6)?
            .parse::<u64>()
            .ok()?;
        let mut lines = status.lines();
        let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(flags & PF_KTHREAD != 0 && parse_list(list).len() > 1)
    };
    pids.filter(|pid| unbound(pid) == Some(true)).collect()
}

/// Every thread with its state and name, for messages.
pub fn thread_list() -> String {
    let script = "cat /proc/[0-9]*/task/*/stat | cut -d' ' -f1-3,41 | tr '\n' ';'";
    String::from_utf8_lossy(&shell(script).stdout).into_owned()
}

// --- the kernel's messages -------------------------------------------------------------------------------

/// What the kernel says from the moment of [`Kmsg::from_now`] on.
pub struct Kmsg(File);

/// Signs of trouble. A scheduler that the kernel throws out says "runtime error" or "stall"; the
/// reasons of a normal end are "unregistered from ...".
const TROUBLE: [&str; 8] = [
    "WARNING: ",
    "BUG: ",
    "Oops",
    "INFO: task",
    "stall",
    "runtime error",
    "hung",
    "panic",
];

/// Complaints that are the kernel's own affair: with any sched_ext scheduler, scx_bpfland as well, 6.12
/// warns about the bandwidth of its fair server when a CPU goes offline.
const KNOWN: [((u32, u32), &str); 1] = [((6, 12), "at kernel/sched/deadline.c:")];

impl Kmsg {
    pub fn from_now() -> Self {
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        let mut file = options.open("/dev/kmsg").unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        Self(file)
    }

    /// The messages since the last call. One read returns one record: `level,number,time,-;text`.
    pub fn read(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(len) => {
                    let text = String::from_utf8_lossy(&record[..len]);
                    let text = text.split_once(';').map_or("", |(_, text)| text);
                    lines.push(text.trim_end().to_string());
                }
                // Overwritten records are skipped.
                Err(err) if err.raw_os_error() == Some(libc::EPIPE) => {}
                Err(err) if err.kind() == ErrorKind::WouldBlock => return lines,
                Err(err) => panic!("/dev/kmsg: {err}"),
            }
        }
    }

    /// Has the kernel complained?
    #[track_caller]
    pub fn assert_quiet(&mut self) {
        let lines = self.read();
        let release = release();
        let known = |line: &str| {
            KNOWN
                .iter()
                .any(|(r, sign)| *r == release && line.contains(sign))
        };
        let bad = |line: &str| TROUBLE.iter().any(|sign| line.contains(sign)) && !known(line);
        assert!(
            !lines.iter().any(|line| bad(line)),
            "the kernel complains:\n{}",
            lines.join("\n")
        );
    }
}
