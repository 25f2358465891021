/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Task slots: the part of a task that the daemon sees, and the wishes that it writes there.
 *
 * Invariants: a slot belongs to at most one task; its sequence count is even exactly while it does.
 * A task without a slot is scheduled all the same and counted as unseen.
 *
 * What belongs to a slot and lies elsewhere, faults by node and touches, is cleared with it.
 */
#ifndef __BALLAST_SLOT_BPF_H
#define __BALLAST_SLOT_BPF_H

static inline u64 *faults_on(u32 slot, u32 node)
{
	u32 i = slot * nr_nodes + node;

	return bpf_map_lookup_elem(&faults, &i);
}

static void faults_clear(u32 slot)
{
	u32 i;

	bpf_for(i, 0, nr_nodes) {
		u64 *on = faults_on(slot, i);

		if (on)
			*on = 0;
	}
}

/*
 * First touch: what @p has faulted in since the last time is credited to the node of @cc, on which it
 * ran meanwhile. Minor faults alone: what needed I/O is mostly the page cache, which nobody owns.
 */
static void faults_credit(struct task_struct *p, struct task_ctx *tc, const struct cpu_ctx *cc)
{
	u64 now = p->min_flt;
	u64 *on = tc->slot == NO_SLOT ? NULL : faults_on(tc->slot, cc->node);

	if (on)
		*on += now - tc->faults;
	tc->faults = now;
}

/* The same for where it is called all the time. */
static inline void faults_seen(struct task_struct *p, struct task_ctx *tc, const struct cpu_ctx *cc)
{
	if (first_touch && unlikely(p->min_flt != tc->faults))
		faults_credit(p, tc, cc);
}

/*
 * Where a new task belongs (R5): a thread where its process does, which its parent knows; a process
 * nowhere yet. Called while the parent forks it.
 */
static u64 inherited(struct task_struct *p)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct task_ctx *tc = task_ctx_of(parent);
	struct task_slot *slot = tc && parent->tgid == p->tgid ? slot_of(tc) : NULL;

	return slot ? *(volatile u64 *)&slot->prefers : 0;
}

static void slot_take(struct task_struct *p, struct task_ctx *tc)
{
	struct task_slot *slot;
	u32 i;

	tc->slot = NO_SLOT;
	if (bpf_map_pop_elem(&free_slots, &i)) {
		i = fresh_slots < nr_slots ? __sync_fetch_and_add(&fresh_slots, 1) : nr_slots;
		if (i >= nr_slots)
			i = NO_SLOT;
	}
	slot = i == NO_SLOT ? NULL : bpf_map_lookup_elem(&slots, &i);
	if (!slot) {
		stat_add(cpu_ctx_of(bpf_get_smp_processor_id()), STAT_UNSEEN, 1);
		return;
	}
	tc->slot = i;
	__sync_fetch_and_add(&slots_used, 1);

	/* A free slot's count is odd, but for a slot never used, which is 0. */
	slot->seq |= 1;
	slot->pid = p->pid;
	slot->tgid = p->tgid;
	slot->home = NO_LLC;
	slot->llc = NO_LLC;
	slot->where = WHERE_NONE;
	slot->nodes = tc->nodes;
	slot->runtime_ns = 0;
	slot->born_at = tc->born_at;
	slot->moved_at = 0;
	slot->weight = p->scx.weight;
	slot->wanted = 0;
	slot->prefers = preferring && tc->born_at ? inherited(p) : 0;
	if (first_touch)
		faults_clear(i);
	if (touching)
		touches_clear(i);
	__sync_fetch_and_add(&slot->seq, 1);
}

static void slot_give_back(struct task_ctx *tc)
{
	struct task_slot *slot = slot_of(tc);
	u32 i = tc->slot;

	if (!slot)
		return;
	tc->slot = NO_SLOT;
	__sync_fetch_and_add(&slot->seq, 1);
	__sync_fetch_and_add(&slots_used, -1);
	bpf_map_push_elem(&free_slots, &i, BPF_ANY);
}

/*
 * The LLC that the daemon wants this task to move to, or NO_LLC. A wish for a former owner of the
 * slot, and one that is already fulfilled, do not count.
 */
static inline u32 wanted_llc(struct task_slot *slot, const struct task_ctx *tc)
{
	u64 wish;
	u32 llc;

	if (!slot)
		return NO_LLC;
	wish = *(volatile u64 *)&slot->wanted;
	if (likely(!wish) || wish >> 32 != slot->seq)
		return NO_LLC;
	llc = (u32)wish - 1;
	if (llc >= nr_llcs || llc == tc->llc || !(tc->nodes & node_bit(node_of_llc(llc))))
		return NO_LLC;
	return llc;
}

/* Where the task belongs, of the nodes that it may use; 0: nowhere in particular. */
static inline u64 preferred_nodes(const struct task_slot *slot, const struct task_ctx *tc)
{
	return preferring && slot ? *(volatile u64 *)&slot->prefers & tc->nodes : 0;
}

static void wish_done(struct task_slot *slot, u32 llc)
{
	slot->wanted = 0;
	slot->home = llc;
	slot->moved_at = scx_bpf_now();
	stat_add(cpu_ctx_of(bpf_get_smp_processor_id()), STAT_MOVE, 1);
}

#endif
