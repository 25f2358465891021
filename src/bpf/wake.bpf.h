/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task goes when it is woken.
 *
 * Order on a wake-up: for a task off its node an idle CPU there, if the limits tolerate it (R8);
 * behind a waker that is about to sleep; the previous CPU; a whole idle core of the previous LLC;
 * any idle CPU there; the same in the node; another node only when this one has no spare and that
 * one has, those where the task belongs first. Otherwise the task waits where it is, and the pull
 * (pull.bpf.h) bounds the wait.
 *
 * Nothing here takes a task off its node while that has an idle CPU: a waker elsewhere does not get
 * it, and other nodes are looked at last.
 *
 * As at a fork, everything runs in select_cpu, and a task that is placed here is dispatched here.
 */
#ifndef __BALLAST_WAKE_BPF_H
#define __BALLAST_WAKE_BPF_H

/*
 * A waker goes to sleep: how long after its first SYNC wake-up? One sample counts at most twice the
 * limit, so that a single interruption does not make an honest waker a liar.
 */
static void sync_kept(struct task_ctx *tc, u64 now)
{
	u64 lag;

	if (!tc->sync_at)
		return;
	lag = time_delta(now, tc->sync_at);
	if (lag > 2 * sync_ns)
		lag = 2 * sync_ns;
	tc->sync_lag = (3 * tc->sync_lag + lag) / 4;
	tc->sync_at = 0;
}

/* Did the task say so lately that it is about to sleep that it may still keep its word? */
static bool sync_is_fresh(const struct task_ctx *tc)
{
	return tc->sync_at && time_delta(scx_bpf_now(), tc->sync_at) <= sync_ns;
}

/*
 * May a SYNC wake-up bring its wakee from node @from to node @to? If the state after it is tolerated:
 * the waker is about to sleep and the wakee takes its place, so that is what is counted now. A wakee
 * that belongs somewhere crosses only to there.
 */
static bool sync_may_cross(const struct task_ctx *tc, u32 to, u32 from)
{
	const struct fork_limits *lim = limits_now();
	u64 prefers = preferred_nodes(slot_of(tc), tc);
	u64 now = scx_bpf_now();

	if (prefers && !(prefers & node_bit(to)))
		return false;
	return lim && rule_tolerated(committed_node(to, now), weight_of_node(to),
				     committed_node(from, now), weight_of_node(from),
				     lim->max_running[to & (MAX_NODES - 1)], lim->max_imbalance);
}

/*
 * Leave the wakee behind its waker when the waker says that it is about to sleep (SYNC) and has
 * kept its word before: no interrupt, no cold cache. A waker that goes on running after such
 * wake-ups is not believed again until its average says otherwise; tick() ends its slice so that
 * the wakee waits for two ticks at most.
 */
static bool place_sync(struct task_struct *p, struct task_ctx *tc, u32 this_cpu,
		       struct cpu_ctx *this, struct cpu_ctx *prev)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_ctx *wtc = task_ctx_of(waker);
	struct llc_counters *lc;

	/* Only a task of ours: behind a real-time waker nobody's tick would rescue the wakee. */
	if (!wtc || (wtc->where & 0xff) != WHERE_RUNNING || waker->flags & PF_EXITING ||
	    this->llc == NO_LLC)
		return false;
	if (!wtc->sync_at)
		wtc->sync_at = scx_bpf_now();
	if (wtc->sync_lag > sync_ns)
		return false;
	lc = llc_counters_of(this->llc);
	/* Somebody waits here already. */
	if (!lc || *(volatile s64 *)&lc->running > weight_of_llc(this->llc))
		return false;
	if (prev->node != this->node && !sync_may_cross(tc, this->node, prev->node))
		return false;
	if (!tc->wide && !bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return false;
	return !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL);
}

/* The nearest of @nodes to @node, itself excluded, with an idle CPU and spare. */
static s32 idle_with_spare(struct task_struct *p, struct task_ctx *tc, u32 node, u64 nodes, u64 now)
{
	s32 cpu;
	u32 i;

	bpf_for(i, 1, nr_nodes) {
		u32 n = nearest(node, i);

		if (!(nodes & node_bit(n)))
			continue;
		if (!rule_spare(weight_of_node(n), committed_node(n, now)))
			continue;
		cpu = idle_in_node(p, tc->wide, n, 0);
		if (cpu >= 0)
			return cpu;
	}
	return -ENOENT;
}

/* Another node for a task whose own has no spare; those where it belongs first. */
static s32 idle_elsewhere(struct task_struct *p, struct task_ctx *tc, u32 node)
{
	u64 prefers = preferred_nodes(slot_of(tc), tc);
	u64 now = scx_bpf_now();
	s32 cpu;

	if (committed_node(node, now) < weight_of_node(node))
		return -ENOENT;
	if (prefers) {
		cpu = idle_with_spare(p, tc, node, prefers, now);
		if (cpu >= 0)
			return cpu;
	}
	return idle_with_spare(p, tc, node, tc->nodes & ~prefers, now);
}

/*
 * For a task off the nodes @prefers where it belongs (R8): an idle CPU on the nearest of them that may
 * have it. Its own node is not asked, nor whether the task ran there for long: an idle CPU where its
 * memory is beats one elsewhere. Two wake-ups at the same time may both find room for one; the
 * balancer sees what comes of it.
 */
static s32 idle_preferred(struct task_struct *p, struct task_ctx *tc, u32 node, u64 prefers)
{
	struct cpu_scratch *scratch = cpu_scratch_of(bpf_get_smp_processor_id());
	const struct fork_limits *lim = limits_now();
	u64 now = scx_bpf_now();
	struct rule_fork *f;
	s32 cpu;
	u32 i;

	if (!scratch || !lim)
		return -ENOENT;
	f = &scratch->fork;
	fork_state(f, tc, node, now);
	/* The task is not to stand in its own way. */
	bpf_for(i, 0, nr_nodes) {
		if (i >= MAX_NODES)
			break;
		if (f->committed[i] && is_committed_to(tc, i, now))
			f->committed[i]--;
	}
	bpf_for(i, 1, nr_nodes) {
		u32 n = nearest(node, i);

		if (!(prefers & node_bit(n)) || !rule_may_wake(f, lim, n))
			continue;
		cpu = idle_in_node(p, tc->wide, n, 0);
		if (cpu >= 0)
			return cpu;
	}
	return -ENOENT;
}

/* An idle CPU for a task that belongs to @llc, or a negative number; @stat tells how far away. */
static s32 idle_near(struct task_struct *p, struct task_ctx *tc, s32 prev_cpu, u32 llc, u32 *stat)
{
	struct cpu_ctx *prev = cpu_ctx_of(prev_cpu);
	u32 node = node_of_llc(llc);
	bool prev_ok = prev && prev->llc == llc &&
		       (tc->wide || bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr));
	s32 cpu;

	*stat = STAT_IDLE_PREV;
	if (prev_ok && (!smt_on || idle_core(prev_cpu, node)) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	*stat = STAT_IDLE_LLC;
	if (smt_on) {
		cpu = idle_in_llc(p, tc->wide, llc, SCX_PICK_IDLE_CORE);
		if (cpu >= 0)
			return cpu;
		*stat = STAT_IDLE_PREV;
		if (prev_ok && scx_bpf_test_and_clear_cpu_idle(prev_cpu))
			return prev_cpu;
		*stat = STAT_IDLE_LLC;
	}
	cpu = idle_in_llc(p, tc->wide, llc, 0);
	if (cpu >= 0)
		return cpu;
	*stat = STAT_IDLE_NODE;
	if (nr_llcs_of(node) > 1) {
		cpu = idle_in_node(p, tc->wide, node, 0);
		if (cpu >= 0)
			return cpu;
	}
	*stat = STAT_IDLE_REMOTE;
	return nr_nodes > 1 ? idle_elsewhere(p, tc, node) : -ENOENT;
}

static s32 place_wakeup(struct task_struct *p, struct task_ctx *tc, s32 prev_cpu, u64 wake_flags)
{
	u32 this_cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *this = cpu_ctx_of(this_cpu);
	struct cpu_ctx *prev = cpu_ctx_of(prev_cpu);
	struct task_slot *slot = slot_of(tc);
	u32 llc = wanted_llc(slot, tc), stat;
	s32 cpu;

	if (!this || !prev)
		return prev_cpu;
	if (llc != NO_LLC) {
		wish_done(slot, llc);
	} else {
		u64 prefers = preferred_nodes(slot, tc);

		llc = prev->llc;
		if (unlikely(prefers && !(prefers & node_bit(prev->node)))) {
			cpu = idle_preferred(p, tc, prev->node, prefers);
			if (cpu >= 0) {
				run_on_idle(p, tc, cpu, STAT_IDLE_PREFERRED);
				return cpu;
			}
		}
		if (sync_ns && wake_flags & SCX_WAKE_SYNC &&
		    place_sync(p, tc, this_cpu, this, prev)) {
			run_on_idle(p, tc, this_cpu, STAT_SYNC);
			return this_cpu;
		}
	}
	if (llc >= nr_llcs)
		return prev_cpu;

	cpu = idle_near(p, tc, prev_cpu, llc, &stat);
	if (cpu >= 0) {
		run_on_idle(p, tc, cpu, stat);
		return cpu;
	}
	cpu = prev_cpu;
	if (prev->llc != llc || (!tc->wide && !bpf_cpumask_test_cpu(cpu, p->cpus_ptr)))
		cpu = any_cpu_in_llc(p, llc);
	if (cpu < 0)	/* not allowed in its LLC any more: enqueue() sorts it out */
		return prev_cpu;
	return wait_in_llc(p, tc, llc, cpu);
}

#endif
