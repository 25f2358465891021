# SPDX-License-Identifier: GPL-2.0-only
"""The half of an A/B comparison that runs inside the lab machine, as root: attach, check, run, detach.

Takes a plan (JSON, the only argument) from measure/host.py and prints events, one JSON object a line. A run counts only
if the same scheduler was in charge before and after it; otherwise it is repeated. Ends with status 0 when every run
of the plan has a value, else with 1 after an event `failed`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parent))
import benches

SCHED_EXT = Path("/sys/kernel/sched_ext")
SOCKET = "/var/run/scx/root/stats"
LOG = Path("/tmp/scheduler.log")
TRIES = 3
# Seconds of guest time; generous, because emulated CPUs may be starved.
LOAD_LIMIT, UNLOAD_LIMIT, RUN_LIMIT = 120.0, 60.0, 600.0


class Failed(Exception):
    """The comparison cannot go on."""


class NotInCharge(Exception):
    """A run does not count."""


def emit(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def log_tail(lines: int = 30) -> str:
    try:
        return "\n".join(LOG.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def in_charge() -> dict[str, str]:
    """Who schedules: equal before and after a run, or the run does not count."""
    events = dict(line.split()[:2] for line in read(SCHED_EXT / "root/events").splitlines() if " " in line)
    return {
        "state": read(SCHED_EXT / "state"),
        "ops": read(SCHED_EXT / "root/ops"),
        "enable_seq": read(SCHED_EXT / "enable_seq"),
        "bypasses": events.get("SCX_EV_BYPASS_ACTIVATE", ""),
    }


def cpu_ns(pid: int) -> int:
    """CPU time of a process, ended threads included: its CPU clock."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def memory_kib(pid: int) -> dict[str, int]:
    found = re.findall(r"^(VmRSS|VmHWM|VmLck):\s*(\d+) kB", read(Path(f"/proc/{pid}/status")), re.MULTILINE)
    return {key: int(kib) for key, kib in found}


def cpu_list(path: str) -> list[int]:
    cpus: list[int] = []
    for part in filter(None, read(Path(path)).split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def pick_cpus(kind: str) -> str:
    """The CPUs of a pinned pair, from the topology that the kernel shows."""
    cpu = "/sys/devices/system/cpu/cpu0"
    if kind == "same-cpu":
        return "0,0"
    if kind == "same-llc":
        caches = sorted(Path(cpu, "cache").glob("index*"), key=lambda c: int(read(c / "level") or 0))
        siblings = cpu_list(f"{cpu}/topology/thread_siblings_list")
        others = [c for c in cpu_list(f"{caches[-1]}/shared_cpu_list") if c not in siblings] if caches else []
    else:
        nodes = [cpu_list(f"{n}/cpulist") for n in sorted(Path("/sys/devices/system/node").glob("node[0-9]*"))]
        others = [node[0] for node in nodes if node and 0 not in node]
    if not others:
        raise Failed(f"this machine has no two CPUs for a pair '{kind}'")
    return f"0,{others[0]}"


class Counters:
    """A connection to the statistics of scx_ballast: what was counted since the last answer."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(30)
        self.socket.connect(SOCKET)
        self.lines = self.socket.makefile("r")

    def ask(self) -> dict[str, Any]:
        self.socket.sendall(b'{"req":"stats","args":{"target":"top"}}\n')
        answer = json.loads(self.lines.readline())
        if answer.get("errno") != 0:
            raise Failed(f"statistics: {answer}")
        counters: dict[str, Any] = answer["args"]["resp"]
        return counters

    def close(self) -> None:
        self.socket.close()


class Attached:
    """One arm in charge: a scheduler process, or none for EEVDF."""

    def __init__(self, arm: dict[str, Any], settle: float) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.counters: Counters | None = None
        self.facts: dict[str, Any] = {}
        if arm["argv"]:
            self.load(arm)
        time.sleep(settle)
        self.identity = in_charge()
        want = "enabled" if arm["argv"] else "disabled"
        if self.identity["state"] != want:
            raise Failed(f"{arm['label']}: sched_ext is {self.identity['state']} instead of {want}")
        if arm["counters"]:
            self.counters = Counters()
            self.counters.ask()
        self.facts["ops"] = self.identity["ops"]

    def load(self, arm: dict[str, Any]) -> None:
        if in_charge()["state"] != "disabled":
            raise Failed(f"{arm['label']}: another scheduler is loaded: {in_charge()['ops']}")
        with LOG.open("wb") as log:
            began = time.monotonic()
            self.process = subprocess.Popen(arm["argv"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not (in_charge()["state"] == "enabled" and in_charge()["ops"]):
            if self.process.poll() is not None:
                raise Failed(f"{arm['label']}: ended with status {self.process.returncode} before it was loaded")
            if time.monotonic() - began > LOAD_LIMIT:
                raise Failed(f"{arm['label']}: not loaded after {LOAD_LIMIT:.0f} s")
            time.sleep(0.01)
        self.facts["start_ms"] = (time.monotonic() - began) * 1e3
        self.facts["start_cpu_ms"] = cpu_ns(self.process.pid) / 1e6
        # The kernel's name of scx_rusty is rusty_VERSION: a name without the binary's in it is somebody else's.
        name = re.sub(r"^scx_", "", Path(arm["argv"][0]).name)
        if name not in in_charge()["ops"]:
            emit("note", text=f"{arm['label']} is called {in_charge()['ops']} by the kernel")

    def check(self) -> None:
        if self.process and self.process.poll() is not None:
            raise NotInCharge(f"the scheduler has ended with status {self.process.returncode}")
        now = in_charge()
        if now != self.identity:
            raise NotInCharge(f"in charge is {now}, was {self.identity}")

    def end(self) -> None:
        if self.counters:
            self.counters.close()
        if not self.process:
            return
        if self.process.poll() is None:
            self.facts["memory_kib"] = memory_kib(self.process.pid)
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(UNLOAD_LIMIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                emit("note", text=f"did not end {UNLOAD_LIMIT:.0f} s after SIGINT: killed")
        self.facts["exit_status"] = self.process.returncode
        began = time.monotonic()
        while in_charge()["state"] != "disabled":
            if time.monotonic() - began > UNLOAD_LIMIT:
                raise Failed(f"still {in_charge()} after the scheduler's end")
            time.sleep(0.01)


def call(argv: list[str]) -> str:
    """Run a command to its end and return its output."""
    try:
        done = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=RUN_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as err:
        raise Failed(f"{' '.join(argv)}: {err}") from err
    if done.returncode != 0:
        raise Failed(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def measure(bench: benches.Bench, plan: dict[str, Any], attached: Attached) -> tuple[float | None, dict[str, Any]]:
    """One run: its value, None where there is nothing to measure, and details."""
    cpus = pick_cpus(bench.cpus) if bench.cpus else ""
    places = {"scx": plan["scx"], "repeats": plan["repeats"], "loops": plan["loops"], "cpus": cpus}
    argv = [part.format(**places) for part in bench.argv.split()]
    if bench.daemon:
        if not attached.process:
            return None, {}
        pid, began, before, loops = attached.process.pid, time.monotonic(), cpu_ns(attached.process.pid), 0
        while (left := began + plan["seconds"] - time.monotonic()) > 0:
            if bench.daemon == "idle":
                time.sleep(left)
            else:
                call(argv)
                loops += 1
        elapsed = time.monotonic() - began
        return (cpu_ns(pid) - before) / 1e6 * 60 / elapsed, {"seconds": elapsed, "loops": loops}
    output = call(argv)
    found = re.search(bench.pattern, output, re.MULTILINE)
    if not found:
        raise Failed(f"no result of {' '.join(argv)} in:\n{output}")
    details: dict[str, Any] = {}
    if bench.unit == "tolerated":
        for place in ("first", "last", "birth"):
            counts = re.findall(rf"^repeat \d+:.* {place} (\d+(?: \d+)*)", output, re.MULTILINE)
            details[place] = [[int(n) for n in of_nodes.split()] for of_nodes in counts]
        details["result"] = output.splitlines()[-1]
    return float(found[1]) / bench.divide, details


def count_run(bench: benches.Bench, plan: dict[str, Any], attached: Attached) -> dict[str, Any]:
    """A run under a scheduler that was in charge all the time."""
    attached.check()
    pid = attached.process.pid if attached.process else 0
    before = cpu_ns(pid) if pid else 0
    value, details = measure(bench, plan, attached)
    attached.check()
    details["daemon_cpu_ms"] = (cpu_ns(pid) - before) / 1e6 if pid else 0.0
    if attached.counters:
        details["counters"] = attached.counters.ask()
    return {"value": value, **details}


def run_arm(block: int, arm: dict[str, Any], plan: dict[str, Any]) -> None:
    """One attach, all benches."""
    attached = Attached(arm, plan["settle"])
    emit("attached", block=block, arm=arm["label"], **attached.facts)
    try:
        for name in plan["benches"]:
            bench = benches.find(name, plan["cost"])
            for left in reversed(range(TRIES)):
                try:
                    run = count_run(bench, plan, attached)
                    emit("run", block=block, arm=arm["label"], bench=name, **run)
                    break
                except NotInCharge as err:
                    emit("repeat", block=block, arm=arm["label"], bench=name, why=str(err), log=log_tail())
                    if not left:
                        raise Failed(f"{arm['label']}: {name} was never run to its end: {err}") from err
                    attached.end()
                    attached = Attached(arm, plan["settle"])
    finally:
        attached.end()
    status = attached.facts.get("exit_status", 0)
    emit("detached", block=block, arm=arm["label"], **attached.facts)
    if status != 0:
        raise Failed(f"{arm['label']}: ended with status {status}")


def main() -> NoReturn:
    if " lab_job=" not in read(Path("/proc/cmdline")):
        sys.exit("this script runs inside a lab machine: use tests/lab/ab")
    plan = json.loads(sys.argv[1])
    # The driver is neither delayed by what it starts nor counted by the scheduler; what it starts is ordinary.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    emit("machine", kernel=os.uname().release, cpus=os.cpu_count())
    try:
        for block, order in enumerate(plan["order"], 1):
            for index in order:
                run_arm(block, plan["arms"][index], plan)
    except (Failed, OSError, ValueError) as err:
        emit("failed", why=str(err) or repr(err), log=log_tail())
        sys.exit(1)
    emit("done")
    sys.exit(0)


if __name__ == "__main__":
    main()
