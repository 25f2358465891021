// SPDX-License-Identifier: GPL-2.0-only
//! Workloads of one's own as text: programs of steps, and what tasks meet at.
//!
//! docs/simulation.md describes the format. A line is a statement; outside of programs it declares something, inside it
//! is a step. Names may be used before they are declared. What is accepted here makes a plan of bounded size: loops do
//! not nest, no program starts itself again, and the number of tasks has a limit.

use super::lines::{FileError, Line, Names, lines};
use super::marks;
use crate::machine::cpulist;
use crate::sim::hardware::Hardware;
use crate::sim::program::{Channel, Mark, Op, Plan, Whose};

/// More forks of one step are a loop, unless they are in one.
const UNROLLED: u64 = 64;
/// Operations in all programs, and tasks in a run.
const MOST_OPS: usize = 1_000_000;
const MOST_TASKS: u64 = 1_000_000;
const MOST_PROGRAMS: usize = 1000;
/// Rounds of a loop.
const MOST_ROUNDS: u64 = 10_000_000;

/// What is declared outside of programs, and steps; for messages.
const DECLARATIONS: &str = "program, barrier, pipe, queue, nodes, start";
const STEPS: &str = "compute, busy, memory, touch, use, sleep, fork, thread, exec, wait, barrier, spin, send, receive, \
                     confine, repeat, mark, end";

/// A program as it stands in the file.
pub(super) struct Block<'a> {
    head: Line<'a>,
    pub name: &'a str,
    pub body: Vec<Line<'a>>,
}

/// Everything that has a name.
struct Known<'a> {
    programs: Names<'a>,
    barriers: Names<'a>,
    pipes: Names<'a>,
    nodes: Names<'a>,
}

/// What one program starts: which other, how often.
pub(super) type Starts = Vec<(usize, u64)>;

/// The plan that a text describes, for a machine.
///
/// # Errors
/// The first line that is not understood, and what was expected there.
pub fn parse(text: &str, hw: &Hardware) -> Result<Plan, FileError> {
    let mut plan = Plan::default();
    let mut known = Known {
        programs: Names::of("program"),
        barriers: Names::of("barrier"),
        pipes: Names::of("pipe or queue"),
        nodes: Names::of("set of nodes"),
    };
    let mut start = None;
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut all = lines(text);
    while let Some(line) = all.next() {
        match line.word {
            "program" => {
                let block = block(line, &mut all)?;
                known.programs.declare(&line, block.name, blocks.len())?;
                if blocks.len() == MOST_PROGRAMS {
                    return Err(line.error(format!("more than {MOST_PROGRAMS} programs")));
                }
                plan.names.programs.push(line.named(block.name));
                blocks.push(block);
            }
            "start" => {
                let [name] = line.exactly("start PROGRAM")?;
                if start.replace((line, name)).is_some() {
                    return Err(line.error("there is a second `start`; one task begins"));
                }
            }
            _ => declare(&line, hw, &mut known, &mut plan)?,
        }
    }
    let Some(last) = blocks.last() else {
        return Err(FileError {
            line: text.lines().count().max(1),
            what: "there is no program; expected `program NAME`, steps, `end`".into(),
        });
    };
    let Some((line, name)) = start else {
        return Err(last
            .head
            .error("nothing says where to begin; expected a line `start PROGRAM`"));
    };
    plan.root = known.programs.find(&line, name)?;
    let marked = marks::check(&blocks)?;
    let mut starts = Vec::new();
    let mut threads = Vec::new();
    for block in &blocks {
        let mut steps = Steps::new(&known, marked);
        for line in &block.body {
            steps.add(line)?;
        }
        starts.push(steps.starts);
        threads.extend(steps.threads);
        plan.program(steps.ops);
    }
    check_threads(&blocks, &threads)?;
    check_tasks(&blocks, &starts, plan.root)?;
    marks::check_started(&blocks, &starts, plan.root)?;
    plan.names.marks = marks::lines(&blocks);
    Ok(plan)
}

/// The lines up to the end of the program that begins at `head`.
fn block<'a>(
    head: Line<'a>,
    rest: &mut impl Iterator<Item = Line<'a>>,
) -> Result<Block<'a>, FileError> {
    let [name] = head.exactly("program NAME")?;
    let mut body = Vec::new();
    let mut in_loop = false;
    // What may be taken for the program's own.
    let mut last_end = None;
    for line in rest {
        match line.word {
            "program" => break,
            "end" if !in_loop => {
                line.exactly::<0>("end")?;
                return Ok(Block { head, name, body });
            }
            "end" => (in_loop, last_end) = (false, Some(line.number)),
            "repeat" if in_loop => {
                return Err(line.error("loops do not nest; expected `end` of the one before"));
            }
            "repeat" => in_loop = true,
            _ => {}
        }
        body.push(line);
    }
    let message = match (in_loop, last_end) {
        (true, _) => format!("a loop in program '{name}' has no `end`"),
        (false, Some(end)) => {
            format!("program '{name}' has no `end`; that of line {end} ends a loop")
        }
        (false, None) => format!("program '{name}' has no `end`"),
    };
    Err(head.error(message))
}

/// A line outside of programs.
fn declare<'a>(
    line: &Line<'a>,
    hw: &Hardware,
    known: &mut Known<'a>,
    plan: &mut Plan,
) -> Result<(), FileError> {
    match line.word {
        "barrier" => {
            let [name, tasks] = line.exactly("barrier NAME TASKS")?;
            let tasks = line.number(tasks, 1, MOST_TASKS)?;
            plan.names.barriers.push(line.named(name));
            known.barriers.declare(line, name, plan.barrier(tasks as u32))
        }
        word @ ("pipe" | "queue") => {
            let usage = format!("{word} NAME MESSAGES");
            let [name, messages] = line.exactly(&usage)?;
            let capacity = line.number(messages, 1, MOST_TASKS)? as u32;
            let sync = word == "pipe";
            plan.names.channels.push(line.named(name));
            let at = plan.channel(Channel { capacity, sync });
            known.pipes.declare(line, name, at)
        }
        "nodes" => {
            let [name, list] = line.exactly("nodes NAME LIST")?;
            if name == "all" {
                return Err(line.error("'all' means all nodes already; expected another name"));
            }
            known.nodes.declare(line, name, plan.sets.len())?;
            plan.sets.push(cpus_of(line, list, hw)?);
            Ok(())
        }
        other => Err(line.error(format!(
            "expected one of {DECLARATIONS}, got '{other}'; steps stand between `program NAME` and `end`"
        ))),
    }
}

/// The CPUs of a list of nodes.
fn cpus_of(line: &Line<'_>, list: &str, hw: &Hardware) -> Result<Vec<usize>, FileError> {
    let ids = cpulist::parse(list).filter(|ids| !ids.is_empty());
    let ids =
        ids.ok_or_else(|| line.error(format!("expected nodes such as 0-1,4, got '{list}'")))?;
    let mut cpus = Vec::new();
    for id in ids {
        let node = hw.node_ids.iter().position(|&node| node == id);
        let node = node.ok_or_else(|| {
            let nodes = cpulist::format(hw.node_ids.iter().copied());
            line.error(format!(
                "the machine has no node {id} with CPUs; it has {nodes}"
            ))
        })?;
        cpus.extend(hw.cpus_of_node(node));
    }
    Ok(cpus)
}

/// Steps of one program as operations.
struct Steps<'a> {
    known: &'a Known<'a>,
    ops: Vec<Op>,
    /// The loop that the next step is in: its first operation and its rounds.
    round: Option<(usize, u32)>,
    starts: Starts,
    /// Programs that it starts as threads.
    threads: Vec<usize>,
}

impl<'a> Steps<'a> {
    /// `marked`: the file has marks of its own; else a task is looked at when it begins.
    fn new(known: &'a Known<'a>, marked: bool) -> Self {
        Self {
            known,
            ops: match marked {
                true => Vec::new(),
                false => vec![Op::Mark(Mark::First)],
            },
            round: None,
            starts: Vec::new(),
            threads: Vec::new(),
        }
    }

    fn add(&mut self, line: &Line<'_>) -> Result<(), FileError> {
        let op = match line.word {
            "fork" => return self.fork(line, "fork PROGRAM [TIMES [TIME]]", Op::Fork),
            "thread" => return self.fork(line, "thread PROGRAM [TIMES [TIME]]", Op::Thread),
            "repeat" => {
                let [rounds] = line.exactly("repeat ROUNDS")?;
                let rounds = line.number(rounds, 1, MOST_ROUNDS)? as u32;
                self.round = Some((self.ops.len(), rounds));
                return Ok(());
            }
            "end" => {
                line.exactly::<0>("end")?;
                return self.end_of_loop(line);
            }
            _ => self.plain(line)?,
        };
        self.push(line, op)
    }

    /// A step that is one operation.
    fn plain(&self, line: &Line<'_>) -> Result<Op, FileError> {
        let known = self.known;
        Ok(match line.word {
            "compute" => Op::Compute(line.time(line.exactly::<1>("compute TIME")?[0])?),
            "busy" => Op::Busy(line.time(line.exactly::<1>("busy TIME")?[0])?),
            "sleep" => Op::Sleep(line.time(line.exactly::<1>("sleep TIME")?[0])?),
            "memory" => {
                let [work, share] = line.exactly("memory TIME SHARE%")?;
                let (work, intensity) = (line.time(work)?, line.share(share)?);
                Op::Memory { work, intensity }
            }
            "touch" => {
                let [work, share] = line.exactly("touch TIME SHARE%")?;
                let (work, intensity) = (line.time(work)?, line.share(share)?);
                Op::Touch { work, intensity }
            }
            "exec" => line.exactly::<0>("exec").map(|_| Op::Exec)?,
            "wait" => line.exactly::<0>("wait").map(|_| Op::WaitChildren)?,
            "barrier" => Op::Barrier(self.named(line, "barrier NAME", &known.barriers)?),
            "spin" => Op::Spin(self.named(line, "spin BARRIER", &known.barriers)?),
            "send" => Op::Send(self.named(line, "send PIPE", &known.pipes)?),
            "receive" => Op::Receive(self.named(line, "receive PIPE", &known.pipes)?),
            "use" => Op::Use(match line.exactly("use own|shared")? {
                ["own"] => Whose::Task,
                ["shared"] => Whose::Process,
                [other] => {
                    return Err(line.error(format!("expected use own or shared, got '{other}'")));
                }
            }),
            "confine" => match line.exactly("confine NODES|all")? {
                ["all"] => Op::Confine(None),
                [name] => Op::Confine(Some(known.nodes.find(line, name)?)),
            },
            "mark" => Op::Mark(match line.exactly("mark first|begin|end")? {
                ["first"] => Mark::First,
                ["begin"] => Mark::Begin,
                ["end"] => Mark::End,
                [other] => {
                    return Err(
                        line.error(format!("expected mark first, begin or end, got '{other}'"))
                    );
                }
            }),
            other => return Err(line.error(format!("expected one of {STEPS}, got '{other}'"))),
        })
    }

    /// The number of what a step names.
    fn named(&self, line: &Line<'_>, usage: &str, names: &Names<'_>) -> Result<usize, FileError> {
        let [name] = line.exactly(usage)?;
        names.find(line, name)
    }

    /// `fork PROGRAM [TIMES [TIME]]`, or `thread`: as often, with so much work before each.
    fn fork(
        &mut self,
        line: &Line<'_>,
        usage: &str,
        start: fn(usize) -> Op,
    ) -> Result<(), FileError> {
        let words = line.words(1, 3, usage)?;
        let [name, more @ ..] = &words[..] else {
            return Err(line.error(usage));
        };
        let program = self.known.programs.find(line, name)?;
        let times = more
            .first()
            .map_or(Ok(1), |text| line.number(text, 1, MOST_TASKS))?;
        let work = more.get(1).map_or(Ok(0), |text| line.time(text))?;
        let rounds = self.round.map_or(1, |(_, rounds)| u64::from(rounds));
        self.starts.push((program, times.saturating_mul(rounds)));
        if matches!(start(program), Op::Thread(_)) {
            self.threads.push(program);
        }
        let to = self.ops.len();
        let loops = times > UNROLLED && self.round.is_none();
        for _ in 0..if loops { 1 } else { times } {
            if work > 0 {
                self.push(line, Op::Compute(work))?;
            }
            self.push(line, start(program))?;
        }
        if loops {
            let times = times as u32;
            self.push(line, Op::Repeat { to, times })?;
        }
        Ok(())
    }

    fn end_of_loop(&mut self, line: &Line<'_>) -> Result<(), FileError> {
        let Some((to, times)) = self.round.take() else {
            return Err(line.error("there is no loop to end"));
        };
        if to == self.ops.len() {
            return Err(line.error("there is nothing in the loop"));
        }
        self.push(line, Op::Repeat { to, times })
    }

    fn push(&mut self, line: &Line<'_>, op: Op) -> Result<(), FileError> {
        if self.ops.len() >= MOST_OPS {
            return Err(line.error(format!("more than {MOST_OPS} steps; use `repeat`")));
        }
        self.ops.push(op);
        Ok(())
    }
}

/// Only a process of one thread execs: others would be at their end then, and what they have left to do is not.
fn check_threads(blocks: &[Block<'_>], threads: &[usize]) -> Result<(), FileError> {
    for (at, block) in blocks.iter().enumerate() {
        let mut started = threads.contains(&at);
        // The loop that a line is in, and an exec in it.
        let mut around: Option<Option<&Line<'_>>> = None;
        for line in &block.body {
            let exec = match (line.word, &mut around) {
                ("repeat", _) => {
                    around = Some(None);
                    continue;
                }
                ("end", _) => {
                    around = None;
                    continue;
                }
                ("exec", _) if started => Some(line),
                ("exec", Some(exec)) => {
                    *exec = Some(line);
                    None
                }
                ("thread", Some(exec)) => {
                    started = true;
                    *exec
                }
                ("thread", None) => {
                    started = true;
                    None
                }
                _ => None,
            };
            if let Some(exec) = exec {
                return Err(exec.error(
                    "only a process of one thread can `exec`; threads are started after it",
                ));
            }
        }
    }
    Ok(())
}

/// No program starts itself, and there are not too many tasks.
fn check_tasks(blocks: &[Block<'_>], starts: &[Starts], root: usize) -> Result<(), FileError> {
    let mut counts = vec![None; blocks.len()];
    let tasks = tasks_of(root, blocks, starts, &mut counts, &mut Vec::new())?;
    match tasks <= MOST_TASKS {
        true => Ok(()),
        false => Err(blocks[root].head.error(format!(
            "it starts {tasks} tasks, and at most {MOST_TASKS} are run"
        ))),
    }
}

/// Tasks that a task of the program comes to, itself among them. `path`: the programs on the way to it.
fn tasks_of(
    program: usize,
    blocks: &[Block<'_>],
    starts: &[Starts],
    counts: &mut [Option<u64>],
    path: &mut Vec<usize>,
) -> Result<u64, FileError> {
    if path.contains(&program) {
        let Block { head, name, .. } = &blocks[program];
        return Err(head.error(format!(
            "program '{name}' starts itself again, without an end"
        )));
    }
    if let Some(count) = counts[program] {
        return Ok(count);
    }
    path.push(program);
    let mut tasks = 1u64;
    for &(child, times) in &starts[program] {
        let each = tasks_of(child, blocks, starts, counts, path)?;
        tasks = tasks.saturating_add(each.saturating_mul(times));
    }
    path.pop();
    counts[program] = Some(tasks);
    Ok(tasks)
}
