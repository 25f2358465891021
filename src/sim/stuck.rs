// SPDX-License-Identifier: GPL-2.0-only
//! Whether a run can still come to its end; and who waits for what, and who does what, when it does not, in words: what
//! the author of the workload has to look at.

use std::collections::BTreeSet;

use super::program::{Op, Plan};
use super::task::{State, Task};
use super::world::World;

/// Tasks that are named; all are counted.
const NAMED: usize = 4;
/// Places that are named.
const PLACES: usize = 8;

/// A sentence for each place where tasks wait for others; empty when none do.
pub(super) fn waits(world: &World<'_>) -> String {
    let mut all: Vec<String> = barriers(world).chain(channels(world)).collect();
    let parents = world.tasks.iter().enumerate().filter(|(_, task)| {
        let op = world.plan.programs[task.program].get(task.at);
        task.state == State::Asleep && op == Some(&Op::WaitChildren)
    });
    let parents: Vec<usize> = parents.map(|(id, _)| id).collect();
    if !parents.is_empty() {
        all.push(format!("for children: {}", names(world, &parents)));
    }
    let more = all.len().saturating_sub(PLACES);
    all.truncate(PLACES);
    if more > 0 {
        all.push(format!("and at {more} more places"));
    }
    all.join("; ")
}

/// Whether the task spins at a barrier, running or not.
fn spins(world: &World<'_>, task: &Task) -> bool {
    let op = world.plan.programs[task.program].get(task.at);
    task.spins && matches!(op, Some(Op::Spin(_)))
}

/// Tasks that spin at barriers.
pub(super) fn spinning(world: &World<'_>) -> usize {
    let tasks = world.tasks.iter();
    tasks.filter(|task| spins(world, task)).count()
}

/// Whether all tasks wait for others, asleep or spinning: nothing happens any more, however long it goes on.
pub(super) fn all_wait(world: &World<'_>) -> bool {
    let waits = |task: &Task| match task.state {
        State::Gone | State::Asleep => true,
        State::Waiting { .. } | State::Behind(_) | State::Running(_) => spins(world, task),
    };
    world.live > 0 && world.sleeping == 0 && world.tasks.iter().all(waits)
}

/// What tasks do that wait for nobody, each kind of it after a semicolon; empty when all wait.
pub(super) fn doing(world: &World<'_>) -> String {
    let kinds = [
        "computing",
        "working on memory",
        "touching memory",
        "busy",
        "sleeping",
    ];
    let meeting = &world.meeting;
    let channels = meeting.channels.iter();
    let at_channels = channels.flat_map(|channel| channel.readers.iter().chain(&channel.writers));
    let met: BTreeSet<usize> = meeting
        .barriers
        .iter()
        .flatten()
        .chain(at_channels)
        .copied()
        .collect();
    let kind = |id: usize| {
        let task = &world.tasks[id];
        let program = &world.plan.programs[task.program];
        match (task.state, program.get(task.at)) {
            (State::Gone, _) => None,
            _ if met.contains(&id) => None,
            (State::Asleep, _) => {
                // A sleeper is at what comes after its sleep.
                let before = program.get(task.at.checked_sub(1)?);
                matches!(before, Some(Op::Sleep(_) | Op::Away(_))).then_some(kinds[4])
            }
            (_, Some(Op::Compute(_))) => Some(kinds[0]),
            (_, Some(Op::Memory { .. })) => Some(kinds[1]),
            (_, Some(Op::Touch { .. })) => Some(kinds[2]),
            (_, Some(Op::Busy(_))) => Some(kinds[3]),
            _ => None,
        }
    };
    let each = kinds.iter().filter_map(|&what| {
        let ids: Vec<usize> = (0..world.tasks.len())
            .filter(|&id| kind(id) == Some(what))
            .collect();
        (!ids.is_empty()).then(|| format!("; {what}: {}", names(world, &ids)))
    });
    each.collect()
}

fn barriers<'a>(world: &'a World<'_>) -> impl Iterator<Item = String> + 'a {
    let barriers = world.meeting.barriers.iter().enumerate();
    barriers
        .filter(|(_, here)| !here.is_empty())
        .map(|(at, here)| {
            let (name, all) = (world.plan.barrier_name(at), world.plan.barriers[at]);
            let (come, names) = (here.len(), names(world, here));
            format!("at {name}, where {come} of {all} have come: {names}")
        })
}

fn channels<'a>(world: &'a World<'_>) -> impl Iterator<Item = String> + 'a {
    let channels = world.meeting.channels.iter().enumerate();
    channels.flat_map(|(at, channel)| {
        let name = world.plan.channel_name(at);
        let waits = [
            ("for a message from", &channel.readers),
            ("for room in", &channel.writers),
        ];
        let waits = waits.into_iter().filter(|(_, tasks)| !tasks.is_empty());
        waits
            .map(|(what, tasks)| {
                let tasks: Vec<usize> = tasks.iter().copied().collect();
                format!("{what} {name}: {}", names(world, &tasks))
            })
            .collect::<Vec<_>>()
    })
}

/// `rank (tasks 1, 2, 3, 4 and 3 more)`, by program.
fn names(world: &World<'_>, tasks: &[usize]) -> String {
    let plan: &Plan = world.plan;
    let mut programs: Vec<usize> = tasks.iter().map(|&id| world.tasks[id].program).collect();
    programs.sort_unstable();
    programs.dedup();
    let more = programs.len().saturating_sub(NAMED);
    let some = programs.iter().take(NAMED).map(|&program| {
        let of = |id: &usize| world.tasks[*id].program == program;
        let mut of: Vec<usize> = tasks.iter().copied().filter(of).collect();
        of.sort_unstable();
        let numbers: Vec<String> = of.iter().take(NAMED).map(usize::to_string).collect();
        let rest = match of.len().saturating_sub(NAMED) {
            0 => String::new(),
            rest => format!(" and {rest} more"),
        };
        let plural = if of.len() == 1 { "" } else { "s" };
        let name = plan.program_name(program);
        format!("{name} (task{plural} {}{rest})", numbers.join(", "))
    });
    let mut names: Vec<String> = some.collect();
    if more > 0 {
        names.push(format!("{more} more programs"));
    }
    names.join(", ")
}
