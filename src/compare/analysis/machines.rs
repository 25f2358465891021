// SPDX-License-Identifier: GPL-2.0-only
//! Whether several machines say the same.
//!
//! The pairs of all machines have one centre, whatever the machines say: of one that is 20 % faster and
//! one that is 25 % slower it is 0, which is true of neither. So each machine is looked at by itself too.

use super::bootstrap::{self, MIN_PAIRS};
use super::contrast::Contrast;
use super::describe::median;
use super::random::Stream;

/// A machine with fewer pairs says nothing by itself: of three, all on one side are a coin's work.
const MIN_TO_DIFFER: usize = 4;

/// One machine's pairs by themselves, on the row's scale.
#[derive(Debug, Clone, PartialEq)]
pub struct OnMachine {
    pub machine: usize,
    pub pairs: usize,
    pub median: f64,
    /// As that of all pairs; none for too few.
    pub interval: Option<(f64, f64)>,
    /// The smallest and the largest contrast.
    range: (f64, f64),
}

/// Each machine by itself; nothing if there is but one.
pub fn each(
    contrasts: &[Contrast],
    resamples: usize,
    seeds: &[u64],
    names: [&str; 4],
) -> Vec<OnMachine> {
    let machines: Vec<&[Contrast]> = contrasts.chunk_by(|a, b| a.machine == b.machine).collect();
    if machines.len() < 2 {
        return Vec::new();
    }
    machines
        .into_iter()
        .map(|of| {
            let machine = of[0].machine;
            let values: Vec<f64> = of.iter().map(|contrast| contrast.value).collect();
            let median = median(&values);
            let [a, b, c, d] = names;
            let seed = seeds.get(machine).copied().unwrap_or_default();
            let mut stream = Stream::named(&[seed], &["interval", a, b, c, d]);
            let interval = bootstrap::interval(of, resamples, &mut stream);
            OnMachine {
                machine,
                pairs: values.len(),
                median,
                interval: interval.map(|(low, high)| (low.min(median), high.max(median))),
                range: (
                    values.iter().copied().fold(f64::INFINITY, f64::min),
                    values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                ),
            }
        })
        .collect()
}

impl OnMachine {
    /// Where its effect is, as far as it can tell: its interval, of a few pairs all that they reach.
    fn reach(&self) -> Option<(f64, f64)> {
        match self.pairs {
            MIN_PAIRS.. => self.interval,
            MIN_TO_DIFFER.. => Some(self.range),
            _ => None,
        }
    }

    /// Whether it excludes that the effect is `centre`.
    fn excludes(&self, centre: f64) -> bool {
        self.reach()
            .is_some_and(|(low, high)| centre < low || centre > high)
    }
}

/// The medians of machines that exclude what all of them together say.
pub fn disagreeing(machines: &[OnMachine], centre: f64) -> impl Iterator<Item = f64> {
    let disagreeing = machines.iter().filter(move |it| it.excludes(centre));
    disagreeing.map(|it| it.median)
}

/// Whether one machine shows an effect one way and another the other way, both beyond the noise.
pub fn contradict(machines: &[OnMachine], noise: f64) -> bool {
    let reaches = || machines.iter().filter_map(OnMachine::reach);
    reaches().any(|(low, _)| low > noise) && reaches().any(|(_, high)| high < -noise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(of: &[&[f64]]) -> Vec<OnMachine> {
        let contrasts: Vec<Contrast> = of
            .iter()
            .enumerate()
            .flat_map(|(machine, values)| {
                let values = values.iter();
                values.map(move |&value| Contrast { machine, value })
            })
            .collect();
        each(&contrasts, 500, &[1, 2, 3], [""; 4])
    }

    #[test]
    fn one_machine_has_nobody_to_differ_from() {
        assert!(machines(&[&[0.1; 12]]).is_empty());
    }

    #[test]
    fn opposite_effects_contradict_beyond_their_spread_and_the_noise() {
        let fast = [-0.21, -0.22, -0.2, -0.23, -0.22, -0.21];
        let slow = [0.22, 0.21, 0.24, 0.23, 0.22, 0.21];
        let both = machines(&[&fast, &slow]);
        assert!(contradict(&both, 0.0) && contradict(&both, 0.15));
        assert!(!contradict(&both, 0.21));
        assert!(!contradict(&machines(&[&fast, &fast]), 0.0));
        // Too wide for its median to mean anything.
        let unsure = [0.3, 0.2, -0.3, -0.2, 0.1, 0.0];
        assert!(!contradict(&machines(&[&fast, &unsure]), 0.0));
        // Four pairs say something if all say it, three never.
        assert!(contradict(&machines(&[&fast, &slow[..4]]), 0.0));
        assert!(!contradict(&machines(&[&fast, &slow[..3]]), 0.0));
        assert!(!contradict(
            &machines(&[&fast, &[0.2, 0.2, 0.2, -0.1]]),
            0.0
        ));
    }

    #[test]
    fn only_machines_that_exclude_the_centre_disagree() {
        let fast = [-0.21, -0.22, -0.2, -0.23, -0.22, -0.21];
        let found = machines(&[&fast, &[0.02, -0.02, 0.01, 0.0, -0.01, 0.03]]);
        assert_eq!(disagreeing(&found, 0.0).collect::<Vec<_>>(), [-0.215]);
    }
}
