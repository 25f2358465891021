/* SPDX-License-Identifier: GPL-2.0-only */
/* rules.h compiled for the host, with external names for tests/rules_bpf.rs. Never loaded as BPF. */
#include "rules.h"

s32 ballast_rule_fork_node(const struct rule_fork *f, const struct fork_limits *lim)
{
	return rule_fork_node(f, lim);
}

s32 ballast_rule_fork_llc(const struct rule_llcs *l)
{
	return rule_fork_llc(l);
}

s32 ballast_rule_fork_home(const struct rule_fork *f, const struct fork_limits *lim,
			   struct rule_home *home, const volatile u8 (*order)[MAX_NODES])
{
	return rule_fork_home(f, lim, home, order);
}

s32 ballast_rule_may_wake(const struct rule_fork *f, const struct fork_limits *lim, u32 to)
{
	return rule_may_wake(f, lim, to);
}

u32 ballast_rule_spare(u32 weight, u32 committed)
{
	return rule_spare(weight, committed);
}

u64 ballast_rule_excess(u32 c_a, u32 w_a, u32 c_b, u32 w_b)
{
	return rule_excess(c_a, w_a, c_b, w_b);
}

int ballast_rule_tolerated(u32 c_a, u32 w_a, u32 c_b, u32 w_b, u32 max_running, u32 max_imbalance)
{
	return rule_tolerated(c_a, w_a, c_b, w_b, max_running, max_imbalance);
}
