"""The command of scripts/defects/mutants.sh: makes mutants, runs them, reports survivors."""

import argparse
import json
import os
import signal
import sys

import choose
import equivalents
import report
import run
from build import HERE, Build, BuildError
from coverage_map import Map
from pool import Pool

ROOT = os.path.dirname(os.path.dirname(HERE))


def say(text):
    print(text, file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        say(f"mutants.sh: {message} (--help explains the options)")
        sys.exit(2)


def arguments():
    parser = Parser(prog="mutants.sh", add_help=False)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--changed")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=60)
    parser.add_argument("--survivors-of", action="append", default=[])
    parser.add_argument("--results")
    parser.add_argument("--continue", dest="go_on", action="store_true")
    parser.add_argument("--all-tests", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def chosen_mutants(options):
    if options.survivors_of:
        mutants = [mutant for path in options.survivors_of for mutant in choose.survivors(ROOT, path)]
        mutants = list({mutant.id: mutant for mutant in mutants}.values())
        if options.files:
            files = set(choose.files(ROOT, options.files))
            mutants = [mutant for mutant in mutants if mutant.file in files]
    else:
        changed = choose.changed_lines(ROOT, options.changed) if options.changed else None
        mutants = list(choose.all_mutants(ROOT, choose.files(ROOT, options.files), changed))
    return mutants if options.sample is None else choose.sample(mutants, options.sample, options.seed)


class Lines:
    """The lines of the source files."""

    def __init__(self):
        self.files = {}

    def __getitem__(self, file):
        if file not in self.files:
            with open(os.path.join(ROOT, file)) as stream:
                self.files[file] = stream.read().split("\n")
        return self.files[file]


class Killers:
    """Remembers which tests killed mutants of a file, so that they run first on its other mutants."""

    def __init__(self, path):
        self.path, self.kills = path, {}
        if os.path.exists(path):
            with open(path) as file:
                self.kills = json.load(file)

    def add(self, result):
        if result["verdict"] == "killed" and "by" in result:
            self.kills.setdefault(result["file"], {})[str(result["line"])] = result["by"]

    def near(self, mutant):
        kills = self.kills.get(mutant.file, {})
        names = [kills[line] for line in sorted(kills, key=lambda line: abs(int(line) - mutant.line))]
        return list(dict.fromkeys(names))[:6]

    def save(self):
        with open(self.path, "w") as file:
            json.dump(self.kills, file)


class State:
    """What the workers need; they get a copy when they start."""


def run_all(options, build, mutants, results, lines, stream):
    pool, state = Pool(build, options.jobs), State()
    state.map, state.budget, state.all_tests = Map(build), options.budget, options.all_tests
    state.map.update(pool, say)
    files = sorted({mutant.file for mutant in mutants})
    state.originals = dict(pool.each(run.prepare, [(file, None) for file in files], protect=True))
    killers = Killers(os.path.join(build.own, "killers.json"))
    seen = {(result["file"], result["object"]) for result in results if result.get("object")}
    items = ((mutant, killers.near(mutant)) for mutant in mutants)
    try:
        for number, result in enumerate(pool.stream(run.test, items, state=state), 1):
            result["source"] = lines[result["file"]][result["line"] - 1].strip()
            if result["object"] and result["verdict"] != "equivalent":
                if (result["file"], result["object"]) in seen:
                    result["verdict"] = "duplicate"
                seen.add((result["file"], result["object"]))
            killers.add(result)
            results.append(result)
            stream.write(json.dumps(result) + "\n")
            stream.flush()
            if report.is_survivor(result):
                say(f"{result['verdict']}: {report.describe(result)}")
            if number % 50 == 0:
                say(f"{number} of {len(mutants)} mutants")
    finally:
        killers.save()


def main():
    options = arguments()
    try:
        mutants = chosen_mutants(options)
        known = equivalents.read()
    except (choose.UsageError, ValueError, OSError) as error:
        say(f"mutants.sh: {error} (--help explains the options)")
        return 2
    if options.list:
        for mutant in mutants:
            print(mutant.id)
        return 0
    lines, results = Lines(), []
    build = Build(ROOT, os.path.join(ROOT, "build-mutants"), options.jobs)
    path = options.results or os.path.join(build.folder, "results.jsonl")
    if os.path.exists(path):
        if options.go_on:
            results = choose.read_results(path)
        else:
            os.replace(path, path + ".previous")
    done = {result["id"] for result in results}
    open_mutants = []
    for mutant in mutants:
        if mutant.id in done:
            continue
        if equivalents.matching(known, mutant, lines[mutant.file]):
            results.append({"id": mutant.id, "file": mutant.file, "line": mutant.line, "kind": mutant.kind, "verdict": "listed",
                            "object": None, "seconds": 0, "source": lines[mutant.file][mutant.line - 1].strip()})  # fmt: skip
        else:
            open_mutants.append(mutant)
    say(f"{len(open_mutants)} mutants")
    interrupted = False
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # raises KeyboardInterrupt
    try:
        build.lock()
        build.update()
        with open(path, "w") as stream:
            stream.writelines(json.dumps(result) + "\n" for result in results)
            run_all(options, build, open_mutants, results, lines, stream)
    except BuildError as error:
        say(f"mutants.sh: {error}")
        return 2
    except KeyboardInterrupt:
        interrupted = True
    report.print_report(results)
    print(f"results: {path}" + (" (interrupted: --continue runs the others)" if interrupted else ""))
    for entry in equivalents.unmatched(known, ROOT):
        print(f"equivalents.txt:{entry.number}: no mutant of {entry.file} is like this any more")
    return 1 if any(report.is_survivor(result) for result in results) else 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
