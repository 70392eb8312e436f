"""Products of layers, x wᵀ of float32 matrices, in every precision on every path that this processor has,
beside PyTorch's, round by round, on one thread and on all: linear.csv, and linear.md with GF/s, errors and what
precisions cost.

    linear.py --program build/bench/bench/linear --peers build/bench/peers/bin/python --out bench/results
    linear.py ... --shapes 997,1009,1013 --rounds 5

Every run is a process of its own and takes all shapes; what counts is the least of the rounds."""

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
VECTORS = ["avx2", "avx512"]  # paths as TAPEHEAD_ISA names them: those that emulate products of bfloat16,
UNITS = ["avx512_bf16", "amx"]  # and those that have them
EMULATION_LIMIT = 2.5  # times float32's product with the same vectors

Line = namedtuple("Line", "engine precision path")  # one of the table; path: TAPEHEAD_ISA
LINES = [
    *(Line("tapehead", "float32", path) for path in VECTORS),
    *(Line("tapehead", precision, path) for precision in ("bfloat16x3", "bfloat16") for path in VECTORS + UNITS),
    *(Line("torch", precision, "") for precision in ("float32", "medium", "bfloat16", "autocast")),
]


def run(line, options, threads):
    """({shape: (us, error)}, build), or (None, why not)."""
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


def sit(options, lines, teams):
    """threads -> line -> shape -> (least us, error); the builds; why lines are absent."""
    found, builds, absent = {threads: {} for threads in teams}, set(), {}
    for number in range(1, options.rounds + 1):
        for threads in teams:
            for line in (line for line in lines if line not in absent):
                shapes, words = run(line, options, threads)
                if shapes is None:
                    absent[line] = words
                    print(f"{' '.join(line)} left out: {words}", file=sys.stderr)
                    continue
                builds.add(words.replace(f"threads={threads}", "").replace(f", {threads} threads", ""))
                before = found[threads].get(line, shapes)
                found[threads][line] = {shape: min(shapes[shape], before[shape]) for shape in shapes}
        print(f"round {number} is over", file=sys.stderr)
    return found, builds, absent


# -- what came out --


def gflops(shape, microseconds):
    m, n, k = map(int, shape.split(","))
    return 2e-3 * m * n * k / microseconds


def of_float32(found, line):
    """Times in times of float32's with the same vectors, by shape; none where there is nothing to compare."""
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
        "x wᵀ, x (m, k) and w (n, k) in float32, GF/s by m x n x k. path: what `TAPEHEAD_ISA` names; the vectors "
        f"({', '.join(VECTORS)}) emulate products of bfloat16. error: the largest of a shape, as a share of the sum of "
        "|x w|, in the best shape and in the worst. of float32's time: the time in times of float32's with the "
        f"same vectors, likewise; emulated bfloat16 should stay below {EMULATION_LIMIT:g}. PyTorch's *bfloat16* has operands "
        "and result in bfloat16 from the beginning.",
        "",
        "; ".join(sorted({build.split(" precision=")[0].strip() for build in builds})) + ".",
    ]
    for threads, by_line in found.items():
        if by_line:
            text += ["", f"## {threads} thread{'s' if threads > 1 else ''}", "", *table(by_line, options.shapes)]
    if absent:
        text += ["", "Left out:", "", *(f"- {' '.join(filter(None, line))}: {why}." for line, why in absent.items())]
    (options.out / "linear.md").write_text("\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="linear, as built from linear.c")
    parser.add_argument("--peers", type=pathlib.Path, help="a Python with PyTorch; none: Tapehead alone")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="M,N,K")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each shape in each run")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [line for line in LINES if options.peers or line.engine == "tapehead"]
    write(options, *sit(options, lines, sorted({1, options.threads})))


if __name__ == "__main__":
    main()
