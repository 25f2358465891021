/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the user dispatcher asks about single tasks (src/user/bpf_facts.rs). It is called, never attached.
 *
 * Whoever asks places all tasks, so it must not wait for one that waits to be placed. Nothing here waits for a lock:
 * a task is found under RCU, its fields are read as they stand, and question and answers are in memory that both sides
 * have mapped. /proc would take locks of the task that is asked about.
 *
 * Thread ids are those of the initial PID namespace, as in all of sched_ext.
 */
/* vmlinux.h's own prototypes of kernel functions lack address spaces and do not build. */
#define BPF_NO_KFUNC_PROTOTYPES
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Not scx/common.bpf.h: it would bring a program that only a scheduler needs. */
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;

enum facts_limits {
	MAX_ASKED = 64,		/* tasks in one question */
	MASK_WORDS = 16,	/* 1024 CPUs; launch.rs refuses machines with more */
};

/* What is asked about a task; raw, Rust says what it means. */
struct task_facts {
	u64 ran_ns;		/* CPU time since its birth */
	u32 found;		/* 0: there is no such task, and nothing else is told */
	u32 state;		/* task_struct's __state */
	u32 exit_state;
	u32 cpu;
	u32 policy;
	s32 process;
	s32 parent;		/* process of who forked its process, or who inherited that */
};
_Static_assert(sizeof(struct task_facts) == 40, "src/user/bpf_facts.rs has a test for this size");

char _license[] SEC("license") = "GPL";

u32 nr_asked;
s32 asked[MAX_ASKED];
struct task_facts told[MAX_ASKED];
/* CPUs of the one whose affinity was asked for; bit n of word n / 64: the kernel's CPU n. */
u64 mask[MASK_WORDS];

static void tell(s32 pid, struct task_facts *facts)
{
	struct task_struct *p = bpf_task_from_pid(pid);

	facts->found = 0;
	if (!p)
		return;
	facts->ran_ns = p->se.sum_exec_runtime;
	facts->state = p->__state;
	facts->exit_state = p->exit_state;
	facts->cpu = p->thread_info.cpu;
	facts->policy = p->policy;
	facts->process = p->tgid;
	bpf_rcu_read_lock();
	facts->parent = p->real_parent->tgid;
	bpf_rcu_read_unlock();
	facts->found = 1;
	bpf_task_release(p);
}

/* Tell of the tasks that are asked about; returns the process of who asks. */
SEC("syscall")
int facts_ask(void *ctx)
{
	u32 i;

	bpf_for(i, 0, nr_asked) {
		if (i >= MAX_ASKED)
			break;
		tell(asked[i], &told[i]);
	}
	return bpf_get_current_pid_tgid() >> 32;
}

/* The CPUs that the affinity of the first names, those that are offline too; returns whether there is such a task. */
SEC("syscall")
int facts_affinity(void *ctx)
{
	struct task_struct *p = bpf_task_from_pid(asked[0]);
	u32 size = bpf_core_field_size(p->cpus_mask);
	long err;

	if (!p)
		return 0;
	if (size > sizeof(mask))
		size = sizeof(mask);
	__builtin_memset(mask, 0, sizeof(mask));
	err = bpf_probe_read_kernel(mask, size, &p->cpus_mask);
	bpf_task_release(p);
	return !err;
}
