// SPDX-License-Identifier: GPL-2.0-only
//! Which tasks want to go, and why the others do not.

use super::evidence::Standing;
use super::swap::{Context, MIN_BUSY};
use super::view::Stay;
use crate::policy::candidates::REST_MS;

/// A move has to win this much, in permille of the task's memory.
pub const MIN_GAIN: i32 = 60;

/// A task that wants to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    pub task: u32,
    pub unit: u32,
    pub from: u8,
    /// The most that it can win.
    pub gain: i32,
}

/// Does the task want to go, and may it be asked for that?
///
/// `from`: the node where it is. `nodes`: how many there are. `taken`: the balancer moves it.
pub(super) fn want_of(
    on: &Context<'_>,
    i: u32,
    from: usize,
    (nodes, taken): (usize, bool),
) -> Result<Want, Stay> {
    let (task, view) = on.task(i);
    match view.standing {
        Standing::Known => {}
        Standing::Unknown => return Err(Stay::Unknown),
        Standing::FirstTouch => return Err(Stay::FirstTouch),
        Standing::Few => return Err(Stay::Few),
        Standing::Stale => return Err(Stay::Stale),
        Standing::Unstable => return Err(Stay::Unstable),
        Standing::Void => return Err(Stay::Void),
    }
    let unit = on.view.units.get(view.unit as usize);
    let reachable = view.nodes & task.nodes;
    let best = (0..nodes)
        .filter(|&to| reachable >> to & 1 == 1)
        .filter_map(|to| on.view.gain(&view, from, to))
        .max();
    let stay = match best {
        _ if view.nodes == 0 => Stay::NoPreference,
        _ if view.nodes >> from & 1 == 1 => Stay::AtHome,
        _ if task.busy < MIN_BUSY => Stay::Bystander,
        None => Stay::Affinity,
        Some(gain) if gain < MIN_GAIN => Stay::TinyGain,
        _ if taken || task.moved_ms < REST_MS => Stay::Resting,
        _ if unit.is_some_and(|unit| unit.waits) => Stay::Waiting,
        Some(gain) => {
            return Ok(Want {
                task: i,
                unit: view.unit,
                from: from as u8,
                gain,
            });
        }
    };
    Err(stay)
}
