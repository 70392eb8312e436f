"""Reads configurations.def and counts the work of a training step."""

import pathlib
import re
from collections import namedtuple

Configuration = namedtuple("Configuration", "name layers width heads vocabulary batch length mlp")


def read_configurations():
    """Returns {name: Configuration} in the order of the file."""
    text = (pathlib.Path(__file__).parent / "configurations.def").read_text()
    rows = (line.split(",") for line in re.findall(r"^CONFIGURATION\((.*)\)$", text, re.MULTILINE))
    found = (Configuration(name, *map(int, numbers)) for name, *numbers in rows)
    return {c.name: c for c in found}


def work(c):
    """Returns the floating-point operations of a step: products with weights, forward and twice backward, and causal
    attention. The tied embedding counts once (as the classifier); the position embedding does not count."""
    weights = c.layers * (12 if c.mlp else 4) * c.width**2 + c.vocabulary * c.width
    tokens = c.batch * c.length
    return 6 * weights * tokens + 6 * c.layers * c.width * c.length * tokens
