"""Chooses which mutants run: files, changed lines, samples, survivors of an earlier run."""

import json
import os
import random
import re
import subprocess

import vector
from operators import mutants_of


class UsageError(Exception):
    pass


def files(root, names):
    """The C files that are named or in named folders, relative to the root. Without names: all of src."""
    found = []
    for name in names or [os.path.join(root, "src")]:
        path = os.path.realpath(name if os.path.exists(name) else os.path.join(root, name))
        relative = os.path.relpath(path, root)
        if os.path.isdir(path):
            inside = [os.path.join(folder, file) for folder, _, entries in os.walk(path) for file in entries]
            found += [os.path.relpath(file, root) for file in inside if file.endswith(".c") and not vector.missing(file)]
        elif not os.path.exists(path):
            raise UsageError(f"there is no file {name}")
        elif not relative.startswith("src/") or not relative.endswith(".c"):
            raise UsageError(f"{name} is not a C file of src; headers have no mutants")
        elif vector.missing(relative):
            raise UsageError(f"{name} needs the instructions {vector.missing(relative)}, which this processor does not have")
        else:
            found.append(relative)
    return sorted(set(found))


def changed_lines(root, base):
    """The lines that changed since a commit: file -> set of line numbers."""
    command = ["git", "-C", root, "diff", "-U0", "--no-color", "--no-ext-diff", base, "--", "src"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"git diff {base}: {done.stderr.strip()}")
    lines, file = {}, None
    for row in done.stdout.splitlines():
        if row.startswith("+++ "):
            file = row[6:]
        header = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", row)
        if header:
            first, count = int(header[1]), int(header[2] or 1)
            lines.setdefault(file, set()).update(range(first, first + count))
    return lines


def all_mutants(root, chosen, changed=None):
    for file in chosen:
        with open(os.path.join(root, file)) as stream:
            text = stream.read()
        for mutant in mutants_of(file, text):
            if changed is None or mutant.line in changed.get(file, ()):
                yield mutant


def sample(mutants, count, seed):
    """Chooses lines first, then a kind of mutation, so that long lines and frequent kinds do not dominate."""
    generator = random.Random(seed)
    lines = {}
    for mutant in mutants:
        lines.setdefault((mutant.file, mutant.line), {}).setdefault(mutant.kind, []).append(mutant)
    order = sorted(lines)
    chosen = []
    while order and len(chosen) < count:
        generator.shuffle(order)
        for line in order:
            kinds = lines[line]
            kind = generator.choice(sorted(kinds))
            chosen.append(kinds[kind].pop(generator.randrange(len(kinds[kind]))))
            if not kinds[kind]:
                del kinds[kind]
            if len(chosen) == count:
                break
        order = sorted(line for line in order if lines[line])
    return sorted(chosen, key=lambda m: (m.file, m.start, m.end, m.after))


def survivors(root, path):
    """The survivors of an earlier run that the present sources still have: the same edit of the same line of text."""
    wanted = {}
    for result in read_results(path):
        if result["verdict"] in ("survived", "not covered"):
            wanted.setdefault(result["file"], set()).add((result["source"], result["id"].split(": ", 1)[1]))
    chosen = []
    for file in sorted(wanted):
        if not os.path.exists(os.path.join(root, file)):
            continue
        with open(os.path.join(root, file)) as stream:
            lines = stream.read().split("\n")
        for mutant in all_mutants(root, [file]):
            if (lines[mutant.line - 1].strip(), mutant.id.split(": ", 1)[1]) in wanted[file]:
                chosen.append(mutant)
    return chosen


def read_results(path):
    """The results of a run; a line that an interruption cut is left out."""
    found = []
    with open(path) as file:
        for line in file:
            if line.endswith("\n"):
                found.append(json.loads(line))
    return found
