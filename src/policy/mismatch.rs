// SPDX-License-Identifier: GPL-2.0-only
//! Where a trace and the policy differ, in words: which decision, what the trace says, what the policy says.
//!
//! Nodes, LLCs and reasons are spelled as in the trace, so that who reads this finds them there.

use std::fmt::Display;

use serde::Serialize;

use super::balance::{Decisions, Move, Outcome, Verdict};
use super::locality::fork::{HomeChoice, HomeWhy};
use super::locality::view::{Stay, Step, Steps};
use super::observation::Observation;

/// A reason as the trace spells it.
fn spelled(reason: impl Serialize) -> String {
    let text = serde_json::to_string(&reason).unwrap_or_default();
    text.trim_matches('"').to_owned()
}

/// Both sides of a difference.
fn sides(trace: &str, policy: &str) -> String {
    format!("the trace says {trace}, the policy says {policy}")
}

/// The first difference of two lists, and how long they are if that differs, too; `None`: they are the same.
fn first<T: PartialEq>(
    what: &str,
    trace: &[T],
    policy: &[T],
    words: impl Fn(&T) -> String,
) -> Option<String> {
    let longer = trace.len().max(policy.len());
    let at = (0..longer).find(|&at| trace.get(at) != policy.get(at))?;
    let side = |list: &[T]| list.get(at).map_or_else(|| "there is none".into(), &words);
    let lengths = match (trace.len(), policy.len()) {
        (one, other) if one == other => String::new(),
        (one, other) => format!(" (of {one} in the trace and {other} by the policy)"),
    };
    let sides = sides(&side(trace), &side(policy));
    Some(format!("{what} {}{lengths}: {sides}", at + 1))
}

fn place(choice: &HomeChoice) -> String {
    let HomeChoice { node, home, why } = choice;
    let why = spelled(why);
    match home {
        HomeWhy::NoPreference => format!("node {node} ({why})"),
        HomeWhy::Preferred | HomeWhy::NotTolerated => {
            format!("node {node} ({why}; home {})", spelled(home))
        }
    }
}

/// Of the node of a new task.
pub(super) fn fork_node(trace: &HomeChoice, policy: Option<&HomeChoice>) -> String {
    let policy = policy.map_or_else(|| "nowhere".into(), place);
    sides(&place(trace), &policy)
}

/// Of the LLC of a new task.
pub(super) fn fork_llc(trace: u32, policy: Option<u32>) -> String {
    let policy = policy.map_or_else(|| "none".into(), |llc| format!("LLC {llc}"));
    sides(&format!("LLC {trace}"), &policy)
}

fn one_move(one: &Move) -> String {
    let Move {
        slot,
        seq,
        pid,
        from,
        to,
        llc,
        why,
    } = one;
    let who = (*pid, *slot, *seq);
    goes(who, (*from, *to, *llc), &spelled(why))
}

fn goes(
    (pid, slot, seq): (i32, u32, u32),
    (from, to, llc): (impl Display, impl Display, impl Display),
    why: &str,
) -> String {
    format!(
        "task {pid} (slot {slot}, seq {seq}) goes from node {from} to node {to}, LLC {llc} ({why})"
    )
}

fn verdict(one: &Verdict) -> String {
    let Verdict {
        from,
        to,
        excess,
        excess_now,
        tasks: (here, there),
        outcome,
    } = one;
    let outcome = match outcome {
        Outcome::Moved(tasks) => format!("moved {tasks}"),
        Outcome::Tolerated | Outcome::Over | Outcome::Held | Outcome::NoTask | Outcome::Budget => {
            spelled(outcome)
        }
    };
    format!(
        "nodes {from} and {to} with {here} and {there} tasks, excess {excess} and now {excess_now}: {outcome}"
    )
}

/// Of what the balancer has decided; `None`: they are the same.
pub(super) fn decisions(trace: &Decisions, policy: &Decisions) -> Option<String> {
    first("move", &trace.moves, &policy.moves, one_move)
        .or_else(|| first("verdict", &trace.verdicts, &policy.verdicts, verdict))
}

fn step(one: &Step) -> String {
    let Step {
        slot,
        seq,
        pid,
        from,
        to,
        llc,
        why,
        gain,
    } = one;
    let why = format!("{}, gain {gain}", spelled(why));
    goes((*pid, *slot, *seq), (*from, *to, *llc), &why)
}

/// Of what was decided for the sake of memory; `None`: they are the same.
pub(super) fn steps(seen: &Observation, trace: &Steps, policy: &Steps) -> Option<String> {
    let stay = |(task, why): &(u32, Stay)| match seen.tasks.get(*task as usize) {
        Some(seen) => format!("task {} stays ({})", seen.pid, spelled(why)),
        None => format!(
            "task number {task}, which was not seen, stays ({})",
            spelled(why)
        ),
    };
    first("step", &trace.steps, &policy.steps, step)
        .or_else(|| first("who stays,", &trace.stays, &policy.stays, stay))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::balance::MoveWhy;

    fn a_move(pid: i32) -> Move {
        Move {
            slot: 3,
            seq: 2,
            pid,
            from: 0,
            to: 1,
            llc: 4,
            why: MoveWhy::Excess,
        }
    }

    fn a_verdict(outcome: Outcome) -> Verdict {
        Verdict {
            from: 0,
            to: 1,
            excess: 4,
            excess_now: 3,
            tasks: (5, 1),
            outcome,
        }
    }

    #[test]
    fn the_first_difference_is_told() {
        let of = |pids: &[i32], outcome| Decisions {
            moves: pids.iter().map(|&pid| a_move(pid)).collect(),
            verdicts: vec![a_verdict(outcome)],
        };
        let moved = Outcome::Moved(2);
        let told = |trace: &Decisions, policy: &Decisions| decisions(trace, policy);
        assert_eq!(told(&of(&[7], moved), &of(&[7], moved)), None);
        assert_eq!(
            told(&of(&[7, 8], moved), &of(&[7, 9], moved)).unwrap(),
            "move 2: the trace says task 8 (slot 3, seq 2) goes from node 0 to node 1, LLC 4 (excess), \
             the policy says task 9 (slot 3, seq 2) goes from node 0 to node 1, LLC 4 (excess)"
        );
        assert_eq!(
            told(&of(&[], moved), &of(&[9], moved)).unwrap(),
            "move 1 (of 0 in the trace and 1 by the policy): the trace says there is none, \
             the policy says task 9 (slot 3, seq 2) goes from node 0 to node 1, LLC 4 (excess)"
        );
        assert_eq!(
            told(&of(&[7], moved), &of(&[7], Outcome::NoTask)).unwrap(),
            "verdict 1: the trace says nodes 0 and 1 with 5 and 1 tasks, excess 4 and now 3: moved 2, \
             the policy says nodes 0 and 1 with 5 and 1 tasks, excess 4 and now 3: no_task"
        );
    }
}
