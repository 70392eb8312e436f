#!/usr/bin/env python3
"""Trains each row of the race (see race.sh) with each seed, appends a line for each run to race.csv, and writes race.md
and race.svg.

    race.py --text FILE [--rows NAME,...] [--seeds N] [--threads N] [--out DIRECTORY] [--python PYTHON] [--program PATH]
            [--steps N]

RECIPES has the options of each recipe, its number of steps among them. They were found without the last tenth of the
text (recipes.py). A row is a recipe and an engine. recipes.py runs both engines and measures them."""

import argparse
import math
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import zlib

import chart
import recipes
from report import markdown_table

# nanoGPT's settings for a CPU: GPT-2 without biases.
NANOGPT = (
    "--layers 4 --heads 4 --width 128 --length 64 --dropout 0 --batch 12 --no-bias --lr 0.001 --min-lr 0.0001 "
    "--warmup 100 --weight-decay 0.1 --beta1 0.9 --beta2 0.99 --clip 1 --schedule cosine --optimizer adamw"
)
OURS = (
    "--layers 4 --heads 4 --width 128 --dropout 0 --llama --qk-norm --uniform-init --zero-init "
    "--embedding-std 0.3 --bigram 4226 --value-residual --optimizer muon --lr 0.02 --adam-lr 0.01 --min-lr 0 "
    "--weight-decay 0.1 --beta1 0.9 --beta2 0.99 --clip 1 --schedule wsd --decay 1"
)
RECIPES = {  # name: target of the validation loss, steps, other options
    "nanogpt": (1.88, 2000, NANOGPT),
    "ours-1.88": (1.88, 360, f"{OURS} --length 64 --batch 8 --warmup 20"),
    "ours-1.60": (1.60, 1400, f"{OURS} --length 64 --batch 12 --warmup 50"),
    "ours-1.55": (1.55, 2400, f"{OURS} --length 64 --batch 12 --warmup 50"),
    "ours-1.4697": (1.4697, 6000, f"{OURS} --length 256 --batch 4 --warmup 50"),
}
ENGINES = ("tapehead", "tapehead-bfloat16", "torch")
ROWS = [f"{recipe}-{engine}" for recipe in RECIPES for engine in ENGINES]
COLUMNS = ["row", "target", *recipes.COLUMNS]
FEWEST_SEEDS, LEVEL = 5, 0.01


def t_probability(t, degrees):
    """Returns the probability of a value above t in Student's distribution with a whole number of degrees of freedom
    (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, total = (cosine if odd else 1.0), 0.0
    for i in range(1 + odd, degrees, 2):
        total += term
        term *= cosine * cosine * i / (i + 1)
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return (1 - inside) / 2


def test_below(losses, target):
    """Returns mean, standard deviation, t and p of the one-sided test that the mean loss is below the target."""
    mean = statistics.mean(losses)
    if len(losses) < 2:
        return mean, math.nan, math.nan, math.nan
    deviation = statistics.stdev(losses)
    if deviation == 0:
        t = math.copysign(math.inf, target - mean) if mean != target else 0.0
    else:
        t = (target - mean) / (deviation / math.sqrt(len(losses)))
    return mean, deviation, t, t_probability(t, len(losses) - 1)


def split_row(row):
    """Returns recipe and engine of a row."""
    return next((recipe, row[len(recipe) + 1 :]) for recipe in RECIPES if row.startswith(recipe + "-"))


def options_of(row, steps):
    recipe, engine = split_row(row)
    options = f"{RECIPES[recipe][2]} --steps {steps or RECIPES[recipe][1]}"
    return options + (" --precision bfloat16" if engine == "tapehead-bfloat16" else "")


def run_row(row, options, seed, given, program, directory):
    """Returns the figures of one run."""
    if split_row(row)[1] != "torch":
        return recipes.measure(program, given.text, options, seed, given.threads, directory)
    peer = [given.python, recipes.ROOT / "bench" / "torch_recipe.py", given.text]
    command = [*peer, *shlex.split(options), "--seed", str(seed), "--threads", str(given.threads)]
    return recipes.measure_command(command, options)


def describe(rows):
    """Returns the cells of one row of the table."""
    losses = [float(run["loss"]) for run in rows]
    target = float(rows[0]["target"])
    mean, deviation, t, p = test_below(losses, target)
    reached = "too few seeds" if len(losses) < FEWEST_SEEDS else "yes" if p < LEVEL else "no"
    seconds = [f"{recipes.mean(rows, column):.1f}" for column in ("wall_seconds", "processor_seconds")]
    counts = [rows[0]["steps"], rows[0]["parameters"], str(len(rows))]
    numbers = [f"{target:g}", f"{mean:.4f}", f"{deviation:.4f}", f"{t:.2f}", f"{p:.2g}", reached]
    return [rows[0]["row"], *counts, *("-" if number == "nan" else number for number in numbers), *seconds]


def report(path):
    """Returns the Markdown page of the runs in the CSV file."""
    header = ["row", "steps", "parameters", "seeds", "target", "mean loss", "standard deviation", "t", "p", "below the target"]
    header += ["wall seconds", "processor seconds"]
    machines = {}
    for run in recipes.read_rows(path):
        machine = f"{run['text']} (CRC-32 {run['text_crc32']}), {run['processor']}, {run['threads']} threads"
        machines.setdefault(machine, {}).setdefault((run["row"], run["target"], run["options"]), []).append(run)
    lines = ["# The race to a validation loss\n"]
    lines.append("`bench/race.sh` made this page from race.csv; bench/README.md has the rule.")
    for machine, rows in machines.items():
        lines += [f"\n## {machine}\n", *markdown_table(header, [describe(runs) for runs in rows.values()]), ""]
        lines += [f"- {row}: `{options}`" for row, _, options in rows]
    return "\n".join(lines) + "\n"


def engine_and_recipe(row):
    recipe, engine = split_row(row)
    engine = {"tapehead": "Tapehead", "tapehead-bfloat16": "Tapehead (bfloat16)", "torch": "PyTorch"}[engine]
    return f"{engine}, {'nanoGPT’s recipe' if recipe == 'nanogpt' else 'our recipe'}"


def draw(csv, picture):
    """Draws the mean loss over the mean seconds of each row of RECIPES, for the last run's text and machine."""
    runs = recipes.read_rows(csv)
    shown, points = {}, {}
    for run in runs:
        is_same = all(run[column] == runs[-1][column] for column in ("text_crc32", "processor", "threads"))
        if is_same and run["options"] == options_of(run["row"], None):
            shown.setdefault(run["row"], []).append(run)
    for row, seeds in shown.items():
        point = recipes.mean(seeds, "wall_seconds"), recipes.mean(seeds, "loss")
        points.setdefault(engine_and_recipe(row), []).append(point)
    if points:
        lines = {name: sorted(some) for name, some in sorted(points.items())}
        title = f"Loss on the validation tenth of {runs[-1]['text']}, {runs[-1]['processor']}, {runs[-1]['threads']} threads"
        chart.logarithmic(picture, title, [("seconds of the whole program", "loss", lines)])


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def rows_to_run(given):
    rows = given.rows.split(",") if given.rows else ROWS
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        sys.exit(f"race.py: there is no row {unknown[0]}; the rows are {', '.join(ROWS)}")
    if any(split_row(row)[1] == "torch" for row in rows) and not has_torch(given.python):
        print(f"race.py: {given.python} has no PyTorch, so the rows of torch are left out", file=sys.stderr)
        rows = [row for row in rows if split_row(row)[1] != "torch"]
    return rows


def missing_runs(given, csv, crc):
    """Returns row, options and seed of the runs that the CSV file lacks for this text and this machine, seed by seed."""
    columns = ("row", "text_crc32", "options", "seed", "threads", "processor")
    done = {tuple(run[column] for column in columns) for run in recipes.read_rows(csv)}
    machine = (str(given.threads), recipes.processor_name())
    wanted = [(row, options_of(row, given.steps), str(seed)) for seed in range(1, given.seeds + 1) for row in given.rows]
    return [run for run in wanted if (run[0], crc, *run[1:], *machine) not in done]


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--rows")
    parser.add_argument("--seeds", type=int, default=FEWEST_SEEDS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--steps", type=int)
    given = parser.parse_args()
    for name in ("seeds", "threads", "steps"):
        value = getattr(given, name)
        if value is not None and value < 1:
            sys.exit(f"race.py: --{name} must be at least 1, not {value}")
    if given.steps and not given.out:
        sys.exit("race.py: --steps only tries the rows: name a directory for its results with --out")
    given.out = given.out or recipes.ROOT / "bench" / "results"
    if not given.text.is_file():
        sys.exit(f"race.py: there is no text {given.text}")
    given.rows = rows_to_run(given)
    return given


def main():
    given = read_options()
    csv, page = given.out / "race.csv", given.out / "race.md"
    given.out.mkdir(parents=True, exist_ok=True)
    crc = f"{zlib.crc32(given.text.read_bytes()):08x}"
    missing = missing_runs(given, csv, crc)
    print(f"race.py: {len(missing)} of {len(given.rows) * given.seeds} runs are missing in {csv}", file=sys.stderr)
    tapehead = any(split_row(row)[1] != "torch" for row, _, _ in missing)
    program = given.program or (recipes.build() if tapehead else None)
    described = {"text": given.text.name, "text_crc32": crc}
    machine = {"threads": given.threads, "processor": recipes.processor_name()}
    with tempfile.TemporaryDirectory() as directory:
        for row, options, seed in missing:
            figures = run_row(row, options, seed, given, program, pathlib.Path(directory))
            own = {"row": row, "target": RECIPES[split_row(row)[0]][0], "options": options, "seed": seed}
            recipes.append_row(csv, {**own, **described, **machine, **figures}, COLUMNS)
            print(f"{row}  seed {seed}  loss {figures['loss']}  {figures['wall_seconds']} s", file=sys.stderr)
    if csv.exists():
        page.write_text(report(csv), encoding="utf-8")
        draw(csv, given.out / "race.svg")
        print(report(csv), end="")


if __name__ == "__main__":
    main()
