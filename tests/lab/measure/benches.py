# SPDX-License-Identifier: GPL-2.0-only
"""The benches of tests/lab/ab, tests/lab/cost and tests/lab/demo, as data: what runs, and which number counts.

To add one, add a line to BENCHES. Placeholders in `argv`: {scx} is the scx_ballast binary, {repeats} and {loops}
come from the command line, {cpus} is the pair of CPUs that `cpus` asks for.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bench:
    """One bench. The value is what group 1 of `pattern` catches, divided by `divide`."""

    name: str
    what: str
    argv: str
    pattern: str
    unit: str
    higher_is_better: bool = False
    divide: float = 1.0
    cpus: str = ""  # same-cpu, same-llc or cross-node
    daemon: str = ""  # "idle" or "load": the value is the daemon's CPU time; argv is the load


HACKBENCH = r"Time: *([0-9.]+)"
TOLERATED = r"^result fork-burst .*\btolerated=([0-9.]+)"
MPI = r"^result mpi .*\b"
LOOP = r"^result pairs .*\bns_per_loop=([0-9.]+)"

BENCHES = [
    Bench("pipe", "one free pair over a pipe, 6000 round trips", "perf bench sched pipe -l 6000",
          r"Total time: *([0-9.]+)", "s"),
    Bench("hackbench2", "hackbench, 2 groups", "hackbench -g 2 -f 20 -l 100 --pipe", HACKBENCH, "s"),
    Bench("hackbench8", "hackbench, 8 groups", "hackbench -g 8 -f 20 -l 100 --pipe", HACKBENCH, "s"),
    Bench("fork-burst4", "4 tasks sleep, then spin: share of first placements that the rules tolerate",
          "{scx} work fork-burst --tasks 4 --repeats {repeats}", TOLERATED, "tolerated", higher_is_better=True),
    Bench("fork-burst8", "the same with 8 tasks",
          "{scx} work fork-burst --tasks 8 --repeats {repeats}", TOLERATED, "tolerated", higher_is_better=True),
    Bench("fork-burst16", "the same with 16 tasks that sleep longer",
          "{scx} work fork-burst --tasks 16 --sleep-ms 300 --repeats {repeats}", TOLERATED, "tolerated", higher_is_better=True),
    Bench("mpi16", "16 ranks that sleep, exec, and work in rounds with a barrier after each: run time",
          "{scx} work mpi", MPI + r"run_ms=([0-9.]+)", "s", divide=1000.0),
    Bench("mpi16-spread", "the same: excess of one node's ranks over another's, median over the rounds",
          "{scx} work mpi", MPI + r"round_spread_median=([0-9.]+)", "ranks"),
    Bench("pairs-same-cpu", "round trip of a pair pinned to one CPU",
          "{scx} work pairs --loops {loops} --cpus {cpus}", LOOP, "ns", cpus="same-cpu"),
    Bench("pairs-same-llc", "round trip of a pair pinned to two CPUs of one LLC",
          "{scx} work pairs --loops {loops} --cpus {cpus}", LOOP, "ns", cpus="same-llc"),
    Bench("pairs-cross-node", "round trip of a pair pinned to two nodes",
          "{scx} work pairs --loops {loops} --cpus {cpus}", LOOP, "ns", cpus="cross-node"),
    Bench("hogs", "nice 0 and nice 5 on one CPU: error of the share against the weights", "{scx} work hogs",
          r"^result hogs .*\berror=([0-9.]+)", "%"),
    Bench("wakeups", "4 sleepers beside 4 hogs on 4 CPUs: lateness, 99th percentile",
          "{scx} work wakeups --cpus 0-3 --hogs 4 --sleepers 4", r"^result wakeups .*\bp99_us=([0-9.]+)", "us"),
    Bench("daemon-idle", "CPU time of the scheduler's daemon, machine idle", "", "", "ms/min", daemon="idle"),
    Bench("daemon-hackbench", "CPU time of the scheduler's daemon beside hackbench2 in a loop",
          "hackbench -g 2 -f 20 -l 100 --pipe", "", "ms/min", daemon="load"),
]

BY_NAME = {bench.name: bench for bench in BENCHES}


def find(name: str, cost: bool) -> Bench:
    """The bench, in cost mode as a count of instructions where time is one: a tick of -icount shift=1 is 2 ns."""
    bench = BY_NAME[name]
    if cost and bench.cpus:
        return Bench(bench.name, bench.what, bench.argv, bench.pattern, "instr", divide=2.0, cpus=bench.cpus)
    return bench
