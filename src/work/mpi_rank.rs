// SPDX-License-Identifier: GPL-2.0-only
//! A rank of `work mpi`: what the launcher's children exec, as `work mpi-rank`.
//!
//! A rank works through memory of its own, one word of every cache line, so that it is memory that it
//! waits for on a real machine, and not many instructions on an emulated one. After each round all
//! ranks wait for the slowest, asleep.
//!
//! The launcher and its ranks share three pieces of memory ([`Places`]), which ranks get as numbers of
//! file descriptors. Errors are exit statuses as of all members of a crew; a rank prints nothing.

use std::hint::black_box;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use anyhow::{Result, bail};
use clap::Args;

use super::futex::Barrier;
use super::shared::{Shareable, Shared};
use super::watch::Watch;
use super::{clock, crew};

/// The name of this on the command line.
pub const NAME: &str = "mpi-rank";

/// What ranks do; the same for all of them.
#[derive(Debug, Clone, Copy, Args)]
pub struct Plan {
    /// Ranks to start.
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = crate::ranged::u32_in(1..=4096))]
    pub ranks: u32,

    /// Rounds, with a barrier after each.
    #[arg(long, value_name = "N", default_value_t = 40,
          value_parser = crate::ranged::u32_in(1..=10_000))]
    pub iterations: u32,

    /// How often a rank goes through its memory in a round.
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = crate::ranged::u32_in(1..=1_000_000))]
    pub passes: u32,

    /// Memory of each rank.
    #[arg(long, value_name = "MIB", default_value_t = 8,
          value_parser = crate::ranged::u32_in(1..=1_048_576))]
    pub memory_mib: u32,
}

/// Flags of `work mpi-rank`.
#[derive(Debug, Args)]
pub struct RankArgs {
    #[command(flatten)]
    plan: Plan,

    /// Which rank this is.
    #[arg(long)]
    rank: u32,

    /// Process id of the launcher.
    #[arg(long)]
    launcher: libc::pid_t,

    /// Descriptors of what the launcher shares.
    #[arg(long)]
    board: RawFd,
    #[arg(long)]
    slots: RawFd,
    #[arg(long)]
    samples: RawFd,
}

/// What all ranks share.
pub struct Board {
    barrier: Barrier,
}

// SAFETY: a `Shareable`.
unsafe impl Shareable for Board {}

/// What a rank leaves behind. CPUs are stored + 1; 0 is "not got there".
#[repr(align(64))]
pub struct Slot {
    /// Before the exec, and after it.
    pub birth: AtomicU32,
    pub first: AtomicU32,
    pub last: AtomicU32,
    /// Changes of node between first and last.
    pub node_changes: AtomicU32,
    /// [`clock::now`] when all ranks were ready, and when this one had done its rounds.
    pub start: AtomicU64,
    pub end: AtomicU64,
}

// SAFETY: atomics that are valid when zero, and a smaller alignment than a page.
unsafe impl Shareable for Slot {}

/// The CPU of a rank at the end of each round, + 1, at `rank * iterations + round`.
type Sample = AtomicU16;

/// What the launcher shares with its ranks.
pub struct Places {
    board: Arc<Shared<Board>>,
    pub slots: Arc<Shared<Slot>>,
    samples: Arc<Shared<Sample>>,
}

impl Plan {
    fn samples(&self) -> usize {
        self.ranks as usize * self.iterations as usize
    }
}

impl Places {
    /// New ones, to be passed on.
    pub fn new(plan: &Plan) -> Result<Places> {
        Ok(Places {
            board: Shared::passable(1)?,
            slots: Shared::passable(plan.ranks as usize)?,
            samples: Shared::passable(plan.samples())?,
        })
    }

    /// Those of the launcher.
    fn received(plan: &Plan, [board, slots, samples]: [RawFd; 3]) -> io::Result<Places> {
        Ok(Places {
            board: Arc::new(Shared::received(board, 1)?),
            slots: Arc::new(Shared::received(slots, plan.ranks as usize)?),
            samples: Arc::new(Shared::received(samples, plan.samples())?),
        })
    }

    /// Their descriptors: board, slots, samples.
    pub fn fds(&self) -> [Option<RawFd>; 3] {
        [self.board.fd(), self.slots.fd(), self.samples.fd()]
    }

    /// To be called by a forked child before it execs.
    pub fn keep_over_exec(&self) -> io::Result<()> {
        self.board.keep_over_exec()?;
        self.slots.keep_over_exec()?;
        self.samples.keep_over_exec()
    }

    /// The CPUs of all ranks at the end of a round; `None` for a rank that did not get there.
    pub fn sampled(&self, plan: &Plan, round: u32) -> impl Iterator<Item = Option<u32>> {
        let all = self.samples.iter().skip(round as usize);
        let of_round = all.step_by(plan.iterations as usize);
        of_round.map(|sample| u32::from(sample.load(Ordering::Relaxed)).checked_sub(1))
    }
}

/// The life of a rank after its exec; does not return if there is a launcher.
///
/// # Errors
/// Something else than a launcher started it.
pub fn run(args: &RankArgs) -> Result<()> {
    let first = Watch::begin();
    // SAFETY: takes no arguments.
    if unsafe { libc::getppid() } != args.launcher || args.rank >= args.plan.ranks {
        bail!("mpi-rank is for `work mpi` alone to start");
    }
    name_process();
    crew::resume(args.launcher, || {
        let places = Places::received(&args.plan, [args.board, args.slots, args.samples])?;
        live(&args.plan, args.rank, &places, first)
    })
}

/// The name of what is exec'ed by way of /proc/self/exe would be `exe`.
fn name_process() {
    // SAFETY: a string of less than 16 bytes. Without the name everything works as well.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"ballast-rank".as_ptr()) };
}

fn live(plan: &Plan, rank: u32, places: &Places, mut watch: Watch) -> io::Result<()> {
    let (barrier, slot) = (&places.board[0].barrier, &places.slots[rank as usize]);
    slot.first.store(watch.cpu + 1, Ordering::Relaxed);
    let mut memory = Memory::new(plan.memory_mib)?;
    barrier.wait(plan.ranks)?;
    slot.start.store(clock::now(), Ordering::Relaxed);
    for round in 0..plan.iterations {
        for _ in 0..plan.passes {
            memory.pass(|| watch.look());
        }
        let sample = rank as usize * plan.iterations as usize + round as usize;
        places.samples[sample].store(watch.cpu as u16 + 1, Ordering::Relaxed);
        barrier.wait(plan.ranks)?;
    }
    slot.end.store(clock::now(), Ordering::Relaxed);
    slot.last.store(watch.cpu + 1, Ordering::Relaxed);
    slot.node_changes
        .store(watch.node_changes, Ordering::Relaxed);
    Ok(())
}

/// Words of a cache line, taken as 64 bytes; elsewhere the lines that are touched are not all of
/// them, or twice.
const LINE: usize = 8;
/// Words between two looks at the CPU: 64 KiB.
const STRETCH: usize = 8192;

/// Memory to work through.
struct Memory {
    words: Vec<u64>,
}

impl Memory {
    /// All of it is touched by the calling thread.
    fn new(mib: u32) -> io::Result<Memory> {
        let len = (mib as usize) << (20 - 3);
        let mut words = Vec::new();
        words
            .try_reserve_exact(len)
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // Unlike zeros, ones have to be written.
        words.resize(len, 1);
        Ok(Memory { words })
    }

    /// Changes a word of every line; calls `between` after every stretch.
    fn pass(&mut self, mut between: impl FnMut()) {
        for stretch in self.words.chunks_mut(STRETCH) {
            for line in stretch.chunks_mut(LINE) {
                line[0] = line[0].wrapping_mul(3);
            }
            // Or passes could be taken together.
            black_box(stretch);
            between();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        ranks: 3,
        iterations: 4,
        passes: 2,
        memory_mib: 1,
    };

    #[test]
    fn a_pass_touches_every_line() {
        let mut memory = Memory::new(1).unwrap();
        let mut looks = 0;
        memory.pass(|| looks += 1);
        assert_eq!(looks, (1 << 20) / 8 / STRETCH);
        let touched = memory.words.iter().filter(|&&word| word == 3).count();
        assert_eq!(touched, (1 << 20) / 64);
    }

    #[test]
    fn ranks_that_share_places_come_to_an_end() {
        let places = Arc::new(Places::new(&PLAN).unwrap());
        let fds = places.fds().map(Option::unwrap);
        let ranks = (0..PLAN.ranks).map(|rank| {
            std::thread::spawn(move || {
                let places = Places::received(&PLAN, fds).unwrap();
                live(&PLAN, rank, &places, Watch::begin()).unwrap();
            })
        });
        for rank in ranks.collect::<Vec<_>>() {
            rank.join().unwrap();
        }
        for round in 0..PLAN.iterations {
            assert_eq!(places.sampled(&PLAN, round).flatten().count(), 3);
        }
        for slot in places.slots.iter() {
            assert!(slot.first.load(Ordering::Relaxed) > 0);
            assert!(slot.end.load(Ordering::Relaxed) > slot.start.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn rounds_are_sampled_apart() {
        let places = Places::new(&PLAN).unwrap();
        for (at, sample) in places.samples.iter().enumerate() {
            sample.store(at as u16, Ordering::Relaxed);
        }
        let round = |round| places.sampled(&PLAN, round).collect::<Vec<_>>();
        assert_eq!(round(0), [None, Some(3), Some(7)]);
        assert_eq!(round(3), [Some(2), Some(6), Some(10)]);
    }

    #[test]
    fn other_descriptors_are_refused() {
        assert!(Places::received(&PLAN, [0, 1, 2]).is_err());
        assert!(Places::received(&PLAN, [-1, -1, -1]).is_err());
    }
}
