"""exported_rounding.py ROOT: the comparison in exported scripts (src/export/python/check.py) accepts the rounding of
numbers that cancel, and nothing larger. Replaces compute() by a few lines that need no library."""

import contextlib
import io
import math
import pathlib
import random
import re
import struct
import sys

UNIT = 2.0**-23


class Vector(list):
    """Numbers with the few members of an array that the comparison uses."""

    @property
    def shape(self):
        return (len(self),)

    def reshape(self, _):
        return self

    def tolist(self):
        return list(self)


def perturbed(x):
    return Vector(n * (1 + UNIT * random.choice((-1, 1))) for n in x)


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def exit_status(source, factor, as_float32):
    """Runs the comparison on d = a s - b s, where b is nearly a. The library's d is `factor` times the right one, or
    has the rounding of float32."""
    a = [0.3 + 0.01 * i for i in range(64)]
    b = [n * (1 + 1e-7) for n in a]
    s = 1.1
    right = [x * s - y * s for x, y in zip(a, b)]
    found = [float32(float32(x * s) - float32(y * s)) if as_float32 else d * factor for x, y, d in zip(a, b, right)]

    def given(name):
        return Vector({"a": a, "b": b}[name])

    def th_scale(x):
        return Vector(n * s for n in x)

    def th_sub(x, y):
        return Vector(m - n for m, n in zip(x, y))

    script = {"math": math, "re": re, "struct": struct, "LIBRARY": "Python", "TOLERANCE": 1e-4, "SAFETY": 4}
    script |= {"UNIT": UNIT, "ROUNDED_RUNS": 3, "perturbed": perturbed}
    script |= {"given": given, "th_scale": th_scale, "th_sub": th_sub}
    script |= {"VALUES": {}, "GRADIENTS": {"d": ("float32", (64,), " ".join(map(repr, found)))}, "__file__": __file__}
    exec(source, script)
    exec("def compute():\n    return {}, {'d': th_sub(th_scale(given('a')), th_scale(given('b')))}\n", script)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = script["main"]()
    return status, output.getvalue()


def main():
    source = (pathlib.Path(sys.argv[1]) / "src" / "export" / "python" / "check.py").read_text(encoding="utf-8")
    random.seed(1)
    cases = [("exact", 1, False, 0), ("rounded to float32", 1, True, 0), ("100 times too large", 100, False, 1)]
    wrong = 0
    for name, factor, as_float32, expected in cases:
        status, output = exit_status(source, factor, as_float32)
        if status != expected:
            wrong += 1
            print(f"{name}: the exit status is {status}; it should be {expected}\n{output}")
    return 1 if wrong else 0


sys.exit(main())
