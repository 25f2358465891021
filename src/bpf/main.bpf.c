/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_ballast, the kernel dispatcher: the sched_ext callbacks.
 *
 * This file says when things happen; the headers say how. Callbacks of one task are serialised by
 * the kernel (its rq lock or pi_lock), which every header here relies on.
 *
 * There is no runnable() and no quiescent(): select_cpu(), enqueue(), running(), stopping() and
 * tick() see every task that they would see, count_as() is idempotent, and each callback less makes
 * a wake-up cheaper.
 */
#include <scx/common.bpf.h>
#include <scx/compat.bpf.h>
#include <scx/user_exit_info.bpf.h>

#define rule_for(i, n) bpf_for(i, 0, n)
#define RULE_CHOICE __weak /* so that clang drops no check because it knows the callee */
#define ctz64(x) __builtin_ctzll(x)

#include "intf.h"
#include "rules.h"
#include "maps.bpf.h"
#include "count.bpf.h"
#include "touch.bpf.h"
#include "slot.bpf.h"
#include "idle.bpf.h"
#include "queue.bpf.h"
#include "place.bpf.h"
#include "wake.bpf.h"
#include "pull.bpf.h"
#include "init.bpf.h"
#include "dump.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/*
 * Is @p forbidden to change CPUs for now? The BPF prologue itself disables migration of the current
 * task on some kernels; common.bpf.h finds out at load time whether it does.
 */
static bool migration_disabled(struct task_struct *p)
{
	u32 depth;

	if (!bpf_core_field_exists(p->migration_disabled))
		return false;
	depth = p->migration_disabled;
	if (depth && __scx_prolog_disables_migration && bpf_get_current_task_btf() == p)
		depth--;
	return depth;
}

s32 BPF_STRUCT_OPS(ballast_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *tc = task_ctx_of(p);

	if (!tc)
		return prev_cpu;
	if (wake_flags & SCX_WAKE_FORK)
		return place_fork(p, tc, prev_cpu);
	return place_wakeup(p, tc, prev_cpu, wake_flags);
}

/* Nothing else is here for the CPU: @p goes on where it is, at once. */
static void go_on(struct task_struct *p, struct task_ctx *tc, u32 llc, u64 enq_flags)
{
	count_running(tc, llc);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
}

/*
 * Tasks that select_cpu() did not place: those it is not called for (one CPU allowed, migration
 * disabled) and those that go on waiting (slice used up, affinity changed).
 */
void BPF_STRUCT_OPS(ballast_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tc = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cc = cpu_ctx_of(cpu);
	bool woken = enq_flags & SCX_ENQ_WAKEUP;
	struct task_slot *slot;
	u32 llc, want;
	s32 idle;

	if (!tc || !cc || cc->llc == NO_LLC) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return;
	}
	queue_leave(tc);

	if (tc->kthread) {
		enter_dom(tc, MAX_LLCS + cpu, woken);
		stat_add(cc, STAT_KTHREAD, 1);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}

	/* A CPU of its own that is idle: nothing to decide. */
	if (p->nr_cpus_allowed == 1 && !(enq_flags & SCX_ENQ_LAST)) {
		if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
			count_running(tc, cc->llc);
			enter_dom(tc, MAX_LLCS + cpu, woken);
			stat_add(cc, STAT_IDLE_PREV, 1);
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
		} else {
			queue_on_cpu(p, tc, cpu, enq_flags, woken);
		}
		return;
	}

	llc = cc->llc;
	if (migration_disabled(p)) {
		/*
		 * Only this CPU may run it, so it waits where no other CPU has to skip it; unless the
		 * CPU is about to go idle, which would leave it there for nobody to wake it.
		 */
		if (enq_flags & SCX_ENQ_LAST)
			go_on(p, tc, llc, enq_flags);
		else
			queue_on_cpu(p, tc, cpu, enq_flags, woken);
		return;
	}

	slot = slot_of(tc);
	want = wanted_llc(slot, tc);
	if (want != NO_LLC) {
		wish_done(slot, want);
		llc = want;
	} else if (enq_flags & SCX_ENQ_LAST) {
		go_on(p, tc, llc, enq_flags);
		return;
	}

	idle = idle_in_llc(p, tc->wide, llc, 0);
	if (idle < 0 && want != NO_LLC)
		idle = idle_in_node(p, tc->wide, node_of_llc(llc), 0);
	if (fits_llc(p, tc, llc)) {
		queue_in_llc(p, tc, llc, enq_flags, woken);
	} else {
		s32 to = idle;

		if (to < 0)
			to = any_cpu_in_llc(p, llc);
		if (to < 0)
			to = bpf_cpumask_any_distribute(p->cpus_ptr);
		queue_on_cpu(p, tc, to, enq_flags, woken);
	}
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
}

static inline u64 queue_of_class(const struct cpu_ctx *cc, s32 cpu, u32 class)
{
	return class == SERVED_CPU ? CPU_QUEUE(cpu) : LLC_QUEUE(cc->llc);
}

/*
 * Run a task of one class, if one waits. A queue that has nothing to run saves up no service, or
 * its next task would shut out the other queue for as long as the silence lasted.
 */
static bool serve(struct cpu_ctx *cc, s32 cpu, u32 class)
{
	bool empty = class == SERVED_CPU && !cc->queued; /* known without asking the kernel */

	if (!empty && scx_bpf_dsq_move_to_local(queue_of_class(cc, cpu, class), 0))
		return true;
	cc->served[class & 1] = cc->served[!class];
	return false;
}

/* prev would go on if nobody better waits: compare it with the heads of both queues. */
static void serve_or_keep(struct cpu_ctx *cc, s32 cpu, struct task_struct *prev,
			  struct task_ctx *tc)
{
	u32 own = class_of(tc);
	bool other_first;

	account(prev, tc, cc);
	other_first = time_before(cc->served[!own], cc->served[own & 1]);
	/* The other class first when it had less service; it may be empty. */
	if (other_first && serve(cc, cpu, !own))
		return;
	if (head_before(queue_of_class(cc, cpu, own), tc->vtime) && serve(cc, cpu, own))
		return;
	if (!scx_bpf_dsq_nr_queued(LLC_QUEUE(cc->llc)) && share_node(cc, cpu))
		return;
	/* For the queue it is as if prev had started again; running() is not called. */
	advance_clock(tc);
	stat_add(cc, STAT_KEEP, 1);
	scx_bpf_task_set_slice(prev, slice_for(cc->llc));
}

void BPF_STRUCT_OPS(ballast_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cc = cpu_ctx_of(cpu);
	struct task_ctx *tc;
	u32 first;

	if (!cc || cc->llc == NO_LLC)
		return;

	/* A task with a wanted home is not kept: it goes through enqueue() to its new queue. */
	if (prev && prev->scx.flags & SCX_TASK_QUEUED) {
		tc = task_ctx_of(prev);
		if (tc && wanted_llc(slot_of(tc), tc) == NO_LLC) {
			serve_or_keep(cc, cpu, prev, tc);
			return;
		}
	}

	first = time_before(cc->served[SERVED_CPU], cc->served[SERVED_LLC]) ? SERVED_CPU : SERVED_LLC;
	if (serve(cc, cpu, first) || serve(cc, cpu, !first))
		return;
	pull(cc, cpu);
}

void BPF_STRUCT_OPS(ballast_running, struct task_struct *p)
{
	struct task_ctx *tc = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cc = cpu_ctx_of(cpu);
	u64 waited;
	u32 dom;

	if (!tc || !cc || cc->llc == NO_LLC)
		return;
	waited = queue_leave(tc);
	if (waited) {
		stat_add(cc, STAT_WAITS, 1);
		stat_add(cc, STAT_WAIT_NS, waited);
	}
	if (tc->llc != cc->llc) {
		struct task_slot *slot = slot_of(tc);

		if (tc->llc != NO_LLC)
			stat_add(cc, node_of_llc(tc->llc) == cc->node ? STAT_LLC_MIGRATION :
								    STAT_NODE_MIGRATION, 1);
		tc->llc = cc->llc;
		if (slot)
			slot->llc = cc->llc;
	}
	count_running(tc, cc->llc);
	/* A task that was pulled from another queue is measured by the clock of this one from now on. */
	dom = class_of(tc) == SERVED_CPU ? MAX_LLCS + cpu : cc->llc;
	if (tc->dom != dom)
		enter_dom(tc, dom, false);
	advance_clock(tc);
}

void BPF_STRUCT_OPS(ballast_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tc = task_ctx_of(p);
	struct cpu_ctx *cc = cpu_ctx_of(scx_bpf_task_cpu(p));
	u64 now;

	if (!tc || !cc)
		return;
	account(p, tc, cc);
	if (runnable)
		return;

	now = scx_bpf_now();
	sync_kept(tc, now);
	count_asleep(p, tc, now);
}

void BPF_STRUCT_OPS(ballast_tick, struct task_struct *p)
{
	struct task_ctx *tc = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cc = cpu_ctx_of(cpu);

	if (!tc || !cc || cc->llc == NO_LLC)
		return;
	count_running(tc, cc->llc);
	/* One that never stops touches memory too. */
	faults_seen(p, tc, cc);
	touches_seen(p, tc);
	/*
	 * Make way for a task that was left behind this one, unless it is about to sleep by its own
	 * word: between wake-up and sleep a tick means nothing. The next one would find it out. And make
	 * way for this one's own new home.
	 */
	if ((scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0 && !sync_is_fresh(tc)) ||
	    wanted_llc(slot_of(tc), tc) != NO_LLC)
		scx_bpf_task_set_slice(p, 0);
	sweep(cc, cpu);
}

/* A higher class takes the CPU: what was dispatched to it directly looks for another one. */
void BPF_STRUCT_OPS(ballast_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

/* What may the task use? Recomputed when its affinity changes, so that wake-ups need not. */
static void note_affinity(struct task_struct *p, struct task_ctx *tc, const struct cpumask *mask)
{
	struct task_slot *slot = slot_of(tc);
	bool wide = true;
	u64 nodes = 0;
	u32 i;

	bpf_for(i, 0, nr_nodes) {
		struct node_state *ns = node_state_of(i);
		struct bpf_cpumask *all = ns ? ns->mask : NULL;

		if (!all)
			continue;
		if (bpf_cpumask_intersects(cast_mask(all), mask))
			nodes |= node_bit(i);
		if (wide && !bpf_cpumask_subset(cast_mask(all), mask))
			wide = false;
	}
	tc->wide = wide;
	tc->nodes = nodes;
	tc->kthread = p->flags & PF_KTHREAD && p->nr_cpus_allowed == 1;
	if (tc->kthread)
		count_none(tc);
	if (slot)
		slot->nodes = nodes;
}

void BPF_STRUCT_OPS(ballast_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	struct task_ctx *tc = task_ctx_of(p);

	if (tc)
		note_affinity(p, tc, mask);
}

void BPF_STRUCT_OPS(ballast_set_weight, struct task_struct *p, u32 weight)
{
	struct task_ctx *tc = task_ctx_of(p);
	struct task_slot *slot = tc ? slot_of(tc) : NULL;

	if (slot)
		slot->weight = weight;
}

/* The task enters this class: by birth, by load, or back from another class. */
void BPF_STRUCT_OPS(ballast_enable, struct task_struct *p)
{
	struct task_ctx *tc = task_ctx_of(p);
	struct cpu_ctx *cc = cpu_ctx_of(scx_bpf_task_cpu(p));
	u64 *clock;

	if (!tc || !cc || cc->llc == NO_LLC)
		return;
	tc->last_exec = p->se.sum_exec_runtime;
	if (first_touch)	/* in another class it ran anywhere */
		tc->faults = p->min_flt;
	tc->dom = cc->llc;
	clock = clock_of(tc->dom);
	tc->vtime = clock ? *clock : 0;
}

/* The only event for a task that leaves this class in its sleep. */
void BPF_STRUCT_OPS(ballast_disable, struct task_struct *p)
{
	struct task_ctx *tc = task_ctx_of(p);

	if (!tc)
		return;
	queue_leave(tc);
	count_none(tc);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(ballast_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	struct task_ctx *tc;

	tc = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!tc)
		return -ENOMEM;
	tc->where = WHERE_NONE;
	tc->llc = NO_LLC;
	tc->queue_cpu = NO_CPU;
	tc->slot = NO_SLOT;
	tc->born_at = args->fork ? scx_bpf_now() : 0;
	bpf_rcu_read_lock();
	note_affinity(p, tc, p->cpus_ptr);
	bpf_rcu_read_unlock();
	slot_take(p, tc);
	return 0;
}

void BPF_STRUCT_OPS(ballast_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *tc = task_ctx_of(p);

	if (!tc)
		return;
	queue_leave(tc);
	count_none(tc);
	slot_give_back(tc);
	/* Called for everybody when the scheduler ends, too. */
	if (tracing && p->flags & PF_EXITING)
		trace_exit(p);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(ballast_init)
{
	s32 err;
	u32 i;

	bpf_for(i, 0, nr_llcs) {
		err = init_llc(i);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_nodes) {
		err = init_node(i);
		if (err)
			return err;
	}
	bpf_for(i, 0, nr_cpu_ids) {
		err = init_cpu(i);
		if (err)
			return err;
	}
	return 0;
}

void BPF_STRUCT_OPS(ballast_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* Run by the daemon each tick: what is in queues is known to the kernel alone. */
SEC("syscall")
int ballast_observe(struct observe_arg *arg)
{
	struct task_ctx *tc = task_ctx_of(bpf_get_current_task_btf());
	u32 i;

	arg->now = scx_bpf_now();
	arg->self_llc = tc && (tc->where & 0xff) == WHERE_RUNNING ? where_llc(tc->where) : NO_LLC;
	bpf_for(i, 0, nr_llcs) {
		struct llc_counters *lc = llc_counters_of(i);
		s32 n = scx_bpf_dsq_nr_queued(LLC_QUEUE(i));

		if (lc)
			lc->waiting = n > 0 ? n : 0;
	}
	return 0;
}

SCX_OPS_DEFINE(ballast,
	       .select_cpu	= (void *)ballast_select_cpu,
	       .enqueue		= (void *)ballast_enqueue,
	       .dispatch	= (void *)ballast_dispatch,
	       .running		= (void *)ballast_running,
	       .stopping	= (void *)ballast_stopping,
	       .tick		= (void *)ballast_tick,
	       .cpu_release	= (void *)ballast_cpu_release,
	       .set_cpumask	= (void *)ballast_set_cpumask,
	       .set_weight	= (void *)ballast_set_weight,
	       .enable		= (void *)ballast_enable,
	       .disable		= (void *)ballast_disable,
	       .init_task	= (void *)ballast_init_task,
	       .exit_task	= (void *)ballast_exit_task,
	       .init		= (void *)ballast_init,
	       .exit		= (void *)ballast_exit,
	       .dump		= (void *)ballast_dump,
	       .dump_cpu	= (void *)ballast_dump_cpu,
	       .dump_task	= (void *)ballast_dump_task,
	       .timeout_ms	= 30000,
	       .name		= "scx_ballast");
