"""Runs one session: the probe, then every configuration in every engine and precision, round by round; then report.py
writes the results.

    session.py --programs build-bench/bench --peers build-bench/peers/bin/python --out bench/results

Every run is a separate process. It is repeated at most twice if other processes used more than 2 % of the processors;
the least disturbed run counts. If a row of engines.py has several variants, a variant that fails or is clearly slower
is left out of the next rounds. Peers reuse the code that they compiled in the first round. Every run is recorded in a
journal immediately; --continue resumes an interrupted session."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import report
from configurations import read_configurations
from engines import FRAMEWORKS, OWN, PRECISIONS, ROWS, framework, quick_rows, variants
from runs import DISTURBED, REPEATS, Journal, Run, run

QUICK = ["copyA", "copyB", "char12", "gpt2s"]
SMALL = ["copyA", "copyB"]
SLOWER = 1.05  # a variant is left out if it is slower than the fastest of its row by this factor
START = time.monotonic()

# -- the session --


def run_session(options, chosen, journal, remarks):
    """Returns {configuration: {row: runs of its fastest variant}}. Adds failures and disturbances to remarks."""
    rows = {name: present_rows(options, name) for name in chosen}
    absent = why_absent(options, {framework(row) for some in rows.values() for row in some})
    remarks += absent.values()
    runs = {
        name: {v: [] for row in rows[name] if framework(row) not in absent for v in variants(row, options.quick)}
        for name in chosen
    }
    failed = set()
    for number in range(1, options.rounds + 1):
        for name in chosen:
            for variant in promising(runs[name], options.quick):
                if (name, variant) in failed:
                    continue
                key = (number, name, *variant.row, variant.name)
                outcome = journal.run(key, lambda: run(command_of(options, name, variant), variant.environment))
                title = " ".join(filter(None, [name, *variant.row, variant.name]))
                if isinstance(outcome, str):
                    failed.add((name, variant))
                    remarks.append(f"{title} failed in round {number}: {outcome}")
                    say(remarks[-1])
                    continue
                runs[name][variant].append(outcome)
                if outcome.disturbance > DISTURBED:
                    remarks.append(
                        f"{title}, round {number}: disturbed in all {REPEATS} runs; "
                        f"other processes used at least {outcome.disturbance:.1%} of the processors"
                    )
                say(f"round {number}: {title} {outcome.values['min_ms']} ms, others {outcome.disturbance:.1%}")
    return {name: fastest_of_each_row(runs[name]) for name in chosen}


def present_rows(options, name):
    """Returns the chosen rows for this configuration."""
    rows = quick_rows(name in SMALL) if options.quick else ROWS
    return [row for row in rows if framework(row) in options.engines and row.precision in options.precisions]


def why_absent(options, frameworks):
    """Returns {peer: reason} for peers that cannot run."""
    reasons = {}
    for peer in (name for name in FRAMEWORKS[1:] if name in frameworks):
        reason = why_not(options.peers, peer)
        if reason:
            reasons[peer] = f"{peer} is not available: {reason}"
    return reasons


def why_not(python, module):
    """Returns why a module cannot be imported, or ""."""
    try:
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
    except OSError as error:
        return f"{python}: {error.strerror}"
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def least(runs):
    return min((run.values["min_ms"] for run in runs), default=0)


def promising(runs, quick):
    """Returns the variants for the next round: all except those that are clearly slower than another variant of their
    row (in a quick session: of their engine). A slow variant stays if all its runs were disturbed."""

    def rivals(variant):
        return [v for v in runs if runs[v] and v.row.engine == variant.row.engine and (quick or v.row == variant.row)]

    def slow(variant):
        return any(least(runs[variant]) > SLOWER * least(runs[rival]) for rival in rivals(variant))

    return [
        variant
        for variant in runs
        if variant.row in OWN or not slow(variant) or all(run.disturbance > DISTURBED for run in runs[variant])
    ]


def fastest_of_each_row(runs):
    rows = {}
    for variant in sorted((variant for variant in runs if runs[variant]), key=lambda variant: least(runs[variant])):
        environment = " ".join(f"{name}={value}" for name, value in variant.environment)
        rows.setdefault(
            variant.row,
            [
                Run({**r.values, "variant": variant.name, "environment": environment}, r.disturbance)
                for r in runs[variant]
            ],
        )
    return {row: rows[row] for row in ROWS if row in rows}


def command_of(options, name, variant):
    peer = framework(variant.row)
    if peer == "tapehead":
        command = [options.programs / "train_step"]
    else:
        command = [options.peers, pathlib.Path(__file__).parent / f"{peer}_step.py"]
    command += [name, "--precision", variant.row.precision, "--threads", options.threads]
    command += ["--variant", variant.name] if variant.name else []
    if name == "copyA":  # copyA also measures the total time of 1000 steps
        return command + ["--steps", 1000]
    if options.quick:
        return command + (["--seconds", 0.5] if name in SMALL else ["--steps", 3])
    return command + ["--seconds", options.seconds]


def say(sentence):
    print(f"{time.monotonic() - START:5.0f} s: {sentence}", file=sys.stderr, flush=True)


# -- options --


def names_among(every):
    """Returns a parser for argparse: names separated by commas, each one of `every`."""

    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in every:
                raise argparse.ArgumentTypeError(f"unknown name {name}; choose from {', '.join(every)}")
        return names

    return parse


def parse_options():
    every = list(read_configurations())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder with train_step and probe")
    parser.add_argument("--peers", type=pathlib.Path, help="a Python with PyTorch and JAX; default: no peers")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--journal", type=pathlib.Path, help="file that records runs; default: in --out")
    parser.add_argument("--continue", dest="resume", action="store_true", help="resume the session in the journal")
    parser.add_argument("--configurations", type=names_among(every), help="separated by commas, like the next two")
    parser.add_argument("--engines", type=names_among(FRAMEWORKS), default=FRAMEWORKS)
    parser.add_argument("--precisions", type=names_among(PRECISIONS), default=PRECISIONS, help="of all engines")
    parser.add_argument("--rounds", type=int, help="default: 3; with --quick 2")
    parser.add_argument("--seconds", type=float, default=10, help="to measure in each run, but at least three steps")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 3)
    options.configurations = options.configurations or (QUICK if options.quick else every)
    if not options.peers:
        options.engines = [name for name in options.engines if name == "tapehead"]
    return options


def main():
    options = parse_options()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # JAX uses one thread for each of them
    options.out.mkdir(parents=True, exist_ok=True)
    settings = {name: getattr(options, name) for name in ("threads", "seconds", "quick")}
    journal = Journal(options.journal or options.out / "session.jsonl", settings, options.resume)
    probe = subprocess.run(
        [options.programs / "probe", "--threads", str(options.threads)], capture_output=True, text=True, check=True
    )
    remarks = []
    with tempfile.TemporaryDirectory() as caches:
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/torch", "JAX_COMPILATION_CACHE_DIR": f"{caches}/jax"}
        results = run_session(options, options.configurations, journal, remarks)
    report.write(options.out, options.threads, report.read_values(probe.stdout), results, remarks)


if __name__ == "__main__":
    main()
