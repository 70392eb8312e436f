"""Compares the numbers of GGUF's block formats with those of the Python package gguf. Fixture: tests/fixtures/gguf_blocks/blocks.h,
blocks of each format with random bits, and their numbers."""

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

import common

SCALES = {  # the offset of the scales in a block, and their number
    "Q4_1": (0, 2), "Q5_0": (0, 1), "Q5_1": (0, 2), "IQ4_NL": (0, 1), "Q2_K": (80, 2), "Q3_K": (108, 1), "Q4_K": (0, 2),
    "Q5_K": (0, 2), "Q6_K": (208, 1), "IQ4_XS": (0, 1)}


def blocks_of(name, count):
    """Returns blocks with random bits, whose scales are finite, and their numbers."""
    kind = GGMLQuantizationType[name]
    random = np.random.default_rng(sum(name.encode()))
    blocks = random.integers(0, 256, (count, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    first, scales = SCALES[name]
    values = (random.standard_normal((count, scales)) * 0.01).astype(np.float16)
    blocks[:, first:first + 2 * scales] = values.view(np.uint8)
    return blocks, gguf.dequantize(blocks, kind).astype(np.float32)


def lines_of(values, form, in_line):
    texts = [form(value) for value in values]
    return ["    " + " ".join(texts[i:i + in_line]) for i in range(0, len(texts), in_line)]


def fixtures(folder):
    lines = ["/* Written by scripts/interop/gguf_blocks.py: blocks of GGUF files, and their numbers as bits of float32. */",
             "/* clang-format off */"]
    for name in SCALES:
        blocks, numbers = blocks_of(name, 2 if GGML_QUANT_SIZES[GGMLQuantizationType[name]][0] == 32 else 1)
        lines += [f"static const uint8_t {name}_blocks[] = {{"]
        lines += lines_of(blocks.ravel(), lambda byte: f"{byte},", 24)
        lines += ["};", f"static const uint32_t {name}_numbers[] = {{"]
        lines += lines_of(numbers.ravel().view(np.uint32), lambda bits: f"0x{bits:08x},", 9)
        lines += ["};"]
    (folder / "blocks.h").write_text("\n".join(lines) + "\n")


def compare(c):
    for name in SCALES:  # main compares the fixture itself
        c.check("all numbers are finite", np.isfinite(blocks_of(name, 100)[1]).all(), name)


if __name__ == "__main__":
    common.main(compare, fixtures)
