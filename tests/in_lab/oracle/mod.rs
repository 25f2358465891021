// SPDX-License-Identifier: GPL-2.0-only
//! The running kernel's scheduling domains against ours.
//!
//! The kernel is right by definition. For every online CPU the whole chain is compared, as it is
//! after the kernel has removed degenerate domains: how many, of what kind, how wide, and
//! imb_numa_nr. `tests/lab/oracle` runs this on many machines, and shows the chains if asked to.

mod kernel;

use crate::guest::online;
use crate::sched::with_none;

#[test]
#[ignore = "runs in the lab"]
fn the_kernel_has_the_same_domains() {
    with_none(|| {
        for (cpu, chain) in kernel::domains(&online()) {
            println!("CPU {cpu}");
            for domain in &chain {
                println!("    kernel {domain}");
            }
        }
    });
}
