"""Builds the checker's shared library from the sources of this repository: only those that need no tensor and no tape."""

import pathlib

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path("..")
SOURCES = pathlib.Path("sources.txt").read_text().split()


class BuildLibrary(build_ext):
    """The library is not a Python module: it has no init function, and its name has no tag of a Python version."""

    def get_ext_filename(self, fullname):
        return fullname.replace(".", "/") + ".so"

    def get_export_symbols(self, ext):
        return []


check = Extension(
    "tapehead._check",
    ["tapehead/bridge.c"] + [str(path) for pattern in SOURCES for path in sorted(ROOT.glob(pattern))],
    include_dirs=[str(ROOT / "include"), str(ROOT / "src")],
    define_macros=[("_DEFAULT_SOURCE", None)],
    extra_compile_args=["-std=c11", "-fvisibility=hidden", "-g0"],
    libraries=["m"],
)
setup(packages=["tapehead"], ext_modules=[check], cmdclass={"build_ext": BuildLibrary})
