/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel prints of us in a debug dump, after an abort or SysRq-D: enough to tell a stall in
 * our queues from one that is somebody else's. Changes nothing.
 */
#ifndef __BALLAST_DUMP_BPF_H
#define __BALLAST_DUMP_BPF_H

void BPF_STRUCT_OPS(ballast_dump, struct scx_dump_ctx *dctx)
{
	u64 now = scx_bpf_now();
	u32 i;

	bpf_for(i, 0, nr_nodes)
		scx_bpf_dump("node %u: committed %u of %u CPUs\n", i, committed_node(i, now),
			     weight_of_node(i));
	bpf_for(i, 0, nr_llcs) {
		struct llc_state *ls = llc_state_of(i);

		scx_bpf_dump("LLC %u: clock %llu, %d waiting\n", i, ls ? ls->clock : 0,
			     scx_bpf_dsq_nr_queued(LLC_QUEUE(i)));
	}
}

void BPF_STRUCT_OPS(ballast_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu, bool idle)
{
	struct cpu_ctx *cc = cpu_ctx_of(cpu);

	if (!idle && cc)
		scx_bpf_dump("  ballast: LLC %u, own queue %u, served %llu/%llu\n", cc->llc,
			     cc->queued, cc->served[SERVED_LLC], cc->served[SERVED_CPU]);
}

void BPF_STRUCT_OPS(ballast_dump_task, struct scx_dump_ctx *dctx, struct task_struct *p)
{
	struct task_ctx *tc = task_ctx_of(p);

	if (tc)
		scx_bpf_dump("  ballast: where %llx, vtime %llu in queue %u, LLC %u, wide %d\n",
			     tc->where, tc->vtime, tc->dom, tc->llc, tc->wide);
}

#endif
