/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's own scheduling domains, read and nothing else: what rq->sd of a CPU and its parents
 * say. Rust asks for one CPU at a time and finds the answer in `chain`.
 *
 * Bottom up, as the kernel keeps them: what it found degenerate is not there any more. Fields are
 * found by CO-RE, so a kernel without one that is needed refuses the program at load time.
 */
#include <scx/common.bpf.h>

enum oracle_limits {
	MAX_DOMAINS = 24,	/* of one CPU: four of the hardware's and one per distinct distance */
	SPAN_WORDS = 64,	/* 4096 CPUs */
	NAME_LEN = 16,
};

/* What Rust is told by the program's return value. */
enum oracle_result {
	ORACLE_OK,
	ORACLE_NO_RUNQUEUES,	/* the kernel's BTF has no variable of that name */
	ORACLE_NO_CPU,
	ORACLE_TOO_MANY,
	ORACLE_UNREADABLE,
};

struct oracle_domain {
	s32 level;
	s32 flags;
	u32 span_weight;
	u32 imb_numa_nr;
	char name[NAME_LEN];	/* empty where the kernel has none */
	u64 span[SPAN_WORDS];	/* bit n of word n / 64: the kernel's CPU n */
};

/* Where it is a member; newer kernels, 7.3 for one, keep it behind the structure. */
struct sched_domain___span {
	unsigned long span[1];
} __attribute__((preserve_access_index));

/* Weak, so that a kernel without it is told of in words and not by the loader. */
extern struct rq runqueues __ksym __weak;

char _license[] SEC("license") = "GPL";

const volatile u32 span_words;
u32 cpu;
u32 nr_domains;
struct oracle_domain chain[MAX_DOMAINS];

static long read_domain(struct oracle_domain *d, struct sched_domain *sd)
{
	u32 at = bpf_core_type_size(struct sched_domain);
	u32 len = span_words * sizeof(d->span[0]);
	const char *name;

	d->level = BPF_CORE_READ(sd, level);
	d->flags = BPF_CORE_READ(sd, flags);
	d->span_weight = BPF_CORE_READ(sd, span_weight);
	d->imb_numa_nr = BPF_CORE_READ(sd, imb_numa_nr);
	d->name[0] = '\0';
	if (bpf_core_field_exists(sd->name)) {
		name = BPF_CORE_READ(sd, name);
		if (name)
			bpf_probe_read_kernel_str(d->name, sizeof(d->name), name);
	}
	if (bpf_core_field_exists(struct sched_domain___span, span))
		at = bpf_core_field_offset(struct sched_domain___span, span);
	if (len > sizeof(d->span))
		return -1;
	return bpf_probe_read_kernel(d->span, len, (void *)sd + at);
}

SEC("syscall")
int oracle_read(void *ctx)
{
	struct sched_domain *sd;
	int result = ORACLE_TOO_MANY;
	struct rq *rq;
	u32 i;

	nr_domains = 0;
	if (!bpf_ksym_exists(&runqueues))
		return ORACLE_NO_RUNQUEUES;
	rq = bpf_per_cpu_ptr(&runqueues, cpu);
	if (!rq)
		return ORACLE_NO_CPU;

	/* Domains that are replaced meanwhile stay readable until the end of this section. */
	bpf_rcu_read_lock();
	sd = BPF_CORE_READ(rq, sd);
	bpf_for(i, 0, MAX_DOMAINS + 1) {
		if (!sd) {
			result = ORACLE_OK;
			break;
		}
		if (i >= MAX_DOMAINS)
			break;
		if (read_domain(&chain[i], sd)) {
			result = ORACLE_UNREADABLE;
			break;
		}
		nr_domains = i + 1;
		sd = BPF_CORE_READ(sd, parent);
	}
	bpf_rcu_read_unlock();
	return result;
}
