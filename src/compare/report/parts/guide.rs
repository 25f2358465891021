// SPDX-License-Identifier: GPL-2.0-only
//! What each number means, for readers who were not there. Kept in step with docs/benchmarking.md.

/// A term and its meaning.
pub const TERMS: [(&str, &str); 17] = [
    (
        "Run",
        "One attach of a scheduler and one execution of a benchmark. The run is the unit of everything here: \
         what a benchmark repeats inside a run is not independent, and counts once.",
    ),
    (
        "Block",
        "A round in which every arm runs every benchmark once, in an order drawn from the recorded seed. Slow \
         changes of the machine meet all arms of a block alike, so arms are compared within blocks.",
    ),
    (
        "Amean, Hmean",
        "The arithmetic mean of the runs for times, the harmonic mean for rates. They describe an arm; the \
         comparison does not rest on them.",
    ),
    (
        "Change",
        "In each block, the arm's value is divided by the base's. The change is the median of these ratios, in %, \
         turned so that positive is better: (old - new) / old for times, (new - old) / old for rates. It is not \
         the quotient of the two means and can differ from it.",
    ),
    (
        "95% interval",
        "From resampling the paired log-ratios (bootstrap). Intervals made this way contain the true change in \
         about 95 of 100 comparisons. It reaches to the change on every machine that contradicts the common one. An interval that contains 0 leaves open whether there is a change at all.",
    ),
    (
        "p",
        "Two-sided paired permutation test: how often a difference this large would arise if the labels of the arms \
         meant nothing. With n blocks it cannot go below 2 / 2^n: 0.13 for 4, 0.03 for 6, 0.0005 for 12.",
    ),
    (
        "p (Holm)",
        "The same, corrected for there being several primary metrics, each of which is a chance to be wrong.",
    ),
    (
        "Primary",
        "At most 5 metrics of a suite, declared before anything was measured. They alone are judged. Secondary \
         metrics are reported for curiosity: among many of them some always look good or bad by chance.",
    ),
    (
        "Better, worse (*)",
        "Said of a primary metric only, when the corrected test and the interval agree, and the interval excludes 0 \
         by more than the noise that an A/A arm showed, if there was one.",
    ),
    (
        "Undecided",
        "No difference was shown. That is not the same as equal: the interval says how large a change may still be.",
    ),
    (
        "Within noise",
        "A difference was shown beyond chance, but its interval is not beyond the noise: two copies of one arm differed \
         here by as much. It is counted as undecided. The noise is that of the A/A arm, as a change of the same sign.",
    ),
    (
        "Machines differ",
        "One machine shows the arm to be better and another to be worse, each beyond its own spread and the noise. \
         There is no common change then, and no verdict: see each machine by itself.",
    ),
    (
        "Too few",
        "So few blocks that chance could not be excluded whatever the values were.",
    ),
    (
        "A/A",
        "An arm that is a copy of another. What the two differ by is the noise of this machine at that time.",
    ),
    (
        "Outlier",
        "A value beyond Tukey's fences (1.5 interquartile ranges beyond the quartiles) of its arm and machine. \
         Outliers are marked (! in the table of results) and never dropped.",
    ),
    (
        "Gmean",
        "Geometric mean of a suite's ratios over its primary metrics (over all, if none is primary); above 1 is \
         better. In % it is the same mean as a change, defined as above: 1.41 is 41% more of a rate, 29% less time; a suite with \
         both kinds has only the factor. A summary, not a test.",
    ),
    (
        "Not available",
        "The machine did not offer it. It is never counted as 0; where only some runs had it, their number is given.",
    ),
];

/// What to keep in mind besides the terms.
pub const CAUTIONS: [&str; 3] = [
    "A run counts only if the same scheduler was in charge from before it until after it. Runs that do not count are \
     repeated, and stay in the results file with the reason.",
    "Several machines are never pooled: a block is paired with itself, on its own machine.",
    "The kernel's numa_pte_updates, numa_hint_faults and numa_pages_migrated come from the fair class; under \
     sched_ext they are near 0 and say nothing.",
];

/// All of it, a line for each.
pub fn plain() -> Vec<String> {
    let terms = TERMS
        .iter()
        .map(|(term, meaning)| format!("{term}: {meaning}"));
    terms
        .chain(CAUTIONS.iter().map(|it| (*it).to_owned()))
        .collect()
}
