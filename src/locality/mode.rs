// SPDX-License-Identifier: GPL-2.0-only
//! What `--locality` comes to on this machine, and why.

use anyhow::{Result, bail};

use crate::cli::LocalityMode;

/// Where knowledge of memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Faults alone: they order the balancer's candidates, and decide nothing.
    FirstTouch,
    /// Looks at pages, with faults as a prior.
    Sampled,
}

impl Mode {
    /// As the flag spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstTouch => "first-touch",
            Self::Sampled => "sampled",
        }
    }
}

/// What the mode is chosen by.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    pub asked: LocalityMode,
    /// Nodes with CPUs.
    pub nodes: usize,
    /// There are ticks (`--balance-interval-ms`).
    pub ticks: bool,
}

/// What was chosen; without a mode nothing is done.
#[derive(Debug)]
pub struct Chosen<T> {
    pub mode: Option<Mode>,
    /// One sentence.
    pub why: String,
    /// What looks at memory; there with [`Mode::Sampled`].
    pub looks: Option<T>,
}

fn chosen<T>(mode: Option<Mode>, why: impl Into<String>) -> Result<Chosen<T>> {
    Ok(Chosen {
        mode,
        why: why.into(),
        looks: None,
    })
}

/// Choose; `start` starts what looks at memory.
///
/// # Errors
/// `sampled` was asked for by name, and cannot be had.
pub fn choose<T>(given: Given, start: impl FnOnce() -> Result<T>) -> Result<Chosen<T>> {
    match given.asked {
        LocalityMode::Off => return chosen(None, "as asked for"),
        _ if given.nodes < 2 => return chosen(None, "there is one node with CPUs"),
        _ if !given.ticks => return chosen(None, "there are no ticks (--balance-interval-ms 0)"),
        LocalityMode::FirstTouch => {
            let why = "faults order the balancer's candidates, nobody is moved by them";
            return chosen(Some(Mode::FirstTouch), why);
        }
        LocalityMode::Auto | LocalityMode::Sampled => {}
    }
    match (start(), given.asked) {
        (Ok(looks), _) => Ok(Chosen {
            mode: Some(Mode::Sampled),
            why: "the kernel is asked where pages are".into(),
            looks: Some(looks),
        }),
        (Err(err), LocalityMode::Sampled) => bail!("--locality sampled: {err:#}"),
        (Err(err), _) => chosen(
            Some(Mode::FirstTouch),
            format!("memory cannot be looked at ({err:#}), nobody is moved for it"),
        ),
    }
}

/// CAP_SYS_PTRACE, without which only processes of the same user can be looked at.
const CAP_SYS_PTRACE: u32 = 19;

/// Does `status`, a text of /proc/PID/status, have the right to look at processes of all users?
pub fn may_look_at_all(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let caps = line.and_then(|caps| u64::from_str_radix(caps.trim(), 16).ok());
    caps.is_some_and(|caps| caps >> CAP_SYS_PTRACE & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(
        asked: LocalityMode,
        nodes: usize,
        ticks: bool,
        works: bool,
    ) -> Result<Option<Mode>> {
        let given = Given {
            asked,
            nodes,
            ticks,
        };
        let chosen = choose(given, || match works {
            true => Ok(()),
            false => bail!("no such system call"),
        })?;
        assert_eq!(chosen.looks.is_some(), chosen.mode == Some(Mode::Sampled));
        assert!(!chosen.why.is_empty());
        Ok(chosen.mode)
    }

    #[test]
    fn the_most_that_the_machine_offers() {
        use LocalityMode::{Auto, FirstTouch, Off, Sampled};
        let (first, sampled) = (Some(Mode::FirstTouch), Some(Mode::Sampled));
        assert_eq!(mode_of(Auto, 2, true, true).unwrap(), sampled);
        assert_eq!(mode_of(Auto, 2, true, false).unwrap(), first);
        assert_eq!(mode_of(Auto, 1, true, true).unwrap(), None);
        assert_eq!(mode_of(Auto, 2, false, true).unwrap(), None);
        assert_eq!(mode_of(Off, 2, true, true).unwrap(), None);
        assert_eq!(mode_of(FirstTouch, 2, true, true).unwrap(), first);
        assert_eq!(mode_of(FirstTouch, 1, true, true).unwrap(), None);
        assert_eq!(mode_of(Sampled, 8, true, true).unwrap(), sampled);
        assert_eq!(mode_of(Sampled, 1, true, false).unwrap(), None);
        let refused = mode_of(Sampled, 2, true, false).unwrap_err().to_string();
        assert!(refused.contains("no such system call"), "{refused}");
    }

    #[test]
    fn the_right_to_look_is_read_from_the_effective_set() {
        let status = |set: &str| format!("CapPrm:\t000001ffffffffff\nCapEff:\t{set}\n");
        assert!(may_look_at_all(&status("000001ffffffffff")));
        assert!(may_look_at_all(&status("0000000000080000")));
        assert!(!may_look_at_all(&status("000001fffff7ffff")));
        assert!(!may_look_at_all("Name:\tx\n"));
    }
}
