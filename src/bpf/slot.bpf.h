/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Task slots: the part of a task that the daemon sees, and the wishes that it writes there.
 *
 * Invariants: a slot belongs to at most one task; its sequence count is even exactly while it does.
 * A task without a slot is scheduled all the same and counted as unseen.
 */
#ifndef __BALLAST_SLOT_BPF_H
#define __BALLAST_SLOT_BPF_H

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
	slot->prefers = 0;
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

static void wish_done(struct task_slot *slot, u32 llc)
{
	slot->wanted = 0;
	slot->home = llc;
	slot->moved_at = scx_bpf_now();
	stat_add(cpu_ctx_of(bpf_get_smp_processor_id()), STAT_MOVE, 1);
}

#endif
