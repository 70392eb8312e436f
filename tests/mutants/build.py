"""Builds the library and its tests once, then compiles and links mutants without CMake."""

import fcntl
import functools
import hashlib
import json
import os
import re
import shlex
import subprocess

import vector

WARNINGS = re.compile(r"-W(?!l,|a,|p,)\S*|-pedantic\S*|-g\d?$")
# Without warnings, except those that show that a mutant confuses types: it does not count.
STRICT = ["-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-Werror=implicit-function-declaration",
          "-Werror=pointer-arith"]
HERE = os.path.dirname(os.path.abspath(__file__))


class BuildError(Exception):
    pass


def call(command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def must(command, cwd=None):
    status, text = call(command, cwd)
    if status:
        raise BuildError(f"{shlex.join(command)[:200]}\n{text[-4000:]}")
    return text


def digest(*paths):
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(hashlib.sha256(file.read()).digest())
    return total.hexdigest()


class Build:
    def __init__(self, root, folder, jobs):
        self.root, self.folder, self.jobs = root, folder, jobs
        self.own = os.path.join(folder, "mutants")  # what this tool adds to CMake's build
        os.makedirs(self.own, exist_ok=True)

    def lock(self):
        """Refuses a second run in the same folder."""
        self.locked = open(os.path.join(self.own, "lock"), "w")
        try:
            fcntl.flock(self.locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BuildError(f"another run uses {self.folder}") from error

    def update(self):
        """Configures and builds as for a release, so that mutants run at full speed with the usual optimization."""
        if not os.path.exists(os.path.join(self.folder, "CMakeCache.txt")):
            options = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
            must(["cmake", "-G", "Unix Makefiles", "-S", self.root, "-B", self.folder, *options])
        must(["cmake", "--build", self.folder, "--parallel", str(self.jobs)])
        with open(os.path.join(self.folder, "compile_commands.json")) as file:
            self.commands = {entry["output"]: entry for entry in map(self._with_output, json.load(file))}
        self.linker = next(
            (["-fuse-ld=" + name] for name in ("mold", "lld", "gold") if self._links("-fuse-ld=" + name)), []
        )
        self.select = os.path.join(self.own, "select.o")
        must(["cc", "-O2", "-c", os.path.join(HERE, "select.c"), "-o", self.select])
        self.programs = self._programs()
        # The traced library is one object, so each program with it needs all libraries.
        words = [word for _, words in self.programs.values() for word in words]
        self.libraries = ["-Wl,--as-needed", *dict.fromkeys(word for word in words if word.startswith("-l"))]

    @staticmethod
    def _with_output(entry):
        return entry if "output" in entry else {**entry, "output": re.search(r" -o (\S+)", entry["command"]).group(1)}

    def _links(self, option):
        source = os.path.join(self.own, "empty.c")
        with open(source, "w") as file:
            file.write("int main(void) { return 0; }\n")
        return call(["cc", option, source, "-o", os.path.join(self.own, "empty")])[0] == 0

    def _programs(self):
        """Programs of the build that link the static library: name -> (folder, link command)."""
        programs = {}
        for part in ("tests", "examples", "programs", "teaching/lessons"):
            folder = os.path.join(self.folder, part)
            for target in sorted(os.listdir(os.path.join(folder, "CMakeFiles"))):
                link = os.path.join(folder, "CMakeFiles", target, "link.txt")
                if target.endswith(".dir") and os.path.exists(link):
                    with open(link) as file:
                        words = shlex.split(file.read())
                    library = os.path.relpath(os.path.join(self.folder, "libtapehead.a"), folder)
                    if "-o" in words and library in words and "-shared" not in words:
                        programs[os.path.basename(words[words.index("-o") + 1])] = (folder, words)
        return programs

    def is_suite(self, program):
        return any("libcheck" in word for word in self.programs[program][1])

    # -- objects --

    @functools.cached_property
    def sources(self):
        """The commands that compile each file of the library: one, or for a vector kernel one for each element type."""
        found = {}
        for output, entry in self.commands.items():
            target = re.search(r"tapehead_(\w+)\.dir/", output)
            if target and (target[1] in ("objects", "models_objects") or vector.is_chosen(target[1])):
                for file in vector.files_of(entry["file"], self.root):
                    found.setdefault(os.path.relpath(file, self.root), []).append({**entry, "source": file})
        return found

    def compile(self, file, source, output, flags):
        """Compiles `source`, a version of `file`, to one object. Returns the compiler's status and messages."""
        entries = self.sources[file]
        if len(entries) == 1:
            return self._compile(entries[0], source, output, flags)
        parts = [f"{output}.{k}" for k in range(len(entries))]
        for entry, part in zip(entries, parts):
            status, text = self._compile(entry, source, part, flags)
            if status:
                return status, text
        return call(["ld", "-r", "-o", output, *parts])

    @staticmethod
    def _compile(entry, source, output, flags):
        words = [word for word in shlex.split(entry["command"]) if not WARNINGS.match(word)]
        words[words.index("-o") + 1] = output
        words[words.index(entry["file"])] = source
        if os.path.basename(words[0]) == "ccache":
            del words[0]
        words[1:1] = ["-iquote", os.path.dirname(entry["source"])]
        return call(words + flags, entry["directory"])

    def link(self, program, output, objects):
        """Links a program; the definitions in `objects` replace those of the library."""
        folder, words = self.programs[program]
        words = list(words)
        place = words.index("-o")
        wrap = [self.select, "-Wl,--wrap=_tcase_add_test"] if self.is_suite(program) else []
        words[place + 1] = output
        # After the program's objects, which may define a function of the library themselves: the first definition counts.
        own = max(k for k, word in enumerate(words) if word.endswith(".o")) + 1
        words[own:own] = [*wrap, *objects, "-Wl,-z,muldefs", *self.linker]
        return call(words + self.libraries, folder)

    def inputs(self, program):
        """The objects of a program's own sources, with their paths."""
        folder, words = self.programs[program]
        return [os.path.join(folder, word) for word in words if word.endswith(".o")] + [
            os.path.join(folder, word) for word in words if word.endswith(("libtile_model.a", "liblanguage_model_parts.a"))
        ]
