"""One session: the probe, then every configuration in every engine and precision, round by round, and what report.py
makes of it.

    session.py --programs build/bench/bench --peers build/bench/peers/bin/python --out bench/results

A run is a process of its own. It is repeated, at most twice, when other processes used more than 2 % of the processors
meanwhile; the least disturbed one counts. Where a row of engines.py has several variants, those that fail or are
clearly slower in a round take no part in the next ones. What peers compile in the first round they find again in the others.
Every run is written into a journal at once: a session that was interrupted goes on with --continue."""

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
SLOWER = 1.05  # than the fastest variant of its row: takes no part in further rounds
START = time.monotonic()

# -- the session --


def sit(options, chosen, journal, remarks):
    """Configuration -> row -> the runs of its fastest variant. Adds to remarks what went otherwise than planned."""
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
                        f"{title}, round {number}: disturbed in {REPEATS} runs, "
                        f"other processes used {outcome.disturbance:.1%} of the processors in the quietest"
                    )
                say(f"round {number}: {title} {outcome.values['min_ms']} ms, others {outcome.disturbance:.1%}")
    return {name: fastest_of_each_row(runs[name]) for name in chosen}


def present_rows(options, name):
    """What was chosen for this configuration."""
    rows = quick_rows(name in SMALL) if options.quick else ROWS
    return [row for row in rows if framework(row) in options.engines and row.precision in options.precisions]


def why_absent(options, frameworks):
    """Peer -> why it cannot run at all, for those that cannot."""
    reasons = {}
    for peer in (name for name in FRAMEWORKS[1:] if name in frameworks):
        reason = why_not(options.peers, peer)
        if reason:
            reasons[peer] = f"{peer} is absent: {reason}"
    return reasons


def why_not(python, module):
    """The reason why a module cannot be used; nothing where it can."""
    try:
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
    except OSError as error:
        return f"{python}: {error.strerror}"
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def least(runs):
    return min((run.values["min_ms"] for run in runs), default=0)


def promising(runs, quick):
    """The variants that are not clearly slower than another one of their row, or in a quick session of their engine;
    nor is a slow one given up whose runs were all disturbed."""

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
    if name == "copyA":  # is also how long a thousand steps take from start to end
        return command + ["--steps", 1000]
    if options.quick:
        return command + (["--seconds", 0.5] if name in SMALL else ["--steps", 3])
    return command + ["--seconds", options.seconds]


def say(sentence):
    print(f"{time.monotonic() - START:5.0f} s: {sentence}", file=sys.stderr, flush=True)


# -- what was asked for --


def names_among(every):
    """For argparse: names separated by commas, each of them one of `every`."""

    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in every:
                raise argparse.ArgumentTypeError(f"there is no {name}; there are {', '.join(every)}")
        return names

    return parse


def parse_options():
    every = list(read_configurations())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="directory of train_step and probe")
    parser.add_argument("--peers", type=pathlib.Path, help="a Python with PyTorch and JAX; none: Tapehead alone")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--journal", type=pathlib.Path, help="where runs are written down; default: in --out")
    parser.add_argument("--continue", dest="go_on", action="store_true", help="with what the journal has")
    parser.add_argument("--configurations", type=names_among(every), help="separated by commas, as the next two")
    parser.add_argument("--engines", type=names_among(FRAMEWORKS), default=FRAMEWORKS)
    parser.add_argument("--precisions", type=names_among(PRECISIONS), default=PRECISIONS, help="of any engine")
    parser.add_argument("--rounds", type=int, help="default: 3; with --quick 2")
    parser.add_argument("--seconds", type=float, default=10, help="of measuring in each run, three steps at least")
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
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])  # JAX takes its threads from it
    options.out.mkdir(parents=True, exist_ok=True)
    settings = {name: getattr(options, name) for name in ("threads", "seconds", "quick")}
    journal = Journal(options.journal or options.out / "session.jsonl", settings, options.go_on)
    probe = subprocess.run(
        [options.programs / "probe", "--threads", str(options.threads)], capture_output=True, text=True, check=True
    )
    remarks = []
    with tempfile.TemporaryDirectory() as caches:
        os.environ |= {"TORCHINDUCTOR_CACHE_DIR": f"{caches}/torch", "JAX_COMPILATION_CACHE_DIR": f"{caches}/jax"}
        results = sit(options, options.configurations, journal, remarks)
    report.write(options.out, options.threads, report.read_values(probe.stdout), results, remarks)


if __name__ == "__main__":
    main()
