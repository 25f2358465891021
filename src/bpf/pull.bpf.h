/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work conservation (R9): what a CPU does when its own queues are empty, and who wakes an idle CPU
 * for a task that has waited too long.
 *
 * A CPU that goes idle looks in its LLC, then in its node, then in other nodes, nearest first.
 * Outside its own LLC it takes only from queues whose head has waited for the pull delay, or for
 * PATIENCE of them when the other node has idle CPUs of its own, which were woken for it. Nobody
 * would wake that CPU later, so the first tick of each period in an LLC with waiting tasks sweeps:
 * it kicks an idle CPU when the head is old enough. Hence the bound for the first of a queue: pull
 * delay plus one tick. One CPU is kicked a tick, so each behind it may wait for a tick more.
 *
 * Tasks are taken with move_to_local, which skips a task that may not run here: a task's affinity
 * can change at any time, and moving one by name would abort the scheduler when it does.
 */
#ifndef __BALLAST_PULL_BPF_H
#define __BALLAST_PULL_BPF_H

/* These two bound the work of one dispatch. */
#define PULL_QUEUES 8		/* CPU queues tried per word of the bitmap */
#define PULL_DEPTH 8		/* tasks looked at per queue */
#define PATIENCE 8		/* pull delays before a node with spare loses a task to another */

/* Has @p waited in its queue since @before or longer? */
static bool waits_since(struct task_struct *p, u64 before)
{
	struct task_ctx *tc = task_ctx_of(p);

	return tc && tc->enq_at && !time_after(tc->enq_at, before);
}

static bool head_waits_since(u64 queue, u64 before)
{
	struct task_struct *head = __COMPAT_scx_bpf_dsq_peek(queue);

	return head && waits_since(head, before);
}

/*
 * Is one of the first tasks of @queue allowed on @cpu, and does it wait since @before? Asked a
 * queue is taken from, because taking walks over all tasks that may not run here, and there can be
 * thousands.
 */
static bool worth_pulling(u64 queue, s32 cpu, u64 before)
{
	struct task_struct *p;
	bool worth = false;
	u32 seen = 0;

	bpf_for_each(scx_dsq, p, queue, 0) {
		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && waits_since(p, before)) {
			worth = true;
			break;
		}
		if (++seen >= PULL_DEPTH)
			break;
	}
	return worth;
}

static bool pull_queue(u64 queue, s32 cpu, u64 before)
{
	return worth_pulling(queue, cpu, before) && scx_bpf_dsq_move_to_local(queue, 0);
}

/* Take a narrow task that waits since @before from the queue of any CPU in @llc. */
static bool pull_narrow(u32 llc, s32 this_cpu, u64 before)
{
	struct llc_state *ls = llc_state_of(llc);
	u32 words = (weight_of_llc(llc) + 63) / 64, word, tries;

	if (!ls)
		return false;
	bpf_for(word, 0, words) {
		u64 bits;

		if (word >= NARROW_WORDS)
			break;
		bits = *(volatile u64 *)&ls->narrow[word];
		bpf_for(tries, 0, PULL_QUEUES) {
			u32 bit, cpu;

			if (!bits)
				break;
			bit = ctz64(bits);
			bits &= bits - 1;
			cpu = cpu_at(llc, word * 64 + bit);
			if (cpu != this_cpu && pull_queue(CPU_QUEUE(cpu), this_cpu, before))
				return true;
		}
	}
	return false;
}

static bool has_narrow(u32 llc)
{
	struct llc_state *ls = llc_state_of(llc);
	u64 any = 0;
	u32 i;

	if (!ls)
		return false;
	for (i = 0; i < NARROW_WORDS; i++)
		any |= *(volatile u64 *)&ls->narrow[i];
	return any;
}

/*
 * Take a task from @node: one of an LLC's queue that waits since @before, or a narrow one that waits
 * since @narrow_before.
 */
static bool pull_node(u32 node, u32 own_llc, s32 this_cpu, u64 before, u64 narrow_before)
{
	struct node_state *ns = node_state_of(node);
	u32 first = first_llc(node), i;
	u64 bits;

	if (!ns)
		return false;
	bits = *(volatile u64 *)&ns->waiting;
	bpf_for(i, 0, MAX_LLCS_PER_NODE) {
		u32 bit, llc;

		if (!bits)
			break;
		bit = ctz64(bits);
		bits &= bits - 1;
		llc = first + bit;
		if (llc == own_llc)
			continue;
		if (pull_queue(LLC_QUEUE(llc), this_cpu, before) ||
		    pull_narrow(llc, this_cpu, narrow_before))
			return true;
		/* A task that is being inserted right now is found again by the next sweep. */
		if (scx_bpf_dsq_nr_queued(LLC_QUEUE(llc)) <= 0 && !has_narrow(llc))
			__sync_fetch_and_and(&ns->waiting, ~(1ULL << bit));
	}
	return false;
}

/*
 * A node that has spare has woken a CPU of its own for the task; only when that takes much longer than
 * it should does a CPU of another node take the task away from its memory. A narrow task may not be
 * allowed on any of those CPUs.
 */
static u64 patience(u32 node, bool remote, u64 now)
{
	bool has_spare = remote && committed_node(node, now) < weight_of_node(node);

	return has_spare ? pull_delay_ns * PATIENCE : pull_delay_ns;
}

static void pull(struct cpu_ctx *cc, s32 cpu)
{
	u32 i;
	u64 now;

	if (!has_narrow(cc->llc) && nr_llcs == 1)
		return;
	now = scx_bpf_now();
	if (has_narrow(cc->llc) && pull_narrow(cc->llc, cpu, now)) {
		stat_add(cc, STAT_PULL_LLC, 1);
		return;
	}
	bpf_for(i, 0, nr_nodes) {
		u32 node = nearest(cc->node, i);
		struct node_state *ns = node_state_of(node);

		if (!ns || !*(volatile u64 *)&ns->waiting)
			continue;
		if (pull_node(node, cc->llc, cpu, now - patience(node, i, now),
			      now - pull_delay_ns)) {
			stat_add(cc, i ? STAT_PULL_REMOTE : STAT_PULL_NODE, 1);
			return;
		}
	}
}

/*
 * Fairness between the LLCs of a node: a CPU whose own queues are empty and whose task would go on
 * takes a turn for a task that has waited for a whole slice in another LLC. Once both LLCs have
 * waiting tasks nothing moves any more. Between nodes this is the balancer's business, not ours.
 */
static bool share_node(struct cpu_ctx *cc, s32 cpu)
{
	struct node_state *ns = node_state_of(cc->node);
	u64 since;

	if (nr_llcs_of(cc->node) == 1 || !ns || !*(volatile u64 *)&ns->waiting)
		return false;
	since = scx_bpf_now() - slice_ns;
	if (!pull_node(cc->node, cc->llc, cpu, since, since))
		return false;
	stat_add(cc, STAT_PULL_NODE, 1);
	return true;
}

/* Kick an idle CPU that may run the head of @queue, the nearest to @llc; false when none is idle. */
static bool kick_for(u64 queue, u32 llc, bool remote)
{
	struct task_struct *head = __COMPAT_scx_bpf_dsq_peek(queue);
	u32 own = node_of_llc(llc), i;
	struct task_ctx *tc;
	bool wide;
	s32 cpu;

	if (!head)
		return false;
	tc = task_ctx_of(head);
	wide = tc && tc->wide;
	cpu = idle_in_llc(head, wide, llc, 0);
	if (cpu < 0 && remote) {
		bpf_for(i, 0, nr_nodes) {
			cpu = idle_in_node(head, wide, nearest(own, i), 0);
			if (cpu >= 0)
				break;
		}
	}
	if (cpu < 0)
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

static bool sweep_queue(struct cpu_ctx *cc, u64 queue, u32 llc, u64 now, u64 period)
{
	if (scx_bpf_dsq_nr_queued(queue) <= 0)
		return false;
	hint_waiting(llc);
	/* An idle CPU of the same LLC is woken at once, one farther away after the pull delay. */
	if (kick_for(queue, llc, head_waits_since(queue, now - pull_delay_ns))) {
		stat_add(cc, STAT_KICK, 1);
		stat_add(cc, STAT_WASTED_NS, period);
	}
	return true;
}

/* Called from tick(): once a period for the LLC's queue, each time for the CPU's own. */
static void sweep(struct cpu_ctx *cc, s32 cpu)
{
	struct llc_state *ls = llc_state_of(cc->llc);
	u64 now = scx_bpf_now(), last, period;

	if (!ls)
		return;
	if (cc->queued)
		sweep_queue(cc, CPU_QUEUE(cpu), cc->llc, now, 0);
	last = *(volatile u64 *)&ls->swept_at;
	period = now - last;
	if (period < sweep_ns || __sync_val_compare_and_swap(&ls->swept_at, last, now) != last)
		return;
	sweep_queue(cc, LLC_QUEUE(cc->llc), cc->llc, now,
		    period < 2 * sweep_ns ? period : sweep_ns);
}

#endif
