// SPDX-License-Identifier: GPL-2.0-only
//! The running kernel's answers about single tasks: src/bpf/facts.bpf.c, called as bpf(BPF_PROG_TEST_RUN).
//!
//! Questions and answers are in memory that is mapped when the program is loaded. So a question needs no memory, neither
//! here nor in the kernel, and waits for no lock.

use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{OpenObject, ProgramInput, ProgramMut};
use thiserror::Error;

use super::cpu_set::CpuSet;
use super::facts::{ASKED_AT_ONCE, Facts, Seen, State};

#[allow(clippy::all, missing_docs, unused, reason = "generated")]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/facts_skel.rs"));
}
use skel::{FactsSkel, FactsSkelBuilder, types};

/// linux/sched.h; libc has it not.
const SCHED_EXT: u32 = 7;
/// Of linux/sched.h: TASK_REPORT, TASK_RTLOCK_WAIT and TASK_FROZEN, all that a task sleeps in. What else its state can have
/// says how it may be woken, that it is being woken, or that it is not born yet.
const SLEEPS: u32 = 0x7f | 0x1000 | 0x8000;

/// It cannot be asked.
#[derive(Debug, Error)]
pub enum NotAsked {
    #[error(
        "the BPF program that --dispatcher user asks about tasks (facts.bpf.c) cannot be loaded: {0}. Kernels from 6.12 on take \
         it, with their own BTF (CONFIG_DEBUG_INFO_BTF=y); -v shows what the verifier says. The kernel dispatcher (without \
         --dispatcher user) does without it"
    )]
    NotLoaded(#[source] libbpf_rs::Error),
    #[error("asking the kernel about tasks: {0}")]
    Failed(#[source] libbpf_rs::Error),
    #[error(
        "this is process {here} of its PID namespace and {initial} of the initial one, whose numbers sched_ext tells: start \
         --dispatcher user outside of containers, in the initial PID namespace"
    )]
    Namespace { here: u32, initial: u32 },
}

/// See the module.
pub struct BpfFacts {
    skel: FactsSkel<'static>,
    /// Only tasks of policy SCHED_EXT are scheduled here.
    partial: bool,
    failed: Option<libbpf_rs::Error>,
}

impl BpfFacts {
    /// With `partial` only tasks of policy SCHED_EXT are scheduled here, else all but real-time ones.
    ///
    /// # Errors
    /// The kernel does not take the program, or calls this process otherwise than it is called here.
    pub fn load(partial: bool) -> Result<Self, NotAsked> {
        // Lives as long as the process.
        let space: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let open = FactsSkelBuilder::default().open(space);
        let skel = open.and_then(OpenSkel::load);
        let mut facts = Self {
            skel: skel.map_err(NotAsked::NotLoaded)?,
            partial,
            failed: None,
        };
        let (here, initial) = (std::process::id(), facts.call(&[]));
        facts.check()?;
        match here == initial {
            true => Ok(facts),
            false => Err(NotAsked::Namespace { here, initial }),
        }
    }

    /// # Errors
    /// A question since the last call has failed; what it should have told was told of nobody.
    pub fn check(&mut self) -> Result<(), NotAsked> {
        self.failed
            .take()
            .map_or(Ok(()), |err| Err(NotAsked::Failed(err)))
    }

    fn bss(&mut self) -> Option<&mut types::bss> {
        self.skel.maps.bss_data.as_deref_mut()
    }

    /// Ask about these; returns the number of this process in the initial PID namespace.
    fn call(&mut self, tids: &[i32]) -> u32 {
        if let Some(bss) = self.bss() {
            let asked = bss.asked.iter_mut().zip(&mut bss.told).zip(tids);
            asked.for_each(|((asked, told), &tid)| (*asked, told.found) = (tid, 0));
            bss.nr_asked = tids.len() as u32;
        }
        run(&self.skel.progs.facts_ask, &mut self.failed)
    }
}

/// What the program returns.
fn run(program: &ProgramMut<'_>, failed: &mut Option<libbpf_rs::Error>) -> u32 {
    match program.test_run(ProgramInput::default()) {
        Ok(done) => done.return_value,
        Err(err) => {
            *failed = Some(err);
            0
        }
    }
}

/// Is a task of this policy scheduled here?
fn is_ours(policy: u32, partial: bool) -> bool {
    match policy as i32 {
        _ if policy == SCHED_EXT => true,
        libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE => !partial,
        _ => false,
    }
}

/// What the program tells of `tid`, in words.
fn seen(told: &types::task_facts, tid: i32, partial: bool) -> Option<Seen> {
    (told.found != 0).then(|| Seen {
        state: match () {
            () if told.exit_state != 0 => State::Ended,
            () if !is_ours(told.policy, partial) => State::Elsewhere,
            () if told.state & SLEEPS != 0 => State::Asleep,
            () => State::Runnable,
        },
        cpu: told.cpu,
        ran_ns: told.ran_ns,
        process: told.process,
        parent: match told.process == tid {
            true => told.parent,
            false => told.process,
        },
    })
}

impl Facts for BpfFacts {
    fn ask(&mut self, tids: &[i32], all: &mut Vec<Option<Seen>>) {
        debug_assert!(tids.len() <= ASKED_AT_ONCE);
        self.call(tids);
        all.clear();
        let partial = self.partial;
        let told = self.bss().map_or(&[][..], |bss| &bss.told[..]);
        all.extend(
            tids.iter()
                .zip(told)
                .map(|(&tid, told)| seen(told, tid, partial)),
        );
    }

    fn ask_one(&mut self, tid: i32) -> Option<Seen> {
        self.call(&[tid]);
        let partial = self.partial;
        seen(self.bss()?.told.first()?, tid, partial)
    }

    fn affinity(&mut self, tid: i32, set: &mut CpuSet) -> bool {
        if let Some(bss) = self.bss() {
            bss.asked[0] = tid;
        }
        let known = run(&self.skel.progs.facts_affinity, &mut self.failed) != 0;
        match self.bss() {
            Some(bss) if known => set.fill_from(&bss.mask),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that runs on CPU 12.
    fn told() -> types::task_facts {
        types::task_facts {
            ran_ns: 1_234_567,
            found: 1,
            cpu: 12,
            process: 17,
            parent: 5,
            ..types::task_facts::default()
        }
    }

    fn state(change: impl FnOnce(&mut types::task_facts), partial: bool) -> State {
        let mut told = told();
        change(&mut told);
        seen(&told, 17, partial).unwrap().state
    }

    /// As facts.bpf.c asserts for its side; and what Rust asks at once has room there.
    #[test]
    fn the_layout_is_that_of_the_program() {
        assert_eq!(size_of::<types::task_facts>(), 40);
        // SAFETY: integers, for which zeroes are values.
        let bss: types::bss = unsafe { MaybeUninit::zeroed().assume_init() };
        assert_eq!(bss.asked.len(), ASKED_AT_ONCE);
        assert_eq!(bss.told.len(), ASKED_AT_ONCE);
        assert_eq!(bss.mask.len() * 64, crate::user::launch::MAX_CPUS);
        let first = std::ptr::from_ref(&bss.told[0]) as usize;
        assert_eq!(std::ptr::from_ref(&bss.told[1]) as usize - first, 40);
    }

    #[test]
    fn whose_it_is() {
        let first = seen(&told(), 17, false).unwrap();
        assert_eq!((first.cpu, first.ran_ns), (12, 1_234_567));
        assert_eq!((first.process, first.parent), (17, 5));
        let other = seen(&told(), 18, false).unwrap();
        assert_eq!((other.process, other.parent), (17, 17));
        let gone = types::task_facts { found: 0, ..told() };
        assert_eq!(seen(&gone, 17, false), None);
    }

    /// The kernel's numbers: S, D, T, t, P, I, a lock of PREEMPT_RT, frozen; each also with how it may be woken.
    #[test]
    fn who_sleeps_and_who_does_not() {
        for sleeps in [
            1, 2, 4, 8, 0x40, 0x402, 0x1000, 0x8000, 0x2001, 0x102, 0x104,
        ] {
            assert_eq!(
                state(|told| told.state = sleeps, false),
                State::Asleep,
                "{sleeps:#x}"
            );
        }
        // It runs, is being woken, is being born.
        for awake in [0, 0x200, 0x800] {
            assert_eq!(
                state(|told| told.state = awake, false),
                State::Runnable,
                "{awake:#x}"
            );
        }
        // Until its parent waits for it, and while it is being buried.
        for exit in [0x20, 0x10] {
            let ended = |told: &mut types::task_facts| (told.exit_state, told.state) = (exit, 0x80);
            assert_eq!(state(ended, false), State::Ended);
        }
    }

    /// SCHED_OTHER, FIFO, RR, BATCH, IDLE, DEADLINE, EXT.
    #[test]
    fn who_has_left_for_another_class_is_elsewhere() {
        let ours = |partial| {
            [0, 1, 2, 3, 5, 6, 7]
                .map(|policy| state(|told| told.policy = policy, partial) == State::Runnable)
        };
        assert_eq!(ours(false), [true, false, false, true, true, false, true]);
        assert_eq!(ours(true), [false, false, false, false, false, false, true]);
    }

    #[test]
    fn what_to_do_is_said() {
        let said = NotAsked::Namespace {
            here: 3,
            initial: 70,
        }
        .to_string();
        assert!(
            said.contains("process 3") && said.contains("outside of containers"),
            "{said}"
        );
    }
}
