/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is made before the first task is scheduled: queues and CPU masks of LLCs, nodes and CPUs.
 *
 * Invariant: every queue that any other header names exists, and every mask that it reads is set,
 * once these have returned 0.
 */
#ifndef __BALLAST_INIT_BPF_H
#define __BALLAST_INIT_BPF_H

static __always_inline void mask_add_llc(struct bpf_cpumask *mask, u32 llc)
{
	u32 i;

	bpf_for(i, 0, weight_of_llc(llc))
		bpf_cpumask_set_cpu(cpu_at(llc, i), mask);
}

static s32 init_llc(u32 llc)
{
	struct llc_state *ls = llc_state_of(llc);
	struct bpf_cpumask *mask;
	s32 err;

	if (!ls)
		return -ENOENT;
	err = scx_bpf_create_dsq(LLC_QUEUE(llc), node_id[node_of_llc(llc) & (MAX_NODES - 1)]);
	if (err)
		return err;
	mask = bpf_cpumask_create();
	if (!mask)
		return -ENOMEM;
	mask_add_llc(mask, llc);
	mask = bpf_kptr_xchg(&ls->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

static s32 init_node(u32 node)
{
	struct node_state *ns = node_state_of(node);
	struct bpf_cpumask *mask;
	u32 i, first = first_llc(node), nr = nr_llcs_of(node);

	if (!ns)
		return -ENOENT;
	mask = bpf_cpumask_create();
	if (!mask)
		return -ENOMEM;
	bpf_for(i, 0, nr)
		mask_add_llc(mask, first + i);
	mask = bpf_kptr_xchg(&ns->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	return 0;
}

static s32 init_cpu(u32 cpu)
{
	struct cpu_scratch *scratch = cpu_scratch_of(cpu);
	struct cpu_ctx *cc = cpu_ctx_of(cpu);
	struct bpf_cpumask *mask;

	if (!scratch || !cc)
		return -ENOENT;
	mask = bpf_cpumask_create();
	if (!mask)
		return -ENOMEM;
	mask = bpf_kptr_xchg(&scratch->mask, mask);
	if (mask)
		bpf_cpumask_release(mask);
	if (cc->llc == NO_LLC)
		return 0;
	return scx_bpf_create_dsq(CPU_QUEUE(cpu), node_id[cc->node & (MAX_NODES - 1)]);
}

#endif
