/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finding idle CPUs. The one place that knows whether the kernel keeps one idle mask or one per
 * node: with per-node masks the global calls are fatal errors, and the other way round.
 *
 * Invariant: a CPU returned from here was idle and is now claimed (its idle bit is cleared).
 */
#ifndef __BALLAST_IDLE_BPF_H
#define __BALLAST_IDLE_BPF_H

/* An idle CPU of @mask, all of whose CPUs are in @node; a whole idle core first. */
static inline s32 idle_pick(const struct cpumask *mask, u32 node, u64 flags)
{
	if (per_node_idle)
		return __COMPAT_scx_bpf_pick_idle_cpu_node(mask, node_id[node & (MAX_NODES - 1)],
							   flags | SCX_PICK_IDLE_IN_NODE);
	return scx_bpf_pick_idle_cpu(mask, flags);
}

/* The same among the CPUs that @p may use. */
static s32 idle_pick_for(struct task_struct *p, bool wide, const struct cpumask *mask, u32 node,
			 u64 flags)
{
	struct cpu_scratch *scratch;
	struct bpf_cpumask *both;

	if (wide)
		return idle_pick(mask, node, flags);
	scratch = cpu_scratch_of(bpf_get_smp_processor_id());
	if (!scratch)
		return -ENOENT;
	both = scratch->mask;
	if (!both || !bpf_cpumask_and(both, mask, p->cpus_ptr))
		return -ENOENT;
	return idle_pick(cast_mask(both), node, flags);
}

static s32 idle_in_llc(struct task_struct *p, bool wide, u32 llc, u64 flags)
{
	struct llc_state *ls = llc_state_of(llc);
	struct bpf_cpumask *mask = ls ? ls->mask : NULL;

	if (!mask)
		return -ENOENT;
	return idle_pick_for(p, wide, cast_mask(mask), node_of_llc(llc), flags);
}

static s32 idle_in_node(struct task_struct *p, bool wide, u32 node, u64 flags)
{
	struct node_state *ns = node_state_of(node);
	struct bpf_cpumask *mask = ns ? ns->mask : NULL;

	if (!mask)
		return -ENOENT;
	return idle_pick_for(p, wide, cast_mask(mask), node, flags);
}

/* Is the whole core of @cpu idle? Claims nothing. */
static bool idle_core(s32 cpu, u32 node)
{
	const struct cpumask *mask;
	bool idle;

	if (per_node_idle)
		mask = __COMPAT_scx_bpf_get_idle_smtmask_node(node_id[node & (MAX_NODES - 1)]);
	else
		mask = scx_bpf_get_idle_smtmask();
	idle = bpf_cpumask_test_cpu(cpu, mask);
	scx_bpf_put_idle_cpumask(mask);
	return idle;
}

#endif
