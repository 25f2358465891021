/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a task goes when it is forked; what that has in common with a wake-up (wake.bpf.h).
 *
 * Everything here runs in select_cpu: the task is off every queue and its pi_lock is held. A task
 * that is placed here is dispatched here, to a CPU or to a queue, so that enqueue() is not needed.
 */
#ifndef __BALLAST_PLACE_BPF_H
#define __BALLAST_PLACE_BPF_H

/* May @p use every CPU of @llc, that is, may it wait in the LLC's queue? */
static bool fits_llc(struct task_struct *p, struct task_ctx *tc, u32 llc)
{
	struct llc_state *ls;
	struct bpf_cpumask *mask;

	if (tc->wide)
		return true;
	ls = llc_state_of(llc);
	mask = ls ? ls->mask : NULL;
	return mask && bpf_cpumask_subset(cast_mask(mask), p->cpus_ptr);
}

/* A CPU of @llc that @p may use, idle or not; negative when there is none. */
static s32 any_cpu_in_llc(struct task_struct *p, u32 llc)
{
	struct llc_state *ls = llc_state_of(llc);
	struct bpf_cpumask *mask = ls ? ls->mask : NULL;
	u32 cpu;

	if (!mask)
		return -ENOENT;
	cpu = bpf_cpumask_any_and_distribute(cast_mask(mask), p->cpus_ptr);
	return cpu < nr_cpu_ids ? (s32)cpu : -ENOENT;
}

/* Run on @cpu, which was idle and has been claimed. */
static void run_on_idle(struct task_struct *p, struct task_ctx *tc, s32 cpu, u32 stat)
{
	struct cpu_ctx *cc = cpu_ctx_of(cpu);
	u32 llc = cc ? cc->llc : 0;

	count_running(tc, llc);
	enter_dom(tc, tc->dom >= MAX_LLCS ? MAX_LLCS + cpu : llc, true);
	stat_add(cpu_ctx_of(bpf_get_smp_processor_id()), stat, 1);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
}

/* Wait in @llc: in its queue, or in that of a CPU when the affinity is too narrow for it. */
static s32 wait_in_llc(struct task_struct *p, struct task_ctx *tc, u32 llc, s32 cpu)
{
	if (fits_llc(p, tc, llc))
		queue_in_llc(p, tc, llc, 0, true);
	else
		queue_on_cpu(p, tc, cpu, 0, true);
	return cpu;
}

/* The LLCs of @node in which @p may use at least one CPU, as bits relative to the first. */
static u64 allowed_llcs(struct task_struct *p, bool wide, u32 first, u32 nr)
{
	u64 allowed = 0;
	u32 i;

	if (wide)
		return ~0ULL;
	bpf_for(i, 0, nr) {
		struct llc_state *ls = llc_state_of(first + i);
		struct bpf_cpumask *mask = ls ? ls->mask : NULL;

		if (mask && bpf_cpumask_intersects(cast_mask(mask), p->cpus_ptr))
			allowed |= 1ULL << (i & 63);
	}
	return allowed;
}

/*
 * Forks take turns from reading the counters until the new task is in them. Two that happen at the
 * same time would otherwise both see the state without the other, and both take the same place.
 * Interrupts are off in select_cpu, so a turn is short; the wait is bounded all the
 * same, and who waited in vain goes on without a turn: the place is a little worse then, that is all.
 */
#define FORK_TURN_TRIES 4096

static bool fork_turn_take(void)
{
	u32 i;

	bpf_for(i, 0, FORK_TURN_TRIES) {
		if (!*(volatile u64 *)&fork_turn.taken &&
		    !__sync_val_compare_and_swap(&fork_turn.taken, 0, 1))
			return true;
	}
	return false;
}

static void fork_turn_pass_on(void)
{
	__sync_val_compare_and_swap(&fork_turn.taken, 1, 0);
}

/* CPUs of @node that @p may use: the cap of R2. */
static u32 usable_cpus(struct task_struct *p, struct task_ctx *tc, struct cpu_scratch *scratch,
		       u32 node)
{
	struct node_state *ns;
	struct bpf_cpumask *all, *both;

	if (tc->wide)
		return weight_of_node(node);
	ns = node_state_of(node);
	all = ns ? ns->mask : NULL;
	both = scratch->mask;
	if (!all || !both)
		return 0;
	bpf_cpumask_and(both, cast_mask(all), p->cpus_ptr);
	return bpf_cpumask_weight(cast_mask(both));
}

/* The limits to place a new task by; a trace has to show exactly those that were used. */
static const struct fork_limits *fork_limits_for(struct cpu_scratch *scratch)
{
	const struct fork_limits *now = limits_now();

	if (!tracing || !now)
		return now;
	__builtin_memcpy(&scratch->limits, now, sizeof(scratch->limits));
	return &scratch->limits;
}

/* The nodes as they are counted now, sleeping newborns included (R6). */
static void fork_state(struct rule_fork *f, struct task_ctx *tc, u32 local, u64 now)
{
	u32 i;

	bpf_for(i, 0, nr_nodes) {
		if (i >= MAX_NODES)
			break;
		f->committed[i] = committed_node(i, now);
		f->weight[i] = weight_of_node(i);
		f->order[i] = nearest(local, i);
	}
	f->nr = nr_nodes;
	f->allowed = tc->nodes;
}

/*
 * The node for a new task. Returns it with enum fork_why in bits 8 and up, and enum home_why in bits
 * 16 and up.
 */
static u32 fork_node(struct task_struct *p, struct task_ctx *tc, struct cpu_scratch *scratch,
		     u32 local, u64 now)
{
	const struct fork_limits *lim = fork_limits_for(scratch);
	struct rule_fork *f = &scratch->fork;
	struct rule_home *home = &scratch->home;
	u64 prefers = preferred_nodes(slot_of(tc), tc);
	s32 choice;
	u32 i;

	fork_state(f, tc, local, now);
	f->usable = usable_cpus(p, tc, scratch, local);
	home->nodes = prefers;
	if (!lim)
		return local;
	if (prefers) {
		bpf_for(i, 0, nr_nodes) {
			if (i >= MAX_NODES)
				break;
			home->usable[i] = usable_cpus(p, tc, scratch, i);
		}
		choice = rule_fork_home(f, lim, home, node_order);
	} else {
		choice = rule_fork_node(f, lim);
	}
	return choice < 0 ? local : choice;
}

/* The LLC inside @node for a new task. */
static u32 fork_llc(struct task_struct *p, struct task_ctx *tc, struct cpu_scratch *scratch,
		    u32 node, u32 prev_llc, u64 now)
{
	u32 first = first_llc(node), nr = nr_llcs_of(node), i;
	struct rule_llcs *l = &scratch->llcs;
	s32 llc;

	bpf_for(i, 0, nr) {
		if (i >= MAX_LLCS_PER_NODE)
			break;
		l->committed[i] = committed_llc(first + i, now);
		l->weight[i] = weight_of_llc(first + i);
	}
	l->nr = nr;
	l->first = prev_llc - first;
	l->allowed = allowed_llcs(p, tc->wide, first, nr);
	llc = rule_fork_llc(l);
	return llc < 0 ? first : first + llc;
}

static void trace_fork(struct task_struct *p, struct cpu_scratch *scratch, u32 local, u32 choice,
		       u32 llc, u64 now)
{
	struct fork_event *event = bpf_ringbuf_reserve(&fork_events, sizeof(*event), 0);

	if (!event) {
		stat_add(cpu_ctx_of(bpf_get_smp_processor_id()), STAT_TRACE_LOST, 1);
		return;
	}
	event->at = now;
	event->allowed = scratch->fork.allowed;
	event->allowed_llcs = scratch->llcs.allowed;
	event->prefers = scratch->home.nodes;
	event->pid = p->pid;
	event->parent = bpf_get_current_task_btf()->pid;
	event->local = local;
	event->first = scratch->llcs.first;
	event->usable = scratch->fork.usable;
	event->node = choice & 0xff;
	event->why = choice >> 8 & 0xff;
	event->llc = llc;
	event->home = choice >> 16;
	__builtin_memcpy(event->committed, scratch->fork.committed, sizeof(event->committed));
	__builtin_memcpy(event->task_weight, scratch->limits.task_weight,
			 sizeof(event->task_weight));
	__builtin_memcpy(event->usable_on, scratch->home.usable, sizeof(event->usable_on));
	__builtin_memcpy(event->llc_committed, scratch->llcs.committed,
			 sizeof(event->llc_committed));
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* A task is gone; nothing else calls this, so only those that end are in the trace. */
static void trace_exit(struct task_struct *p)
{
	struct exit_event *event = bpf_ringbuf_reserve(&fork_events, sizeof(*event), 0);

	if (!event) {
		stat_add(cpu_ctx_of(bpf_get_smp_processor_id()), STAT_TRACE_LOST, 1);
		return;
	}
	event->at = scx_bpf_now();
	event->runtime_ns = p->se.sum_exec_runtime;
	event->sleeps = p->nvcsw;
	event->pid = p->pid;
	event->pad = 0;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static void count_fork(u32 local, u32 choice)
{
	struct cpu_ctx *cc = cpu_ctx_of(bpf_get_smp_processor_id());
	u32 why = choice >> 8 & 0xff;

	stat_add(cc, (choice & 0xff) == local ? STAT_FORK_LOCAL : STAT_FORK_REMOTE, 1);
	if (why == FORK_TOLERATED)
		stat_add(cc, STAT_FORK_TOLERATED, 1);
	if (why == FORK_FULL || why == FORK_FULL_LOCAL)
		stat_add(cc, STAT_FORK_FULL, 1);
	if (choice >> 16 == HOME_PREFERRED)
		stat_add(cc, STAT_FORK_PREFERRED, 1);
}

/* Choose node and LLC of a new task and count it there at once. Returns the LLC. */
static u32 fork_home(struct task_struct *p, struct task_ctx *tc, struct cpu_scratch *scratch,
		     struct cpu_ctx *parent)
{
	bool turn = fork_turn_take();
	u64 now = scx_bpf_now();
	u32 choice, llc;

	choice = fork_node(p, tc, scratch, parent->node, now);
	llc = fork_llc(p, tc, scratch, choice & 0xff, parent->llc, now);
	count_running(tc, llc);
	if (turn)
		fork_turn_pass_on();
	count_fork(parent->node, choice);
	if (tracing)
		trace_fork(p, scratch, parent->node, choice, llc, now);
	return llc;
}

static s32 place_fork(struct task_struct *p, struct task_ctx *tc, s32 parent_cpu)
{
	struct cpu_scratch *scratch = cpu_scratch_of(bpf_get_smp_processor_id());
	struct cpu_ctx *parent = cpu_ctx_of(parent_cpu);
	struct task_slot *slot = slot_of(tc);
	u32 llc;
	s32 cpu;

	if (!scratch || !parent || parent->llc == NO_LLC)
		return parent_cpu;

	llc = fork_home(p, tc, scratch, parent);
	if (slot)
		slot->home = llc;

	cpu = idle_in_llc(p, tc->wide, llc, SCX_PICK_IDLE_CORE);
	if (cpu < 0 && smt_on)
		cpu = idle_in_llc(p, tc->wide, llc, 0);
	if (cpu < 0)
		cpu = idle_in_node(p, tc->wide, node_of_llc(llc), 0);
	if (cpu >= 0) {
		run_on_idle(p, tc, cpu, STAT_IDLE_NODE);
		return cpu;
	}
	cpu = any_cpu_in_llc(p, llc);
	return cpu < 0 ? parent_cpu : wait_in_llc(p, tc, llc, cpu);
}

#endif
