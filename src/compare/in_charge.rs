// SPDX-License-Identifier: GPL-2.0-only
//! Who schedules, read from /sys/kernel/sched_ext.
//!
//! A kernel without that folder has no sched_ext, so EEVDF (or its elder) schedules: the state is then
//! [`ABSENT`], which counts like `disabled`.

use super::record::{Fact, InCharge};
use super::roots::{Roots, convert};

const SCHED_EXT: &str = "sys/kernel/sched_ext";

/// The state where there is no sched_ext in the kernel.
pub const ABSENT: &str = "absent";

/// Who schedules now.
pub fn look(roots: &Roots) -> InCharge {
    let file = |name: &str| roots.read(format!("{SCHED_EXT}/{name}"));
    let text = |fact: Fact<String>| fact.known().cloned();
    let state = match roots.path(SCHED_EXT).exists() {
        true => text(file("state")).unwrap_or_else(|| "unreadable".into()),
        false => ABSENT.into(),
    };
    InCharge {
        state,
        ops: text(file("root/ops")).unwrap_or_default(),
        enable_seq: convert(file("enable_seq"), "enable_seq is not a number", |seq| {
            seq.parse().ok()
        }),
        bypasses: convert(
            file("root/events"),
            "the kernel does not count SCX_EV_BYPASS_ACTIVATE",
            |events| event(events, "SCX_EV_BYPASS_ACTIVATE"),
        ),
    }
}

/// The number behind a name in a file of `NAME NUMBER` lines.
fn event(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(char::is_whitespace)?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

impl InCharge {
    /// No sched_ext scheduler, and none that comes or goes.
    pub fn is_eevdf(&self) -> bool {
        self.state == "disabled" || self.state == ABSENT
    }

    /// A sched_ext scheduler that has a name.
    pub fn is_scheduler(&self) -> bool {
        self.state == "enabled" && !self.ops.is_empty()
    }

    /// What distinguishes `self`, seen before, from `now`, for a person.
    pub fn change(&self, now: &InCharge) -> Option<String> {
        let differences = [
            ("state", self.state.clone(), now.state.clone()),
            ("scheduler", self.ops.clone(), now.ops.clone()),
            (
                "enable_seq",
                shown(&self.enable_seq),
                shown(&now.enable_seq),
            ),
            ("bypass events", shown(&self.bypasses), shown(&now.bypasses)),
        ];
        let changed = differences.into_iter().filter(|(_, was, is)| was != is);
        let texts: Vec<String> = changed
            .map(|(what, was, is)| format!("{what} '{was}' became '{is}'"))
            .collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

fn shown(fact: &Fact<u64>) -> String {
    match fact {
        Fact::Known(number) => number.to_string(),
        Fact::NotAvailable(_) => "not available".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(SCHED_EXT).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let roots = Roots::below(dir.path());
        (dir, roots)
    }

    #[test]
    fn a_kernel_without_sched_ext_runs_eevdf() {
        let (_dir, roots) = tree(&[]);
        let found = look(&roots);
        assert!(found.is_eevdf() && !found.is_scheduler());
        assert_eq!(found.state, ABSENT);
        assert!(found.enable_seq.known().is_none() && found.bypasses.known().is_none());
    }

    #[test]
    fn a_scheduler_has_a_name_and_counts() {
        let (_dir, roots) = tree(&[
            ("state", "enabled\n"),
            ("enable_seq", "7\n"),
            ("root/ops", "rusty_1.1.4\n"),
            ("root/events", "SCX_EV_OTHER 9\nSCX_EV_BYPASS_ACTIVATE 2\n"),
        ]);
        let found = look(&roots);
        assert!(found.is_scheduler() && !found.is_eevdf());
        assert_eq!(found.enable_seq, Fact::Known(7));
        assert_eq!(found.bypasses, Fact::Known(2));
        assert_eq!(found.change(&found), None);
        let other = InCharge {
            bypasses: Fact::Known(3),
            ..found.clone()
        };
        let text = found.change(&other).unwrap();
        assert_eq!(text, "bypass events '2' became '3'");
    }

    #[test]
    fn on_its_way_is_neither() {
        let (_dir, roots) = tree(&[("state", "enabling\n"), ("enable_seq", "x\n")]);
        let found = look(&roots);
        assert!(!found.is_scheduler() && !found.is_eevdf());
        assert!(found.enable_seq.known().is_none());
    }
}
