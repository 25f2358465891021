# SPDX-License-Identifier: GPL-2.0-only
"""Medians, spreads, ratios, and tables of them in plain text."""

from __future__ import annotations

import statistics
from typing import Any

Event = dict[str, Any]


def values(events: list[Event], arm: str, bench: str) -> dict[int, float]:
    """Value of each block."""
    return {e["block"]: e["value"] for e in events
            if e["event"] == "run" and (e["arm"], e["bench"]) == (arm, bench) and e["value"] is not None}


def number(value: float) -> str:
    """Four digits that matter; whole numbers from 1000 on."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def summary(found: dict[int, float], base: dict[int, float]) -> dict[str, float | int | None]:
    """Of one arm: median, range, and the ratio to `base`, over all and block by block."""
    both = [found[b] / base[b] for b in sorted(found) if base.get(b)]
    middle, middle_of_base = statistics.median(found.values()), statistics.median(base.values())
    return {
        "runs": len(found),
        "median": middle,
        "min": min(found.values()),
        "max": max(found.values()),
        "spread": (max(found.values()) - min(found.values())) / middle if middle else None,
        "ratio": middle / middle_of_base if middle_of_base else None,
        "ratio_min": min(both) if both else None,
        "ratio_max": max(both) if both else None,
    }


def compare(events: list[Event], arms: list[str], benches: list[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """bench -> arm -> summary; ratios are to the first arm that has values."""
    result: dict[str, dict[str, dict[str, Any]]] = {}
    for bench in benches:
        found = {arm: got for arm in arms if (got := values(events, arm, bench))}
        base = next(iter(found.values()), {})
        result[bench] = {arm: summary(got, base) for arm, got in found.items()}
    return result


def render(rows: list[list[str]], left: int = 1) -> str:
    """Columns with blanks between; the first `left` to the left, the others to the right. An empty row stays one."""
    full = max(len(row) for row in rows)
    widths = [max((len(row[i]) for row in rows if len(row) == full), default=0) for i in range(full)]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip() if len(row) == full else "  ".join(row))
    return "\n".join(lines)


def placements(events: list[Event], arm: str, bench: str) -> list[list[list[int]]]:
    """First placements: block -> repeat -> tasks per node."""
    return [e["first"] for e in sorted(events, key=lambda e: e.get("block", 0))
            if e["event"] == "run" and (e["arm"], e["bench"]) == (arm, bench) and e.get("first")]


def is_even(counts: list[int]) -> bool:
    """Of nodes of equal size."""
    return max(counts) - min(counts) <= 1


def totals(events: list[Event], arm: str) -> dict[str, int]:
    """What the scheduler counted in all runs of an arm; gauges left out."""
    gauges = {"at_us", "nodes", "tasks_seen", "start_up_us"}
    total: dict[str, int] = {}
    for event in events:
        if event["event"] == "run" and event["arm"] == arm:
            for key, value in event.get("counters", {}).items():
                if key not in gauges and isinstance(value, int):
                    total[key] = total.get(key, 0) + value
    return total


def daemons(events: list[Event], arms: list[str]) -> dict[str, dict[str, list[float]]]:
    """arm -> what its daemon took, per attach: start_ms, start_cpu_ms, and memory in MiB."""
    result: dict[str, dict[str, list[float]]] = {}
    for event in events:
        if event["event"] == "detached" and event["arm"] in arms and "start_ms" in event:
            found = result.setdefault(event["arm"], {})
            for key in ("start_ms", "start_cpu_ms"):
                found.setdefault(key, []).append(event[key])
            for key, kib in event.get("memory_kib", {}).items():
                found.setdefault(key, []).append(kib / 1024)
    return result
