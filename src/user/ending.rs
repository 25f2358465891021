// SPDX-License-Identifier: GPL-2.0-only
//! Why the kernel has ended the scheduler, in words for who runs it.

/// By what the kernel says, what that means here, and what to do.
const KNOWN: [(&str, &str); 2] = [
    (
        "stall",
        "a task has waited for longer than the kernel's watchdog allows, mostly because this program had no CPU for so long: \
         it was stopped, or the machine or the host of this virtual machine had too much to do. Start it again; under \
         such a load take the kernel dispatcher (without --dispatcher user), which needs no program to place tasks",
    ),
    (
        "dispatch buffer underflow",
        "scx_rustland_core's BPF part has taken back a placement that the kernel had ignored, which this program never \
         lets it do on purpose: that is a bug. Start it again, or take the kernel dispatcher (without --dispatcher user)",
    ),
];

/// What to add to the kernel's `reason`, as scx_utils reports it.
pub fn explain(reason: &str) -> Option<&'static str> {
    let mut known = KNOWN.iter();
    known
        .find(|(words, _)| reason.contains(words))
        .map(|&(_, meaning)| meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's words of 6.12 and 7.3.
    #[test]
    fn the_next_step_is_named() {
        let stall = "EXIT: runnable task stall (bash[71] failed to run for 5.632s) on CPU 2";
        let stall = explain(stall).unwrap();
        assert!(stall.contains("no CPU for so long"), "{stall}");
        let underflow = "EXIT: runtime error (dispatch buffer underflow)";
        let underflow = explain(underflow).unwrap();
        assert!(underflow.contains("a bug"), "{underflow}");
        for said in [stall, underflow] {
            assert!(said.contains("Start it again") && said.contains("kernel dispatcher"));
        }
        assert_eq!(explain("EXIT: unregistered from user space"), None);
    }
}
