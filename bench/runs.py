"""One run of a program that is measured, with what disturbed it, and the journal of a session's runs."""

import json
import os
import subprocess
import sys
import time
from collections import namedtuple

from report import read_values

REPEATS, DISTURBED = 3, 0.02  # share of the processors that other processes may use
LONGEST = 1800  # seconds that a run may take
TICK = os.sysconf("SC_CLK_TCK")

Run = namedtuple("Run", "values disturbance")


def busy_seconds():
    """Of all processors since the machine started, what its host took away included; nobody is busy while idle."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def processor_seconds():
    """Of this process and of all its children that have ended."""
    return sum(os.times()[:4])


def run_once(command, environment):
    """(values, disturbance) of a command that prints name=value, or (None, why it failed)."""
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
    # Two ticks of a short run are not yet a disturbance: so coarse is the kernel's count.
    return read_values(done.stdout), share if others > 5 / TICK else 0.0


def run(command, environment):
    """The least disturbed of at most REPEATS runs as a Run, or the reason why there is none."""
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
    """The runs of a session in a file, one a line; the first line says what they have in common."""

    def __init__(self, path, settings, go_on):
        self.runs = {}
        if go_on and path.exists():
            whole, newline, _cut_off = path.read_text().rpartition("\n")
            path.write_text(whole + newline)
            first, *lines = map(json.loads, whole.splitlines())
            if first != settings:
                sys.exit(f"session.py: {path} is of a session with {first}, not {settings}")
            self.runs = {tuple(line["key"]): Run(line["values"], line["disturbance"]) for line in lines}
        else:
            path.write_text(json.dumps(settings) + "\n")
        self.file = path.open("a")

    def run(self, key, measure):
        """What is written down under this key; else measures, and writes it down unless it failed."""
        if key not in self.runs:
            outcome = measure()
            if isinstance(outcome, str):
                return outcome
            self.runs[key] = outcome
            print(json.dumps({"key": key, **outcome._asdict()}), file=self.file, flush=True)
        return self.runs[key]
