"""Finds out which tests run which lines of the library, and how long each test takes. A test is a function of a suite (an
iteration of a loop test counts as a function), or another quick test of ctest. Results stay until the sources change."""

import glob
import itertools
import json
import os
import pickle
import re
from bisect import bisect_right

from build import HERE, BuildError, digest, must
from unit import Unit

SPACE = 1 << 23  # as in trace.c
LEFT_OUT = re.compile(r"slow|package")  # labels of ctest's other tests that are not run
NO_COMMAND = re.compile(r"memcheck|instructions|document|readme|page")


class Map:
    def __init__(self, build):
        self.build = build
        self.folder = os.path.join(build.own, "coverage")
        self.units = []
        os.makedirs(self.folder, exist_ok=True)

    # -- the traced library --

    def state(self):
        files = [f for part in ("src", "include") for f in glob.glob(f"{self.build.root}/{part}/**/*.[ch]", recursive=True)]
        tool = [os.path.join(HERE, name) for name in ("trace.c", "select.c", "unit.py", "vector.py")]
        return digest(*sorted(files), *tool)

    def compile_traced(self, pool):
        """Compiles the library with a call at each basic block, as one object. Then its addresses are the same in all
        programs, relative to the traced function."""
        self.traced = os.path.join(self.folder, "traced.o")
        stamp, state = os.path.join(self.folder, "traced.state"), self.state()
        if os.path.exists(stamp) and open(stamp).read() == state:
            return state
        jobs = []
        for file in self.build.sources:
            output = os.path.join(self.folder, "objects", file + ".o")
            os.makedirs(os.path.dirname(output), exist_ok=True)
            jobs.append((file, output))
        pool.each(traced_object, jobs)
        trace = os.path.join(self.folder, "trace.o")
        must(["cc", "-O2", "-fPIC", "-c", os.path.join(HERE, "trace.c"), "-o", trace])
        must(["ld", "-r", "-o", self.traced, trace, *(output for _, output in jobs)])
        with open(stamp, "w") as file:
            file.write(state)
        return state

    def read_lines(self, program):
        """Reads from a traced program where each block begins and which lines it has."""
        path = os.path.join(self.folder, "lines")
        state = digest(self.traced)
        if os.path.exists(path):
            with open(path, "rb") as file:
                kept, self.starts, self.lines = pickle.load(file)
            if kept == state:
                return
        base, starts, functions, after = None, [], [], False
        for row in must(["objdump", "-d", "--no-show-raw-insn", "-j", ".text", program]).splitlines():
            if after:
                starts.append(int(row.split(":")[0], 16))
                after = False
            if row.endswith(">:"):
                functions.append(int(row.split()[0], 16))
                if row.endswith("<__sanitizer_cov_trace_pc>:"):
                    base = functions[-1]
            after = row.endswith("<__sanitizer_cov_trace_pc>") and "call" in row
        # The rows of each object begin with its source without a path; the objects are in the order of the link.
        table, current = [], None
        sources = iter([file for file, entries in self.build.sources.items() for _ in entries])
        for row in must(["objdump", "--dwarf=decodedline", program]).splitlines():
            words = row.split()
            if row.endswith(":") and len(words) == 1:
                name = row[:-1]
                if name.startswith("/"):
                    current = os.path.relpath(name, self.build.root)
                else:
                    current = next((source for source in sources if os.path.basename(source) == name), None)
            elif len(words) >= 3 and words[1].isdigit() and current and words[0] == os.path.basename(current):
                table.append((int(words[2], 16), current, int(words[1])))
        self.starts = {start - base: k for k, start in enumerate(starts)}
        self.lines = {}
        for address, file_name, line in table:
            # A block's first row belongs to the call, 5 bytes before the call's end; a function's first row comes before it.
            k = bisect_right(starts, address + 5) - 1
            function = bisect_right(functions, address) - 1
            if k < 0 or starts[k] < functions[function]:
                k += 1
            if k < len(starts) and file_name.startswith("src/"):
                self.lines.setdefault(file_name, {}).setdefault(line, set()).add(k)
        with open(path, "wb") as file:
            pickle.dump((state, self.starts, self.lines), file)

    # -- the tests --

    def update(self, pool, say):
        state = self.compile_traced(pool)
        stale = []
        for program in self.build.programs:
            kept = os.path.join(self.folder, program + ".pickle")
            key = digest(*self.build.inputs(program), *self.scripts(program)) + state
            if os.path.exists(kept):
                with open(kept, "rb") as file:
                    old, units = pickle.load(file)
                if old == key:
                    self.units += units
                    continue
            stale.append((program, key))
        plain = self.plain = os.path.join(self.folder, "plain")
        traced = os.path.join(self.folder, "traced")
        os.makedirs(plain, exist_ok=True)
        os.makedirs(traced, exist_ok=True)
        links = [(program, folder, objects) for program, _ in stale for folder, objects in ((plain, []), (traced, [self.traced]))]
        pool.each(link_program, links)
        first = sorted(glob.glob(traced + "/test_*"))[0]
        self.read_lines(first)
        if stale:
            say(f"running the tests of {len(stale)} programs to see which lines they run")
        keys = dict(stale)
        work = [unit for program, _ in stale for unit in self.units_of(program)]
        work.sort(key=lambda unit: unit.program)
        found = {program: [] for program in keys}
        for number, (unit, verdict) in enumerate(pool.stream(measure, [(unit, self.folder) for unit in work]), 1):
            if number % 500 == 0:
                say(f"{number} of {len(work)} tests")
            if verdict == "passed":
                unit.blocks = self.bits(unit.blocks)
                unit.count = unit.blocks.bit_count()
                found[unit.program].append(unit)
            elif verdict != "skipped":
                say(f"left out, because it fails in the sandbox: {unit.name}: {verdict}")
        for program, key in keys.items():
            with open(os.path.join(self.folder, program + ".pickle"), "wb") as file:
                pickle.dump((key, found[program]), file)
            self.units += found[program]

    def bits(self, offsets):
        value = bytearray((len(self.starts) + 8) // 8)
        for offset in offsets:
            k = self.starts.get(offset)
            if k is not None:
                value[k >> 3] |= 1 << (k & 7)
        return int.from_bytes(value, "little")

    def scripts(self, program):
        words = {word for _, command, _ in self.commands(program) for word in command}
        return sorted(word for word in words if word.startswith(self.build.root + "/tests/") and os.path.isfile(word))

    def commands(self, program):
        """The quick tests of ctest that run only this program of the build, apart from a whole suite."""
        if not hasattr(self, "_tests"):
            self._tests = json.loads(must(["ctest", "--test-dir", self.build.folder, "--show-only=json-v1"]))["tests"]
        for test in self._tests:
            properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
            programs = {os.path.basename(word) for word in test.get("command", []) if self.is_program(word)}
            if programs != {program} or LEFT_OUT.search(" ".join(properties.get("LABELS", []))):
                continue
            if test["name"] != program and not NO_COMMAND.search(test["name"]):
                yield test["name"], test["command"], properties.get("ENVIRONMENT", [])

    def units_of(self, program):
        if self.build.is_suite(program):
            path, place = os.path.join(self.folder, "plain", program), itertools.count()
            for row in must(["env", "MUTANTS_LIST=1", path]).splitlines():
                words = row.split()
                if len(words) == 4 and words[0] == "function":
                    start, end = int(words[2]), int(words[3])
                    loop = end - start > 1
                    for i in range(start, end):
                        yield Unit(program, f"{words[1]}[{i}]" if loop else words[1], ("{program}",), next(place))
        for name, command, variables in self.commands(program):
            yield Unit(program, "", tuple(map(self.placeholder, command)), 0, name, tuple(variables))

    def is_program(self, word):
        return word.startswith(self.build.folder) and os.path.basename(word) in self.build.programs

    def placeholder(self, word):
        if self.is_program(word):
            return "{program}"
        tests = os.path.join(self.build.folder, "tests")
        reads = os.path.isfile(word) or word.startswith(os.path.join(tests, "fuzz", "corpus"))
        writes = word.startswith(tests) and not reads
        return "{folder}/" + os.path.basename(word) if writes else word

    # -- questions --

    def covering(self, mutant):
        """The units that run a mutant's line. A line without code of its own belongs to the nearest line before it; what is
        outside of functions belongs to the whole file, and a file of tables without functions to its folder."""
        table, mask = self.lines.get(mutant.file, {}), self.blocks_of(mutant.file) or self.blocks_beside(mutant.file)
        nearest = max((line for line in table if line <= mutant.line), default=None)
        if mutant.in_function and nearest is not None:
            mask = sum(1 << block for block in table[nearest])
        return [unit for unit in self.units if unit.blocks & mask]

    def blocks_beside(self, file):
        folder = os.path.dirname(file)
        return sum(1 << block for block in self.blocks_in(name for name in self.lines if os.path.dirname(name) == folder))

    def blocks_in(self, files):
        return set().union(*(blocks for file in files for blocks in self.lines.get(file, {}).values()))

    def blocks_of(self, file):
        return sum(1 << block for block in self.blocks_in([file]))


def command_of(unit, folder, job):
    """The command that runs a unit with the programs in `folder`; files are written into `job`."""
    program, temporary = os.path.join(folder, unit.program), os.path.join(job, "tmp")
    return [word.replace("{program}", program).replace("{folder}", temporary) for word in unit.command]


def variables_of(units):
    functions = [unit.function for unit in units if unit.function]
    only = {"MUTANTS_ONLY": " ".join(functions)} if functions else {}
    return {"CK_TAP_LOG_FILE_NAME": "-", **only, **dict(variable.split("=", 1) for variable in units[0].variables)}


# -- work for the processes of the pool: each gets the worker and one item --


def traced_object(worker, item):
    file, output = item
    # Vector kernels take too long without optimization.
    flags = ["-O1" if "/vector/" in file else "-O0", "-g1", "-fsanitize-coverage=trace-pc"]
    status, text = worker.build.compile(file, os.path.join(worker.build.root, file), output, flags)
    if status:
        raise BuildError(f"{file}\n{text[-2000:]}")


def link_program(worker, item):
    program, folder, objects = item
    status, text = worker.build.link(program, os.path.join(folder, program), objects)
    if status:
        raise BuildError(f"{program}\n{text[-2000:]}")


def measure(worker, item):
    unit, folder = item
    variables = variables_of([unit])
    outcome = worker.run(command_of(unit, os.path.join(folder, "plain"), worker.folder), variables, 30, 30)
    unit.seconds = outcome.seconds
    if outcome.verdict != "passed":
        return unit, outcome.verdict if outcome.verdict == "skipped" else f"{outcome.verdict}: {outcome.detail}"
    trace = os.path.join(worker.folder, "trace")
    with open(trace, "wb") as file:
        file.truncate(SPACE)
    worker.run(command_of(unit, os.path.join(folder, "traced"), worker.folder), {**variables, "MUTANTS_TRACE": trace}, 100, 100)
    with open(trace, "rb") as file:
        data = file.read()
    unit.blocks = [match.start() for match in re.finditer(b"\x01", data)]
    return unit, "passed"
