// SPDX-License-Identifier: GPL-2.0-only
//! A machine of one LLC per node with tasks whose memory lies somewhere, under the ledger and the
//! decisions of locality. What is observed is exact, and the evidence does not change.

use scx_ballast::policy::compile::{Limits, NodeShape, Thresholds};
use scx_ballast::policy::locality::decide::Decider;
use scx_ballast::policy::locality::evidence::{FirstTouch, MemoryPolicy, NodePages, Sample};
use scx_ballast::policy::locality::ledger::Ledger;
use scx_ballast::policy::locality::places::Places;
use scx_ballast::policy::locality::view::{Step, Steps, View};
use scx_ballast::policy::observation::{NodeObs, Observation, Shape, TaskObs};
use scx_ballast::policy::rule_set::RuleSet;

/// A tick takes so long; moved tasks have rested then.
pub const TICK_MS: u64 = 1000;

#[derive(Debug, Clone)]
pub struct Task {
    pub node: usize,
    pub process: usize,
    pub nodes: u64,
    pub weight: u32,
    pub busy: u16,
    /// Pages of its own by node, if they are known.
    pub pages: Option<Vec<u32>>,
    pub moved_at: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct Process {
    /// Pages by node; empty: never looked at.
    pub pages: Vec<u32>,
    pub faults: Vec<u32>,
    pub policy: MemoryPolicy,
}

#[derive(Debug)]
pub struct World {
    pub shape: Shape,
    pub limits: Limits,
    pub processes: Vec<Process>,
    pub tasks: Vec<Task>,
    pub ledger: Ledger,
    pub view: View,
    decider: Decider,
    pub now_ms: u64,
}

pub fn shape_of(weights: &[u32]) -> Shape {
    let nodes = weights.len();
    let order = |n: usize| (0..nodes).map(|i| ((n + i) % nodes) as u8).collect();
    Shape {
        order: (0..nodes).map(order).collect(),
        weight: weights.to_vec(),
        first_llc: (0..nodes as u16).collect(),
        llc_weight: weights.to_vec(),
        llc_node: (0..nodes as u8).collect(),
    }
}

pub fn limits_of(weights: &[u32], set: RuleSet, thresholds: Thresholds) -> Limits {
    let shape = |&weight: &u32| NodeShape {
        weight,
        llcs: 1,
        imb_numa_nr: (weight / 8).max(1),
    };
    let shapes: Vec<NodeShape> = weights.iter().map(shape).collect();
    Limits::compile(set, thresholds, &shapes)
}

impl World {
    pub fn new(weights: &[u32], thresholds: Thresholds) -> Self {
        let nodes = weights.len();
        let places = Places::by_distance(nodes, nodes, |a, b| if a == b { 10 } else { 20 });
        Self::with_places(weights, thresholds, places)
    }

    pub fn with_places(weights: &[u32], thresholds: Thresholds, places: Places) -> Self {
        let shape = shape_of(weights);
        Self {
            limits: limits_of(weights, RuleSet::Ballast, thresholds),
            processes: Vec::new(),
            tasks: Vec::new(),
            ledger: Ledger::new(places, shape.clone()),
            view: View::default(),
            decider: Decider::new(shape.clone(), 0),
            shape,
            now_ms: 10_000,
        }
    }

    pub fn nodes(&self) -> usize {
        self.shape.nodes()
    }

    /// A process with these pages by node; its number.
    pub fn process(&mut self, pages: &[u32]) -> usize {
        self.processes.push(Process {
            pages: pages.to_vec(),
            faults: Vec::new(),
            policy: MemoryPolicy::Free,
        });
        self.processes.len() - 1
    }

    /// A hog of the process that may run anywhere; its number.
    pub fn task(&mut self, process: usize, node: usize) -> usize {
        self.tasks.push(Task {
            node,
            process,
            nodes: u64::MAX,
            weight: 100,
            busy: 1000,
            pages: None,
            moved_at: None,
        });
        self.tasks.len() - 1
    }

    pub fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.nodes()];
        for task in &self.tasks {
            counts[task.node] += 1;
        }
        counts
    }

    pub fn observation(&self) -> Observation {
        let counts = self.counts();
        let average = |node: usize| {
            let on = || self.tasks.iter().filter(|task| task.node == node);
            let sum: u64 = on().map(|task| u64::from(task.weight)).sum();
            sum.checked_div(on().count() as u64).unwrap_or(100) as u32
        };
        let node = |(node, &running): (usize, &u32)| NodeObs {
            running_milli: running * 1000,
            running,
            newborn: 0,
            task_weight: average(node),
        };
        let task = |(i, task): (usize, &Task)| TaskObs {
            slot: i as u32,
            seq: 2,
            pid: 1000 + i as i32,
            tgid: task.process as i32,
            llc: task.node as u16,
            busy: task.busy,
            weight: task.weight,
            nodes: task.nodes,
            moved_ms: task
                .moved_at
                .map_or(u32::MAX, |at| (self.now_ms - at) as u32),
        };
        Observation {
            at: 0,
            nodes: counts.iter().enumerate().map(node).collect(),
            llcs: counts.clone(),
            tasks: self.tasks.iter().enumerate().map(task).collect(),
            held: Vec::new(),
            lasting: Vec::new(),
        }
    }

    /// Look at all memory that can be seen. Twice at the first time, so that it is enough.
    pub fn sample(&mut self) {
        let looks = if self.now_ms == 10_000 { 2 } else { 1 };
        for _ in 0..looks {
            for (i, process) in self.processes.iter().enumerate() {
                self.ledger.set_policy(i as i32, process.policy);
                if !process.pages.is_empty() {
                    self.ledger
                        .sampled(i as i32, &sample(self.now_ms, &process.pages));
                }
            }
            for (i, task) in self.tasks.iter().enumerate() {
                let key = (i as u32, 2);
                if let Some(pages) = &task.pages {
                    self.ledger.sampled_task(key, &sample(self.now_ms, pages));
                }
                let faults = &self.processes[task.process].faults;
                if !faults.is_empty() {
                    let touch = FirstTouch {
                        at_ms: self.now_ms,
                        faults: faults.clone(),
                    };
                    self.ledger.touched(task.process as i32, key, &touch);
                }
            }
        }
    }

    /// Look and decide, nothing more.
    pub fn decide(&mut self) -> (Observation, Steps) {
        self.sample();
        let obs = self.observation();
        self.ledger.view(&obs, self.now_ms, &mut self.view);
        let mut steps = Steps::default();
        self.decider
            .decide(&obs, &self.view, &self.limits, &[], &mut steps);
        (obs, steps)
    }

    /// A whole tick: decide, remember, carry out.
    pub fn tick(&mut self) -> Steps {
        let (obs, steps) = self.decide();
        self.ledger.remember(&obs, &self.view, &steps);
        self.carry_out(&steps.steps);
        self.now_ms += TICK_MS;
        steps
    }

    pub fn carry_out(&mut self, steps: &[Step]) {
        for step in steps {
            let task = &mut self.tasks[step.slot as usize];
            assert_eq!(task.node, usize::from(step.from), "{step:?}");
            assert!(task.nodes >> step.to & 1 == 1, "{step:?}");
            task.node = usize::from(step.to);
            task.moved_at = Some(self.now_ms);
        }
    }

    /// Where the tasks of a process run.
    pub fn nodes_of(&self, process: usize) -> Vec<usize> {
        let tasks = self.tasks.iter().filter(|task| task.process == process);
        tasks.map(|task| task.node).collect()
    }
}

pub fn sample(at_ms: u64, pages: &[u32]) -> Sample {
    let private = |&private: &u32| NodePages { private, shared: 0 };
    Sample {
        at_ms,
        asked: pages.iter().sum(),
        pages: pages.iter().map(private).collect(),
    }
}

/// Whatever is asked for is tolerated, as long as there is spare.
pub fn wide_open() -> Thresholds {
    Thresholds {
        imbalance_min: Some(10_000),
        imb_numa_nr: "100%".parse().unwrap(),
    }
}
