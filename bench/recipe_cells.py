#!/usr/bin/env python3
"""Compares the recipe that `language_model train FILE run` chooses with two others, in equal time, on several texts.

    recipe_cells.py run TEXT... [--minutes N] [--seeds 1,2,3] [--threads N] [--csv FILE] [--program PATH]
    recipe_cells.py table [--csv FILE]

The others are the recipe nanogpt with language_model's own settings, and with the settings that nanoGPT has for a CPU.
The first run of a text and a recipe gets --minutes N and chooses its number of steps. Runs with other seeds repeat its
command, so that they may run on a busy machine. All recipes are evaluated once, at the end, on the same characters: the
end of the text, at most a tenth and 200,000. The loss is a mean over them, in windows that do not overlap; a recipe's
windows are as long as its model allows.

texts.py makes three texts of three sizes. `run` omits runs that the CSV file has; `table` prints means and standard
deviations over the seeds."""

import argparse
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

import recipes
from report import markdown_table

NANOGPT = "--no-bias --lr 0.001 --min-lr 0.0001 --warmup 100 --weight-decay 0.1 --beta2 0.99 --clip 1 --dropout 0"
RECIPES = {"default": "", "language_model nanogpt": "--recipe nanogpt", "nanoGPT": f"--recipe nanogpt {NANOGPT}"}
COLUMNS = "text,text_crc32,recipe,minutes,seed,threads,steps,parameters,wall_seconds,processor_seconds,loss,options".split(",")


def validation_share(path):
    """Returns the share of the text's characters that is held out."""
    return min(0.1, 200000 / len(path.read_text(encoding="utf-8")))


def measure(program, path, options, threads, directory):
    """Returns the figures of one run, and the options that repeat it."""
    own = f"--threads {threads} --quiet --force --eval-every 1000000000 --sample-tokens 0"
    command = [program, "train", path, directory / "run", *options, *own.split()]
    before, begin = os.times(), time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True)
    wall, after = time.perf_counter() - begin, os.times()
    found = {name: re.search(rf" {name}=(\S+)", ended.stdout) for name in ("loss", "steps", "parameters")}
    if ended.returncode != 0 or None in found.values():
        sys.exit(f"recipe_cells.py: {shlex.join(map(str, command))} failed:\n{ended.stderr}")
    stored = shlex.split((directory / "run" / "command.txt").read_text()) if "--minutes" in options else []
    return {
        "wall_seconds": f"{wall:.2f}",
        "processor_seconds": f"{after[2] + after[3] - before[2] - before[3]:.2f}",
        "options": shlex.join(without_seed(stored[4:]) if stored else without_seed(options)),
        **{name: match[1] for name, match in found.items()},
    }


def without_seed(words):
    kept, skipped = [], False
    for word in words:
        if not skipped and word not in ("--seed", "--threads"):
            kept.append(word)
        skipped = word in ("--seed", "--threads") and not skipped
    return kept


def run(given):
    program = given.program or recipes.build()
    for path in given.texts:
        own = {"text": path.name, "text_crc32": f"{zlib.crc32(path.read_bytes()):08x}", "minutes": str(given.minutes)}
        for recipe, options in RECIPES.items():
            for seed in given.seeds.split(","):
                cell = {**own, "recipe": recipe, "threads": str(given.threads)}
                rows = [row for row in recipes.read_rows(given.csv) if cell.items() <= row.items()]
                if any(row["seed"] == seed for row in rows):
                    continue
                first = [*shlex.split(options), "--minutes", str(given.minutes), "--validation", str(validation_share(path))]
                words = shlex.split(rows[0]["options"]) if rows else first
                with tempfile.TemporaryDirectory() as directory:
                    figures = measure(program, path, [*words, "--seed", seed], given.threads, pathlib.Path(directory))
                recipes.append_row(given.csv, {**cell, "seed": seed, **figures}, COLUMNS)
                print(f"loss {figures['loss']}  {recipe}  {path.name}  seed {seed}", file=sys.stderr)


def describe(rows):
    losses = [float(row["loss"]) for row in rows]
    deviation = f" ± {statistics.stdev(losses):.4f}" if len(losses) > 1 else ""
    return f"{statistics.mean(losses):.4f}{deviation}"


def table(given):
    texts = {}
    for row in recipes.read_rows(given.csv):
        key = (row["text"], row["minutes"], row["threads"])
        texts.setdefault(key, {}).setdefault(row["recipe"], []).append(row)
    lines = []
    for (text, minutes, threads), found in texts.items():
        counts = " ".join(str(len(rows)) for rows in found.values())
        losses = [describe(found[recipe]) if recipe in found else "-" for recipe in RECIPES]
        lines.append([text, minutes, threads, counts, *losses])
    print("\n".join(markdown_table(["text", "minutes", "threads", "seeds", *RECIPES], lines)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    parsers = {name: commands.add_parser(name) for name in ("run", "table")}
    for command in parsers.values():
        command.add_argument("--csv", type=pathlib.Path, default=recipes.ROOT / "bench" / "results" / "recipe_cells.csv")
    parsers["run"].add_argument("texts", type=pathlib.Path, nargs="+", metavar="TEXT")
    parsers["run"].add_argument("--minutes", type=float, default=1)
    parsers["run"].add_argument("--seeds", default="1,2,3")
    parsers["run"].add_argument("--threads", type=int, default=os.cpu_count())
    parsers["run"].add_argument("--program", type=pathlib.Path)
    parsers["run"].set_defaults(function=run)
    parsers["table"].set_defaults(function=table)
    given = parser.parse_args()
    given.function(given)


if __name__ == "__main__":
    main()
