// SPDX-License-Identifier: GPL-2.0-only
//! Values of a flag that make no difference on a machine, and why. What flags alone tell was refused before
//! ([`effect`](crate::cli::effect)).

use crate::cli::PolicyArgs;
use crate::policy::compile::Limits;
use crate::sim::world::Setup;

/// What beside flags decides what has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effects {
    /// LLCs of the machine.
    pub llcs: usize,
    /// There are tasks that may not use all CPUs, which are let go after a pull delay at the end of a turn, with R9 and
    /// without.
    pub confined: bool,
}

/// What of a setup has an effect: what others switch off or cap is the same for all values.
pub(super) fn effective(setup: &Setup, effects: Effects) -> Setup {
    let mut setup = setup.clone();
    setup.slice_min_ns = setup.slice_min_ns.min(setup.slice_ns);
    if is_one_node(&setup) {
        setup.balance_ns = 0;
        let fork = &mut setup.limits.fork;
        fork.max_running.fill(0);
        fork.max_imbalance = 0;
    }
    if setup.balance_ns == 0 {
        let Limits {
            run_time,
            preferred,
            ..
        } = &mut setup.limits;
        for pairs in [run_time, preferred] {
            pairs.max_running.fill(0);
            pairs.max_imbalance = 0;
        }
    }
    // By counts nodes are compared, and LLCs.
    if effects.llcs == 1 {
        setup.newborn_ns = 0;
    }
    if (!setup.extras.pulls || effects.llcs == 1) && !effects.confined {
        setup.pull_delay_ns = 0;
    }
    if !setup.counts_newborns() {
        (setup.newborn_ns, setup.newborn_work_ns) = (0, 0);
    }
    setup
}

fn is_one_node(setup: &Setup) -> bool {
    setup.limits.fork.max_running.len() == 1
}

/// Why all values of `flag` are the same, in one sentence. `setup`: that of one of them; `with`: that of another value,
/// if the flag has it.
pub(super) fn why(
    flag: &str,
    policy: &PolicyArgs,
    (setup, effects): (&Setup, Effects),
    with: impl Fn(&str) -> Option<Setup>,
) -> String {
    let differs = |value| with(value).is_some_and(|other| other != *setup);
    match flag {
        "imb-numa-nr" | "imbalance-min" | "balance-interval-ms" if is_one_node(setup) => {
            "there is one node, and nothing to balance".into()
        }
        "newborn-ms" | "newborn-work-us" if effects.llcs == 1 => {
            "there is one LLC, and nowhere else to place a task by who sleeps here".into()
        }
        "pull-delay-us" if effects.llcs == 1 => {
            "there is one LLC, and none to take tasks from".into()
        }
        "imb-numa-nr" if !differs("0") && differs("4096") => {
            "all values come to a limit of 0 tasks on these nodes".into()
        }
        "imb-numa-nr" if differs("0") && !differs("4096") => {
            "all values are capped at the node's CPUs, and come to the same limits; begin below that"
                .into()
        }
        "imb-numa-nr" if differs("0") => {
            "all values come to the same whole number of tasks on these nodes; take a wider range"
                .into()
        }
        "pull-delay-us" if !setup.extras.pulls => {
            "--without r9 lets no CPU take tasks from elsewhere, whatever the delay".into()
        }
        "slice-min-us" => format!(
            "no turn is longer than --slice-us, which is {}; all values are capped there",
            policy.slice_us
        ),
        _ => "all values make the same limits".into(),
    }
}
