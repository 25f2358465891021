/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The contract between BPF and Rust: every structure and constant that both sides see.
 *
 * Included by main.bpf.c, by bindgen (src/kernel/intf.rs) and by the host-compiled tests, so it has
 * no helper, no kernel type and no logic. Everything the daemon reads lives in mmapable arrays: a
 * tick costs it no system call per task.
 *
 * Units: times are nanoseconds of scx_bpf_now() unless a name says otherwise. Indices (llc, node)
 * are dense; the kernel's ids stay in Rust, except for CPUs, which BPF sees by kernel id.
 */
#ifndef __BALLAST_INTF_H
#define __BALLAST_INTF_H

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
#endif

/* Fixed upper limits; src/machine refuses larger machines with a clear error. */
enum ballast_limits {
	MAX_CPUS = 4096,	/* kernel CPU ids */
	MAX_NODES = 64,		/* node sets are one u64 */
	MAX_LLCS = 1024,
	MAX_LLCS_PER_NODE = 64,
	MAX_CPUS_PER_LLC = 512,
	NARROW_WORDS = MAX_CPUS_PER_LLC / 64,
	NEWBORN_BUCKETS = 8,	/* a newborn's age is known to an eighth of --newborn-ms */
	NO_SLOT = 0xffffffff,
	NO_LLC = 0xffff,
	NO_CPU = 0xffffffff,
	TOUCHES = 64,		/* addresses that are kept of a task; a power of two */
	TOUCH_REGISTERS = 30,	/* in which they are looked for, at most */
	CLEARLY_PERCENT = 12,	/* a node without spare that is so much busier is clearly busier */
};

/*
 * The counted-where word: in which counter a task is counted right now. It changes only in
 * count_as() (count.bpf.h), together with the counters, so that neither can leak.
 *
 *   bits 0-7    enum where_state
 *   bits 8-31   LLC
 *   bits 32-63  birth epoch, for WHERE_NEWBORN only
 */
enum where_state {
	WHERE_NONE = 0,		/* in no counter */
	WHERE_RUNNING = 1,	/* runs or waits */
	WHERE_NEWBORN = 2,	/* asleep, but forked lately and about to run (R6) */
};

/* What fork placement looks at to keep a task local; policy::placement::Judge. */
enum fork_judge {
	JUDGE_AFTER = 0,	/* the state with the task is tolerated against every allowed node */
	JUDGE_BEFORE = 1,	/* the kernel generations: difference in spare before, count after */
};

/* Why a new task went where it went; policy::placement::ForkWhy. */
enum fork_why {
	FORK_LEAST = 0,		/* no other node would carry less with it */
	FORK_TOLERATED = 1,	/* one would, but the limit tolerates the task on its parent's */
	FORK_FULL_LOCAL = 2,	/* nobody has spare; the parent's node is not clearly busier */
	FORK_FULL = 3,		/* nobody has spare: the least utilised */
};

/* What the preference of its process had to do with that; policy::locality::fork::HomeWhy. */
enum home_why {
	HOME_NO_PREFERENCE = 0,	/* there is none, or the task may not run there */
	HOME_PREFERRED = 1,	/* it goes where its process belongs */
	HOME_NOT_TOLERATED = 2,	/* the limits do not tolerate it there */
};

/*
 * The numbers of fork placement and of SYNC wake-ups across nodes. Rust computes them and may write
 * them at any time; every field is read whole, and any mixture of old and new is a valid limit.
 */
struct fork_limits {
	u32 judge;		/* enum fork_judge */
	u32 max_imbalance;	/* tasks; ~0: not looked at */
	u32 cap_by_affinity;	/* the CPUs that the task may use cap max_running (R2) */
	u32 pad;
	u32 max_running[MAX_NODES];	/* tasks with the new one */
	u32 task_weight[MAX_NODES];	/* average p->scx.weight of the tasks that run there */
};

/* What happened, counted per CPU without atomics and summed by the daemon. */
enum ballast_stat {
	STAT_FORK_LOCAL,	/* fork placed on the parent's node */
	STAT_FORK_REMOTE,	/* fork placed on another node */
	STAT_IDLE_PREV,		/* dispatched to the idle previous CPU */
	STAT_IDLE_LLC,		/* ... to an idle CPU of the same LLC */
	STAT_IDLE_NODE,		/* ... of the same node */
	STAT_IDLE_REMOTE,	/* ... of another node (own node had no spare) */
	STAT_SYNC,		/* left behind a waker that is about to sleep */
	STAT_QUEUE_LLC,		/* put in an LLC queue */
	STAT_QUEUE_CPU,		/* put in a CPU queue: narrow affinity */
	STAT_KTHREAD,		/* per-CPU kernel thread, ahead of all queues */
	STAT_KEEP,		/* a task whose slice ended went on */
	STAT_PULL_LLC,		/* an idle CPU took a narrow task of its own LLC */
	STAT_PULL_NODE,		/* ... a task of another LLC in its node */
	STAT_PULL_REMOTE,	/* ... a task of another node */
	STAT_MOVE,		/* a wanted home was carried out */
	STAT_NODE_MIGRATION,	/* a task ran on another node than the time before */
	STAT_LLC_MIGRATION,	/* ... in another LLC of the same node */
	STAT_KICK,		/* an idle CPU woken for a task that had waited too long */
	STAT_WASTED_NS,		/* sampled: a task waited while a CPU it may use was idle */
	STAT_WAIT_NS,		/* time spent in queues */
	STAT_WAITS,		/* how many waits that were */
	STAT_UNSEEN,		/* tasks for which no slot was left */
	STAT_FORK_TOLERATED,	/* fork placed locally although another node had less (R1, R2) */
	STAT_FORK_FULL,		/* fork placed while no allowed node had spare */
	STAT_TRACE_LOST,	/* fork placements that did not fit into the trace buffer */
	STAT_FORK_PREFERRED,	/* new thread placed where its process belongs (R8) */
	STAT_IDLE_PREFERRED,	/* dispatched to an idle CPU of a node where the task belongs (R8) */
	STAT_NR,
};

/*
 * One task, as the daemon sees it. BPF writes all fields but the last two. Each field is
 * written whole; a task's identity is stable while `seq` is even and unchanged.
 */
struct task_slot {
	u32 seq;		/* odd while the slot is free or changing hands */
	s32 pid;		/* thread id */
	s32 tgid;
	u32 home;		/* LLC chosen at fork or by a move; NO_LLC: none yet */
	u64 where;		/* counted-where word */
	u64 nodes;		/* nodes with at least one CPU the task may use */
	u64 runtime_ns;		/* CPU time since the slot was given */
	u64 born_at;		/* 0: existed before the scheduler */
	u64 moved_at;		/* when a wanted home was last carried out */
	u32 llc;		/* where it last ran */
	u32 weight;		/* p->scx.weight: 100 is nice 0 */
	/*
	 * Wanted home, written by the daemon: seq << 32 | LLC + 1; 0 is no wish. A wish that names
	 * an old seq is for the slot's former owner and is ignored.
	 */
	u64 wanted;
	/*
	 * Nodes where the task belongs (R8), one bit each, written by the daemon, and once by BPF: a
	 * new thread gets its parent's. 0: nowhere in particular. A hint: it may be a former owner's
	 * for a moment.
	 */
	u64 prefers;
};

/*
 * What may be addresses of memory that the slot's owner works on, the last ones: the n-th is in
 * at[n % TOUCHES]. One that is read while it is overwritten is another address, which is no worse.
 */
struct touch_ring {
	u64 count;		/* since the slot was given */
	u64 at[TOUCHES];
	u32 page[TOUCH_REGISTERS];	/* that each register held last, the lower bits of its number */
};

/* Counters of one LLC: two cache lines that only this LLC's tasks write. */
struct llc_counters {
	s64 running;		/* tasks that run or wait, per-CPU kthreads excluded */
	/*
	 * Sum of entry times minus sum of exit times, so that the integral of `running` up to T is
	 * running * T - stamp. Two plain additions per event; no read-modify-write of a timestamp.
	 */
	u64 stamp;
	u64 waiting;		/* tasks in its queue when the observe program last ran */
	u64 pad[5];
	/* Sleeping newborns by birth epoch: epoch << 32 | count. An old epoch reads as 0. */
	u64 newborn[NEWBORN_BUCKETS];
};

/*
 * A fork placement with all that it was decided by, for --trace. Arrays are valid up to the
 * machine's nodes, and up to the LLCs of the chosen node.
 */
struct fork_event {
	u64 at;
	u64 allowed;		/* nodes that the task may use */
	u64 allowed_llcs;	/* LLCs of the chosen node that it may use, relative to the first */
	u64 prefers;		/* nodes where its process belongs; 0: ->usable_on means nothing */
	s32 pid;
	u32 local;		/* node of the parent */
	u32 first;		/* LLC that wins ties, relative to the chosen node's first */
	u32 usable;		/* CPUs of the parent's node that it may use */
	u32 node;		/* the choice */
	u32 why;		/* enum fork_why */
	u32 llc;		/* the choice, dense */
	u32 home;		/* enum home_why */
	s32 parent;		/* the thread that forked it */
	u32 pad;
	u32 committed[MAX_NODES];
	u32 task_weight[MAX_NODES];
	u32 usable_on[MAX_NODES];	/* CPUs of each node that it may use */
	u32 llc_committed[MAX_LLCS_PER_NODE];
};

/*
 * The end of a task, for --trace. In the same buffer; the daemon tells the two by their sizes.
 */
struct exit_event {
	u64 at;
	u64 runtime_ns;		/* CPU time of its life */
	u64 sleeps;		/* times that it went to sleep: voluntary switches */
	s32 pid;
	u32 pad;
};

/* One CPU, by kernel id. The first line is written by Rust before the scheduler is attached. */
struct cpu_ctx {
	u32 llc;		/* dense LLC, NO_LLC: offline or unknown */
	u32 node;		/* dense node */
	u32 idx;		/* position in its LLC */
	u32 pad0;
	u64 pad1[6];

	u64 clock;		/* virtual time of this CPU's queue */
	u64 served[2];		/* virtual service given to the LLC queue [0] and the CPU queue [1] */
	u32 queued;		/* tasks waiting in this CPU's queue; any CPU may change it */
	u32 pad2;
	u64 pad3[4];

	u64 stat[STAT_NR];
	u64 pad4[7];
};

/* Argument of the observe program, which brings llc_counters.waiting up to date. */
struct observe_arg {
	u64 now;		/* BPF's clock */
	u32 self_llc;		/* where the caller is counted as running; NO_LLC: nowhere */
	u32 pad;
};

#endif
