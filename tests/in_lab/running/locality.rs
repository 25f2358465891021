// SPDX-License-Identifier: GPL-2.0-only
//! Locality, the whole of it: memory is touched on one node, its process confined to another one and then set
//! free. What follows is looked up in the trace, where every step has its rule, so no time is measured.
//!
//! Tolerance is widened to all CPUs of a node, unless a test is about refusals: on the lab's small nodes
//! hardly any state of two tasks on one node is tolerated, and locality moves nobody into another one.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::sleep;

use scx_ballast::machine::Machine;
use scx_ballast::observe::Stats;
use scx_ballast::policy::locality::places::Places;
use scx_ballast::policy::locality::view::{Stay, Step, Why};

use crate::client::Client;
use crate::guest::{Node, ms, node_of, nodes, remark, secs, within};
use crate::sched::{Sched, with_own};
use crate::tasks::{Quiet, Shared, Task, confine, release, spin, thread_cpus};

/// Memory of a process.
const BYTES: usize = 64 << 20;
const PAGE: usize = 4096;

/// A look at an emulated machine may cost more than the usual budget of a second.
const SAMPLED: [&str; 6] = [
    "--locality",
    "sampled",
    "--look-budget-us",
    "500000",
    "--imb-numa-nr",
    "100%",
];
const OFF: [&str; 4] = ["--locality", "off", "--imb-numa-nr", "100%"];
/// The machine's own imb_numa_nr.
const NARROW: [&str; 4] = ["--locality", "sampled", "--look-budget-us", "500000"];

/// A memory policy of the calling thread, and of those that it starts; nodes by their kernel's ids.
fn set_memory_policy(mode: i32, nodes: impl IntoIterator<Item = u32>) {
    let mask: u64 = nodes.into_iter().fold(0, |mask, id| mask | 1 << id);
    // SAFETY: a mask of 64 bits on the stack.
    let done = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, &raw const mask, 65) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Where a process's memory is.
#[derive(Clone, Copy)]
struct Memory(usize);

impl Memory {
    /// Work on all of it, for ever: what is not touched is not hot, and the few pages of a stack would decide.
    fn work(self) -> ! {
        loop {
            self.touch();
        }
    }

    /// Write to every page of it.
    fn touch(self) {
        for offset in (0..BYTES).step_by(PAGE) {
            // SAFETY: within what `new` has mapped, which is never given back; nobody reads what is written.
            unsafe { (self.0 as *mut u8).add(offset).write_volatile(1) };
        }
    }
    fn new() -> Self {
        let (rw, private) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new memory of our own.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, rw, private, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at as usize)
    }
}

/// A process of `threads` threads that compute on node `at`, where it is confined, after `prepare` and then
/// touching its memory on node `memory`.
#[track_caller]
fn confined(memory: &Node, at: &Node, threads: usize, prepare: impl FnOnce()) -> Task {
    let ready: &AtomicU32 = Shared::leak();
    let (there, here) = (memory.cpus.clone(), at.cpus.clone());
    let task = Task::fork(move || {
        prepare();
        confine(0, there).unwrap();
        let memory = Memory::new();
        memory.touch();
        confine(0, here).unwrap();
        for _ in 1..threads {
            std::thread::spawn(move || memory.work());
        }
        ready.store(1, Relaxed);
        memory.work()
    });
    within(secs(3), || match ready.load(Relaxed) {
        1 => Ok(()),
        _ => Err(format!("task {} is not ready", task.pid())),
    });
    assert_eq!(threads_of(&task).len(), threads);
    task
}

fn threads_of(task: &Task) -> BTreeSet<i32> {
    let threads = thread_cpus(task.pid()).into_iter();
    threads.map(|(tid, _)| tid).collect()
}

/// The nodes where a process's threads are.
fn nodes_of(nodes: &[Node], task: &Task) -> BTreeSet<usize> {
    let threads = thread_cpus(task.pid()).into_iter();
    threads.map(|(_, cpu)| node_of(nodes, cpu)).collect()
}

#[track_caller]
fn wait_until_known(client: &mut Client, processes: u64) {
    // Many an emulated look costs more than the budget of seconds.
    let mut looks = Vec::new();
    within(secs(8), || {
        let now = client.top().locality.remove("sampled").unwrap();
        looks.push((now.looks, now.look_us, now.known, now.unknown));
        match now.known {
            known if known >= processes => Ok(()),
            known => Err(format!("{known} of {processes} are known: {looks:?}")),
        }
    });
}

/// Run `test` with a scheduler of its own where there is a second node, on a quiet machine.
#[track_caller]
fn with_nodes(flags: &[&str], test: impl FnOnce(&mut Sched, &[Node])) {
    let nodes = nodes();
    with_own(flags, |sched| {
        let _quiet = Quiet::machine();
        match nodes.len() {
            1 => remark("skipped: one node"),
            _ => test(sched, &nodes),
        }
    });
}

/// All steps of `pids` after `from`, when there is one: the trace is written a little later. Whoever has no step went
/// by itself, with a wake-up, or was pulled.
#[track_caller]
fn steps_of(sched: &Sched, from: u64, pids: &BTreeSet<i32>) -> Vec<Step> {
    within(secs(1), || {
        let steps = sched.trace().steps(from).into_iter();
        let ours: Vec<Step> = steps.filter(|step| pids.contains(&step.pid)).collect();
        match ours.is_empty() {
            false => Ok(ours),
            true => Err(format!("no step of {pids:?}")),
        }
    })
}

/// Most of what there is to gain between the first two nodes: less than the whole scale where others are farther. It is
/// never all, since looks go by what is in use first (R7), and stacks and other small memory are where the threads are.
fn is_plain(gain: i32) -> bool {
    let near = Places::of(&Machine::detect(None).unwrap()).nearness_from(0)[1];
    gain > i32::from(1000 - near) / 2
}

fn whys(steps: &[Step]) -> Vec<Why> {
    steps.iter().map(|step| step.why).collect()
}

fn locality_of(stats: &Stats) -> String {
    let mode = &stats.locality["sampled"];
    format!(
        "local {:?}, {} looks in {} us,",
        stats.local_share().map(|share| (share * 1000.0).round()),
        mode.looks,
        mode.look_us
    )
}

/// Both threads of a process whose memory is on node 0 go back there, each once, for that reason.
#[test]
#[ignore = "runs in the lab"]
fn a_process_goes_back_to_its_memory() {
    with_nodes(&SAMPLED, |sched, nodes| {
        let task = confined(&nodes[0], &nodes[1], 2, || ());
        let threads = threads_of(&task);
        let mut client = Client::connect();
        wait_until_known(&mut client, 1);
        // Where it may not go nobody asks it to.
        sleep(ms(500));
        assert_eq!(sched.trace().steps(0), []);
        let stats = client.top();
        let share = stats.local_share().expect("it runs and is known");
        assert!(share < 0.2, "{stats:?}");

        let from = sched.trace().len();
        release(threads.iter().copied());
        within(secs(2), || match nodes_of(nodes, &task) {
            at if at == BTreeSet::from([0]) => Ok(()),
            at => Err(format!("its threads are on nodes {at:?}")),
        });
        let steps = steps_of(sched, from, &threads);
        for step in &steps {
            assert_eq!((step.why, step.to), (Why::Preferred, 0), "{step:?}");
            assert!(is_plain(step.gain), "{step:?}");
        }
        // And there they stay, near to their memory.
        client.top();
        let settled = sched.trace().len();
        sleep(secs(3));
        let stats = client.top();
        let share = stats.local_share().expect("it runs and is known");
        remark(&format!("{} steps, {}", steps.len(), locality_of(&stats)));
        let again = sched.trace().steps(settled);
        assert!(again.len() as u64 <= stats.pulled_remote, "{again:?}");
        assert!(share > 0.8 || stats.pulled_remote > 0, "{stats:?}");
        assert_eq!(stats.locality["sampled"].not_allowed, 0);
    });
}

/// The same with locality off: nobody brings it back, and nothing is said about locality.
#[test]
#[ignore = "runs in the lab"]
fn without_locality_it_stays_away() {
    with_nodes(&OFF, |sched, nodes| {
        let task = confined(&nodes[0], &nodes[1], 2, || ());
        let threads = threads_of(&task);
        let mut client = Client::connect();
        let from = sched.trace().len();
        release(threads.iter().copied());
        sleep(secs(6));
        let stats = client.top();
        let ticks = sched.trace().ticks(from);
        assert!(ticks.iter().all(|tick| tick.locality.is_none()));
        let moves = sched.trace().moves(from);
        assert!(!moves.iter().any(|m| threads.contains(&m.pid)), "{moves:?}");
        assert!(stats.locality.is_empty() && stats.local.is_empty());
        let at = nodes_of(nodes, &task);
        let pulled = stats.pulled_remote + stats.idle_remote > 0;
        assert!(at == BTreeSet::from([1]) || pulled, "{at:?} {stats:?}");
    });
}

/// Two processes, each on the node of the other one's memory.
fn crossed(nodes: &[Node]) -> [Task; 2] {
    [
        confined(&nodes[0], &nodes[1], 1, || ()),
        confined(&nodes[1], &nodes[0], 1, || ()),
    ]
}

/// With spare, where one of them alone is tolerated with the other, each goes by itself.
#[test]
#[ignore = "runs in the lab"]
fn with_spare_both_simply_move() {
    with_nodes(&SAMPLED, |sched, nodes| {
        let tasks = crossed(nodes);
        wait_until_known(&mut Client::connect(), 2);
        let from = sched.trace().len();
        release(tasks.iter().map(Task::pid));
        within(secs(2), || {
            let at = tasks.iter().map(|task| node_of(nodes, task.cpu()));
            match at.collect::<Vec<_>>() {
                at if at == [0, 1] => Ok(()),
                at => Err(format!("they are on nodes {at:?}")),
            }
        });
        let pids = tasks.iter().map(Task::pid).collect();
        let steps = steps_of(sched, from, &pids);
        remark(&format!("{:?}", whys(&steps)));
        assert!(whys(&steps).iter().all(|why| *why == Why::Preferred));
    });
}

/// Where that is not tolerated they are refused, and are not swapped either while there is spare (R4).
#[test]
#[ignore = "runs in the lab"]
fn beside_spare_nobody_is_swapped() {
    with_nodes(&NARROW, |sched, nodes| {
        let tasks = crossed(nodes);
        let mut client = Client::connect();
        wait_until_known(&mut client, 2);
        let from = sched.trace().len();
        client.top();
        release(tasks.iter().map(Task::pid));
        // With a third node one of them may go there first, which makes room for the other: then nobody is refused.
        if nodes.len() == 2 {
            let refused = within(secs(1), || {
                let mut stays = tasks
                    .iter()
                    .map(|task| sched.trace().stays(from, task.pid()));
                match stays.find(|stays| stays.contains(&Stay::NoSpareSwap)) {
                    Some(stays) => Ok(stays),
                    None => Err("nobody was refused by R4".to_string()),
                }
            });
            remark(&format!("{refused:?}"));
            assert!(client.top().locality["sampled"].no_spare_swap > 0);
        }
        sleep(secs(2));
        let steps = sched.trace().steps(from);
        assert!(!whys(&steps).contains(&Why::Swap), "{steps:?}");
        assert_eq!(client.top().locality["sampled"].swaps, 0);
    });
}

/// A process whose threads compute on every CPU but one of the first two nodes; a single one, so that there is not
/// much to look at.
fn filler(nodes: &[Node]) -> Task {
    let left_out = |at: usize| usize::from(at < 2);
    let places: Vec<BTreeSet<u32>> = nodes
        .iter()
        .enumerate()
        .flat_map(|(at, node)| vec![node.cpus.clone(); node.cpus.len() - left_out(at)])
        .collect();
    let count = places.len();
    let task = Task::fork(move || {
        let spin_on = |cpus: BTreeSet<u32>| {
            confine(0, cpus).unwrap();
            spin()
        };
        for cpus in places.iter().skip(1).cloned() {
            std::thread::spawn(move || spin_on(cpus));
        }
        spin_on(places[0].clone())
    });
    within(secs(3), || match threads_of(&task).len() {
        there if there == count => Ok(()),
        there => Err(format!("{there} of {count} fillers")),
    });
    task
}

/// With every CPU busy they change places.
#[test]
#[ignore = "runs in the lab"]
fn on_a_full_machine_two_are_swapped() {
    with_nodes(&NARROW, |sched, nodes| {
        let tasks = crossed(nodes);
        // Before the machine is full: looks are dear in the lab, and there is a budget for them.
        wait_until_known(&mut Client::connect(), 2);
        let fillers = filler(nodes);
        let from = sched.trace().len();
        release(tasks.iter().map(Task::pid));
        let pids: BTreeSet<i32> = tasks.iter().map(Task::pid).collect();
        let swap = within(secs(4), || {
            let steps = sched.trace().steps(from);
            let mut pairs = steps.windows(2);
            let pair = pairs.find(|pair| {
                pair[0].why == Why::Swap
                    && pids.contains(&pair[0].pid)
                    && pids.contains(&pair[1].pid)
            });
            match pair {
                Some(pair) => Ok(pair.to_vec()),
                None => Err(format!("no swap of {pids:?}: {steps:?}")),
            }
        });
        remark(&format!("beside {} fillers", threads_of(&fillers).len()));
        assert_eq!(whys(&swap), [Why::Swap, Why::SwappedFor]);
        assert!(swap.iter().all(|step| is_plain(step.gain)), "{swap:?}");
        assert_eq!((swap[0].from, swap[0].to), (swap[1].to, swap[1].from));
    });
}

/// Memory that was bound or interleaved is where it is on purpose: its tasks stay where they are.
#[test]
#[ignore = "runs in the lab"]
fn placed_memory_moves_nobody() {
    with_nodes(&SAMPLED, |sched, nodes| {
        let (first, both) = (nodes[0].id, [nodes[0].id, nodes[1].id]);
        let bound = move || set_memory_policy(libc::MPOL_BIND, [first]);
        let interleaved = move || set_memory_policy(libc::MPOL_INTERLEAVE, both);
        let tasks = [
            confined(&nodes[0], &nodes[1], 1, bound),
            confined(&nodes[0], &nodes[1], 1, interleaved),
        ];
        let mut client = Client::connect();
        within(secs(2), || match client.top().locality["sampled"].void {
            2.. => Ok(()),
            void => Err(format!("{void} of 2 are void")),
        });
        let from = sched.trace().len();
        release(tasks.iter().map(Task::pid));
        sleep(secs(5));
        let stats = client.top();
        assert_eq!(sched.trace().steps(from), []);
        assert!(stats.locality["sampled"].void >= 2, "{stats:?}");
        let at: Vec<usize> = tasks.iter().map(|t| node_of(nodes, t.cpu())).collect();
        assert!(at == [1, 1] || stats.pulled_remote + stats.idle_remote > 0);
        for task in &tasks {
            let stays = sched.trace().stays(0, task.pid());
            assert_eq!(stays.last(), Some(&Stay::Void), "{stays:?}");
        }
    });
}
