/* SPDX-License-Identifier: GPL-2.0-only */
/* rules.h compiled for the host, with external names for tests/rules_bpf.rs. Never loaded as BPF. */
#include "rules.h"

int ballast_rule_fork_node(const u32 *committed, const u32 *weight, u64 allowed, const u8 *order,
			   u32 nr)
{
	return rule_fork_node(committed, weight, allowed, order, nr);
}

int ballast_rule_fork_llc(const u32 *committed, const u32 *weight, u64 allowed, u32 nr, u32 first)
{
	return rule_fork_llc(committed, weight, allowed, nr, first);
}

u32 ballast_rule_spare(u32 weight, u32 committed)
{
	return rule_spare(weight, committed);
}
