"""The Python package's shared library, with only the standard library: three rules, of which two are wrong.

usage: test_python.py SOURCE CC"""

import ctypes
import pathlib
import shutil
import subprocess
import sys
import tempfile

root, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
with tempfile.TemporaryDirectory() as folder:
    package = pathlib.Path(folder) / "tapehead"
    shutil.copytree(root / "python" / "tapehead", package, ignore=shutil.ignore_patterns("*.so"))
    subprocess.run(["sh", root / "scripts" / "amalgamate.sh", "--check", folder], check=True)
    sources = [package / "bridge.c", pathlib.Path(folder) / "tapehead_check.c"]
    options = ["-std=c99", f"-I{folder}", "-fPIC", "-shared"]
    subprocess.run([compiler, *options, *sources, "-lm", "-o", package / "_check.so"], check=True)
    sys.path.insert(0, folder)
    from tapehead import library


def verdict(gradient, dtype="float64"):
    """Checks y = x * x with this rule for dx, given (x, dy)."""
    kind = ctypes.c_double if dtype == "float64" else ctypes.c_float

    def call(which, inputs, outputs, cotangents, gradients):
        def array(addresses):
            return (kind * 5).from_address(addresses[0])

        x = array(inputs)
        for i in range(5):
            if which == 0:
                array(outputs)[i] = x[i] * x[i]
            else:
                array(gradients)[i] = gradient(x[i], array(cotangents)[i])
        return 0

    port = [("x", dtype, (5,), False, None)]
    return library.check("square", call, port, port, library.Options())


for dtype in ("float64", "float32"):
    right = verdict(lambda x, dy: 2 * x * dy, dtype)
    assert (right.verdict, right.text) == (1, b""), right.text
    factor = verdict(lambda x, dy: x * dy, dtype)
    assert factor.verdict == 2 and b"square" in factor.text, factor.text
    sign = verdict(lambda x, dy: -2 * x * dy, dtype)
    assert sign.verdict == 2 and b"opposite sign" in sign.text, sign.text
