"""Compares products of linear layers, x wᵀ of float32 matrices, with PyTorch's: in every precision, on every
instruction set path of this processor, on one thread and on all threads. Writes linear.csv, and linear.md with GF/s,
errors and the cost of each precision.

    linear.py --program build-bench/bench/linear --peers build-bench/peers/bin/python --out bench/results
    linear.py ... --shapes 997,1009,1013 --rounds 5

Every run is a separate process that measures all shapes; the fastest round counts."""

import argparse
import csv
import os
import pathlib
import subprocess
import sys
from collections import namedtuple

from report import markdown_table

SHAPES = [  # m, n, k
    *["256,2304,768", "256,3072,768", "256,768,3072", "768,1152,384", "768,384,1536", "1024,192,64"],
    *["512,512,512", "1024,1024,1024", "4096,768,768", "997,1009,1013", "3,3072,768"],
]
VECTORS = ["avx2", "avx512"]  # values of TAPEHEAD_ISA: paths that emulate bfloat16 products
UNITS = ["avx512_bf16", "amx"]  # and paths with bfloat16 instructions
EMULATION_LIMIT = 2.5  # limit: time divided by the time of float32 with the same vectors

Line = namedtuple("Line", "engine precision path")  # a row of the table; path: TAPEHEAD_ISA
LINES = [
    *(Line("tapehead", "float32", path) for path in VECTORS),
    *(Line("tapehead", precision, path) for precision in ("bfloat16x3", "bfloat16") for path in VECTORS + UNITS),
    *(Line("torch", precision, "") for precision in ("float32", "medium", "bfloat16", "autocast")),
]


def run(line, options, threads):
    """Returns ({shape: (us, error)}, build), or (None, reason) if the program fails."""
    if line.engine == "tapehead":
        command, environment = [options.program], {"TAPEHEAD_ISA": line.path}
    else:
        command, environment = [options.peers, pathlib.Path(__file__).parent / "linear_peer.py"], {}
    command += [*options.shapes, "--precision", line.precision, "--threads", threads, "--seconds", options.seconds]
    try:
        done = subprocess.run(
            list(map(str, command)), env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return None, f"{command[0]}: {error.strerror}"
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    build, *rows = done.stdout.splitlines()
    found = {f"{r['m']},{r['n']},{r['k']}": (float(r["us"]), float(r["error"])) for r in csv.DictReader(rows)}
    return found, build.removeprefix("build=")


def measure_all(options, lines, teams):
    """Returns {threads: {line: {shape: (minimum us, error)}}}, the builds, and {absent line: reason}."""
    found, builds, absent = {threads: {} for threads in teams}, set(), {}
    for number in range(1, options.rounds + 1):
        for threads in teams:
            for line in (line for line in lines if line not in absent):
                shapes, words = run(line, options, threads)
                if shapes is None:
                    absent[line] = words
                    print(f"skipping {' '.join(line)}: {words}", file=sys.stderr)
                    continue
                builds.add(words.replace(f"threads={threads}", "").replace(f", {threads} threads", ""))
                before = found[threads].get(line, shapes)
                found[threads][line] = {shape: min(shapes[shape], before[shape]) for shape in shapes}
        print(f"round {number} is complete", file=sys.stderr)
    return found, builds, absent


# -- results --


def gflops(shape, microseconds):
    m, n, k = map(int, shape.split(","))
    return 2e-3 * m * n * k / microseconds


def of_float32(found, line):
    """Returns the time of each shape divided by its time in float32 with the same vectors; [] if float32 did not
    run."""
    path = "avx512" if line.path in UNITS else line.path
    reference = found.get(Line(line.engine, "float32", path), {})
    return [found[line][shape][0] / reference[shape][0] for shape in reference]


def table(found, shapes):
    header = ["engine", "precision", "path", *(s.replace(",", " x ") for s in shapes), "error", "of float32's time"]
    rows = []
    for line in (line for line in LINES if line in found):
        ratios, errors = of_float32(found, line), [error for _, error in found[line].values()]
        rows.append(
            [
                *line,
                *(f"{gflops(shape, found[line][shape][0]):.0f}" for shape in shapes),
                f"{min(errors):.0e} to {max(errors):.0e}",
                f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "",
            ]
        )
    return markdown_table(header, rows)


def write(options, found, builds, absent):
    with open(options.out / "linear.csv", "w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["engine", "precision", "path", "threads", "m", "n", "k", "us", "gflops", "error"])
        for threads, by_line in found.items():
            for line, by_shape in by_line.items():
                for shape, (us, error) in by_shape.items():
                    figures = [f"{us:.2f}", f"{gflops(shape, us):.1f}", f"{error:.2e}"]
                    lines.writerow([*line, threads, *shape.split(","), *figures])
    text = [
        "# Products in every precision",
        "",
        "x wᵀ, x (m, k) and w (n, k) in float32; GF/s by m x n x k. path: the value of `TAPEHEAD_ISA`; the vector paths "
        f"({', '.join(VECTORS)}) emulate bfloat16 products. error: the largest error divided by the sum of |x w|, for "
        "the best and the worst shape. of float32's time: the time divided by float32's time with the same vectors, for the "
        f"best and the worst shape; emulated bfloat16 should stay below {EMULATION_LIMIT:g}. PyTorch's *bfloat16* has "
        "operands and results in bfloat16.",
        "",
        "; ".join(sorted({build.split(" precision=")[0].strip() for build in builds})) + ".",
    ]
    for threads, by_line in found.items():
        if by_line:
            text += ["", f"## {threads} thread{'s' if threads > 1 else ''}", "", *table(by_line, options.shapes)]
    if absent:
        text += ["", "Skipped:", "", *(f"- {' '.join(filter(None, line))}: {why}." for line, why in absent.items())]
    (options.out / "linear.md").write_text("\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="the program built from linear.c")
    parser.add_argument("--peers", type=pathlib.Path, help="a Python with PyTorch; default: no peers")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="M,N,K")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each shape in each run")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [line for line in LINES if options.peers or line.engine == "tapehead"]
    write(options, *measure_all(options, lines, sorted({1, options.threads})))


if __name__ == "__main__":
    main()
