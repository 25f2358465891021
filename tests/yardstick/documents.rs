// SPDX-License-Identifier: GPL-2.0-only
//! What the documents print, as far as the simulator is held against it. Percentages are the documents' own.

/// 002, NAS mg.D on suse-2s-80, seconds: kernel, min, max, mean.
pub const MGD: &[(&str, f64, f64, f64)] = &[
    ("v5.3", 95.84, 96.55, 96.16),
    ("v5.7", 95.44, 96.51, 96.14),
    ("v5.8", 96.02, 197.08, 154.7),
    ("v5.12", 104.45, 111.03, 105.94),
    ("v5.13", 104.38, 170.37, 117.35),
    ("v5.13-revert-c6f886546cb8", 104.4, 110.7, 105.68),
    ("v5.18rc4-baseline", 104.46, 169.04, 130.49),
    ("v5.18rc4-revert-c6f886546cb8", 113.98, 117.29, 114.71),
    ("v5.18rc4-this_series", 95.24, 175.33, 108.91),
    ("v5.18rc4-this_series+revert", 95.24, 99.87, 96.54),
];

/// 002, STREAM on Zen 3, change in percent of Copy, Scale, Add, Triad; positive is better.
pub struct Stream {
    pub machine: &'static str,
    pub runs: u64,
    pub change: [f64; 4],
}

pub const STREAM: &[Stream] = &[
    Stream {
        machine: "zen3-nps1",
        runs: 10,
        change: [-2.94, -0.81, -1.11, -0.8],
    },
    Stream {
        machine: "zen3-nps1",
        runs: 100,
        change: [-4.74, -2.65, -1.75, -3.83],
    },
    Stream {
        machine: "zen3-nps2",
        runs: 10,
        change: [45.61, 10.93, 22.42, 20.57],
    },
    Stream {
        machine: "zen3-nps2",
        runs: 100,
        change: [18.94, -0.1, -0.22, -0.17],
    },
    Stream {
        machine: "zen3-nps4",
        runs: 10,
        change: [17.05, 0.99, 10.47, 9.51],
    },
    Stream {
        machine: "zen3-nps4",
        runs: 100,
        change: [0.91, 2.64, 4.06, 4.5],
    },
];

/// 001, hackbench over pipes, processes, on suse-2s-48: groups, and change in percent by counting sleepers (the second
/// patch with the first against neither); positive is better.
pub const HACKBENCH: &[(u64, f64)] = &[
    (1, -1.79),
    (4, 4.36),
    (7, 3.17),
    (12, 6.07),
    (21, 10.9),
    (30, 15.63),
    (48, 12.78),
    (79, 10.51),
    (110, 10.1),
    (141, 6.92),
    (172, 5.27),
    (192, 3.82),
];

/// 000, numa01 to numa10 on power8-8n-256, real time in seconds without and with the patch (min, max of two runs each), and
/// the change of the means in percent; positive is better.
pub struct Numa {
    pub base: (f64, f64),
    pub patched: (f64, f64),
    pub change: f64,
}

pub const NUMA: &[Numa] = &[
    Numa {
        base: (513.12, 547.37),
        patched: (485.45, 530.2),
        change: 4.41,
    },
    Numa {
        base: (68.23, 72.44),
        patched: (78.87, 82.31),
        change: -12.72,
    },
    Numa {
        base: (471.36, 485.19),
        patched: (477.2, 528.12),
        change: -4.85,
    },
    Numa {
        base: (450.35, 454.93),
        patched: (374.7, 414.76),
        change: 14.67,
    },
    Numa {
        base: (361.18, 366.32),
        patched: (369.5, 401.56),
        change: -5.65,
    },
    Numa {
        base: (81.3, 85.29),
        patched: (74.43, 79.3),
        change: 8.36,
    },
    Numa {
        base: (17.01, 18.47),
        patched: (14.32, 14.59),
        change: 22.68,
    },
    Numa {
        base: (77.89, 79.05),
        patched: (75.19, 81.25),
        change: 0.32,
    },
    Numa {
        base: (60.64, 65.37),
        patched: (64.44, 64.65),
        change: -2.39,
    },
    Numa {
        base: (56.48, 56.64),
        patched: (56.78, 57.61),
        change: -1.12,
    },
];
