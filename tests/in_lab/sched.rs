// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler under test: started as users start it, watched, and ended.
//!
//! Each writes a trace, and one that has ended normally is only well when the policy, asked again,
//! decides all that was traced the same way ([`TraceFile::replay`]).

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::guest::{self, Kmsg, SCHED_EXT, ms, read, remark, secs, state, within};
use crate::tasks::set_policy;
use crate::trace::TraceFile;

/// What it says when it is loaded and serves.
pub const READY: &str = "enabled after";
/// What it says about its end; the kernel's reason follows.
pub const EXIT: &str = "EXIT:";
/// Loading takes a few hundred milliseconds on a real machine, mostly the kernel's verifier.
const LOAD_TIME: Duration = Duration::from_secs(3);

/// The binary to test.
pub fn binary() -> PathBuf {
    std::env::var_os("SCX_BALLAST_BIN")
        .unwrap_or_else(|| env!("CARGO_BIN_EXE_scx_ballast").into())
        .into()
}

/// A running scheduler; killed when dropped.
pub struct Sched {
    child: Child,
    log: PathBuf,
    kmsg: Kmsg,
    /// Taken when it is checked.
    trace: Option<TraceFile>,
    /// It places tasks itself.
    needed: bool,
}

impl Sched {
    /// Start it; it is not loaded yet when this returns.
    pub fn spawn(args: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = PathBuf::from(format!("/tmp/scx_ballast.{count}.log"));
        let file = File::create(&log).unwrap();
        let kmsg = Kmsg::from_now();
        let trace = TraceFile::new(format!("/tmp/scx_ballast.{count}.trace"));
        let child = Command::new(binary())
            .args(args)
            .args(["--trace", trace.path()])
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self {
            child,
            log,
            kmsg,
            trace: Some(trace),
            needed: args.contains(&"user"),
        }
    }

    /// Nothing is scheduled while it is stopped: the user dispatcher.
    pub fn is_needed(&self) -> bool {
        self.needed
    }

    /// Start it and wait until it is loaded.
    #[track_caller]
    pub fn start(args: &[&str]) -> Self {
        let mut sched = Self::spawn(args);
        sched.wait_until_ready(1);
        sched
    }

    /// Wait until it has said `times` times that it is loaded, and is.
    #[track_caller]
    pub fn wait_until_ready(&mut self, times: usize) {
        within(LOAD_TIME * times as u32, || {
            let log = self.log();
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("it ended with {status}:\n{log}");
            }
            match (log.matches(READY).count(), state()) {
                (n, state) if n >= times && state == "enabled" => Ok(()),
                (n, state) => Err(format!("loaded {n} of {times} times, {state}:\n{log}")),
            }
        });
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// All that it has printed.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// What it decides, as it writes it down.
    pub fn trace(&self) -> &TraceFile {
        self.trace.as_ref().unwrap()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: our own child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    /// Stop it until SIGCONT, and wait until none of its threads runs. Where it places tasks itself that goes for its first
    /// thread, which places the others.
    #[track_caller]
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
        let count = if self.needed { 1 } else { usize::MAX };
        within(ms(500), || {
            let states = guest::thread_states(self.pid());
            match states.chars().take(count).all(|state| state == 'T') {
                true => Ok(()),
                false => Err(format!("its threads are {states}")),
            }
        });
    }

    /// Its exit status, if it ends within `limit`.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        within(limit, || match self.child.try_wait().unwrap() {
            Some(status) => Ok(status),
            None => Err(format!("it has not ended:\n{}", self.log())),
        })
    }

    /// It is loaded under its name, the same process runs, and the kernel has not complained.
    #[track_caller]
    pub fn assert_well(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "it ended: {ended:?}\n{}", self.log());
        assert_eq!(state(), "enabled");
        let ops = read(format!("{SCHED_EXT}/root/ops"));
        assert!(ops.starts_with("scx_ballast_"), "{ops}");
        self.kmsg.assert_quiet();
    }

    /// End it with `signal`, as a user or a service manager does, and check that nothing is left.
    ///
    /// A second from signal to end is the limit on a real machine: the kernel has to switch every
    /// task back, and waits for RCU grace periods while it does.
    #[track_caller]
    pub fn end_with(mut self, signal: i32) {
        self.signal(signal);
        let status = self.wait(secs(1));
        let log = self.log();
        assert_eq!(status.code(), Some(0), "{status}\n{log}");
        let exit = log.lines().rfind(|line| line.contains(EXIT));
        assert!(
            exit.is_some_and(|exit| exit.contains("unregistered from user space")),
            "{log}"
        );
        assert!(!log.contains("panicked"), "{log}");
        assert_eq!(state(), "disabled");
        self.kmsg.assert_quiet();
        self.trace.take().unwrap().replay();
    }

    /// End it by SIGKILL: the kernel takes the machine back by itself.
    #[track_caller]
    pub fn kill(mut self) {
        self.signal(libc::SIGKILL);
        let status = self.wait(secs(1));
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        guest::wait_for_state("disabled", secs(1));
        self.kmsg.assert_quiet();
    }
}

/// How long a scheduler that failed a test may take to be gone.
const GIVE_UP: Duration = Duration::from_secs(40);

impl Drop for Sched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let began = Instant::now();
        let mut ended = false;
        while began.elapsed() < GIVE_UP && !(ended && state() == "disabled") {
            ended = ended || self.child.try_wait().unwrap().is_some();
            std::thread::sleep(ms(20));
        }
        if std::thread::panicking() {
            println!("scx_ballast:\n{}", self.log());
            if let Some(trace) = &self.trace {
                println!("its last ticks:\n{}", trace.last_ticks());
            }
            println!("kernel:\n{}", self.kmsg.read().join("\n"));
        }
        if !ended || state() != "disabled" {
            guest::give_up("a scheduler does not end", Kmsg::from_now());
        }
    }
}

/// Flags of the shared scheduler. A task stops being a newborn after 5 ms of CPU time; in the lab
/// that includes what the host takes from an emulated CPU. Locality has tests of its own, and moves what the
/// others are about: their tasks' memory is where the driver was when it forked them.
pub const SHARED_FLAGS: [&str; 4] = ["--newborn-work-us", "100000", "--locality", "off"];

/// The user dispatcher, for the same slow CPUs.
pub const SCHED_USER: [&str; 4] = ["--dispatcher", "user", "--newborn-work-us", "100000"];

/// The scheduler that most tests share.
static SHARED: Mutex<Option<Sched>> = Mutex::new(None);

/// A shared scheduler whose trace has grown to this is ended and checked; the next test starts another.
const MUCH_TRACE: u64 = 64 << 20;

/// When all tests are over: end the shared scheduler, because only then its trace is checked.
extern "C" fn end_shared() {
    let shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(sched) = shared else { return };
    let end = || {
        set_policy(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK).unwrap();
        sched.end_with(libc::SIGINT);
        remark("at the end\n");
    };
    if catch_unwind(AssertUnwindSafe(end)).is_err() {
        // SAFETY: ends the process; nothing else is left to do.
        unsafe { libc::_exit(101) };
    }
}

/// Run a test, say how long it took, and pass a panic on only after `undo`.
fn timed(test: impl FnOnce()) {
    let began = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(test));
    remark(&format!("({:.1} s)", began.elapsed().as_secs_f64()));
    if let Err(panic) = result {
        resume_unwind(panic);
    }
}

/// Run `test` with the scheduler that tests share, already loaded.
#[track_caller]
pub fn with_shared(test: impl FnOnce(&mut Sched)) {
    static AT_EXIT: Once = Once::new();
    guest::prepare();
    // SAFETY: a function that is there as long as the program.
    AT_EXIT.call_once(|| assert_eq!(unsafe { libc::atexit(end_shared) }, 0));
    timed(|| {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out, so that a test that fails ends it.
        let mut sched = shared.take().unwrap_or_else(|| Sched::start(&SHARED_FLAGS));
        test(&mut sched);
        sched.assert_well();
        match sched.trace().len() {
            0..MUCH_TRACE => *shared = Some(sched),
            _ => sched.end_with(libc::SIGINT),
        }
    });
}

/// Run `test` with no scheduler loaded; at the end there must be none again.
#[track_caller]
pub fn with_none(test: impl FnOnce()) {
    guest::prepare();
    timed(|| {
        let shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sched) = shared {
            sched.end_with(libc::SIGINT);
        }
        assert_eq!(state(), "disabled");
        test();
        assert_eq!(state(), "disabled");
    });
}

/// Run `test` with a scheduler of its own, started with `args` and ended by Ctrl-C.
#[track_caller]
pub fn with_own(args: &[&str], test: impl FnOnce(&mut Sched)) {
    with_none(|| {
        let mut sched = Sched::start(args);
        test(&mut sched);
        sched.assert_well();
        sched.end_with(libc::SIGINT);
    });
}
