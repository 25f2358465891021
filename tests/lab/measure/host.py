# SPDX-License-Identifier: GPL-2.0-only
"""What tests/lab/ab, tests/lab/cost and tests/lab/demo share on the host: arms, plans, one boot, progress."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

LAB = Path(__file__).resolve().parent.parent
REPO = LAB.parent.parent
Event = dict[str, Any]


def die(text: str, status: int = 2) -> NoReturn:
    print(f"{Path(sys.argv[0]).stem}: {text}", file=sys.stderr)
    sys.exit(status)


def scx_ballast() -> Path:
    """The scheduler under test; the built-in workloads are in it too."""
    path = Path(os.environ.get("SCX_BALLAST_BIN", REPO / "target/release/scx_ballast")).resolve()
    if not os.access(path, os.X_OK):
        die(f"no scheduler at {path}: run `cargo build --release`, or name one in SCX_BALLAST_BIN")
    return path


def parse_arm(text: str) -> dict[str, Any]:
    """`eevdf`, or NAME[:FLAGS] with the name or path of a scheduler; `ballast` is this checkout's."""
    name, _, flags = text.partition(":")
    if name == "eevdf":
        if flags:
            die("eevdf takes no flags")
        return {"label": "eevdf", "argv": [], "counters": False}
    if name in ("ballast", "scx_ballast"):
        path = scx_ballast()
    elif found := shutil.which(name):
        path = Path(found).resolve()
    else:
        die(f"no program '{name}' (an arm is eevdf, ballast[:FLAGS], or NAME[:FLAGS] of any scheduler binary)")
    label = path.name if "/" in name else name
    label = f"{label}:{flags}" if flags else label
    return {"label": label, "argv": [str(path), *shlex.split(flags)], "counters": path.name == "scx_ballast"}


def parse_arms(texts: list[str]) -> list[dict[str, Any]]:
    """All arms; one that is named twice (an A/A pair) gets a number."""
    arms = [parse_arm(text) for text in texts]
    seen: dict[str, int] = {}
    for arm in arms:
        label = arm["label"]
        seen[label] = seen.get(label, 0) + 1
        if seen[label] > 1:
            arm["label"] = f"{label}#{seen[label]}"
    return arms


def make_plan(arms: list[dict[str, Any]], benches: list[str], *, blocks: int, seed: int, cost: bool, settle: float,
              seconds: float, repeats: int, loops: int) -> dict[str, Any]:
    """What the guest does: in every block each arm once, in an order that the seed fixes."""
    dice = random.Random(seed)
    order = [dice.sample(range(len(arms)), len(arms)) for _ in range(blocks)]
    return {"arms": arms, "benches": benches, "seed": seed, "order": order, "cost": cost, "settle": settle,
            "seconds": seconds, "repeats": repeats, "loops": loops, "scx": str(scx_ballast())}


def boot(plan: dict[str, Any], *, kernel: str, machine: str, timeout: int,
         show: Callable[[Event], None]) -> tuple[list[Event], int]:
    """Run the plan in one boot; `show` hears each event when it comes. Returns all events and the status."""
    command = [str(LAB / "run"), "--kernel", kernel, "--machine", machine, "--timeout", str(timeout), "--verbose"]
    command += ["--cost"] if plan["cost"] else []
    # Not a wrapper script of this interpreter: in the lab starting a process is dear.
    command += ["--", os.path.realpath(sys.executable), "-I", str(LAB / "measure/guest.py"), json.dumps(plan)]
    events: list[Event] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lab:
        assert lab.stdout
        try:
            for line in lab.stdout:
                try:
                    event = json.loads(line)
                except ValueError:
                    print(line, end="", file=sys.stderr)
                    continue
                events.append(event)
                show(event)
        except KeyboardInterrupt:
            lab.wait()
            sys.exit(130)
    status = lab.returncode
    if status == 0 and (not events or events[-1]["event"] != "done"):
        status = 1
    return events, status


class Progress:
    """Says on stderr what has just happened, with the time since the start."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.began = time.monotonic()
        self.blocks = len(plan["order"])
        self.total = self.blocks * len(plan["arms"])
        self.done = 0

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)

    def __call__(self, event: Event) -> None:
        where = f"block {event.get('block')}/{self.blocks} {event.get('arm')}:"
        match event["event"]:
            case "machine":
                self.say(f"Linux {event['kernel']}, {event['cpus']} CPUs")
            case "attached":
                self.done += 1
                loaded = f"loaded in {event['start_ms']:.0f} ms" if "start_ms" in event else "the kernel's own"
                self.say(f"{where} {loaded} ({self.done} of {self.total})")
            case "run" if event["value"] is not None:
                self.say(f"{where} {event['bench']} {event['value']:g}")
            case "repeat":
                self.say(f"{where} {event['bench']} does not count and is repeated: {event['why']}\n{event['log']}")
            case "note":
                self.say(event["text"])
            case "failed":
                self.say(f"FAILED: {event['why']}\n--- end of the scheduler's log\n{event['log']}\n---")
