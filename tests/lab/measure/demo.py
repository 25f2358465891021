# SPDX-License-Identifier: GPL-2.0-only
"""The demonstration itself, for tests/lab/demo: one lab machine, EEVDF and scx_ballast in turn, one table.

Status 0 only if everything was run and counted.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import host, tables

BURSTS = {"fork-burst4": 4, "fork-burst8": 8}
TIMED = {"hackbench2": "hackbench, 2 groups (s)", "hackbench8": "hackbench, 8 groups (s)"}
ARMS = ["eevdf", "ballast"]

# What the scheduler counted, in the words of its statistics.
COUNTED: list[tuple[str, Callable[[dict[str, int]], str]]] = [
    ("forks placed on the parent's node / on another", lambda c: f"{c['fork_local']} / {c['fork_remote']}"),
    ("dispatched to an idle CPU: previous", lambda c: f"{c['idle_prev']}"),
    ("  of the same LLC / node / of another node",
     lambda c: f"{c['idle_llc']} / {c['idle_node']} / {c['idle_remote']}"),
    ("left behind a waker about to sleep", lambda c: f"{c['sync']}"),
    ("queued: LLC / CPU", lambda c: f"{c['queued_llc']} / {c['queued_cpu']}"),
    ("pulled by an idle CPU: same LLC / node / other node",
     lambda c: f"{c['pulled_llc']} / {c['pulled_node']} / {c['pulled_remote']}"),
    ("migrations: LLC / node", lambda c: f"{c['llc_migrations']} / {c['node_migrations']}"),
    ("waits in queues: number, mean (us)",
     lambda c: f"{c['waits']}, {c['wait_us'] / c['waits'] if c['waits'] else 0:.0f}"),
    ("waited while an allowed CPU was idle (ms, sampled)", lambda c: f"{c['wasted_us'] / 1000:.1f}"),
    ("CPU time of the daemon (ms)", lambda c: f"{c['daemon_cpu_us'] / 1000:.0f}"),
]


def placement_rows(events: list[tables.Event]) -> list[list[str]]:
    rows: list[list[str]] = []
    for bench, tasks in BURSTS.items():
        of_arm = {arm: tables.placements(events, arm, bench) for arm in ARMS}
        rows.append([f"{tasks} forked tasks: first placement, node 0 / node 1, in each repeat"])
        for block in range(max(map(len, of_arm.values()), default=0)):
            cells = ["  ".join("/".join(map(str, counts)) for counts in of_arm[arm][block])
                     if block < len(of_arm[arm]) else "-" for arm in ARMS]
            rows.append([f"  block {block + 1}", *cells])
        bursts = [[counts for block in of_arm[arm] for counts in block] for arm in ARMS]
        rows.append(["  even (nodes differ by at most 1)",
                     *(f"{sum(map(tables.is_even, b))} of {len(b)}" for b in bursts)])
        rows.append([])
    return rows


def time_rows(events: list[tables.Event]) -> list[list[str]]:
    rows = [["times: median (lowest..highest)"]]
    for bench, name in TIMED.items():
        cells = []
        for arm in ARMS:
            found = list(tables.values(events, arm, bench).values())
            cells.append(f"{statistics.median(found):.3f} ({min(found):.3f}..{max(found):.3f})" if found else "-")
        rows.append([f"  {name}", *cells])
    loads = [e["start_ms"] for e in events if e["event"] == "attached" and "start_ms" in e]
    if loads:
        rows.append(["  start to enabled (ms)", "-",
                     f"{statistics.median(loads):.0f} ({min(loads):.0f}..{max(loads):.0f})"])
    return [*rows, []]


def counted_rows(events: list[tables.Event]) -> list[list[str]]:
    total = tables.totals(events, "ballast")
    if not total:
        return []
    return [["what scx_ballast counted, all runs"], *([f"  {name}", "-", show(total)] for name, show in COUNTED)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests/lab/demo", description="See scx_ballast beside EEVDF.")
    parser.add_argument("--kernel", default="7.3", help="as tests/lab/run (7.3)")
    parser.add_argument("--blocks", type=int, default=3, help="how often each scheduler gets its turn (3)")
    parser.add_argument("--repeats", type=int, default=5, help="fork bursts in each turn (5)")
    args = parser.parse_args()
    if min(args.blocks, args.repeats) < 1:
        parser.error("numbers must be positive")

    began = time.monotonic()
    print(f"Demonstration on an emulated machine: Linux {args.kernel}, 2 NUMA nodes x 4 CPUs; {args.blocks} blocks, in "
          "each EEVDF and scx_ballast once, in random order. Two minutes on a quiet machine.", flush=True)
    plan = host.make_plan(host.parse_arms(ARMS), [*BURSTS, *TIMED], blocks=args.blocks,
                          seed=random.SystemRandom().randrange(1 << 32), cost=False, settle=1.0, seconds=1.0,
                          repeats=args.repeats, loops=1)
    events, status = host.boot(plan, kernel=args.kernel, machine="2x4", timeout=540, show=host.Progress(plan))
    if status:
        host.die(f"FAILED: the lab ended with status {status}", status)

    print()
    rows = [["", "EEVDF", "scx_ballast"], *placement_rows(events), *time_rows(events), *counted_rows(events)]
    print(tables.render(rows))
    print(f"""
Placement is what to judge here. The times come from software emulation: a few host CPUs carry all 8 guest CPUs,
interrupts between CPUs are dear and remote memory costs nothing extra, so they say little about a real machine, and
only as ratios between the two columns. Order seed {plan['seed']}; {time.monotonic() - began:.0f} s in all.""")
    if any(event["event"] == "repeat" for event in events):
        host.die("FAILED: the scheduler was not in charge all the time; what had to be repeated is said above", 1)


if __name__ == "__main__":
    main()
