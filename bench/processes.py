"""Runs training steps in several processes: Tapehead over MPI beside PyTorch's DistributedDataParallel with gloo.
Writes processes.csv, and processes.md (processes_report.py) with the prediction of cost_model.py.

    processes.py --programs build-bench/bench --peers build-bench/peers/bin/python --out bench/results

On one machine, with the batch divided (strong scaling) and with the same batch for each process (weak scaling); and on
emulated networks (network.c). A round runs every condition once, in every engine. Every run is recorded in a journal
immediately; --continue resumes an interrupted session. processes.sh builds the programs."""

import argparse
import csv
import os
import pathlib
import statistics
import sys
import time

import cost_model
import processes_report
from configurations import read_configurations
from engines import KEEP_MEMORY
from nodes import Failure, Network, ThisMachine, commands_of_mpi, commands_of_ranks, end_with_exit, run_together
from processes_report import ENGINES, NETWORKS, ONE_MACHINE, PREDICTED_ONLY, Condition
from report import read_values
from runs import DISTURBED, REPEATS, TICK, Journal, Run, busy_seconds, processor_seconds
from session import names_among

CONFIGURATIONS = ["copyA", "copyB", "char12", "gpt2s"]
LONGEST = 600  # time limit of a run in seconds
COLUMNS = "min_ms median_ms local_median_ms exchange_ms transport_ms all_reduce_ms bytes peak_rss_mib".split()
START = time.monotonic()


# -- conditions --


def conditions(options):
    """Yields all conditions, those of a configuration and a network together."""
    for name in options.configurations:
        batch = read_configurations()[name].batch
        counts = [n for n in options.processes if batch % n == 0]
        yield Condition(name, ONE_MACHINE, "strong", 1, 1)
        yield Condition(name, ONE_MACHINE, "strong", 1, 2)
        for scaling in ("strong", "weak"):
            yield from (Condition(name, ONE_MACHINE, scaling, n, 1) for n in counts)
        for network in options.networks:
            yield from (Condition(name, network, "strong", n, 1) for n in counts)
    if "tapehead" in options.engines and options.large:
        yield Condition(PREDICTED_ONLY, ONE_MACHINE, "strong", 1, 1)


def command_of(options, engine, c):
    """Returns the command of a process, without --started."""
    if engine == "torch":
        program = "torch_step.py" if c.processes == 1 else "ddp_step.py"
        command = [options.peers, pathlib.Path(__file__).parent / program, c.configuration, "--variant", "tuned"]
    else:
        program = "train_step" if c.processes == 1 else "processes_step"
        command = [options.programs / program, c.configuration]
    command += ["--weak"] if c.scaling == "weak" else []
    return [*command, "--threads", c.threads, "--seconds", options.seconds]


# -- runs --


def place_of(options, c):
    if c.network == ONE_MACHINE:
        return ThisMachine()
    return Network(options.programs / "network", c.processes, *NETWORKS[c.network])


def run(options, engine, c):
    """Returns the least disturbed of at most REPEATS runs as a Run, or the reason for a failure as a string. On a
    network other processes are not counted: it needs processor time itself."""
    best = None
    for _ in range(REPEATS if c.network == ONE_MACHINE else 1):
        start, busy, own = time.monotonic(), busy_seconds(), processor_seconds()
        try:
            with place_of(options, c) as place:
                values = read_values(run_together(commands_of(options, engine, c, place), LONGEST))
        except Failure as failure:
            return str(failure)
        others = busy_seconds() - busy - (processor_seconds() - own)
        share = others / ((time.monotonic() - start) * os.cpu_count()) if others > 5 / TICK else 0.0
        if best is None or share < best.disturbance:
            best = Run(values, share)
        if share <= DISTURBED:
            break
    return best


def commands_of(options, engine, c, place):
    command = command_of(options, engine, c)
    if c.processes == 1:
        return [(command, dict(KEEP_MEMORY) if engine == "torch" else {})]
    if engine == "tapehead":
        return commands_of_mpi(place, c.processes, command)
    return [(words, {**dict(KEEP_MEMORY), **e}) for words, e in commands_of_ranks(place, c.processes, command)]


def run_session(options, journal):
    """Returns ({(engine, condition): [Run of each round]}, remarks)."""
    results, remarks, failed = {}, [], set()
    for number in range(1, options.rounds + 1):
        for c in conditions(options):
            for engine in options.engines:
                if (engine, c) in failed or (c.configuration == PREDICTED_ONLY and (engine, number) != ("tapehead", 1)):
                    continue
                title = f"{engine} {c.configuration}, {c.network}, {c.scaling}, {c.processes} x {c.threads}"
                outcome = journal.run((number, engine, *c), lambda e=engine, c=c: run(options, e, c))
                if isinstance(outcome, str):
                    failed.add((engine, c))
                    remarks.append(f"{title} failed in round {number}: {outcome}")
                    say(remarks[-1])
                    continue
                results.setdefault((engine, c), []).append(outcome)
                say(f"round {number}: {title}: {outcome.values['median_ms']} ms")
    return results, remarks + disturbances(results)


def disturbances(results):
    """Returns a remark about disturbed runs on one machine, or nothing."""
    shares = [run.disturbance for (_, c), runs in results.items() if c.network == ONE_MACHINE for run in runs]
    disturbed = [share for share in shares if share > DISTURBED]
    if not disturbed:
        return []
    return [
        f"Other programs disturbed {len(disturbed)} of {len(shares)} runs on one machine: they used "
        f"{min(disturbed):.1%} to {max(disturbed):.1%} of the processors."
    ]


def say(sentence):
    print(f"{time.monotonic() - START:5.0f} s: {sentence}", file=sys.stderr, flush=True)


# -- the table of measured points --


def summarize(runs):
    """Returns the values of a condition: of the minimum the least, of the other times the medians over the rounds."""
    values = {}
    for column in COLUMNS:
        found = [run.values[column] for run in runs if column in run.values]
        combine = {"min_ms": min, "peak_rss_mib": max}.get(column, statistics.median)
        values[column] = combine(found) if found else None
    return values


def write_points(path, results):
    """Writes the file that cost_model.py reads."""
    with open(path, "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["engine", *Condition._fields, "rate_gbit", "delay_us", *COLUMNS])
        for (engine, c), values in results.items():
            link = NETWORKS.get(c.network, ("", ""))
            cells = ["" if values[name] is None else f"{values[name]:.10g}" for name in COLUMNS]
            rows.writerow([engine, *c, *link, *cells])


# -- options --


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder with train_step and network")
    parser.add_argument("--peers", type=pathlib.Path, help="a Python with PyTorch; default: no PyTorch")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--journal", type=pathlib.Path, required=True, help="file that records runs")
    parser.add_argument("--continue", dest="resume", action="store_true", help="resume the session in the journal")
    parser.add_argument("--configurations", type=names_among(CONFIGURATIONS), default=CONFIGURATIONS)
    parser.add_argument("--engines", type=names_among(ENGINES), default=ENGINES)
    parser.add_argument("--processes", type=lambda text: [int(n) for n in text.split(",")], default=[2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="to measure in each run, but at least three steps")
    parser.add_argument("--no-networks", action="store_true", help="only measure on one machine")
    parser.add_argument("--no-large", dest="large", action="store_false", help=f"do not measure {PREDICTED_ONLY}")
    options = parser.parse_args()
    if not options.peers:
        options.engines = [engine for engine in options.engines if engine != "torch"]
    return options


def present_networks(options, remarks):
    """Returns the names of the networks; none if this machine cannot emulate them."""
    if options.no_networks:
        return []
    try:
        with Network(options.programs / "network", 2, *next(iter(NETWORKS.values()))):
            return list(NETWORKS)
    except Failure as failure:
        remarks.append(f"Without networks: {failure}")
        say(remarks[-1])
        return []


def main():
    end_with_exit()
    options = parse_options()
    options.out.mkdir(parents=True, exist_ok=True)
    remarks = []
    options.networks = present_networks(options, remarks)
    journal = Journal(options.journal, {"seconds": options.seconds}, options.resume)
    runs, more = run_session(options, journal)
    results = {key: summarize(found) for key, found in runs.items()}
    points = options.out / "processes.csv"
    write_points(points, results)
    builds = {engine: found[0].values["build"] for (engine, _), found in reversed(runs.items())}.values()
    measured = cost_model.read_points(points)
    processes_report.write(options.out / "processes.md", results, builds, remarks + more, measured, options.rounds)


if __name__ == "__main__":
    main()
