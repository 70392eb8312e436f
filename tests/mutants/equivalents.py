"""Reads equivalents.txt: mutants that no test can kill, each with the reason."""

import os
from dataclasses import dataclass

from operators import mutants_of

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "equivalents.txt")


@dataclass
class Equivalent:
    number: int  # the line in equivalents.txt
    file: str
    fragment: str
    before: str
    after: str
    reason: str
    used: bool = False


def squeeze(text):
    return " ".join(text.split())


def read(path=PATH):
    """A line is `file | fragment of the source line | before => after | reason`; # begins a comment."""
    found = []
    with open(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.rstrip("\n").split(" | ")]
            if len(parts) != 4 or parts[2].count(" => ") != 1 or not all(parts):
                raise ValueError(f"{path}:{number}: a line is `file | fragment | before => after | reason`")
            before, after = parts[2].split(" => ")
            found.append(Equivalent(number, parts[0], squeeze(parts[1]), squeeze(before), squeeze(after), parts[3]))
    return found


def matching(equivalents, mutant, lines):
    """The entry that names this mutant, or None. lines: the file's lines."""
    source = squeeze(lines[mutant.line - 1])
    for entry in equivalents:
        if (
            entry.file == mutant.file
            and entry.fragment in source
            and entry.before == squeeze(mutant.before)
            and entry.after == (squeeze(mutant.after) or "(nothing)")
        ):
            entry.used = True
            return entry
    return None


def unmatched(equivalents, root):
    """The entries that no mutant of the present sources matches."""
    for file in sorted({entry.file for entry in equivalents}):
        path = os.path.join(root, file)
        if not os.path.exists(path):
            continue
        with open(path) as stream:
            text = stream.read()
        entries = [entry for entry in equivalents if entry.file == file]
        for mutant in mutants_of(file, text):
            matching(entries, mutant, text.split("\n"))
    return [entry for entry in equivalents if not entry.used]
