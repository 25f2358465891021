// SPDX-License-Identifier: GPL-2.0-only
//! Which tasks the balancer takes first (R8: a task is not moved off its node while another candidate
//! exists).
//!
//! The balancer decides how many tasks go from one node to another; this only says in which order it
//! takes them. Only clear differences count: within [`MIN_GAIN`] the balancer's own order stays. What
//! is not known well enough to decide by counts an eighth, so it has to be extreme to matter.

use super::decide::MIN_GAIN;
use super::evidence::Standing;
use super::view::{TaskView, View};

/// Evidence that may not decide counts one in so many.
const WEAK: i32 = 8;

/// How gladly a task goes; the balancer takes the greatest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pull {
    /// It is where it belongs, or would get farther from its memory.
    Stays,
    /// Nothing speaks for or against it.
    #[default]
    Neutral,
    /// It gets nearer to its memory.
    Goes,
    /// It gets to where it belongs.
    GoesHome,
}

/// Whether it is known that the task is better left where it is. The balancer moves such a task only when the excess has
/// lasted: most do not, and its memory would take longer to follow it.
pub fn resists(view: &View, task: &TaskView, from: usize, to: usize) -> bool {
    task.standing == Standing::Known && pull(view, task, from, to) == Pull::Stays
}

/// How gladly the task goes from one node to another.
pub fn pull(view: &View, task: &TaskView, from: usize, to: usize) -> Pull {
    let is_home = |node: usize| task.nodes >> node & 1 == 1;
    let gain = view.gain(task, from, to).unwrap_or(0);
    let gain = match task.standing {
        Standing::Known => gain,
        Standing::Void | Standing::Unknown => return Pull::Neutral,
        _ => gain / WEAK,
    };
    let known = task.standing == Standing::Known;
    match gain {
        _ if known && is_home(to) && !is_home(from) && gain >= MIN_GAIN => Pull::GoesHome,
        _ if known && is_home(from) && !is_home(to) => Pull::Stays,
        _ if gain >= MIN_GAIN => Pull::Goes,
        _ if gain <= -MIN_GAIN => Pull::Stays,
        _ => Pull::Neutral,
    }
}
