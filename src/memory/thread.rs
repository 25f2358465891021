// SPDX-License-Identifier: GPL-2.0-only
//! The thread that carries out orders, one after the other.
//!
//! Both queues are bounded, and nobody waits for the other side: an order is refused while as many are waiting, or
//! reports are waiting to be read, as there may be; so there is always room for a report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use crossbeam::channel::{Receiver, SendTimeoutError, Sender, bounded};
use fastrand::Rng;

use super::bring::Bringer;
use super::maps::MemoryDevices;
use super::orders::{Order, Report, Unseen};
use super::pages;
use super::procfs::{Nodes, Proc};
use super::sampler::{Kernel, MemoryNodes, Sampler};
use super::thread_time::ThreadTime;
use super::touch::{TouchSource, Touches};

/// Orders and reports that may wait.
const MOST: usize = 256;
const NODES: &str = "/sys/devices/system/node";
/// How long the thread may not notice that it shall end, if nobody reads its reports.
const NOTICE: Duration = Duration::from_millis(50);

/// What both sides know.
#[derive(Debug, Default)]
struct Common {
    ends: AtomicBool,
    cpu_time_us: AtomicU64,
    kernel_balances: AtomicBool,
}

/// See the module. Ends with this.
pub struct MemoryThread {
    /// `None` when it ends.
    orders: Option<Sender<Order>>,
    reports: Receiver<Report>,
    common: Arc<Common>,
    touch_source: TouchSource,
    thread: Option<JoinHandle<()>>,
}

impl MemoryThread {
    /// `node_ids`: the kernel's id of each node, by dense index.
    ///
    /// # Errors
    /// The kernel does not tell where memory is, or there can be no thread.
    pub fn start(node_ids: Vec<u32>, seed: u64) -> Result<Self> {
        let byte = 0_u8;
        let own = &raw const byte as usize;
        pages::ask(pages::OWN, &[own], &mut [0])
            .context("the kernel does not tell where memory is (move_pages)")?;
        let nodes = MemoryNodes {
            with_memory: nodes_with_memory(&node_ids),
            ids: node_ids,
        };
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let touches = Touches::probe(pages::page_size() as u64);
        let touch_source = touches.source();
        let proc = Proc::new("/proc");
        let worker = Worker {
            bringer: Bringer::new(proc.clone(), NODES),
            ids: nodes.ids.clone(),
            sampler: Sampler::new(
                proc,
                Kernel,
                nodes,
                MemoryDevices::parse(&mounts),
                touches,
                Rng::with_seed(seed),
            ),
        };
        let (orders, to_do) = bounded(MOST);
        let (done, reports) = bounded(MOST + 1);
        let common = Arc::new(Common::default());
        let its = Arc::clone(&common);
        let thread = std::thread::Builder::new().name("memory".into());
        let thread = thread.spawn(move || worker.work(&to_do, &done, &its))?;
        Ok(Self {
            orders: Some(orders),
            reports,
            common,
            touch_source,
            thread: Some(thread),
        })
    }

    /// Give an order; `false` if there are too many already. Never waits.
    pub fn order(&self, order: Order) -> bool {
        let Some(orders) = &self.orders else {
            return false;
        };
        orders.len() + self.reports.len() < MOST && orders.try_send(order).is_ok()
    }

    /// One for each order that was taken, in their order.
    pub fn reports(&self) -> &Receiver<Report> {
        &self.reports
    }

    /// CPU time that orders took so far.
    pub fn cpu_time_us(&self) -> u64 {
        self.common.cpu_time_us.load(Relaxed)
    }

    /// Whether the kernel's own NUMA balancing was seen to work on a sched_ext task; on no kernel so far.
    pub fn kernel_balances(&self) -> bool {
        self.common.kernel_balances.load(Relaxed)
    }

    /// What tells "recently touched" on this machine.
    pub fn touch_source(&self) -> TouchSource {
        self.touch_source
    }
}

impl Drop for MemoryThread {
    fn drop(&mut self) {
        self.common.ends.store(true, Relaxed);
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // It has said why if it panicked.
            let _ = thread.join();
        }
    }
}

/// Nodes that have memory, now; if the kernel does not tell, all.
fn nodes_with_memory(ids: &[u32]) -> Nodes {
    let list = std::fs::read_to_string(format!("{NODES}/has_memory")).ok();
    let all = || {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        Nodes::parse(&ids.join(","))
    };
    list.and_then(|list| Nodes::parse(&list))
        .or_else(all)
        .unwrap_or_default()
}

struct Worker {
    sampler: Sampler<Kernel>,
    bringer: Bringer,
    ids: Vec<u32>,
}

impl Worker {
    fn work(mut self, orders: &Receiver<Order>, reports: &Sender<Report>, common: &Common) {
        for order in orders {
            if common.ends.load(Relaxed) {
                return;
            }
            let clock = ThreadTime::now();
            let awaited = || common.ends.load(Relaxed) || !orders.is_empty();
            let mut report = self.carry_out(order, &awaited);
            let took_us = clock.elapsed_us();
            match &mut report {
                Report::Looked { cost_us, .. } | Report::Brought { cost_us, .. } => {
                    *cost_us = took_us;
                }
            }
            common.cpu_time_us.fetch_add(took_us.into(), Relaxed);
            let balances = self.sampler.kernel_balances();
            common.kernel_balances.store(balances, Relaxed);
            if !send(reports, report, common) {
                return;
            }
        }
    }

    /// What it cost is filled in by the caller. `awaited`: whether there is something else to do.
    fn carry_out(&mut self, order: Order, awaited: &dyn Fn() -> bool) -> Report {
        match order {
            Order::Look {
                tgid,
                addresses,
                touched,
                at_ms,
            } => Report::Looked {
                tgid,
                at_ms,
                cost_us: 0,
                found: self.sampler.look(tgid, (addresses, &touched), at_ms),
            },
            Order::Bring {
                tgid,
                to,
                pages,
                within,
                at_ms,
            } => {
                let node = self.ids.get(usize::from(to)).copied();
                let brought = match node {
                    Some(node) => {
                        let what = (tgid, to, node);
                        let most = (pages, within);
                        let when = (at_ms, awaited);
                        self.bringer.bring(&mut self.sampler, what, most, when)
                    }
                    None => Err(Unseen::Gone),
                };
                Report::Brought {
                    tgid,
                    to,
                    within,
                    at_ms,
                    cost_us: 0,
                    brought,
                }
            }
        }
    }
}

/// Whether it could be sent; if not, it is time to end.
fn send(reports: &Sender<Report>, mut report: Report, common: &Common) -> bool {
    loop {
        match reports.send_timeout(report, NOTICE) {
            Ok(()) => return true,
            Err(SendTimeoutError::Disconnected(_)) => return false,
            Err(SendTimeoutError::Timeout(_)) if common.ends.load(Relaxed) => return false,
            Err(SendTimeoutError::Timeout(unsent)) => report = unsent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Brought;
    use std::time::Instant;

    const SECOND: Duration = Duration::from_secs(1);

    fn look(tgid: i32, at_ms: u64) -> Order {
        Order::Look {
            tgid,
            addresses: 200,
            touched: Vec::new(),
            at_ms,
        }
    }

    /// `None` where a sandbox does not let anybody ask.
    fn thread() -> Option<MemoryThread> {
        MemoryThread::start(vec![0], 1).ok()
    }

    #[test]
    fn it_looks_at_a_process_and_says_what_it_cost() {
        let Some(thread) = thread() else { return };
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        let own = std::process::id() as i32;
        assert!(thread.order(look(own, 17)));
        assert!(thread.order(look(i32::MAX, 18)));
        let report = thread.reports().recv_timeout(10 * SECOND).unwrap();
        let Report::Looked {
            tgid,
            at_ms,
            cost_us,
            found,
        } = report
        else {
            panic!("{report:?}");
        };
        let look = found.unwrap();
        assert_eq!((tgid, at_ms, look.sample.asked), (own, 17, 200));
        // More than half of its memory is what was just touched; where nodes are not 0, somewhere else.
        let present: u32 = look.sample.pages.iter().map(|node| node.private).sum();
        assert!(look.resident * pages::page_size() as u64 >= 64 << 20);
        assert!(present > 0 || cfg!(not(target_arch = "x86_64")), "{look:?}");
        assert!(cost_us > 0);
        let gone = thread.reports().recv_timeout(10 * SECOND).unwrap();
        assert!(
            matches!(
                gone,
                Report::Looked {
                    found: Err(Unseen::Gone),
                    at_ms: 18,
                    ..
                }
            ),
            "{gone:?}"
        );
        assert!(thread.cpu_time_us() >= cost_us.into());
        drop(memory);
    }

    #[test]
    fn an_order_too_many_is_refused_and_nothing_is_lost() {
        let Some(thread) = thread() else { return };
        let try_one = |at: &u64| {
            std::thread::sleep(SECOND / 10_000);
            thread.order(look(i32::MAX, *at))
        };
        // Nobody reads, and one may be neither waiting nor answered.
        let taken = (0..1500).filter(try_one).count();
        assert!((MOST..=MOST + 1).contains(&taken), "{taken}");
        let began = Instant::now();
        let mut reports = 0;
        while reports < taken && began.elapsed() < 10 * SECOND {
            reports += thread.reports().recv_timeout(SECOND).iter().count();
        }
        assert_eq!(reports, taken);
        assert!(thread.reports().recv_timeout(SECOND / 10).is_err());
    }

    #[test]
    fn it_ends_although_nobody_reads() {
        let Some(thread) = thread() else { return };
        let kept = thread.reports().clone();
        for at in 0..MOST as u64 {
            thread.order(look(std::process::id() as i32, at));
        }
        let began = Instant::now();
        drop(thread);
        assert!(began.elapsed() < 5 * SECOND);
        drop(kept);
    }

    #[test]
    fn a_node_that_is_not_there_is_nobodys() {
        let Some(thread) = thread() else { return };
        let order = Order::Bring {
            tgid: std::process::id() as i32,
            to: 9,
            pages: 512,
            within: None,
            at_ms: 0,
        };
        assert!(thread.order(order));
        let report = thread.reports().recv_timeout(10 * SECOND).unwrap();
        assert!(
            matches!(
                report,
                Report::Brought {
                    to: 9,
                    brought: Err(Unseen::Gone),
                    ..
                }
            ),
            "{report:?}"
        );
    }

    /// A machine of one node has nothing to bring; all of the process is gone through all the same.
    #[test]
    fn what_is_there_already_is_not_brought() {
        let ids = std::fs::read_to_string(format!("{NODES}/has_memory"));
        let (Some(thread), true) = (thread(), ids.is_ok_and(|ids| ids.trim() == "0")) else {
            return;
        };
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let order = Order::Bring {
            tgid: child.id() as i32,
            to: 0,
            pages: 512,
            within: None,
            at_ms: 0,
        };
        assert!(thread.order(order));
        let report = thread.reports().recv_timeout(10 * SECOND);
        child.kill().unwrap();
        child.wait().unwrap();
        let Ok(Report::Brought { brought, .. }) = report else {
            panic!("{report:?}");
        };
        let nothing = Brought {
            finished: true,
            ..Brought::default()
        };
        assert_eq!(brought, Ok(nothing));
    }
}
