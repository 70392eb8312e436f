"""Predicts the time of a training step on more cores than this machine has (cores.c), and writes the tables.

    cores.py --program build-bench/bench/cores --out bench/results/cores.md char12

cores.sh builds the program."""

import argparse
import datetime
import os
import pathlib
import subprocess
import sys

from report import read_values

HEADER = "| cores | predicted ms | times faster | measured ms | error | no region | one task | waiting | start and end |"
INTRODUCTION = """# More cores: a prediction

These times are predicted, not measured: the machine of this run has {processors:.0f} processors. Every task of every \
parallel region ran alone, and its least time counts. A model gives the tasks to the cores as the library does \
([how](../README.md#more-cores)).

The model includes work on one thread, tasks of unequal length, and the beginning and end of regions. A region on two \
threads costs {region_us} µs here. Each further thread adds {worker_us} µs. The model omits memory bandwidth, caches \
that cores share, memory of another socket, and clock rates that fall when more cores compute. So real speedups are lower.

{conditions}

*measured* is the fastest step with this many threads in the same run, and *error* compares the prediction with it. The \
last four columns are milliseconds of *predicted*: work between regions; regions with one task or one thread; waiting \
for the last task of a region; beginning and end of regions.
"""


def run(program, configuration, seconds):
    """Returns the values of the run, and a list with the values of each number of threads."""
    command = [program, configuration, "--seconds", str(seconds)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return read_values(lines[0]), [read_values(line) for line in lines[1:]]


def row(values, one):
    predicted, measured = values["predicted_ms"], values.get("measured_ms")
    cells = [f"{values['threads']:.0f}", f"{predicted:.2f}", f"{one['predicted_ms'] / predicted:.1f}"]
    cells += [f"{measured:.2f}", f"{100 * (predicted / measured - 1):+.1f} %"] if measured else ["", ""]
    cells += [f"{values[part]:.2f}" for part in ("outside_ms", "alone_ms", "waiting_ms", "costs_ms")]
    return f"| {' | '.join(cells)} |"


def table(configuration, rows):
    one, most = rows[0], rows[-1]
    counts = (
        f"{one['regions']:.0f} regions with {one['tasks']:.0f} tasks on one thread; "
        f"{most['regions']:.0f} with {most['tasks']:.0f} on {most['threads']:.0f}."
    )
    head = ["", f"## {configuration}", "", counts, "", HEADER, "|---:" * 9 + "|"]
    return "\n".join([*head, *(row(values, one) for values in rows)]) + "\n"


def processor_name():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    return next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "unknown")


def introduction(machine, seconds):
    conditions = (
        f"{datetime.date.today()}, {processor_name()}, {machine['build']}; {seconds:g} s for each number of threads; "
        f"mean load of the machine in the 15 minutes before: {os.getloadavg()[2]:.1f}."
    )
    return INTRODUCTION.format(**machine, conditions=conditions)


def with_costs(machine, values, least):
    """Returns the values with the least costs of a region that any run measured: a busy machine disturbs them."""
    further = values["threads"] - 2
    if further < 0:
        return values
    own = machine["region_us"] + further * machine["worker_us"]
    costs = values["costs_ms"] * (least["region_us"] + further * least["worker_us"]) / own if own > 0 else 0
    return values | {"costs_ms": costs, "predicted_ms": values["predicted_ms"] - values["costs_ms"] + costs}


def main():
    parser = argparse.ArgumentParser(description="predicts training steps on many cores")
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="file for the tables")
    parser.add_argument("--seconds", type=float, default=10, help="for each number of threads")
    parser.add_argument("configurations", nargs="+")
    options = parser.parse_args()
    try:
        runs = {name: run(options.program.resolve(), name, options.seconds) for name in options.configurations}
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr.strip())
    machines = [machine for machine, _ in runs.values()]
    least = machines[0] | {cost: min(m[cost] for m in machines) for cost in ("region_us", "worker_us")}
    text = introduction(least, options.seconds)
    for name, (machine, rows) in runs.items():
        text += table(name, [with_costs(machine, values, least) for values in rows])
    print(text, end="")
    options.out.write_text(text)


if __name__ == "__main__":
    main()
