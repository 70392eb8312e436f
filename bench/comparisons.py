"""Lists which precisions are compared: each of Tapehead's with its own float32, and with the fastest row of a peer in
the same class. bfloat16x3 belongs to the class of float32, because it has the same error. PyTorch's autocast and medium
belong to the class of bfloat16."""

from collections import namedtuple

from engines import OWN, TORCH, Row

OWN_FLOAT32, OWN_BFLOAT16X3, OWN_BFLOAT16 = OWN
TORCH_FLOAT32 = [row for row in TORCH if row.precision == "float32"]
TORCH_BFLOAT16 = [row for row in TORCH if row.precision != "float32"]
JAX_FLOAT32, JAX_BFLOAT16 = Row("jax", "float32"), Row("jax", "bfloat16")

# limits: configuration -> largest acceptable ratio on a processor with matrix units.
Comparison = namedtuple("Comparison", "name own others limits", defaults=[{}])
LIMITED = ["char12", "char64", "gpt2s", "gpt2l"]


def limits(*values):
    return dict(zip(LIMITED, values))


COMPARISONS = [
    Comparison("bfloat16 / own float32", OWN_BFLOAT16, [OWN_FLOAT32], limits(0.42, 0.40, 0.50, 0.38)),
    Comparison("bfloat16x3 / own float32", OWN_BFLOAT16X3, [OWN_FLOAT32], limits(0.62, 0.60, 0.70, 0.58)),
    Comparison("bfloat16 / PyTorch's fastest, any precision", OWN_BFLOAT16, TORCH, limits(0.8, 0.75, 0.8, 0.7)),
    Comparison("bfloat16x3 / PyTorch's fastest, float32", OWN_BFLOAT16X3, TORCH_FLOAT32, limits(0.55, 0.5, 0.6, 0.5)),
    Comparison("float32 / PyTorch's fastest, float32", OWN_FLOAT32, TORCH_FLOAT32),
    Comparison("bfloat16 / PyTorch's fastest, medium or autocast", OWN_BFLOAT16, TORCH_BFLOAT16),
    Comparison("float32 / JAX, float32", OWN_FLOAT32, [JAX_FLOAT32]),
    Comparison("bfloat16x3 / JAX, float32", OWN_BFLOAT16X3, [JAX_FLOAT32]),
    Comparison("bfloat16 / JAX, bfloat16", OWN_BFLOAT16, [JAX_BFLOAT16]),
]


def best(found, rows, figure):
    """Returns the row with the smallest figure, or None if none of the rows ran. found: row -> values."""
    return min((row for row in rows if row in found), key=lambda row: found[row][figure], default=None)


def ratio(found, own, others, figure):
    """Returns our figure divided by the smallest of the others, or None if one is missing."""
    other = best(found, others, figure)
    return found[own][figure] / found[other][figure] if own in found and other else None


def table(results):
    """Returns (header, rows): a row for each comparison with results, a column for each configuration."""
    rows = []
    for comparison in COMPARISONS:
        cells = []
        for name, found in results.items():
            least, median = (
                ratio(found, comparison.own, comparison.others, figure) for figure in ("min_ms", "median_ms")
            )
            limit = f" ({comparison.limits[name]:.2f})" if name in comparison.limits else ""
            cells.append("-" if least is None else f"{least:.2f} / {median:.2f}{limit}")
        if any(cell != "-" for cell in cells):
            rows.append([comparison.name, *cells])
    return ["", *results], rows
