"""Checks a list of operations and writes a CSV with one row for each operation and type."""

import argparse
import csv
import signal
import time

import tapehead

LIMIT = 8  # seconds of processor time for one operation


class Timeout(Exception):
    pass


def _alarm(*_):
    raise Timeout("time limit")


def verdict_of(run):
    """Calls run, which returns reports one by one. Returns (verdict, number of comparisons, text) of the worst one."""
    order = ("right", "nothing compared", "cannot tell", "wrong")
    worst, checked, text = None, 0, ""
    signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        for report in run():
            checked += report.checked
            if report.verdict == "could not run":
                return "could not run", checked, report.text
            if worst is None or order.index(report.verdict) > order.index(worst):
                worst, text = report.verdict, report.text
    except Timeout:
        if worst is None:
            worst, text = "not run", "time limit"
    except Exception as error:
        if worst is None:
            worst, text = "not run", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return worst or "not run", checked, text or ("no differentiable sample" if worst is None else "")


def operations_of(modules, with_arguments, dtype, check):
    """Yields what main expects. modules: {module: [(inputs, names)]}; with_arguments: {name: (function, inputs)}.
    check(name, function, inputs) yields reports."""
    for module, kinds in modules.items():
        for inputs, names in kinds:
            for name in names.split():
                if hasattr(module, name):
                    yield f"{module.__name__}.{name}", dtype, lambda n=name, m=module, i=inputs: check(n, getattr(m, n), i)
    for name, (function, inputs) in with_arguments.items():
        yield name, dtype, lambda n=name, f=function, i=inputs: check(n, f, i)


def main(library, version, operations):
    """operations yields (name, type, function that yields reports)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="CSV file")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--type", default="", help="float64 or float32; otherwise all that the list has")
    options = parser.parse_args()
    counts = {}
    begin = time.time()
    with open(options.out, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("library", "version", "operation", "type", "verdict", "comparisons", "text"))
        for name, dtype, run in operations:
            if options.only not in name or options.type not in dtype:
                continue
            verdict, checked, text = verdict_of(run)
            writer.writerow((library, version, name, dtype, verdict, checked, " / ".join(text.split("\n"))[:400]))
            file.flush()
            counts[dtype, verdict] = counts.get((dtype, verdict), 0) + 1
    for (dtype, verdict), n in sorted(counts.items()):
        print(f"{library} {version} {dtype}: {verdict}: {n}")
    print(f"{time.time() - begin:.0f} s")


__all__ = ["main", "operations_of", "tapehead"]
