// SPDX-License-Identifier: GPL-2.0-only
//! The rules in BPF's header, compiled for the host, against their Rust twins.
//!
//! One policy, two languages: on any state both must give the same answer. A million random states
//! of each choice, from a fixed seed (`BALLAST_SEED=N` for another one); counts lie mostly near the
//! limits, where the rules change their mind, and go up to the ends of the ranges that rules.h names.

use scx_ballast::policy::limits::{UNLIMITED, excess, spare, tolerated};
use scx_ballast::policy::locality::fork::{HomeWhy, fork_home};
use scx_ballast::policy::locality::wake::{WakeState, may_wake};
use scx_ballast::policy::placement::{ForkLimits, ForkState, ForkWhy, Judge, fork_llc, fork_node};

const STATES: u64 = 1_000_000;
const NODES: usize = 64;

/// `struct rule_fork` of src/bpf/rules.h.
#[repr(C)]
struct RuleFork {
    allowed: u64,
    nr: u32,
    usable: u32,
    committed: [u32; NODES],
    weight: [u32; NODES],
    order: [u8; NODES],
}

/// `struct rule_home`.
#[repr(C)]
struct RuleHome {
    nodes: u64,
    usable: [u32; NODES],
    there: RuleFork,
}

/// `struct rule_llcs`.
#[repr(C)]
struct RuleLlcs {
    allowed: u64,
    nr: u32,
    first: u32,
    committed: [u32; NODES],
    weight: [u32; NODES],
}

/// `struct fork_limits` of src/bpf/intf.h.
#[repr(C)]
struct RuleLimits {
    judge: u32,
    max_imbalance: u32,
    cap_by_affinity: u32,
    pad: u32,
    max_running: [u32; NODES],
    task_weight: [u32; NODES],
}

unsafe extern "C" {
    fn ballast_rule_fork_node(f: *const RuleFork, lim: *const RuleLimits) -> i32;
    fn ballast_rule_fork_home(
        f: *const RuleFork,
        lim: *const RuleLimits,
        home: *mut RuleHome,
        order: *const [u8; NODES],
    ) -> i32;
    fn ballast_rule_may_wake(f: *const RuleFork, lim: *const RuleLimits, to: u32) -> i32;
    fn ballast_rule_fork_llc(l: *const RuleLlcs) -> i32;
    fn ballast_rule_spare(weight: u32, committed: u32) -> u32;
    fn ballast_rule_excess(c_a: u32, w_a: u32, c_b: u32, w_b: u32) -> u64;
    fn ballast_rule_tolerated(
        c_a: u32,
        w_a: u32,
        c_b: u32,
        w_b: u32,
        max_running: u32,
        max_imbalance: u32,
    ) -> i32;
}

/// SplitMix64: enough randomness for states, and a million of them in seconds without optimisation.
struct Random(u64);

impl Random {
    /// From the environment or fixed, and `salt`, so that tests differ.
    fn seeded(salt: u64) -> Self {
        let seed = std::env::var("BALLAST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
        println!("BALLAST_SEED={seed}");
        Self(seed ^ salt << 32)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// 0 to n - 1.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn weight(&mut self) -> u32 {
        match self.below(16) {
            0 => 0,
            1 => 4096,
            2..=3 => self.below(4097) as u32,
            _ => 1 + self.below(8) as u32,
        }
    }

    fn count(&mut self, near: u32) -> u32 {
        match self.below(32) {
            0 => (1 << 24) - 1,
            1 => self.below(1 << 24) as u32,
            2..=9 => near.saturating_add_signed(self.below(5) as i32 - 2),
            _ => self.below(6) as u32,
        }
    }

    fn mask(&mut self) -> u64 {
        match self.below(4) {
            0 => self.next(),
            1 => 1 << self.below(64),
            _ => u64::MAX,
        }
    }

    /// Few nodes mostly: there the rules disagree about ties.
    fn places(&mut self) -> usize {
        match self.below(8) {
            0 => 1 + self.below(64) as usize,
            _ => 1 + self.below(5) as usize,
        }
    }
}

/// A state of the nodes, and limits.
fn fork(random: &mut Random) -> (RuleFork, RuleLimits) {
    let nr = random.places();
    let equal = random.below(2) == 0;
    // In one of four states nobody has spare.
    let full = random.below(4) == 0;
    let mut f = RuleFork {
        allowed: random.mask(),
        nr: nr as u32,
        usable: random.below(10) as u32,
        committed: [0; NODES],
        weight: [0; NODES],
        order: std::array::from_fn(|i| i as u8),
    };
    let mut limits = RuleLimits {
        judge: random.below(2) as u32,
        max_imbalance: [0, 1, 2, 3, 8, UNLIMITED][random.below(6) as usize],
        cap_by_affinity: random.below(2) as u32,
        pad: 0,
        max_running: [0; NODES],
        task_weight: [100; NODES],
    };
    let weight = random.weight();
    let weights = random.below(4) == 0;
    for n in 0..nr {
        f.weight[n] = if equal { weight } else { random.weight() };
        f.committed[n] = random.count(f.weight[n]);
        if full {
            f.committed[n] = f.committed[n].max(f.weight[n]);
        }
        limits.max_running[n] = random.below(10) as u32;
        if weights {
            limits.task_weight[n] = 1 + random.below(10_000) as u32;
        }
    }
    f.order = order(random, nr);
    (f, limits)
}

/// The first `nr` nodes in any order.
fn order(random: &mut Random, nr: usize) -> [u8; NODES] {
    let mut order = std::array::from_fn(|i| i as u8);
    for i in (1..nr).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// As Rust has them.
fn fork_limits(limits: &RuleLimits, nr: usize) -> ForkLimits {
    ForkLimits {
        judge: match limits.judge {
            0 => Judge::After,
            _ => Judge::Before,
        },
        max_imbalance: limits.max_imbalance,
        max_running: limits.max_running[..nr].to_vec(),
        cap_by_affinity: limits.cap_by_affinity != 0,
    }
}

impl RuleFork {
    fn state<'a>(&'a self, limits: &'a RuleLimits) -> ForkState<'a> {
        let nr = self.nr as usize;
        ForkState {
            committed: &self.committed[..nr],
            weight: &self.weight[..nr],
            task_weight: &limits.task_weight[..nr],
            allowed: self.allowed,
            order: &self.order[..nr],
            usable: self.usable,
        }
    }
}

/// What rules.h returns for a choice.
fn encoded(node: u32, why: ForkWhy) -> i32 {
    let why = match why {
        ForkWhy::Least => 0,
        ForkWhy::Tolerated => 1,
        ForkWhy::FullLocal => 2,
        ForkWhy::Full => 3,
    };
    (node | why << 8) as i32
}

#[test]
fn both_choose_the_same_node_for_the_same_reason() {
    let mut random = Random::seeded(1);
    let mut reasons = [0u32; 5];
    for _ in 0..STATES {
        let (f, limits) = fork(&mut random);
        let state = f.state(&limits);
        let by_rust = fork_node(&state, &fork_limits(&limits, f.nr as usize));
        let by_rust = by_rust.map_or(-1, |choice| encoded(choice.node, choice.why));
        // SAFETY: two complete structs, laid out as the C side has them.
        let by_c = unsafe { ballast_rule_fork_node(&f, &limits) };
        assert_eq!(by_rust, by_c, "{state:?}, limits {limits:?}");
        reasons[(by_c >> 8 & 7).min(4) as usize] += 1;
    }
    // Every reason was met many times; the last is -1: no node.
    assert!(reasons.iter().all(|&n| n > 10_000), "{reasons:?}");
}

#[test]
fn both_bring_a_new_thread_home_alike() {
    let mut random = Random::seeded(4);
    let mut reasons = [0u32; 3];
    let mut moved = 0;
    let mut orders = [[0u8; NODES]; NODES];
    // The rule's own part keeps what the last state left there, which must not matter.
    let mut home = RuleHome {
        nodes: 0,
        usable: [0; NODES],
        there: fork(&mut random).0,
    };
    for _ in 0..STATES {
        let (f, limits) = fork(&mut random);
        let nr = f.nr as usize;
        // Another one for each parent's node, without a random number for each entry.
        let some = order(&mut random, nr);
        for (n, row) in orders[..nr].iter_mut().enumerate() {
            *row = some;
            row[..nr].rotate_left(n);
        }
        home.nodes = match random.below(3) {
            0 => random.mask(),
            1 => 1 << random.below(nr as u64),
            _ => random.next() & random.next(),
        };
        home.usable[..nr].fill_with(|| random.below(10) as u32);
        let by_rust = fork_home(
            &f.state(&limits),
            &fork_limits(&limits, nr),
            home.nodes,
            &orders[..nr]
                .iter()
                .map(|row| row[..nr].to_vec())
                .collect::<Vec<_>>(),
            &home.usable[..nr],
        );
        let expected = by_rust.map_or(-1, |choice| {
            let why = match choice.home {
                HomeWhy::NoPreference => 0,
                HomeWhy::Preferred => 1,
                HomeWhy::NotTolerated => 2,
            };
            encoded(choice.node, choice.why) | why << 16
        });
        // SAFETY: three complete structs and a table of 64 rows, laid out as the C side has them.
        let by_c = unsafe { ballast_rule_fork_home(&f, &limits, &mut home, orders.as_ptr()) };
        let state = f.state(&limits);
        assert_eq!(
            expected, by_c,
            "{by_rust:?}: {state:?}, home {:x}, limits {limits:?}",
            home.nodes
        );
        if let Some(choice) = by_rust {
            reasons[(by_c >> 16) as usize] += 1;
            let plain = fork_node(&state, &fork_limits(&limits, nr)).expect("a choice");
            moved += u32::from(plain.node != choice.node);
        }
    }
    assert!(reasons.iter().all(|&n| n > 10_000), "{reasons:?}");
    assert!(moved > 10_000, "{moved}");
}

#[test]
fn both_let_a_woken_task_go_alike() {
    let mut random = Random::seeded(5);
    let mut let_go = 0;
    for _ in 0..STATES {
        let (f, limits) = fork(&mut random);
        let nr = f.nr as usize;
        let to = random.below(nr as u64 + 1) as u32;
        let state = WakeState {
            committed: &f.committed[..nr],
            weight: &f.weight[..nr],
            allowed: f.allowed,
        };
        let by_rust = may_wake(&state, &fork_limits(&limits, nr), to as usize);
        // SAFETY: two complete structs, laid out as the C side has them.
        let by_c = unsafe { ballast_rule_may_wake(&f, &limits, to) } != 0;
        assert_eq!(by_rust, by_c, "to {to}: {state:?}, limits {limits:?}");
        let_go += u64::from(by_c);
    }
    assert!((STATES / 20..STATES / 2).contains(&let_go), "{let_go}");
}

#[test]
fn both_choose_the_same_llc() {
    let mut random = Random::seeded(2);
    for _ in 0..STATES {
        let nr = random.places();
        let mut l = RuleLlcs {
            allowed: random.mask(),
            nr: nr as u32,
            first: random.below(nr as u64 + 2) as u32,
            committed: [0; NODES],
            weight: [0; NODES],
        };
        let equal = random.weight();
        let is_equal = random.below(2) == 0;
        for n in 0..nr {
            l.weight[n] = if is_equal { equal } else { random.weight() };
            l.committed[n] = random.count(l.weight[n]);
        }
        let by_rust = fork_llc(
            &l.committed[..nr],
            &l.weight[..nr],
            l.allowed,
            l.first as usize,
        );
        // SAFETY: a complete struct, laid out as the C side has it.
        let by_c = unsafe { ballast_rule_fork_llc(&l) };
        assert_eq!(
            by_rust.map_or(-1, |llc| llc as i32),
            by_c,
            "committed {:?}, weight {:?}, allowed {:x}, first {}",
            &l.committed[..nr],
            &l.weight[..nr],
            l.allowed,
            l.first
        );
    }
}

#[test]
fn both_compare_alike() {
    let mut random = Random::seeded(3);
    let any = |random: &mut Random| match random.below(4) {
        0 => random.next() as u32,
        _ => random.below(20) as u32,
    };
    for _ in 0..STATES {
        let [ca, wa, cb, wb, most, imbalance] = std::array::from_fn(|_| any(&mut random));
        // SAFETY: plain numbers.
        let by_c = unsafe {
            (
                ballast_rule_spare(wa, ca),
                ballast_rule_excess(ca, wa, cb, wb),
                ballast_rule_tolerated(ca, wa, cb, wb, most, imbalance) != 0,
            )
        };
        let by_rust = (
            spare(wa, ca),
            excess(ca, wa, cb, wb),
            tolerated(ca, wa, cb, wb, most, imbalance),
        );
        assert_eq!(
            by_rust, by_c,
            "{ca}/{wa} and {cb}/{wb}, limit ({most}, {imbalance})"
        );
    }
}

impl std::fmt::Debug for RuleLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "judge {}, imbalance {}, cap {}, running {:?}",
            self.judge, self.max_imbalance, self.cap_by_affinity, self.max_running
        )
    }
}
