"""Builds the checker's shared library from the two files that scripts/amalgamate.sh --check makes of this repository."""

import pathlib
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SCRIPT = pathlib.Path("..", "scripts", "amalgamate.sh")
FILES = pathlib.Path("build", "check")


class BuildLibrary(build_ext):
    """The library is not a Python module: it has no init function, and its name has no tag of a Python version."""

    def run(self):
        subprocess.run(["sh", SCRIPT, "--check", FILES], check=True)
        super().run()

    def get_ext_filename(self, fullname):
        return fullname.replace(".", "/") + ".so"

    def get_export_symbols(self, ext):
        return []


check = Extension(
    "tapehead._check",
    ["tapehead/bridge.c", str(FILES / "tapehead_check.c")],
    include_dirs=[str(FILES)],
    extra_compile_args=["-std=c99", "-fvisibility=hidden", "-g0"],
    libraries=["m"],
)
setup(packages=["tapehead"], ext_modules=[check], cmdclass={"build_ext": BuildLibrary})
