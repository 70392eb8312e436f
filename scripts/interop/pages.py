"""The pages of docs: their programs in C and their lines of Python, one after another as they stand there, run, and what
stands below those in Python is what they print. (What stands below those in C is the tests' matter.)"""

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
            for language, text, printed in BLOCK.findall(page.read_text()):
                if language == "python":
                    said = c.run(common.sys.executable, "-c", text, cwd=folder).stdout
                    c.check(f"{page.name}: Python runs", printed in ("", said), said.strip())
                elif "int main(" in text:
                    run_c(c, text, folder)


common.main(compare)
