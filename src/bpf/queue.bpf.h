/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues and fairness.
 *
 * Each LLC has a queue ordered by weighted virtual time. Tasks whose affinity does not contain the
 * LLC ("narrow") wait in queues of single CPUs instead, so that they never block a shared queue.
 * Every queue has its own clock, the virtual time of the latest task that it let run: an LLC whose
 * CPUs are free runs ahead of a crowded CPU in it, and a single clock would take the weights out
 * of the crowd or starve its sleepers. A task's virtual time is kept relative to one queue, `dom`,
 * and translated when it changes queues.
 *
 * A CPU serves its own queue and its LLC's in proportion to virtual service (cpu_ctx.served).
 *
 * Invariants: a task that runs is in the time of a queue of the CPU it runs on, also after a pull, so
 * that it can be compared with those that wait there; a sleeper gets at most one slice of credit; a
 * task that ran alone owes nobody anything, because the clock goes with it, also while it is kept
 * slice after slice; a task that merely ran out of its slice keeps its virtual time to the digit.
 */
#ifndef __BALLAST_QUEUE_BPF_H
#define __BALLAST_QUEUE_BPF_H

/* Queue ids: LLCs first, then CPUs. The same numbers are used as `dom`. */
#define LLC_QUEUE(llc) ((u64)(llc))
#define CPU_QUEUE(cpu) ((u64)MAX_LLCS + (cpu))

/* What a task of the least weight (1, nice 0 has 100) owes after one slice; nobody owes more. */
#define MAX_DEBT_SLICES 100

enum served_class { SERVED_LLC, SERVED_CPU };

static u64 *clock_of(u32 dom)
{
	struct llc_state *ls;
	struct cpu_ctx *cc;

	if (dom < MAX_LLCS) {
		ls = llc_state_of(dom);
		return ls ? &ls->clock : NULL;
	}
	cc = cpu_ctx_of(dom - MAX_LLCS);
	return cc ? &cc->clock : NULL;
}

static inline u64 charge(u64 ns, u32 weight)
{
	return weight == 100 ? ns : ns * 100 / (weight ?: 1);
}

/* Give @tc a place in the virtual time of @dom; @woken limits what it saved up in its sleep. */
static void enter_dom(struct task_ctx *tc, u32 dom, bool woken)
{
	u64 *to = clock_of(dom);

	if (!to)
		return;
	if (tc->dom != dom) {
		u64 *from = clock_of(tc->dom);

		tc->vtime += *to - (from ? *from : 0);
		tc->dom = dom;
	}
	if (woken && time_before(tc->vtime, *to - slice_ns))
		tc->vtime = *to - slice_ns;
	if (time_after(tc->vtime, *to + MAX_DEBT_SLICES * slice_ns))
		tc->vtime = *to + MAX_DEBT_SLICES * slice_ns;
}

static inline u32 class_of(const struct task_ctx *tc)
{
	return tc->dom >= MAX_LLCS ? SERVED_CPU : SERVED_LLC;
}

/*
 * Charge @p for what it has run since it was last charged, and credit its node. Inlined by order: the
 * compiler would not, and each task that stops pays for the call.
 */
static __always_inline void account(struct task_struct *p, struct task_ctx *tc, struct cpu_ctx *cc)
{
	u64 used = p->se.sum_exec_runtime - tc->last_exec;
	u64 virt = charge(used, p->scx.weight);
	struct task_slot *slot = slot_of(tc);

	tc->last_exec = p->se.sum_exec_runtime;
	tc->vtime += virt;
	cc->served[class_of(tc)] += virt;
	if (slot)
		slot->runtime_ns += used;
	faults_seen(p, tc, cc);
}

/* The clock of a queue is the virtual time of the latest task it let run. */
static inline void advance_clock(const struct task_ctx *tc)
{
	u64 *clock = clock_of(tc->dom);

	if (clock && time_before(*clock, tc->vtime))
		*clock = tc->vtime;
}

/* The more tasks share some CPUs, the shorter each one's turn. */
static inline u64 slice_among(u64 tasks, u32 cpus)
{
	u64 slice = tasks > cpus ? slice_ns * cpus / tasks : slice_ns;

	return slice < slice_min_ns ? slice_min_ns : slice;
}

static u64 slice_for(u32 llc)
{
	struct llc_counters *lc = llc_counters_of(llc);
	s64 running = lc ? *(volatile s64 *)&lc->running : 0;

	return slice_among(running > 0 ? running : 0, weight_of_llc(llc));
}

/* The tasks of @llc may wait too long: let idle CPUs elsewhere look. */
static inline void hint_waiting(u32 llc)
{
	u32 node = node_of_llc(llc);
	struct node_state *ns = node_state_of(node);
	u64 bit;

	if (!ns)
		return;
	bit = 1ULL << ((llc - first_llc(node)) & 63);
	if (!(*(volatile u64 *)&ns->waiting & bit))
		__sync_fetch_and_or(&ns->waiting, bit);
}

static inline u64 *narrow_word(const struct cpu_ctx *cc)
{
	struct llc_state *ls = llc_state_of(cc->llc);
	u32 word = cc->idx / 64;

	return ls && word < NARROW_WORDS ? &ls->narrow[word] : NULL;
}

/*
 * The number of tasks in a CPU's queue, and its bit in the LLC's bitmap. The bit is derived from
 * the number again after it was cleared, because the two change one after the other.
 */
static void cpu_queue_add(u32 cpu)
{
	struct cpu_ctx *cc = cpu_ctx_of(cpu);
	u64 *word = cc ? narrow_word(cc) : NULL;

	if (!word)
		return;
	__sync_fetch_and_add(&cc->queued, 1);
	__sync_fetch_and_or(word, 1ULL << (cc->idx & 63));
}

static void cpu_queue_sub(u32 cpu)
{
	struct cpu_ctx *cc = cpu_ctx_of(cpu);
	u64 *word = cc ? narrow_word(cc) : NULL;

	if (!word || __sync_fetch_and_add(&cc->queued, -1) != 1)
		return;
	__sync_fetch_and_and(word, ~(1ULL << (cc->idx & 63)));
	if (*(volatile u32 *)&cc->queued)
		__sync_fetch_and_or(word, 1ULL << (cc->idx & 63));
}

/* A task is no longer in a queue, for whatever reason; returns how long it was there. */
static u64 queue_leave(struct task_ctx *tc)
{
	u64 waited = 0;

	if (tc->queue_cpu != NO_CPU) {
		cpu_queue_sub(tc->queue_cpu);
		tc->queue_cpu = NO_CPU;
	}
	if (tc->enq_at) {
		waited = time_delta(scx_bpf_now(), tc->enq_at);
		tc->enq_at = 0;
	}
	return waited;
}

static void queue_in_llc(struct task_struct *p, struct task_ctx *tc, u32 llc, u64 enq_flags,
			 bool woken)
{
	count_running(tc, llc);
	enter_dom(tc, llc, woken);
	tc->enq_at = scx_bpf_now();
	hint_waiting(llc);
	stat_add(cpu_ctx_of(bpf_get_smp_processor_id()), STAT_QUEUE_LLC, 1);
	scx_bpf_dsq_insert_vtime(p, LLC_QUEUE(llc), slice_for(llc), tc->vtime, enq_flags);
}

static void queue_on_cpu(struct task_struct *p, struct task_ctx *tc, u32 cpu, u64 enq_flags,
			 bool woken)
{
	struct cpu_ctx *cc = cpu_ctx_of(cpu);
	u32 llc = cc ? cc->llc : 0;

	count_running(tc, llc);
	enter_dom(tc, MAX_LLCS + cpu, woken);
	tc->enq_at = scx_bpf_now();
	tc->queue_cpu = cpu;
	cpu_queue_add(cpu);
	hint_waiting(llc);
	stat_add(cpu_ctx_of(bpf_get_smp_processor_id()), STAT_QUEUE_CPU, 1);
	scx_bpf_dsq_insert_vtime(p, CPU_QUEUE(cpu), slice_among(cc ? cc->queued + 1 : 1, 1),
				 tc->vtime, enq_flags);
}

/* Would the head of @queue, if there is one, run before a task with @vtime? */
static bool head_before(u64 queue, u64 vtime)
{
	struct task_struct *head = __COMPAT_scx_bpf_dsq_peek(queue);

	return head && !time_before(vtime, head->scx.dsq_vtime);
}

#endif
