/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules that BPF evaluates, from plain arrays: no helper, no map, no clock. The host compiles
 * this file too and compares every function with its Rust twin in src/policy on random states
 * (tests/rules_bpf.rs), so a rule changes in both places or the tests fail.
 *
 * Invariant: nothing here reads or writes anything but its arguments.
 */
#ifndef __BALLAST_RULES_H
#define __BALLAST_RULES_H

#include "intf.h"

/* BPF wants loops that its verifier understands; the host takes any. */
#ifndef rule_for
#define rule_for(i, n) for ((i) = 0; (i) < (n); (i)++)
#endif

/* Tasks that could still start at once; never negative. */
static inline u32 rule_spare(u32 weight, u32 committed)
{
	return weight > committed ? weight - committed : 0;
}

/* A count with the new task; stays a count at the end of the range. */
static inline u32 rule_one_more(u32 committed)
{
	return committed == ~0U ? committed : committed + 1;
}

/* t_a / w_a < t_b / w_b without division. */
static inline int rule_less_loaded(u32 t_a, u32 w_a, u32 t_b, u32 w_b)
{
	return (u64)t_a * w_b < (u64)t_b * w_a;
}

/* By how many tasks a is fuller than b: max(0, 2 (c_a w_b - c_b w_a) / (w_a + w_b)). */
static inline u64 rule_excess(u32 c_a, u32 w_a, u32 c_b, u32 w_b)
{
	u64 more = (u64)c_a * w_b, less = (u64)c_b * w_a;
	u64 weights = (u64)w_a + w_b, diff;

	if (more <= less || !weights)
		return 0;
	/* The difference may need all 64 bits, so it is not doubled. */
	diff = more - less;
	return diff / weights * 2 + diff % weights * 2 / weights;
}

/* R1 to R3: is a state left alone, with a as the fuller node? */
static inline int rule_tolerated(u32 c_a, u32 w_a, u32 c_b, u32 w_b, u32 max_running,
				 u32 max_imbalance)
{
	u64 excess = rule_excess(c_a, w_a, c_b, w_b);

	return excess <= 1 || (excess <= max_imbalance && c_a <= max_running);
}

/*
 * What @tasks of the average weight @task_weight ask for. The bounds are beyond what there can be;
 * with them the products below fit 64 bits.
 */
static inline u64 rule_demand(u32 tasks, u32 task_weight)
{
	u64 t = tasks > (1U << 24) ? 1U << 24 : tasks;
	u64 w = task_weight > 10000 ? 10000 : task_weight ? task_weight : 1;

	return t * w;
}

static inline u64 rule_cpus(u32 cpus)
{
	return cpus > 4096 ? 4096 : cpus;
}

/* d_a / w_a exceeds d_b / w_b by more than CLEARLY_PERCENT. */
static inline int rule_clearly_above(u64 d_a, u32 w_a, u64 d_b, u32 w_b)
{
	return d_a * rule_cpus(w_b) * 100 > d_b * rule_cpus(w_a) * (100 + CLEARLY_PERCENT);
}

/* What is known when a task is forked; the same as policy::placement::ForkState. */
struct rule_fork {
	const u32 *committed;	/* by node */
	const u32 *weight;	/* by node */
	const u8 *order;	/* the parent's node, then nearest first */
	u32 nr;			/* entries of order */
	u32 usable;		/* CPUs of the parent's node that the task may use */
	u64 allowed;		/* nodes that the task may use */
};

/* The best node so far, by one criterion: tasks with the new one, CPUs. */
struct rule_best {
	s32 node;
	u32 tasks;
	u32 weight;
	u64 demand;
};

#define RULE_NONE { -1, 0, 0, 0 }

static inline void rule_take(struct rule_best *best, s32 node, u32 tasks, u32 weight, u64 demand)
{
	best->node = node;
	best->tasks = tasks;
	best->weight = weight;
	best->demand = demand;
}

/*
 * Fork placement. Returns the node, with enum fork_why in bits 8 and up, or -1 when no node in
 * ->allowed has a CPU. Only a strictly better node displaces an earlier one of the order, so a tie
 * stays local, then near.
 */
static inline s32 rule_fork_node(const struct rule_fork *f, const struct fork_limits *lim)
{
	struct rule_best least = RULE_NONE, idlest = RULE_NONE, coolest = RULE_NONE, here = RULE_NONE;
	u32 local = MAX_NODES, most = 0, i;
	int stays = 0;
	s32 best;

	rule_for(i, f->nr) {
		u32 n, c, w, t;
		u64 d;

		if (i >= MAX_NODES)
			break;
		n = f->order[i];
		if (!i)
			local = n;
		if (n >= MAX_NODES || !(f->allowed & (1ULL << n)))
			continue;
		c = f->committed[n];
		w = f->weight[n];
		if (!w)
			continue;
		t = rule_one_more(c);
		d = rule_demand(t, lim->task_weight[n]);
		if (n == local) {
			rule_take(&here, n, t, w, d);
			most = lim->max_running[n];
			if (lim->cap_by_affinity && most > f->usable)
				most = f->usable;
			stays = 1;
		} else if (lim->judge == JUDGE_AFTER && here.node >= 0) {
			stays &= rule_tolerated(here.tasks, here.weight, t - 1, w, most,
						lim->max_imbalance);
		}
		if (least.node < 0 || rule_less_loaded(t, w, least.tasks, least.weight))
			rule_take(&least, n, t, w, d);
		if (idlest.node < 0 ||
		    rule_spare(w, t - 1) > rule_spare(idlest.weight, idlest.tasks - 1))
			rule_take(&idlest, n, t, w, d);
		if (coolest.node < 0 ||
		    d * rule_cpus(coolest.weight) < coolest.demand * rule_cpus(w))
			rule_take(&coolest, n, t, w, d);
	}

	if (least.node < 0)
		return -1;
	if (!rule_spare(idlest.weight, idlest.tasks - 1)) {
		if (here.node >= 0 && !rule_clearly_above(here.demand, here.weight,
							  coolest.demand, coolest.weight))
			return here.node | FORK_FULL_LOCAL << 8;
		return coolest.node | FORK_FULL << 8;
	}
	best = lim->judge == JUDGE_AFTER ? least.node : idlest.node;
	if (lim->judge != JUDGE_AFTER && here.node >= 0) {
		u32 imbalance = rule_spare(idlest.weight, idlest.tasks - 1) -
				rule_spare(here.weight, here.tasks - 1);

		stays = (lim->max_imbalance == ~0U || imbalance <= lim->max_imbalance) &&
			here.tasks <= most;
	}
	if (stays && here.node != best)
		return here.node | FORK_TOLERATED << 8;
	return best | FORK_LEAST << 8;
}

/*
 * The LLC inside the chosen node, relative to the node's first: most spare; when none has any, the
 * smallest (c + 1) / w. A tie goes to @first (the parent's LLC), then to the lowest index.
 */
static inline int rule_fork_llc(const u32 *committed, const u32 *weight, u64 allowed, u32 nr,
				u32 first)
{
	u32 best_c = 0, best_w = 0;
	int best = -1;
	u32 i;

	rule_for(i, nr) {
		u32 c, w, spare, best_spare;
		int better;

		if (i >= MAX_LLCS_PER_NODE)
			break;
		if (!(allowed & (1ULL << i)))
			continue;
		c = rule_one_more(committed[i]);
		w = weight[i];
		if (!w)
			continue;
		spare = rule_spare(w, c - 1);
		best_spare = best < 0 ? 0 : rule_spare(best_w, best_c - 1);
		if (best < 0 || spare != best_spare)
			better = best < 0 || spare > best_spare;
		else if (spare)
			better = i == first;
		else if (rule_less_loaded(c, w, best_c, best_w))
			better = 1;
		else
			better = i == first && !rule_less_loaded(best_c, best_w, c, w);
		if (better) {
			best = i;
			best_c = c;
			best_w = w;
		}
	}
	return best;
}

#endif
