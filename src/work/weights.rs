// SPDX-License-Identifier: GPL-2.0-only
//! What nice values stand for: the kernel's weights, and the shares that follow from them.

/// Weight of each nice value, -20 first: `sched_prio_to_weight` of the kernel. A step of nice is a
/// factor of about 1.25, and nice 0 is 1024.
const NICE_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// The kernel's weight of a nice value, 15 to 88761; beyond -20 and 19 that of the nearest one.
pub fn weight_of(nice: i32) -> u32 {
    NICE_TO_WEIGHT[(nice.clamp(-20, 19) + 20) as usize]
}

/// Shares in percent that always-running tasks of these weights get of `cpus` CPUs together.
///
/// In proportion to the weights, except that no task gets more than one CPU: one whose share would
/// be more gets a whole CPU, and the others share the rest. With no more tasks than CPUs all get the
/// same. `weights` and `cpus` are at least 1; of no tasks there are no shares.
pub fn expected_shares(weights: &[u32], cpus: usize) -> Vec<f64> {
    let mut by_weight: Vec<usize> = (0..weights.len()).collect();
    by_weight.sort_by_key(|&task| std::cmp::Reverse(weights[task]));
    let mut rest: f64 = weights.iter().copied().map(f64::from).sum();
    let mut free = cpus.min(weights.len()) as f64;
    let mut times = vec![0.0; weights.len()];
    for task in by_weight {
        // What is left is shared by this task and lighter ones.
        let weight = f64::from(weights[task]);
        times[task] = (free * weight / rest).min(1.0);
        free -= times[task];
        rest -= weight;
    }
    shares(&times)
}

/// Each value's share of the sum in percent; zeros if the sum is zero.
pub fn shares(values: &[f64]) -> Vec<f64> {
    let sum: f64 = values.iter().sum();
    let share = |value: &f64| if sum > 0.0 { 100.0 * value / sum } else { 0.0 };
    values.iter().map(share).collect()
}

/// The largest relative deviation of a share from what was expected (above 0), in percent.
pub fn largest_error(shares: &[f64], expected: &[f64]) -> f64 {
    let errors = shares.iter().zip(expected);
    errors
        .map(|(share, expected)| 100.0 * (share - expected).abs() / expected)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(shares: &[f64], wanted: &[f64]) {
        assert_eq!(shares.len(), wanted.len());
        for (share, wanted) in shares.iter().zip(wanted) {
            assert!((share - wanted).abs() < 0.01, "{shares:?}");
        }
    }

    #[test]
    fn the_table_is_the_kernel_s() {
        assert_eq!(weight_of(0), 1024);
        assert_eq!(weight_of(-20), 88761);
        assert_eq!(weight_of(5), 335);
        assert_eq!(weight_of(19), 15);
        assert_eq!(weight_of(40), 15);
        for step in NICE_TO_WEIGHT.windows(2) {
            let ratio = f64::from(step[0]) / f64::from(step[1]);
            assert!((1.15..1.35).contains(&ratio), "{step:?}");
        }
    }

    #[test]
    fn one_cpu_is_shared_by_weight() {
        close(&expected_shares(&[1024, 335], 1), &[75.35, 24.65]);
        close(&expected_shares(&[1, 1, 2], 1), &[25.0, 25.0, 50.0]);
    }

    #[test]
    fn no_task_gets_more_than_a_cpu() {
        close(&expected_shares(&[1024, 15], 2), &[50.0, 50.0]);
        close(&expected_shares(&[1024, 15], 8), &[50.0, 50.0]);
        // The heavy one fills a CPU, the light ones share the other.
        close(&expected_shares(&[10, 10000, 30], 2), &[12.5, 50.0, 37.5]);
        assert!(expected_shares(&[], 1).is_empty());
    }

    #[test]
    fn errors_are_relative() {
        close(&shares(&[3.0, 1.0]), &[75.0, 25.0]);
        close(&shares(&[0.0, 0.0]), &[0.0, 0.0]);
        close(&[largest_error(&[60.0, 40.0], &[50.0, 50.0])], &[20.0]);
        close(&[largest_error(&[95.0, 5.0], &[90.0, 10.0])], &[50.0]);
    }
}
