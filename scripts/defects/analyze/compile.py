"""compile.py gcc|clang-tidy BUILD: runs an analyzer on the sources of the libraries, the examples, the programs and the benchmark.

BUILD/compile_commands.json has the commands. The vector kernels are analyzed as compiled for AVX2 and float32 only: the other
instances have the same source. Prints the analyzer's output and the number of analyzed files.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
INSTANCE = re.compile(r"CMakeFiles/tapehead_f(32|64)_([a-z0-9]+)\.dir")
ANALYZED_INSTANCE = ("32", "avx2")


def is_analyzed(entry):
    """Returns whether the command compiles a library, an example, a program or one of the benchmark."""
    instance = INSTANCE.search(entry["command"])
    if instance:
        return instance.groups() == ANALYZED_INSTANCE
    return any(pathlib.Path(entry["file"]).is_relative_to(ROOT / folder) for folder in ("src", "examples", "programs", "teaching/lessons", "bench"))


def gcc_command(entry):
    """Returns the command that analyzes instead of compiling."""
    words = shlex.split(entry["command"])
    output = words.index("-o")
    del words[output : output + 2]
    words[words.index("-c")] = "-S"
    return [*words, "-o", os.devnull, "-fanalyzer", "-fdiagnostics-plain-output"]


def tidy_command(entry, build):
    """Returns the command of clang-tidy, with the configuration of the repository."""
    return ["clang-tidy", "-p", build, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", entry["file"]]


def main():
    """Runs the analyzer on all files, one for each processor at a time."""
    tool, build = sys.argv[1:]
    entries = {}
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        if is_analyzed(entry):
            entries.setdefault(entry["file"], entry)

    def analyze(entry):
        command = gcc_command(entry) if tool == "gcc" else tidy_command(entry, build)
        result = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True, check=False)
        failed = result.returncode != 0 and not re.search("(warning|error): ", result.stdout + result.stderr)
        return result.stderr if tool == "gcc" else result.stdout, f"{entry['file']}:1:1: error: {tool} failed [failed]" * failed

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for output, failure in pool.map(analyze, entries.values()):
            print(output, end="")
            if failure:
                print(failure)
    print("analyzed:", len(entries))


if __name__ == "__main__":
    main()
