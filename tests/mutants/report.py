"""Prints survivors and the table of a run of mutants."""

import os

COLUMNS = ("mutants", "killed", "timeout", "survived", "not covered", "equivalent", "listed")


def count(results):
    """folder -> number of mutants with each verdict. Invalid mutants and duplicates are not in the sums."""
    table = {}
    for result in results:
        row = table.setdefault(os.path.dirname(result["file"]), dict.fromkeys((*COLUMNS, "invalid", "duplicate"), 0))
        row[result["verdict"]] += 1
        if result["verdict"] not in ("invalid", "duplicate"):
            row["mutants"] += 1
    return table


def score(row):
    countable = row["mutants"] - row["equivalent"] - row["listed"]
    return (row["killed"] + row["timeout"]) / countable if countable else None


def percent(value):
    return "-" if value is None else f"{100 * value:.1f} %"


def print_table(results):
    table = count(results)
    total = {key: sum(row[key] for row in table.values()) for key in (*COLUMNS, "invalid", "duplicate")}
    width = max([len(folder) for folder in table] + [6])
    print("folder".ljust(width), *(name.rjust(max(8, len(name))) for name in COLUMNS), "   score")
    for folder, row in [*sorted(table.items()), ("all", total)]:
        print(folder.ljust(width), *(str(row[name]).rjust(max(8, len(name))) for name in COLUMNS), percent(score(row)).rjust(8))
    print("equivalent: the compiler makes the same code; listed: in equivalents.txt; score: (killed + timeout) / others")
    print(f"not counted: {total['invalid']} that do not compile, {total['duplicate']} with the code of an earlier mutant")
    seconds = sum(result["seconds"] for result in results)
    print(f"processor time: {seconds:.0f} s, {seconds / max(1, len(results)):.2f} s for each mutant")


def describe(result):
    if result["verdict"] == "not covered":
        tests = "no test runs this line"
    else:
        tests = f"{result['ran']} of {result['of']} tests ran: {' '.join(result['tests'])}"
        if result["ran"] + len(result["unreliable"]) < result["of"]:
            tests += " (the budget ended)"
        if result["unreliable"]:
            tests += f"; failed without the mutant too: {' '.join(result['unreliable'])}"
    return f"{result['id']}\n    {result['source']}\n    {tests}"


def is_survivor(result):
    return result["verdict"] in ("survived", "not covered")


def print_report(results):
    survivors = [result for result in results if is_survivor(result)]
    if survivors:
        print(f"\n{len(survivors)} survivors:\n")
        for result in sorted(survivors, key=lambda r: (r["file"], r["line"])):
            print(describe(result))
        print()
    print_table(results)
