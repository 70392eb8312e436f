"""The configurations of configurations.def, and the work of one of their steps."""

import pathlib
import re
from collections import namedtuple

Configuration = namedtuple("Configuration", "name layers width heads vocabulary batch length mlp")


def read_configurations():
    """Name -> Configuration, in the file's order."""
    text = (pathlib.Path(__file__).parent / "configurations.def").read_text()
    rows = (line.split(",") for line in re.findall(r"^CONFIGURATION\((.*)\)$", text, re.MULTILINE))
    found = (Configuration(name, *map(int, numbers)) for name, *numbers in rows)
    return {c.name: c for c in found}


def work(c):
    """Floating-point operations of a step: the weights' products forward and twice backward, and causal attention's.
    The tied embedding counts once (as the classifier), positions do not."""
    weights = c.layers * (12 if c.mlp else 4) * c.width**2 + c.vocabulary * c.width
    tokens = c.batch * c.length
    return 6 * weights * tokens + 6 * c.layers * c.width * c.length * tokens
