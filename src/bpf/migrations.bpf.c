/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counts tasks that go from one CPU to another, and those that go to another node. It watches; it is
 * no part of the scheduler, and works under any.
 *
 * The tracepoint fires before the task's CPU is changed, so task_struct still has the old one.
 */
#include <scx/common.bpf.h>

enum migrations_limits {
	MAX_CPUS = 8192,
	NO_NODE = 0xffff,
};

char _license[] SEC("license") = "GPL";

/* By the kernel's CPU id; NO_NODE where Rust knows of none. */
const volatile u16 node_of_cpu[MAX_CPUS];

struct migrations {
	u64 all;
	u64 cross_node;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct migrations);
} counts SEC(".maps");

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(count_migration, struct task_struct *p, int dest_cpu)
{
	u32 key = 0, from = p->thread_info.cpu, to = dest_cpu;
	struct migrations *m = bpf_map_lookup_elem(&counts, &key);

	if (!m)
		return 0;
	m->all++;
	/* No kernel has larger ids; the mask is for the verifier, which follows it better than a test. */
	if (node_of_cpu[from & (MAX_CPUS - 1)] != node_of_cpu[to & (MAX_CPUS - 1)])
		m->cross_node++;
	return 0;
}
