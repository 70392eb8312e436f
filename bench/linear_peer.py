"""Times torch.nn.functional.linear on float32 matrices and measures its error against float64; see linear.c.

Precisions: float32; medium lets oneDNN round operands to bfloat16; bfloat16 has operands and results in bfloat16;
autocast casts float32 operands in every call."""

import argparse
import time

import torch
import torch.nn.functional as F

from peer import torch_build

SAMPLES = 2000

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("shapes", nargs="+", help="m,n,k")
parser.add_argument("--precision", choices=["float32", "medium", "bfloat16", "autocast"], default="float32")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seconds", type=float, default=0.2, help="for each shape")
options = parser.parse_args()
torch.set_num_threads(options.threads)
torch.manual_seed(1)
torch.set_float32_matmul_precision("medium" if options.precision == "medium" else "highest")


def largest_error(x, w, y):
    """Returns the largest error of y (m, n) = x wᵀ at random elements; x (m, k), w (n, k)."""
    at = torch.randint(y.numel(), (SAMPLES,))
    products = x[at // y.shape[1]].double() * w[at % y.shape[1]].double()
    return ((y.flatten()[at].double() - products.sum(1)).abs() / products.abs().sum(1)).max().item()


def least_seconds(run):
    """Like least_seconds in measure.h: the minimum of several samples, each long enough for the clock."""
    run()
    repeat, least, start = 1, float("inf"), time.monotonic()
    while time.monotonic() - start < options.seconds or least == float("inf"):
        begin = time.monotonic()
        for _ in range(repeat):
            run()
        seconds = time.monotonic() - begin
        if seconds < 1e-4:
            repeat *= 2
        else:
            least = min(least, seconds / repeat)
    return least


print(f"build={torch_build(torch)}\nm,n,k,us,gflops,error")
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "autocast"):
    for m, n, k in (map(int, shape.split(",")) for shape in options.shapes):
        x, w = (2 * torch.rand(rows, k) - 1 for rows in (m, n))
        a, b = (z.bfloat16() if options.precision == "bfloat16" else z for z in (x, w))
        error = largest_error(x, w, F.linear(a, b))
        seconds = least_seconds(lambda: F.linear(a, b))
        print(f"{m},{n},{k},{seconds * 1e6:.2f},{2e-9 * m * n * k / seconds:.1f},{error:.2e}")
