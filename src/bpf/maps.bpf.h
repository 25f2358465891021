/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every map, every constant that Rust sets before load, and how to reach them.
 *
 * Invariants: map sizes come from the machine (Rust sets max_entries); topology constants never
 * change while the scheduler is loaded, because hotplug restarts it.
 */
#ifndef __BALLAST_MAPS_BPF_H
#define __BALLAST_MAPS_BPF_H

/* Constants of this machine and these flags, set by src/kernel/load.rs. */
const volatile u32 nr_cpu_ids = 1;
const volatile u32 nr_llcs = 1;
const volatile u32 nr_nodes = 1;		/* nodes with CPUs */
const volatile bool smt_on;
const volatile bool per_node_idle;		/* SCX_OPS_BUILTIN_IDLE_PER_NODE is set */
const volatile u32 node_id[MAX_NODES];		/* dense node -> kernel's id */
const volatile u32 node_weight[MAX_NODES];	/* online CPUs */
const volatile u32 node_first_llc[MAX_NODES];
const volatile u32 node_nr_llcs[MAX_NODES];
const volatile u8 node_order[MAX_NODES][MAX_NODES]; /* itself, then nearest first */
const volatile u32 llc_node[MAX_LLCS];
const volatile u32 llc_weight[MAX_LLCS];
const volatile u32 llc_first_pos[MAX_LLCS];	/* where its CPUs begin in pos_cpu */
const volatile u16 pos_cpu[MAX_CPUS];		/* CPUs ordered by LLC */

const volatile u64 slice_ns = 5000000;
const volatile u64 slice_min_ns = 1000000;
const volatile u64 pull_delay_ns = 500000;
const volatile u64 sync_ns = 100000;
const volatile u64 newborn_epoch_ns = 125000000; /* 0: newborns are not counted */
const volatile u64 newborn_work_ns = 5000000;
const volatile u64 sweep_ns = 4000000;		/* one tick */
const volatile u32 nr_slots = 1;
const volatile bool tracing;			/* fork placements go to fork_events */
const volatile bool preferring;			/* task_slot.prefers is looked at (R8) */
const volatile bool first_touch;		/* minor faults are credited to nodes (R8) */
const volatile bool touching;			/* addresses are taken from registers (R8) */

/* Read-mostly state of an LLC, and its clock on a line of its own. */
struct llc_state {
	struct bpf_cpumask __kptr *mask;
	u64 pad0[7];
	u64 clock;		/* virtual time of the LLC's queue */
	u64 pad1[7];
	u64 swept_at;		/* last sweep for tasks that wait too long */
	u64 pad2[7];
	u64 narrow[NARROW_WORDS]; /* CPUs of this LLC whose own queue is not empty */
};

struct node_state {
	struct bpf_cpumask __kptr *mask;
	u64 pad0[7];
	u64 waiting;		/* LLCs of this node that may have waiting tasks: a hint */
	u64 pad1[7];
};

/* Scratch memory that does not fit on the BPF stack; used with interrupts off, by its CPU alone. */
struct cpu_scratch {
	struct bpf_cpumask __kptr *mask;
	struct rule_fork fork;
	struct rule_home home;
	struct rule_llcs llcs;
	struct fork_limits limits;	/* as they were, when tracing */
};

/* What only BPF needs to know of a task. */
struct task_ctx {
	u64 where;		/* counted-where word; changed by count_as() alone */
	u64 vtime;		/* relative to the clock of `dom` */
	u64 last_exec;		/* se.sum_exec_runtime up to which it was charged */
	u64 born_at;
	u64 enq_at;		/* waiting in a queue since; 0: not waiting */
	u64 sync_at;		/* first SYNC wake-up since it last slept; 0: none */
	u64 sync_lag;		/* average time from a SYNC wake-up to sleep */
	u64 nodes;		/* nodes it may use */
	u64 faults;		/* task_struct.min_flt up to which nodes were credited */
	u32 dom;		/* the queue that `vtime` belongs to */
	u32 slot;		/* NO_SLOT: unseen by the daemon */
	u32 llc;		/* where it last ran, NO_LLC: never */
	u32 queue_cpu;		/* whose CPU queue counts it; NO_CPU: none */
	u8 wide;		/* may use every online CPU */
	u8 kthread;		/* per-CPU kernel thread: excluded from counters and queues */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct task_slot);
} slots SEC(".maps");

/*
 * Minor faults of each slot's owner by the node that it ran on, since it got the slot: the word of
 * node n is slot * nr_nodes + n. One word when they are not collected.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} faults SEC(".maps");

/* By slot: addresses that its owner works on. One element when they are not collected. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct touch_ring);
} touches SEC(".maps");

/* Slots given back; slots never used yet come from `fresh_slots`. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__type(value, u32);
} free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct llc_counters);
} llc_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_ctx);
} cpu_ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct llc_state);
} llc_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_NODES);
	__type(key, u32);
	__type(value, struct node_state);
} node_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_scratch);
} cpu_scratches SEC(".maps");

/* The numbers of the rules, which the daemon may change at any time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct fork_limits);
} limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} fork_events SEC(".maps");

/* Whose turn it is to place a new task: see fork_turn_take(). On a line of its own. */
struct fork_turn {
	u64 taken;
	u64 pad[7];
} fork_turn __attribute__((aligned(64)));

u32 fresh_slots;	/* slots ever handed out for the first time */
u32 slots_used;		/* slots that belong to a task now */

static struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

static struct cpu_ctx *cpu_ctx_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_ctxs, &cpu);
}

static struct llc_counters *llc_counters_of(u32 llc)
{
	return bpf_map_lookup_elem(&llc_counts, &llc);
}

static struct llc_state *llc_state_of(u32 llc)
{
	return bpf_map_lookup_elem(&llc_states, &llc);
}

static struct node_state *node_state_of(u32 node)
{
	return bpf_map_lookup_elem(&node_states, &node);
}

static struct cpu_scratch *cpu_scratch_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_scratches, &cpu);
}

static struct fork_limits *limits_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&limits, &zero);
}

static struct task_slot *slot_of(const struct task_ctx *tc)
{
	u32 i = tc->slot;

	return i == NO_SLOT ? NULL : bpf_map_lookup_elem(&slots, &i);
}

static inline void stat_add(struct cpu_ctx *cc, u32 stat, u64 n)
{
	if (cc && stat < STAT_NR)
		cc->stat[stat] += n;
}

/*
 * Topology tables. Indices are masked, not compared: they are right anyway, and a mask is what the
 * verifier follows through every code generation.
 */
static inline u32 node_of_llc(u32 llc)
{
	return llc_node[llc & (MAX_LLCS - 1)];
}

static inline u32 weight_of_llc(u32 llc)
{
	return llc_weight[llc & (MAX_LLCS - 1)];
}

static inline u32 weight_of_node(u32 node)
{
	return node_weight[node & (MAX_NODES - 1)];
}

static inline u32 first_llc(u32 node)
{
	return node_first_llc[node & (MAX_NODES - 1)];
}

static inline u32 nr_llcs_of(u32 node)
{
	return node_nr_llcs[node & (MAX_NODES - 1)];
}

/* The @i-th nearest node to @node; the 0th is itself. */
static inline u32 nearest(u32 node, u32 i)
{
	return node_order[node & (MAX_NODES - 1)][i & (MAX_NODES - 1)];
}

static inline u64 node_bit(u32 node)
{
	return 1ULL << (node & (MAX_NODES - 1));
}

/* The @idx-th CPU of @llc. */
static inline u32 cpu_at(u32 llc, u32 idx)
{
	return pos_cpu[(llc_first_pos[llc & (MAX_LLCS - 1)] + idx) & (MAX_CPUS - 1)];
}

#endif
