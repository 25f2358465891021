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

/*
 * The choices are functions of their own in BPF, which its verifier checks once and for any argument,
 * instead of once for each way to the place where they are called.
 */
#ifndef RULE_CHOICE
#define RULE_CHOICE static
#endif

/* Tasks that could still start at once; never negative. */
static inline u32 rule_spare(u32 weight, u32 committed)
{
	return weight > committed ? weight - committed : 0;
}

/* (c_a + 1) / w_a < (c_b + 1) / w_b without division. */
static inline int rule_less_loaded(u32 c_a, u32 w_a, u32 c_b, u32 w_b)
{
	return ((u64)c_a + 1) * w_b < ((u64)c_b + 1) * w_a;
}

/* By how many tasks a is fuller than b: max(0, 2 (c_a w_b - c_b w_a) / (w_a + w_b)). */
static inline u64 rule_excess(u64 c_a, u32 w_a, u64 c_b, u32 w_b)
{
	u64 more = c_a * w_b, less = c_b * w_a;
	u64 weights = (u64)w_a + w_b, diff;

	if (more <= less || !weights)
		return 0;
	/* The difference may need all 64 bits, so it is not doubled. */
	diff = more - less;
	return diff / weights * 2 + diff % weights * 2 / weights;
}

/* R1 to R3: is a state left alone, with a as the fuller node? */
static inline int rule_tolerated(u64 c_a, u32 w_a, u64 c_b, u32 w_b, u32 max_running,
				 u32 max_imbalance)
{
	u64 excess = rule_excess(c_a, w_a, c_b, w_b);

	return excess <= 1 || (excess <= max_imbalance && c_a <= max_running);
}

/*
 * What is known of the nodes when a task is forked: policy::placement::ForkState. Counts are below
 * 2^24 and weights at most MAX_CPUS, so that no product below needs more than 64 bits.
 */
struct rule_fork {
	u64 allowed;			/* nodes that the task may use */
	u32 nr;				/* entries of order */
	u32 usable;			/* CPUs of the parent's node that the task may use */
	u32 committed[MAX_NODES];	/* by node */
	u32 weight[MAX_NODES];		/* by node */
	u8 order[MAX_NODES];		/* the parent's node, then nearest first */
};

/* Besides, when the process of a new thread belongs somewhere: policy::locality::fork. */
struct rule_home {
	u64 nodes;			/* where it belongs; 0: nowhere in particular */
	u32 usable[MAX_NODES];		/* by node: its CPUs that the task may use */
	struct rule_fork there;		/* the state as if the parent were there; written by the rule */
};

/* The same for the LLCs of a node, relative to its first. */
struct rule_llcs {
	u64 allowed;			/* LLCs that the task may use */
	u32 nr;
	u32 first;			/* wins a tie */
	u32 committed[MAX_LLCS_PER_NODE];
	u32 weight[MAX_LLCS_PER_NODE];
};

/* The @i-th node to look at, if it is allowed and has CPUs; else negative. */
static inline s32 rule_node_at(const struct rule_fork *f, u32 i)
{
	u32 n;

	if (i >= MAX_NODES)
		return -1;
	n = f->order[i];
	if (n >= MAX_NODES || !(f->allowed >> n & 1) || !f->weight[n])
		return -1;
	return n;
}

/* Of the allowed nodes that with the smallest (c + 1) / w; the earliest on a tie. */
RULE_CHOICE s32 rule_least_node(const struct rule_fork *f)
{
	s32 best = -1;
	u32 i;

	if (!f)
		return -1;
	rule_for(i, f->nr) {
		s32 n = rule_node_at(f, i);

		if (n < 0 || n >= MAX_NODES)
			continue;
		if (best < 0 || best >= MAX_NODES ||
		    rule_less_loaded(f->committed[n], f->weight[n], f->committed[best],
				     f->weight[best]))
			best = n;
	}
	return best;
}

/* That with most spare. */
RULE_CHOICE s32 rule_idlest_node(const struct rule_fork *f)
{
	s32 best = -1;
	u32 i;

	if (!f)
		return -1;
	rule_for(i, f->nr) {
		s32 n = rule_node_at(f, i);

		if (n < 0 || n >= MAX_NODES)
			continue;
		if (best < 0 || best >= MAX_NODES ||
		    rule_spare(f->weight[n], f->committed[n]) >
			    rule_spare(f->weight[best], f->committed[best]))
			best = n;
	}
	return best;
}

/* What the tasks of node @n would ask for with one more of their average weight. */
static inline u64 rule_demand(const struct rule_fork *f, const struct fork_limits *lim, u32 n)
{
	return ((u64)f->committed[n] + 1) * lim->task_weight[n];
}

/* The least utilised. */
RULE_CHOICE s32 rule_coolest_node(const struct rule_fork *f, const struct fork_limits *lim)
{
	s32 best = -1;
	u32 i;

	if (!f || !lim)
		return -1;
	rule_for(i, f->nr) {
		s32 n = rule_node_at(f, i);

		if (n < 0 || n >= MAX_NODES)
			continue;
		if (best < 0 || best >= MAX_NODES ||
		    rule_demand(f, lim, n) * f->weight[best] <
			    rule_demand(f, lim, best) * f->weight[n])
			best = n;
	}
	return best;
}

/* Most tasks that node @n may have with the new one, for it to stay there. */
static inline u32 rule_most(const struct rule_fork *f, const struct fork_limits *lim, u32 n)
{
	u32 most = lim->max_running[n];

	return lim->cap_by_affinity && most > f->usable ? f->usable : most;
}

/* Would the new task on its parent's node be tolerated against every other allowed node? */
RULE_CHOICE s32 rule_stays(const struct rule_fork *f, const struct fork_limits *lim)
{
	u32 i, most;
	s32 local;

	if (!f || !lim)
		return 0;
	local = rule_node_at(f, 0);
	if (local < 0 || local >= MAX_NODES)
		return 0;
	most = rule_most(f, lim, local);
	rule_for(i, f->nr) {
		s32 n = rule_node_at(f, i);

		if (n < 0 || n >= MAX_NODES || n == local)
			continue;
		if (!rule_tolerated((u64)f->committed[local] + 1, f->weight[local], f->committed[n],
				    f->weight[n], most, lim->max_imbalance))
			return 0;
	}
	return 1;
}

/* The kernel generations: difference in spare before, count after. */
static inline int rule_stays_before(const struct rule_fork *f, const struct fork_limits *lim,
				    u32 local, u32 idlest)
{
	u32 imbalance = rule_spare(f->weight[idlest], f->committed[idlest]) -
			rule_spare(f->weight[local], f->committed[local]);

	return (lim->max_imbalance == ~0U || imbalance <= lim->max_imbalance) &&
	       (u64)f->committed[local] + 1 <= rule_most(f, lim, local);
}

/* No allowed node has spare: the least utilised, local unless that is clearly busier. */
static inline s32 rule_fork_full(const struct rule_fork *f, const struct fork_limits *lim, s32 local)
{
	s32 best = rule_coolest_node(f, lim);

	if (best < 0 || best >= MAX_NODES)
		return -1;
	if (local >= 0 && local < MAX_NODES &&
	    rule_demand(f, lim, local) * f->weight[best] * 100 <=
		    rule_demand(f, lim, best) * f->weight[local] * (100 + CLEARLY_PERCENT))
		return local | FORK_FULL_LOCAL << 8;
	return best | FORK_FULL << 8;
}

/*
 * Fork placement. Returns the node, with enum fork_why in bits 8 and up, or -1 when no node in
 * ->allowed has a CPU.
 */
RULE_CHOICE s32 rule_fork_node(const struct rule_fork *f, const struct fork_limits *lim)
{
	s32 idlest, best, local;
	int stays;

	if (!f || !lim)
		return -1;
	idlest = rule_idlest_node(f);
	if (idlest < 0 || idlest >= MAX_NODES)
		return -1;
	local = rule_node_at(f, 0);
	if (!rule_spare(f->weight[idlest], f->committed[idlest]))
		return rule_fork_full(f, lim, local);

	best = lim->judge == JUDGE_AFTER ? rule_least_node(f) : idlest;
	if (local < 0 || local >= MAX_NODES || local == best)
		return best | FORK_LEAST << 8;
	stays = lim->judge == JUDGE_AFTER ? rule_stays(f, lim) :
					    rule_stays_before(f, lim, local, idlest);
	return stays ? local | FORK_TOLERATED << 8 : best | FORK_LEAST << 8;
}

/*
 * The node for a new thread (R5, R8): one where its process belongs, if fork placement would keep it
 * there were its parent there; else as if it belonged nowhere. Row n of @order is what
 * rule_fork.order is for a parent on node n. Returns as rule_fork_node(), with enum home_why in bits
 * 16 and up.
 */
static inline s32 rule_fork_home(const struct rule_fork *f, const struct fork_limits *lim,
				 struct rule_home *home, const volatile u8 (*order)[MAX_NODES])
{
	struct rule_fork *there = &home->there;
	s32 plain = rule_fork_node(f, lim), wanted, choice;
	u32 i;

	if (plain < 0 || !(f->allowed & home->nodes))
		return plain;
	__builtin_memcpy(there, f, sizeof(*there));
	there->allowed = f->allowed & home->nodes;
	wanted = rule_fork_node(there, lim);
	if (wanted < 0)
		return plain;
	wanted &= 0xff;
	if (wanted >= MAX_NODES || !rule_spare(f->weight[wanted], f->committed[wanted]))
		return plain | HOME_NOT_TOLERATED << 16;

	there->allowed = f->allowed;
	there->usable = home->usable[wanted];
	rule_for(i, f->nr) {
		if (i >= MAX_NODES)
			break;
		there->order[i] = order[wanted][i];
	}
	choice = rule_fork_node(there, lim);
	if (choice < 0 || (choice & 0xff) != wanted)
		return plain | HOME_NOT_TOLERATED << 16;
	return choice | HOME_PREFERRED << 16;
}

/*
 * Would the state be tolerated with a waking task on node @to, which has a CPU to spare, against
 * every other node that the task may use (R8)? ->committed is without the task; ->order and ->usable
 * are not looked at. policy::locality::wake.
 */
RULE_CHOICE s32 rule_may_wake(const struct rule_fork *f, const struct fork_limits *lim, u32 to)
{
	u32 n;

	if (!f || !lim || to >= MAX_NODES || to >= f->nr)
		return 0;
	if (!(f->allowed >> to & 1) || !rule_spare(f->weight[to], f->committed[to]))
		return 0;
	rule_for(n, f->nr) {
		if (n >= MAX_NODES)
			break;
		if (n == to || !(f->allowed >> n & 1) || !f->weight[n])
			continue;
		if (!rule_tolerated((u64)f->committed[to] + 1, f->weight[to], f->committed[n],
				    f->weight[n], lim->max_running[to], lim->max_imbalance))
			return 0;
	}
	return 1;
}

/* Is the @i-th LLC a better place than the @best-th? @i is not before @best, but for ->first. */
static inline int rule_roomier(const struct rule_llcs *l, u32 i, u32 best)
{
	u32 spare = rule_spare(l->weight[i], l->committed[i]);
	u32 best_spare = rule_spare(l->weight[best], l->committed[best]);

	if (spare != best_spare)
		return spare > best_spare;
	if (spare)
		return i == l->first;
	if (rule_less_loaded(l->committed[i], l->weight[i], l->committed[best], l->weight[best]))
		return 1;
	return i == l->first && !rule_less_loaded(l->committed[best], l->weight[best],
						  l->committed[i], l->weight[i]);
}

/*
 * The LLC inside the chosen node: most spare; when none has any, the smallest (c + 1) / w. A tie goes
 * to ->first (the parent's LLC), then to the lowest index. -1 when no allowed one has a CPU.
 */
RULE_CHOICE s32 rule_fork_llc(const struct rule_llcs *l)
{
	s32 best = -1;
	u32 i;

	if (!l)
		return -1;
	rule_for(i, l->nr) {
		if (i >= MAX_LLCS_PER_NODE)
			break;
		if (!(l->allowed >> i & 1) || !l->weight[i])
			continue;
		if (best < 0 || best >= MAX_LLCS_PER_NODE || rule_roomier(l, i, best))
			best = i;
	}
	return best;
}

#endif
