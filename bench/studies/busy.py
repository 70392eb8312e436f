"""Measures how much training slows down on a busy machine. Runs the copy task and steps of copyB beside endless loops,
with more threads than processors, and in a control group with half a processor; prints the ratio to a quiet machine.

    busy.py --build build-bench --out bench/results/busy.md

Every round runs every condition once; the median of the rounds counts. busy.sh builds the programs."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

PROCESSORS = len(os.sched_getaffinity(0))
HALF = 50000  # microseconds of processor time in each period of 100,000

# A condition, and the largest allowed ratios to its reference; None: it is a reference itself.
Condition = namedtuple("Condition", "name loops threads group reference copy_task copyB")
QUIET = Condition("quiet machine", 0, 0, False, None, None, None)
ALONE = Condition("1 thread", 0, 1, False, None, None, None)
CONDITIONS = [
    QUIET,
    ALONE,
    Condition("beside one endless loop", 1, 0, False, "quiet machine", 2.5, 2.5),
    Condition("beside a loop for each processor", PROCESSORS, 0, False, "quiet machine", 4, 3),
    Condition(f"{PROCESSORS} threads", 0, PROCESSORS, False, "best", 1.5, 1.5),
    Condition(f"{2 * PROCESSORS} threads", 0, 2 * PROCESSORS, False, "best", 2, 2),
    Condition(f"{8 * PROCESSORS} threads", 0, 8 * PROCESSORS, False, "best", 3, 3),
    Condition("half a processor: processor time", 0, 0, True, "1 thread", 1.25, 1.25),
]

Run = namedtuple("Run", "wall processor step")  # seconds, seconds, milliseconds


# -- disturbances --


class Loops:
    """Runs `count` endless loops."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        self.programs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(self.count)]

    def __exit__(self, *unused):
        for program in self.programs:
            program.kill()
            program.wait()


class HalfAProcessor:
    """A control group (cgroup version 1 or 2) with the quota HALF; `directory` is None if the system does not allow
    it."""

    def __init__(self):
        self.directory = None
        for top, files in (
            ("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": f"{HALF}"}),
            ("/sys/fs/cgroup", {"cpu.max": f"{HALF} 100000"}),
        ):
            directory = pathlib.Path(top, f"tapehead-busy-{os.getpid()}")
            try:
                directory.mkdir()
                for name, text in files.items():
                    (directory / name).write_text(text)
                self.directory = directory
                return
            except OSError:
                if directory.exists():
                    directory.rmdir()

    def enter(self):
        """Moves the calling process into the group; called in the child before it starts a program."""
        (self.directory / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        if self.directory:
            self.directory.rmdir()


# -- one run --


def run(command, group, directory):
    before, start = os.times(), time.monotonic()
    text = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=directory, preexec_fn=group.enter if group else None
    ).stdout
    after, wall = os.times(), time.monotonic() - start
    values = dict(word.split("=", 1) for word in text.split() if "=" in word)
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(wall, processor, float(values.get("median_ms", "nan")))


def measure(condition, build, group, directory):
    threads = ["--threads", str(condition.threads)] if condition.threads else []
    steps = ["--steps", "100"] if condition.group or condition is ALONE else ["--seconds", "2"]
    group = group if condition.group else None
    with Loops(condition.loops):
        copy_task = run([build / "examples/copy_task", "--quiet", "--out", ".", *threads], group, directory)
        copy_b = run([build / "bench/train_step", "copyB", *steps, *threads], group, directory)
    return copy_task, copy_b


# -- results --


def medians(runs, condition, what, figure):
    return statistics.median(getattr(r[what], figure) for r in runs[condition.name])


def rows(runs):
    """Yields (condition, figures, ratios, whether all ratios are within their limits)."""
    for condition in CONDITIONS:
        if not runs[condition.name]:
            continue
        figures, ratios, within = [], [], True
        for what, (figure, limit) in enumerate((("wall", condition.copy_task), ("step", condition.copyB))):
            figure = "processor" if condition.group else figure
            value = medians(runs, condition, what, figure)
            figures.append(value)
            if limit is None:
                ratios.append(None)
                continue
            if condition.reference == "best":
                reference = min(medians(runs, c, what, figure) for c in CONDITIONS if c.loops == 0 and not c.group)
            else:
                named = next(c for c in CONDITIONS if c.name == condition.reference)
                reference = medians(runs, named, what, figure)
            ratios.append((value / reference, limit))
            within &= value <= limit * reference
        yield condition, figures, ratios, within


def steal():
    with open("/proc/stat") as stat:
        words = stat.readline().split()[1:]
    return int(words[7]), sum(map(int, words[:8]))


def report(runs, rounds, stolen, info):
    lines = [
        "# On a busy machine",
        "",
        f"{info}; {PROCESSORS} processors, {rounds} rounds, {100 * stolen:.1f} % of their time stolen by the host. "
        "copy_task: seconds of the whole program; copyB: milliseconds of the median step. The last row has seconds of "
        "processor time, for the copy task and for 100 steps.",
        "",
        "| | copy_task | ratio | at most | copyB | ratio | at most |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    good = True
    for condition, figures, ratios, within in rows(runs):
        cells = []
        for value, ratio in zip(figures, ratios):
            cells.append(f"{value:.2f}")
            cells += [f"{ratio[0]:.2f}", f"{ratio[1]:g}"] if ratio else ["", ""]
        reference = f", of {condition.reference}" if condition.reference else ""
        lines.append(f"| {condition.name}{reference} | " + " | ".join(cells) + " |")
        good &= within
    return "\n".join(lines) + "\n", good


def main():
    parser = argparse.ArgumentParser(description="measures training on a busy machine")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with train_step and copy_task")
    parser.add_argument("--out", type=pathlib.Path, help="file for the table")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    build, group = options.build.resolve(), HalfAProcessor()
    runs = {condition.name: [] for condition in CONDITIONS}
    before = steal()
    try:
        with tempfile.TemporaryDirectory() as directory:
            info = subprocess.run(
                [build / "bench/train_step", "copyA", "--steps", "1"], capture_output=True, text=True, check=True
            ).stdout.split("build=")[1].strip()
            for _ in range(options.rounds):
                for condition in CONDITIONS:
                    if group.directory or not condition.group:
                        runs[condition.name].append(measure(condition, build, group, directory))
    finally:
        group.remove()
    after = steal()
    if not group.directory:
        print("skipping the row with a control group: the system does not allow creating one", file=sys.stderr)
    text, good = report(runs, options.rounds, (after[0] - before[0]) / max(1, after[1] - before[1]), info)
    print(text, end="")
    if options.out:
        options.out.write_text(text)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
