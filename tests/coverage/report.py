"""Prints line and branch coverage of src by folder from gcovr's JSON, and what no test reaches.

report.py COVERAGE.json [FOLDER OR FILE...]: with a folder or file, lists its missed lines and branches instead.
Exit status 1: a total is below its goal. (Some entries of reasons.txt match on some processors only.)
"""

import json
import os
import sys
from collections import defaultdict
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GOALS = {"lines": 97.0, "branches": 90.0}  # percent


@dataclass
class Line:
    hits: int = 0
    branches: dict = field(default_factory=lambda: defaultdict(int))  # of the most branches that one compilation has

    def taken(self):
        return sum(1 for hits in self.branches.values() if hits)

    def missed(self):
        return not self.hits or self.taken() < len(self.branches)


def merge(path):
    """file -> line number -> Line. A kernel file is compiled several times: a line is covered if one compilation runs it."""
    files = defaultdict(lambda: defaultdict(Line))
    with open(path) as stream:
        for file in json.load(stream)["files"]:
            for entry in file["lines"]:
                if entry.get("gcovr/noncode"):
                    continue
                line = files[file["file"]][entry["line_number"]]
                line.hits += entry["count"]
                for index, branch in enumerate(entry["branches"]):
                    line.branches[index] += branch["count"]
    return files


def read_reasons(path=os.path.join(HERE, "reasons.txt")):
    """Lines `file | fragment of the source line | reason`; the fragment * means the whole file."""
    entries = []
    with open(path) as stream:
        for number, text in enumerate(stream, 1):
            if text.strip() and not text.startswith("#"):
                parts = [part.strip() for part in text.split(" | ")]
                if len(parts) != 3 or not all(parts):
                    sys.exit(f"{path}:{number}: a line is `file | fragment of the source line | reason`")
                entries.append([number, *parts])
    return entries


def folder_of(file):
    parts = file.split("/")
    depth = 3 if parts[1] in ("kernels", "models") else 2
    return "/".join(parts[: min(depth, len(parts) - 1)])


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def print_table(files):
    rows = defaultdict(lambda: [0, 0, 0, 0])
    for file, lines in files.items():
        for line in lines.values():
            figures = (line.hits > 0, 1, line.taken(), len(line.branches))
            for name in (folder_of(file), "src"):
                rows[name] = [total + figure for total, figure in zip(rows[name], figures)]
    print(f"{'folder':<24}{'lines':>8}{'covered':>10}{'branches':>10}{'taken':>10}")
    for name in sorted(rows, key=lambda name: (name == "src", name)):
        hit, lines, taken, branches = rows[name]
        print(f"{name:<24}{lines:>8}{percent(hit, lines):>9.1f}%{branches:>10}{percent(taken, branches):>9.1f}%")
    hit, lines, taken, branches = rows["src"]
    return {"lines": percent(hit, lines), "branches": percent(taken, branches)}


def missed_lines(files):
    """Yields file, line number, Line, and the source text of each line with a missed line or branch."""
    for file in sorted(files):
        with open(os.path.join(ROOT, file)) as stream:
            text = stream.read().split("\n")
        for number in sorted(files[file]):
            if files[file][number].missed():
                yield file, number, files[file][number], text[number - 1].strip()


def explain(files, entries):
    """Assigns reasons to missed lines. Returns the lines without a reason and the entries without a line."""
    used, without = set(), []
    for file, number, line, text in missed_lines(files):
        found = [entry for entry in entries if entry[1] == file and (entry[2] == "*" or entry[2] in text)]
        used.update(entry[0] for entry in found)
        if not found:
            without.append((file, number, line, text))
    return without, [entry for entry in entries if entry[0] not in used]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    files = merge(sys.argv[1])
    without, unused = explain(files, read_reasons())
    if len(sys.argv) > 2:
        for file, number, line, text in without:
            if any(file == name or file.startswith(name.rstrip("/") + "/") for name in sys.argv[2:]):
                what = f"{line.taken()}/{len(line.branches)}" if line.hits else "missed"
                print(f"{file}:{number}: {what:>7}  {text}")
        return 0
    totals = print_table(files)
    failed = False
    for what, goal in GOALS.items():
        if totals[what] < goal:
            print(f"{what}: {totals[what]:.1f} % is below the goal of {goal:.0f} %")
            failed = True
    lines = sum(1 for _, _, line, _ in without if not line.hits)
    print(f"without a reason in tests/coverage/reasons.txt: {lines} missed lines, {len(without) - lines} lines with missed branches")
    for number, file, fragment, _ in unused:
        print(f"tests/coverage/reasons.txt:{number}: matches no missed line: {file} | {fragment}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
