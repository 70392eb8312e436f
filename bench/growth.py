"""Measures how time and memory of a training step grow with the length, batch, width, layers and threads. Writes
growth.csv, growth.md with fitted exponents, and growth.svg.

    growth.py --program build-bench/bench/train_step --out bench/results

Memory is the library's peak count. Each series changes one size of BASE."""

import argparse
import csv
import math
import os
import pathlib
import subprocess

import chart
from report import markdown_table, read_values

BASE = {"layers": 2, "width": 256, "heads": 4, "vocabulary": 256, "length": 256, "batch": 4}
SERIES = {
    "length": [64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "batch": [1, 2, 4, 8, 16, 32, 64],
    "width": [64, 128, 256, 512, 1024],
    "layers": [1, 2, 4, 8, 16],
}
SHORT = {name: values[:4] for name, values in SERIES.items()}
# Other changes in a series: a batch of one sequence, so that the longest sequence fits in memory.
CHANGED = {"length": {"batch": 1}}


def measure(program, series, value, threads, seconds):
    sizes = {**BASE, **CHANGED.get(series, {}), series: value}
    team = sizes.pop("threads", threads)
    options = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    command = [program, *options, "--threads", str(team), "--seconds", str(seconds)]
    return read_values(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def exponent(points):
    """Returns the slope of a line fitted to log y over log x."""
    xs, ys = ([math.log(p[axis]) for p in points] for axis in (0, 1))
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)


def write(directory, found):
    """found: series -> [(value, measured), ...]"""
    with open(directory / "growth.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["series", "value", "min_ms", "memory_mib", "peak_rss_mib", "gflops"])
        for series, points in found.items():
            rows.writerows([series, x, v["min_ms"], v["memory_mib"], v["peak_rss_mib"], v["gflops"]] for x, v in points)
    curves = {
        (series, key): [(x, v[key]) for x, v in points]
        for series, points in found.items()
        for key in ("min_ms", "memory_mib")
    }
    header = [
        "series",
        "from",
        "to",
        "time grows as",
        "between the last two sizes",
        "memory grows as",
        "between the last two sizes",
    ]
    table = [
        [
            series,
            str(points[0][0]),
            str(points[-1][0]),
            *(
                f"{series}^{exponent(some):.2f}"
                for key in ("min_ms", "memory_mib")
                for some in (curves[series, key], curves[series, key][-2:])
            ),
        ]
        for series, points in found.items()
        if len(points) > 1
    ]
    base = ", ".join(f"{name} {value}" for name, value in BASE.items())
    lines = [
        "# Growth of time and memory of a training step",
        "",
        f"The model: {base}; the length series has batch 1.",
        "",
        *markdown_table(header, table),
        "",
        "![time and memory](growth.svg)",
    ]
    (directory / "growth.md").write_text("\n".join(lines) + "\n")
    panels = [
        (series, label, {f"{series}^{exponent(curves[series, key]):.2f}": curves[series, key]})
        for series, points in found.items()
        if len(points) > 1
        for key, label in (("min_ms", "ms a step"), ("memory_mib", "MiB"))
    ]
    chart.logarithmic(directory / "growth.svg", "Time and memory of a training step", panels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="train_step")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=2, help="for each measurement")
    parser.add_argument("--quick", action="store_true", help="only the first four sizes of each series")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    series = {**(SHORT if options.quick else SERIES), "threads": list(range(1, options.threads + 1))}
    found = {
        name: [(value, measure(options.program, name, value, options.threads, options.seconds)) for value in values]
        for name, values in series.items()
    }
    write(options.out, found)


if __name__ == "__main__":
    main()
