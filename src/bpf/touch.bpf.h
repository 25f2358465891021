/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Touches: what memory a task works on, told by what its registers hold when the tick interrupts it.
 *
 * A program that works on memory has its address in a register, or one nearby. Which of the values are
 * addresses of memory the daemon finds out; here only goes what cannot be one, and what is on the
 * task's stack, which is small, cached, and in nearly every register of many programs.
 *
 * Most registers hold the same at every tick: where an array begins and ends, something small that is at hand. What is
 * worked on changes, so a register counts when it holds another page than at the tick before, and two in a row
 * with one page are one touch.
 *
 * In the kernel a task's user registers are those that it came with: what it handed to a system call.
 *
 * Invariants: values are kept of the running task alone, never followed, and never leave the machine's
 * memory. Another architecture than those below has no registers here, and keeps nothing.
 */
#ifndef __BALLAST_TOUCH_BPF_H
#define __BALLAST_TOUCH_BPF_H

#define TOUCH_LOWEST	0x10000ULL	/* nothing is mapped below */
#define TOUCH_STACK	0x10000ULL	/* so near to the stack pointer it is the stack */
#define TOUCH_PAGE_SHIFT 12		/* of the smallest pages */

#if defined(__SCX_TARGET_ARCH_x86)
#define TOUCH_HIGHEST	(1ULL << 47)
#define TOUCH_SP(r)	((r)->sp)
#define TOUCH_EACH(keep, r) \
	keep((r)->ax) keep((r)->bx) keep((r)->cx) keep((r)->dx) keep((r)->si) keep((r)->di) \
	keep((r)->bp) keep((r)->r8) keep((r)->r9) keep((r)->r10) keep((r)->r11) keep((r)->r12) \
	keep((r)->r13) keep((r)->r14) keep((r)->r15)
#elif defined(__SCX_TARGET_ARCH_arm64)
#define TOUCH_HIGHEST	(1ULL << 48)
#define TOUCH_SP(r)	((r)->sp)
#define TOUCH_FIVE(keep, r, n) \
	keep((r)->regs[n]) keep((r)->regs[n + 1]) keep((r)->regs[n + 2]) keep((r)->regs[n + 3]) \
	keep((r)->regs[n + 4])
#define TOUCH_EACH(keep, r) \
	TOUCH_FIVE(keep, r, 0) TOUCH_FIVE(keep, r, 5) TOUCH_FIVE(keep, r, 10) \
	TOUCH_FIVE(keep, r, 15) TOUCH_FIVE(keep, r, 20) TOUCH_FIVE(keep, r, 25)
#endif

static void touches_clear(u32 slot)
{
	struct touch_ring *ring = bpf_map_lookup_elem(&touches, &slot);

	if (ring)
		ring->count = 0;
}

#ifdef TOUCH_EACH
static inline bool may_be_touched(u64 value, u64 sp)
{
	return value - TOUCH_LOWEST < TOUCH_HIGHEST - TOUCH_LOWEST &&
	       value - (sp - TOUCH_STACK) > 2 * TOUCH_STACK;
}

static void touches_take(struct task_struct *p, const struct task_ctx *tc)
{
	u32 slot = tc->slot;
	struct touch_ring *ring = bpf_map_lookup_elem(&touches, &slot);
	struct pt_regs *regs;
	u64 sp, count;
	u32 page = 0, i = 0;

	if (!ring)
		return;
	regs = (struct pt_regs *)bpf_task_pt_regs(p);
	sp = TOUCH_SP(regs);
	count = ring->count;
#define TOUCH_KEEP(reg) { \
		u64 value = reg; \
		u32 before = page; \
\
		if (may_be_touched(value, sp)) { \
			page = value >> TOUCH_PAGE_SHIFT; \
			if (page != before && page != ring->page[i]) \
				ring->at[count++ & (TOUCHES - 1)] = value; \
			ring->page[i] = page; \
		} \
		i++; \
	}
	TOUCH_EACH(TOUCH_KEEP, regs)
#undef TOUCH_KEEP
	ring->count = count;
}
#endif

/* The tick has interrupted @p. A kernel thread has no memory of its own, whatever it has in registers. */
static inline void touches_seen(struct task_struct *p, const struct task_ctx *tc)
{
#ifdef TOUCH_EACH
	if (touching && !(p->flags & (PF_KTHREAD | PF_EXITING)))
		touches_take(p, tc);
#endif
}

#endif
