// SPDX-License-Identifier: GPL-2.0-only
//! What is asked about single tasks, because nobody tells: whether one still runs, how long it has run, which
//! CPUs it may use, whose thread it is.
//!
//! Each question is one small file below /proc, or one system call. `stat` and `status` of the kernel's workers wait for a mutex
//! that a task may have which is to be placed, so [`Facts::look`] and [`Facts::kin`] must not be asked about them
//! (`worker`). docs/user-dispatcher.md names the other locks that a question may wait for.

use std::fs::File;
use std::io::{self, Read, Write};

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs, or waits for a CPU.
    Runnable,
    Asleep,
    /// It has left for a policy that is not scheduled here.
    Elsewhere,
}

/// What [`Facts::look`] sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub state: State,
    /// The CPU that it is on or was on last, by the kernel's id.
    pub cpu: u32,
    /// CPU time since its birth, in whole hundredths of a second.
    pub ran_ns: u64,
}

/// Whose a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kin {
    /// Its process.
    pub process: i32,
    /// The process that has forked it; of a thread that is not the first of its process that process. Another one when
    /// its parent has ended.
    pub parent: i32,
}

/// A set of CPUs by the kernel's ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// An empty one with room for the ids below `cpus`.
    pub fn below(cpus: usize) -> Self {
        Self(vec![0; cpus.div_ceil(64)])
    }

    pub fn of(ids: impl IntoIterator<Item = u32>) -> Self {
        let mut set = Self::default();
        ids.into_iter().for_each(|id| set.add(id));
        set
    }

    pub fn add(&mut self, id: u32) {
        let word = id as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (id % 64);
    }

    /// The ids below this have room.
    pub fn room(&self) -> usize {
        self.0.len() * 64
    }

    /// This CPU and no other; the room stays.
    pub fn set_only(&mut self, id: u32) {
        self.0.fill(0);
        if let Some(word) = self.0.get_mut(id as usize / 64) {
            *word = 1 << (id % 64);
        }
    }

    pub fn contains(&self, id: u32) -> bool {
        let word = self.0.get(id as usize / 64).copied().unwrap_or(0);
        word >> (id % 64) & 1 == 1
    }

    /// The calling thread may use these CPUs and no others from now on; it is on one of them then.
    ///
    /// # Errors
    /// The kernel's: none of them can be used.
    pub fn confine_this_thread(&self) -> io::Result<()> {
        let size = self.0.len() * size_of::<u64>();
        let words = self.0.as_ptr().cast::<libc::c_ulong>();
        // SAFETY: the kernel reads `size` bytes there.
        match unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size, words) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// See the module. `tid` is a thread's id; `None`, or `false`, means that it is gone.
pub trait Facts {
    /// A task that has ended is gone, even if its parent has not heard of it yet.
    fn look(&mut self, tid: i32) -> Option<Look>;
    /// CPU time since its birth, in ns.
    fn runtime_ns(&mut self, tid: i32) -> Option<u64>;
    /// The CPUs that its affinity names, those that are online; `set` has room for all.
    fn affinity(&mut self, tid: i32, set: &mut CpuSet) -> bool;
    fn kin(&mut self, tid: i32) -> Option<Kin>;
    /// It is a thread of the kernel, or gone. Waits for no lock.
    fn is_kernels(&mut self, tid: i32) -> bool;
}

/// The running kernel's answers.
#[derive(Debug)]
pub struct Proc {
    text: Box<[u8]>,
    /// Only tasks of policy SCHED_EXT are scheduled here.
    partial: bool,
}

/// The beginning of `status` has what is asked for, and the others are shorter.
const ROOM: usize = 2048;

/// The unit of CPU time in `stat`: USER_HZ is 100 on all architectures that sched_ext runs on.
const USER_TICK_NS: u64 = 10_000_000;
/// linux/sched.h; libc has it not.
const SCHED_EXT: i32 = 7;

impl Proc {
    /// With `partial` only tasks of policy SCHED_EXT are scheduled here, else all but real-time ones.
    pub fn new(partial: bool) -> Self {
        let text = vec![0; ROOM].into();
        Self { text, partial }
    }

    /// Whether this kernel keeps the CPU times of [`Facts::runtime_ns`].
    pub fn knows_runtime(&mut self) -> bool {
        let own = std::process::id() as i32;
        self.runtime_ns(own).is_some_and(|ns| ns > 0)
    }

    /// The beginning of a file of a thread.
    fn read(&mut self, tid: i32, name: &str) -> Option<&str> {
        let mut path = [0u8; 48];
        let mut rest = &mut path[..];
        write!(rest, "/proc/{tid}/{name}").ok()?;
        let left = rest.len();
        let path = std::str::from_utf8(&path[..path.len() - left]).ok()?;
        let length = read_once(path, &mut self.text).ok()?;
        // A name in it may be anything; what follows is plain.
        Some(plain_end(&self.text[..length]))
    }
}

fn read_once(path: &str, text: &mut [u8]) -> io::Result<usize> {
    File::open(path)?.read(text)
}

/// The longest end that is text.
fn plain_end(bytes: &[u8]) -> &str {
    let odd = bytes.iter().rposition(|byte| !byte.is_ascii());
    std::str::from_utf8(&bytes[odd.map_or(0, |at| at + 1)..]).unwrap_or("")
}

/// Is a task of this policy scheduled here?
fn is_ours(policy: i32, partial: bool) -> bool {
    match policy {
        SCHED_EXT => true,
        libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE => !partial,
        _ => false,
    }
}

/// `PID (NAME) STATE PPID ...`; the name may have brackets and blanks in it. `None` also for one that has ended:
/// until its parent waits for it (Z), and while it is being buried (X).
fn parse_stat(text: &str, partial: bool) -> Option<Look> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // The 14th and 15th field of the line, ...
    let user: u64 = fields.nth(10)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    // ... the 39th, ...
    let cpu = fields.nth(23)?.parse().ok()?;
    // ... and the 41st.
    let policy = fields.nth(1)?.parse().ok()?;
    Some(Look {
        state: match (is_ours(policy, partial), state) {
            (false, _) => State::Elsewhere,
            (true, "R") => State::Runnable,
            (true, _) => State::Asleep,
        },
        cpu,
        ran_ns: user.saturating_add(system).saturating_mul(USER_TICK_NS),
    })
}

impl Facts for Proc {
    fn look(&mut self, tid: i32) -> Option<Look> {
        let partial = self.partial;
        parse_stat(self.read(tid, "stat")?, partial)
    }

    fn runtime_ns(&mut self, tid: i32) -> Option<u64> {
        let text = self.read(tid, "schedstat")?;
        text.split_ascii_whitespace().next()?.parse().ok()
    }

    fn affinity(&mut self, tid: i32, set: &mut CpuSet) -> bool {
        let size = set.0.len() * size_of::<u64>();
        // SAFETY: the kernel writes at most `size` bytes there, of words.
        let done = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                tid,
                size,
                set.0.as_mut_ptr().cast::<libc::c_ulong>(),
            )
        };
        if done < 0 {
            return false;
        }
        // The kernel writes its own number of words, which can be fewer.
        let words = done as usize / size_of::<u64>();
        set.0.iter_mut().skip(words).for_each(|word| *word = 0);
        true
    }

    fn kin(&mut self, tid: i32) -> Option<Kin> {
        parse_kin(self.read(tid, "status")?, tid)
    }

    /// Threads of the kernel are in its first process group, 0, into which no process can go by itself. What
    /// the kernel starts is there too, as is init, until it begins a session.
    fn is_kernels(&mut self, tid: i32) -> bool {
        // SAFETY: takes a number.
        unsafe { libc::getpgid(tid) <= 0 }
    }
}

fn parse_kin(text: &str, tid: i32) -> Option<Kin> {
    let number = |name: &str| -> Option<i32> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let process = number("Tgid:")?;
    let parent = match process == tid {
        true => number("PPid:")?,
        false => process,
    };
    Some(Kin { process, parent })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn state_and_cpu_of_a_line() {
        let rest = "1 2 3 4 5 6 7 8 9 10 120 3 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 \
                    32 33 34 35";
        let line = |state, cpu| format!("17 (a) b (c)) {state} {rest} {cpu} 0 0 0 0\n");
        let look = |state, cpu| {
            Some(Look {
                state,
                cpu,
                ran_ns: 1_230_000_000,
            })
        };
        let parse_stat = |text: &str| parse_stat(text, false);
        assert_eq!(parse_stat(&line("R", 12)), look(State::Runnable, 12));
        assert_eq!(parse_stat(&line("S", 0)), look(State::Asleep, 0));
        assert_eq!(parse_stat(&line("D", 3)), look(State::Asleep, 3));
        assert_eq!(parse_stat(&line("Z", 3)), None);
        assert_eq!(parse_stat(&line("X", 3)), None);
        assert_eq!(parse_stat("17 (a"), None);
        assert_eq!(parse_stat("17 (a) R 1"), None);
    }

    /// SCHED_OTHER, FIFO, RR, BATCH, IDLE, DEADLINE, EXT.
    #[test]
    fn who_has_left_for_another_class_is_elsewhere() {
        let line = |policy| format!("17 (a) R {} 9 0 {policy} 0 0\n", "1 ".repeat(35));
        let ours = |partial| {
            [0, 1, 2, 3, 5, 6, 7]
                .map(|policy| parse_stat(&line(policy), partial).unwrap().state == State::Runnable)
        };
        assert_eq!(ours(false), [true, false, false, true, true, false, true]);
        assert_eq!(ours(true), [false, false, false, false, false, false, true]);
    }

    #[test]
    fn a_name_may_be_no_text() {
        assert_eq!(plain_end(b"1 (\xff\xc3) R 2"), ") R 2");
        assert_eq!(plain_end(b"all"), "all");
    }

    #[test]
    fn sets_of_cpus() {
        let set = CpuSet::of([0, 63, 64, 200]);
        assert!([0, 63, 64, 200].into_iter().all(|id| set.contains(id)));
        assert!(
            [1, 62, 65, 199, 201, 9999]
                .into_iter()
                .all(|id| !set.contains(id))
        );
    }

    /// One for which its parent has not waited is no sleeper.
    #[test]
    fn who_has_ended_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut proc = Proc::new(false);
        let pid = child.id() as i32;
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while proc.look(pid).is_some() {
            assert!(std::time::Instant::now() < until, "it is still there");
            std::thread::yield_now();
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.contains(") Z "), "{stat}");
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn the_kernel_answers_for_this_thread() {
        let mut proc = Proc::new(false);
        // SAFETY: takes nothing.
        let tid = unsafe { libc::gettid() };
        let look = proc.look(tid).unwrap();
        assert_eq!(look.state, State::Runnable);
        // The test's thread is not the first of this process.
        let process = std::process::id() as i32;
        let parent = std::os::unix::process::parent_id() as i32;
        let kin = |process, parent| Some(Kin { process, parent });
        assert!(tid != process);
        assert_eq!(proc.kin(tid), kin(process, process));
        assert_eq!(proc.kin(process), kin(process, parent));
        assert!(proc.runtime_ns(tid).is_some());
        let mut set = CpuSet::below(200);
        set.set_only(70);
        assert!(set.room() >= 200 && set.contains(70) && !set.contains(6));
        let mut set = CpuSet::below(4096);
        set.0.fill(u64::MAX);
        assert!(proc.affinity(tid, &mut set) && set.contains(look.cpu));
        assert!(!set.contains(4095), "words that the kernel does not write");
        let child = std::process::Command::new("sleep")
            .arg("9")
            .process_group(0)
            .spawn();
        let mut child = child.unwrap();
        assert!(!proc.is_kernels(child.id() as i32) && proc.is_kernels(i32::MAX));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(proc.look(i32::MAX), None);
        assert_eq!(proc.kin(i32::MAX), None);
        assert!(!proc.affinity(i32::MAX, &mut set));
    }
}
