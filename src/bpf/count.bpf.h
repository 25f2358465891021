/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counting tasks: the counted-where word and the counters that follow it.
 *
 * Invariants: a task is in exactly the counter that its word names; count_as() is the only writer
 * of both and does nothing when the word is already right, so every callback may call it. Callbacks
 * of one task never run at the same time (they hold its rq lock or its pi_lock), hence the word
 * needs no atomics; the counters do.
 *
 * Sleeping newborns are kept in buckets by birth epoch, epoch and count in one word. A bucket whose
 * epoch is too old simply reads as 0 and is overwritten by the next epoch that lands on it, so a
 * newborn that grows old in its sleep needs no event.
 */
#ifndef __BALLAST_COUNT_BPF_H
#define __BALLAST_COUNT_BPF_H

#define NEWBORN_RETRIES 16	/* of a contended compare-and-swap */

static inline u64 where_word(u64 state, u32 llc, u32 epoch)
{
	return state | (u64)llc << 8 | (u64)epoch << 32;
}

static inline u32 where_llc(u64 word)
{
	return (word >> 8) & 0xffffff;
}

/* Epoch 0 is never used, so that an empty bucket is never taken for a current one. */
static inline u32 epoch_at(u64 t)
{
	return newborn_epoch_ns ? t / newborn_epoch_ns + 1 : 0;
}

static bool newborn_add(struct llc_counters *lc, u32 epoch, s32 delta)
{
	u64 *bucket = &lc->newborn[epoch % NEWBORN_BUCKETS];
	u32 i;

	for (i = 0; i < NEWBORN_RETRIES; i++) {
		u64 old = *(volatile u64 *)bucket;
		u32 count = (u32)old;
		u64 new;

		if (old >> 32 != epoch) {
			/* Aged out (or, for a late birth, already overtaken): nothing to undo. */
			if (delta < 0 || (u32)(old >> 32) > epoch)
				return false;
			count = 0;
		}
		if (delta < 0 && !count)
			return false;
		new = (u64)epoch << 32 | (u32)(count + delta);
		if (__sync_val_compare_and_swap(bucket, old, new) == old)
			return true;
	}
	return false;
}

static void count_as(struct task_ctx *tc, u64 to, u64 now)
{
	u64 from = tc->where;
	struct llc_counters *lc;
	struct task_slot *slot;

	if (from == to)
		return;

	lc = llc_counters_of(where_llc(from));
	if (lc && (from & 0xff) == WHERE_RUNNING) {
		__sync_fetch_and_add(&lc->running, -1);
		__sync_fetch_and_add(&lc->stamp, -now);
	} else if (lc && (from & 0xff) == WHERE_NEWBORN) {
		newborn_add(lc, from >> 32, -1);
	}

	lc = llc_counters_of(where_llc(to));
	if (!lc) {
		to = WHERE_NONE;
	} else if ((to & 0xff) == WHERE_RUNNING) {
		__sync_fetch_and_add(&lc->running, 1);
		__sync_fetch_and_add(&lc->stamp, now);
	} else if ((to & 0xff) == WHERE_NEWBORN) {
		if (!newborn_add(lc, to >> 32, 1))
			to = WHERE_NONE;
	}

	tc->where = to;
	slot = slot_of(tc);
	if (slot)
		slot->where = to;
}

static inline void count_running(struct task_ctx *tc, u32 llc)
{
	u64 to = where_word(WHERE_RUNNING, llc, 0);

	if (tc->where != to && !tc->kthread)
		count_as(tc, to, scx_bpf_now());
}

static inline void count_none(struct task_ctx *tc)
{
	if (tc->where != WHERE_NONE)
		count_as(tc, WHERE_NONE, scx_bpf_now());
}

/* Is a task counted in committed_node(@node)? A newborn that grew old in its sleep is not. */
static bool is_committed_to(const struct task_ctx *tc, u32 node, u64 now)
{
	u64 word = tc->where;
	u32 state = word & 0xff;

	if (state == WHERE_NONE || node_of_llc(where_llc(word)) != node)
		return false;
	return state == WHERE_RUNNING || epoch_at(now) - (u32)(word >> 32) < NEWBORN_BUCKETS;
}

/*
 * A task goes to sleep: it stays counted if it was forked lately and has hardly run (R6), because
 * it was placed here in order to run here.
 */
static inline void count_asleep(struct task_struct *p, struct task_ctx *tc, u64 now)
{
	u64 to = WHERE_NONE;

	if (newborn_epoch_ns && tc->born_at && !(p->flags & PF_EXITING) && !tc->kthread) {
		if (now - tc->born_at < newborn_epoch_ns * NEWBORN_BUCKETS &&
		    p->se.sum_exec_runtime < newborn_work_ns)
			to = where_word(WHERE_NEWBORN, tc->llc, epoch_at(tc->born_at));
		else
			tc->born_at = 0; /* grown up: no more checks */
	}
	count_as(tc, to, now);
}

/* Committed tasks of an LLC: running or waiting, plus newborns asleep. */
static u32 committed_llc(u32 llc, u64 now)
{
	struct llc_counters *lc = llc_counters_of(llc);
	u32 epoch = epoch_at(now), i;
	s64 sum;

	if (!lc)
		return 0;
	sum = *(volatile s64 *)&lc->running;
	for (i = 0; i < NEWBORN_BUCKETS; i++) {
		u64 b = *(volatile u64 *)&lc->newborn[i];

		if (epoch && epoch - (u32)(b >> 32) < NEWBORN_BUCKETS)
			sum += (u32)b;
	}
	return sum > 0 ? sum : 0;
}

static u32 committed_node(u32 node, u64 now)
{
	u32 sum = 0, first = first_llc(node), nr = nr_llcs_of(node), i;

	bpf_for(i, 0, nr)
		sum += committed_llc(first + i, now);
	return sum;
}

#endif
