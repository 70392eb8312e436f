"""Runs a measured program, estimates how much other processes disturbed it, and keeps a journal of a session's runs."""

import json
import os
import subprocess
import sys
import time
from collections import namedtuple

from report import read_values

REPEATS, DISTURBED = 3, 0.02  # DISTURBED: share of the processors that other processes may use
LONGEST = 1800  # time limit of a run in seconds
TICK = os.sysconf("SC_CLK_TCK")

Run = namedtuple("Run", "values disturbance")


def busy_seconds():
    """Returns the busy seconds of all processors since the machine started, including time that the host took."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def processor_seconds():
    """Returns the processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def run_once(command, environment):
    """Runs a command that prints name=value pairs. Returns (values, disturbance), or (None, reason) if it fails."""
    start, busy, own = time.monotonic(), busy_seconds(), processor_seconds()
    command = [*map(str, command), "--started", f"{start:.6f}"]
    try:
        done = subprocess.run(
            command, env={**os.environ, **dict(environment)}, capture_output=True, text=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return None, f"took more than {LONGEST} s"
    if done.returncode:
        ended = f"was killed by signal {-done.returncode}" if done.returncode < 0 else f"ended with {done.returncode}"
        return None, (done.stderr.strip().splitlines() or [ended])[-1]
    elapsed = time.monotonic() - start
    others = busy_seconds() - busy - (processor_seconds() - own)
    share = others / (elapsed * os.cpu_count())
    # A few ticks in a short run are not a disturbance: the kernel's counter is coarse.
    return read_values(done.stdout), share if others > 5 / TICK else 0.0


def run(command, environment):
    """Returns the least disturbed of at most REPEATS runs as a Run, or the reason for a failure as a string."""
    best = None
    for _ in range(REPEATS):
        values, disturbance = run_once(command, environment)
        if values is None:
            return disturbance
        if best is None or disturbance < best.disturbance:
            best = Run(values, disturbance)
        if best.disturbance <= DISTURBED:
            break
    return best


class Journal:
    """A file with a session's runs, one in each line; the first line has the session's settings."""

    def __init__(self, path, settings, resume):
        self.runs = {}
        if resume and path.exists():
            whole, newline, _cut_off = path.read_text().rpartition("\n")
            path.write_text(whole + newline)
            first, *lines = map(json.loads, whole.splitlines())
            if first != settings:
                sys.exit(f"session.py: {path} has the settings {first}, but this session has {settings}")
            self.runs = {tuple(line["key"]): Run(line["values"], line["disturbance"]) for line in lines}
        else:
            path.write_text(json.dumps(settings) + "\n")
        self.file = path.open("a")

    def run(self, key, measure):
        """Returns the recorded run with this key; otherwise measures, and records the run unless it fails."""
        if key not in self.runs:
            outcome = measure()
            if isinstance(outcome, str):
                return outcome
            self.runs[key] = outcome
            print(json.dumps({"key": key, **outcome._asdict()}), file=self.file, flush=True)
        return self.runs[key]
