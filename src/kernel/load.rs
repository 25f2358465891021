// SPDX-License-Identifier: GPL-2.0-only
//! Load and attach the BPF half: the machine and the flags become its constants and map sizes.
//!
//! Everything that BPF takes as constant is written between open and load; the tables that need a
//! map are written between load and attach. After attach Rust writes nothing but wishes.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use libbpf_rs::{Link, OpenObject, ProgramInput};
use log::info;
use scx_utils::{
    UserExitInfo, compat, scx_ops_attach, scx_ops_load, scx_ops_open, uei_exited, uei_report,
};

use super::check;
use super::intf;
use super::limits::BpfLimits;
use super::mapped::MappedArray;
use super::skel::{BallastSkel, BallastSkelBuilder, OpenBallastSkel};
use crate::cli::RunArgs;
use crate::machine::Machine;
use crate::policy::placement::ForkLimits;

/// The attached scheduler. Dropping it gives the machine back to the kernel's own scheduler.
pub struct Scheduler<'obj> {
    pub(super) skel: BallastSkel<'obj>,
    link: Option<Link>,
    pub(super) slots: MappedArray<intf::task_slot>,
    pub(super) llcs: MappedArray<intf::llc_counters>,
    pub(super) cpus: MappedArray<intf::cpu_ctx>,
    limits: BpfLimits,
    /// By slot and node, `None` when they are not collected.
    pub(super) faults: Option<MappedArray<u64>>,
    /// By slot, `None` when they are not collected.
    pub(super) touches: Option<MappedArray<intf::touch_ring>>,
    pub(super) nodes: usize,
    /// Preferred nodes are looked at.
    pub(super) preferring: bool,
    /// Newborn epochs, in ns; 0: newborns are not counted.
    pub(super) newborn_epoch_ns: u64,
}

/// What BPF does for locality. All of it needs more than one node, and costs nothing when it is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Locality {
    /// Look at preferred nodes at forks and wake-ups.
    pub preferred: bool,
    /// Collect minor faults by node.
    pub first_touch: bool,
    /// Collect addresses that tasks work on.
    pub touches: bool,
}

/// Bytes for fork placements that are not written yet: about 3700 of them, emptied every tick.
const TRACE_BUFFER: u32 = 4 << 20;

/// The kernel's own memory for the skeleton; outlives one load, is reused by the next.
pub type ObjectSpace = MaybeUninit<OpenObject>;

/// ops.flags for this kernel: what it does not know is 0 in `compat`.
fn ops_flags(args: &RunArgs, machine: &Machine) -> u64 {
    let mut flags = *compat::SCX_OPS_ENQ_LAST
        | *compat::SCX_OPS_ENQ_EXITING
        | *compat::SCX_OPS_ENQ_MIGRATION_DISABLED
        | *compat::SCX_OPS_ALLOW_QUEUED_WAKEUP;
    if args.partial {
        flags |= *compat::SCX_OPS_SWITCH_PARTIAL;
    }
    if machine.nr_cpu_nodes() > 1 && !args.global_idle_mask {
        flags |= *compat::SCX_OPS_BUILTIN_IDLE_PER_NODE;
    }
    flags
}

fn set_constants(
    skel: &mut OpenBallastSkel<'_>,
    args: &RunArgs,
    machine: &Machine,
    locality: Locality,
) -> Result<()> {
    let per_node = skel.struct_ops.ballast().flags & *compat::SCX_OPS_BUILTIN_IDLE_PER_NODE != 0;
    let ro = skel
        .maps
        .rodata_data
        .as_mut()
        .context("the BPF object has no constants")?;

    ro.nr_cpu_ids = machine.nr_cpu_ids() as u32;
    ro.nr_llcs = machine.llcs().len() as u32;
    ro.nr_nodes = machine.nr_cpu_nodes() as u32;
    ro.smt_on = machine.smt();
    ro.per_node_idle = per_node;
    ro.nr_slots = args.max_tasks;
    ro.tracing = args.trace.is_some();
    ro.preferring = locality.preferred;
    ro.first_touch = locality.first_touch;
    ro.touching = locality.touches;
    let policy = &args.policy;
    ro.slice_ns = policy.slice_us * 1000;
    ro.slice_min_ns = policy.slice_min_us.min(policy.slice_us) * 1000;
    ro.pull_delay_ns = policy.pull_delay_us * 1000;
    ro.sync_ns = args.policy.sync_us * 1000;
    ro.newborn_epoch_ns = newborn_epoch_ns(args);
    ro.newborn_work_ns = policy.newborn_work_us * 1000;

    for node in machine.cpu_nodes() {
        let n = node.idx.as_usize();
        ro.node_id[n] = node.id;
        ro.node_weight[n] = node.weight();
        ro.node_first_llc[n] = u32::from(node.llcs.start);
        ro.node_nr_llcs[n] = node.llcs.len() as u32;
        for (i, near) in machine.nearest_first(node.idx).iter().enumerate() {
            ro.node_order[n][i] = near.0 as u8;
        }
    }
    for llc in machine.llcs() {
        let l = llc.idx.as_usize();
        ro.llc_node[l] = u32::from(llc.node.0);
        ro.llc_weight[l] = llc.weight();
        ro.llc_first_pos[l] = u32::from(llc.cpus.start);
    }
    for cpu in machine.cpus() {
        ro.pos_cpu[cpu.idx.as_usize()] = cpu.id as u16;
    }
    Ok(())
}

fn newborn_epoch_ns(args: &RunArgs) -> u64 {
    args.policy.newborn_ms * 1_000_000 / u64::from(intf::NEWBORN_BUCKETS)
}

/// Words of the fault table.
fn fault_words(args: &RunArgs, machine: &Machine) -> Result<u32> {
    args.max_tasks
        .checked_mul(machine.nr_cpu_nodes() as u32)
        .context("--max-tasks times the nodes is too large for the table of faults")
}

fn set_sizes(
    skel: &mut OpenBallastSkel<'_>,
    args: &RunArgs,
    machine: &Machine,
    locality: Locality,
) -> Result<()> {
    let cpu_ids = machine.nr_cpu_ids() as u32;
    let llcs = machine.llcs().len() as u32;
    let maps = &mut skel.maps;
    maps.slots.set_max_entries(args.max_tasks)?;
    maps.free_slots.set_max_entries(args.max_tasks)?;
    if locality.first_touch {
        maps.faults.set_max_entries(fault_words(args, machine)?)?;
    }
    if locality.touches {
        maps.touches.set_max_entries(args.max_tasks)?;
    }
    maps.llc_counts.set_max_entries(llcs)?;
    maps.llc_states.set_max_entries(llcs)?;
    maps.cpu_ctxs.set_max_entries(cpu_ids)?;
    maps.cpu_scratches.set_max_entries(cpu_ids)?;
    if args.trace.is_some() {
        maps.fork_events.set_max_entries(TRACE_BUFFER)?;
    }
    Ok(())
}

/// Tell BPF where each CPU is; a CPU that is offline or unknown gets no LLC.
fn set_cpus(cpus: &MappedArray<intf::cpu_ctx>, machine: &Machine) {
    for id in 0..cpus.len() {
        let mut ctx = intf::cpu_ctx {
            llc: intf::NO_LLC,
            ..Default::default()
        };
        if let Some(cpu) = machine.cpu_by_id(id as u32) {
            let llc = &machine.llcs()[cpu.llc.as_usize()];
            ctx.llc = u32::from(cpu.llc.0);
            ctx.node = u32::from(cpu.node.0);
            ctx.idx = u32::from(cpu.idx.0 - llc.cpus.start);
        }
        cpus.set(id, ctx);
    }
}

/// How often CPUs have come and gone, as the kernel counts; 0: not known.
pub fn hotplug_seq() -> u64 {
    let text = std::fs::read_to_string("/sys/kernel/sched_ext/hotplug_seq").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

impl<'obj> Scheduler<'obj> {
    /// Load for `machine` and attach. On any error the machine keeps the scheduler it has.
    ///
    /// `seq` is [`hotplug_seq`] from before the machine was looked at: when CPUs have come or gone
    /// since, the kernel ends the scheduler at once and asks for it to be loaded again.
    pub fn load(
        args: &RunArgs,
        machine: &Machine,
        limits: &ForkLimits,
        locality: Locality,
        seq: u64,
        space: &'obj mut ObjectSpace,
    ) -> Result<Self> {
        let builder = BallastSkelBuilder::default();
        let open_opts = args.libbpf.clone().into_bpf_open_opts();
        let mut skel = scx_ops_open!(builder, space, ballast, open_opts)?;
        let ops = skel.struct_ops.ballast_mut();
        if seq != 0 {
            ops.hotplug_seq = seq;
        }
        ops.exit_dump_len = args.exit_dump_len;
        ops.flags = ops_flags(args, machine);
        info!("ops flags: {:#x}", skel.struct_ops.ballast().flags);
        set_constants(&mut skel, args, machine, locality)?;
        set_sizes(&mut skel, args, machine, locality)?;

        let mut skel = scx_ops_load!(skel, ballast, uei)?;
        let slots = MappedArray::new(&skel.maps.slots.as_fd(), args.max_tasks as usize)
            .context("mapping the task slots")?;
        let llcs = MappedArray::new(&skel.maps.llc_counts.as_fd(), machine.llcs().len())
            .context("mapping the LLC counters")?;
        let cpus = MappedArray::new(&skel.maps.cpu_ctxs.as_fd(), machine.nr_cpu_ids())
            .context("mapping the CPU table")?;
        set_cpus(&cpus, machine);
        let faults = locality
            .first_touch
            .then(|| {
                let words = fault_words(args, machine)? as usize;
                MappedArray::new(&skel.maps.faults.as_fd(), words).context("mapping the faults")
            })
            .transpose()?;
        let touches = locality
            .touches
            .then(|| {
                MappedArray::new(&skel.maps.touches.as_fd(), args.max_tasks as usize)
                    .context("mapping the touches")
            })
            .transpose()?;
        let map = MappedArray::new(&skel.maps.limits.as_fd(), 1).context("mapping the limits")?;
        let limits = BpfLimits::new(map, limits);
        let link =
            scx_ops_attach!(skel, ballast).map_err(|err| match check::running_scheduler() {
                // Another one was quicker than our check.
                Some(ops) => check::CheckError::AnotherScheduler { ops }.into(),
                None => err,
            })?;
        Ok(Self {
            skel,
            link: Some(link),
            slots,
            llcs,
            cpus,
            limits,
            faults,
            touches,
            nodes: machine.nr_cpu_nodes(),
            preferring: locality.preferred,
            newborn_epoch_ns: newborn_epoch_ns(args),
        })
    }

    /// Tell BPF the average weight of the tasks that run on each node.
    pub fn set_task_weights(&self, weights: impl Iterator<Item = u32>) {
        self.limits.set_task_weights(weights);
    }

    /// Has the kernel ended the scheduler?
    pub fn exited(&self) -> bool {
        uei_exited!(&self.skel, uei)
    }

    /// Unload, print how it ended, and tell whether it asks to be loaded again.
    ///
    /// # Errors
    /// When the kernel aborted the scheduler: the kernel's reason.
    pub fn end(mut self) -> Result<bool> {
        drop(self.link.take());
        let info: UserExitInfo = uei_report!(&self.skel, uei)?;
        Ok(info.should_restart())
    }

    /// Let BPF bring the queue lengths up to date; returns its clock, in ns, and the LLC in which this
    /// very thread is counted as running, if it is.
    pub(super) fn observe_queues(&self) -> Result<(u64, Option<usize>)> {
        let mut arg = intf::observe_arg::default();
        // SAFETY: a repr(C) struct of integers, borrowed for the call alone.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(
                (&raw mut arg).cast::<u8>(),
                size_of::<intf::observe_arg>(),
            )
        };
        let input = ProgramInput {
            context_in: Some(bytes),
            ..Default::default()
        };
        self.skel
            .progs
            .ballast_observe
            .test_run(input)
            .context("running the observe program")?;
        let counted = arg.self_llc != intf::NO_LLC;
        Ok((arg.now, counted.then_some(arg.self_llc as usize)))
    }

    /// Slots ever used and slots in use now.
    pub(super) fn slot_counts(&self) -> (u32, u32) {
        self.skel
            .maps
            .bss_data
            .as_ref()
            .map_or((0, 0), |bss| (bss.fresh_slots, bss.slots_used))
    }
}
