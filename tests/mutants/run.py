"""Compiles one mutant, links the tests that run its line, and runs them until one fails."""

import os
import re

import coverage_map
from build import STRICT, digest

GROUP = (0.05, 0.2, 1.0, 4.0, 15.0, 60.0)  # seconds of a test: quicker groups run first


def prepare(worker, item):
    """Compiles the original of a file as mutants are compiled."""
    file, _ = item
    source = os.path.join(worker.build.root, file)
    with open(source) as stream:
        return file, compile_text(worker, file, stream.read())


def compile_text(worker, file, text):
    """Returns the digest of the object, or None if the compiler refuses the text."""
    source = os.path.join(worker.folder, os.path.basename(file))
    output = os.path.join(worker.folder, "mutant.o")
    with open(source, "w") as stream:
        stream.write(f'#line 1 "{os.path.join(worker.build.root, file)}"\n{text}')
    status, _ = worker.build.compile(file, source, output, ["-frandom-seed=0", *STRICT])
    return None if status else digest(output)


def order(units, killers, blocks):
    """Groups tests of one program that run together. First those that killed neighbors, then the quickest; among equally
    quick ones those that run the file more than others do. blocks: the file's blocks."""
    groups = {}
    first = {name: k for k, name in enumerate(killers)}
    for unit in units:
        if unit.name in first:
            key = (-2, first[unit.name] // 3, unit.program)
        elif unit.function:
            key = (next((k for k, limit in enumerate(GROUP) if unit.seconds < limit), len(GROUP)), 0, unit.program)
        else:
            key = (len(GROUP) + 1, unit.seconds, unit.title)
        groups.setdefault(key, []).append(unit)

    def rank(entry):
        key, group = entry
        share = max((unit.blocks & blocks).bit_count() / max(1, unit.count) for unit in group)
        return *key[:2], -share

    return [sorted(group, key=lambda unit: unit.place) for _, group in sorted(groups.items(), key=rank)]


def test(worker, item):
    """The verdict on one mutant: a dictionary for the results' file."""
    mutant, killers = item
    state = worker.state
    used = 0.0
    result = {"id": mutant.id, "file": mutant.file, "line": mutant.line, "kind": mutant.kind}
    with open(os.path.join(worker.build.root, mutant.file)) as stream:
        text = stream.read()
    times = os.times()
    code = compile_text(worker, mutant.file, mutant.apply(text))
    result["object"] = code
    if code is None:
        return {**result, "verdict": "invalid", "seconds": spent(times)}
    if code == state.originals[mutant.file]:
        return {**result, "verdict": "equivalent", "seconds": spent(times)}
    units = state.map.covering(mutant)
    suites = [unit for unit in units if unit.function]
    if suites and not state.all_tests:
        units = suites
    if not units:
        return {**result, "verdict": "not covered", "seconds": spent(times)}
    worker.linked, ran, unreliable = set(), 0, []
    for group in order(units, killers, state.map.blocks_of(mutant.file)):
        while group and used <= state.budget:
            verdict, detail, seconds = run_group(worker, group, "")
            used += seconds
            if verdict == "invalid":
                return {**result, "verdict": verdict, "detail": detail, "seconds": spent(times)}
            if verdict == "passed":
                ran += len(group)
                break
            unit = killer(group, detail)
            original, _, seconds = run_group(worker, [unit], state.map.plain)
            used += seconds
            if original == "passed":
                return {**result, "verdict": verdict, "by": unit.name, "detail": detail[:200], "ran": ran + 1, "seconds": spent(times)}
            unreliable.append(unit.name)  # it fails without the mutant too, for example on a busy machine
            group.remove(unit)
    return {**result, "verdict": "survived", "ran": ran, "of": len(units), "seconds": spent(times), "unreliable": unreliable,
            "tests": sorted({unit.program for unit in units})}  # fmt: skip


def spent(before):
    now = os.times()
    return round(sum(now[:4]) - sum(before[:4]), 3)


def killer(group, detail):
    """The test that failed: Check numbers the tests in the order in which they run."""
    number = re.match(r"not ok (\d+) ", detail)
    return group[int(number[1]) - 1] if number and int(number[1]) <= len(group) else group[0]


def run_group(worker, group, folder):
    """Runs tests of one program on the mutant, or on the original: then `folder` has the program."""
    program = group[0].program
    if not folder and program not in worker.linked:
        path = os.path.join(worker.folder, program)
        status, text = worker.build.link(program, path, [os.path.join(worker.folder, "mutant.o")])
        if status:
            return "invalid", "the linker refuses it: " + text[-200:], 0.0
        worker.linked.add(program)
    variables = coverage_map.variables_of(group)
    command = coverage_map.command_of(group[0], folder or worker.folder, worker.folder)
    slowest, total = max(unit.seconds for unit in group), sum(unit.seconds for unit in group)
    outcome = worker.run(command, variables, slowest, total)
    verdict = {"skipped": "passed", "failed": "killed"}.get(outcome.verdict, outcome.verdict)
    return verdict, outcome.detail, outcome.seconds
