"""The vector kernels. CMake compiles them for each element type and instruction set, several files together. A mutant is
compiled for one instruction set only: the best that this processor has, which the tests use."""

import functools
import os
import re

# As in cmake/kernels.cmake, with flags of /proc/cpuinfo.
SETS = {
    "baseline": set(),
    "neon": {"asimd"},
    "avx2": {"avx2", "fma"},
    "avx512": {"avx512vl", "avx512bw", "avx512dq"},
}
ONE_SET = {"scalar.c": "scalar", "dpbf16.c": "avx512bf16", "amx.c": "amx"}
NEEDED = {"scalar": set(), "avx512bf16": {"avx512_bf16"}, "amx": {"avx512_bf16"}}  # the tests interpret tiles
INSTANCE = re.compile(r"f(?:32|64)_(\w+)")


@functools.cache
def processor_flags():
    with open("/proc/cpuinfo") as file:
        return next((set(line.split()) for line in file if re.match(r"flags|Features", line)), set())


def best(flags):
    return [name for name, needed in SETS.items() if needed <= flags][-1]


def is_chosen(target, flags=None):
    """Whether mutants of vector kernels are compiled as this target is: `f32_avx2`, say."""
    flags = processor_flags() if flags is None else flags
    instance = INSTANCE.fullmatch(target)
    if instance is None:
        return False
    return instance[1] == best(flags) or NEEDED.get(instance[1], {"never"}) <= flags


def missing(file, flags=None):
    """What this processor lacks to run a file of src: the name of an instruction set, or None."""
    flags = processor_flags() if flags is None else flags
    only = ONE_SET.get(os.path.basename(file)) if "/vector/" in file else None
    return only if only and not NEEDED[only] <= flags else None


def files_of(source, root):
    """The files that a compilation reads: the parts of a unity file, or the source itself."""
    if not re.fullmatch(r"unity_\d+_c\.c", os.path.basename(source)):
        return [source]
    with open(source) as file:
        parts = re.findall(r'^#include "(.+\.c)"$', file.read(), re.MULTILINE)
    return [os.path.join(root, part[part.index("src/") :]) for part in parts]
