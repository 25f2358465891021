#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Computes the statistics of `scx_ballast compare` again, from the raw results files.

    check.py --analysis ANALYSIS.json [--resamples N] RESULTS.jsonl...

Written from docs/statistics.md with numpy and scipy, sharing nothing with the Rust code. Means, medians,
deviations, ratios, geometric means, p (from all ways to swap, up to 16 pairs) and Holm's correction have to
agree to 9 digits; p of more pairs is drawn and has to agree within 5 standard errors. The ends of a bootstrap interval are estimates on both sides: the share of the resamples
beyond an end has to be right within 5 standard errors of both. With --digits 3 the ends themselves have to agree
to 3 digits, for which the analysis needs --resamples 200000.
Prints one line, exits 0 if all agrees, 1 if not, 77 if numpy or scipy is missing.
"""

import argparse
import json
import sys
from collections import defaultdict

try:
    import numpy as np
    from scipy import stats
except ImportError as error:
    print(f"skipped: {error}; Debian has python3-numpy and python3-scipy")
    sys.exit(77)

EXACT = 1e-9  # relative; what two ways of rounding may differ by
worst = defaultdict(float)
failures = []


def agree(what, found, expected, tolerance=EXACT, kind="exact"):
    if found is None or expected is None:
        if found is not expected:
            failures.append(f"{what}: {found} here {expected}")
        return
    off = abs(found - expected) / max(abs(expected), 1e-300) if expected else abs(found)
    worst[kind] = max(worst[kind], off)
    if not off <= tolerance:
        failures.append(f"{what}: {found}, here {expected}, off by {off:.2g}")


def load(path):
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return records[0], [record for record in records if record["record"] == "run"]


def values_of(files, benchmark, metric):
    """arm label -> {(machine, block): value}"""
    found = defaultdict(dict)
    for machine, (plan, runs) in enumerate(files):
        for run in runs:
            if plan["benchmarks"][run["benchmark"]]["name"] == benchmark and metric in run["values"]:
                arm = plan["arms"][run["arm"]]["label"]
                found[arm][machine, run["block"]] = run["values"][metric]
    return found


def paired(arm, base, log):
    keys = sorted(set(arm) & set(base))
    a, b = (np.array([side[key] for key in keys]) for side in (arm, base))
    return np.array([key[0] for key in keys]), np.log(a / b) if log else a - b


def permutation_p(contrasts):
    if len(contrasts) > 16:
        return None
    slack = 1e-9 * np.abs(contrasts).sum()
    statistic = lambda x, axis=-1: np.where(
        np.abs(x.sum(axis=axis)) >= abs(contrasts.sum()) - slack, 1.0, 0.0)
    # Every way to swap is looked at: the share of those that reach what was observed.
    result = stats.permutation_test((contrasts,), statistic, permutation_type="samples", vectorized=True,
                                    n_resamples=np.inf)
    return float(result.null_distribution.mean())


def check_drawn_p(where, found, contrasts, rng):
    """Beyond 16 pairs p is an estimate of 65535 draws on both sides."""
    draws = 65535
    signs = rng.choice([-1.0, 1.0], size=(draws, len(contrasts)))
    slack = 1e-9 * np.abs(contrasts).sum()
    reached = 1 + np.count_nonzero(np.abs(signs @ contrasts) >= abs(contrasts.sum()) - slack)
    p = reached / (draws + 1)
    allowed = 5 * np.sqrt(2 * max(p, 5 / draws) / draws)
    if not abs(found - p) <= allowed:
        failures.append(f"{where}: {found}, here {p}, not within {allowed:.2g}")


def centres(samples):
    i, j = np.triu_indices(samples.shape[1])
    return np.median((samples[:, i] + samples[:, j]) / 2, axis=1)


def disagreeing(machines, contrasts, effect, log):
    """Medians of the machines that exclude the common median: by their interval as the analysis has it, which is
    checked by itself, with 4 or 5 pairs by their range."""
    found, centre = [], np.median(contrasts)
    for part in effect.get("machines", []):
        own = contrasts[machines == part["machine"]]
        if len(own) < 4:
            continue
        reach = np.array(part["interval"]) if len(own) >= 6 else None
        low, high = (own.min(), own.max()) if reach is None else np.log(reach) if log else reach
        if not low <= centre <= high:
            found.append(np.median(own))
    return found


def farthest(machines, contrasts, effect, log):
    return max(abs(end) for end in [np.median(contrasts), *disagreeing(machines, contrasts, effect, log)])


def check_machine(where, part, contrasts, log, sign, options, rng):
    back = np.exp if log else lambda x: x
    centre = back(np.median(contrasts))
    agree(f"{where} pairs", part["pairs"], len(contrasts))
    agree(f"{where} centre", part["centre"], centre)
    agree(f"{where} change", part.get("change"), 100 * sign * (centre - 1) if log else None, 1e-6)
    ends = interval(np.zeros(len(contrasts)), contrasts, options, rng)
    if ends is None:
        agree(f"{where} interval", part["interval"], None)
        return
    for found, (end, low, high) in zip(part["interval"], ends):
        check_end(f"{where} interval", found, *back(np.array([end, low, high])), options.digits)


def interval(machines, contrasts, options, rng, reached=()):
    """For each end: the estimate here, and what the analysis may have found with its fewer resamples."""
    n = len(contrasts)
    if n < 6:
        return None
    strata = [np.flatnonzero(machines == m) for m in np.unique(machines)]
    freedom = n - len(strata)
    tail = stats.norm.cdf(-stats.t.ppf(0.975, freedom) * np.sqrt(n / freedom))
    found = []
    for begin in range(0, options.own, 20000):
        count = min(20000, options.own - begin)
        drawn = [rng.choice(contrasts[s], size=(count, len(s))) for s in strata]
        found.append(centres(np.concatenate(drawn, axis=1)))
    found = np.concatenate(found)
    # The share below an end is binomial on both sides. The centres are few distinct numbers, so that an
    # error of the end itself has no simple form, but that of the share has.
    slack = 5 * np.sqrt(tail * (1 - tail) * (1 / options.own + 1 / options.resamples))
    middle = np.median(contrasts)
    ends = []
    for share, wider in ((tail, min), (1 - tail, max)):
        shares = np.clip([share, share - slack, share + slack], 0, 1)
        ends.append([wider(end, middle, *reached) for end in np.quantile(found, shares)])
    return ends


def holm(ps):
    corrected, floor = [None] * len(ps), 0.0
    for rank, index in enumerate(np.argsort(ps, kind="stable")):
        floor = max(floor, min(1.0, ps[index] * (len(ps) - rank)))
        corrected[index] = floor
    return corrected


def check_end(where, found, end, low, high, digits):
    off = abs(found - end) / max(abs(end), 1e-300)
    worst["interval"] = max(worst["interval"], off)
    rounding = EXACT * abs(end)
    if not low - rounding <= found <= high + rounding:
        failures.append(f"{where}: {found}, here {end}, at most from {low} to {high}")
    elif digits and not off <= 0.5 * 10.0**-digits:
        failures.append(f"{where}: {found}, here {end}, not the same to {digits} digits")


def check_arm(where, summary, points, harmonic):
    values = np.array([points[key] for key in sorted(points)])
    machines = np.array([key[0] for key in sorted(points)])
    agree(f"{where} mean", summary["mean"], stats.hmean(values) if harmonic else values.mean())
    agree(f"{where} median", summary["median"], np.median(values))
    agree(f"{where} min", summary["min"], values.min())
    agree(f"{where} max", summary["max"], values.max())
    groups = [values[machines == m] for m in np.unique(machines)]
    freedom = len(values) - len(groups)
    squares = sum(((g - g.mean()) ** 2).sum() for g in groups)
    agree(f"{where} stddev", summary["stddev"], np.sqrt(squares / freedom) if freedom else None, 1e-7)
    marks = []
    for group in groups:
        low, high = np.percentile(group, [25, 75])
        far = 1.5 * (high - low)
        marks += [len(group) >= 4 and bool(v < low - far or v > high + far) for v in group]
    agree(f"{where} outliers", [s["outlier"] for s in summary["values"]].count(True), marks.count(True))
    if [s["outlier"] for s in summary["values"]] != marks:
        failures.append(f"{where}: other outliers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analysis", required=True)
    parser.add_argument("--resamples", type=int, default=20000, help="those of the analysis")
    parser.add_argument("--own", type=int, default=50000, help="resamples here")
    parser.add_argument("--digits", type=int, help="digits of an interval that have to agree")
    parser.add_argument("results", nargs="+")
    options = parser.parse_args()
    with open(options.analysis, encoding="utf-8") as file:
        analysis = json.load(file)
    files = [load(path) for path in options.results]
    rng = np.random.default_rng(20261130)
    twins = {arm["label"]: plan["arms"][arm["twin_of"]]["label"]
             for plan, _ in files for arm in plan["arms"] if arm.get("twin_of") is not None}
    base = analysis["arms"][0]
    families, suites = {False: [], True: []}, defaultdict(list)
    for row in analysis["rows"]:
        points = values_of(files, row["benchmark"], row["metric"])
        log = all(value > 0 for arm in points.values() for value in arm.values())
        noise = {}
        for arm, of in twins.items():
            effect = row["arms"][analysis["arms"].index(arm)]["effect" if log else "difference"] if of == base else {}
            noise[arm] = farthest(*paired(points[arm], points[of], log), effect, log)
        for label, summary in zip(analysis["arms"], row["arms"]):
            where = f"{row['benchmark']} {row['metric']} {label}"
            check_arm(where, summary, points[label], row["mean"] == "harmonic")
            if label == base:
                continue
            effect = summary["effect" if log else "difference"]
            machines, contrasts = paired(points[label], points[base], log)
            back = np.exp if log else lambda x: x
            agree(f"{where} pairs", effect["pairs"], len(contrasts))
            agree(f"{where} centre", effect["ratio" if log else "median"], back(np.median(contrasts)))
            p = permutation_p(contrasts)
            if p is None:
                p = effect["p"]
                check_drawn_p(f"{where} p", p, contrasts, rng)
            agree(f"{where} p", effect["p"], p)
            if row["primary"]:
                families[label in twins].append((where, effect, p))
            if label not in twins:
                of = [noise[arm] for arm, original in twins.items() if original in (base, label)]
                agree(f"{where} noise", effect.get("noise"), back(max(of)) if of else None)
            if log:
                sign = 1 if row["better"] == "higher" else -1
                agree(f"{where} change", effect["change"], 100 * sign * (effect["ratio"] - 1), 1e-6)
                suites[row["suite"], label].append((row["primary"], sign * np.median(contrasts)))
            for part in effect.get("machines", []):
                check_machine(f"{where} on {part['machine']}", part, contrasts[machines == part["machine"]],
                              log, 1 if row["better"] == "higher" else -1, options, rng)
            several = len(np.unique(machines)) > 1
            agree(f"{where} machines", len(effect.get("machines", [])), len(np.unique(machines)) if several else 0)
            ends = interval(machines, contrasts, options, rng, disagreeing(machines, contrasts, effect, log))
            if ends is None:
                agree(f"{where} interval", effect["interval"], None)
                continue
            for found, (end, low, high) in zip(effect["interval"], ends):
                check_end(f"{where} interval", found, *back(np.array([end, low, high])), options.digits)
    for family in families.values():
        for (where, effect, _), expected in zip(family, holm([p for _, _, p in family])):
            agree(f"{where} p_holm", effect["p_holm"], expected)
    for suite in analysis["suites"]:
        logs = suites[suite["suite"], analysis["arms"][suite["arm"]]]
        logs = [log for primary, log in logs if primary] or [log for _, log in logs]
        agree(f"{suite['suite']} geomean", suite["geomean"], np.exp(np.mean(logs)))
        directions = {row["better"] for row in analysis["rows"] if row["suite"] == suite["suite"]
                      and (row["primary"] or not any(other["primary"] for other in analysis["rows"]
                                                     if other["suite"] == suite["suite"]))
                      and (row["arms"][suite["arm"]] or {}).get("effect")}
        change = {"higher": 100 * (np.exp(np.mean(logs)) - 1), "lower": 100 * (1 - np.exp(-np.mean(logs)))}
        agree(f"{suite['suite']} change", suite.get("change"),
              change[directions.pop()] if len(directions) == 1 else None, 1e-6)
        agree(f"{suite['suite']} rows", suite["rows"], len(logs))
    for failure in failures:
        print(failure)
    print(f"{len(analysis['rows'])} rows, largest relative difference: {worst['exact']:.2g}, "
          f"of interval ends {worst['interval']:.2g}; {len(failures)} disagree")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
