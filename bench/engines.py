"""Lists the rows of a session (an engine and a precision) and the variants of each row.

A row's figures are the figures of its fastest variant."""

from collections import namedtuple

Row = namedtuple("Row", "engine precision")
Variant = namedtuple("Variant", "row name environment")

# Tells glibc to keep freed memory. Otherwise PyTorch would have page faults in every step.
KEEP_MEMORY = (
    ("MALLOC_MMAP_THRESHOLD_", "4294967296"),
    ("MALLOC_TRIM_THRESHOLD_", "17179869184"),
    ("MALLOC_TOP_PAD_", "67108864"),
)
YNN = (("XLA_FLAGS", "--xla_cpu_experimental_ynn_fusion_type=individual_dot"),)

TUNED = [("tuned", KEEP_MEMORY), ("compiled", KEEP_MEMORY)]
ROWS = {  # in the order of tables: variants with their environments, the quickest to measure first
    Row("tapehead", "float32"): [("", ())],
    Row("tapehead", "bfloat16x3"): [("", ())],
    Row("tapehead", "bfloat16"): [("", ())],
    Row("torch-default", "float32"): [("default", ())],
    Row("torch", "float32"): TUNED,
    Row("torch", "medium"): TUNED,
    Row("torch", "autocast"): TUNED,
    Row("jax", "float32"): [("default", ()), ("ynn", YNN)],
    Row("jax", "bfloat16"): [("default", ()), ("cast", ())],
}
OWN = [row for row in ROWS if row.engine == "tapehead"]
TORCH = [row for row in ROWS if row.engine.startswith("torch")]
PRECISIONS = list(dict.fromkeys(row.precision for row in ROWS))
FRAMEWORKS = ["tapehead", "torch", "jax"]


def framework(row):
    """Returns the framework of a row; for peers this is also the name of the Python module."""
    return row.engine.partition("-")[0]


def variants(row, quick):
    """Returns the variants of a row; a quick session uses only the first, because compiling takes half a minute."""
    chosen = ROWS[row][:1] if quick else ROWS[row]
    return [Variant(row, name, environment) for name, environment in chosen]


def quick_rows(small):
    """Returns the rows of a quick session: without rows that differ little, or differ only for large models."""
    left_out = [Row("jax", "bfloat16")] + ([Row("torch", "medium"), Row("torch", "autocast")] if small else [])
    return [row for row in ROWS if row not in left_out]
