// SPDX-License-Identifier: GPL-2.0-only
//! Is every task where it says it is, and allowed there?

use super::hardware::Hardware;
use super::task::{Counted, State};
use super::world::World;

/// Compare tasks, CPUs and queues.
///
/// # Panics
/// When they contradict each other.
pub(super) fn places(world: &World<'_>) {
    let hw: &Hardware = world.hw;
    let (mut on_cpus, mut behind) = (0, 0);
    for (id, task) in world.tasks.iter().enumerate() {
        match task.state {
            State::Running(cpu) => {
                on_cpus += 1;
                assert_eq!(world.cpus[cpu].task, Some(id), "who runs on CPU {cpu}");
                assert!(world.may_use(id, cpu), "task {id} runs on CPU {cpu}");
                assert_eq!(task.counted, Counted::Running(hw.place(cpu).llc));
            }
            State::Behind(cpu) => {
                behind += 1;
                assert_eq!(
                    world.cpus[cpu].behind,
                    Some(id),
                    "who is behind on CPU {cpu}"
                );
                let at = &world.cpus[cpu];
                assert!(at.task.is_some(), "task {id} is behind nobody");
                assert!(at.watched, "nobody looks after CPU {cpu}");
                assert!(world.may_use(id, cpu), "task {id} is left on CPU {cpu}");
                assert_eq!(task.counted, Counted::Running(hw.place(cpu).llc));
            }
            State::Waiting { llc, .. } => assert_eq!(task.counted, Counted::Running(llc)),
            State::Asleep => assert!(!matches!(task.counted, Counted::Running(_))),
            State::Gone => assert_eq!(task.counted, Counted::None),
        }
    }
    for (cpu, at) in world.cpus.iter().enumerate() {
        assert_eq!(at.task.is_none(), world.idle.is_idle(cpu), "CPU {cpu}");
    }
    let busy = world.cpus.iter().filter(|cpu| cpu.task.is_some()).count();
    assert_eq!(busy, world.busy, "busy CPUs");
    assert_eq!(busy, on_cpus, "a task is on two CPUs, or on none");
    let followed = world.cpus.iter().filter(|cpu| cpu.behind.is_some()).count();
    assert_eq!(
        followed, behind,
        "a task is behind two others, or behind none"
    );
    let mut waiting = vec![0; hw.nr_nodes()];
    for (llc, queue) in world.queues.iter().enumerate() {
        waiting[hw.node_of_llc(llc)] += queue.len() as u32;
        for id in queue.tasks() {
            let here = matches!(world.state(id), State::Waiting { llc: at, .. } if at == llc);
            assert!(here, "task {id} is in the queue of LLC {llc}");
        }
        assert!(
            queue.is_empty() || queue.watched,
            "nobody looks after LLC {llc}"
        );
    }
    assert_eq!(waiting, world.waiting, "tasks that wait on the nodes");
    let states = world.tasks.iter().map(|task| task.state);
    let waits = states.filter(|state| matches!(state, State::Waiting { .. }));
    assert_eq!(waits.count() as u32, waiting.iter().sum::<u32>());
}
