"""Installs the Python package with pip, and checks right and wrong gradients of PyTorch and NumPy functions with it."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

import common


def installed(folder):
    """Installs the package into folder, imports it, and returns it with its size in bytes."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, common.ROOT / "python"]
    subprocess.run(command, check=True)
    sys.path.insert(0, folder)
    import tapehead

    files = pathlib.Path(folder, "tapehead").rglob("*")
    return tapehead, sum(path.stat().st_size for path in files if path.is_file())


def swish(factor):
    """Returns x * sigmoid(x) with a gradient that is multiplied by factor."""

    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def backward(ctx, dy):
            (x,) = ctx.saved_tensors
            s = torch.sigmoid(x)
            return factor * dy * s * (1 + x * (1 - s))

    return Swish.apply


def compare_torch(c, tapehead):
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x = torch.linspace(0.3, 1.9, 12, dtype=dtype).reshape(3, 4).requires_grad_()
        verdict = tapehead.check(swish(1), x).verdict
        c.check(f"swish in {dtype}: accepted", verdict == "right", verdict)
        report = tapehead.check(swish(-1), x)
        c.check(f"negated swish in {dtype}: found", report.verdict == "wrong", report.verdict)
        if dtype != torch.bfloat16:  # rounding hides the sign of some elements
            c.check(f"negated swish in {dtype}: named", "opposite sign" in report.text)
        c.check(f"{dtype}: same answer as raise_exception", not tapehead.gradcheck(swish(-1), x, raise_exception=False))


def compare_numpy(c, tapehead):
    x = np.linspace(-1, 2, 6).reshape(2, 3)
    right, wrong = (lambda x, y, dy, k=k: k * x[0] * dy[0] for k in (2, 1))
    c.check("NumPy: accepted", tapehead.gradcheck(lambda x: x * x, x, vjp=right))
    try:
        tapehead.gradcheck(lambda x: x * x, x, vjp=wrong)
        c.check("NumPy: raises", False)
    except tapehead.GradcheckError as error:
        c.check("NumPy: raises", error.report.input == 0)


def compare(c):
    with tempfile.TemporaryDirectory() as folder:
        tapehead, size = installed(folder)
        c.check("less than 3 MB installed", size < 3e6, f"{size} bytes")
        compare_torch(c, tapehead)
        compare_numpy(c, tapehead)


if __name__ == "__main__":
    common.main(compare)
