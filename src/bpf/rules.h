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

/* (c_a + 1) / w_a < (c_b + 1) / w_b without division. */
static inline int rule_less_loaded(u32 c_a, u32 w_a, u32 c_b, u32 w_b)
{
	return ((u64)c_a + 1) * w_b < ((u64)c_b + 1) * w_a;
}

/*
 * Fork placement: the allowed node where (c + 1) / w is smallest. @order lists @nr nodes, the
 * parent's first, then nearest first; only a strictly better node displaces an earlier one, so a
 * tie stays local, then near. Returns the node, or -1 when no node in @allowed has a CPU.
 */
static inline int rule_fork_node(const u32 *committed, const u32 *weight, u64 allowed,
				 const u8 *order, u32 nr)
{
	u32 best_c = 0, best_w = 0;
	int best = -1;
	u32 i;

	rule_for(i, nr) {
		u32 n, c, w;

		if (i >= MAX_NODES)
			break;
		n = order[i];
		if (n >= MAX_NODES || !(allowed & (1ULL << n)))
			continue;
		c = committed[n];
		w = weight[n];
		if (!w)
			continue;
		if (best < 0 || rule_less_loaded(c, w, best_c, best_w)) {
			best = n;
			best_c = c;
			best_w = w;
		}
	}
	return best;
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
		c = committed[i];
		w = weight[i];
		if (!w)
			continue;
		spare = rule_spare(w, c);
		best_spare = rule_spare(best_w, best_c);
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
