#!/usr/bin/env python3
"""Trains models with several settings and seeds, and appends a line for each run to a CSV file.

    recipes.py run TEXT --settings FILE [--seeds 1,2] [--threads N] [--csv FILE] [--program PATH]
    recipes.py table [--against "OPTION..."] [--csv FILE]

Each line of the settings' FILE (-: standard input) has options of `language_model train`; # begins a comment. An option
that is not given has the value of BASE, so a line of the CSV file repeats the run even if defaults change.

Only the first nine tenths of TEXT are read: settings are compared without the last tenth, on which others validate. Of
these nine tenths, the last tenth is held out. The loss is the mean over all tokens of the held-out part, with the
weights at the end, in windows that do not overlap. Nothing is carried from a window to the next.

`run` omits runs that are in the CSV file, so it continues an interrupted session. It builds the program for this
processor into build-bench unless --program names one. `table` prints means, and differences from the runs with the
options --against (default: the first line) and the same seeds, with their standard errors."""

import argparse
import csv
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

from report import markdown_table

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE = (
    "--layers 4 --heads 4 --width 128 --length 64 --dropout 0 --steps 2000 --batch 12 --lr 0.003 --min-lr -1 "
    "--warmup 100 --weight-decay 0.1 --beta1 0.9 --beta2 0.99 --clip 1"
)
COLUMNS = (
    "text,text_crc32,options,seed,threads,tokens,steps,parameters,wall_seconds,processor_seconds,loss,processor"
).split(",")
OWN_OPTIONS = set(
    "--recipe --minutes --seed --threads --validation --eval-every --eval-batches --force --quiet --memory".split()
)


def parse_options(text):
    """Returns a dictionary: option -> value; None if the option has no value."""
    options, name = {}, None
    for word in shlex.split(text, comments=True):
        if word.startswith("--"):
            name = word
            options[name] = None
        elif name is None or options[name] is not None:
            sys.exit(f"recipes.py: {word} in the settings {text.strip()!r} is not the value of an option")
        else:
            options[name] = word
    own = OWN_OPTIONS & options.keys()
    if own:
        sys.exit(f"recipes.py: the settings {text.strip()!r} have {own.pop()}, which recipes.py sets itself")
    return options


def complete(text):
    """Returns all options of a setting as one text: those of BASE first."""
    options = {**parse_options(BASE), **parse_options(text)}
    return " ".join(shlex.quote(word) for pair in options.items() for word in pair if word is not None)


def read_rows(path):
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append_row(path, row, columns):
    new = not path.exists()
    with open(path, "a", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            rows.writeheader()
        rows.writerow(row)


def processor_name():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


def build():
    directory = ROOT / "build-bench"
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DTAPEHEAD_TESTS=OFF", "-DTAPEHEAD_EXAMPLES=ON", "-DTAPEHEAD_ISAS=native"]
    subprocess.run(["cmake", "-S", ROOT, "-B", directory, *options], stdout=subprocess.DEVNULL, check=True)
    command = ["cmake", "--build", directory, "--parallel", str(os.cpu_count()), "--target", "language_model"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return directory / "programs" / "language_model"


def measure_command(command, options):
    """Returns the figures of one run. The seconds are from the start of the process to its end."""
    before, begin = os.times(), time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True)
    wall, after = time.perf_counter() - begin, os.times()
    found = re.search(r" loss=(\S+)", ended.stdout)
    if ended.returncode != 0 or not found:
        sys.exit(f"recipes.py: {shlex.join(map(str, command))} failed:\n{ended.stderr}")
    size = parse_options(options)
    steps = int(re.search(r" steps=(\d+)", ended.stdout)[1])
    return {
        "tokens": steps * int(size["--batch"]) * int(size["--length"]) * int(size.get("--accumulate", 1)),
        "steps": steps,
        "parameters": re.search(r" parameters=(\d+)", ended.stdout)[1],
        "wall_seconds": f"{wall:.2f}",
        "processor_seconds": f"{after[2] + after[3] - before[2] - before[3]:.2f}",
        "loss": found[1],
    }


def measure(program, text, options, seed, threads, directory):
    """Returns the figures of one run of language_model."""
    words = shlex.split(options)
    own = f"--recipe nanogpt --seed {seed} --threads {threads} --validation 0.1 --eval-batches 1 --eval-every 1000000000"
    own += " --quiet --force"
    if "--sample-tokens" not in words:
        own += " --sample-tokens 0"
    return measure_command([program, "train", text, directory / "run", *words, *own.split()], options)


def run(given):
    with open(given.text, encoding="utf-8", newline="") as file:
        whole = file.read()
    text = whole[: len(whole) * 9 // 10].encode()
    with sys.stdin if given.settings == "-" else open(given.settings, encoding="utf-8") as file:
        settings = [complete(line) for line in file if shlex.split(line, comments=True)]
    crc = f"{zlib.crc32(text):08x}"
    done = {(row["text_crc32"], row["options"], row["seed"]) for row in read_rows(given.csv)}
    wanted = [(options, seed) for options in settings for seed in given.seeds.split(",")]
    missing = [pair for pair in wanted if (crc, *pair) not in done]
    print(f"recipes.py: {len(missing)} of {len(wanted)} runs are missing in {given.csv}", file=sys.stderr)
    program = given.program or (build() if missing else None)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        (directory / "text").write_bytes(text)
        for options, seed in missing:
            figures = measure(program, directory / "text", options, seed, given.threads, directory)
            described = {"text": pathlib.Path(given.text).name, "text_crc32": crc, "options": options, "seed": seed}
            machine = {"threads": given.threads, "processor": processor_name()}
            append_row(given.csv, {**described, **machine, **figures}, COLUMNS)
            print(f"loss {figures['loss']}  seed {seed}  {options}", file=sys.stderr)


def difference(rows, reference):
    """Returns the mean difference of the losses of equal seeds, with its standard error if there are several."""
    losses = {row["seed"]: float(row["loss"]) for row in reference}
    found = [float(row["loss"]) - losses[row["seed"]] for row in rows if row["seed"] in losses]
    if not found or rows is reference:
        return "-"
    error = f" ± {statistics.stdev(found) / len(found) ** 0.5:.4f}" if len(found) > 1 else ""
    return f"{statistics.mean(found):+.4f}{error}"


def describe(options, reference):
    """Returns the options that differ from those of the reference."""
    own, other = parse_options(options), parse_options(reference)
    changed = [f"{name} {value}" if value else name for name, value in own.items() if other.get(name, "") != value]
    return " ".join(changed + [f"no {name}" for name in other if name not in own]) or "the reference"


def mean(rows, column):
    return statistics.mean(float(row[column]) for row in rows)


def print_table(rows, against):
    """Prints the table of one text."""
    groups = {}
    for row in rows:
        groups.setdefault(row["options"], []).append(row)
    first = complete(against) if against is not None else rows[0]["options"]
    if first not in groups:
        sys.exit(f"recipes.py: there is no run of {rows[0]['text']} with the options {first}")
    header = ["options", "seeds", "loss", "difference", "steps", "tokens", "processor seconds", "wall seconds"]
    lines = []
    for options, group in sorted(groups.items(), key=lambda item: mean(item[1], "loss")):
        seconds = [f"{mean(group, column):.1f}" for column in ("processor_seconds", "wall_seconds")]
        loss, change = f"{mean(group, 'loss'):.4f}", difference(group, groups[first])
        counts = [f"{mean(group, column):.0f}" for column in ("steps", "tokens")]
        lines.append([describe(options, first), str(len(group)), loss, change, *counts, *seconds])
    print(f"{rows[0]['text']}. The reference is `{first}`.\n")
    print("\n".join(markdown_table(header, lines)) + "\n")


def table(given):
    texts = {}
    for row in read_rows(given.csv):
        texts.setdefault(row["text_crc32"], []).append(row)
    if not texts:
        sys.exit(f"recipes.py: {given.csv} has no runs")
    for rows in texts.values():
        print_table(rows, given.against)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    parsers = {name: commands.add_parser(name) for name in ("run", "table")}
    for command in parsers.values():
        command.add_argument("--csv", type=pathlib.Path, default=ROOT / "bench" / "results" / "recipes.csv")
    parsers["run"].add_argument("text")
    parsers["run"].add_argument("--settings", required=True)
    parsers["run"].add_argument("--seeds", default="1")
    parsers["run"].add_argument("--threads", type=int, default=os.cpu_count())
    parsers["run"].add_argument("--program", type=pathlib.Path)
    parsers["run"].set_defaults(function=run)
    parsers["table"].add_argument("--against")
    parsers["table"].set_defaults(function=table)
    given = parser.parse_args()
    given.function(given)


if __name__ == "__main__":
    main()
