"""Runs the C programs and Python snippets of the pages in docs, in their order. Python must print the text that follows
the snippet. (The tests check what the C programs print, and tests/mpi runs programs with MPI.)"""

import pathlib
import re
import tempfile

import common

BLOCK = re.compile(r"```(c|python)\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


def run_c(c, text, folder):
    source = pathlib.Path(folder) / "program.c"
    source.write_text(text)
    program = source.with_suffix("")
    library = ["-L", c.build, "-ltapehead_models", "-ltapehead", f"-Wl,-rpath,{c.build}"]
    c.run("cc", source, "-I", common.ROOT / "include", *library, "-o", program)
    c.run(program, cwd=folder)


def compare(c):
    for page in sorted((common.ROOT / "docs").glob("*.md")):
        with tempfile.TemporaryDirectory() as folder:
            for language, text, expected in BLOCK.findall(page.read_text()):
                if language == "python":
                    printed = c.run(common.sys.executable, "-c", text, cwd=folder).stdout
                    c.check(f"{page.name}: Python runs", expected in ("", printed), printed.strip())
                elif "int main(" in text and "mpi.h" not in text:
                    run_c(c, text, folder)


common.main(compare)
